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
use tokio::sync::{mpsc, oneshot};

use super::hunt::Hunt;
use crate::os::process::{self, Change, Exit, Handle};
use crate::os::spawn::{Image, SpawnError, Spawner};

/// What a task hears of a process.
#[derive(Debug)]
pub(crate) struct Watch {
    /// How it ended.
    pub(crate) end: oneshot::Receiver<Exit>,
    /// The signals that stopped it.
    pub(crate) stops: mpsc::Receiver<i32>,
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    /// Where a task is told of it.
    pub(crate) watch: Option<Watch>,
    /// Of one with namespaces, to which something is to be done: itself, whatever
    /// becomes of its number.
    pub(crate) handle: Option<Handle>,
}

/// Stops that nobody has heard of yet; more are as good as one.
const STOPS: usize = 4;

fn watch() -> (Waits, Watch) {
    let (ended, end) = oneshot::channel();
    let (stopped, stops) = mpsc::channel(STOPS);
    (Waits::Task(ended, stopped), Watch { end, stops })
}

/// Starts and reaps.
#[derive(Debug)]
pub(crate) struct Reaper {
    state: Mutex<State>,
    hunt: Arc<Hunt>,
}

#[derive(Debug)]
struct State {
    spawner: Spawner,
    waiting: HashMap<Pid, Waits>,
    orphans: u64,
}

/// Who waits for the end of a process.
#[derive(Debug)]
enum Waits {
    /// A task.
    Task(oneshot::Sender<Exit>, mpsc::Sender<i32>),
    /// Whoever calls `collect`, and knows it by this number.
    Collector(u64),
}

impl Reaper {
    /// A reaper; the server must have SIGCHLD blocked and call `collect` when
    /// it comes.
    pub(crate) fn new(hunt: Arc<Hunt>) -> Result<Reaper, Errno> {
        let state = State { spawner: Spawner::apart()?, waiting: HashMap::new(), orphans: 0 };
        Ok(Reaper { state: Mutex::new(state), hunt })
    }

    /// Starts a process, whose number is also its session's or group's. `collect`
    /// tells of it by `collector`, or else a task is told.
    pub(crate) fn start(
        &self,
        image: &Image<'_>,
        collector: Option<u64>,
    ) -> Result<Started, SpawnError> {
        let mut state = self.lock();
        match state.spawner.spawn(image) {
            Ok(pid) => {
                // Nothing is reaped meanwhile: the number is still this child's.
                let handle = if image.spaces { Handle::open(pid).ok() } else { None };
                let (waits, heard) = match collector {
                    Some(collector) => (Waits::Collector(collector), None),
                    None => {
                        let (waits, heard) = watch();
                        (waits, Some(heard))
                    }
                };
                state.waiting.insert(pid, waits);
                Ok(Started { pid, watch: heard, handle })
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

    /// Tells a task instead, of a process whose end `collect` has not told yet: to
    /// be called by whoever calls `collect`.
    pub(crate) fn tell_task(&self, pid: Pid) -> Watch {
        let (waits, watch) = watch();
        self.lock().waiting.insert(pid, waits);
        watch
    }

    /// Reaps children that have ended and tells whoever waits for them, as far as
    /// the first that nobody but the collector waits for, which it gives. `None`:
    /// that was all.
    pub(crate) fn collect(&self) -> Option<(u64, Change)> {
        let mut state = self.lock();
        while let Some((pid, change)) = self.next(&state) {
            let waits = state.waiting.get(&pid);
            if let Some(Waits::Collector(number)) = waits {
                let number = *number;
                if matches!(change, Change::Ended(_)) {
                    state.waiting.remove(&pid);
                }
                return Some((number, change));
            }
            match (change, waits) {
                (Change::Stopped(signal), Some(Waits::Task(_, stops))) => {
                    stops.try_send(signal).ok();
                }
                (Change::Ended(exit), Some(_)) => {
                    // Nobody listening any more is fine: the call was given up.
                    if let Some(Waits::Task(sender, _)) = state.waiting.remove(&pid) {
                        sender.send(exit).ok();
                    }
                }
                (Change::Ended(_), None) => state.orphans += 1,
                (Change::Stopped(_), _) => {}
            }
        }
        None
    }

    /// Sends a signal to the group of a process that has not been reaped: its
    /// number is still its own.
    pub(crate) fn signal(&self, pid: Pid, number: i32) -> Result<(), Errno> {
        let state = self.lock();
        if state.waiting.contains_key(&pid) { process::signal_group(pid, number) } else { Ok(()) }
    }

    fn next(&self, state: &State) -> Option<(Pid, Change)> {
        if self.hunt.is_on() {
            let Some(pid) = process::peek_next() else {
                let (pid, signal) = process::next_stopped()?;
                return Some((pid, Change::Stopped(signal)));
            };
            if !state.waiting.contains_key(&pid) {
                self.hunt.pass(pid);
            }
            return process::reap_ended(pid).map(|(pid, exit)| (pid, Change::Ended(exit)));
        }
        process::next_change()
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
