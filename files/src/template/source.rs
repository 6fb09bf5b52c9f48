//! A template's files: given, or in a directory of the workspace.
//!
//! Owns: listing them and reading them. Of a directory all regular files count, hidden ones
//! too, `.git` left out; a symlink or a device in it is an error. Each is opened beneath
//! the directory that is open, without following. Must not: change anything.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{SFlag, fstat};
use tool_protocol::Fault;

use super::{BYTES, FILES, TemplateFile, below, decoded, invalid, shown_text, too_large, too_many};
use crate::error::{Doing, FileError};
use crate::root::{Roots, open_straight};
use crate::{opened, shape};

/// How deep a template goes.
const DEPTH: usize = 32;
/// How many entries of directories are looked at.
const ENTRIES: usize = 20_000;

/// Where the files are.
#[derive(Debug)]
pub(super) enum Source {
    /// In the input.
    Given(Vec<(String, Vec<u8>, Option<u32>)>),
    /// In a directory, open; its real name; their names in it.
    Directory(OwnedFd, Vec<u8>, Vec<String>),
}

impl Source {
    /// Those of an input.
    pub(super) fn given(files: Vec<TemplateFile>) -> Result<Source, FileError> {
        if files.len() > FILES {
            return Err(too_many());
        }
        let one = |file: TemplateFile| {
            let mode = file.mode.as_deref().map(|text| mode(text, &file.path)).transpose()?;
            let content = decoded(&file)?;
            Ok((file.path, content, mode))
        };
        files.into_iter().map(one).collect::<Result<_, _>>().map(Source::Given)
    }

    /// Those of a directory.
    pub(super) fn open(roots: &Roots, path: &str) -> Result<Source, FileError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let directory = roots.place(path)?.open(flags, nix::sys::stat::Mode::empty())?;
        let real = opened::real_name(directory.as_fd(), path.as_bytes())?;
        let (mut names, mut seen) = (Vec::new(), 0);
        list(directory.as_fd(), "", path, DEPTH, &mut seen, &mut names)?;
        names.sort_unstable();
        Ok(Source::Directory(directory, real, names))
    }

    /// Their names beneath it.
    pub(super) fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Source::Given(files) => Box::new(files.iter().map(|(name, ..)| name.as_str())),
            Source::Directory(.., names) => Box::new(names.iter().map(String::as_str)),
        }
    }

    /// What is read of the workspace.
    pub(super) fn real_names(&self) -> Vec<Vec<u8>> {
        match self {
            Source::Given(_) => Vec::new(),
            Source::Directory(_, real, names) => {
                names.iter().map(|name| below(real, name)).collect()
            }
        }
    }

    /// One's content, of at most so many bytes, and its mode where it is to have one.
    pub(super) fn read(
        &mut self,
        place: usize,
        most: usize,
    ) -> Result<(Vec<u8>, Option<u32>), FileError> {
        match self {
            Source::Given(files) => {
                let Some((_, content, mode)) = files.get_mut(place) else {
                    return Err(invalid("the template has no files"));
                };
                Ok((std::mem::take(content), *mode))
            }
            Source::Directory(directory, _, names) => {
                let name = names.get(place).map(String::as_str).unwrap_or_default();
                read(directory.as_fd(), name, most)
            }
        }
    }
}

fn read(
    directory: BorrowedFd<'_>,
    name: &str,
    most: usize,
) -> Result<(Vec<u8>, Option<u32>), FileError> {
    let said = name.as_bytes();
    let failed = |errno| FileError::system(Doing::Reading, said, errno);
    let open = match open_straight(directory, said, OFlag::O_PATH | OFlag::O_NOFOLLOW) {
        Ok(open) => open,
        Err(Errno::ELOOP) => return Err(opened::changed(said)),
        Err(errno) => return Err(failed(errno)),
    };
    let stat = opened::regular(open.as_fd(), said)?;
    let file = opened::reading(open.as_fd()).map_err(failed)?;
    let mut content = Vec::new();
    let limit = shape::count(most).saturating_add(1);
    let read = file.take(limit).read_to_end(&mut content);
    read.map_err(|error| failed(opened::raw(&error)))?;
    if content.len() > most.min(BYTES) {
        return Err(too_large());
    }
    // Whether it can be run is kept, and nothing else of its mode.
    let mode = (stat.st_mode & 0o100 != 0).then_some(0o755);
    Ok((content, mode))
}

fn list(
    top: BorrowedFd<'_>,
    prefix: &str,
    said: &str,
    depth: usize,
    seen: &mut usize,
    names: &mut Vec<String>,
) -> Result<(), FileError> {
    let failed = |errno| FileError::system(Doing::Reading, said.as_bytes(), errno);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let open = open_straight(top, prefix.as_bytes(), flags).map_err(failed)?;
    let mut directory = Dir::from_fd(open).map_err(failed)?;
    let mut directories = Vec::new();
    for entry in directory.iter() {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().to_str() else {
            return Err(invalid("a name in the template is not UTF-8: take the file out of it"));
        };
        if matches!(name, "." | ".." | ".git") {
            continue;
        }
        *seen += 1;
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let look = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let stat = open_straight(top, path.as_bytes(), look).and_then(fstat).map_err(failed)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        match kind {
            SFlag::S_IFREG => names.push(path),
            SFlag::S_IFDIR => directories.push(path),
            _ => {
                let message = "is a symlink, or no file: a template has files and directories";
                let message = format!("{} of the template {message}", shown_text(&path));
                return Err(FileError::said(Fault::NotAFile, message));
            }
        }
        if names.len() > FILES || *seen > ENTRIES {
            return Err(too_many());
        }
    }
    drop(directory);
    for path in directories {
        if depth == 0 {
            return Err(invalid(format!("the template is deeper than {DEPTH} directories")));
        }
        list(top, &path, said, depth - 1, seen, names)?;
    }
    Ok(())
}

fn mode(text: &str, path: &str) -> Result<u32, FileError> {
    let digits = text.len() <= 5 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777);
    mode.ok_or_else(|| {
        let (text, path) = (shown_text(text), shown_text(path));
        invalid(format!("{path}: {text} is no mode: give three octal digits, such as 755"))
    })
}
