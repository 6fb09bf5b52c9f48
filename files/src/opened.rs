//! Regular files, and only these, opened through what is open.
//!
//! Owns: what a thing that is open by O_PATH is, its real name, and opening it for real
//! without looking its name up again. What an inode is does not change, so what was found
//! to be a regular file is one when it is opened; nothing else is ever opened, so no pipe
//! is waited for and no device is touched. Must not: take a path.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{AccessFlags, faccessat};

use crate::error::{Doing, FileError, shown};
use crate::own;
use crate::root::open_beneath;
use tool_protocol::Fault;

/// Opens for real what is open by O_PATH. It has to be a regular file or a directory.
pub(crate) fn again(file: BorrowedFd<'_>, flags: OFlag) -> Result<OwnedFd, Errno> {
    // A lease that another holds is not waited for.
    let always = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let flags = (flags | always) - OFlag::O_NOFOLLOW - OFlag::O_CREAT - OFlag::O_EXCL;
    loop {
        match own::again(file, flags) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// To read it.
pub(crate) fn reading(file: BorrowedFd<'_>) -> Result<File, Errno> {
    again(file, OFlag::O_RDONLY).map(File::from)
}

/// Whether the process may change its content; nothing is opened for it.
pub(crate) fn may_write(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let own = AtFlags::AT_EACCESS | AtFlags::AT_EMPTY_PATH;
    match faccessat(file, "", AccessFlags::W_OK, own) {
        // Before Linux 5.8.
        Err(Errno::EINVAL | Errno::ENOENT | Errno::ENOSYS) => {}
        other => return other,
    }
    let at = nix::fcntl::AT_FDCWD;
    faccessat(at, own::link(file).as_str(), AccessFlags::W_OK, AtFlags::AT_EACCESS)
}

/// What is known of it; an error where it is no regular file.
pub(crate) fn regular(file: BorrowedFd<'_>, said: &[u8]) -> Result<FileStat, FileError> {
    let stat = fstat(file).map_err(|errno| FileError::system(Doing::Reading, said, errno))?;
    match kind(&stat) {
        None => Ok(stat),
        Some(kind) => Err(not_a_file(said, kind)),
    }
}

/// That a thing is no file.
pub(crate) fn not_a_file(said: &[u8], kind: &str) -> FileError {
    FileError::said(Fault::NotAFile, format!("{} is {kind}: name a file", shown(said)))
}

/// What it is, where that is no regular file.
fn kind(stat: &FileStat) -> Option<&'static str> {
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    match kind {
        SFlag::S_IFREG => None,
        SFlag::S_IFDIR => Some("a directory"),
        SFlag::S_IFIFO => Some("a pipe"),
        SFlag::S_IFSOCK => Some("a socket"),
        SFlag::S_IFLNK => Some("a symlink"),
        _ => Some("a device"),
    }
}

/// The kernel's name of something open; an error where it has none any more.
pub(crate) fn real_name(open: BorrowedFd<'_>, said: &[u8]) -> Result<Vec<u8>, FileError> {
    let failed = |errno| FileError::system(Doing::Reading, said, errno);
    let name = own::name(open).map_err(failed)?;
    if name.ends_with(b" (deleted)") && fstat(open).map_err(failed)?.st_nlink == 0 {
        return Err(changed(said));
    }
    Ok(name)
}

/// The real name of what is, or is to be, called so beneath a directory.
pub(crate) fn real_below(
    directory: BorrowedFd<'_>,
    names: &[Vec<u8>],
    said: &[u8],
) -> Result<Vec<u8>, FileError> {
    let mut real = real_name(directory, said)?;
    for name in names {
        if real.last() != Some(&b'/') {
            real.push(b'/');
        }
        real.extend(name);
    }
    Ok(real)
}

/// The kernel's word in an error of the standard library.
pub(crate) fn raw(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// That it is not what it was a moment ago.
pub(crate) fn changed(said: &[u8]) -> FileError {
    let message = "somebody changed it meanwhile: read it again, then try again";
    FileError::said(Fault::FileChanged, format!("{}: {message}", shown(said)))
}

/// What a directory has under a name, by O_PATH, without following a symlink.
pub(crate) fn look(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    match open_beneath(directory, name, OFlag::O_PATH | OFlag::O_NOFOLLOW, Mode::empty()) {
        Ok(open) => Ok(Some(open)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What is known of what a directory has under a name, without following a symlink.
pub(crate) fn stat_of(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileStat>, Errno> {
    match fstatat(directory, OsStr::from_bytes(name), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether two are the same thing.
pub(crate) fn same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Whether two are the same thing, and nobody changed it in between.
pub(crate) fn untouched(one: &FileStat, other: &FileStat) -> bool {
    let when = |stat: &FileStat| {
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        (modified, (stat.st_ctime, stat.st_ctime_nsec), stat.st_size)
    };
    same(one, other) && when(one) == when(other)
}

/// An error where a name does not mean any more what was read, or somebody changed that, or
/// the directory is called otherwise than when its real name was decided on.
pub(crate) fn still(
    (directory, name): (BorrowedFd<'_>, &Vec<u8>),
    real: &[u8],
    read: Option<&FileStat>,
    said: &[u8],
) -> Result<(), FileError> {
    let now = || stat_of(directory, name).ok().flatten();
    let same = read.is_none_or(|read| now().is_some_and(|now| untouched(&now, read)));
    let called = real_below(directory, std::slice::from_ref(name), said)? == real;
    if same && called { Ok(()) } else { Err(changed(said)) }
}
