//! Paths that a tool could lead somewhere else: their way goes through a directory
//! that it may write.
//!
//! Owns: telling them from others. Must not: open anything.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use tool_policy::definition::sandbox::Sandbox;

use crate::broker::Workspace;
use crate::broker::workspace::beneath;

/// Links on the way to a path, at most: as many as the kernel follows.
const LINKS: usize = 40;

/// Where a tool writes, by names without links.
#[derive(Debug)]
pub(super) struct Loose(Vec<Vec<u8>>);

impl Loose {
    /// The roots, and what its definition lets it write.
    pub(super) fn of(workspace: &Workspace, sandbox: &Sandbox) -> Loose {
        let name = |path: PathBuf| path.into_os_string().into_vec();
        let roots = workspace.roots().map(|root| root.resolved().to_vec());
        let written = || sandbox.write.iter();
        let mut loose = Loose(roots.chain(written().cloned().map(name)).collect());
        // By their other names too, unless these are the tool's choice.
        let settled = written().filter(|path| loose.settles(path));
        let others: Vec<Vec<u8>> =
            settled.filter_map(|path| path.canonicalize().ok()).map(name).collect();
        loose.0.extend(others);
        loose
    }

    /// Whether the way to a path leads through none of them. What lies in one of them
    /// the tool reaches in any case.
    pub(super) fn settles(&self, path: &Path) -> bool {
        let (mut way, mut links) = (PathBuf::from("/"), 0);
        let mut rest = parts(path);
        while let Some(part) = rest.pop() {
            if part == ".." {
                way.pop();
                continue;
            }
            way.push(part);
            let name = way.as_os_str().as_bytes();
            let inside = |above: &Vec<u8>| beneath(name, above).is_some_and(|it| !it.is_empty());
            if self.0.iter().any(inside) {
                return false;
            }
            if let Ok(target) = way.read_link() {
                links += 1;
                if links > LINKS {
                    return false;
                }
                way.pop();
                if target.has_root() {
                    way = PathBuf::from("/");
                }
                rest.extend(parts(&target));
            }
        }
        true
    }
}

/// The components of a path, the last one first; without `/` and `.`.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}
