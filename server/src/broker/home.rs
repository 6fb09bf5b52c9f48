//! Where each tool keeps what it keeps: `STATE_DIR/home/TOOL`, its HOME, and in it
//! `tmp`, its TMPDIR.
//!
//! Made when it is first needed, mode 0700, of the user that the tool runs as, and
//! left there for the next start. Where workspace roots have different owners, one
//! for each: `home/TOOL@UID` for all but the first root's.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::unistd::{Gid, Uid, fchown, fchownat};
use tool_protocol::{Code, Refusal};

use crate::os::identity::Identity;

/// Directories in directories of a HOME that changes hands, at most.
const DEEPEST: usize = 64;

/// TMPDIR's name in HOME.
const TEMPORARY: &str = "tmp";

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The HOMEs of all tools.
#[derive(Debug)]
pub(crate) struct Homes {
    directory: PathBuf,
}

impl Homes {
    /// HOMEs beneath `state`.
    pub(crate) fn new(state: &Path) -> Homes {
        Homes { directory: state.join("home") }
    }

    /// Lets other users through to HOMEs of theirs, and to nothing else.
    pub(crate) fn open_ways(&self) -> io::Result<()> {
        make(&self.directory)?;
        let state = self.directory.parent().unwrap_or(Path::new("/"));
        for directory in [state, &self.directory] {
            let mode = directory.metadata()?.permissions().mode();
            if mode & 0o077 != 0o011 {
                let ways = Permissions::from_mode((mode & 0o7700) | 0o111);
                std::fs::set_permissions(directory, ways)?;
            }
        }
        Ok(())
    }

    /// The HOME of a tool, whether or not it is there.
    pub(crate) fn path(
        &self,
        tool: &str,
        identity: Option<Identity>,
        first: Option<Identity>,
    ) -> PathBuf {
        match identity {
            Some(Identity { uid, .. }) if Some(uid) != first.map(|first| first.uid) => {
                self.directory.join(format!("{tool}@{uid}"))
            }
            None if first.is_some() => {
                self.directory.join(format!("{tool}@{}", nix::unistd::geteuid()))
            }
            _ => self.directory.join(tool),
        }
    }

    /// The HOME of a tool that runs as `identity`, there; `first`: who it is
    /// beneath the first root.
    pub(crate) fn ensure(
        &self,
        tool: &str,
        identity: Option<Identity>,
        first: Option<Identity>,
    ) -> Result<PathBuf, Refusal> {
        let path = self.path(tool, identity, first);
        self.prepare(&path, identity).map_err(|error| {
            let message = format!("cannot make the tool's HOME {}: {error}", path.display());
            Refusal::new(Code::StateUnavailable, message)
        })?;
        Ok(path)
    }

    fn prepare(&self, path: &Path, identity: Option<Identity>) -> io::Result<()> {
        let to = identity.unwrap_or_else(|| Identity {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        });
        let is_well = |path: &Path| {
            path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == to.uid)
        };
        if is_well(path) && is_well(&path.join(TEMPORARY)) {
            return Ok(());
        }
        make(&self.directory)?;
        make(path)?;
        let home = open(path, DIRECTORY, Mode::empty())?;
        // What is in a HOME that is its user's already is that user's affair: whatever
        // lies there may be something else by the time that it is touched.
        let owner = fstat(&home)?.st_uid;
        if owner != to.uid {
            hand_over(home.try_clone()?, owner, to, DEEPEST)?;
        }
        temporary(&home, to)
    }
}

/// Makes TMPDIR where there is nothing of that name.
fn temporary(home: &OwnedFd, to: Identity) -> io::Result<()> {
    match mkdirat(home, TEMPORARY, Mode::S_IRWXU) {
        Err(Errno::EEXIST) => return Ok(()),
        other => other?,
    }
    // The user may have put something else there since, but nothing that looks so: what
    // is root's and closed to them they cannot move.
    let made = openat(home, TEMPORARY, DIRECTORY, Mode::empty())?;
    let found = fstat(&made)?;
    let own = nix::unistd::geteuid().as_raw();
    if found.st_uid == own && own != to.uid && found.st_mode & 0o7077 == 0 {
        fchown(&made, Some(Uid::from_raw(to.uid)), Some(Gid::from_raw(to.gid)))?;
    }
    Ok(())
}

/// Gives a directory of one user to another with what is that user's in it, by
/// descriptors: a link in it leads nowhere, and a file that has other names, or another
/// owner, stays whose it is. Itself comes last: until then it lets nobody else in.
fn hand_over(directory: OwnedFd, from: u32, to: Identity, deeper: usize) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.gid));
    let own = directory.try_clone()?;
    for entry in Dir::from_fd(directory)?.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let place = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let Ok(entry) = openat(&own, name, place, Mode::empty()) else { continue };
        let found = fstat(&entry)?;
        let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
        if found.st_uid != from {
            continue;
        }
        if kind == SFlag::S_IFDIR && deeper > 0 {
            hand_over(openat(&entry, ".", DIRECTORY, Mode::empty())?, from, to, deeper - 1)?;
        } else if found.st_nlink == 1 {
            fchownat(&entry, c"", Some(uid), Some(gid), AtFlags::AT_EMPTY_PATH)?;
        }
    }
    Ok(fchown(&own, Some(uid), Some(gid))?)
}

fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}
