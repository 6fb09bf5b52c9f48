//! Where a walk begins, open.
//!
//! Owns: opening a directory (or file) by a caller's name, its real name, and how names
//! beneath it are shown. Must not: go down.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat};
use tool_protocol::Fault;

use super::Kind;
use crate::error::{Doing, FileError};
use crate::ignored::{Account, Has, Rules};
use crate::root::{self, Place, Roots, open_beneath};
use crate::{after, opened, own};

const STEP: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What a caller's name led to.
#[derive(Debug)]
pub struct Start {
    root: Arc<OwnedFd>,
    /// What is open.
    pub what: What,
    /// Its real name, absolute.
    pub name: Vec<u8>,
    /// The path from the root on of the directory, with a slash behind it where it is not
    /// empty; for a file, of the directory that it is in.
    pub lead: Vec<u8>,
    /// What stands before a path from the root on, in answers.
    pub shown: Vec<u8>,
}

/// A directory or a file.
#[derive(Debug)]
pub enum What {
    /// To be read.
    Directory(Arc<OwnedFd>),
    /// To be read, with its name in its directory.
    File(OwnedFd, CString, Box<FileStat>),
}

impl Start {
    /// Opens what the name means, beneath a root.
    pub fn find(roots: &Roots, path: &str) -> Result<Start, FileError> {
        let place = roots.place(path)?;
        let failed = |errno| FileError::system(Doing::Reading, &place.said, errno);
        // Most are directories, and are opened at once. What else it is, and why that fails,
        // is found out with O_PATH.
        let (found, stat) = match directory(&place) {
            Ok(directory) => (directory, None),
            Err(_) => {
                let found = place.open(OFlag::O_PATH, Mode::empty())?;
                let stat = fstat(&found).map_err(failed)?;
                (found, Some(stat))
            }
        };
        let name = own::name(found.as_fd()).map_err(failed)?;
        let lead = beneath(&name, place.root.real()).map(<[u8]>::to_vec);
        // The root may be called otherwise by now.
        let lead = lead.or_else(|| {
            let root = own::name(place.root.as_fd()).ok()?;
            beneath(&name, &root).map(<[u8]>::to_vec)
        });
        let mut lead = lead.ok_or_else(|| root::outside(&place.said))?;
        let what = match stat.map(|stat| (Kind::of(stat.st_mode), stat)) {
            None => What::Directory(Arc::new(found)),
            Some((Kind::Directory, _)) => {
                let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                let open = openat(&found, ".", flags, Mode::empty()).map_err(failed)?;
                What::Directory(Arc::new(open))
            }
            Some((Kind::File, stat)) => {
                let slash = lead.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                let own = CString::new(lead.split_off(slash)).unwrap_or_default();
                // The file itself, not its name once more.
                let file = opened::again(found.as_fd(), OFlag::O_RDONLY).map_err(failed)?;
                What::File(file, own, Box::new(stat))
            }
            Some(_) => {
                let message = format!(
                    "{} is a pipe, a socket or a device: name a directory or a file",
                    place.said.escape_ascii()
                );
                return Err(FileError::said(Fault::NotAFile, message));
            }
        };
        if matches!(what, What::Directory(_)) && !lead.is_empty() {
            lead.push(b'/');
        }
        Ok(Start { root: place.root.kept(), what, name, lead, shown: roots.shown(place.root) })
    }

    /// What is left out beneath the start because of files in the directories above it, up
    /// to the root.
    pub fn rules(&self, account: &Arc<Account>) -> Option<Arc<Rules>> {
        let mut rules = None;
        let mut here: Option<OwnedFd> = None;
        let mut at = 0;
        for name in self.lead.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let directory: BorrowedFd<'_> = here.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            rules = Rules::of(rules, directory, Has::look(directory), at, account);
            at += name.len() + 1;
            match openat(directory, OsStr::from_bytes(name), STEP, Mode::empty()) {
                Ok(next) => here = Some(next),
                // It is being renamed: what is above says what it said.
                Err(_) => break,
            }
        }
        rules
    }

    /// It is done with: a directory that was read takes a while to be closed, which nobody need
    /// wait for.
    pub(crate) fn leave(self) {
        let open = match self.what {
            What::Directory(open) => Arc::into_inner(open),
            What::File(open, ..) => Some(open),
        };
        open.into_iter().for_each(after::close);
    }

    /// A path from the root on, as answers have it.
    pub fn show(&self, path: &[u8]) -> Vec<u8> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        match (self.shown.is_empty(), path.is_empty()) {
            (true, true) => b".".to_vec(),
            (false, true) => self.shown.strip_suffix(b"/").unwrap_or(&self.shown).to_vec(),
            (_, false) => [&self.shown, path].concat(),
        }
    }
}

/// Opens a directory to read it, as the name that it has within itself: who may not go into
/// it is told so, and not that nothing is there.
fn directory(place: &Place<'_>) -> Result<OwnedFd, Errno> {
    let within = [&*place.rest, b"/."].concat();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    open_beneath(place.root.as_fd(), &within, flags, Mode::empty())
}

/// What follows a root's real name in another.
fn beneath<'a>(name: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    match name.strip_prefix(root)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}
