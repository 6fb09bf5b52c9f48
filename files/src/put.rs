//! Content that takes a name at once: nobody ever sees half of it.
//!
//! Owns: temporary files and what becomes of them. A temporary lies in the directory that
//! it is for, has no name there where the file system can do that (O_TMPFILE), so that
//! nothing is left of it whatever ends the process; else it is new (O_EXCL) and is removed
//! when it does not take its name. Where it is to last, it is on disk before. Directories
//! that are made on the way are removed again if in the end
//! there is nothing to put into them. Must not: follow a symlink, look up more than one
//! name in a directory that is open, or change a file that is there.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, close, fchown, fsync, linkat, unlinkat};

use crate::Stop;
use crate::attributes::{List, Other, keep, plain, same_list};
use crate::error::{Doing, FileError};
use crate::opened::{changed, raw};
use crate::own::link;
use crate::root::open_beneath;

/// How much is written between looks at whether to stop.
const CHUNK: usize = 1 << 20;

/// Content that has no name yet that anybody knows.
#[derive(Debug)]
pub(crate) struct Temporary<'a> {
    said: &'a [u8],
    name: Name<'a>,
    file: File,
    lasting: bool,
    not_kept: Vec<String>,
}

/// Where it lies, and what it is called there, where it has a name already: that is removed
/// when it does not take another.
#[derive(Debug)]
struct Name<'a> {
    directory: BorrowedFd<'a>,
    own: Option<String>,
}

/// A file that is replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Like<'a> {
    pub(crate) stat: &'a FileStat,
    /// Itself, by O_PATH.
    pub(crate) open: BorrowedFd<'a>,
    /// The same to be read, where it may be.
    pub(crate) file: Option<&'a File>,
}

/// What may be under the name that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Anything but a directory.
    What,
    /// Nothing.
    Nothing,
}

impl<'a> Temporary<'a> {
    /// Writes it, with the mode and, where the process may, the owner of `like`; where it is
    /// to be `lasting`, onto the disk.
    pub(crate) fn write(
        directory: BorrowedFd<'a>,
        said: &'a [u8],
        bytes: &[u8],
        like: Option<Like<'_>>,
        lasting: bool,
        stop: &Stop,
    ) -> Result<Temporary<'a>, FileError> {
        let failed = |errno| FileError::system(Doing::Writing, said, errno);
        // What belongs to the process takes attributes only where its mode lets it be written.
        let mode = like.map_or(0o644, |like| like.stat.st_mode & 0o777 | 0o600);
        // Under a name nobody else reads it before it is known who may.
        let named = if like.is_some() { 0o600 } else { mode };
        let (own, file) = fresh(directory, mode, named).map_err(failed)?;
        // From here on it is removed, whatever happens.
        let name = Name { directory, own };
        let mut temporary = Temporary { said, name, file, lasting, not_kept: Vec::new() };
        for chunk in bytes.chunks(CHUNK) {
            stop.check()?;
            let written = temporary.file.write_all(chunk);
            written.map_err(|error| failed(raw(&error)))?;
        }
        if let Some(like) = like {
            temporary.not_kept = liken(&temporary.file, like, said, stop)?;
        }
        let told = handed_over(&temporary.file, lasting);
        told.map_err(failed).map(|()| temporary)
    }

    /// Attributes of the file that it is like, and that it has not.
    pub(crate) fn not_kept(&mut self) -> Vec<String> {
        std::mem::take(&mut self.not_kept)
    }

    /// Takes the name, which [`last`] makes last. What it is then.
    pub(crate) fn take(mut self, name: &[u8], over: Over) -> Result<FileStat, FileError> {
        let said = self.said;
        let failed = |errno| FileError::system(Doing::Writing, said, errno);
        let stat = fstat(&self.file).map_err(failed)?;
        self.rename(OsStr::from_bytes(name), over).map_err(failed)?;
        self.name.own = None;
        Ok(stat)
    }

    fn rename(&mut self, name: &OsStr, over: Over) -> Result<(), Errno> {
        let at = self.name.directory;
        if self.name.own.is_none() {
            if over == Over::Nothing {
                return named(&self.file, at, name);
            }
            // Nothing takes the place of something without a name of its own.
            self.name.own = Some(unused(|name| named(&self.file, at, OsStr::new(name)))?.0);
        }
        let from = self.name.own.as_deref().unwrap_or_default();
        match over {
            // It is on disk: nothing is written out before.
            Over::What if self.lasting => renameat(at, from, at, name),
            Over::What => replace(at, from, name),
            Over::Nothing => match renameat2(at, from, at, name, RenameFlags::RENAME_NOREPLACE) {
                // Not every file system can; a link is never put over anything either.
                Err(Errno::EINVAL | Errno::ENOSYS) => linkat(at, from, at, name, AtFlags::empty())
                    .and_then(|()| unlinkat(at, from, UnlinkatFlags::NoRemoveDir)),
                other => other,
            },
        }
    }
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            remove(self.directory, own.as_bytes(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// What is called `from` takes the place of what has the name. In two steps, each at once: some
/// file systems write a file out before they let it take another's place by rename alone, so
/// that a power cut leaves no empty file, and the caller waits for the disk. `after` has
/// that begun when the caller has its answer.
fn replace(at: BorrowedFd<'_>, from: &str, name: &OsStr) -> Result<(), Errno> {
    let exchange = || renameat2(at, from, at, name, RenameFlags::RENAME_EXCHANGE);
    match exchange() {
        Ok(()) => {}
        // Nothing has the name any more, or the file system cannot.
        Err(Errno::ENOENT | Errno::EINVAL | Errno::ENOSYS) => {
            return renameat(at, from, at, name);
        }
        other => return other,
    }
    match unlinkat(at, from, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        // Somebody put a directory there: nothing takes the place of one.
        Err(errno) => exchange().and(Err(errno)),
    }
}

/// Directories that were made, and go again unless they are kept.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    made: Vec<(OwnedFd, Vec<u8>)>,
}

impl Parents {
    /// Makes them, one beneath the other. The last one.
    pub(crate) fn make(
        &mut self,
        top: OwnedFd,
        names: &[Vec<u8>],
        lasting: bool,
        said: &[u8],
    ) -> Result<OwnedFd, FileError> {
        let failed = |errno| FileError::system(Doing::Writing, said, errno);
        let mut here = top;
        for name in names {
            let mode = Mode::from_bits_truncate(0o755);
            let made = mkdirat(&here, OsStr::from_bytes(name), mode);
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
            let next = match open_beneath(here.as_fd(), name, flags, Mode::empty()) {
                Ok(next) => next,
                Err(_) if made == Err(Errno::EEXIST) => return Err(changed(said)),
                Err(errno) => return Err(failed(made.err().unwrap_or(errno))),
            };
            match made {
                Ok(()) => {
                    let synced = if lasting { sync(here.as_fd()) } else { Ok(()) };
                    // First: it was made, whatever comes.
                    self.made.push((here, name.clone()));
                    synced.map_err(failed)?;
                }
                // Somebody made it in this moment, for the same reason.
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            here = next;
        }
        Ok(here)
    }

    pub(crate) fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        for (directory, name) in self.made.drain(..).rev() {
            remove(directory.as_fd(), &name, UnlinkatFlags::RemoveDir);
        }
    }
}

/// Removes it, where that is possible: nothing more can be done about it.
pub(crate) fn remove(directory: BorrowedFd<'_>, name: &[u8], flags: UnlinkatFlags) {
    unlinkat(directory, OsStr::from_bytes(name), flags).unwrap_or_default();
}

/// A new file without a name; under one that nothing has, where the file system has no such,
/// with another mode.
fn fresh(
    directory: BorrowedFd<'_>,
    mode: u32,
    named: u32,
) -> Result<(Option<String>, File), Errno> {
    let (mode, named) = (Mode::from_bits_truncate(mode), Mode::from_bits_truncate(named));
    let unnamed = OFlag::O_TMPFILE | OFlag::O_WRONLY;
    match open_beneath(directory, b".", unnamed, mode) {
        Ok(file) => return Ok((None, File::from(file))),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOSYS) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
    let (name, file) = unused(|name| open_beneath(directory, name.as_bytes(), flags, named))?;
    Ok((Some(name), File::from(file)))
}

/// Tries names that begin with a dot until nothing has one.
fn unused<T>(mut attempt: impl FnMut(&str) -> Result<T, Errno>) -> Result<(String, T), Errno> {
    let mut tries = 0;
    loop {
        let name = format!(".tool-{:016x}.tmp", RandomState::new().hash_one(tries));
        match attempt(&name) {
            Err(Errno::EEXIST) if tries < 16 => tries += 1,
            other => return other.map(|made| (name, made)),
        }
    }
}

/// What was written is on disk, where it is to be. NFS, and some of FUSE, tell when a
/// descriptor is closed that there is no room for it: heard before anything is replaced by it.
pub(crate) fn handed_over(file: &File, lasting: bool) -> Result<(), Errno> {
    match lasting {
        true => fsync(file),
        false => close(file.try_clone().map_err(|error| raw(&error))?),
    }
}

/// Gives it what belongs to the file that it is to replace: attributes, and where the process
/// may, the owner; the mode and the list of people, for no more people than there. The names
/// of the attributes that it has not.
pub(crate) fn liken(
    file: &File,
    like: Like<'_>,
    said: &[u8],
    stop: &Stop,
) -> Result<Vec<String>, FileError> {
    let failed = |errno| FileError::system(Doing::Writing, said, errno);
    plain(file).map_err(failed)?;
    let other = Other::of(like);
    let not_kept = keep(file, &other, said, stop)?;
    let mut now = fstat(file).map_err(failed)?;
    if (now.st_uid, now.st_gid) != (like.stat.st_uid, like.stat.st_gid) {
        owned(file, like.stat);
        now = fstat(file).map_err(failed)?;
    }
    let list = match now.st_gid == like.stat.st_gid {
        true => same_list(file, &other),
        false => List::Other,
    };
    let mode = kept_mode(like.stat, list != List::Other);
    // A list that was handed on has changed the mode.
    if list == List::Same || now.st_mode & 0o7777 != mode {
        fchmod(file, Mode::from_bits_truncate(mode)).map_err(failed)?;
    }
    Ok(not_kept)
}

/// Gives a file that has no name this one, which nothing has.
fn named(file: &File, directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match linkat(file, "", directory, name, AtFlags::AT_EMPTY_PATH) {
        // Before Linux 6.10 not for everybody.
        Err(Errno::ENOENT | Errno::EPERM) => {}
        other => return other,
    }
    let from = link(file.as_fd());
    linkat(AT_FDCWD, from.as_str(), directory, name, AtFlags::AT_SYMLINK_FOLLOW)
}

/// The mode of `like`, for no more people than there: where its group or its list is not
/// kept, the group gets what all others have. What runs as its owner does not with content
/// that another gave it.
fn kept_mode(like: &FileStat, exact: bool) -> u32 {
    let mode = like.st_mode & 0o777;
    let group = if exact { mode } else { mode & (mode << 3) };
    mode & 0o707 | group & 0o070
}

/// Gives it to who owns `like`; else to its group; else it stays the process's.
fn owned(file: &File, like: &FileStat) {
    let (owner, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    if fchown(file, Some(owner), Some(group)).is_err() {
        fchown(file, None, Some(group)).unwrap_or_default();
    }
}

/// Makes a name last that content took. Where that fails, the name has it all the same.
pub(crate) fn last(directory: BorrowedFd<'_>, said: &[u8]) -> Result<(), FileError> {
    sync(directory).map_err(|errno| FileError::unsure(said, errno))
}

/// Its entries are on disk. Whoever may not read it cannot make sure of that.
pub(crate) fn sync(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let synced = open_beneath(directory, b".", flags, Mode::empty()).and_then(fsync);
    match synced {
        Err(Errno::EACCES | Errno::EINVAL) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::Workspace;

    /// As where the file system has no files without names.
    fn with_a_name<'a>(directory: BorrowedFd<'a>, content: &[u8]) -> Temporary<'a> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
        let mode = Mode::from_bits_truncate(0o644);
        let open = |name: &str| open_beneath(directory, name.as_bytes(), flags, mode);
        let (name, file) = unused(open).unwrap();
        let mut file = File::from(file);
        file.write_all(content).unwrap();
        let (name, said) = (Name { directory, own: Some(name) }, &b"f"[..]);
        Temporary { said, name, file, lasting: false, not_kept: Vec::new() }
    }

    #[test]
    fn a_temporary_with_a_name_takes_another_or_is_gone() {
        let workspace = Workspace::new();
        let directory = File::open(workspace.at(".")).unwrap();
        with_a_name(directory.as_fd(), b"new").take(b"f", Over::Nothing).unwrap();
        assert_eq!((workspace.get("f"), workspace.names(".")), (b"new".to_vec(), vec!["f".into()]));
        let there = with_a_name(directory.as_fd(), b"newer").take(b"f", Over::Nothing);
        assert!(there.is_err(), "{there:?}");
        assert_eq!((workspace.get("f"), workspace.names(".")), (b"new".to_vec(), vec!["f".into()]));
        with_a_name(directory.as_fd(), b"newest").take(b"f", Over::What).unwrap();
        drop(with_a_name(directory.as_fd(), b"never"));
        assert_eq!(workspace.names("."), ["f"]);
        assert_eq!(workspace.get("f"), b"newest");
    }

    #[test]
    fn a_temporary_takes_no_directorys_place_and_any_others() {
        let workspace = Workspace::new();
        let directory = File::open(workspace.at(".")).unwrap();
        workspace.put("f", "old");
        symlink("f", workspace.at("link")).unwrap();
        std::fs::create_dir(workspace.at("d")).unwrap();
        std::fs::write(workspace.at("d/inside"), "kept").unwrap();
        let there = || workspace.names(".");
        let taken = with_a_name(directory.as_fd(), b"new").take(b"d", Over::What);
        assert_eq!(taken.unwrap_err().fault(), tool_protocol::Fault::NotAFile);
        assert_eq!((workspace.get("d/inside"), there().len()), (b"kept".to_vec(), 3));
        with_a_name(directory.as_fd(), b"new").take(b"link", Over::What).unwrap();
        assert_eq!((workspace.get("link"), workspace.get("f")), (b"new".into(), b"old".into()));
        // Somebody took what was to be replaced away.
        with_a_name(directory.as_fd(), b"new").take(b"gone", Over::What).unwrap();
        assert_eq!(there(), ["d", "f", "gone", "link"]);
    }

    #[test]
    fn a_temporary_without_a_name_takes_one_or_is_nothing() {
        let workspace = Workspace::new();
        let directory = File::open(workspace.at(".")).unwrap();
        let stop = Stop::new(None);
        let write =
            |content| Temporary::write(directory.as_fd(), b"f", content, None, false, &stop);
        let one = write(b"new").unwrap();
        // Not every file system has files without a name; the rest is the same in all.
        assert!(one.name.own.is_some() || workspace.names(".").is_empty());
        one.take(b"f", Over::Nothing).unwrap();
        assert!(write(b"x").unwrap().take(b"f", Over::Nothing).is_err());
        write(b"newer").unwrap().take(b"f", Over::What).unwrap();
        assert!(write(b"x").unwrap().take(b"no/such", Over::What).is_err());
        assert_eq!(
            (workspace.get("f"), workspace.names(".")),
            (b"newer".to_vec(), vec!["f".into()])
        );
    }
}
