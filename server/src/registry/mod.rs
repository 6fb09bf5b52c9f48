//! Which tools there are.
//!
//! Owns: tools.d on disk, checked and turned into a snapshot that is replaced
//! whole; a call asks the snapshot and never waits for a disk, but for one look
//! at a name that the snapshot does not have. Must not: run anything (the
//! caller runs `setup.sh` of what a `Change` says was added).

mod binary;
mod builtin;
mod check;
mod error;
mod fingerprint;
mod load;
mod name;
mod proxy;
mod reach;
mod site;
mod snapshot;
mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod tool;
mod trust;
pub(crate) mod watch;
mod wrapper;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch as channel;
use tool_policy::NamePattern;

pub(crate) use binary::is_executable;
pub(crate) use check::check;
pub(crate) use error::LoadError;
pub(crate) use name::ToolName;
pub(crate) use proxy::define as define_proxy;
pub(crate) use reach::{DEVICES, SYSTEM, holds, in_reach};
pub(crate) use snapshot::{Change, Problem, Snapshot};
pub(crate) use tool::{EnvRules, Origin, Tool};

use state::State;

/// Where a tool's binary is looked for when its definition does not name it.
pub(crate) const BINARY_DIRS: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];

/// What the registry has to know of the server's settings.
#[derive(Debug, Clone)]
pub(crate) struct RegistryOptions {
    pub(crate) tools_dir: PathBuf,
    pub(crate) restricted_dir: PathBuf,
    /// Besides root and the server's own uid.
    pub(crate) owner: Option<u32>,
    /// The roots that callers can change; need not exist.
    pub(crate) workspace: Vec<PathBuf>,
    pub(crate) default_timeout: Duration,
    pub(crate) require_rules: bool,
    /// Decisions of every tool are told and not carried out.
    pub(crate) observe: bool,
    /// Where interpreters of wrappers are found.
    pub(crate) env_path: String,
    /// `env.inherit`: what a tool without `[env]` gets from the server.
    pub(crate) env_inherit: Vec<NamePattern>,
    pub(crate) binary_dirs: Vec<PathBuf>,
    /// What is the server's own, and what it is: no definition opens it.
    pub(crate) hidden: Vec<(&'static str, PathBuf)>,
    /// What is no tool, and has credentials that no tool may see.
    pub(crate) proxy: Option<Arc<Tool>>,
    /// Definitions in place of those that ship for the broker's own tools.
    pub(crate) builtin_dir: Option<PathBuf>,
    /// Of the broker's own tools those that are served.
    pub(crate) served: Vec<NamePattern>,
}

impl RegistryOptions {
    /// Whether one of the broker's own tools is served.
    pub(crate) fn serves(&self, own: &str) -> bool {
        self.served.iter().any(|pattern| pattern.matches(own.as_ref()))
    }
}

/// Every tool, as the disk has it.
#[derive(Debug)]
pub(crate) struct Registry {
    options: RegistryOptions,
    state: Mutex<State>,
    current: channel::Sender<Arc<Snapshot>>,
}

impl Registry {
    /// Takes the first look. Never fails: what is wrong is in the snapshot.
    pub(crate) fn open(options: RegistryOptions) -> Registry {
        let current = channel::Sender::new(Arc::new(Snapshot::default()));
        let registry = Registry { options, state: Mutex::default(), current };
        registry.rescan();
        registry
    }

    /// What the registry was opened with.
    pub(crate) fn options(&self) -> &RegistryOptions {
        &self.options
    }

    /// The tools of this moment. Cheap: a lock and a count.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// Looks a tool up in the snapshot.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.current.borrow().tools.get(name).map(Arc::clone)
    }

    /// One of the broker's own tools, which a call never finds by its name alone.
    pub(crate) fn builtin(&self, name: &str) -> Option<Arc<Tool>> {
        self.current.borrow().builtins.get(name).map(Arc::clone)
    }

    /// What a name of either kind is defined as now.
    pub(crate) fn in_force(&self, name: &str) -> Option<Arc<Tool>> {
        self.builtin(name).or_else(|| self.find(name))
    }

    /// Looks a tool up, and where the snapshot does not have it takes one look
    /// at the disk for this name. What is in `Change::added` is new: its
    /// `setup.sh` did not run. `None`: `Snapshot::problem` may tell why.
    pub(crate) fn look(&self, name: &ToolName) -> Option<(Arc<Tool>, Change)> {
        if let Some(tool) = self.find(name.as_str()) {
            return Some((tool, Change::default()));
        }
        let change = self.update(|state| state.look(&self.options, name, Instant::now()));
        Some((self.find(name.as_str())?, change))
    }

    /// Looks at the whole of tools.d and swaps the snapshot.
    pub(crate) fn rescan(&self) -> Change {
        self.rescan_at(Instant::now())
    }

    /// Follows the snapshots.
    pub(crate) fn subscribe(&self) -> channel::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// When a look is due although nothing may happen on disk: something
    /// vanished, and whether it comes back is not yet clear.
    pub(crate) fn settles(&self) -> Option<Instant> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).settles()
    }

    fn rescan_at(&self, now: Instant) -> Change {
        self.update(|state| {
            state.scan(&self.options, now);
            true
        })
    }

    /// The only place where a snapshot is replaced; one at a time.
    fn update(&self, look: impl FnOnce(&mut State) -> bool) -> Change {
        // A panic ends the process, so the lock is never poisoned.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !look(&mut state) {
            return Change::default();
        }
        let before = self.snapshot();
        let mut next = state.snapshot();
        reach::settle(&mut next, &self.options);
        let change = Change::between(&before, &next);
        // The broker's own are there from the first look on, and no change.
        if !change.is_empty() || before.builtins.len() != next.builtins.len() {
            next.generation = before.generation + u64::from(!change.is_empty());
            self.current.send_replace(Arc::new(next));
        }
        change
    }
}
