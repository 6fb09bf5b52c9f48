//! What one connection says: calls, what belongs to them, and operations.
//!
//! Several buffered calls may be under way at once; a `stream` or `fds` call
//! has the connection to itself. When the peer has hung up, all its calls end.
//!
//! - `hear`   what the peer says
//! - `begin`  from a request and its descriptors to what the broker takes
//! - `input`  bytes for the tool that it has not taken yet
//! - `idle`   whether it makes room for another
//! - `structured`  calls with JSON
//! - `call`   one of them, wherever it begins
//! - `lease`  what is read next, by the threads that answer
//! - `slot`   where those and the session find it
//! - `lent`   what the session knows of it

mod begin;
mod call;
mod hear;
mod idle;
mod input;
mod lease;
mod lent;
mod slot;
mod structured;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool_protocol::request::More;
use tool_protocol::{Code, Id, Observation, Refusal, Reply, Request};
use tracing::{debug, warn};

use self::call::Answered;
use self::idle::Idle;
use self::input::Input;
use self::lent::Lent;
use self::slot::{Back, Slot};
use self::structured::Structured;
use super::accept::Context;
use super::connection::{Come, HangUp, Read, Reader, Writer, close, split};
use super::events;
use crate::broker::{Broker, Peer, Ticket, Unfinished};
use crate::exec::{Chunk, Event as CallEvent, Order};
use crate::os::descriptors::peer_process;
use crate::os::foreign::Foreign;
use crate::os::process::{started, ticks};
use crate::os::weaken;

/// Bytes that wait to be written before no more are made.
const WRITE_AHEAD: usize = 16 * 1024;

/// Orders that are kept for a repetition.
const REPEATED: usize = 8;

/// One connection's life.
struct Session {
    context: Arc<Context>,
    peer: Peer,
    reader: Reader,
    writer: Writer,
    /// The calls under way, and what reaches them.
    calls: JoinSet<Ended>,
    orders: Vec<(Option<Id>, mpsc::Sender<Order>)>,
    /// What was asked of a call that is to be repeated: that did nothing yet, and
    /// is meant for the repetition.
    repeated: Repeated,
    /// A call that has the connection to itself.
    exclusive: bool,
    input: Option<Input>,
    output: Option<mpsc::Receiver<Chunk>>,
    events: Option<mpsc::Receiver<CallEvent>>,
    /// What calls with JSON tell.
    structured: Structured,
    /// Where the reading half is while it is lent, and what is known of that.
    slot: Arc<Slot>,
    lent: Option<Lent>,
    /// A request that goes on in the next message.
    partial: Option<Partial>,
    streamed: bool,
    /// Whether a first message has come.
    spoken: bool,
    ended: bool,
    closing: bool,
    /// Why the connection is given up, to be said in place of the reply of the
    /// call that it belongs to: one message is the last.
    last_word: Option<Vec<u8>>,
    hang_up: Option<HangUp>,
    idle: Idle,
    gone: CancellationToken,
    busy: Option<TaskTrackerToken>,
    /// Why it is not heard, to be said when it has said something.
    unfit: Option<Refusal>,
}

/// What is asked of a call before it is known whether it is to be repeated.
#[derive(Default)]
struct Repeated {
    /// The last call was answered `use_stream`.
    awaited: bool,
    asked: Vec<Order>,
}

impl Repeated {
    /// Notes an order; of too many the first and the last.
    fn note(&mut self, order: Order) {
        self.asked.truncate(REPEATED - 1);
        self.asked.push(order);
    }

    /// A call has ended; whether to be repeated.
    fn ended(&mut self, repeated: bool) {
        self.awaited = repeated;
        if !repeated {
            self.asked.clear();
        }
    }

    /// A call begins: what it is to hear at once.
    fn begin(&mut self) -> Vec<Order> {
        let asked = std::mem::take(&mut self.asked);
        if std::mem::take(&mut self.awaited) { asked } else { Vec::new() }
    }
}

/// A request of which more is to come.
struct Partial {
    request: Request,
    more: More,
    descriptors: Vec<Foreign>,
    /// Its share of what such requests may hold in all.
    _room: OwnedSemaphorePermit,
}

/// Serves a connection until it is over and its calls are. `repeated`: a call of
/// it was answered `use_stream` already.
pub(crate) async fn serve(
    socket: UnixStream,
    context: Arc<Context>,
    peer: Peer,
    come: Come,
    begun: Option<(Ticket, Unfinished)>,
    repeated: bool,
    busy: Option<TaskTrackerToken>,
) {
    let unfit = if context.rules.control { unfit(&socket, &context.broker).await } else { None };
    let spare = context.shared.spare.clone();
    let Ok((reader, writer)) = split(socket, context.limits.patience, spare, come) else { return };
    let slot = Slot::new(writer.line());
    let mut session = Session {
        context,
        peer,
        reader,
        writer,
        calls: JoinSet::new(),
        orders: Vec::new(),
        repeated: Repeated { awaited: repeated, asked: Vec::new() },
        exclusive: false,
        input: None,
        output: None,
        events: None,
        structured: Structured::default(),
        slot,
        lent: None,
        partial: None,
        streamed: false,
        spoken: false,
        ended: false,
        closing: false,
        last_word: None,
        hang_up: None,
        idle: Idle::default(),
        gone: CancellationToken::new(),
        busy,
        unfit,
    };
    if let Some((ticket, call)) = begun {
        session.adopt(ticket, call);
    }
    if let Err(error) = session.run().await {
        debug!(%error, "the connection broke");
    }
    session.gone.cancel();
    session.regain().await;
    // Their trees end before this does; their output and replies reach nobody.
    (session.input, session.output, session.events) = (None, None, None);
    while session.calls.join_next().await.is_some() {}
    let Session { reader, writer, hang_up, .. } = session;
    drop(hang_up);
    close(reader, writer);
}

/// Why whoever is at the control socket may not be heard there: it belongs to a
/// call, and would be its own operator.
async fn unfit(socket: &UnixStream, broker: &Broker) -> Option<Refusal> {
    let refuse = |message: &str| Some(Refusal::new(Code::PeerRefused, message));
    let now = ticks();
    let peer = match peer_process(socket.as_fd()) {
        Ok(peer) => peer,
        Err(errno) => return refuse(&format!("who is calling is not known: {errno}")),
    };
    let pid = peer.pid;
    // Of another pid namespace, and not of one beneath ours: no call's.
    if pid.as_raw() == 0 {
        return None;
    }
    // A number alone may be that of a process which was started since.
    let is_it = peer.exact || started(pid).zip(now).is_some_and(|(then, now)| then <= now);
    let tools = broker.is_a_tools(pid).await;
    if tools && !weaken::is("control-peer") {
        warn!(%pid, "a tool tried to use the control socket");
        return refuse("a tool's process may not use the control socket");
    }
    // Asked last: what was looked at until here was this very process.
    if is_it && peer.lives() { None } else { refuse("who connected has ended: connect yourself") }
}

/// How a call came out.
enum Ended {
    Replied(Box<Reply>),
    Observed(Option<Id>, Box<Observation>, Option<OwnedSemaphorePermit>),
    /// The thread that did it was to answer, and says whether it has.
    Answered(Answered),
}

/// What happened next.
enum Event {
    Done(Option<Ended>),
    Back(Box<Back>),
    Look,
    Piece(Vec<u8>),
    Chunk(Option<Chunk>),
    Told(Option<CallEvent>),
    Written,
    Read(Read),
    InputTaken,
    HungUp,
    Stalled,
    Crowded,
}

impl Session {
    async fn run(&mut self) -> io::Result<()> {
        self.note_busy();
        loop {
            match self.next().await? {
                Event::Done(Some(ended)) => self.ended(ended)?,
                Event::Done(None) => self.finish(None)?,
                Event::Back(back) => self.returned(*back).await?,
                Event::Look => self.look()?,
                Event::Piece(piece) => self.writer.queue(piece)?,
                Event::Chunk(Some(chunk)) => events::queue_chunk(&mut self.writer, &chunk)?,
                Event::Chunk(None) => self.output = None,
                Event::Told(Some(event)) => events::queue(&mut self.writer, event)?,
                Event::Told(None) => self.events = None,
                Event::Written | Event::InputTaken => {}
                Event::Read(read) => self.hear(read).await?,
                Event::HungUp => return Ok(()),
                Event::Stalled => return Err(io::ErrorKind::TimedOut.into()),
                Event::Crowded => return Ok(()),
            }
            if self.closing || self.ended {
                // By a thread that has no part in this any more, and may leave something.
                while self.writer.waiting().is_being_written() {
                    yield_now().await;
                }
                if !self.note_busy() {
                    return Ok(());
                }
            }
            self.note_busy();
            self.watch_for_hang_up()?;
        }
    }

    /// One call has.
    fn ended(&mut self, ended: Ended) -> io::Result<()> {
        match ended {
            Ended::Observed(id, seen, room) => self.observed(id.as_ref(), *seen, room),
            Ended::Answered(by_thread) => self.answered(&by_thread),
            Ended::Replied(reply) => self.finish(Some(*reply)),
        }?;
        self.reclaim()
    }

    /// A stop waits for sessions that have something under way.
    fn note_busy(&mut self) -> bool {
        let busy = !self.calls.is_empty() || self.writer.pending() > 0 || self.lent.is_some();
        if busy {
            self.busy.get_or_insert_with(|| self.context.busy.token());
        } else {
            self.busy = None;
        }
        busy
    }

    fn reading(&self) -> bool {
        !self.ended
            && !self.closing
            && self.lent.is_none()
            && self.input.as_ref().is_none_or(Input::has_room)
            && self.writer.pending() < WRITE_AHEAD
            && self.under_way() < self.context.limits.calls_per_connection
    }

    /// Calls that nobody has answered. A peer that has an answer may know so before the
    /// session does.
    fn under_way(&self) -> usize {
        self.calls.len().saturating_sub(self.structured.answered())
    }

    async fn next(&mut self) -> io::Result<Event> {
        let reading = self.reading();
        let pending = self.writer.pending();
        let has_calls = !self.calls.is_empty();
        let whole = self.partial.is_none() && !self.structured.is_awaited();
        let idle = !has_calls && pending == 0 && self.spoken && whole && self.lent.is_none();
        self.idle.note(idle);
        tokio::select! {
            biased;
            reply = self.calls.join_next(), if has_calls => {
                Ok(Event::Done(reply.and_then(Result::ok)))
            }
            written = self.writer.write_some(), if pending > 0 => written.map(|()| Event::Written),
            piece = self.structured.next(), if pending < WRITE_AHEAD => Ok(Event::Piece(piece)),
            event = receive(&mut self.events), if pending < WRITE_AHEAD => {
                Ok(Event::Told(event))
            }
            chunk = receive(&mut self.output), if pending < WRITE_AHEAD => Ok(Event::Chunk(chunk)),
            () = hand_on(&mut self.input) => Ok(Event::InputTaken),
            // Before what is read next: that may be about a call which has come back.
            back = self.slot.next() => Ok(Event::Back(Box::new(back))),
            read = self.reader.next(), if reading => read.map(Event::Read),
            () = look(&mut self.lent) => Ok(Event::Look),
            () = hung_up(self.hang_up.as_ref()) => Ok(Event::HungUp),
            // A tool may wait for the reader of its output as long as it runs; a
            // reply is not held for longer than this.
            () = sleep(self.context.limits.patience.frame), if pending > 0 && !self.exclusive => {
                Ok(Event::Stalled)
            }
            () = self.idle.crowded(&self.context.shared.crowded), if idle => Ok(Event::Crowded),
        }
    }

    /// While nothing is read, only this tells that the peer is gone.
    fn watch_for_hang_up(&mut self) -> io::Result<()> {
        // Whom it is lent to reads, or is about to.
        if self.reading() || self.lent.is_some() {
            self.hang_up = None;
        } else if self.hang_up.is_none() {
            self.hang_up = Some(self.reader.hang_up()?);
        }
        Ok(())
    }

    fn finish(&mut self, reply: Option<Reply>) -> io::Result<()> {
        // Everything that the tool wrote comes before the last message, and what
        // it was written to.
        while let Some(Ok(event)) = self.events.as_mut().map(mpsc::Receiver::try_recv) {
            events::queue(&mut self.writer, event)?;
        }
        while let Some(Ok(chunk)) = self.output.as_mut().map(mpsc::Receiver::try_recv) {
            events::queue_chunk(&mut self.writer, &chunk)?;
        }
        self.orders.retain(|(_, orders)| !orders.is_closed());
        self.repeated.ended(reply.as_ref().is_some_and(|it| it.code == Some(Code::UseStream)));
        if self.exclusive {
            self.exclusive = false;
            (self.input, self.output, self.events) = (None, None, None);
        }
        if let Some(last_word) = self.last_word.take() {
            return self.writer.queue(last_word);
        }
        match reply {
            Some(reply) => self.writer.queue(reply.to_payload()),
            None => self.refuse(Refusal::new(Code::Internal, "the call was lost"), None),
        }
    }

    fn refuse(&mut self, refusal: Refusal, id: Option<Id>) -> io::Result<()> {
        debug!(code = refusal.code.as_str(), "refused: {refusal}");
        self.context.broker.metrics.bad_request(refusal.code);
        self.writer.queue(Reply { id, ..Reply::refused(refusal) }.to_payload())
    }

    /// What came cannot be understood any further: say so, and close.
    fn give_up(&mut self, refusal: Refusal) -> io::Result<()> {
        self.give_up_on(refusal, None)
    }

    fn give_up_on(&mut self, refusal: Refusal, id: Option<Id>) -> io::Result<()> {
        self.closing = true;
        self.gone.cancel();
        if self.exclusive {
            self.context.broker.metrics.bad_request(refusal.code);
            self.last_word = Some(Reply { id, ..Reply::refused(refusal) }.to_payload());
            return Ok(());
        }
        self.refuse(refusal, id)
    }
}

/// Never ready where there is nothing to come.
async fn receive<T>(from: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match from {
        Some(from) => from.recv().await,
        None => std::future::pending().await,
    }
}

/// Never ready where nothing is lent.
async fn look(lent: &mut Option<Lent>) {
    match lent {
        Some(lent) => lent.look().await,
        None => std::future::pending().await,
    }
}

/// Never ready where there is no input to hand on.
async fn hand_on(input: &mut Option<Input>) {
    match input {
        Some(input) => input.hand_on().await,
        None => std::future::pending().await,
    }
}

/// Never ready where nobody watches.
async fn hung_up(hang_up: Option<&HangUp>) {
    match hang_up {
        Some(hang_up) => hang_up.wait().await,
        None => std::future::pending().await,
    }
}
