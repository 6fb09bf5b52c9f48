//! What git itself will look at, read beneath the workspace roots: for facts that
//! the arguments alone do not tell, as the branch that a bare `git push` pushes.
//!
//! Owns: finding the files. Must not: understand them (`policy` does), or follow
//! anything out of the roots. What is not plainly there is not known. All callers wait
//! meanwhile: how much is looked up is bounded, whatever the repository is made of.
//!
//! A caller may change these files between this look and the tool's own: what is
//! decided by them is about what a call means, not about what it can reach.
//!
//! - `repository`  which files are git's
//! - `files`       their bytes, and names

mod files;
mod repository;
#[cfg(test)]
mod tests;

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tool_policy::facts::{Observed, Wants, git};

use self::files::{CONFIG, at_home, join, operators};
use self::repository::Repository;
use super::workspace::Workspace;
use crate::os::descriptors::path_of;

/// Variables that make git look elsewhere.
const ELSEWHERE: [&[u8]; 4] = [b"GIT_DIR=", b"GIT_COMMON_DIR=", b"GIT_CONFIG", b"XDG_CONFIG_HOME="];

/// Of more names of refs it is not known what they stand for: a hundred that are pushed,
/// each looked for in git's six places.
const NAMES: usize = 600;

/// What a decision has to know beside the arguments; `place` is the call's
/// directory and `environment` the tool's.
pub(crate) fn observe(
    workspace: &Workspace,
    place: &[u8],
    wants: &Wants,
    environment: &[CString],
) -> Observed {
    let (path, refs) = match wants {
        Wants::Nothing => return Observed::default(),
        Wants::Promisor { path } => return promisor(workspace, place, path),
        Wants::Repository { path, refs } => (path, refs),
    };
    let place = match path.is_empty() {
        true => Some(place.to_vec()),
        false => elsewhere(workspace, place, path),
    };
    let known = place.and_then(|place| {
        let files = git_files(workspace, &place, environment)?;
        let mut observed = git::observe(&files.head, &files.config);
        let symbolic = |name: &[u8]| files.repository.symbolic(name);
        let branch = observed.head.as_ref().map(|head| [b"refs/heads/", head.as_slice()].concat());
        if branch.is_some_and(|branch| symbolic(&branch)) {
            observed.head = None;
        }
        observed.symbolic = refs.len() > NAMES || refs.iter().any(|name| symbolic(name));
        Some(observed)
    });
    known.unwrap_or_default()
}

/// Whether objects may be missing where a call works: asked for nearly every call of
/// git, so no more is looked at than has to be.
fn promisor(workspace: &Workspace, place: &[u8], path: &[u8]) -> Observed {
    let place = match path.is_empty() {
        true => Some(place.to_vec()),
        false => elsewhere(workspace, place, path),
    };
    let found = place.and_then(|place| {
        let (root, within) = workspace.root_of(&place)?;
        Repository::configuration(root, &within, CONFIG)
    });
    Observed::promising(found.is_some_and(|config| git::promises(&config)))
}

/// The nearest directory upwards that has a `.git`, or the directory itself: for people.
/// Looked for as git's files are, and so nowhere above the workspace roots.
pub(super) fn repository_of(workspace: &Workspace, directory: &[u8]) -> Vec<u8> {
    let upwards = || {
        let (root, within) = workspace.root_of(directory)?;
        let found = repository::around(root, &within)?;
        let depth = |name: &[u8]| Path::new(OsStr::from_bytes(name)).components().count();
        let up = depth(&within).checked_sub(depth(&found))?;
        let found = Path::new(OsStr::from_bytes(directory)).ancestors().nth(up)?;
        Some(found.as_os_str().as_bytes().to_vec())
    };
    upwards().unwrap_or_else(|| directory.to_vec())
}

/// The directory that the tool itself goes to first.
fn elsewhere(workspace: &Workspace, place: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let path = if path.first() == Some(&b'/') { path.to_vec() } else { join(place, path) };
    let (root, within) = workspace.root_of(&path)?;
    let directory = root.directory(OsStr::from_bytes(&within)).ok()?;
    path_of(directory.as_fd())
}

/// The files' bytes.
struct GitFiles {
    /// HEAD of this working tree.
    head: Vec<u8>,
    /// Every configuration that git reads, in its order.
    config: Vec<u8>,
    repository: Repository,
}

/// The files of the repository that a directory is in; `environment` is the
/// tool's.
fn git_files(workspace: &Workspace, directory: &[u8], environment: &[CString]) -> Option<GitFiles> {
    let lines = || environment.iter().map(|line| line.as_bytes());
    if lines().any(|line| ELSEWHERE.iter().any(|name| line.starts_with(name))) {
        return None;
    }
    let home = lines().find_map(|line| line.strip_prefix(b"HOME="));
    let (root, within) = workspace.root_of(directory)?;
    let repository = Repository::find(root, &within)?;
    let mut config = Vec::new();
    let mut add = |bytes: Vec<u8>| {
        config.extend(bytes);
        config.push(b'\n');
    };
    add(operators(Path::new("/etc/gitconfig"))?);
    if let Some(home) = home {
        let home = Path::new(OsStr::from_bytes(home));
        add(at_home(home, ".config/git/config")?);
        add(at_home(home, ".gitconfig")?);
    }
    add(repository.config(CONFIG)?);
    let head = repository.head()?;
    Some(GitFiles { head, config, repository })
}
