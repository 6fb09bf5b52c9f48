//! What a file has beside its content, mode and owner.
//!
//! Owns: which extended attributes a file that is replaced hands on: its list of people
//! (ACL), and all that its users gave it (`user.*`). What the kernel or an administrator
//! gave it does not go over to content that another gave (capabilities, signatures, labels:
//! a new file has the label that its directory gives). Must not: read more than one value
//! at a time, or change the file that is replaced.

use std::fs::File;

use nix::errno::Errno;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr};

use crate::Stop;
use crate::error::{Doing, FileError, shown};
use crate::own::{errno, link};
use crate::put::Like;

/// The longest list of people that is kept.
const LIST: usize = 4096;
/// A file's list of people and groups, beside its mode.
const ACL: &str = "system.posix_acl_access";
/// A label of the kernel's own: what is new has one too.
const LABEL: &str = "security.selinux";
/// The longest list of names, and the longest value: the kernel's bound.
const LONGEST: usize = 64 << 10;
/// As long a list of names as most files have at most.
const FEW: usize = 512;

/// The file that is replaced: open to be read, or else found by what is open by O_PATH, which
/// takes five times as long.
pub(crate) enum Other<'a> {
    Open(&'a File),
    Link(String),
}

impl<'a> Other<'a> {
    pub(crate) fn of(like: Like<'a>) -> Other<'a> {
        like.file.map_or_else(|| Other::Link(link(like.open)), Other::Open)
    }

    fn list(&self, to: &mut [u8]) -> Result<usize, rustix::io::Errno> {
        match self {
            Other::Open(file) => flistxattr(file, to),
            Other::Link(link) => listxattr(link.as_str(), to),
        }
    }

    fn get(&self, name: &[u8], to: &mut [u8]) -> Result<usize, rustix::io::Errno> {
        match self {
            Other::Open(file) => fgetxattr(file, name, to),
            Other::Link(link) => getxattr(link.as_str(), name, to),
        }
    }
}

/// Gives it what the users of the other gave that. The names of what it has not.
pub(crate) fn keep(
    file: &File,
    other: &Other<'_>,
    said: &[u8],
    stop: &Stop,
) -> Result<Vec<String>, FileError> {
    let list = names(other).map_err(|error| failed(said, error))?;
    let (mut value, mut not_kept) = (Vec::new(), Vec::new());
    let names = list.split(|byte| *byte == 0);
    for name in names.filter(|name| !name.is_empty() && *name != ACL.as_bytes()) {
        stop.check()?;
        if !name.starts_with(b"user.") {
            if name != LABEL.as_bytes() {
                not_kept.push(shown(name));
            }
            continue;
        }
        value.resize(LONGEST, 0);
        match other.get(name, value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            // Somebody took it away in this moment.
            Err(rustix::io::Errno::NODATA) => continue,
            // Who may replace a file may not always read it.
            Err(error) if denied(error) => {
                not_kept.push(shown(name));
                continue;
            }
            Err(error) => return Err(failed(said, error)),
        }
        match fsetxattr(file, name, &value, XattrFlags::empty()) {
            Ok(()) => {}
            // In an overlay the new one may lie in another file system.
            Err(error) if denied(error) || error == rustix::io::Errno::OPNOTSUPP => {
                not_kept.push(shown(name));
            }
            Err(error) => return Err(failed(said, error)),
        }
    }
    Ok(not_kept)
}

/// The names of all that it has, each with a NUL behind it. Most files have none.
fn names(of: &Other<'_>) -> Result<Vec<u8>, rustix::io::Errno> {
    let mut few = [0; FEW];
    match of.list(&mut few[..]) {
        Ok(length) => return Ok(few.get(..length).unwrap_or_default().to_vec()),
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(rustix::io::Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    let mut list = vec![0; LONGEST];
    let length = of.list(list.as_mut_slice())?;
    list.truncate(length);
    Ok(list)
}

fn denied(error: rustix::io::Errno) -> bool {
    matches!(error, rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)
}

/// Of a file's list of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// The other has none, nor has this.
    None,
    /// This has the other's.
    Same,
    /// This has not the other's.
    Other,
}

/// Gives it the list of people that the other has.
pub(crate) fn same_list(file: &File, other: &Other<'_>) -> List {
    let mut list = [0; LIST];
    match other.get(ACL.as_bytes(), &mut list[..]) {
        Ok(length) => {
            let list = list.get(..length).unwrap_or_default();
            match fsetxattr(file, ACL, list, XattrFlags::empty()) {
                Ok(()) => List::Same,
                Err(_) => List::Other,
            }
        }
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => List::None,
        Err(_) => List::Other,
    }
}

/// Without the list of people that its directory gives to what is new: it takes the place
/// of a file that may have none.
pub(crate) fn plain(file: &File) -> Result<(), Errno> {
    use rustix::io::Errno as Said;
    let mut none: [u8; 0] = [];
    // Most have none, and to take away what is not there would be a change of the disk's.
    if let Err(Said::NODATA | Said::OPNOTSUPP) = fgetxattr(file, ACL, &mut none[..]) {
        return Ok(());
    }
    match fremovexattr(file, ACL) {
        Ok(()) | Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

fn failed(said: &[u8], error: rustix::io::Errno) -> FileError {
    FileError::system(Doing::Writing, said, errno(error))
}
