//! A connection lent to the thread that answers its calls for files.
//!
//! Who makes one short call mostly makes the next. So the thread that has answered one reads
//! what comes next itself, for a moment, and does it: the session is not woken, two threads
//! are for each call and not three. A call goes the same way as from the session, by the same
//! future (`Caller::begin`), polled where it is; what it would send to another thread is done
//! by this one (`crew::catch`). Anything but such a call goes back to the session as it came,
//! and so does a call that has to wait for something.
//!
//! Nothing is heard of a connection whose thread is at a call. So the session looks at what it
//! has lent, and where a call goes on for longer takes over: the reading half, and the future
//! of the call, as if it had begun it.
//!
//! Owns: the reading half while it is lent, and who has it. Must not: do anything on the
//! thread that opens a file: it reaches the workspace alone.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tool_protocol::Incoming;
use tool_protocol::frame::{self, Kind};
use tool_protocol::request::{Input, ToolCall};

use super::call::{Asked, Begun, Caller};
use super::{Ended, Session};
use crate::exec::CrewError;
use crate::exec::crew::{self, Stay, Whose};
use crate::listen::connection::{Read, Reader};

/// How often the session looks at what it has lent.
const LOOK: Duration = Duration::from_millis(5);

/// A call under way, begun by who cannot wait for it.
pub(super) type Polled = Begun<Pin<Box<dyn Future<Output = Ended> + Send>>>;

/// What is lent, with all that calls need.
struct Lease {
    reader: Reader,
    caller: Caller,
    runtime: Handle,
    /// How many were done.
    calls: u64,
    back: oneshot::Sender<Box<Back>>,
}

/// Who has it.
enum State {
    /// The session.
    Home,
    /// Whoever answers a call of this connection may take it.
    Offered(Box<Lease>),
    /// A thread, which waits for what comes or looks at it.
    Away,
    /// A thread is at a call; the session may take both.
    AtCall(Box<Lease>, Polled),
}

/// Where session and thread find what is lent.
pub(super) struct Slot(Mutex<State>);

/// What comes back.
pub(super) struct Back {
    reader: Reader,
    /// What the thread has read and is not its to do, and what went wrong.
    read: io::Result<Option<Read>>,
    /// A call that has to wait.
    begun: Option<Polled>,
    /// A call that has ended without an answer.
    ended: Option<Ended>,
}

/// What the session knows of what it has lent.
pub(super) struct Lent {
    back: oneshot::Receiver<Box<Back>>,
    look: Pin<Box<Sleep>>,
    /// The call that was under way at the last look.
    seen: Option<u64>,
}

/// What the session finds when it looks.
pub(super) enum Event {
    /// It has been given back.
    Back(Box<Back>),
    /// It is time to look.
    Look,
    /// Nobody has it any more.
    Lost,
}

impl Slot {
    pub(super) fn new() -> Arc<Slot> {
        Arc::new(Slot(Mutex::new(State::Home)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, state: State) -> State {
        std::mem::replace(&mut *self.lock(), state)
    }

    /// This thread has answered a call: it stays, where that is offered.
    pub(super) fn answered(self: &Arc<Slot>) {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Away) {
            State::Offered(lease) => {
                drop(state);
                crew::stay(Box::new(Waiting { slot: Arc::clone(self), lease }));
            }
            other => *state = other,
        }
    }

    /// The session takes what is lent, where no thread reads it just now.
    fn take(&self, may: impl FnOnce(&State) -> bool) -> Option<(Reader, Option<Polled>)> {
        let mut state = self.lock();
        if !may(&state) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Home) {
            State::Offered(lease) => Some((lease.reader, None)),
            State::AtCall(lease, begun) => Some((lease.reader, Some(begun))),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// A thread that waits where its last call came from.
struct Waiting {
    slot: Arc<Slot>,
    lease: Box<Lease>,
}

impl Waiting {
    fn give_back(
        self,
        read: io::Result<Option<Read>>,
        begun: Option<Polled>,
        ended: Option<Ended>,
    ) {
        self.slot.replace(State::Home);
        let Lease { reader, back, .. } = *self.lease;
        // Who has lent it waits for it.
        back.send(Box::new(Back { reader, read, begun, ended })).ok();
    }

    /// What came, where it is a call to be done here.
    fn asked(&self, payload: &[u8]) -> Option<Asked> {
        let (Caller { context, gone, .. }, reader) = (&self.lease.caller, &self.lease.reader);
        // Of several at once the session gives each to a thread.
        if !reader.is_between() || reader.has_descriptors() || gone.is_cancelled() {
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

    /// Does a call; itself, where the next may come.
    fn call(self, asked: Asked, fit: Result<(), CrewError>) -> Option<Waiting> {
        let Waiting { slot, mut lease } = self;
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let Begun { id, gone, ending } =
            lease.caller.begin(asked, move || tell.store(true, Ordering::Relaxed));
        let mut begun = Begun { id, gone, ending: Box::pin(ending) as Pin<Box<_>> };
        let (polled, work) = crew::catch(|| poll(&lease.runtime, &mut begun));
        let Some(work) = work else {
            let waiting = Waiting { slot, lease };
            match polled {
                Poll::Ready(ended) => waiting.give_back(Ok(None), None, Some(ended)),
                Poll::Pending => waiting.give_back(Ok(None), Some(begun), None),
            }
            return None;
        };
        lease.calls += 1;
        // All of it, so that a file system that does not answer holds nothing of the broker's.
        slot.replace(State::AtCall(lease, begun));
        work.go(fit);
        let (lease, mut begun) = {
            let mut state = slot.lock();
            match std::mem::replace(&mut *state, State::Away) {
                State::AtCall(lease, begun) => (lease, begun),
                // It went on for too long: the session has taken over.
                other => {
                    *state = other;
                    return None;
                }
            }
        };
        let waiting = Waiting { slot, lease };
        // What is not answered is to be recorded, and that may open a file.
        if !told.load(Ordering::Relaxed) {
            waiting.give_back(Ok(None), Some(begun), None);
            return None;
        }
        match poll(&waiting.lease.runtime, &mut begun) {
            Poll::Ready(Ended::Answered) => {}
            Poll::Ready(ended) => {
                waiting.give_back(Ok(None), None, Some(ended));
                return None;
            }
            Poll::Pending => {
                waiting.give_back(Ok(None), Some(begun), None);
                return None;
            }
        }
        let written = waiting.lease.caller.line.upgrade().is_some_and(|line| line.joined());
        if !written {
            waiting.give_back(Ok(None), None, None);
            return None;
        }
        Some(waiting)
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

    fn source(&self) -> BorrowedFd<'_> {
        self.lease.reader.socket()
    }

    fn go(mut self: Box<Self>, fit: Result<(), CrewError>) -> Option<Box<dyn Stay>> {
        let payload = match self.lease.reader.now() {
            Ok(Some(Read::Payload(payload))) => payload,
            Ok(None) if self.lease.reader.is_between() => return Some(self),
            read => {
                self.give_back(read, None, None);
                return None;
            }
        };
        match self.asked(&payload) {
            Some(asked) => Some(Box::new((*self).call(asked, fit)?)),
            None => {
                self.give_back(Ok(Some(Read::Payload(payload))), None, None);
                None
            }
        }
    }

    fn leave(self: Box<Self>) {
        self.give_back(Ok(None), None, None);
    }
}

impl Lent {
    /// What is next of it.
    pub(super) async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            back = &mut self.back => match back {
                Ok(back) => Event::Back(back),
                Err(_) => Event::Lost,
            },
            () = &mut self.look => Event::Look,
        }
    }
}

impl Session {
    /// Whether what is read next may be read by the thread that does this call.
    pub(super) fn may_lend(&self, asked: &Asked) -> bool {
        self.lent.is_none()
            && !asked.pieces
            && self.reading()
            && self.partial.is_none()
            && !self.exclusive
            && self.input.is_none()
            && self.reader.is_between()
            && self.writer.pending() == 0
            && self.under_way() == 0
            && !self.context.broker.draining.is_cancelled()
            && self.context.agent.is_for_files(&asked.tool)
    }

    /// Lends what is read next to the thread that answers this connection first.
    pub(super) fn lend(&mut self, caller: Caller) {
        let (back, comes) = oneshot::channel();
        let reader = self.reader.lend(&mut self.writer);
        let lease = Lease { reader, caller, runtime: Handle::current(), calls: 0, back };
        self.slot.replace(State::Offered(Box::new(lease)));
        self.lent = Some(Lent { back: comes, look: Box::pin(sleep(LOOK)), seen: None });
    }

    /// Something about what is lent.
    pub(super) async fn lent(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Back(back) => self.returned(*back).await,
            Event::Look => self.look(),
            Event::Lost => {
                self.lent = None;
                Err(io::Error::other("the connection was lost where it was lent to"))
            }
        }
    }

    async fn returned(&mut self, back: Back) -> io::Result<()> {
        let Back { reader, read, begun, ended } = back;
        self.lent = None;
        begun.into_iter().for_each(|begun| self.go_on(begun));
        let watched = self.reader.give_back(reader, &mut self.writer);
        if let Some(ended) = ended {
            self.ended(ended)?;
        }
        watched?;
        match read? {
            Some(read) => self.hear(read).await,
            None => Ok(()),
        }
    }

    /// Takes over what nobody has taken, and what is the same call as at the last look.
    fn look(&mut self) -> io::Result<()> {
        let Some(lent) = &mut self.lent else { return Ok(()) };
        let mut now = None;
        let taken = self.slot.take(|state| match state {
            State::AtCall(lease, _) => {
                now = Some(lease.calls);
                now == lent.seen
            }
            _ => true,
        });
        lent.seen = now;
        lent.look.as_mut().reset(Instant::now() + LOOK);
        let Some((reader, begun)) = taken else { return Ok(()) };
        self.lent = None;
        begun.into_iter().for_each(|begun| self.go_on(begun));
        self.reader.give_back(reader, &mut self.writer)
    }

    /// Has it back, before the connection is closed.
    pub(super) async fn regain(&mut self) {
        while let Some(lent) = &mut self.lent {
            let (reader, begun) = match self.slot.take(|_| true) {
                Some(taken) => taken,
                // A thread that only waits does so for a moment; it may be about to begin a call.
                None => match timeout(LOOK, &mut lent.back).await {
                    Ok(Ok(back)) => (back.reader, back.begun),
                    Ok(Err(_)) => return,
                    Err(_) => continue,
                },
            };
            begun.into_iter().for_each(|begun| self.go_on(begun));
            // It reads nothing any more.
            (self.reader, self.lent) = (reader, None);
        }
    }
}
