//! A caller's name followed one step after the other.
//!
//! Owns: what the kernel's one answer does not tell: where an absolute symlink leads that
//! names a root, which directory a file lies in, what is missing and would have to be
//! made, and whether a name leads out whose parts are not there. Each step is one name in
//! a directory that is open, looked up without following; a symlink's text is read from
//! the symlink that was opened, so nothing can be put in its place. Must not: open
//! anything other than by O_PATH, or look at anything above a root.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use tool_protocol::Fault;

use crate::error::{Doing, FileError, shown};
use crate::opened::raw;
use crate::root::{Place, Root, open_beneath, open_straight, outside};

/// How many symlinks are followed, as in the kernel.
const LINKS: usize = 40;

/// Where a name leads.
#[derive(Debug)]
pub(crate) enum Way {
    /// To something that is no directory.
    There {
        /// Where it lies.
        directory: OwnedFd,
        /// What it is called there.
        name: Vec<u8>,
        /// Itself, by O_PATH.
        open: OwnedFd,
    },
    /// To a directory, by O_PATH.
    Directory(OwnedFd),
    /// To nothing.
    Missing {
        /// What is there of it.
        directory: OwnedFd,
        /// What is not, beneath one another: at least one, none of them `.` or `..`.
        names: Vec<Vec<u8>>,
        /// It was called with a slash at the end.
        slash: bool,
    },
}

/// Whether following a name by steps may tell more than the kernel did.
pub(crate) fn tells_more(errno: Errno) -> bool {
    use Errno::{EACCES, EAGAIN, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EXDEV};
    matches!(errno, EACCES | EAGAIN | ELOOP | ENAMETOOLONG | ENOENT | ENOTDIR | EXDEV)
}

/// Follows it; a symlink as its last part too, where `last`.
pub(crate) fn follow(place: &Place<'_>, doing: Doing, last: bool) -> Result<Way, FileError> {
    if let Some(way) = straight(place) {
        return Ok(way);
    }
    let here = reopened(place.root).map_err(|errno| place.failed(doing, errno))?;
    let mut steps =
        Steps { place, doing, root: place.root, names: Vec::new(), here, left: vec![], links: 0 };
    steps.before(&place.rest);
    steps.run(last)
}

/// What most names are: no symlink in them, and something there that is no directory. None:
/// the steps tell.
fn straight(place: &Place<'_>) -> Option<Way> {
    let at = place.rest.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = match at {
        Some(at) => (place.rest.get(..at)?, place.rest.get(at + 1..)?),
        None => (&b"."[..], place.rest.as_slice()),
    };
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let directory = open_straight(place.root.as_fd(), parent, flags).ok()?;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
    let open = open_beneath(directory.as_fd(), name, flags, Mode::empty()).ok()?;
    let kind = SFlag::from_bits_truncate(fstat(&open).ok()?.st_mode) & SFlag::S_IFMT;
    let there = kind != SFlag::S_IFDIR && kind != SFlag::S_IFLNK;
    there.then(|| Way::There { directory, name: name.to_vec(), open })
}

struct Steps<'a> {
    place: &'a Place<'a>,
    doing: Doing,
    root: &'a Root,
    /// How `here` is called beneath the root, without symlinks.
    names: Vec<Vec<u8>>,
    here: OwnedFd,
    /// What is still to do, the next at the end.
    left: Vec<Vec<u8>>,
    links: usize,
}

impl Steps<'_> {
    fn run(mut self, last: bool) -> Result<Way, FileError> {
        while let Some(step) = self.left.pop() {
            match step.as_slice() {
                b"." => {}
                b".." => self.up()?,
                _ => {
                    if let Some(way) = self.down(step, last)? {
                        return Ok(way);
                    }
                }
            }
        }
        Ok(Way::Directory(self.here))
    }

    fn up(&mut self) -> Result<(), FileError> {
        if self.names.pop().is_none() {
            return Err(outside(&self.place.said));
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        match open_straight(self.root.as_fd(), &self.names.join(&b'/'), flags) {
            Ok(here) => self.here = here,
            // Somebody moves directories about: what was there is not there now.
            Err(Errno::ELOOP | Errno::ENOTDIR) => return Err(self.no(Errno::ENOENT)),
            Err(errno) => return Err(self.no(errno)),
        }
        Ok(())
    }

    fn down(&mut self, name: Vec<u8>, last: bool) -> Result<Option<Way>, FileError> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let open = match open_beneath(self.here.as_fd(), &name, flags, Mode::empty()) {
            Ok(open) => open,
            Err(Errno::ENOENT) => return self.missing(name).map(Some),
            Err(errno) => return Err(self.no_further(errno)),
        };
        let stat = fstat(&open).map_err(|errno| self.no(errno))?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if kind == SFlag::S_IFDIR {
            self.here = open;
            self.names.push(name);
        } else if kind == SFlag::S_IFLNK && (last || !self.left.is_empty()) {
            self.link(&open)?;
        } else if self.left.is_empty() {
            let directory = self.here.try_clone();
            let directory = directory.map_err(|error| self.no(raw(&error)))?;
            return Ok(Some(Way::There { directory, name, open }));
        } else {
            return Err(self.no_further(Errno::ENOTDIR));
        }
        Ok(None)
    }

    /// The steps that its text is.
    fn link(&mut self, link: &OwnedFd) -> Result<(), FileError> {
        self.links += 1;
        let text = readlinkat(link, c"").map_err(|errno| self.no(errno))?.into_vec();
        // The text of a link in /proc is no name; what it leads to may be anywhere.
        let magic = fstatfs(link).is_ok_and(|on| on.filesystem_type() == PROC_SUPER_MAGIC);
        if magic {
            return Err(outside(&self.place.said));
        }
        if self.links > LINKS && self.climbs() {
            return Err(outside(&self.place.said));
        }
        if self.links > LINKS {
            let message = "symlinks lead in a circle, or through too many: name the file itself";
            let message = format!("{}: {message}", shown(&self.place.said));
            return Err(FileError::said(Fault::FileNotFound, message));
        }
        if text.first() != Some(&b'/') {
            self.before(&text);
            return Ok(());
        }
        let said = || outside(&self.place.said);
        let (root, rest) = self.place.roots().divide(&text).ok_or_else(said)?;
        self.here = reopened(root).map_err(|errno| self.no(errno))?;
        self.root = root;
        self.names.clear();
        self.before(&rest);
        Ok(())
    }

    /// These steps first.
    fn before(&mut self, path: &[u8]) {
        // What a slash at the end follows has to be a directory.
        if path.last() == Some(&b'/') {
            self.left.push(b".".to_vec());
        }
        let steps = path.split(|byte| *byte == b'/').filter(|step| !step.is_empty());
        self.left.extend(steps.rev().map(<[u8]>::to_vec));
    }

    fn missing(&self, name: Vec<u8>) -> Result<Way, FileError> {
        if self.climbs() {
            return Err(outside(&self.place.said));
        }
        if self.left.iter().any(|step| step == b"..") {
            return Err(self.no(Errno::ENOENT));
        }
        let slash = self.left.first().is_some_and(|step| step == b".");
        let rest = self.left.iter().rev().filter(|step| *step != b".").cloned();
        let names = std::iter::once(name).chain(rest).collect();
        let directory = self.here.try_clone().map_err(|error| self.no(raw(&error)))?;
        Ok(Way::Missing { directory, names, slash })
    }

    /// Whether what is left leads above the root, from something beneath `here`.
    fn climbs(&self) -> bool {
        let mut depth = self.names.len() + 1;
        for step in self.left.iter().rev() {
            match step.as_slice() {
                b"." => {}
                b".." if depth == 0 => return true,
                b".." => depth -= 1,
                _ => depth += 1,
            }
        }
        false
    }

    fn no_further(&self, errno: Errno) -> FileError {
        if self.climbs() { outside(&self.place.said) } else { self.no(errno) }
    }

    fn no(&self, errno: Errno) -> FileError {
        self.place.failed(self.doing, errno)
    }
}

impl Place<'_> {
    fn failed(&self, doing: Doing, errno: Errno) -> FileError {
        FileError::system(doing, &self.said, errno)
    }
}

fn reopened(root: &Root) -> Result<OwnedFd, Errno> {
    open_beneath(root.as_fd(), b".", OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty())
}
