//! A directory of our own for what is not taken yet.
//!
//! Owns: making it, and that nothing of it stays. In tools.d its name is hidden, so
//! that the registry does not look at it, and it lies on the same file system, so that
//! what is in it can be renamed into its place. Must not: decide anything.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::{CatalogError, errno, io};

/// How its name begins.
const PREFIX: &str = ".catalog-";

/// The directory; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    path: PathBuf,
}

impl Stage {
    /// Makes one in a directory.
    pub(super) fn beneath(parent: &Path) -> Result<Stage, CatalogError> {
        let template = parent.join(format!("{PREFIX}XXXXXX"));
        let path = nix::unistd::mkdtemp(&template).map_err(errno("make a directory in", parent))?;
        Ok(Stage { path })
    }

    /// Makes one where temporary files go.
    pub(super) fn in_temporary() -> Result<Stage, CatalogError> {
        Stage::beneath(&std::env::temp_dir())
    }

    /// Removes what a run that was killed has left.
    pub(super) fn clear(parent: &Path) -> Result<(), CatalogError> {
        for entry in fs::read_dir(parent).map_err(io("read", parent))?.flatten() {
            if entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
                fs::remove_dir_all(entry.path()).map_err(io("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        drop(fs::remove_dir_all(&self.path));
    }
}
