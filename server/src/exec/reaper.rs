//! The one place that starts processes and the one place that waits for them.
//!
//! Two reapers in a process steal each other's children; so every child, a
//! call's, a setup's or an orphan that the kernel gave to the server, is waited
//! for in `collect`, which runs on SIGCHLD. Starting and noting who waits for
//! the end happen under one lock, so no end is ever missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::unistd::Pid;
use tokio::sync::oneshot;

use super::hunt::Hunt;
use crate::os::process::{self, Exit};
use crate::os::spawn::{Image, SpawnError, Spawner};

/// Starts and reaps.
#[derive(Debug)]
pub(crate) struct Reaper {
    state: Mutex<State>,
    hunt: Arc<Hunt>,
}

#[derive(Debug)]
struct State {
    spawner: Spawner,
    waiting: HashMap<Pid, oneshot::Sender<Exit>>,
    orphans: u64,
}

/// A process that was started here.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its number, and its session's and group's. It is not another process's
    /// before `end` has come.
    pub(crate) pid: Pid,
    /// How it ended.
    pub(crate) end: oneshot::Receiver<Exit>,
}

impl Reaper {
    /// A reaper; the server must have SIGCHLD blocked and call `collect` when
    /// it comes.
    pub(crate) fn new(hunt: Arc<Hunt>) -> Result<Reaper, Errno> {
        let state = State { spawner: Spawner::new()?, waiting: HashMap::new(), orphans: 0 };
        Ok(Reaper { state: Mutex::new(state), hunt })
    }

    /// Starts a process.
    pub(crate) fn start(&self, image: &Image<'_>) -> Result<Started, SpawnError> {
        let mut state = self.lock();
        match state.spawner.spawn(image) {
            Ok(pid) => {
                let (sender, end) = oneshot::channel();
                state.waiting.insert(pid, sender);
                Ok(Started { pid, end })
            }
            Err(error) => {
                // It has exited without running anything.
                if let Some(pid) = error.unreaped {
                    process::reap_ended(pid);
                }
                Err(error)
            }
        }
    }

    /// Reaps every child that has ended and tells whoever waits for it.
    pub(crate) fn collect(&self) {
        let mut state = self.lock();
        while let Some((pid, exit)) = self.next(&state) {
            match state.waiting.remove(&pid) {
                // Nobody listening any more is fine: the call was given up.
                Some(sender) => drop(sender.send(exit)),
                None => state.orphans += 1,
            }
        }
    }

    fn next(&self, state: &State) -> Option<(Pid, Exit)> {
        if self.hunt.is_on() {
            let pid = process::peek_next()?;
            if !state.waiting.contains_key(&pid) {
                self.hunt.pass(pid);
            }
            return process::reap_ended(pid);
        }
        process::reap_next()
    }

    /// How many processes were reaped that somebody else had started: what
    /// calls left behind.
    pub(crate) fn orphans(&self) -> u64 {
        self.lock().orphans
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
