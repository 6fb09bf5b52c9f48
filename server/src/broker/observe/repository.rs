//! A repository as git finds it, by names beneath a root.
//!
//! Owns: telling what git takes for its repository, and what of it is in a form that is
//! not read here. Must not: take anything for known that git might see otherwise, or look
//! up more than a few names from the root: the caller chooses how long one takes. The rest
//! is looked up in git's two directories, open, without symlinks.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

use super::files::{SHORT, inside, join, take};
use crate::os::foreign::Found;
use crate::os::root::{Plain, Root};

/// A directory that lies deeper beneath its root is in no repository that is known.
pub(super) const DEEP: usize = 256;
/// A longer name of a ref is not looked up.
const LONG: usize = 1024;

/// The directories of a repository, open.
pub(super) struct Repository {
    /// Of this working tree.
    own: Plain,
    /// Of all working trees, where it is another one.
    common: Option<Plain>,
}

impl Repository {
    /// As git finds it: the nearest `.git` upwards, a directory or a file that names
    /// one. `None` where git would take another directory for a repository, or
    /// might.
    pub(super) fn find(root: &Root, within: &[u8]) -> Option<Repository> {
        match nearest(root, within, true)? {
            Nearest::Git(place, here) => Repository::at(root, &place, &here)?.plain(),
            Nearest::Bare(_) | Nearest::None => None,
        }
    }

    /// The configuration of the repository around that place; of one
    /// without a working tree, what is in it.
    pub(super) fn configuration(root: &Root, within: &[u8], most: u64) -> Option<Vec<u8>> {
        match nearest(root, within, true)? {
            Nearest::Git(place, here) => Repository::at(root, &place, &here)?.config(most),
            Nearest::Bare(place) => {
                let here = Plain::open(root, OsStr::from_bytes(&place)).ok()?;
                file(&here, b"config", most)
            }
            Nearest::None => None,
        }
    }

    /// HEAD of this working tree.
    pub(super) fn head(&self) -> Option<Vec<u8>> {
        file(&self.own, b"HEAD", SHORT)
    }

    /// The configuration of all working trees.
    pub(super) fn config(&self, most: u64) -> Option<Vec<u8>> {
        file(self.common(), b"config", most)
    }

    fn common(&self) -> &Plain {
        self.common.as_ref().unwrap_or(&self.own)
    }

    fn at(root: &Root, place: &[u8], here: &Plain) -> Option<Repository> {
        let git = join(place, b".git");
        let follow = |name: &[u8]| Plain::open(root, OsStr::from_bytes(name)).ok();
        let (name, own) = if let Ok(own) = here.enter(OsStr::new(".git")) {
            (git, own)
        } else {
            let name = match here.look(OsStr::new(".git"), OFlag::O_RDONLY) {
                Ok(said) => inside(root, place, take(&said, SHORT)?.strip_prefix(b"gitdir: ")?)?,
                // A link: to a directory it is followed, once.
                Err(Errno::ELOOP) => git,
                Err(_) => return None,
            };
            let own = follow(&name)?;
            (name, own)
        };
        let common = match own.look(OsStr::new("commondir"), OFlag::O_RDONLY) {
            Ok(said) => Some(follow(&inside(root, &name, &take(&said, SHORT)?)?)?),
            Err(Errno::ENOENT) => None,
            Err(_) => return None,
        };
        Some(Repository { own, common })
    }

    /// Itself, if git does not pass it over, and nothing of it is in a form that is
    /// not read here.
    fn plain(self) -> Option<Repository> {
        let head = self.head()?;
        let named = head.strip_prefix(b"ref:").map(<[u8]>::trim_ascii_start);
        let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let valid = digits >= 40 || named.is_some_and(|named| named.starts_with(b"refs/"));
        // The dot asks whether it may be entered.
        let enters = |name: &str| self.common().enter(OsStr::new(name)).is_ok();
        let whole = valid && enters("objects/.") && enters("refs/.");
        // The forms that remotes had before they were in the configuration.
        let old = ["remotes", "branches"].iter().any(|name| !is_empty(self.common(), name));
        (whole && !old).then_some(self)
    }

    /// Whether a ref stands for another one, or may. Packed ones do not.
    pub(super) fn symbolic(&self, name: &[u8]) -> bool {
        let odd = |part: &[u8]| matches!(part, b"" | b"." | b"..");
        // Another working tree's, by a name that is no file's.
        let other = name.starts_with(b"main-worktree/");
        if other || name.len() > LONG || name.split(|byte| *byte == b'/').any(odd) {
            return true;
        }
        let name = OsStr::from_bytes(name);
        let mut places = std::iter::once(&self.own).chain(&self.common);
        places.any(|place| stands_for_another(place, name))
    }
}

/// The directory upwards from there that has a `.git`, as a name beneath the root.
pub(super) fn around(root: &Root, within: &[u8]) -> Option<Vec<u8>> {
    match nearest(root, within, false)? {
        Nearest::Git(place, _) => Some(place),
        Nearest::Bare(_) | Nearest::None => None,
    }
}

/// What a directory is in.
enum Nearest {
    /// Something of the name `.git` lies in this one, open.
    Git(Vec<u8>, Plain),
    /// Git takes a directory that looks so for one without a working tree.
    Bare(Vec<u8>),
    None,
}

/// Goes down from the root, one name at a time, so that a deep directory costs its depth
/// once; what is found last is what git, which goes upwards, finds first. The names are
/// the kernel's own: a symlink among them came there since. `bare`: so are those without a
/// working tree.
fn nearest(root: &Root, within: &[u8], bare: bool) -> Option<Nearest> {
    let parts = || within.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    if parts().count() > DEEP {
        return None;
    }
    let mut here = Plain::open(root, OsStr::new("")).ok()?;
    let mut place = Vec::new();
    let mut found = Nearest::None;
    let mut parts = parts();
    loop {
        if is_there(&here, ".git") {
            found = Nearest::Git(place.clone(), here.enter(OsStr::new(".")).ok()?);
        } else if bare && ["HEAD", "objects", "refs"].iter().all(|name| is_there(&here, name)) {
            found = Nearest::Bare(place.clone());
        }
        let Some(part) = parts.next() else { return Some(found) };
        here = here.enter(OsStr::from_bytes(part)).ok()?;
        place = join(&place, part);
    }
}

/// Whether there is such a name, or may be: of a symlink the kernel says that it is one.
fn is_there(directory: &Plain, name: &str) -> bool {
    !matches!(directory.look(OsStr::new(name), OFlag::O_PATH), Err(Errno::ENOENT))
}

/// A regular file, no longer than that.
fn file(directory: &Plain, name: &[u8], most: u64) -> Option<Vec<u8>> {
    let file = directory.look(OsStr::from_bytes(name), OFlag::O_RDONLY).ok()?;
    take(&file, most)
}

/// Whether there is no directory of that name, or nothing in it.
fn is_empty(directory: &Plain, name: &str) -> bool {
    match directory.look(OsStr::new(name), OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
        Ok(found) => open(&found).is_ok_and(|mut directory| {
            directory.iter().all(|entry| {
                entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
            })
        }),
        Err(error) => error == Errno::ENOENT,
    }
}

fn open(directory: &Found) -> Result<Dir, Errno> {
    let copy = directory.as_fd().try_clone_to_owned().map_err(|_full| Errno::EMFILE)?;
    Dir::from_fd(copy)
}

fn stands_for_another(place: &Plain, name: &OsStr) -> bool {
    let file = match place.look(name, OFlag::O_RDONLY) {
        Ok(file) => file,
        Err(error) => {
            // A symlink is such a ref in an older form; a directory that is one costs more
            // than a look-up may.
            return !matches!(error, Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG);
        }
    };
    let kind = file.kind();
    if kind == Some(SFlag::S_IFDIR) {
        return false;
    }
    let mut beginning = Vec::new();
    let said = kind == Some(SFlag::S_IFREG) && (&file).take(4).read_to_end(&mut beginning).is_ok();
    !said || beginning == b"ref:"
}
