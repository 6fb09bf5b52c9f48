//! A repository as git finds it, by names beneath a root.
//!
//! Owns: telling what git takes for its repository, and what of it is in a form that is
//! not read here. Must not: take anything for known that git might see otherwise.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::files::{SHORT, inside, join, read};
use crate::os::root::Root;

/// Names beneath a root.
pub(super) struct Repository {
    /// Of this working tree.
    pub(super) own: Vec<u8>,
    /// Of all working trees.
    pub(super) common: Vec<u8>,
}

impl Repository {
    /// As git finds it: the nearest `.git` upwards, a directory or a file that names
    /// one. `None` where git would take another directory for a repository, or
    /// might.
    pub(super) fn find(root: &Root, within: &[u8]) -> Option<Repository> {
        let mut place = within;
        loop {
            let name = join(place, b".git");
            match root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH) {
                Ok(_) => return Repository::at(root, place, name)?.plain(root),
                // Git takes a directory that looks so for a bare one.
                Err(Errno::ENOENT) if is_bare(root, place) => return None,
                Err(Errno::ENOENT) if !place.is_empty() => {
                    let end = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    place = place.get(..end)?;
                }
                Err(_) => return None,
            }
        }
    }

    /// Where the configuration of the repository around that place is; of a bare
    /// one, the place itself.
    pub(super) fn common(root: &Root, within: &[u8]) -> Option<Vec<u8>> {
        let mut place = within;
        loop {
            let name = join(place, b".git");
            match root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH) {
                Ok(_) => return Some(Repository::at(root, place, name)?.common),
                Err(Errno::ENOENT) if !place.is_empty() => {
                    let end = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    place = place.get(..end)?;
                }
                Err(Errno::ENOENT) => return Some(within.to_vec()),
                Err(_) => return None,
            }
        }
    }

    fn at(root: &Root, place: &[u8], name: Vec<u8>) -> Option<Repository> {
        let own = if root.directory(OsStr::from_bytes(&name)).is_ok() {
            name
        } else {
            let said = read(root, &name, SHORT)?;
            inside(root, place, said.strip_prefix(b"gitdir: ")?)?
        };
        let common = match read(root, &join(&own, b"commondir"), SHORT) {
            Some(said) => inside(root, &own, &said)?,
            None => own.clone(),
        };
        Some(Repository { own, common })
    }

    /// Itself, if git does not pass it over, and nothing of it is in a form that is
    /// not read here.
    fn plain(self, root: &Root) -> Option<Repository> {
        let head = read(root, &join(&self.own, b"HEAD"), SHORT)?;
        let named = head.strip_prefix(b"ref:").map(<[u8]>::trim_ascii_start);
        let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let valid = digits >= 40 || named.is_some_and(|named| named.starts_with(b"refs/"));
        // The dot asks whether it may be entered.
        let enters =
            |name: &[u8]| root.directory(OsStr::from_bytes(&join(&self.common, name))).is_ok();
        let whole = valid && enters(b"objects/.") && enters(b"refs/.");
        // The forms that remotes had before they were in the configuration.
        let old = [b"remotes".as_slice(), b"branches"];
        let old = old.iter().any(|name| !is_empty(root, &join(&self.common, name)));
        (whole && !old).then_some(self)
    }

    /// Whether a ref stands for another one, or may. Packed ones do not.
    pub(super) fn symbolic(&self, root: &Root, name: &[u8]) -> bool {
        let odd = |part: &[u8]| matches!(part, b"" | b"." | b"..");
        // Another working tree's, by a name that is no file's.
        let other = name.starts_with(b"main-worktree/");
        if other || name.len() as u64 > SHORT || name.split(|byte| *byte == b'/').any(odd) {
            return true;
        }
        let places = [&self.own, &self.common];
        let places = places.iter().take(if self.own == self.common { 1 } else { 2 });
        places.into_iter().any(|place| stands_for_another(root, &join(place, name)))
    }
}

/// Whether it looks like a repository without a working tree.
fn is_bare(root: &Root, place: &[u8]) -> bool {
    [b"HEAD".as_slice(), b"objects", b"refs"].iter().all(|name| {
        let name = join(place, name);
        let found = root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH | OFlag::O_NOFOLLOW);
        !matches!(found, Err(Errno::ENOENT))
    })
}

/// Whether there is no directory of that name, or nothing in it.
fn is_empty(root: &Root, name: &[u8]) -> bool {
    match root.open_beneath(OsStr::from_bytes(name), OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
        Ok(directory) => Dir::from_fd(directory).is_ok_and(|mut directory| {
            directory.iter().all(|entry| {
                entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
            })
        }),
        Err(error) => error == Errno::ENOENT,
    }
}

fn stands_for_another(root: &Root, name: &[u8]) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let file = match root.open_beneath(OsStr::from_bytes(name), flags) {
        Ok(file) => File::from(file),
        Err(error) => {
            // A symlink is such a ref in an older form.
            return !matches!(error, Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG);
        }
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return false;
    }
    let mut beginning = Vec::new();
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let said = regular && file.take(4).read_to_end(&mut beginning).is_ok();
    !said || beginning == b"ref:"
}
