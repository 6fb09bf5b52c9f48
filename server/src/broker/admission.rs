//! How many calls run at once: in all, by tool, by peer. More wait, up to a
//! bound in number and in bytes; beyond it the answer is a clear `busy`.
//!
//! Must not: know what a call does. A permit is held as long as the call runs
//! and frees its places when it is dropped, however the call ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
#[derive(Debug)]
pub(crate) struct Admission {
    bounds: Bounds,
    all: Arc<Semaphore>,
    tools: Mutex<HashMap<String, (usize, Arc<Semaphore>)>>,
    peers: Mutex<HashMap<Peer, Arc<Semaphore>>>,
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
}

/// The places of one running call.
#[derive(Debug)]
pub(crate) struct Permit {
    _places: [OwnedSemaphorePermit; 3],
}

impl Admission {
    /// Lets as many in as the bounds say.
    pub(crate) fn new(bounds: Bounds) -> Admission {
        Admission {
            bounds,
            all: Arc::new(Semaphore::new(bounds.calls)),
            tools: Mutex::default(),
            peers: Mutex::default(),
            waiting: AtomicUsize::new(0),
            waiting_bytes: AtomicUsize::new(0),
        }
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
        let queues = [self.peer(peer), self.tool(tool, concurrent), Arc::clone(&self.all)];
        let tries = queues.each_ref().map(|queue| Arc::clone(queue).try_acquire_owned());
        if let [Ok(first), Ok(second), Ok(third)] = tries {
            return Ok(Permit { _places: [first, second, third] });
        }
        // Places that were had are free again here: to hold one of them while
        // waiting for another would let one tool starve the rest.
        let _waiting = self.wait_in_line(bytes)?;
        let mut places = Vec::with_capacity(queues.len());
        for queue in queues {
            places.push(queue.acquire_owned().await.map_err(|_closed| stopping())?);
        }
        places.try_into().map(|places| Permit { _places: places }).map_err(|_number| stopping())
    }

    /// Running and waiting calls.
    pub(crate) fn load(&self) -> (usize, usize) {
        let running = self.bounds.calls.saturating_sub(self.all.available_permits());
        (running, self.waiting.load(Ordering::Relaxed))
    }

    fn wait_in_line(&self, bytes: usize) -> Result<Waiting<'_>, Refusal> {
        let number = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let held = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let place = Waiting { admission: self, bytes };
        if number > self.bounds.waiting || held > self.bounds.waiting_bytes {
            let message = format!(
                "{} calls are under way and {} wait: try again later, or raise limits.calls or limits.waiting",
                self.load().0,
                number - 1
            );
            return Err(Refusal::new(Code::Busy, message));
        }
        Ok(place)
    }

    fn tool(&self, name: &str, concurrent: Option<usize>) -> Arc<Semaphore> {
        let size = concurrent.unwrap_or(self.bounds.per_tool);
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, queue)) = tools.get(name)
            && *known == size
        {
            return Arc::clone(queue);
        }
        let queue = Arc::new(Semaphore::new(size));
        tools.insert(name.to_owned(), (size, Arc::clone(&queue)));
        queue
    }

    fn peer(&self, peer: Peer) -> Arc<Semaphore> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(self.bounds.per_peer));
        Arc::clone(peers.entry(peer).or_insert_with(new))
    }
}

fn stopping() -> Refusal {
    Refusal::new(Code::Draining, "the server is stopping")
}

struct Waiting<'a> {
    admission: &'a Admission,
    bytes: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.admission.waiting.fetch_sub(1, Ordering::Relaxed);
        self.admission.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
