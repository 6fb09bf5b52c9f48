//! Small files and their names: beneath a root, and the operator's own.
//!
//! Must not: read what is not a regular file, or more of it than was said.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

use crate::broker::workspace::beneath;
use crate::os::foreign::Found;
use crate::os::root::{Plain, Root};

/// A longer HEAD, `.git` file or `commondir` is none of git's making.
pub(super) const SHORT: u64 = 4 * 1024;
/// A longer configuration is not read.
pub(super) const CONFIG: u64 = 256 * 1024;

/// The name beneath the root of what a file beside `place` says.
pub(super) fn inside(root: &Root, place: &[u8], said: &[u8]) -> Option<Vec<u8>> {
    let said = said.strip_suffix(b"\n").unwrap_or(said);
    if said.first() == Some(&b'/') {
        // As the caller names the root, or as the kernel does.
        let named = beneath(said, root.path().as_os_str().as_bytes());
        return named.or_else(|| beneath(said, root.resolved()));
    }
    Some(join(place, said))
}

pub(super) fn join(place: &[u8], name: &[u8]) -> Vec<u8> {
    if place.is_empty() { name.to_vec() } else { [place, b"/", name].concat() }
}

/// A file of the operator's; empty where there is none.
pub(super) fn operators(path: &Path) -> Option<Vec<u8>> {
    match File::open(path) {
        Ok(file) => take(&Found::new(file.into()), CONFIG),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}

/// A file of a tool's HOME; empty where there is none. The tool chooses what lies there: no
/// link is followed, and nothing that lies there is waited for.
pub(super) fn at_home(home: &Path, name: &str) -> Option<Vec<u8>> {
    let home = Root::open(home).and_then(|home| Plain::open(&home, OsStr::new("")));
    match home.and_then(|home| home.look(OsStr::new(name), OFlag::O_RDONLY)) {
        Ok(file) => take(&file, CONFIG),
        Err(Errno::ENOENT) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// What a regular file holds; `None` where it is none, or longer.
pub(super) fn take(file: &Found, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.kind() != Some(SFlag::S_IFREG) || file.take(most + 1).read_to_end(&mut bytes).is_err() {
        return None;
    }
    (bytes.len() as u64 <= most).then_some(bytes)
}
