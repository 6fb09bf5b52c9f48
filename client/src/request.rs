//! What the client asks: one call, and the question for the server's health.
//!
//! Owns: the members of a request and their order; the connection. Must not:
//! pass a terminal.

use crate::descriptors::Descriptors;
use crate::environment;
use crate::message::Failure;
use crate::os::{self, Errno, Fd, SocketPath, Strings};
use crate::outgoing::{Outgoing, send_all};
use crate::reply::{Incoming, Member, Reply};
use crate::signals::Signals;
use crate::terminal::{self, Terminal};
use tool_wire::json::Writer;
use tool_wire::limits::{MAX_FRAME, MAX_TOOL, PREFIX};

const HEALTH: &[u8] = b"\0\0\0\x0f{\"op\":\"health\"}";

/// How input and output travel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdio {
    /// The caller's own descriptors go to the tool.
    Passed,
    /// Chunks both ways on the socket.
    Stream,
}

/// The socket, connected when the first message is ready: a server that wakes
/// for the connection then finds the message there.
pub(crate) struct Connection<'a> {
    path: &'a SocketPath,
    socket: Option<Fd>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(path: &'a SocketPath) -> Connection<'a> {
        Connection { path, socket: None }
    }

    pub(crate) fn socket(&mut self) -> Result<Fd, Failure> {
        if let Some(socket) = self.socket {
            return Ok(socket);
        }
        let socket = os::connect(self.path).map_err(Failure::Connect)?;
        self.socket = Some(socket);
        Ok(socket)
    }
}

/// One call, as the caller made it.
pub(crate) struct Request<'a> {
    pub(crate) tool: &'a [u8],
    pub(crate) arguments: Strings,
    pub(crate) environment: Strings,
    pub(crate) umask: u32,
    /// Patterns of TOOL_FORWARD_ENV.
    pub(crate) forward: &'a [u8],
}

/// What a request is made with.
pub(crate) struct Means<'a, 'c> {
    pub(crate) connection: Connection<'c>,
    pub(crate) signals: &'a mut Signals,
    pub(crate) descriptors: &'a mut Descriptors,
    pub(crate) terminals: &'a mut [Terminal],
}

impl Means<'_, '_> {
    /// As chunks a terminal beyond 0, 1 and 2 does not travel.
    pub(crate) fn keep_standard_terminals(&mut self) {
        let count = self.terminals.iter().take_while(|terminal| terminal.input <= 2).count();
        let all = core::mem::take(&mut self.terminals);
        self.terminals = all.get_mut(..count).unwrap_or_default();
    }
}

impl Request<'_> {
    /// Sends the call, with all that can be passed. There are kinds of
    /// descriptors that the kernel passes to nobody (those of io_uring): with one
    /// of them among the others 0, 1 and 2 go alone.
    pub(crate) fn send(
        &self,
        stdio: Stdio,
        means: &mut Means<'_, '_>,
        frame: &mut [u8],
        side: &mut [u8],
    ) -> Result<(), Failure> {
        match self.try_send(stdio, means, frame, side) {
            Err(Failure::Send(Errno::EINVAL)) if means.descriptors.pass_standard_only() => {
                self.try_send(stdio, means, frame, side)
            }
            ended => ended,
        }
    }

    /// The lists come last, so that all else is in the first message.
    fn try_send(
        &self,
        stdio: Stdio,
        means: &mut Means<'_, '_>,
        frame: &mut [u8],
        side: &mut [u8],
    ) -> Result<(), Failure> {
        if self.tool.len() > MAX_TOOL {
            return Err(Failure::NameTooLong);
        }
        let streams = stdio == Stdio::Stream;
        // The descriptors before the message: a few of them, a message of the
        // usual length and its answer are all in one page.
        let (rights, message) = frame.split_at_mut_checked(os::MOST_RIGHTS).unwrap_or_default();
        let message = message.get_mut(..PREFIX + MAX_FRAME).unwrap_or_default();
        let mut out = Outgoing::new(
            &mut means.connection,
            means.signals,
            Writer::new(message),
            side,
            // Only a server that knows this protocol asks for a stream.
            streams,
        );
        out.message.raw(&[0; PREFIX]);
        out.message.raw(b"{\"once\":true,\"cwd\":");
        out.directory()?;
        out.message.raw(b",\"tool\":");
        out.whole(self.tool);
        out.message.raw(b",\"umask\":");
        out.message.number(self.umask);
        if streams {
            out.message.raw(b",\"stdio\":\"stream\",\"window\":true");
        } else {
            out.message.raw(b",\"stdio\":\"fds\",\"fds\":[");
            let fds = means.descriptors.passed();
            terminal::list(&mut fds.map(i32::unsigned_abs), &mut out.message);
            out.message.raw(b"]");
            let count = os::rights(means.descriptors.passed(), rights);
            out.rights = rights.get(..count).unwrap_or_default();
        }
        let mut open: &[u8] = b",\"tty\":[";
        for terminal in &*means.terminals {
            out.message.raw(open);
            terminal.describe(if streams { 2 } else { Fd::MAX }, &mut out.message);
            open = b",";
        }
        out.message.raw(if means.terminals.is_empty() { b"," } else { b"]," });
        out.list(b"\"args\":[");
        for argument in self.arguments.clone() {
            out.string(argument)?;
        }
        let mut opened = false;
        for entry in self.environment.clone().chain(environment::NAMED_IF_ABSENT) {
            if environment::offered(entry, self.forward, self.environment.clone()) {
                if !opened {
                    opened = true;
                    out.next_list(b"\"env\":[")?;
                }
                out.string(entry)?;
            }
        }
        out.end()
    }
}

/// Asks the server how it is, and returns what it says if it knows this
/// protocol. `side` then holds its answer: see [`last_health`].
pub(crate) fn health(socket: Fd, side: &mut [u8]) -> Result<Reply<'_>, Failure> {
    send_all(socket, HEALTH, b"", None)?;
    Incoming::new(side).next(socket)?;
    let reply = last_health(side)?;
    if reply.integer(Member::Protocol).unwrap_or(0) >= 1 {
        Ok(reply)
    } else if reply.text(Member::Code).is_some() {
        Err(Failure::Refused)
    } else {
        Err(Failure::NoHealth)
    }
}

/// The answer that [`health`] got.
pub(crate) fn last_health(side: &mut [u8]) -> Result<Reply<'_>, Failure> {
    let mut answer = Incoming::come(side);
    let range = answer.take()?.unwrap_or_default();
    Reply::read(side.get(range).unwrap_or_default())
}
