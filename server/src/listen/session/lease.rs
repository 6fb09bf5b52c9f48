//! A connection lent to the threads that answer its calls for files.
//!
//! Who makes one short call mostly makes the next. So the thread that has answered one reads
//! what comes next itself, for a moment, and does it: the session is not woken, two threads
//! are for each call and not three. Where several calls have come at once it leaves what is
//! lent to the next thread before it does its own: one reads, the others are at their calls,
//! and whoever has ended one reads on. A call goes the same way as from the session, by the
//! same future (`Caller::begin`), polled where it is; what it would send to another thread is
//! done by this one (`crew::catch`). Anything but such a call goes back to the session as it
//! came, and so does a call that has to wait for something.
//!
//! Nothing is heard of a connection whose threads are at calls. So the session looks at what it
//! has lent (`lent`), and where calls go on for longer takes over: the reading half, and the
//! futures of the calls, as if it had begun them.
//!
//! Owns: what such a thread does. Must not: do anything there that opens a file: it reaches the
//! workspace alone.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::task::{Poll, Waker};
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tool_protocol::Incoming;
use tool_protocol::frame::{self, Kind};
use tool_protocol::request::{Input, ToolCall};

use super::Ended;
use super::call::{Asked, Begun, Caller};
use super::slot::{Lease, Part, Polled, Slot};
use crate::exec::CrewError;
use crate::exec::crew::{self, Come, Looking, Stay, Whose};
use crate::listen::connection::Read;
use crate::os::descriptors::readable_within;

/// Threads that do the calls of a connection which is lent: more would wait for each other.
pub(super) static THREADS: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// A thread that waits where its last call came from.
struct Waiting {
    part: Part,
    lease: Box<Lease>,
}

impl Slot {
    /// This thread has answered a call: it stays, where there is a part for it.
    pub(super) fn answered(self: &Arc<Slot>) {
        if let Some(part) = self.part(*THREADS) {
            crew::stay(Box::new(move || Waiting::there(part)));
        }
    }
}

impl Lease {
    /// No answer follows at once.
    fn flush(&self) {
        if let Some(line) = self.caller.line.upgrade() {
            line.flush();
        }
    }

    /// Whether more has come than was read; the socket is asked where that is likely.
    fn has_more(&mut self) -> bool {
        let has = !self.reader.is_between()
            || self.several && readable_within(self.reader.socket(), Duration::ZERO);
        self.several |= has;
        has
    }

    /// What has come, where all of it is there. Where several calls came at once of late it is
    /// looked for again, for a moment.
    fn now(&mut self) -> io::Result<Option<Read>> {
        let mut looking = Looking::default();
        loop {
            let read = self.reader.now()?;
            if read.is_none() {
                self.flush();
            }
            if read.is_some() || !self.reader.is_between() || !self.several {
                return Ok(read);
            }
            while !readable_within(self.reader.socket(), Duration::ZERO) {
                if !looking.goes_on() {
                    self.several = false;
                    return Ok(None);
                }
                std::thread::yield_now();
            }
        }
    }
}

impl Waiting {
    fn there(part: Part) -> Option<Box<dyn Stay>> {
        let (part, lease) = Slot::take(part)?;
        Some(Box::new(Waiting { part, lease }))
    }

    fn give_back(self, read: io::Result<Option<Read>>) {
        // What was read may take the session long.
        self.lease.flush();
        self.part.slot().give_back(self.lease, read);
    }

    /// What came, where it is a call to be done here.
    fn asked(&self, payload: &Bytes) -> Option<Asked> {
        let Caller { context, gone, .. } = &*self.lease.caller;
        if self.lease.reader.has_descriptors() || gone.is_cancelled() {
            return None;
        }
        (!context.broker.draining.is_cancelled()).then_some(())?;
        let Ok((Kind::Json, object)) = frame::split(payload) else { return None };
        let Ok(Incoming::Tool(call)) = Incoming::parse(object) else { return None };
        let ToolCall { tool, input: Input::Here(input), id, pieces: false } = call else {
            return None;
        };
        let tool = String::from_utf8(tool.as_bytes().to_vec()).ok()?;
        let input = input.into_bytes();
        context.agent.is_for_files(&tool).then_some(())?;
        Some(Asked { tool, id, pieces: false, input, room: None })
    }

    /// Does a call; its part, where that was answered.
    fn call(self, asked: Asked, fit: Result<(), CrewError>) -> Option<Part> {
        let Waiting { part, mut lease } = self;
        let slot = Arc::clone(part.slot());
        let (caller, runtime) = (Arc::clone(&lease.caller), lease.runtime.clone());
        // All of it, so that whatever this call waits for holds nothing of the broker's.
        let more = lease.has_more();
        let (number, another) = slot.begins(lease, more, *THREADS);
        if let Some(another) = another {
            let come = move || crew::stay(Box::new(move || Waiting::there(another)));
            caller.context.broker.invite(caller.peer, come);
        }
        let to_come = Arc::clone(&slot);
        let Begun { id, gone, answered, ending } =
            caller.begin(asked, move || to_come.follows(), || {});
        let is_answered = Arc::clone(&answered);
        let line = caller.line.clone();
        drop(caller);
        let mut begun = Begun { id, gone, answered, ending: Box::pin(ending) as Pin<Box<_>> };
        let work = match crew::catch(|| poll(&runtime, &mut begun)) {
            (Poll::Pending, Some(work)) => work,
            // Over before it began: what was to be done has nobody who waits for it.
            (Poll::Ready(ended), _) => {
                slot.bring_begun(number, None, Some(ended));
                return None;
            }
            (Poll::Pending, None) => {
                slot.bring_begun(number, Some(begun), None);
                return None;
            }
        };
        slot.begun(number, begun);
        work.go(fit);
        // What is not answered is to be recorded, and that may open a file.
        if !is_answered.load(Ordering::Acquire) {
            slot.bring_call(number);
            return None;
        }
        // Nothing: it went on for too long, and the session has taken over.
        let Some(mut begun) = slot.done(number) else {
            slot.flush();
            return None;
        };
        match poll(&runtime, &mut begun) {
            Poll::Ready(Ended::Answered(_)) => {}
            Poll::Ready(ended) => {
                slot.bring(None, Some(ended));
                return None;
            }
            Poll::Pending => {
                slot.bring(Some(begun), None);
                return None;
            }
        }
        if !line.upgrade().is_some_and(|line| line.is_written()) {
            slot.bring(None, None);
            return None;
        }
        Some(part)
    }
}

/// Goes on with a call as far as nothing has to be waited for.
fn poll(runtime: &Handle, begun: &mut Polled) -> Poll<Ended> {
    let _entered = runtime.enter();
    let mut nobody = std::task::Context::from_waker(Waker::noop());
    begun.ending.as_mut().poll(&mut nobody)
}

impl Stay for Waiting {
    fn whose(&self) -> Whose {
        self.lease.caller.peer.whose()
    }

    fn has_more(&self) -> bool {
        self.lease.several || !self.lease.reader.is_between()
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.lease.reader.socket()
    }

    fn go(mut self: Box<Self>, fit: Result<(), CrewError>) -> Option<Come> {
        // Who does not take its answers is not heard any further; the session writes on. And of
        // calls that wait it counts how many there may be.
        let written = self.lease.caller.line.upgrade().is_some_and(|line| line.is_written());
        if !self.part.slot().reads() || !written {
            self.give_back(Ok(None));
            return None;
        }
        let payload = match self.lease.now() {
            Ok(Some(Read::Payload(payload))) => payload,
            Ok(None) if self.lease.reader.is_between() => {
                self.part.slot().waits();
                return Some(Box::new(move || Some(self as Box<dyn Stay>)));
            }
            read => {
                self.give_back(read);
                return None;
            }
        };
        match self.asked(&payload) {
            Some(asked) => {
                if !self.lease.caller.context.agent.is_short(&asked.tool) {
                    self.lease.flush();
                }
                let part = self.call(asked, fit)?;
                Some(Box::new(move || Waiting::there(part)))
            }
            None => {
                self.give_back(Ok(Some(Read::Payload(payload))));
                None
            }
        }
    }

    fn leave(self: Box<Self>) {
        self.give_back(Ok(None));
    }
}
