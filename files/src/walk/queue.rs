//! What waits, for several threads.
//!
//! Owns: that what was found last is done first (so that little waits), and when all is
//! done. Must not: know what it holds.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A stack of work that makes more work.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    /// How many have taken work, and may make more.
    busy: usize,
    /// How many wait for some.
    idle: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(first: T) -> Queue<T> {
        let state = State { waiting: vec![first], busy: 0, idle: 0, closed: false };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next, once there is one; who took it says [`Queue::done`] after it. `None`: all is
    /// done, or nobody is to go on.
    pub(super) fn take(&self) -> Option<T> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(work) = state.waiting.pop() {
                state.busy += 1;
                return Some(work);
            }
            if state.busy == 0 {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// More, the last of them to be done first. `free`: who adds it takes one next, so that
    /// nobody is woken for that.
    pub(super) fn add(&self, work: &mut Vec<T>, free: bool) {
        if work.is_empty() {
            return;
        }
        let mut state = self.state();
        let wake = state.idle.min(work.len() - usize::from(free));
        state.waiting.append(work);
        drop(state);
        for _ in 0..wake {
            self.changed.notify_one();
        }
    }

    /// That what was taken is done.
    pub(super) fn done(&self) {
        let mut state = self.state();
        state.busy -= 1;
        // To wake is to ask the kernel, even where nobody waits.
        if state.busy == 0 && state.waiting.is_empty() && state.idle > 0 {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Nobody takes any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        drop(waiting);
    }

    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.state().waiting.is_empty()
    }
}
