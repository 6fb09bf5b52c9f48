//! What the client asks: one call as one message, or as several where it does
//! not fit one, and the question for the server's health.
//!
//! Owns: the members of a request, their order, how a long one is split. Must
//! not: change a byte of an argument, or send to a server that knows only the
//! seed's protocol what it would take for something else.

use crate::environment;
use crate::message::Failure;
use crate::os::{self, Errno, Fd, SocketPath, Strings};
use crate::reply::{Incoming, Member, Open, Reply};
use tool_wire::frame;
use tool_wire::json::{Form, Writer};
use tool_wire::limits::{MAX_FRAME, MAX_TOOL, PREFIX};

/// What closes a message that goes on within a string.
const CLOSE_STRING: &[u8] = b"],\"more\":\"string\"}";

/// What closes one that goes on with the next string, or another list.
const CLOSE_LIST: &[u8] = b"],\"more\":true}";

/// Kept free while strings are written: the opening of one more list, one empty
/// string, and what closes a message.
const KEPT: usize = 64;

/// Kept free behind a string: the opening of one more list, and what closes a
/// message.
const KEPT_BEHIND: usize = 32;

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
    /// Patterns of TOOL_FORWARD_ENV.
    pub(crate) forward: &'a [u8],
    pub(crate) open: Open,
}

impl Request<'_> {
    /// Sends the call. The lists come last, so that all else is in the first
    /// message.
    pub(crate) fn send(
        &self,
        stdio: Stdio,
        connection: &mut Connection<'_>,
        frame: &mut [u8],
        side: &mut [u8],
    ) -> Result<(), Failure> {
        if self.tool.len() > MAX_TOOL {
            return Err(Failure::NameTooLong);
        }
        let mut fds = [-1; os::PASSED];
        let mut count = 0;
        if stdio == Stdio::Passed {
            for (place, fd) in fds.iter_mut().zip(self.open.list()) {
                *place = fd;
                count += 1;
            }
        }
        let mut out = Outgoing {
            connection,
            message: Writer::new(frame.get_mut(..PREFIX + MAX_FRAME).unwrap_or_default()),
            side,
            fds: fds.get(..count).unwrap_or_default(),
            list: b"",
            empty: true,
            rest: false,
            beyond_seed: false,
            // Only a server that knows this protocol asks for a stream.
            checked: stdio == Stdio::Stream,
            refused: false,
        };
        out.open(self.tool, stdio)?;
        out.list(b"\"args\":[");
        for argument in self.arguments.clone() {
            out.string(argument)?;
        }
        let mut entries = self
            .environment
            .clone()
            .filter(|entry| environment::offered(entry, self.forward))
            .peekable();
        if entries.peek().is_some() {
            out.next_list(b"\"env\":[")?;
            for entry in entries {
                out.string(entry)?;
            }
        }
        out.message.raw(b"]}");
        out.flush()
    }
}

/// A request on its way out.
struct Outgoing<'a, 'c> {
    connection: &'a mut Connection<'c>,
    message: Writer<'a>,
    side: &'a mut [u8],
    /// Those that the next message takes along.
    fds: &'a [Fd],
    /// How the list that is being written opens.
    list: &'static [u8],
    /// It has no string in this message yet.
    empty: bool,
    /// This message began with the rest of a string.
    rest: bool,
    /// A server that knows only the seed's protocol would misread the request.
    beyond_seed: bool,
    /// The server was found to know more.
    checked: bool,
    /// The server takes no more of it; it may have said why.
    refused: bool,
}

impl Outgoing<'_, '_> {
    /// Everything but the lists: at most some 30 KiB.
    fn open(&mut self, tool: &[u8], stdio: Stdio) -> Result<(), Failure> {
        self.message.raw(&[0; PREFIX]);
        self.message.raw(b"{\"cwd\":");
        self.directory()?;
        self.message.raw(b",\"tool\":");
        self.whole(tool);
        self.message.raw(b",\"umask\":");
        self.message.number(os::umask());
        match stdio {
            Stdio::Stream => self.message.raw(b",\"stdio\":\"stream\","),
            Stdio::Passed => {
                self.message.raw(b",\"stdio\":\"fds\",\"fds\":[");
                for (at, fd) in self.fds.iter().enumerate() {
                    if at > 0 {
                        self.message.raw(b",");
                    }
                    self.message.number(fd.unsigned_abs());
                }
                self.message.raw(b"],");
            }
        }
        Ok(())
    }

    /// The current directory. Its name is first tried where it will stand: most
    /// need no escapes, and the memory is in use already.
    fn directory(&mut self) -> Result<(), Failure> {
        let place = self.message.spare().get_mut(1..).unwrap_or_default();
        let length = match os::current_directory(place) {
            Ok(length) => length,
            Err(Errno::ENOENT) => return Err(Failure::DirectoryGone),
            Err(errno) => return Err(Failure::Directory(errno)),
        };
        let name = place.get(..length).unwrap_or_default();
        // The kernel's word for one that is not beneath this process's root.
        if name.starts_with(b"(unreachable)") {
            return Err(Failure::DirectoryGone);
        }
        if name.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'"' && *byte != b'\\') {
            self.message.raw(b"\"");
            self.message.advance(length);
            self.message.raw(b"\"");
        } else if frame::copy(name, self.side) {
            let name = self.side.get(..length).unwrap_or_default();
            self.beyond_seed |= Form::of(name) == Form::Base64;
            self.message.string(name);
        }
        Ok(())
    }

    /// A string that fits for certain.
    fn whole(&mut self, bytes: &[u8]) {
        self.beyond_seed |= Form::of(bytes) == Form::Base64;
        self.message.string(bytes);
    }

    /// Opens a list.
    fn list(&mut self, list: &'static [u8]) {
        self.message.raw(list);
        self.list = list;
        self.empty = true;
    }

    /// Closes the list and opens another; in a message of its own, where this
    /// one began with the rest of a string: a first string that is no rest may
    /// not stand in it.
    fn next_list(&mut self, list: &'static [u8]) -> Result<(), Failure> {
        if self.rest {
            self.go_on(CLOSE_LIST)?;
        } else {
            self.message.raw(b"],");
        }
        self.list(list);
        Ok(())
    }

    /// Adds a string to the list, in as many messages as it needs.
    fn string(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let form = Form::of(bytes);
        self.beyond_seed |= form == Form::Base64;
        if self.message.room() < KEPT {
            self.go_on(CLOSE_LIST)?;
            self.list(self.list);
        }
        let mut rest = bytes;
        loop {
            if !self.empty {
                self.message.raw(b",");
            }
            self.empty = false;
            let room = self.message.room().saturating_sub(KEPT_BEHIND);
            let taken = self.message.piece(rest, form, room);
            rest = rest.get(taken..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            self.go_on(CLOSE_STRING)?;
            self.list(self.list);
            self.rest = true;
        }
    }

    /// Closes the message and begins the next one.
    fn go_on(&mut self, close: &[u8]) -> Result<(), Failure> {
        self.beyond_seed = true;
        self.message.raw(close);
        self.flush()?;
        self.message.clear();
        self.message.raw(&[0; PREFIX]);
        self.message.raw(b"{");
        self.rest = false;
        Ok(())
    }

    /// Sends the message, the first one with the descriptors.
    fn flush(&mut self) -> Result<(), Failure> {
        let socket = self.connection.socket()?;
        if self.beyond_seed && !self.checked {
            match health(socket, self.side) {
                Ok(_) => self.checked = true,
                Err(Failure::NoHealth | Failure::BrokenOff) => return Err(Failure::TooOld),
                Err(failure) => return Err(failure),
            }
        }
        let message = self.message.written_mut();
        let length = message.len().saturating_sub(PREFIX);
        if let (Some(place), Some(prefix)) = (message.first_chunk_mut(), frame::prefix(length)) {
            *place = prefix;
        }
        let mut rest = &*message;
        while !rest.is_empty() && !self.refused {
            match os::send(socket, rest, self.fds, true) {
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    self.fds = &[];
                }
                // The answer that is there to be read may say why.
                Err(Errno::EPIPE | Errno::ECONNRESET) => self.refused = true,
                Err(errno) => return Err(Failure::Send(errno)),
            }
        }
        Ok(())
    }
}

/// Asks the server how it is, and returns what it says if it knows this
/// protocol. `side` then holds its answer: see [`last_health`].
pub(crate) fn health(socket: Fd, side: &mut [u8]) -> Result<Reply<'_>, Failure> {
    let mut rest = HEALTH;
    while !rest.is_empty() {
        match os::send(socket, rest, &[], true) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::EPIPE | Errno::ECONNRESET) => break,
            Err(errno) => return Err(Failure::Send(errno)),
        }
    }
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
