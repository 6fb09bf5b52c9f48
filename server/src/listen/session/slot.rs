//! Where a session and the threads that do its calls find what is lent.
//!
//! Owns: the reading half while it is lent, the calls that threads are at meanwhile, and who
//! has which. Must not: read, or do under its lock anything but move what it has.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::Ended;
use super::call::{Begun, Caller};
use crate::listen::connection::{Read, Reader};

/// How often a thread looks again for what another one reads just now: it has it for less time
/// than it takes to wake a thread.
const LOOKS: usize = 20;

/// A call under way, begun by who cannot wait for it.
pub(super) type Polled = Begun<Pin<Box<dyn Future<Output = Ended> + Send>>>;

/// What is lent, with all that calls need.
pub(super) struct Lease {
    pub(super) reader: Reader,
    pub(super) caller: Caller,
    pub(super) runtime: Handle,
    /// Several calls have come at once of late.
    pub(super) several: bool,
}

/// Where what is lent is.
enum Place {
    /// With the session, or on its way there.
    Home,
    /// Here, for whoever ends a call.
    Here(Box<Lease>),
    /// With a thread that reads.
    Read,
    /// With a thread that waits for something to read.
    Awaited,
}

/// All of it.
pub(super) struct Slot {
    inner: Mutex<Inner>,
    comes: Notify,
}

struct Inner {
    lease: Place,
    /// Calls that threads are at, by number; the session may take them over.
    calls: Vec<(u64, Polled)>,
    /// How many there were.
    count: u64,
    /// A thread is on its way to what is lent.
    invited: bool,
    /// The session has got a call without the reading half, and is to have that too.
    wanted: bool,
    /// For the session: one of each thread at most.
    back: VecDeque<Back>,
}

/// What comes back to the session.
pub(super) struct Back {
    pub(super) reader: Option<Reader>,
    /// What the thread has read and is not its to do, and what went wrong.
    pub(super) read: io::Result<Option<Read>>,
    /// Calls that have to wait, or that threads are at.
    pub(super) begun: Vec<Polled>,
    /// A call that has ended without an answer.
    pub(super) ended: Option<Ended>,
}

impl Inner {
    fn remove(&mut self, number: u64) -> Option<Polled> {
        let at = self.calls.iter().position(|(other, _)| *other == number)?;
        Some(self.calls.swap_remove(at).1)
    }

    /// What is lent, where no thread has it.
    fn here(&mut self) -> Option<Box<Lease>> {
        match std::mem::replace(&mut self.lease, Place::Home) {
            Place::Here(lease) => Some(lease),
            other => {
                self.lease = other;
                None
            }
        }
    }

    /// For the session; with what is lent all calls that threads are at go too.
    fn push(
        &mut self,
        lease: Option<Box<Lease>>,
        read: io::Result<Option<Read>>,
        begun: Option<Polled>,
        ended: Option<Ended>,
    ) {
        let reader = lease.map(|lease| lease.reader);
        let mut all: Vec<Polled> = begun.into_iter().collect();
        match reader {
            Some(_) => {
                self.lease = Place::Home;
                all.extend(self.calls.drain(..).map(|(_, begun)| begun));
            }
            None => self.wanted = true,
        }
        self.back.push_back(Back { reader, read, begun: all, ended });
    }
}

impl Slot {
    /// With nothing lent.
    pub(super) fn new() -> Arc<Slot> {
        let (calls, back) = (Vec::new(), VecDeque::new());
        let (invited, wanted) = (false, false);
        let inner = Inner { lease: Place::Home, calls, count: 0, invited, wanted, back };
        Arc::new(Slot { inner: Mutex::new(inner), comes: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session lends that to whoever ends a call next.
    pub(super) fn offer(&self, lease: Box<Lease>) {
        let mut inner = self.lock();
        (inner.lease, inner.wanted) = (Place::Here(lease), false);
    }

    /// Whether the session is to have what is lent.
    pub(super) fn is_wanted(&self) -> bool {
        self.lock().wanted
    }

    /// For a thread that has ended a call, or was invited.
    pub(super) fn take(&self) -> Option<Box<Lease>> {
        for _ in 0..LOOKS {
            let mut inner = self.lock();
            match std::mem::replace(&mut inner.lease, Place::Home) {
                Place::Here(lease) => {
                    inner.lease = if lease.several { Place::Read } else { Place::Awaited };
                    return Some(lease);
                }
                Place::Read => inner.lease = Place::Read,
                other => {
                    inner.lease = other;
                    return None;
                }
            }
            drop(inner);
            std::thread::yield_now();
        }
        None
    }

    /// Who was invited has come, or will not.
    pub(super) fn has_come(&self) {
        self.lock().invited = false;
    }

    /// The thread that has it reads now, or waits for something to read.
    pub(super) fn is_read(&self, now: bool) {
        self.lock().lease = if now { Place::Read } else { Place::Awaited };
    }

    /// The thread that has it is at a call from now on; the call's number, and whether another
    /// thread is to be invited, as `more` has come. At most so many do calls.
    pub(super) fn at_call(
        &self,
        lease: Box<Lease>,
        begun: Polled,
        more: bool,
        most: usize,
    ) -> (u64, bool) {
        let mut inner = self.lock();
        inner.count += 1;
        let number = inner.count;
        inner.calls.push((number, begun));
        inner.lease = Place::Here(lease);
        let invites = more && !inner.invited && inner.calls.len() < most;
        inner.invited |= invites;
        (number, invites)
    }

    /// A thread has answered what it was at; nothing, where the session has taken over.
    pub(super) fn done(&self, number: u64) -> Option<Polled> {
        self.lock().remove(number)
    }

    /// Gives back to the session all that is lent, by the thread that has it.
    pub(super) fn give_back(
        &self,
        lease: Box<Lease>,
        read: io::Result<Option<Read>>,
        begun: Option<Polled>,
        ended: Option<Ended>,
    ) {
        self.lock().push(Some(lease), read, begun, ended);
        self.comes.notify_one();
    }

    /// Gives the session a call that a thread was at, unless it has taken over. The call is at no
    /// moment nobody's.
    pub(super) fn bring_call(&self, number: u64) {
        let mut inner = self.lock();
        let Some(begun) = inner.remove(number) else { return };
        let lease = inner.here();
        inner.push(lease, Ok(None), Some(begun), None);
        drop(inner);
        self.comes.notify_one();
    }

    /// Gives the session something of a call; with what is lent, where nobody has that.
    pub(super) fn bring(&self, begun: Option<Polled>, ended: Option<Ended>) {
        let mut inner = self.lock();
        let lease = inner.here();
        inner.push(lease, Ok(None), begun, ended);
        drop(inner);
        self.comes.notify_one();
    }

    /// What comes back next. Giving up the future loses nothing.
    pub(super) async fn next(&self) -> Back {
        loop {
            if let Some(back) = self.come() {
                return back;
            }
            self.comes.notified().await;
        }
    }

    /// What has come back.
    pub(super) fn come(&self) -> Option<Back> {
        self.lock().back.pop_front()
    }

    /// The session takes all of it, where no thread reads; if `seen` is given, where no call has
    /// been begun since, or none is under way. Else how many were begun.
    pub(super) fn regain(&self, seen: Option<u64>) -> Result<(Reader, Vec<Polled>), u64> {
        let mut inner = self.lock();
        let busy = seen.is_some_and(|seen| seen != inner.count && !inner.calls.is_empty());
        match std::mem::replace(&mut inner.lease, Place::Home) {
            Place::Here(lease) if !busy => {
                let begun = inner.calls.drain(..).map(|(_, begun)| begun).collect();
                Ok((lease.reader, begun))
            }
            other => {
                inner.lease = other;
                Err(inner.count)
            }
        }
    }
}
