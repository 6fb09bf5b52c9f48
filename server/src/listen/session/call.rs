//! A call with JSON, from its input to its last message.
//!
//! Owns: what such a call needs of its connection, so that it begins in the session or where
//! the connection is lent to (`lease`), alike; its last message, and an output that does not
//! fit one. The answer to a call for files that tells nothing before is written by the thread
//! that did it. Must not: read what comes next, or know a tool.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tool_files::spare;
use tool_protocol::frame::Kind;
use tool_protocol::{Failure, Id, Observation, limits};

use super::Ended;
use crate::agent::{Invocation, Tell};
use crate::broker::Peer;
use crate::listen::accept::{Context, Shared};
use crate::listen::connection::{Line, Queue};
use crate::listen::unread;

/// What a message takes beside its output, mostly.
const BESIDE: usize = 512;
/// What calls have told and the connection has not taken.
pub(super) const TOLD: usize = 16;

/// What is asked for; its input is there.
pub(super) struct Asked {
    pub(super) tool: String,
    pub(super) id: Option<Id>,
    /// Whether results are wanted as they come.
    pub(super) pieces: bool,
    pub(super) input: Vec<u8>,
    /// What the input takes of what all share.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// What calls need of their connection.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) context: Arc<Context>,
    pub(super) peer: Peer,
    /// Takes what is told before the last message.
    pub(super) tell: mpsc::Sender<Vec<u8>>,
    pub(super) line: Weak<Line>,
    /// Cancelled when the connection is over.
    pub(super) gone: CancellationToken,
}

/// A call under way, which goes on as it is polled.
pub(super) struct Begun<F> {
    pub(super) id: Option<Id>,
    /// Ends it.
    pub(super) gone: CancellationToken,
    pub(super) answered: Answered,
    pub(super) ending: F,
}

/// Whether the thread that does a call has answered it. Set before whoever asked can have that.
pub(super) type Answered = Arc<AtomicBool>;

impl Caller {
    /// Begins it. `follows`: whether its thread will answer another at once. `then`: done by the
    /// thread that has answered, if one does.
    pub(super) fn begin<F, T>(
        &self,
        asked: Asked,
        follows: F,
        then: T,
    ) -> Begun<impl Future<Output = Ended> + Send + use<F, T>>
    where
        F: FnOnce() -> bool + Send + 'static,
        T: FnOnce() + Send + 'static,
    {
        let Asked { tool, id, pieces, input, room } = asked;
        let gone = self.gone.child_token();
        let answered = Answered::default();
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
            tell: (!pieces).then(|| self.teller(id.clone(), Arc::clone(&answered), follows, then)),
        };
        let (agent, shared) = (self.context.agent.clone(), self.context.shared.clone());
        let (tell, name, left) = (self.tell.clone(), id.clone(), gone.clone());
        let by_thread = Arc::clone(&answered);
        let ending = async move {
            let _room = room;
            let told = async {
                loop {
                    let told = tokio::select! {
                        Some(piece) = next(&mut given) => Told::Piece(piece),
                        Some(line) = notices.recv() => Told::Notice(line),
                        else => return,
                    };
                    let message = About { told, id: name.as_ref() };
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
            // In this order: when it is over nobody tells anything more, and one look is enough.
            let (seen, ()) = tokio::join!(biased; observing, told);
            // Whoever asks for its end from now on means another one.
            left.cancel();
            match seen {
                Some((seen, room)) => Ended::Observed(name, Box::new(seen), room),
                None => Ended::Answered(by_thread),
            }
        };
        Begun { id, gone, answered, ending }
    }

    /// What answers on the thread that has done the call.
    fn teller(
        &self,
        id: Option<Id>,
        answered: Answered,
        follows: impl FnOnce() -> bool + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Tell {
        let (line, shared) = (self.line.clone(), self.context.shared.clone());
        Tell::new(move |mut seen| {
            // Where there is no connection any more nobody waits for it.
            let Some(line) = line.upgrade() else { return };
            let room = room_for(&shared, &mut seen);
            let put = |message: Message| {
                line.answer(follows(), |queue| {
                    message.put(queue, room)?;
                    answered.store(true, Ordering::Release);
                    Ok(())
                })
            };
            if Message::new(id.as_ref(), seen).and_then(put).is_ok() {
                then();
            }
        })
    }
}

/// A long output, whose memory is used again when it is written.
struct Reused(Vec<u8>);

impl AsRef<[u8]> for Reused {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Reused {
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

/// The next of what comes there, if anything does.
async fn next<T>(from: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match from {
        Some(from) => from.recv().await,
        None => None,
    }
}

/// The last message of a call, made before anybody waits for its place in the queue.
pub(super) struct Message {
    /// Comes before it, where it does not fit.
    output: Option<Bytes>,
    payload: Vec<u8>,
}

impl Message {
    pub(super) fn new(id: Option<&Id>, seen: Observation) -> io::Result<Message> {
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
            let mut payload = Vec::with_capacity(bytes + BESIDE);
            serde_json::to_writer(&mut payload, &last).map_err(io::Error::other)?;
            if payload.len() <= limits::MAX_FRAME {
                return Ok(Message { output: None, payload });
            }
        }
        last.output = None;
        last.output_bytes = seen.output.as_ref().map(|output| output.get().len());
        let payload = serde_json::to_vec(&last).map_err(io::Error::other)?;
        let output = seen.output.map(|output| {
            let text = Box::<str>::from(output).into_boxed_bytes();
            Bytes::from_owner(Reused(text.into_vec()))
        });
        Ok(Message { output, payload })
    }

    pub(super) fn put(
        self,
        queue: &mut Queue,
        room: Option<OwnedSemaphorePermit>,
    ) -> io::Result<()> {
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
    let bytes = unread::counted(seen);
    if bytes == 0 {
        return None;
    }
    let room = shared.room_for(bytes);
    if room.is_none() {
        unread::without_output(seen);
    }
    room
}
