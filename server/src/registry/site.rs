//! The two directories, opened for one look at them.
//!
//! Owns: tools.d and RESTRICTED_DIR as descriptors, checked as a whole, and the
//! names in them. Must not: outlive the look; the directories may be replaced
//! at any time.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, fstat};

use super::RegistryOptions;
use super::error::LoadError;
use super::trust::Trust;
use crate::os::root::Root;

/// What one look at the disk needs.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) options: &'a RegistryOptions,
    pub(super) trust: Trust,
    pub(super) tools: Root,
    /// An error here is the error of every tool that might have its wrapper
    /// there: without it nobody knows whether the tool is restricted.
    pub(super) global: Result<Option<Global>, LoadError>,
}

/// RESTRICTED_DIR.
#[derive(Debug)]
pub(super) struct Global {
    pub(super) root: Root,
    pub(super) found: FileStat,
    pub(super) names: BTreeSet<OsString>,
}

impl<'a> Site<'a> {
    /// Opens and checks both. `global_seen`: RESTRICTED_DIR was there before,
    /// so that its absence now is an error and not "there are no wrappers".
    pub(super) fn open(options: &'a RegistryOptions, global_seen: bool) -> Result<Self, LoadError> {
        let trust = Trust::new(options.owner, &options.workspace);
        let path = &options.tools_dir;
        let failed = |source| LoadError::Io { operation: "open", path: path.clone(), source };
        let tools = Root::open(path).map_err(failed)?;
        trust.check(path, &fstat(tools.as_fd()).map_err(failed)?)?;
        trust.check_place(&tools)?;
        let global = Global::open(&options.restricted_dir, global_seen);
        Ok(Site { options, trust, tools, global })
    }

    /// The names in tools.d that may be tools: no files, nothing hidden.
    pub(super) fn folders(&self) -> Result<Vec<OsString>, LoadError> {
        let path = self.options.tools_dir.clone();
        let listed = list(&self.tools).map_err(|source| LoadError::Io {
            operation: "list",
            path,
            source,
        })?;
        let folder = |(name, kind): (OsString, Option<Type>)| {
            let hidden = name.as_bytes().starts_with(b".");
            let maybe = matches!(kind, None | Some(Type::Directory | Type::Symlink));
            (maybe && !hidden).then_some(name)
        };
        Ok(listed.into_iter().filter_map(folder).collect())
    }
}

impl Global {
    fn open(path: &Path, seen: bool) -> Result<Option<Global>, LoadError> {
        let failed = |source| LoadError::Io { operation: "open", path: path.to_owned(), source };
        let root = match Root::open(path) {
            Err(Errno::ENOENT) if !seen => return Ok(None),
            other => other.map_err(failed)?,
        };
        let found = fstat(root.as_fd()).map_err(failed)?;
        let names = list(&root).map_err(failed)?.into_iter().map(|(name, _)| name).collect();
        Ok(Some(Global { root, found, names }))
    }
}

/// What is in a directory, without `.` and `..`.
pub(super) fn list(root: &Root) -> Result<Vec<(OsString, Option<Type>)>, Errno> {
    let directory = root.open_beneath(OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    let mut found = Vec::new();
    for entry in Dir::from_fd(directory)?.iter() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            found.push((name.to_owned(), entry.file_type()));
        }
    }
    found.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(found)
}

/// A file of a tool's folder, relative to tools.d.
pub(super) fn inside(folder: &str, file: &str) -> PathBuf {
    Path::new(folder).join(file)
}
