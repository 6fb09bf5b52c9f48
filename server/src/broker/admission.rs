//! How many calls run at once: in all, by tool, by peer. More wait, up to a
//! bound in number and in bytes; beyond it the answer is a clear `busy`.
//!
//! A call gets its three places together or none: one that held a place while
//! it waited for another would keep others from it. Those that wait are let in
//! in their order, but for one whose tool or peer has no place free: it is
//! passed by.
//!
//! Must not: know what a call does. A permit frees its places when it is
//! dropped, however the call ends.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tool_protocol::{Code, Refusal};

/// Who is calling, as far as the kernel tells: the socket it came through and
/// the uid and gid at its end. Behind user namespaces every uid may read 65534;
/// then the socket is the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    /// Which listening socket, counted from 0.
    pub(crate) socket: usize,
    /// As SO_PEERCRED tells.
    pub(crate) uid: u32,
    /// As SO_PEERCRED tells.
    pub(crate) gid: u32,
}

impl Peer {
    /// For those who know no peers.
    pub(crate) fn whose(self) -> (usize, u32, u32) {
        (self.socket, self.uid, self.gid)
    }
}

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Calls at once in all.
    pub(crate) calls: usize,
    /// Calls at once of one tool, where its definition says nothing.
    pub(crate) per_tool: usize,
    /// Calls at once of one peer.
    pub(crate) per_peer: usize,
    /// Calls that wait.
    pub(crate) waiting: usize,
    /// Bytes of the requests that wait.
    pub(crate) waiting_bytes: usize,
}

/// Lets calls in.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    bounds: Bounds,
    running: usize,
    tools: HashMap<String, usize>,
    peers: HashMap<Peer, usize>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    tickets: u64,
}

/// What a call needs a place for.
#[derive(Clone, Debug)]
struct Places {
    tool: String,
    /// Calls at once of this tool.
    tool_bound: usize,
    peer: Peer,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    bytes: usize,
    places: Places,
    let_in: oneshot::Sender<Permit>,
}

/// The places of one running call.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Admission,
    places: Places,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.free(&self.places);
    }
}

impl Admission {
    /// Lets as many in as the bounds say.
    pub(crate) fn new(bounds: Bounds) -> Admission {
        let state = State {
            bounds,
            running: 0,
            tools: HashMap::new(),
            peers: HashMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            tickets: 0,
        };
        Admission { state: Arc::new(Mutex::new(state)) }
    }

    /// A place for a call of this tool by this peer, if one is free now.
    pub(crate) fn try_admit(
        &self,
        tool: &str,
        concurrent: Option<usize>,
        peer: Peer,
    ) -> Option<Permit> {
        let mut state = self.lock();
        let tool_bound = concurrent.unwrap_or(state.bounds.per_tool);
        let places = Places { tool: tool.to_owned(), tool_bound, peer };
        state.take(&places).then(|| Permit { admission: self.clone(), places })
    }

    /// A place for a call of this tool by this peer; waits for one if it must
    /// and may. Giving up the future gives up the wait.
    pub(crate) async fn admit(
        &self,
        tool: &str,
        concurrent: Option<usize>,
        peer: Peer,
        bytes: usize,
    ) -> Result<Permit, Refusal> {
        let (ticket, waits) = {
            let mut state = self.lock();
            let tool_bound = concurrent.unwrap_or(state.bounds.per_tool);
            let places = Places { tool: tool.to_owned(), tool_bound, peer };
            if state.take(&places) {
                return Ok(Permit { admission: self.clone(), places });
            }
            state.wait_in_line(places, bytes)?
        };
        let _line = InLine { admission: self, ticket };
        waits.await.map_err(|_closed| Refusal::new(Code::Draining, "the server is stopping"))
    }

    /// Running and waiting calls.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting.len())
    }

    fn free(&self, places: &Places) {
        self.lock().give_back(places);
        // One at a time, the lock free between: a permit that nobody takes any
        // more comes back here when it is dropped.
        loop {
            let Some(next) = self.lock().next_in_line() else { return };
            let permit = Permit { admission: self.clone(), places: next.places };
            drop(next.let_in.send(permit));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes all three places, or none.
    fn take(&mut self, places: &Places) -> bool {
        let of_tool = self.tools.get(&places.tool).copied().unwrap_or(0);
        let of_peer = self.peers.get(&places.peer).copied().unwrap_or(0);
        let free = self.running < self.bounds.calls
            && of_tool < places.tool_bound
            && of_peer < self.bounds.per_peer;
        if free {
            self.running += 1;
            self.tools.insert(places.tool.clone(), of_tool + 1);
            self.peers.insert(places.peer, of_peer + 1);
        }
        free
    }

    fn give_back(&mut self, places: &Places) {
        self.running = self.running.saturating_sub(1);
        if let Some(count) = self.tools.get_mut(&places.tool) {
            *count -= 1;
            if *count == 0 {
                self.tools.remove(&places.tool);
            }
        }
        if let Some(count) = self.peers.get_mut(&places.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&places.peer);
            }
        }
    }

    fn wait_in_line(
        &mut self,
        places: Places,
        bytes: usize,
    ) -> Result<(u64, oneshot::Receiver<Permit>), Refusal> {
        let (number, held) = (self.waiting.len(), self.waiting_bytes.saturating_add(bytes));
        if number >= self.bounds.waiting || held > self.bounds.waiting_bytes {
            let message = format!(
                "{} calls are under way and {number} wait: try again later, or raise limits.calls or limits.waiting",
                self.running
            );
            return Err(Refusal::new(Code::Busy, message));
        }
        let (let_in, waits) = oneshot::channel();
        self.tickets += 1;
        self.waiting_bytes = held;
        self.waiting.push_back(Waiting { ticket: self.tickets, bytes, places, let_in });
        Ok((self.tickets, waits))
    }

    /// The first that waits and has all its places free, which it has then.
    fn next_in_line(&mut self) -> Option<Waiting> {
        if self.running >= self.bounds.calls {
            return None;
        }
        let index = (0..self.waiting.len()).find(|index| {
            let places = self.waiting.get(*index).map(|waiting| waiting.places.clone());
            places.is_some_and(|places| self.take(&places))
        })?;
        let next = self.waiting.remove(index)?;
        self.waiting_bytes -= next.bytes;
        Some(next)
    }
}

/// Leaves the line when the wait is given up.
struct InLine<'a> {
    admission: &'a Admission,
    ticket: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        let place = state.waiting.iter().position(|waiting| waiting.ticket == self.ticket);
        if let Some(waiting) = place.and_then(|index| state.waiting.remove(index)) {
            state.waiting_bytes -= waiting.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const PEER: Peer = Peer { socket: 0, uid: 1, gid: 1 };

    fn admission(calls: usize, per_peer: usize) -> Admission {
        Admission::new(Bounds { calls, per_tool: 9, per_peer, waiting: 2, waiting_bytes: 100 })
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn waiting_for_one_place_keeps_nobody_from_another() {
        let admission = admission(9, 2);
        let mut slow = pin!(admission.admit("slow", Some(1), PEER, 1));
        let Poll::Ready(Ok(first)) = poll(slow.as_mut()) else { panic!("a free place") };
        let mut waits = pin!(admission.admit("slow", Some(1), PEER, 1));
        assert!(poll(waits.as_mut()).is_pending());
        let mut other = pin!(admission.admit("fast", None, PEER, 1));
        let Poll::Ready(Ok(second)) = poll(other.as_mut()) else { panic!("passed by") };
        drop(first);
        assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(_))));
        drop(second);
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let admission = admission(1, 9);
        let mut first = pin!(admission.admit("a", None, PEER, 1));
        let Poll::Ready(Ok(permit)) = poll(first.as_mut()) else { panic!("a free place") };
        {
            let mut gone = pin!(admission.admit("a", None, PEER, 60));
            assert!(poll(gone.as_mut()).is_pending());
            // Let in, and then nobody there to take it.
            drop(permit);
        }
        assert_eq!(admission.load(), (0, 0));
        let mut next = pin!(admission.admit("a", None, PEER, 60));
        assert!(matches!(poll(next.as_mut()), Poll::Ready(Ok(_))));
    }

    #[test]
    fn beyond_the_bounds_the_answer_is_busy() {
        let admission = admission(1, 9);
        let mut first = pin!(admission.admit("a", None, PEER, 1));
        let Poll::Ready(Ok(_permit)) = poll(first.as_mut()) else { panic!("a free place") };
        let mut second = pin!(admission.admit("a", None, PEER, 60));
        assert!(poll(second.as_mut()).is_pending());
        let mut third = pin!(admission.admit("a", None, PEER, 60));
        let Poll::Ready(Err(refusal)) = poll(third.as_mut()) else { panic!("too many bytes") };
        assert_eq!(refusal.code, Code::Busy);
    }
}
