//! A request on its way out: JSON straight into the frame, as several messages
//! where it does not fit one.
//!
//! Owns: how a long request is split. Must not: change a byte of an argument, or
//! send to a server that knows only the seed's protocol what it would take for
//! something else.

use crate::message::Failure;
use crate::os::{self, Errno, Fd, Poll};
use crate::request::{Connection, health};
use crate::signals::Signals;
use tool_wire::frame;
use tool_wire::json::{Form, Writer};
use tool_wire::limits::PREFIX;

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

/// A request, as far as it is written.
pub(crate) struct Outgoing<'a, 'c> {
    pub(crate) connection: &'a mut Connection<'c>,
    pub(crate) signals: &'a mut Signals,
    pub(crate) message: Writer<'a>,
    pub(crate) side: &'a mut [u8],
    /// What makes descriptors go with the next message.
    pub(crate) rights: &'a [u8],
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

impl<'a, 'c> Outgoing<'a, 'c> {
    pub(crate) fn new(
        connection: &'a mut Connection<'c>,
        signals: &'a mut Signals,
        message: Writer<'a>,
        side: &'a mut [u8],
        checked: bool,
    ) -> Outgoing<'a, 'c> {
        Outgoing {
            connection,
            signals,
            message,
            side,
            rights: b"",
            list: b"",
            empty: true,
            rest: false,
            beyond_seed: false,
            checked,
            refused: false,
        }
    }

    /// The current directory. Its name is first tried where it will stand: most
    /// need no escapes, and the memory is in use already.
    pub(crate) fn directory(&mut self) -> Result<(), Failure> {
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
    pub(crate) fn whole(&mut self, bytes: &[u8]) {
        self.beyond_seed |= Form::of(bytes) == Form::Base64;
        self.message.string(bytes);
    }

    /// Opens a list.
    pub(crate) fn list(&mut self, list: &'static [u8]) {
        self.message.raw(list);
        self.list = list;
        self.empty = true;
    }

    /// Closes the list and opens another; in a message of its own, where this
    /// one began with the rest of a string: a first string that is no rest may
    /// not stand in it.
    pub(crate) fn next_list(&mut self, list: &'static [u8]) -> Result<(), Failure> {
        if self.rest {
            self.go_on(CLOSE_LIST)?;
        } else {
            self.message.raw(b"],");
        }
        self.list(list);
        Ok(())
    }

    /// Adds a string to the list, in as many messages as it needs.
    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<(), Failure> {
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
        self.flush(false)?;
        self.message.clear();
        self.message.raw(&[0; PREFIX]);
        self.message.raw(b"{");
        self.rest = false;
        Ok(())
    }

    /// Sends the last message. What comes from now on may already be about a
    /// tool that runs: signals are handed on to it.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        self.message.raw(b"]}");
        self.flush(true)
    }

    /// Sends the message, the first one with the descriptors.
    fn flush(&mut self, last: bool) -> Result<(), Failure> {
        if self.beyond_seed && !self.checked {
            match health(self.connection.socket()?, self.side) {
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
        if last {
            self.signals.block();
        }
        // Connected as late as may be: a server that wakes for it finds the message.
        let socket = self.connection.socket()?;
        if !self.refused {
            let rights = core::mem::take(&mut self.rights);
            self.refused = !send_all(socket, message, rights, self.signals.before())?;
        }
        Ok(())
    }
}

/// Sends all of it, the descriptors with its first byte. A request that is not
/// whole starts nothing: until it is, a signal that was not blocked `before` does
/// what it does without the client. False where the server takes no more: the
/// answer that is there to be read may say why.
pub(crate) fn send_all(
    socket: Fd,
    bytes: &[u8],
    mut rights: &[u8],
    before: Option<&u64>,
) -> Result<bool, Failure> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match os::send(socket, rest, rights) {
            Ok(count) => {
                rest = rest.get(count..).unwrap_or_default();
                rights = b"";
            }
            Err(Errno::EAGAIN) => {
                let mut polls = [Poll::new(socket, Poll::WRITE)];
                os::poll(&mut polls, None, before).map_err(Failure::Wait)?;
            }
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Ok(false),
            Err(errno) => return Err(Failure::Send(errno)),
        }
    }
    Ok(true)
}
