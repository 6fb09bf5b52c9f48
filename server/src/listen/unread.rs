//! Answers that nobody has read yet: how many bytes of them are in memory.
//!
//! Owns: the bound on them, and what a call is answered whose output has no room. Counted is
//! what fits no message: by HTTP who reads nothing has one at a time of those that do, on a
//! socket as many as its calls. Must not: know who carries an answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tool_protocol::{Code, Failure, Fault, Observation, limits};

use super::share::{Share, Shares};

/// As many bytes may wait for peers to read them: on all sockets, and by HTTP once more.
pub(super) const UNREAD: usize = 128 * 1024 * 1024;

/// What a call is told whose output has no room.
const DONE: &str = "the call was done, and there is no room for its output, as too many answers \
                    wait to be read: read yours, and ask for less";

/// Bytes of an output that count.
pub(super) fn counted(seen: &Observation) -> usize {
    long(seen.output.as_ref().map_or(0, |output| output.get().len()))
}

fn long(bytes: usize) -> usize {
    if bytes > limits::MAX_FRAME { bytes } else { 0 }
}

/// What is kept of a call whose output has no room: that it was done.
pub(super) fn without_output(seen: &mut Observation) {
    seen.output = None;
    seen.success = false;
    seen.error = Some(Failure::new(Fault::Broker(Code::Busy), DONE));
}

/// Whether a failure is that: a call that changes something is not to be repeated blindly.
pub(super) fn was_done(failure: &Failure) -> bool {
    failure.message == DONE
}

/// What an answer takes, until the last who has this is done with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<Mutex<Vec<Share>>>);

impl Held {
    fn shares(&self) -> MutexGuard<'_, Vec<Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the answers to a client's request find room.
#[derive(Clone, Debug)]
pub(super) struct Room {
    of: Arc<Shares>,
    client: usize,
    clients: usize,
    held: Held,
}

impl Room {
    /// Of one of so many clients; it is taken as long as somebody has `held`.
    pub(super) fn new(of: &Arc<Shares>, client: usize, clients: usize, held: Held) -> Room {
        Room { of: Arc::clone(of), client, clients, held }
    }

    /// Takes room for an answer that is in memory so many times until it is written; where
    /// there is none the output is gone.
    pub(super) fn take(&self, mut seen: Observation, times: usize) -> Observation {
        let bytes = counted(&seen).saturating_mul(times);
        if bytes == 0 {
            return seen;
        }
        if !self.more(bytes) {
            without_output(&mut seen);
        }
        seen
    }

    /// Whether there is room for a part of an answer: what was taken before, or more. An answer
    /// may come with another request than asked for it.
    pub(super) fn covers(&self, part: &Bytes) -> bool {
        let bytes = long(part.len());
        let held: usize = self.held.shares().iter().map(Share::much).sum();
        held >= bytes || self.more(bytes)
    }

    fn more(&self, bytes: usize) -> bool {
        let share = self.of.enter(self.client, self.clients, bytes);
        let there = share.is_some();
        self.held.shares().extend(share);
        there
    }
}
