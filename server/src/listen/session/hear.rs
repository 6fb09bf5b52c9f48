//! What the peer says on a connection: requests, in one message or several; input
//! and orders for the calls under way; operations.
//!
//! Must not: begin a call itself; that is `begin`.

use std::io;

use tool_protocol::frame::{self, Kind};
use tool_protocol::request::More;
use tool_protocol::{Code, Control, Incoming, Refusal, Request};

use super::{Partial, Session};
use crate::exec::Order;
use crate::listen::connection::Read;
use crate::listen::operation::{self, Answer};
use crate::os::foreign::Foreign;

/// Bytes of an operation's text in one message.
const PIECE: usize = 32 * 1024;

impl Session {
    /// One message, or the end of what the peer sends.
    pub(super) async fn hear(&mut self, read: Read) -> io::Result<()> {
        let payload = match read {
            Read::Payload(payload) => {
                self.spoken = true;
                if let Some(refusal) = self.unfit.take() {
                    return self.give_up(refusal);
                }
                payload
            }
            Read::End => {
                self.ended = true;
                // No more input can come: the tool is told when it has the rest.
                if let Some(input) = &mut self.input {
                    input.take(&[]);
                }
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
            Ok((Kind::Stdin, bytes)) if self.structured.is_awaited() => {
                match self.structured.take(bytes, &self.context.shared) {
                    Ok(Some(call)) => self.begin_structured(call),
                    Ok(None) => Ok(()),
                    Err((refusal, id)) => self.give_up_on(refusal, id),
                }
            }
            Ok((Kind::Stdin, bytes)) => {
                // What comes when nobody wants it is thrown away.
                if let Some(input) = &mut self.input {
                    input.take(bytes);
                }
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
        if self.structured.is_awaited() {
            let message = "the rest of an input is awaited, as chunks of stdin";
            return self.give_up(Refusal::new(Code::BadRequest, message));
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
            Incoming::Control(control) => {
                self.order(control);
                Ok(())
            }
            Incoming::Op(op, id) => {
                match operation::answer(&self.context, self.peer, &op, object, id.as_ref()).await {
                    Ok(answer) => self.queue_answer(answer),
                    Err(refusal) => self.refuse(refusal, id),
                }
            }
            Incoming::Tool(call) => self.take_structured(call),
            Incoming::Call(request, more) => match descriptors {
                Ok(descriptors) => self.take(request, more, descriptors),
                Err(refusal) => self.refuse(refusal, request.id),
            },
        }
    }

    /// The answer to an operation: its text, with an end, before its message.
    fn queue_answer(&mut self, answer: Answer) -> io::Result<()> {
        if let Some(text) = answer.text {
            for piece in text.as_bytes().chunks(PIECE) {
                self.writer.queue_chunk(Kind::Stdout, piece);
            }
            self.writer.queue_chunk(Kind::Stdout, &[]);
        }
        self.writer.queue(answer.last)
    }

    /// A request, or the beginning of one.
    fn take(&mut self, request: Request, more: More, descriptors: Vec<Foreign>) -> io::Result<()> {
        if let Err(refusal) = self.context.limits.check(&request) {
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

    /// What a caller says about a call under way; nothing, where there is none.
    fn order(&mut self, control: Control) {
        let (order, id) = match control {
            Control::Signal(signal, id) => (Order::Signal(signal), id),
            Control::Resize(size) => (Order::Resize(size), None),
            Control::Foreground(front) => (Order::Foreground(front), None),
            Control::QueryStarted => (Order::QueryStarted, None),
            Control::Terminal(bytes) => {
                if let Some(input) = &self.input {
                    input.take_typed(bytes);
                }
                return;
            }
        };
        if let Order::Signal(signal) = order
            && self.structured.signal(id.as_ref(), signal)
        {
            return;
        }
        self.repeated.note(order);
        for (name, orders) in &self.orders {
            if *name == id || self.exclusive {
                orders.try_send(order).ok();
            }
        }
    }
}

fn unasked() -> Refusal {
    Refusal::new(Code::BadFds, "descriptors came beside something that is no request")
}
