//! From the directory that a caller names to one that is open.
//!
//! Owns: the workspace roots and the map from the caller's paths to ours. A
//! directory is resolved by the kernel beneath a root and handed on as a
//! descriptor; its name is used for nothing afterwards but to be shown.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use tool_protocol::{Code, Refusal, limits};

use crate::os::foreign::Found;
use crate::os::root::Root;

/// The roots, the longest first, and the caller's names for them.
#[derive(Debug)]
pub(crate) struct Workspace {
    roots: Vec<Root>,
    /// As they were named, in that order.
    paths: Vec<PathBuf>,
    first: Vec<u8>,
    names: Arc<[Vec<u8>]>,
    map: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A root that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the workspace root {path}: {errno}; create it, or set WORKSPACE", path = path.display())]
pub(crate) struct RootError {
    path: PathBuf,
    errno: Errno,
}

impl Workspace {
    /// Opens the roots. `map` is pairs of the caller's path and ours.
    pub(crate) fn open(
        roots: &[PathBuf],
        map: impl IntoIterator<Item = (PathBuf, PathBuf)>,
    ) -> Result<Workspace, RootError> {
        let mut opened = Vec::new();
        for path in roots {
            let root = Root::open(path).map_err(|errno| RootError { path: path.clone(), errno })?;
            opened.push(root);
        }
        let first = opened.first().map(|root| root.resolved().to_vec()).unwrap_or_default();
        opened.sort_by_key(|root| std::cmp::Reverse(root.path().as_os_str().len()));
        let bytes = |path: PathBuf| path.into_os_string().into_vec();
        let mut map: Vec<_> = map.into_iter().map(|(from, to)| (bytes(from), bytes(to))).collect();
        map.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        let mut names: Vec<Vec<u8>> = Vec::new();
        for root in &opened {
            // As the kernel names it, and as everybody does.
            for name in [root.resolved(), root.path().as_os_str().as_bytes()] {
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_vec());
                }
            }
        }
        let paths = roots.to_vec();
        Ok(Workspace { roots: opened, paths, first, names: names.into(), map })
    }

    /// Opens the directory that the caller means. The name only chooses the
    /// root; whether the directory lies beneath it is the kernel's word.
    pub(crate) fn enter(&self, cwd: &[u8]) -> Result<Found, Refusal> {
        if cwd.first() != Some(&b'/') {
            return Err(refuse(Code::BadRequest, cwd, "is not an absolute path"));
        }
        if cwd.len() > limits::MAX_CWD {
            return Err(refuse(Code::RequestTooLarge, b"", "the directory's name is too long"));
        }
        let path = self.translate(cwd);
        let outside = || refuse(Code::CwdOutside, cwd, "is not beneath a workspace root");
        let (root, rest) = self
            .roots
            .iter()
            .find_map(|root| {
                let rest = beneath(&path, root.path().as_os_str().as_bytes())?;
                Some((root, rest))
            })
            .ok_or_else(outside)?;
        match root.directory(OsStr::from_bytes(&rest)) {
            Ok(directory) => Ok(directory),
            Err(Errno::EXDEV) => Err(outside()),
            Err(Errno::ENOENT) => Err(refuse(Code::CwdNotFound, cwd, "does not exist")),
            Err(Errno::ENOTDIR) => Err(refuse(Code::CwdNotFound, cwd, "is not a directory")),
            Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => {
                Err(refuse(Code::SpawnFailed, cwd, errno.desc()))
            }
            Err(errno) => Err(refuse(Code::CwdNotFound, cwd, errno.desc())),
        }
    }

    /// The root that a resolved directory lies beneath, and its name from there.
    pub(super) fn root_of(&self, directory: &[u8]) -> Option<(&Root, Vec<u8>)> {
        let named = |root: &Root| beneath(directory, root.path().as_os_str().as_bytes());
        self.roots.iter().find_map(|root| {
            let rest = beneath(directory, root.resolved()).or_else(|| named(root))?;
            Some((root, rest))
        })
    }

    /// The roots' names, with and without symlinks.
    pub(super) fn names(&self) -> Arc<[Vec<u8>]> {
        Arc::clone(&self.names)
    }

    /// Every root.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter()
    }

    /// The name of the root that was named first.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// The root that was named first.
    pub(super) fn first_root(&self) -> Option<&Root> {
        self.roots.iter().find(|root| root.resolved() == self.first)
    }

    /// The roots' names, as the setting has them: the first one first.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    fn translate(&self, cwd: &[u8]) -> Vec<u8> {
        for (from, to) in &self.map {
            if let Some(rest) = beneath(cwd, from) {
                let mut path = to.clone();
                if !rest.is_empty() {
                    path.push(b'/');
                    path.extend_from_slice(&rest);
                }
                return path;
            }
        }
        cwd.to_vec()
    }
}

/// What follows `prefix` in `path`, by whole components: `/base` is no prefix
/// of `/base-evil`. Empty components and `.` say nothing and are left out, as
/// the kernel does; `..` is its to judge.
pub(super) fn beneath(path: &[u8], prefix: &[u8]) -> Option<Vec<u8>> {
    let mut rest = components(path);
    for component in components(prefix) {
        if rest.next()? != component {
            return None;
        }
    }
    Some(rest.collect::<Vec<_>>().join(&b'/'))
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !matches!(*component, b"" | b"."))
}

fn refuse(code: Code, cwd: &[u8], what: &str) -> Refusal {
    Refusal::new(code, format!("the directory {} {what}", cwd.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sibling_with_the_same_beginning_is_outside() {
        let rest = |path: &str, prefix: &str| {
            beneath(path.as_bytes(), prefix.as_bytes()).map(|rest| String::from_utf8(rest).unwrap())
        };
        assert_eq!(rest("/base/a/b", "/base").as_deref(), Some("a/b"));
        assert_eq!(rest("/base", "/base/").as_deref(), Some(""));
        assert_eq!(rest("//base/.//a/../b/", "/base").as_deref(), Some("a/../b"));
        assert_eq!(rest("/base-evil", "/base"), None);
        assert_eq!(rest("/bas", "/base"), None);
        assert_eq!(rest("/anything", "/").as_deref(), Some("anything"));
    }

    #[test]
    fn callers_paths_are_mapped_and_missing_ones_told_apart_from_outside() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("ws/src")).unwrap();
        std::fs::write(base.path().join("ws/file"), "").unwrap();
        let root = base.path().join("ws");
        let map = [(PathBuf::from("/home/me/project"), root.clone())];
        let workspace = Workspace::open(&[root], map).unwrap();
        let code = |cwd: &str| workspace.enter(cwd.as_bytes()).map(|_| ()).map_err(|r| r.code);
        assert_eq!(code("/home/me/project/src"), Ok(()));
        assert_eq!(code("/home/me/project"), Ok(()));
        assert_eq!(code("/home/me/project2"), Err(Code::CwdOutside));
        assert_eq!(code("/home/me/project/none"), Err(Code::CwdNotFound));
        assert_eq!(code("/home/me/project/file"), Err(Code::CwdNotFound));
        assert_eq!(code("/home/me/project/../../etc"), Err(Code::CwdOutside));
        assert_eq!(code("src"), Err(Code::BadRequest));
    }
}
