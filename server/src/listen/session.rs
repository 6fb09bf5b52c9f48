//! What one connection says: calls, what belongs to them, and operations.
//!
//! Several buffered calls may be under way at once; a `stream` or `fds` call
//! has the connection to itself. When the peer has hung up, all its calls end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UnixStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool_protocol::frame::{self, Kind};
use tool_protocol::request::More;
use tool_protocol::{Code, Control, Id, Incoming, Refusal, Reply, Request, Signal, Stdio};
use tracing::debug;

use super::accept::Context;
use super::connection::{HangUp, Read, Reader, Writer, close, split};
use super::operation;
use crate::broker::{Call, Peer};
use crate::exec::{Chunk, Hear, Io};
use crate::os::foreign::Foreign;

/// Chunks of stdin that wait for the tool before the connection is not read.
const INPUT_QUEUE: usize = 1;
/// Chunks of output that wait for the connection.
const OUTPUT_QUEUE: usize = 1;
/// Signals that wait for the call.
const SIGNAL_QUEUE: usize = 16;
/// How long a connection is idle before it makes room for another.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes that wait to be written before no more are made.
const WRITE_AHEAD: usize = 16 * 1024;

/// One connection's life.
struct Session {
    context: Arc<Context>,
    peer: Peer,
    reader: Reader,
    writer: Writer,
    /// The calls under way, and what reaches them.
    calls: JoinSet<Reply>,
    signals: Vec<(Option<Id>, mpsc::Sender<Signal>)>,
    /// A call that has the connection to itself.
    exclusive: bool,
    input: Option<mpsc::Sender<Bytes>>,
    output: Option<mpsc::Receiver<Chunk>>,
    held: Option<Bytes>,
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
    gone: CancellationToken,
    busy: Option<TaskTrackerToken>,
}

/// A request of which more is to come.
struct Partial {
    request: Request,
    more: More,
    descriptors: Vec<Foreign>,
    /// Its share of what such requests may hold in all.
    _room: OwnedSemaphorePermit,
}

/// Serves a connection until it is over and its calls are.
pub(crate) async fn serve(socket: UnixStream, context: Arc<Context>, peer: Peer) {
    let (reader, writer) = split(socket, context.limits.patience);
    let mut session = Session {
        context,
        peer,
        reader,
        writer,
        calls: JoinSet::new(),
        signals: Vec::new(),
        exclusive: false,
        input: None,
        output: None,
        held: None,
        partial: None,
        streamed: false,
        spoken: false,
        ended: false,
        closing: false,
        last_word: None,
        hang_up: None,
        gone: CancellationToken::new(),
        busy: None,
    };
    if let Err(error) = session.run().await {
        debug!(%error, "the connection broke");
    }
    session.gone.cancel();
    // Their trees end before this does; their output and replies reach nobody.
    (session.input, session.output, session.held) = (None, None, None);
    while session.calls.join_next().await.is_some() {}
    let Session { reader, writer, hang_up, .. } = session;
    drop(hang_up);
    close(reader, writer);
}

/// What happened next.
enum Event {
    Done(Option<Reply>),
    Chunk(Option<Chunk>),
    Written,
    Read(Read),
    InputTaken,
    HungUp,
    Stalled,
    Crowded,
}

impl Session {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            match self.next().await? {
                Event::Done(reply) => self.finish(reply)?,
                Event::Chunk(Some(chunk)) => self.writer.queue_chunk(chunk.kind, &chunk.bytes),
                Event::Chunk(None) => self.output = None,
                Event::Written | Event::InputTaken => {}
                Event::Read(read) => self.hear(read).await?,
                Event::HungUp => return Ok(()),
                Event::Stalled => return Err(io::ErrorKind::TimedOut.into()),
                Event::Crowded => return Ok(()),
            }
            if !self.calls.is_empty() || self.writer.pending() > 0 {
                self.busy.get_or_insert_with(|| self.context.busy.token());
            } else {
                self.busy = None;
                if self.closing || self.ended {
                    return Ok(());
                }
            }
            self.watch_for_hang_up()?;
        }
    }

    fn reading(&self) -> bool {
        !self.ended
            && !self.closing
            && self.held.is_none()
            && self.writer.pending() < WRITE_AHEAD
            && self.calls.len() < self.context.limits.calls_per_connection
    }

    async fn next(&mut self) -> io::Result<Event> {
        let reading = self.reading();
        let pending = self.writer.pending();
        let has_calls = !self.calls.is_empty();
        let idle = !has_calls && pending == 0 && self.spoken && self.partial.is_none();
        tokio::select! {
            biased;
            reply = self.calls.join_next(), if has_calls => {
                Ok(Event::Done(reply.and_then(Result::ok)))
            }
            written = self.writer.write_some(), if pending > 0 => written.map(|()| Event::Written),
            chunk = receive(&mut self.output), if pending < WRITE_AHEAD => Ok(Event::Chunk(chunk)),
            () = hand_on(&mut self.input, &mut self.held) => Ok(Event::InputTaken),
            read = self.reader.next(), if reading => read.map(Event::Read),
            () = hung_up(self.hang_up.as_ref()) => Ok(Event::HungUp),
            // A tool may wait for the reader of its output as long as it runs; a
            // reply is not held for longer than this.
            () = sleep(self.context.limits.patience.frame), if pending > 0 && !self.exclusive => {
                Ok(Event::Stalled)
            }
            () = crowded(&self.context.shared.crowded), if idle => Ok(Event::Crowded),
        }
    }

    /// While nothing is read, only this tells that the peer is gone.
    fn watch_for_hang_up(&mut self) -> io::Result<()> {
        if self.reading() {
            self.hang_up = None;
        } else if self.hang_up.is_none() {
            self.hang_up = Some(self.reader.hang_up()?);
        }
        Ok(())
    }

    fn finish(&mut self, reply: Option<Reply>) -> io::Result<()> {
        // Everything that the tool wrote comes before the last message.
        while let Some(Ok(chunk)) = self.output.as_mut().map(mpsc::Receiver::try_recv) {
            self.writer.queue_chunk(chunk.kind, &chunk.bytes);
        }
        self.signals.retain(|(_, signals)| !signals.is_closed());
        if self.exclusive {
            self.exclusive = false;
            (self.input, self.output, self.held) = (None, None, None);
        }
        if let Some(last_word) = self.last_word.take() {
            return self.writer.queue(last_word);
        }
        match reply {
            Some(reply) => self.writer.queue(reply.to_payload()),
            None => self.refuse(Refusal::new(Code::Internal, "the call was lost"), None),
        }
    }

    async fn hear(&mut self, read: Read) -> io::Result<()> {
        let payload = match read {
            Read::Payload(payload) => {
                self.spoken = true;
                payload
            }
            Read::End => {
                self.ended = true;
                // No more input can come: the tool is told when it has the rest.
                self.input = None;
                if self.reader.is_hung_up() {
                    self.gone.cancel();
                    self.closing = true;
                }
                return Ok(());
            }
            Read::Bad(refusal) => return self.give_up(refusal),
        };
        match frame::split(&payload) {
            Ok((Kind::Json, object)) => self.hear_object(object).await,
            Ok((Kind::Stdin, _)) if self.reader.has_descriptors() => self.give_up(unasked()),
            Ok((Kind::Stdin, bytes)) => {
                // A copy of its own size: the payload keeps the whole buffer that
                // it was read into.
                self.hear_input(Bytes::copy_from_slice(bytes));
                if self.streamed {
                    return Ok(());
                }
                self.give_up(Refusal::new(Code::BadFrame, "a chunk of stdin belongs to no call"))
            }
            Ok(_) => self.give_up(Refusal::new(Code::BadFrame, "only the server sends output")),
            Err(code) => self.give_up(Refusal::new(code, "the first byte of a payload is { or 0")),
        }
    }

    async fn hear_object(&mut self, object: &[u8]) -> io::Result<()> {
        if let Some(Partial { mut request, more, descriptors, _room }) = self.partial.take() {
            let id = request.id.clone();
            if self.reader.has_descriptors() {
                return self.give_up(unasked());
            }
            return match request.join(object, more) {
                Ok(more) => self.take(request, more, descriptors),
                // What follows may be its rest, and must not pass for a request.
                Err(refusal) => self.give_up_on(refusal, id),
            };
        }
        let descriptors = self.reader.take_descriptors();
        let incoming = match Incoming::parse(object) {
            // An answer would look like the last message of the call under way.
            Err(refusal) if self.exclusive => return self.give_up(refusal),
            Err(refusal) => return self.refuse(refusal, Incoming::id_of(object)),
            Ok(incoming) => incoming,
        };
        let taken = descriptors.as_ref().is_ok_and(Vec::is_empty);
        if !taken && !matches!(incoming, Incoming::Call(..)) {
            return self.give_up(unasked());
        }
        if self.exclusive && !matches!(incoming, Incoming::Control(_)) {
            let message = "the connection belongs to the call under way: open another one";
            return self.give_up(Refusal::new(Code::BadRequest, message));
        }
        match incoming {
            Incoming::Control(Control::Signal(signal, id)) => {
                for (name, signals) in &self.signals {
                    if *name == id || self.exclusive {
                        signals.try_send(signal).ok();
                    }
                }
                Ok(())
            }
            Incoming::Control(Control::Resize) => Ok(()),
            Incoming::Op(op, id) => {
                match operation::answer(&self.context, &op, id.as_ref()).await {
                    Ok(payload) => self.writer.queue(payload),
                    Err(refusal) => self.refuse(refusal, id),
                }
            }
            Incoming::Call(request, more) => match descriptors {
                Ok(descriptors) => self.take(request, more, descriptors),
                Err(refusal) => self.refuse(refusal, request.id),
            },
        }
    }

    /// A request, or the beginning of one.
    fn take(&mut self, request: Request, more: More, descriptors: Vec<Foreign>) -> io::Result<()> {
        let limits = &self.context.limits;
        let too_large = request.size() > limits.request_bytes
            || request.args.len() > limits.arguments
            || request.env.len() > limits.environment;
        if too_large {
            let message = format!(
                "the request is too large: {} bytes, {} arguments, {} variables",
                request.size(),
                request.args.len(),
                request.env.len()
            );
            let refusal = Refusal::new(Code::RequestTooLarge, message);
            // What follows would be taken for another request.
            return match more {
                More::No => self.refuse(refusal, request.id),
                More::Lists | More::String => self.give_up_on(refusal, request.id),
            };
        }
        if more == More::No {
            let id = request.id.clone();
            return match self.start(request, descriptors) {
                Ok(()) => Ok(()),
                Err(refusal) => self.refuse(refusal, id),
            };
        }
        match self.context.shared.hold(request.memory()) {
            Ok(room) => {
                self.reader.hurry();
                self.partial = Some(Partial { request, more, descriptors, _room: room });
                Ok(())
            }
            Err(refusal) => self.give_up_on(refusal, request.id),
        }
    }

    fn start(&mut self, request: Request, descriptors: Vec<Foreign>) -> Result<(), Refusal> {
        request.check()?;
        let tool = self.context.rules.tool(request.tool.as_ref())?;
        if request.stdio != Stdio::Buffered && !self.calls.is_empty() {
            let message = "other calls are under way on this connection: open another one";
            return Err(Refusal::new(Code::BadRequest, message));
        }
        if request.stdio != Stdio::Fds && !(descriptors.is_empty() && request.fds.is_empty()) {
            let message = "descriptors came with a request that does not pass any";
            return Err(Refusal::new(Code::BadFds, message));
        }
        let io = match request.stdio {
            Stdio::Buffered => Io::Captured,
            Stdio::Fds => Io::Passed(arrange(&request.fds, descriptors)?),
            Stdio::Stream => {
                let (to_tool, input) = mpsc::channel(INPUT_QUEUE);
                let (output, from_tool) = mpsc::channel(OUTPUT_QUEUE);
                (self.input, self.output) = (Some(to_tool), Some(from_tool));
                self.streamed = true;
                Io::Streamed { input, output }
            }
        };
        self.exclusive = request.stdio != Stdio::Buffered;
        let (sender, signals) = mpsc::channel(SIGNAL_QUEUE);
        self.signals.push((request.id.clone(), sender));
        let stop = self.context.broker.stop.clone();
        let hear = Hear { signals, gone: self.gone.clone(), stop };
        let call = Call { peer: self.peer, tool, request, io, hear };
        let broker = Arc::clone(&self.context.broker);
        self.calls.spawn(async move { broker.call(call).await });
        Ok(())
    }

    /// Input for the tool; what comes when nobody wants it is thrown away.
    fn hear_input(&mut self, bytes: Bytes) {
        let Some(input) = &self.input else { return };
        match input.try_send(bytes) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(bytes)) => self.held = Some(bytes),
            Err(mpsc::error::TrySendError::Closed(_)) => self.input = None,
        }
    }

    fn refuse(&mut self, refusal: Refusal, id: Option<Id>) -> io::Result<()> {
        debug!(code = refusal.code.as_str(), "refused: {refusal}");
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
            self.last_word = Some(Reply { id, ..Reply::refused(refusal) }.to_payload());
            return Ok(());
        }
        self.refuse(refusal, id)
    }
}

fn unasked() -> Refusal {
    Refusal::new(Code::BadFds, "descriptors came beside something that is no request")
}

/// The descriptors of a request in their places.
fn arrange(numbers: &[u32], descriptors: Vec<Foreign>) -> Result<[Option<Foreign>; 3], Refusal> {
    let bad = |message: String| Refusal::new(Code::BadFds, message);
    if numbers.len() != descriptors.len() {
        let came = descriptors.len();
        return Err(bad(format!("{} descriptors were declared, {came} came", numbers.len())));
    }
    let mut places = [None, None, None];
    for (number, descriptor) in numbers.iter().zip(descriptors) {
        let place = usize::try_from(*number).ok().and_then(|number| places.get_mut(number));
        let Some(place) = place else {
            return Err(bad(format!("descriptor {number} cannot be passed: only 0, 1 and 2 can")));
        };
        if descriptor.is_terminal() {
            let message = "a terminal is not handed to a tool: repeat with stdio \"stream\"";
            return Err(Refusal::new(Code::UseStream, message));
        }
        if place.replace(descriptor).is_some() {
            return Err(bad(format!("descriptor {number} was declared twice")));
        }
    }
    Ok(places)
}

/// Never ready where there is no output to come.
async fn receive(output: &mut Option<mpsc::Receiver<Chunk>>) -> Option<Chunk> {
    match output {
        Some(output) => output.recv().await,
        None => std::future::pending().await,
    }
}

/// Hands a chunk that is held on to the tool, as soon as there is room. Giving
/// up the future loses nothing.
async fn hand_on(input: &mut Option<mpsc::Sender<Bytes>>, held: &mut Option<Bytes>) {
    match (&input, &held) {
        (Some(sender), Some(_)) => match sender.reserve().await {
            Ok(room) => {
                if let Some(bytes) = held.take() {
                    room.send(bytes);
                }
            }
            // Nobody wants it any more.
            Err(_) => *held = None,
        },
        (None, Some(_)) => *held = None,
        (_, None) => std::future::pending().await,
    }
}

/// Ready when somebody waits for room, and this connection has been idle for so
/// long that its peer is not about to go on.
async fn crowded(crowded: &Notify) {
    sleep(IDLE).await;
    crowded.notified().await;
}

/// Never ready where nobody watches.
async fn hung_up(hang_up: Option<&HangUp>) {
    match hang_up {
        Some(hang_up) => hang_up.wait().await,
        None => std::future::pending().await,
    }
}
