//! tools.d, as the catalog changes it.
//!
//! Owns: that a folder appears, is replaced and goes whole, by one rename, and that
//! what a person changed is kept. Must not: touch a folder that it was not asked about.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2};

use super::bundle::{Bundle, keep};
use super::error::{CatalogError, errno, io};
use super::origin::{self, Origin};
use super::stage::Stage;

/// tools.d, while nobody else of us changes it.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    _lock: Flock<File>,
}

/// A folder that is there.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) origin: Option<Origin>,
    /// Of what is there now; none where it cannot be taken as a bundle.
    pub(crate) sha256: Option<String>,
    /// It has more than a bundle can hold: hidden files, folders.
    more: bool,
}

impl Installed {
    /// What a folder of tools.d is; none where there is nothing of that name.
    pub(crate) fn of(tools_dir: &Path, name: &str) -> Option<Installed> {
        let folder = tools_dir.join(name);
        fs::symlink_metadata(&folder).ok()?;
        let bundle = Bundle::read(&folder).ok();
        let left_out = bundle.iter().flat_map(|bundle| &bundle.left_out);
        let more = left_out.clone().any(|name| name != origin::FILE);
        let sha256 = bundle.as_ref().map(Bundle::digest);
        Some(Installed { origin: Origin::read(&folder), sha256, more })
    }

    /// It holds the same files.
    pub(super) fn is(&self, bundle: &Bundle) -> bool {
        self.sha256.as_ref() == Some(&bundle.digest())
    }

    /// It is as it was put there.
    pub(crate) fn is_untouched(&self) -> bool {
        let noted = self.origin.as_ref().map(|origin| &origin.sha256);
        noted.is_some() && noted == self.sha256.as_ref() && !self.more
    }
}

impl Place {
    /// Waits until nobody else changes it, and removes what others left half done.
    pub(crate) fn open(tools_dir: &Path) -> Result<Place, CatalogError> {
        let directory = File::open(tools_dir).map_err(io("open", tools_dir))?;
        let lock = Flock::lock(directory, FlockArg::LockExclusive);
        let lock = lock.map_err(|(_, source)| errno("lock", tools_dir)(source))?;
        Stage::clear(tools_dir)?;
        Ok(Place { path: tools_dir.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where what a person changed is kept, and the registry does not look.
    pub(crate) fn kept(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".old");
        self.path.with_file_name(name)
    }

    /// Puts a folder of the stage into its place. What was there and is not `ours` is
    /// kept; then its new name.
    pub(super) fn put(
        &self,
        stage: &Stage,
        name: &str,
        ours: bool,
    ) -> Result<Option<PathBuf>, CatalogError> {
        let (new, target) = (stage.path().join(name), self.path.join(name));
        for entry in fs::read_dir(&new).map_err(io("read", &new))?.flatten() {
            keep(&entry.path())?;
        }
        keep(&new)?;
        if fs::symlink_metadata(&target).is_err() {
            rename(&new, &target, RenameFlags::RENAME_NOREPLACE)?;
            keep(&self.path)?;
            return Ok(None);
        }
        match rename(&new, &target, RenameFlags::RENAME_EXCHANGE) {
            Ok(()) => {}
            // A file system that cannot exchange: in two steps, and back if need be.
            Err(CatalogError::Io { source, .. })
                if source.raw_os_error() == Some(Errno::EINVAL as i32) =>
            {
                let aside = stage.path().join(format!(".{name}"));
                fs::rename(&target, &aside).map_err(io("move", &target))?;
                if let Err(error) = fs::rename(&new, &target) {
                    fs::rename(&aside, &target).map_err(io("move back", &target))?;
                    return Err(io("move", &new)(error));
                }
                fs::rename(&aside, &new).map_err(io("move", &aside))?;
            }
            Err(other) => return Err(other),
        }
        keep(&self.path)?;
        if ours { Ok(None) } else { self.keep(&new, name).map(Some) }
    }

    /// Takes a folder out. One that is as it was put there goes; another is kept.
    pub(crate) fn take_out(&self, name: &str) -> Result<Option<PathBuf>, CatalogError> {
        let Some(installed) = Installed::of(&self.path, name) else {
            let (name, path) = (name.to_owned(), self.path.clone());
            return Err(CatalogError::NotInstalled { name, path });
        };
        let stage = Stage::beneath(&self.path)?;
        let (target, aside) = (self.path.join(name), stage.path().join(name));
        fs::rename(&target, &aside).map_err(io("move", &target))?;
        keep(&self.path)?;
        if installed.is_untouched() { Ok(None) } else { self.keep(&aside, name).map(Some) }
    }

    /// Moves a folder to where it is kept, under a name of its own; where that cannot
    /// be, as out of a mounted tools.d, to a hidden name in tools.d itself.
    fn keep(&self, folder: &Path, name: &str) -> Result<PathBuf, CatalogError> {
        let kept = self.kept();
        let beside = free(&kept.join(name));
        let moved = fs::create_dir_all(&kept).and_then(|()| fs::rename(folder, &beside));
        if moved.is_ok() {
            return Ok(beside);
        }
        let hidden = free(&self.path.join(format!(".old-{name}")));
        fs::rename(folder, &hidden).map_err(io("move", folder))?;
        Ok(hidden)
    }
}

/// A name with a number that nothing has.
fn free(path: &Path) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let taken = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    (1..u32::MAX).map(numbered).find(|path| !taken(path)).unwrap_or_else(|| numbered(0))
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), CatalogError> {
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) {
        // Without the flag a folder does not replace one that has something in it.
        Err(Errno::EINVAL) if flags == RenameFlags::RENAME_NOREPLACE => {
            fs::rename(from, to).map_err(io("move", from))
        }
        other => other.map_err(errno("move", from)),
    }
}

/// 0755, whatever the umask.
pub(super) fn open_to_all(folder: &Path) -> Result<(), CatalogError> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))
        .map_err(io("set the mode of", folder))
}
