//! Where a session and the threads that do its calls find what is lent.
//!
//! Owns: the reading half while it is lent, the calls that threads are at meanwhile, and who
//! has which. Must not: read, or do under its lock anything but move what it has.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::Ended;
use super::call::{Begun, Caller};
use crate::exec::crew::Looking;
use crate::listen::connection::{Line, Read, Reader};

/// A thread's part in what is lent: it has that, is at a call, or comes for it.
pub(super) struct Part {
    slot: Arc<Slot>,
    lending: u64,
}

impl Part {
    /// What it is a part in.
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.slot.lock().leaves(self.lending);
    }
}

/// A call under way, begun by who cannot wait for it.
pub(super) type Polled = Begun<Pin<Box<dyn Future<Output = Ended> + Send>>>;

/// What is lent, with all that calls need.
pub(super) struct Lease {
    pub(super) reader: Reader,
    pub(super) caller: Arc<Caller>,
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
    begun: Condvar,
    line: Weak<Line>,
}

struct Inner {
    lease: Place,
    /// Calls that threads are at, by number; the session may take them over. Nothing where
    /// one is being begun, which is not waited for long.
    calls: Vec<(u64, Option<Polled>)>,
    /// How many there were.
    count: u64,
    /// Which lending this is, and how many threads have a part in it: who has what is lent, is
    /// at a call, or looks for what is lent.
    lending: u64,
    parts: usize,
    /// The session has got a call without the reading half, and is to have that too.
    wanted: bool,
    /// Somebody waits until no call is being begun.
    awaited: bool,
    /// For the session: few, as each thread that brings something leaves then.
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
    /// A thread has no part in that lending any more.
    fn leaves(&mut self, lending: u64) {
        if self.lending == lending {
            self.parts = self.parts.saturating_sub(1);
        }
    }

    fn part(&mut self, slot: &Arc<Slot>, most: usize) -> Option<Part> {
        if matches!(self.lease, Place::Home) || self.parts >= most {
            return None;
        }
        self.parts += 1;
        Some(Part { slot: Arc::clone(slot), lending: self.lending })
    }

    fn remove(&mut self, number: u64) -> Option<Polled> {
        let at = self.calls.iter().position(|(other, _)| *other == number)?;
        self.calls.swap_remove(at).1
    }

    fn is_beginning(&self) -> bool {
        self.calls.iter().any(|(_, begun)| begun.is_none())
    }

    /// All calls that threads are at.
    fn all(&mut self) -> impl Iterator<Item = Polled> {
        self.calls.drain(..).filter_map(|(_, begun)| begun)
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

    /// For the session; with what is lent all calls that threads are at go too, none of which
    /// is being begun.
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
                all.extend(self.all());
            }
            None => self.wanted = true,
        }
        self.back.push_back(Back { reader, read, begun: all, ended });
    }
}

impl Slot {
    /// With nothing lent.
    pub(super) fn new(line: Weak<Line>) -> Arc<Slot> {
        let (calls, back) = (Vec::new(), VecDeque::new());
        let (wanted, awaited) = (false, false);
        let (lease, count, lending, parts) = (Place::Home, 0, 0, 0);
        let inner = Inner { lease, calls, count, lending, parts, wanted, awaited, back };
        let (comes, begun) = (Notify::new(), Condvar::new());
        Arc::new(Slot { inner: Mutex::new(inner), comes, begun, line })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session lends that to whoever ends a call next. How many calls were begun before.
    pub(super) fn offer(&self, lease: Box<Lease>) -> u64 {
        let mut inner = self.lock();
        (inner.lease, inner.wanted) = (Place::Here(lease), false);
        // Who is still at a call of one before has no part in this.
        (inner.lending, inner.parts) = (inner.lending + 1, 0);
        inner.count
    }

    /// A part in what is lent, where not so many have one.
    pub(super) fn part(self: &Arc<Slot>, most: usize) -> Option<Part> {
        self.lock().part(self, most)
    }

    /// For a thread that is at no call: what is lent, or it has no part in that any more.
    pub(super) fn take(mut part: Part) -> Option<(Part, Box<Lease>)> {
        let slot = Arc::clone(&part.slot);
        let mut looking = Looking::default();
        loop {
            let mut inner = slot.lock();
            match std::mem::replace(&mut inner.lease, Place::Home) {
                Place::Here(lease) if inner.lending == part.lending => {
                    inner.lease = if lease.several { Place::Read } else { Place::Awaited };
                    return Some((part, lease));
                }
                Place::Read if inner.lending == part.lending && looking.goes_on() => {
                    inner.lease = Place::Read;
                }
                other => {
                    inner.lease = other;
                    // At once: who reads has another thread come, where there is none.
                    inner.leaves(std::mem::take(&mut part.lending));
                    drop(inner);
                    slot.flush();
                    return None;
                }
            }
            drop(inner);
            slot.flush();
            std::thread::yield_now();
        }
    }

    /// No answer follows at once.
    pub(super) fn flush(&self) {
        if let Some(line) = self.line.upgrade()
            && line.flush()
            && !line.is_written()
        {
            // The session writes what is left.
            self.bring(None, None);
        }
    }

    /// Whether more has come, which a thread that answers will do next.
    pub(super) fn follows(&self) -> bool {
        matches!(&self.lock().lease, Place::Here(lease) if !lease.reader.is_between())
    }

    /// The thread that has it waits for something to read.
    pub(super) fn waits(&self) {
        self.lock().lease = Place::Awaited;
    }

    /// The thread that has it reads now; `false`: it is to be given back.
    pub(super) fn reads(&self) -> bool {
        let mut inner = self.lock();
        inner.lease = Place::Read;
        !inner.wanted
    }

    /// The thread that has it begins a call, and leaves it here: the call's number, and a part
    /// for another thread where `more` has come and not so many have one.
    pub(super) fn begins(
        self: &Arc<Slot>,
        lease: Box<Lease>,
        more: bool,
        most: usize,
    ) -> (u64, Option<Part>) {
        let mut inner = self.lock();
        inner.count += 1;
        let number = inner.count;
        inner.calls.push((number, None));
        inner.lease = Place::Here(lease);
        (number, more.then(|| inner.part(self, most)).flatten())
    }

    /// The call is begun.
    pub(super) fn begun(&self, number: u64, begun: Polled) {
        let mut inner = self.lock();
        if let Some((_, call)) = inner.calls.iter_mut().find(|(other, _)| *other == number) {
            *call = Some(begun);
        }
        self.is_begun(&mut inner);
    }

    fn is_begun(&self, inner: &mut Inner) {
        if inner.awaited && !inner.is_beginning() {
            inner.awaited = false;
            self.begun.notify_all();
        }
    }

    /// A thread has answered what it was at; nothing, where the session has taken over.
    pub(super) fn done(&self, number: u64) -> Option<Polled> {
        self.lock().remove(number)
    }

    /// Gives back to the session all that is lent, by the thread that has it.
    pub(super) fn give_back(&self, lease: Box<Lease>, read: io::Result<Option<Read>>) {
        let mut inner = self.lock();
        // What was read may be about a call that is being begun.
        while inner.is_beginning() {
            inner.awaited = true;
            inner = self.begun.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.push(Some(lease), read, None, None);
        drop(inner);
        self.comes.notify_one();
    }

    /// Gives the session a call that a thread was at, unless it has taken over. The call is at no
    /// moment nobody's.
    pub(super) fn bring_call(&self, number: u64) {
        let mut inner = self.lock();
        if let Some(begun) = inner.remove(number) {
            self.hand(inner, Some(begun), None);
        }
    }

    /// Gives the session a call that was begun and is not a thread's, or is over.
    pub(super) fn bring_begun(&self, number: u64, begun: Option<Polled>, ended: Option<Ended>) {
        let mut inner = self.lock();
        inner.remove(number);
        self.is_begun(&mut inner);
        self.hand(inner, begun, ended);
    }

    /// Gives the session something of a call that is no thread's any more, or nothing: with what
    /// is lent, where nobody has that.
    pub(super) fn bring(&self, begun: Option<Polled>, ended: Option<Ended>) {
        self.hand(self.lock(), begun, ended);
    }

    fn hand(&self, mut inner: MutexGuard<'_, Inner>, begun: Option<Polled>, ended: Option<Ended>) {
        // With a call that is being begun it would not be whole.
        let lease = if inner.is_beginning() { None } else { inner.here() };
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

    /// The session takes it back, where no thread has a part in it: none has come, or it was
    /// none of the calls that a thread answers.
    pub(super) fn unclaimed(&self) -> Option<Reader> {
        let mut inner = self.lock();
        if inner.parts > 0 {
            return None;
        }
        inner.here().map(|lease| lease.reader)
    }

    /// The session takes all of it, where no thread reads or begins a call; if `seen` is given,
    /// where no call has been begun since. Else how many were begun.
    pub(super) fn regain(&self, seen: Option<u64>) -> Result<(Reader, Vec<Polled>), u64> {
        let mut inner = self.lock();
        let busy = inner.is_beginning() || seen.is_some_and(|seen| seen != inner.count);
        match std::mem::replace(&mut inner.lease, Place::Home) {
            Place::Here(lease) if !busy => Ok((lease.reader, inner.all().collect())),
            other => {
                inner.lease = other;
                Err(inner.count)
            }
        }
    }
}
