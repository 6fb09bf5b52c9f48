//! What the registry remembers between two looks at the disk.
//!
//! Owns: the last good tool of every folder, and when it stays in force. The
//! rule: a tool never becomes weaker because files are being replaced, and a
//! wrapper that somebody else may have changed is never run.
//! Must not: be seen by a call; calls see snapshots.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::RegistryOptions;
use super::builtin::{self, Builtins};
use super::error::LoadError;
use super::load::{self, Failure, Loaded};
use super::name::ToolName;
use super::site::Site;
use super::snapshot::{Problem, Snapshot};
use super::stamp::Stamp;
use super::tool::Tool;

/// How long something that vanished may be on its way back: an editor's
/// unlink-and-create, a folder that is being copied anew.
pub(super) const SETTLE: Duration = Duration::from_secs(2);

/// Everything between two looks.
#[derive(Debug, Default)]
pub(super) struct State {
    entries: BTreeMap<String, Entry>,
    builtins: Builtins,
    /// Names that had a definition when their folder went, and when it went.
    gone: BTreeMap<String, Instant>,
    /// Of tools.d itself, and of names in it that are no tool's.
    problems: Vec<Problem>,
    tools_lost: Option<Instant>,
    global_seen: bool,
    /// When to look again although nothing may happen on disk.
    settles: Option<Instant>,
}

#[derive(Debug, Default)]
struct Entry {
    /// What `good` was loaded from; `None`: load again at the next look.
    stamp: Option<Stamp>,
    good: Option<Arc<Tool>>,
    /// The wrapper of the last one that was in force, and its place in the
    /// order; kept also where `good` had to go.
    wrapper: Option<PathBuf>,
    rank: usize,
    /// It once had a definition: it never becomes a tool without one.
    defined: bool,
    lost: Option<Instant>,
    problem: Option<Problem>,
    notice: Option<(Stamp, Problem)>,
}

impl State {
    /// Looks at everything.
    pub(super) fn scan(&mut self, options: &RegistryOptions, now: Instant) {
        self.problems.clear();
        self.scan_builtins(options);
        self.settles = None;
        self.gone.retain(|_, since| now.duration_since(*since) < SETTLE);
        let opened = Site::open(options, self.global_seen);
        let listed = opened.and_then(|site| site.folders().map(|names| (site, names)));
        match listed {
            Ok((site, names)) => self.scan_folders(&site, names, now),
            Err(error) => self.scan_failed(&error, now),
        }
    }

    /// Looks at one name. `false`: there is nothing of that name, as before; a
    /// caller who tries names costs no more than the look itself.
    pub(super) fn look(
        &mut self,
        options: &RegistryOptions,
        name: &ToolName,
        now: Instant,
    ) -> bool {
        let before = self.entries.contains_key(name.as_str());
        if let Ok(site) = Site::open(options, self.global_seen) {
            self.visit(&site, name, now);
        }
        before || self.entries.contains_key(name.as_str())
    }

    /// What calls are to see.
    pub(super) fn snapshot(&self) -> Snapshot {
        let good =
            self.entries.iter().filter_map(|(name, entry)| Some((name, entry.good.as_ref()?)));
        let tools = good.map(|(name, tool)| (name.clone(), Arc::clone(tool))).collect();
        let own = self.entries.values().filter_map(|entry| entry.problem.clone());
        let problems = self.problems.iter().cloned().chain(own).collect();
        Snapshot { tools, builtins: self.builtins.clone(), problems, generation: 0 }
    }

    /// When the next look is due at the latest, where something is settling.
    pub(super) fn settles(&self) -> Option<Instant> {
        self.settles
    }

    /// What ships does not change. Of the operator's, one that cannot be read, or is gone,
    /// leaves the last good one in place: what ships may allow more.
    fn scan_builtins(&mut self, options: &RegistryOptions) {
        if !self.builtins.is_empty() && options.builtin_dir.is_none() {
            return;
        }
        let (found, problems) = builtin::load(options);
        for (name, tool) in found {
            let Some(last) = self.builtins.get_mut(name) else {
                self.builtins.insert(name, tool);
                continue;
            };
            if tool.ships() && !last.ships() {
                self.problems.push(Problem::new(Some(name), &builtin::gone(last)));
            } else if *last != tool {
                *last = tool;
            }
        }
        self.problems.extend(problems);
    }

    fn scan_folders(&mut self, site: &Site<'_>, names: Vec<OsString>, now: Instant) {
        self.tools_lost = None;
        match &site.global {
            Ok(global) => self.global_seen |= global.is_some(),
            Err(error) => self.problems.push(Problem::new(None, error)),
        }
        let mut present = Vec::new();
        for name in names {
            match name.to_str().and_then(ToolName::parse) {
                Some(name) => present.push(name),
                None => {
                    let path = site.tools.path().join(name);
                    self.problems.push(Problem::new(None, &LoadError::BadName { path }));
                }
            }
        }
        let before: Vec<String> = self.entries.keys().cloned().collect();
        for name in before {
            // Sorted by site::list, and ASCII sorts alike as bytes and as str.
            if present.binary_search_by(|known| known.as_str().cmp(&name)).is_err() {
                self.forget(&name, now);
            }
        }
        for name in &present {
            self.visit(site, name, now);
        }
    }

    /// tools.d itself cannot be used.
    fn scan_failed(&mut self, error: &LoadError, now: Instant) {
        let mut problem = Problem::new(None, error);
        let missing = matches!(error, LoadError::Io { source: Errno::ENOENT | Errno::ENOTDIR, .. });
        if missing && !self.entries.is_empty() {
            let since = *self.tools_lost.get_or_insert(now);
            if self.is_settling(since, now) {
                problem.message.push_str("; waiting for it to come back");
            } else {
                self.entries.clear();
            }
        }
        for entry in self.entries.values_mut().filter(|_| error.is_trust()) {
            entry.stamp = None;
            entry.good.take_if(|tool| tool.wrapper.is_some());
        }
        self.problems.push(problem);
    }

    fn is_settling(&mut self, since: Instant, now: Instant) -> bool {
        let until = since + SETTLE;
        let settling = now < until;
        if settling {
            self.settles = Some(self.settles.map_or(until, |other| other.min(until)));
        }
        settling
    }

    fn forget(&mut self, name: &str, now: Instant) {
        if self.entries.remove(name).is_some_and(|entry| entry.defined) {
            self.gone.insert(name.to_owned(), now);
        }
    }

    fn visit(&mut self, site: &Site<'_>, name: &ToolName, now: Instant) {
        let name = name.as_str();
        let stamp = match Stamp::of(site, name) {
            Ok(stamp) => stamp,
            Err(LoadError::Io { source: Errno::ENOENT | Errno::ENOTDIR, .. }) => {
                return self.forget(name, now);
            }
            Err(error) => {
                let suspect = error.is_trust();
                let entry = self.entries.entry(name.to_owned()).or_default();
                return entry.fail(name, Failure { error, suspect });
            }
        };
        let came_back = self.gone.get(name).copied();
        let mut entry = self.entries.remove(name).unwrap_or_default();
        entry.defined |= stamp.definition().is_some();
        if entry.stamp.as_ref() != Some(&stamp) {
            let loaded = load::load(site, name, &stamp);
            self.take(&mut entry, name, stamp, loaded, came_back, now);
        }
        self.entries.insert(name.to_owned(), entry);
    }

    /// Decides what follows from a loaded or failed folder.
    fn take(
        &mut self,
        entry: &mut Entry,
        name: &str,
        stamp: Stamp,
        loaded: Result<Loaded, Failure>,
        came_back: Option<Instant>,
        now: Instant,
    ) {
        entry.stamp = None;
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(failure) => return entry.fail(name, failure),
        };
        let gone = || LoadError::DefinitionGone { path: loaded.tool.origin.file.clone() };
        if stamp.definition().is_none() {
            if entry.defined {
                return entry.fail(name, gone().into());
            }
            if came_back.is_some_and(|since| self.is_settling(since, now)) {
                return entry.fail(name, gone().into());
            }
        }
        let notice = match entry.wrapper.clone().filter(|_| loaded.rank > entry.rank) {
            None => None,
            Some(wrapper) => {
                let path = loaded.tool.origin.file.clone();
                let error = LoadError::WrapperGone { path, wrapper };
                let since = *entry.lost.get_or_insert(now);
                if self.is_settling(since, now) {
                    return entry.fail(name, error.into());
                }
                let mut notice = Problem::new(Some(name), &error);
                notice.message.push_str(match loaded.tool.wrapper {
                    Some(_) => ": the next one in the order is in force",
                    None => ": calls run the binary itself",
                });
                Some(notice)
            }
        };
        entry.accept(loaded, stamp, notice);
    }
}

impl Entry {
    fn accept(&mut self, loaded: Loaded, stamp: Stamp, notice: Option<Problem>) {
        let Loaded { tool, rank, volatile } = loaded;
        self.wrapper = tool.wrapper.as_ref().map(|wrapper| wrapper.path.clone());
        self.rank = rank;
        self.lost = None;
        // A notice stands until something else changes.
        let before = self.notice.take().filter(|(seen, _)| *seen == stamp);
        self.notice = notice.map(|notice| (stamp.clone(), notice)).or(before);
        self.problem = self.notice.as_ref().map(|(_, notice)| notice.clone());
        if self.good.as_deref() != Some(&tool) {
            self.good = Some(Arc::new(tool));
        }
        self.stamp = (stamp.is_settled() && !volatile).then_some(stamp);
    }

    fn fail(&mut self, name: &str, failure: Failure) {
        let Failure { error, suspect } = failure;
        if suspect {
            self.good.take_if(|tool| tool.wrapper.is_some());
        }
        self.stamp = None;
        let mut problem = Problem::new(Some(name), &error);
        if self.good.is_some() {
            problem.message.push_str("; the last good definition stays in force");
        }
        self.problem = Some(problem);
    }
}
