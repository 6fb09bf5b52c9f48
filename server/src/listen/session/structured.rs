//! Calls with JSON on a connection: several at once, each with its own id.
//!
//! Owns: an input that comes in chunks, what calls tell while they are under way, and what
//! ends them. Must not: know a tool.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tool_protocol::request::{Input, ToolCall};
use tool_protocol::{Code, Id, Observation, Refusal, Signal};

use super::call::{Answered, Asked, Begun, Caller, Message, TOLD};
use super::{Ended, Session};
use crate::listen::accept::Shared;

/// Bytes of an input: a file of 16 MiB, escaped or in base64, and what is said beside.
const MOST_INPUT: usize = 24 * 1024 * 1024;

/// What a connection knows of its calls with JSON.
#[derive(Default)]
pub(super) struct Structured {
    awaited: Option<Awaited>,
    under_way: Vec<UnderWay>,
    tell: Option<mpsc::Sender<Vec<u8>>>,
    told: Option<mpsc::Receiver<Vec<u8>>>,
}

/// A call under way.
struct UnderWay {
    id: Option<Id>,
    gone: CancellationToken,
    answered: Answered,
}

impl UnderWay {
    /// There is nothing of it but this.
    fn is_over(&self) -> bool {
        Arc::strong_count(&self.answered) == 1
    }
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
        let is_named = |call: &&UnderWay| call.id.as_ref() == id && !call.gone.is_cancelled();
        let mut named = self.under_way.iter().filter(is_named).peekable();
        let there = named.peek().is_some();
        if matches!(signal, Signal::Int | Signal::Term | Signal::Hup | Signal::Quit) {
            named.for_each(|call| call.gone.cancel());
        }
        there
    }

    /// Calls that threads have answered, of which the session has not heard that they are over.
    pub(super) fn answered(&self) -> usize {
        self.under_way.iter().filter(|call| call.answered.load(Ordering::Acquire)).count()
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
        let asked = Asked { tool, id, pieces, input, room };
        let caller = self.caller();
        let lends = self.may_lend(&asked);
        let slot = self.slot.clone();
        let begun = caller.begin(asked, || false, move || slot.answered());
        self.go_on(begun);
        if lends {
            self.lend(caller);
        }
        Ok(())
    }

    /// What calls need of this connection.
    fn caller(&mut self) -> Caller {
        Caller {
            context: Arc::clone(&self.context),
            peer: self.peer,
            tell: self.structured.tell(),
            line: self.writer.line(),
            gone: self.gone.clone(),
        }
    }

    /// A call that has begun is one of this connection's.
    pub(super) fn go_on<F>(&mut self, begun: Begun<F>)
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let Begun { id, gone, answered, ending } = begun;
        self.structured.under_way.retain(|call| !call.is_over());
        self.structured.under_way.push(UnderWay { id, gone, answered });
        self.calls.spawn(ending);
    }

    /// A call whose thread was to answer it has ended.
    pub(super) fn answered(&mut self, by_thread: &Answered) -> io::Result<()> {
        self.structured.under_way.retain(|call| !Arc::ptr_eq(&call.answered, by_thread));
        if by_thread.load(Ordering::Acquire) {
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
