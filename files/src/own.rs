//! What this process has open, by number: its name, and itself once more.
//!
//! Owns: the way there, /proc/self/fd, which is opened once: three names less are looked up
//! each time. Must not: be used by a process that was forked since, whose numbers mean other
//! things.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use rustix::fs::{OFlags, openat, readlinkat};
use rustix::path::DecInt;

/// Directory of all that is open here, by number.
const HERE: &str = "/proc/self/fd";

/// That directory.
fn here() -> Result<BorrowedFd<'static>, Errno> {
    static OPEN: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(there) = OPEN.get() {
        return Ok(there.as_fd());
    }
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = open(HERE, flags, Mode::empty())?;
    Ok(OPEN.get_or_init(|| opened).as_fd())
}

/// A path that leads to what is open, whatever it is called.
pub(crate) fn link(file: BorrowedFd<'_>) -> String {
    format!("{HERE}/{}", file.as_raw_fd())
}

/// Opens it once more.
pub(crate) fn again(file: BorrowedFd<'_>, flags: OFlag) -> Result<OwnedFd, Errno> {
    let flags = OFlags::from_bits_retain(flags.bits().cast_unsigned());
    openat(here()?, DecInt::from_fd(file), flags, rustix::fs::Mode::empty()).map_err(errno)
}

/// The kernel's name of it.
pub(crate) fn name(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let name = readlinkat(here()?, DecInt::from_fd(file), Vec::new());
    name.map(CString::into_bytes).map_err(errno)
}

/// What rustix says, as nix says it.
pub(crate) fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::fixture::Workspace;

    #[test]
    fn what_is_open_is_found_by_its_number_whatever_it_is_called_now() {
        let workspace = Workspace::new();
        std::fs::write(workspace.at("a"), "text").unwrap();
        let file = open(&workspace.at("a"), OFlag::O_PATH, Mode::empty()).unwrap();
        std::fs::rename(workspace.at("a"), workspace.at("b")).unwrap();
        let real = std::fs::canonicalize(workspace.at("b")).unwrap();
        assert_eq!(name(file.as_fd()).unwrap(), real.as_os_str().as_bytes());
        let mut text = String::new();
        let again = again(file.as_fd(), OFlag::O_RDONLY).unwrap();
        File::from(again).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(std::fs::read_to_string(link(file.as_fd())).unwrap(), "text");
    }
}
