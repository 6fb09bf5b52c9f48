//! From a caller's name to something open, beneath a root.
//!
//! Owns: every look-up of a path that a caller gave. The name only chooses the root, by
//! whole components; the kernel resolves the rest with RESOLVE_BENEATH, so `..` and
//! symlinks lead nowhere else and no string is compared to find that out. Where the kernel
//! says no, [`way`] finds out why, and follows absolute symlinks that lead into a root.
//! Must not: fall back to anything weaker, or open what is not a file or directory other
//! than by O_PATH.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

use crate::error::{Doing, FileError, shown};
use crate::way::{self, Way};
use crate::{opened, own};
use tool_protocol::Fault;

/// How often a look-up is repeated that raced with a rename or a mount.
const RETRIES: usize = 128;
/// The longest path that is looked at; the kernel takes no longer one.
const LONGEST: usize = 65_536;

/// A directory that look-ups cannot leave.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: Arc<OwnedFd>,
    /// The kernel's name of it, when it was opened.
    real: Vec<u8>,
}

/// All that a caller may reach; the first is where relative names begin.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Root>,
    lasting: bool,
}

/// A name, divided: the root, and what follows in it.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The root.
    pub root: &'a Root,
    roots: &'a Roots,
    /// Relative; empty for the root itself. May hold `..` and symlinks: only the kernel
    /// says where it leads.
    pub rest: Vec<u8>,
    /// As the caller wrote it, for messages.
    pub said: Vec<u8>,
}

impl Root {
    /// Opens it; symlinks in `path` are the operator's, and are followed.
    pub fn open(path: &Path) -> Result<Root, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = Arc::new(open(path, flags, Mode::empty())?);
        let real = own::name(directory.as_fd())?;
        Ok(Root { path: path.to_owned(), directory, real })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its real name.
    pub(crate) fn real(&self) -> &[u8] {
        &self.real
    }

    /// The same, for as long as somebody needs it.
    pub(crate) fn kept(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.directory)
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Roots {
    /// Those, in this order.
    pub fn new(roots: Vec<Root>) -> Roots {
        Roots { roots, lasting: false }
    }

    /// Whether what is written beneath them is on disk before that is told.
    pub fn lasting(self, lasting: bool) -> Roots {
        Roots { lasting, ..self }
    }

    /// Whether it is to be.
    pub(crate) fn last(&self) -> bool {
        self.lasting
    }

    /// What stands before a path from that root on, in answers: nothing for the first, where
    /// relative names begin.
    pub fn shown(&self, root: &Root) -> Vec<u8> {
        match self.roots.first() {
            Some(first) if std::ptr::eq(first, root) => Vec::new(),
            _ => [root.path.as_os_str().as_bytes(), b"/"].concat(),
        }
    }

    /// Which root a caller's path names. Relative names begin at the first.
    pub fn place(&self, path: &str) -> Result<Place<'_>, FileError> {
        let said = path.as_bytes();
        if path.is_empty() || said.contains(&0) {
            let message = "path is empty or holds a NUL: give a name, or . for the workspace";
            return Err(FileError::said(Fault::InvalidInput, message));
        }
        if said.len() > LONGEST {
            return Err(FileError::system(Doing::Reading, said, Errno::ENAMETOOLONG));
        }
        let (root, rest) = self.divide(said).ok_or_else(|| outside(said))?;
        Ok(Place { root, roots: self, rest, said: said.to_vec() })
    }

    /// The root that a path begins in, and what follows; none where it begins elsewhere.
    pub(crate) fn divide(&self, path: &[u8]) -> Option<(&Root, Vec<u8>)> {
        if path.first() != Some(&b'/') {
            return self.roots.first().map(|root| (root, path.to_vec()));
        }
        let among = self.roots.iter().filter_map(|root| {
            let rest = beneath(path, root.path.as_os_str().as_bytes())?;
            Some((root, rest.to_vec()))
        });
        among.max_by_key(|(root, _)| components(root.path.as_os_str().as_bytes()).count())
    }
}

impl<'a> Place<'a> {
    /// All roots.
    pub(crate) fn roots(&self) -> &'a Roots {
        self.roots
    }

    /// Opens it by O_PATH, and its real name. The kernel is asked, however it was said: where a
    /// file system takes names that are written otherwise for the same, the caller's is not it.
    pub(crate) fn found(&self) -> Result<(OwnedFd, Vec<u8>), FileError> {
        let open = self.open(OFlag::O_PATH, Mode::empty())?;
        let name = opened::real_name(open.as_fd(), &self.said)?;
        Ok((open, name))
    }

    /// Opens it, without following what its last name may be a link to where `flags` say
    /// O_NOFOLLOW. Where that may be no file and no directory, only with O_PATH; makes
    /// nothing.
    pub fn open(&self, flags: OFlag, mode: Mode) -> Result<OwnedFd, FileError> {
        let doing = match flags.intersects(OFlag::O_WRONLY | OFlag::O_RDWR | OFlag::O_CREAT) {
            true => Doing::Writing,
            false => Doing::Reading,
        };
        let failed = |errno| FileError::system(doing, &self.said, errno);
        match open_beneath(self.root.as_fd(), &self.rest, flags, mode) {
            Ok(open) => return Ok(open),
            Err(errno) if !way::tells_more(errno) => return Err(failed(errno)),
            Err(_) => {}
        }
        match way::follow(self, doing, !flags.contains(OFlag::O_NOFOLLOW))? {
            Way::Missing { .. } => Err(failed(Errno::ENOENT)),
            Way::There { .. } if flags.contains(OFlag::O_DIRECTORY) => Err(failed(Errno::ENOTDIR)),
            Way::There { open, .. } if flags.contains(OFlag::O_PATH) => Ok(open),
            Way::There { open, .. } => opened::again(open.as_fd(), flags).map_err(failed),
            Way::Directory(open) => open_beneath(open.as_fd(), b".", flags, mode).map_err(failed),
        }
    }
}

/// Opens a relative name beneath a directory. EXDEV: it leads out, whether or not anything
/// is there; ELOOP: a magic link, or too many.
pub fn open_beneath(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlag,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    open_as(directory, name, flags, mode, ResolveFlag::empty())
}

/// The same, where no part of the name may be a symlink (ELOOP).
pub fn open_straight(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlag,
) -> Result<OwnedFd, Errno> {
    open_as(directory, name, flags, Mode::empty(), ResolveFlag::RESOLVE_NO_SYMLINKS)
}

fn open_as(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlag,
    mode: Mode,
    more: ResolveFlag,
) -> Result<OwnedFd, Errno> {
    let name = OsStr::from_bytes(if name.is_empty() { b"." } else { name });
    let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(beneath | more);
    let mut tries = 0;
    loop {
        match openat2(directory, name, how) {
            Err(Errno::EAGAIN) if tries < RETRIES => tries += 1,
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// That a path leads out.
pub fn outside(said: &[u8]) -> FileError {
    let message = format!("{} leads out of the workspace: name a path in it", shown(said));
    FileError::said(Fault::PathOutsideWorkspace, message)
}

/// What follows `prefix` in `path`, by whole components, as it was written; `.` and empty
/// ones say nothing.
fn beneath<'a>(path: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let mut rest = path;
    for component in components(prefix) {
        rest = after_blanks(rest).strip_prefix(component)?;
        if !matches!(rest.first(), None | Some(b'/')) {
            return None;
        }
    }
    // A slash at the end is kept: what it follows has to be a directory.
    let inner = after_blanks(rest);
    Some(if inner.is_empty() { b"." } else { inner })
}

/// Without slashes and `.` at the beginning.
fn after_blanks(mut path: &[u8]) -> &[u8] {
    loop {
        path = match path {
            [b'/', rest @ ..] | [b'.', b'/', rest @ ..] => rest,
            [b'.'] => return b"",
            _ => return path,
        }
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !matches!(*component, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use crate::fixture::Workspace;

    #[test]
    fn a_real_name_is_the_kernels_however_it_was_said() {
        let workspace = Workspace::new();
        fs::create_dir_all(workspace.at("a/b")).unwrap();
        fs::write(workspace.at("a/b/file"), "text").unwrap();
        symlink("a", workspace.at("link")).unwrap();
        symlink("b/file", workspace.at("a/other")).unwrap();
        symlink(workspace.at("a"), workspace.at("absolute")).unwrap();
        let absolute = workspace.at("a/b/file").display().to_string();
        let names = [
            ".",
            "a",
            "a/",
            "a/b/file",
            "./a//b/./file",
            "a/../a/b/file",
            "link",
            "link/b/file",
            "a/other",
            "absolute/b/file",
            &absolute,
        ];
        for said in names {
            let (_, name) = workspace.roots.place(said).unwrap().found().unwrap();
            let real = fs::canonicalize(workspace.at(said)).unwrap();
            assert_eq!(String::from_utf8(name).unwrap(), real.display().to_string(), "{said}");
        }
        fs::rename(workspace.at("a/b"), workspace.at("c")).unwrap();
        assert!(workspace.roots.place("a/b/file").unwrap().found().is_err());
        let (_, name) = workspace.roots.place("c/file").unwrap().found().unwrap();
        assert!(name.ends_with(b"/root/c/file"));
    }
}
