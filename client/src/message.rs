//! What the client says to people: one line on stderr that names what is wrong
//! and what to do.
//!
//! Owns: every text of a failure. Must not: let a control character from
//! outside reach the terminal.

use crate::os::{self, Errno, Fd};
use tool_wire::json::{Text, Writer};

/// One line, put together in a small memory and written when it is full or
/// ended.
pub(crate) struct Line<'a> {
    place: &'a mut [u8],
    at: usize,
    /// Nowhere, if the descriptor is not open: its number may be the socket's.
    to: Option<Fd>,
    /// What a message to people begins with.
    name: &'a [u8],
    last: u8,
    written: Result<(), Errno>,
}

impl<'a> Line<'a> {
    /// A line on that descriptor.
    #[inline(never)]
    pub(crate) fn new(place: &'a mut [u8], to: Option<Fd>, name: &'a [u8]) -> Line<'a> {
        Line { place, at: 0, to, name, last: 0, written: Ok(()) }
    }

    /// Begins a message to people.
    #[inline(never)]
    pub(crate) fn begin(&mut self) {
        let name = self.name;
        self.push(name);
        self.push(b": ");
    }

    /// Adds text; each control character becomes `?`, those beyond ASCII
    /// (U+0080 to U+009F: 0xC2 and one byte) too.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let control = match byte {
                0..0x20 | 0x7f => true,
                0x80..0xa0 => self.last == 0xc2,
                _ => false,
            };
            self.last = *byte;
            self.put(if control { b'?' } else { *byte });
        }
    }

    /// Adds a string of a message.
    pub(crate) fn text(&mut self, text: Text<'_>) {
        for piece in text.pieces() {
            self.push(piece.bytes(&mut [0; 4]));
        }
    }

    pub(crate) fn number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let mut writer = Writer::new(&mut digits);
        writer.number(number);
        self.push(writer.written());
    }

    /// Ends the line and writes it.
    pub(crate) fn end(&mut self) {
        if os::any_changed() {
            // A terminal that does nothing by itself, not even this.
            self.put(b'\r');
        }
        self.put(b'\n');
        self.flush();
    }

    /// Whether all was written. An error of stderr cannot be told to anybody.
    pub(crate) fn written(&self) -> Result<(), Errno> {
        self.written
    }

    fn put(&mut self, byte: u8) {
        if self.at == self.place.len() {
            self.flush();
        }
        if let Some(place) = self.place.get_mut(self.at) {
            *place = byte;
            self.at = self.at.wrapping_add(1);
        }
    }

    fn flush(&mut self) {
        let bytes = self.place.get(..self.at).unwrap_or_default();
        if let Some(fd) = self.to {
            self.written = self.written.and(os::write_all(fd, bytes));
        }
        self.at = 0;
    }
}

/// Why there is no call, or no end of it.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// The client itself was called in a way that it does not know.
    Usage,
    /// The name of the tool is too long for any tool.
    NameTooLong,
    /// The socket's path does not fit a socket's address.
    PathTooLong,
    /// No connection.
    Connect(Errno),
    /// A message cannot be sent.
    Send(Errno),
    /// The current directory has no name any more.
    DirectoryGone,
    /// The kernel does not tell its name for another reason.
    Directory(Errno),
    /// The server knows only the seed's protocol, and this call needs more.
    TooOld,
    /// The server answered, but not with its health.
    NoHealth,
    /// The server answered, when asked for its health, that it takes no calls.
    Refused,
    /// Nothing can be waited for.
    Wait(Errno),
    /// The connection ended before the last message.
    BrokenOff,
    /// What came is not the protocol.
    BadReply,
    /// The tool's output cannot be written.
    Output(Errno),
}

impl Failure {
    /// What is wrong and what to do; `@` stands for the socket's path, `#` for
    /// the number of an error that has no text of its own.
    fn text(self) -> (&'static str, Errno) {
        let text = match self {
            Failure::Usage => "call it by a tool's name, or see tool-client --help",
            Failure::NameTooLong => "a tool's name has at most 64 bytes",
            Failure::PathTooLong => {
                "the socket's path has more than 107 bytes: set a shorter TOOL_SOCKET"
            }
            Failure::Connect(Errno::ENOENT | Errno::ENOTDIR) => {
                "no tool-server at @: start it, or set TOOL_SOCKET"
            }
            Failure::Connect(Errno::ECONNREFUSED) => {
                "no tool-server listens at @: start it again, or set TOOL_SOCKET"
            }
            Failure::Connect(Errno::EACCES) => {
                "no permission to use @: check the socket's mode and group, or set TOOL_SOCKET"
            }
            Failure::Connect(_) => "cannot connect to @ (error #): check it, or set TOOL_SOCKET",
            Failure::Send(_) => "cannot send to @ (error #): try again",
            Failure::DirectoryGone => "the current directory is gone: change to another",
            Failure::Directory(_) => {
                "the current directory has no usable name (error #): change to another"
            }
            Failure::Wait(_) => "cannot wait (error #): try again",
            Failure::TooOld => {
                "tool-server at @ is too old for arguments that are long or not UTF-8: update it"
            }
            Failure::NoHealth => "the server at @ does not tell its health: update tool-server",
            Failure::Refused => "the server at @ takes no calls: try again later",
            Failure::BrokenOff => {
                "tool-server at @ broke off before the end: check what was done, then its log"
            }
            Failure::BadReply => {
                "bad reply from @: check that tool-server is there, and its version"
            }
            Failure::Output(_) => "cannot write the output (error #): check where it goes",
        };
        let errno = match self {
            Failure::Connect(errno)
            | Failure::Send(errno)
            | Failure::Directory(errno)
            | Failure::Wait(errno)
            | Failure::Output(errno) => errno,
            _ => Errno(0),
        };
        (text, errno)
    }

    /// Writes the line.
    pub(crate) fn tell(self, path: &[u8], line: &mut Line<'_>) {
        let (text, errno) = self.text();
        line.begin();
        for byte in text.as_bytes() {
            match byte {
                b'@' => line.push(path),
                b'#' => line.number(u32::from(errno.0)),
                byte => line.push(&[*byte]),
            }
        }
        line.end();
    }
}
