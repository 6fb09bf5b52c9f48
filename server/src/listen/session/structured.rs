//! Calls with JSON on a connection: several at once, each with its own id.
//!
//! Owns: an input that comes in chunks, what calls tell while they are under way, and an
//! output that does not fit one message. The answer to a call for files that tells nothing
//! before is written by the thread that did it (`teller`). Must not: know a tool.

use std::io;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tool_files::spare;
use tool_protocol::frame::Kind;
use tool_protocol::request::{Input, ToolCall};
use tool_protocol::{Code, Failure, Fault, Id, Observation, Refusal, Signal, limits};

use super::{Ended, Session};
use crate::agent::{Invocation, Tell};
use crate::listen::accept::Shared;
use crate::listen::connection::Queue;

/// What calls have told and the connection has not taken.
const TOLD: usize = 16;
/// Bytes of an input: a file of 16 MiB, escaped or in base64, and what is said beside.
const MOST_INPUT: usize = 24 * 1024 * 1024;

/// What a connection knows of its calls with JSON.
#[derive(Default)]
pub(super) struct Structured {
    awaited: Option<Awaited>,
    under_way: Vec<(Option<Id>, CancellationToken)>,
    tell: Option<mpsc::Sender<Vec<u8>>>,
    told: Option<mpsc::Receiver<Vec<u8>>>,
}

/// An input of which more is to come.
struct Awaited {
    call: ToolCall,
    bytes: Vec<u8>,
    most: usize,
    /// For what has come, and no more: who only announces something takes nobody's room.
    room: OwnedSemaphorePermit,
}

/// A call whose input is there, and the room that it takes.
pub(super) struct Whole {
    call: ToolCall,
    input: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl Structured {
    /// Whether the rest of an input is to come.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// A chunk of an input; the call, where it was the last.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        shared: &Shared,
    ) -> Result<Option<Whole>, (Refusal, Option<Id>)> {
        let Some(mut awaited) = self.awaited.take() else { return Ok(None) };
        if bytes.is_empty() || awaited.bytes.len() + bytes.len() > awaited.most {
            let message = "the input is not as long as input_bytes said";
            return Err((Refusal::new(Code::BadRequest, message), awaited.call.id));
        }
        match shared.hold(bytes.len()) {
            Ok(room) => awaited.room.merge(room),
            Err(refusal) => return Err((refusal, awaited.call.id)),
        }
        awaited.bytes.extend_from_slice(bytes);
        if awaited.bytes.len() < awaited.most {
            self.awaited = Some(awaited);
            return Ok(None);
        }
        let Awaited { call, bytes: input, room, .. } = awaited;
        Ok(Some(Whole { call, input, room: Some(room) }))
    }

    /// Ends the call of that id; whether there is one.
    pub(super) fn signal(&mut self, id: Option<&Id>, signal: Signal) -> bool {
        self.under_way.retain(|(_, gone)| !gone.is_cancelled());
        let mut named = self.under_way.iter().filter(|(name, _)| name.as_ref() == id).peekable();
        let there = named.peek().is_some();
        if matches!(signal, Signal::Int | Signal::Term | Signal::Hup | Signal::Quit) {
            named.for_each(|(_, gone)| gone.cancel());
        }
        there
    }

    /// What is told next; never, where nobody has anything to tell.
    pub(super) async fn next(&mut self) -> Vec<u8> {
        let told = match &mut self.told {
            Some(told) => told.recv().await,
            None => None,
        };
        match told {
            Some(told) => told,
            None => std::future::pending().await,
        }
    }

    fn tell(&mut self) -> mpsc::Sender<Vec<u8>> {
        let tell = self.tell.get_or_insert_with(|| {
            let (tell, told) = mpsc::channel(TOLD);
            self.told = Some(told);
            tell
        });
        tell.clone()
    }
}

/// A long output, whose memory is used again when it is written.
struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        spare::give(std::mem::take(&mut self.0));
    }
}

/// Before the last message of a call.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Told {
    Piece(Value),
    Notice(String),
}

#[derive(Serialize)]
struct About<'a, T> {
    #[serde(flatten)]
    told: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
}

/// The last message: the observation, or what of it fits.
#[derive(Serialize)]
struct Last<'a> {
    success: bool,
    tool: &'a str,
    output: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<usize>,
    error: Option<&'a Failure>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
}

impl Session {
    /// A call with JSON, or the beginning of one.
    pub(super) fn take_structured(&mut self, mut call: ToolCall) -> io::Result<()> {
        let most = match &mut call.input {
            Input::Here(input) => {
                let input = std::mem::take(input).into_bytes();
                return self.begin_structured(Whole { call, input, room: None });
            }
            Input::Follows(most) => *most,
        };
        if most == 0 || most > MOST_INPUT {
            let message = format!("input_bytes is 1 to {MOST_INPUT}");
            return self.give_up_on(Refusal::new(Code::RequestTooLarge, message), call.id);
        }
        match self.context.shared.hold(0) {
            Ok(room) => {
                self.reader.hurry();
                let bytes = Vec::new();
                self.structured.awaited = Some(Awaited { call, bytes, most, room });
                Ok(())
            }
            Err(refusal) => self.give_up_on(refusal, call.id),
        }
    }

    /// Begins a call whose input is there.
    pub(super) fn begin_structured(&mut self, whole: Whole) -> io::Result<()> {
        let Whole { call: ToolCall { tool, id, pieces, .. }, input, room } = whole;
        if self.context.rules.control {
            let message = "no tools are called on the control socket: use TOOL_SOCKET";
            return self.refuse(Refusal::new(Code::UnknownOp, message), id);
        }
        let Ok(tool) = String::from_utf8(tool.as_bytes().to_vec()) else {
            return self.refuse(Refusal::new(Code::UnknownTool, "no such tool"), id);
        };
        let gone = self.gone.child_token();
        self.structured.under_way.retain(|(_, gone)| !gone.is_cancelled());
        self.structured.under_way.push((id.clone(), gone.clone()));
        let tell = self.structured.tell();
        let (give, mut given) = pieces.then(|| mpsc::channel(TOLD)).unzip();
        let (notice, mut notices) = mpsc::channel(TOLD);
        let asked = Invocation {
            peer: self.peer,
            tool,
            input,
            only: self.context.rules.tools.clone(),
            pieces: give,
            notices: Some(notice),
            gone: gone.clone(),
            // Pieces come by the session, and the last message after them.
            tell: (!pieces).then(|| self.teller(id.clone())),
        };
        let agent = self.context.agent.clone();
        let shared = self.context.shared.clone();
        self.calls.spawn(async move {
            let _room = room;
            let told = async {
                loop {
                    let told = tokio::select! {
                        Some(piece) = next(&mut given) => Told::Piece(piece),
                        Some(line) = notices.recv() => Told::Notice(line),
                        else => return,
                    };
                    let message = About { told, id: id.as_ref() };
                    // One that does not fit comes with the whole, at the end.
                    if let Ok(message) = serde_json::to_vec(&message)
                        && message.len() <= limits::MAX_FRAME
                    {
                        tell.send(message).await.ok();
                    }
                }
            };
            let observing = async {
                let mut seen = agent.answer(asked).await?;
                let room = room_for(&shared, &mut seen);
                Some((seen, room))
            };
            let (seen, ()) = tokio::join!(observing, told);
            // Whoever asks for its end from now on means another one.
            gone.cancel();
            match seen {
                Some((seen, room)) => Ended::Observed(id, Box::new(seen), room),
                None => Ended::Answered,
            }
        });
        Ok(())
    }

    /// What answers on the thread that has done the call.
    fn teller(&self, id: Option<Id>) -> Tell {
        let (line, shared) = (self.writer.line(), self.context.shared.clone());
        Tell::new(move |mut seen| {
            // Where there is no connection any more nobody waits for it.
            let Some(line) = line.upgrade() else { return };
            let room = room_for(&shared, &mut seen);
            if let Ok(message) = Message::new(id.as_ref(), seen) {
                line.answer(|queue| message.put(queue, room)).ok();
            }
        })
    }

    /// A call whose thread was to answer it has ended.
    pub(super) fn answered(&mut self) -> io::Result<()> {
        if self.writer.waiting().joined() {
            return Ok(());
        }
        Err(io::Error::other("an answer fits no message"))
    }

    /// The last message of a call, after all that it told.
    pub(super) fn observed(
        &mut self,
        id: Option<&Id>,
        seen: Observation,
        room: Option<OwnedSemaphorePermit>,
    ) -> io::Result<()> {
        while let Some(Ok(told)) = self.structured.told.as_mut().map(mpsc::Receiver::try_recv) {
            self.writer.queue(told)?;
        }
        let message = Message::new(id, seen)?;
        message.put(&mut self.writer.waiting(), room)
    }
}

/// The next of what comes there, if anything does.
async fn next<T>(from: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match from {
        Some(from) => from.recv().await,
        None => None,
    }
}

/// The last message of a call, made before anybody waits for its place in the queue.
struct Message {
    /// Comes before it, where it does not fit.
    output: Option<Bytes>,
    payload: Vec<u8>,
}

impl Message {
    fn new(id: Option<&Id>, seen: Observation) -> io::Result<Message> {
        let mut last = Last {
            success: seen.success,
            tool: &seen.tool,
            output: seen.output.as_deref(),
            output_bytes: None,
            error: seen.error.as_ref(),
            duration_ms: seen.duration_ms,
            call_id: seen.call_id.as_deref(),
            id,
        };
        let bytes = seen.output.as_ref().map_or(0, |output| output.get().len());
        if bytes <= limits::MAX_FRAME {
            let payload = serde_json::to_vec(&last).map_err(io::Error::other)?;
            if payload.len() <= limits::MAX_FRAME {
                return Ok(Message { output: None, payload });
            }
        }
        last.output = None;
        last.output_bytes = seen.output.as_ref().map(|output| output.get().len());
        let payload = serde_json::to_vec(&last).map_err(io::Error::other)?;
        let output = seen.output.map(|output| {
            let text = Box::<str>::from(output).into_boxed_bytes();
            Bytes::from_owner(Lent(text.into_vec()))
        });
        Ok(Message { output, payload })
    }

    fn put(self, queue: &mut Queue, room: Option<OwnedSemaphorePermit>) -> io::Result<()> {
        room.into_iter().for_each(|room| queue.hold(room));
        if let Some(output) = self.output {
            queue.queue_text(Kind::Stdout, output);
        }
        queue.queue(self.payload)
    }
}

/// Room for an answer that no message holds until it is written; where there is none, what
/// is kept of it is that it was done.
fn room_for(shared: &Shared, seen: &mut Observation) -> Option<OwnedSemaphorePermit> {
    let bytes = seen.output.as_ref().map_or(0, |output| output.get().len());
    if bytes <= limits::MAX_FRAME {
        return None;
    }
    let room = shared.room_for(bytes);
    if room.is_none() {
        seen.output = None;
        seen.success = false;
        let message = "the call was done, and there is no room for its output, as too many \
                       answers wait to be read: read yours, and ask for less";
        seen.error = Some(Failure::new(Fault::Broker(Code::Busy), message));
    }
    room
}
