//! The paths that a tool reaches.
//!
//! Owns: the list, and whether what lies at its paths is still what it was.
//! Must not: let anything of the server's own in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use tool_policy::definition::sandbox::Sandbox;

use super::loose::Loose;
use super::{Confines, Footing};
use crate::broker::Workspace;
use crate::broker::signing::own_program;
use crate::os::landlock::Access;
use crate::registry::{DEVICES, SYSTEM, Tool, holds};

/// Whose paths they are. The list is made for a new ruleset alone: a call that finds
/// one looks at the few paths that somebody may replace between two calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach<'a> {
    pub(super) confines: &'a Confines,
    pub(super) workspace: &'a Workspace,
    pub(super) tool: &'a Tool,
    pub(super) footing: &'a Footing,
    /// It is of its setup, which reads its folder.
    pub(super) setup: bool,
}

/// What lay at the paths when it was looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(Vec<Option<(u64, u64, i64)>>);

/// What every tool reads, found out with what lay there.
#[derive(Debug, Default)]
pub(super) struct Common {
    seen: Seen,
    /// How many directories tools could write then.
    written: usize,
    paths: Arc<[PathBuf]>,
}

impl<'a> Reach<'a> {
    /// For a ruleset: without those that the tool could have lead anywhere.
    pub(super) fn rules(&self) -> Vec<(Cow<'a, Path>, Access)> {
        let devices = DEVICES.iter().map(|path| (Cow::Borrowed(Path::new(path)), Access::Device));
        // The directories that are open, whatever has their names by now.
        let opened = |root: &crate::os::root::Root| {
            let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_fd().as_raw_fd()));
            (Cow::Owned(path), Access::Write)
        };
        let roots = self.workspace.roots().map(opened);
        let common = self.confines.common(self.workspace);
        let common = common.iter().map(|path| (Cow::Owned(path.clone()), Access::Read));
        let loose = Loose::of(self.workspace, &self.confines.written, &self.tool.sandbox);
        let own = self.own().filter(|(path, _)| loose.settles(path));
        common.chain(devices).chain(roots).chain(own).collect()
    }

    /// The same, but for one path.
    pub(super) fn rules_without(&self, path: &str) -> Vec<(Cow<'a, Path>, Access)> {
        let mut rules = self.rules();
        rules.retain(|(other, _)| *other != Path::new(path));
        rules
    }

    /// A ruleset is about what lies at a path, not about the path.
    pub(super) fn look(&self) -> Seen {
        let own = self.own().map(|(path, _)| at(&path));
        let programs = self.confines.programs.iter().map(|path| at(path));
        Seen(own.chain(programs).chain([etc()]).collect())
    }

    /// Those that are the tool's own, and somebody may replace.
    fn own(&self) -> impl Iterator<Item = (Cow<'a, Path>, Access)> {
        let Reach { confines, tool, footing, setup, .. } = *self;
        let read = |path: &'a Path| (Cow::Borrowed(path), Access::Read);
        let write = |path: &'a Path| (Cow::Borrowed(path), Access::Write);
        let settings = super::asks_github(tool).then(|| confines.settings.path(tool));
        let folder = tool.setup.as_deref().filter(|_| setup).and_then(Path::parent);
        [write(&footing.home)]
            .into_iter()
            .chain(tool.sandbox.read.iter().map(move |path| read(path)))
            .chain(tool.sandbox.write.iter().map(move |path| write(path)))
            .chain(programs(tool).map(|path| (path, Access::Read)))
            .chain(settings.map(|path| (Cow::Owned(path), Access::Read)))
            .chain(folder.map(read))
    }
}

impl Confines {
    /// What is there of the system's paths, and of the directories of PATH that hold
    /// nothing of the server's own; but what lies beneath another of them. That
    /// follows every link on the way, so it is found out once for what lies there. What a
    /// tool could replace is none of them: it would be every tool's.
    fn common(&self, workspace: &Workspace) -> Arc<[PathBuf]> {
        let all = self.programs.iter().chain(&self.hidden);
        let seen = Seen(all.map(|path| at(path)).chain([etc()]).collect());
        let written = self.written.count();
        let mut kept = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.seen != seen || kept.written != written {
            let loose = Loose::of(workspace, &self.written, &Sandbox::default());
            let is_public =
                |program: &&PathBuf| !self.hidden.iter().any(|path| holds(program, path));
            let programs = self.programs.iter().filter(is_public).cloned();
            let all = SYSTEM.iter().map(PathBuf::from).chain(programs);
            let all = all.filter(|path| loose.settles(path));
            *kept = Common { seen, written, paths: outermost(all).into() };
        }
        Arc::clone(&kept.paths)
    }
}

/// Each of these that is there, once, and but for those that lie beneath another.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut real = BTreeMap::new();
    for path in paths {
        if let Ok(found) = path.canonicalize() {
            real.entry(found).or_insert(path);
        }
    }
    let is_outermost = |found: &PathBuf| !found.ancestors().skip(1).any(|it| real.contains_key(it));
    real.iter().filter(|(found, _)| is_outermost(found)).map(|(_, path)| path.clone()).collect()
}

/// Whoever replaces a file of /etc changes the directory.
fn etc() -> Option<(u64, u64, i64)> {
    let found = Path::new("/etc").metadata().ok()?;
    Some((found.dev(), found.ino(), found.mtime_nsec() ^ found.mtime()))
}

fn at(path: &Path) -> Option<(u64, u64, i64)> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino(), 0))
}

/// The files that are executed, which may lie anywhere.
fn programs(tool: &Tool) -> impl Iterator<Item = Cow<'_, Path>> {
    let wrapper = tool.wrapper.as_ref().map(|wrapper| Cow::Borrowed(wrapper.path.as_path()));
    let interpreter = tool.wrapper.as_ref().and_then(|wrapper| Some(wrapper.command()?.0));
    // git starts it in the place of ssh-keygen.
    let signer = tool.signing.as_ref().and_then(|_| own_program());
    let binary = Cow::Borrowed(tool.binary.as_path());
    let others = [interpreter, signer].map(|path| path.map(Cow::Owned));
    [Some(binary), wrapper].into_iter().chain(others).flatten()
}
