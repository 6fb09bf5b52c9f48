//! Whether anything about a tool's files changed since they were last read.
//!
//! Owns: the fingerprint of a folder, made of stats alone, so that a look at a
//! thousand unchanged tools reads no file. Must not: judge what it sees.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};

use super::error::LoadError;
use super::site::{Site, inside};
use crate::os::root::Root;

/// What counts in a folder: definitions and wrappers in their order, and more.
pub(super) const DEFINITIONS: [&str; 2] = ["tool.toml", "tool.json"];
pub(super) const WRAPPERS: [&str; 3] = ["restricted.py", "restricted.sh", "restricted"];
pub(super) const SETUP: &str = "setup.sh";
/// The arguments of a tool, beside its `tool.toml`.
pub(super) const GRAMMAR: &str = "grammar.toml";

/// The endings of a global wrapper, in the same order.
pub(super) const ENDINGS: [&str; 3] = [".py", ".sh", ""];

/// A file changed less than this ago may change again without a new time
/// stamp (they tick only every few milliseconds): it is read again.
const YOUNG_SECONDS: i64 = 2;

/// A file's or folder's state, as stat tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    identity: (u64, u64),
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
    mode: u32,
    owner: u32,
}

/// One name in a folder: itself, and what it leads to where it is a symlink.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    name: OsString,
    itself: Result<Mark, Errno>,
    target: Option<Result<Mark, Errno>>,
}

/// The fingerprint of everything that a tool is loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    folder: Mark,
    own: Vec<Seen>,
    global_directory: Option<Mark>,
    global: Vec<Seen>,
    global_failed: bool,
}

impl Stamp {
    /// Looks at a folder of tools.d. `ENOENT` and `ENOTDIR`: there is none.
    pub(super) fn of(site: &Site<'_>, name: &str) -> Result<Stamp, LoadError> {
        let path = || site.tools.path().join(name);
        let failed = |source| LoadError::io("open", path(), site.tools.path(), source);
        let folder = site.tools.directory(name.as_ref()).map_err(failed)?;
        let folder_mark = mark(&fstat(&folder).map_err(failed)?);
        let files = DEFINITIONS.into_iter().chain(WRAPPERS).chain([SETUP, GRAMMAR]);
        let own = files
            .filter_map(|file| see(&folder, file.as_ref(), &site.tools, &inside(name, file)))
            .collect();
        let mut stamp = Stamp {
            folder: folder_mark,
            own,
            global_directory: None,
            global: Vec::new(),
            global_failed: site.global.is_err(),
        };
        if let Ok(Some(global)) = &site.global {
            for ending in ENDINGS {
                let file = OsString::from(format!("{name}{ending}"));
                if global.names.contains(&file) {
                    let path = Path::new(&file);
                    stamp.global.extend(see(global.root.as_fd(), &file, &global.root, path));
                    stamp.global_directory = Some(mark(&global.found));
                }
            }
        }
        Ok(stamp)
    }

    /// Whether the folder has a name; also one that cannot be opened counts.
    pub(super) fn has(&self, file: &str) -> bool {
        self.own.iter().any(|seen| seen.name == *file)
    }

    /// Whether RESTRICTED_DIR has one.
    pub(super) fn has_global(&self, file: &str) -> bool {
        self.global.iter().any(|seen| seen.name == *file)
    }

    /// The definition file in force.
    pub(super) fn definition(&self) -> Option<&'static str> {
        DEFINITIONS.into_iter().find(|file| self.has(file))
    }

    /// Whether an equal stamp later means that nothing changed.
    pub(super) fn is_settled(&self) -> bool {
        let seen = self.own.iter().chain(&self.global);
        let files = seen.flat_map(|seen| [Some(&seen.itself), seen.target.as_ref()]);
        let files = files.flatten().filter_map(|mark| mark.as_ref().ok());
        let latest = files.chain([&self.folder]).map(|mark| mark.changed.0).max();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        latest.is_some_and(|latest| latest.saturating_add(YOUNG_SECONDS) < now)
    }
}

/// Looks at one name; `None` where there is nothing.
fn see(directory: impl AsFd, name: &std::ffi::OsStr, root: &Root, path: &Path) -> Option<Seen> {
    let itself = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => return None,
        other => other,
    };
    let link = itself.is_ok_and(|found| {
        SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFLNK
    });
    let follow = || {
        let target = root.open_beneath(path.as_os_str(), OFlag::O_PATH)?;
        fstat(&target).map(|found| mark(&found))
    };
    Some(Seen {
        name: name.to_owned(),
        itself: itself.map(|found| mark(&found)),
        target: link.then(follow),
    })
}

fn mark(found: &FileStat) -> Mark {
    Mark {
        identity: super::trust::identity(found),
        size: found.st_size,
        modified: (found.st_mtime, found.st_mtime_nsec),
        changed: (found.st_ctime, found.st_ctime_nsec),
        mode: found.st_mode,
        owner: found.st_uid,
    }
}
