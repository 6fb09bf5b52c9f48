//! One connection at the door: from its first message to its call's end, if
//! nothing else happens.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use nix::sys::epoll::Epoll;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool_protocol::frame::{self, Kind};
use tool_protocol::limits::{MAX_FRAME, PREFIX};
use tool_protocol::request::More;
use tool_protocol::{Code, Incoming, Refusal, Reply, Request, Stdio};
use tracing::debug;

use crate::broker::{Begun, Broker, Call, Peer, Ticket, Underway, Unfinished};
use crate::exec::Io;
use crate::listen::accept::{Context, identify};
use crate::listen::arrange::arrange;
use crate::listen::connection::Come;
use crate::listen::session;
use crate::metrics::Connection;
use crate::os::foreign::{Foreign, HandedOn, close_connection};
use crate::os::process::Exit;

/// Room for one message.
pub(super) const BUFFER: usize = PREFIX + MAX_FRAME;

/// A place among the connections, and what they share.
pub(super) struct Room {
    pub(super) context: Arc<Context>,
    /// That may watch it.
    pub(super) epoll: Arc<Epoll>,
    pub(super) _room: OwnedSemaphorePermit,
    /// While it is open.
    pub(super) _counted: Option<Connection>,
}

/// A connection at the door.
pub(super) struct Guest {
    socket: UnixStream,
    peer: Peer,
    room: Room,
    since: Instant,
    /// What was received and is not for the door.
    come: Come,
    call: Option<Calling>,
    /// A call that waits for an operator: it is never waited for here.
    later: Option<(Ticket, Unfinished)>,
    /// It was answered `use_stream`: its call is to be repeated.
    repeated: bool,
    /// What is to be said once its call's files are closed.
    late: Option<Late>,
}

/// The last message of a call, which nobody at the door waits to send.
struct Late {
    message: Vec<u8>,
    handed: HandedOn,
    once: bool,
    _busy: TaskTrackerToken,
}

/// Its call.
struct Calling {
    ticket: Ticket,
    underway: Box<Underway>,
    /// Nothing more comes on this connection.
    once: bool,
    _busy: TaskTrackerToken,
}

/// What becomes of a guest.
pub(super) enum Next {
    /// It stays, until something happens.
    Wait(Box<Guest>),
    /// It is the runtime's from now on.
    Session(Box<Guest>),
    /// It is gone.
    Gone,
}

impl Guest {
    /// Looks at who comes; one that may not be here is told so.
    pub(super) fn welcome(socket: UnixStream, room: Room) -> Option<Guest> {
        match identify(&socket, &room.context) {
            Ok(peer) => {
                let (since, come) = (Instant::now(), Come::default());
                Some(Guest {
                    socket,
                    peer,
                    room,
                    since,
                    come,
                    call: None,
                    later: None,
                    repeated: false,
                    late: None,
                })
            }
            Err(refusal) => {
                room.context.broker.metrics.bad_request(refusal.code);
                refuse(&socket, refusal);
                close_connection(socket, |_| {});
                None
            }
        }
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Until when it may stay at the door; no time at all is for ever.
    pub(super) fn patience(&self, quiet: Duration) -> Option<Instant> {
        match &self.call {
            None => Some(self.since + quiet),
            Some(call) => call.underway.timeout().map(|timeout| self.since + timeout),
        }
    }

    /// Hears what the connection says: a call that can begin at once begins.
    pub(super) fn listen(mut self, buffer: &mut [u8], broker: &Broker, number: u64) -> Next {
        // Whatever is said during a call, its end too, is for a session.
        if self.call.is_some() || self.room.context.rules.control {
            return Next::Session(Box::new(self));
        }
        let spare = &self.room.context.shared.spare;
        let (bytes, descriptors, lost) = match Come::receive(self.socket.as_fd(), buffer, spare, 0)
        {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Next::Wait(Box::new(self));
            }
            Err(error) => {
                debug!(%error, "the connection broke");
                return self.leave();
            }
            Ok((0, ..)) => return self.leave(),
            Ok(received) => received,
        };
        let message = buffer.get(..bytes).unwrap_or_default();
        match (lost, plain(message)) {
            (None, Some((request, tool))) if self.admits(&request, &tool) => {
                self.begin(request, tool, descriptors, message, broker, number)
            }
            _ => {
                self.come = Come { bytes: BytesMut::from(message), descriptors, lost };
                Next::Session(Box::new(self))
            }
        }
    }

    /// What this socket does not serve, or what is too large, a session refuses.
    fn admits(&self, request: &Request, tool: &str) -> bool {
        let context = &self.room.context;
        context.rules.serves(tool) && context.limits.check(request).is_ok()
    }

    fn begin(
        mut self,
        request: Request,
        tool: String,
        descriptors: Vec<Foreign>,
        message: &[u8],
        broker: &Broker,
        number: u64,
    ) -> Next {
        let once = request.once;
        // Before it is asked whether the server stops: a stop waits for it, or it is
        // not begun.
        let busy = self.room.context.busy.token();
        let Some(reserved) = broker.reserve(&tool, self.peer) else {
            self.come = Come { bytes: BytesMut::from(message), descriptors, lost: None };
            return Next::Session(Box::new(self));
        };
        let passed = match arrange(&request.fds, descriptors, Vec::new()) {
            Ok((passed, _)) => passed,
            Err(refusal) => {
                broker.metrics.bad_request(refusal.code);
                let reply = Reply { id: request.id, ..Reply::refused(refusal) };
                return self.answer(&reply, once);
            }
        };
        self.since = Instant::now();
        let call = Call {
            peer: self.peer,
            tool,
            request,
            io: Io::Passed(passed, Vec::new()),
            known: None,
        };
        match broker.begin(reserved, call, number) {
            Begun::Running(ticket, underway) => {
                let attended = underway.is_led();
                self.call = Some(Calling { ticket, underway, once, _busy: busy });
                if attended { Next::Session(Box::new(self)) } else { Next::Wait(Box::new(self)) }
            }
            Begun::Later(ticket, later) => {
                self.later = Some((ticket, later));
                Next::Session(Box::new(self))
            }
            Begun::Refused(reply) => self.answer(&reply, once),
        }
    }

    /// Its tool has ended.
    pub(super) fn end(mut self, broker: &Broker, exit: Exit) -> Next {
        let Some(Calling { ticket, mut underway, once, _busy }) = self.call.take() else {
            return Next::Session(Box::new(self));
        };
        let mut handed = underway.handed_on();
        let reply = broker.ended(ticket, *underway, exit);
        if !handed.is_closed()
            && let Some(message) = framed(&reply)
        {
            self.late = Some(Late { message, handed, once, _busy });
            return Next::Session(Box::new(self));
        }
        self.answer(&reply, once)
    }

    /// The last message of its call.
    fn answer(mut self, reply: &Reply, once: bool) -> Next {
        let Some(message) = framed(reply) else { return self.leave() };
        // Nothing was written to this connection before: it has room.
        if let Err(error) = (&self.socket).write_all(&message) {
            debug!(%error, "the reply reached nobody");
            return self.leave();
        }
        // One that is to be repeated is not the last.
        self.repeated = reply.code == Some(Code::UseStream);
        if once && !self.repeated {
            return self.leave();
        }
        Next::Session(Box::new(self))
    }

    fn leave(self) -> Next {
        close_connection(self.socket, |socket| {
            // It stays open for a while, and readable.
            self.room.epoll.delete(socket).ok();
        });
        Next::Gone
    }

    /// Makes it a session.
    pub(super) fn hand_over(self, runtime: &Handle, broker: &Broker, stopped: Option<i32>) {
        let Guest { socket, peer, room, come, mut call, later, repeated, late, .. } = self;
        if let Some(call) = &mut call {
            broker.let_go(&mut call.underway, stopped);
        }
        runtime.spawn(async move {
            let Room { context, _room, _counted, .. } = room;
            if let Some(Late { message, handed, once, _busy }) = late {
                handed.closed().await;
                let written = (&socket).write_all(&message);
                if once || written.is_err() {
                    return close_connection(socket, |_| {});
                }
            }
            let busy = call.as_ref().map(|_| context.busy.token());
            let running = call.map(|call| (call.ticket, Unfinished::Running(call.underway)));
            let begun = running.or(later);
            match tokio::net::UnixStream::from_std(socket) {
                Ok(socket) => {
                    session::serve(socket, context, peer, come, begun, repeated, busy).await;
                }
                Err(error) => debug!(%error, "cannot serve a connection"),
            }
        });
    }
}

/// A whole call by passed descriptors that needs nothing else, and its tool.
fn plain(message: &[u8]) -> Option<(Request, String)> {
    let (prefix, payload) = message.split_first_chunk::<PREFIX>()?;
    if frame::length(*prefix).ok()? != payload.len() {
        return None;
    }
    let Ok((Kind::Json, object)) = frame::split(payload) else { return None };
    let Ok(Incoming::Call(request, More::No)) = Incoming::parse(object) else { return None };
    if request.stdio != Stdio::Fds || !request.tty.is_empty() || request.check().is_err() {
        return None;
    }
    let tool = std::str::from_utf8(request.tool.as_ref()?.as_bytes()).ok()?.to_owned();
    Some((request, tool))
}

/// A reply as it is sent.
fn framed(reply: &Reply) -> Option<Vec<u8>> {
    let payload = reply.to_payload();
    let prefix = frame::prefix(payload.len())?;
    Some([prefix.as_slice(), &payload].concat())
}

/// One try: a peer that may not be here is not waited for.
fn refuse(mut socket: &UnixStream, refusal: Refusal) {
    let payload = Reply::refused(refusal).to_payload();
    if let Some(prefix) = frame::prefix(payload.len()) {
        drop(socket.write(&[prefix.as_slice(), &payload].concat()));
    }
}
