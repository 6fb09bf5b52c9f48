//! Answers that nobody has read yet: how many bytes of them are in memory.
//!
//! Owns: the bound on them, and what a call is answered whose output has no room. Counted is
//! what fits no message: who reads nothing has one answer at a time of those that do. Must
//! not: know who carries an answer.

use std::sync::{Arc, Mutex, PoisonError};

use tool_protocol::{Code, Failure, Fault, Observation, limits};

use super::share::{Share, Shares};

/// As many bytes may wait for peers to read them: on all sockets, and by HTTP once more.
pub(super) const UNREAD: usize = 128 * 1024 * 1024;

/// Bytes of an output that count.
pub(super) fn counted(seen: &Observation) -> usize {
    let bytes = seen.output.as_ref().map_or(0, |output| output.get().len());
    if bytes > limits::MAX_FRAME { bytes } else { 0 }
}

/// What is kept of a call whose output has no room: that it was done.
pub(super) fn without_output(seen: &mut Observation) {
    seen.output = None;
    seen.success = false;
    let message = "the call was done, and there is no room for its output, as too many \
                   answers wait to be read: read yours, and ask for less";
    seen.error = Some(Failure::new(Fault::Broker(Code::Busy), message));
}

/// What an answer takes, until the last who has this is done with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<Mutex<Vec<Share>>>);

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
        match self.of.enter(self.client, self.clients, bytes) {
            Some(share) => {
                self.held.0.lock().unwrap_or_else(PoisonError::into_inner).push(share);
            }
            None => without_output(&mut seen),
        }
        seen
    }
}
