//! Paths that a tool could lead somewhere else: their way goes through a directory
//! that it may write, or that another tool may write.
//!
//! Owns: which directories these are, and telling paths that lead through them from
//! others. Must not: open anything.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tool_policy::definition::sandbox::Sandbox;

use crate::broker::Workspace;
use crate::broker::workspace::beneath;
use crate::registry::Snapshot;

/// Links on the way to a path, at most: as many as the kernel follows.
const LINKS: usize = 40;

/// What any tool may write, by all definitions that were in force since the start: what
/// one has left there stays when its definition goes.
#[derive(Debug)]
pub(super) struct Written {
    /// Where HOMEs lie: each is a tool's own.
    homes: Vec<u8>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of the snapshot that was looked at last.
    generation: Option<u64>,
    paths: BTreeSet<PathBuf>,
}

impl Written {
    /// HOMEs lie beneath `state`.
    pub(super) fn new(state: &Path) -> Written {
        let state = state.canonicalize().unwrap_or_else(|_missing| state.to_owned());
        let homes = state.join("home").into_os_string().into_vec();
        Written { homes, known: Mutex::default() }
    }

    /// Notes what the tools of this moment may write.
    pub(super) fn heed(&self, snapshot: &Snapshot) {
        let mut known = self.known();
        if known.generation != Some(snapshot.generation) {
            known.generation = Some(snapshot.generation);
            let all = snapshot.tools.values().flat_map(|tool| &tool.sandbox.write);
            known.paths.extend(all.cloned());
        }
    }

    /// How many there are: more with each that is new.
    pub(super) fn count(&self) -> usize {
        self.known().paths.len()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where tools write, by names without links.
#[derive(Debug)]
pub(super) struct Loose {
    written: Vec<Vec<u8>>,
    homes: Vec<u8>,
}

impl Loose {
    /// The roots, HOMEs, and what any definition lets its tool write, this one's too.
    pub(super) fn of(workspace: &Workspace, written: &Written, sandbox: &Sandbox) -> Loose {
        let all: BTreeSet<PathBuf> =
            written.known().paths.iter().chain(&sandbox.write).cloned().collect();
        Loose::new(workspace, &all, written.homes.clone())
    }

    /// The roots, and what this definition lets its tool write.
    pub(super) fn of_one(workspace: &Workspace, sandbox: &Sandbox) -> Loose {
        Loose::new(workspace, &sandbox.write.iter().cloned().collect(), Vec::new())
    }

    fn new(workspace: &Workspace, all: &BTreeSet<PathBuf>, homes: Vec<u8>) -> Loose {
        let name = |path: PathBuf| path.into_os_string().into_vec();
        let roots = workspace.roots().map(|root| root.resolved().to_vec());
        let written = roots.chain(all.iter().cloned().map(name)).collect();
        let mut loose = Loose { written, homes };
        // By their other names too, unless these are a tool's choice.
        let settled = all.iter().filter(|path| loose.settles(path));
        let others: Vec<Vec<u8>> =
            settled.filter_map(|path| path.canonicalize().ok()).map(name).collect();
        loose.written.extend(others);
        loose
    }

    /// Whether somebody but the server chooses what lies at that name.
    fn holds(&self, name: &[u8]) -> bool {
        let inside = |above: &Vec<u8>| beneath(name, above).is_some_and(|it| !it.is_empty());
        // A HOME itself is where the server put it.
        let within = || beneath(name, &self.homes).is_some_and(|it| it.contains(&b'/'));
        self.written.iter().any(inside) || (!self.homes.is_empty() && within())
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
            if self.holds(way.as_os_str().as_bytes()) {
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
