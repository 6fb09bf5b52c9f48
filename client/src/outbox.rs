//! What is on its way to the server during a call: messages and chunks in one
//! line, so that none comes into the midst of another.
//!
//! Must not: wait for a server that does not read.

use crate::message::Failure;
use crate::os::{self, Errno, Fd};
use crate::outgoing::send_all;
use tool_wire::frame::{self, Kind};
use tool_wire::json::Writer;
use tool_wire::limits::PREFIX;

/// What a chunk has before its bytes: the prefix and its kind.
const HEAD: usize = PREFIX + 1;

/// What a message takes at most: what is typed at once, as base64.
const MESSAGE: usize = 600;

/// Frames that wait to be sent.
pub(crate) struct Outbox<'a> {
    memory: &'a mut [u8],
    start: usize,
    end: usize,
    /// The server takes no more; what it has to say comes by reading.
    broken: bool,
}

impl<'a> Outbox<'a> {
    pub(crate) fn new(memory: &'a mut [u8]) -> Outbox<'a> {
        Outbox { memory, start: 0, end: 0, broken: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether a few more messages have room.
    pub(crate) fn has_room(&self) -> bool {
        self.memory.len().saturating_sub(self.end) > 4 * MESSAGE
    }

    /// Adds a message.
    pub(crate) fn object(&mut self, write: &dyn Fn(&mut Writer<'_>)) {
        if self.broken {
            return;
        }
        let mut writer = Writer::new(self.memory.get_mut(self.end..).unwrap_or_default());
        writer.raw(&[0; PREFIX]);
        write(&mut writer);
        let length = writer.len().saturating_sub(PREFIX);
        if writer.overflowed() {
            return;
        }
        if let (Some(place), Some(prefix)) =
            (writer.written_mut().first_chunk_mut(), frame::prefix(length))
        {
            *place = prefix;
            self.end = self.end.wrapping_add(PREFIX).wrapping_add(length);
        }
    }

    /// Adds a message that is always the same.
    pub(crate) fn text(&mut self, text: &str) {
        self.object(&|writer| writer.raw(text.as_bytes()));
    }

    /// Where at most `most` bytes of a chunk are put, for [`Outbox::chunk`].
    pub(crate) fn place(&mut self, most: usize) -> &mut [u8] {
        let start = self.end.wrapping_add(HEAD);
        let end = start.wrapping_add(most).min(self.memory.len());
        self.memory.get_mut(start..end).unwrap_or_default()
    }

    /// Adds a chunk of stdin of the `count` bytes that are in its place; none
    /// are the end.
    pub(crate) fn chunk(&mut self, count: usize) {
        let head = self.memory.get_mut(self.end..).and_then(|rest| rest.first_chunk_mut());
        if let (Some(head), Some([a, b, c, d])) = (head, frame::prefix(count.wrapping_add(1)))
            && !self.broken
        {
            *head = [a, b, c, d, Kind::Stdin.byte()];
            self.end = self.end.wrapping_add(HEAD).wrapping_add(count);
        }
    }

    /// Sends what the socket takes.
    pub(crate) fn send(&mut self, socket: Fd) {
        let bytes = self.memory.get(self.start..self.end).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        match os::send(socket, bytes, &[]) {
            Ok(count) => self.start = self.start.wrapping_add(count),
            Err(Errno::EAGAIN) => {}
            Err(_) => {
                self.broken = true;
                self.start = self.end;
            }
        }
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Sends all of it: what comes next goes another way.
    pub(crate) fn send_all(&mut self, socket: Fd) -> Result<(), Failure> {
        let bytes = self.memory.get(self.start..self.end).unwrap_or_default();
        (self.start, self.end) = (0, 0);
        send_all(socket, bytes, b"", None).map(|_| ())
    }
}
