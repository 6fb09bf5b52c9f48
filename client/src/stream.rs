//! Input and output as chunks on the socket, both ways at once.
//!
//! Nothing here waits for one side only: stdin, the socket and the output are
//! polled together, so a server that is blocked writing to the client never
//! meets a client that is blocked writing to the server. Must not: wait for the
//! end of stdin once the last message has come, send more of it than the server
//! said it takes, or change a caller's descriptor (its flags belong to others
//! too).

use crate::descriptors::Descriptors;
use crate::message::Failure;
use crate::os::{self, Errno, Fd, Poll};
use crate::outbox::Outbox;
use crate::reply::Incoming;
use crate::terminal::Terminal;
use core::ops::Range;
use tool_wire::frame;
use tool_wire::json::Value;

/// The most bytes of stdin that are read at once, and those that may be sent
/// before the server asks for more.
const INPUT: usize = 32_768;

/// What a pipe that is ready to be written to takes without blocking.
const PIECE: usize = 4_096;

/// What is typed at once at most: as base64 it fits one message.
const KEYS: usize = 256;

/// A call's input and output.
pub(crate) struct Stream<'a> {
    /// Stdin is read: it is no terminal, and has not ended.
    reads: bool,
    /// How many more bytes of it the server takes.
    credit: usize,
    /// Keys go as stdin; else as messages of their own.
    keys_are_stdin: bool,
    keys: &'a mut [u8],
    /// The terminal is gone, or not to be read.
    deaf: bool,
    /// Where output goes at the moment, and what of it is left.
    to: Fd,
    pending: Range<usize>,
    /// It lies in `decoded`, not among what has come.
    is_decoded: bool,
    decoded: &'a mut [u8],
}

impl<'a> Stream<'a> {
    pub(crate) fn new(
        descriptors: &Descriptors,
        out: &mut Outbox<'_>,
        keys: &'a mut [u8],
        decoded: &'a mut [u8],
    ) -> Stream<'a> {
        let reads = descriptors.has(0) && !descriptors.terminals.has(0);
        if !descriptors.has(0) {
            out.chunk(0);
        }
        Stream {
            reads,
            credit: INPUT,
            keys_are_stdin: descriptors.terminals.has(0),
            keys,
            deaf: false,
            to: -1,
            pending: 0..0,
            is_decoded: false,
            decoded,
        }
    }

    /// Output is still to be written: nothing else is taken in meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What to wait for: stdin, keys, the output.
    pub(crate) fn polls(&self, from: Option<&Terminal>, out: &Outbox<'_>) -> [Poll; 3] {
        let sends = out.is_empty() && self.credit > 0;
        let from = from
            .filter(|terminal| terminal.held && !self.deaf)
            .filter(|_| out.is_empty() && (sends || !self.keys_are_stdin));
        [
            Poll::new(0, if self.reads && sends { Poll::READ } else { 0 }),
            from.map_or(Poll::of(-1), |terminal| Poll::new(terminal.input, Poll::READ)),
            Poll::new(self.to, if self.is_busy() { Poll::WRITE } else { 0 }),
        ]
    }

    /// Moves what can be moved.
    pub(crate) fn step(
        &mut self,
        polls: &[Poll; 3],
        incoming: &Incoming<'_>,
        out: &mut Outbox<'_>,
        from: Option<&Terminal>,
    ) -> Result<(), Failure> {
        let [stdin, keys, output] = polls;
        if stdin.is(Poll::READ) {
            self.read(out);
        }
        if keys.is(Poll::READ)
            && let Some(terminal) = from
        {
            self.listen(out, terminal);
        }
        if output.is(Poll::WRITE) { self.write(incoming) } else { Ok(()) }
    }

    fn read(&mut self, out: &mut Outbox<'_>) {
        match os::read(0, out.place(self.credit.min(INPUT))) {
            Ok(count @ 1..) => {
                self.credit = self.credit.saturating_sub(count);
                out.chunk(count);
            }
            // Another reader of the same descriptor was faster.
            Err(Errno::EAGAIN) => {}
            // The end; a directory: no more input.
            Ok(0) | Err(_) => {
                self.reads = false;
                out.chunk(0);
            }
        }
    }

    fn listen(&mut self, out: &mut Outbox<'_>, terminal: &Terminal) {
        let most = if self.keys_are_stdin { self.credit.min(KEYS) } else { KEYS };
        match os::read(terminal.input, self.keys.get_mut(..most).unwrap_or_default()) {
            Ok(count @ 1..) => self.typed(count, out),
            Err(Errno::EAGAIN) => {}
            // It is gone, and so is the tool's.
            Ok(0) | Err(_) if self.keys_are_stdin => {
                out.chunk(0);
                self.deaf = true;
            }
            Ok(0) | Err(_) => self.end_keys(out, terminal.end_of_input()),
        }
    }

    fn typed(&mut self, count: usize, out: &mut Outbox<'_>) {
        let bytes = self.keys.get(..count).unwrap_or_default();
        if self.keys_are_stdin {
            if frame::copy(bytes, out.place(count)) {
                out.chunk(count);
            }
            self.credit = self.credit.saturating_sub(count);
        } else {
            out.object(&|writer| {
                writer.raw(b"{\"terminal\":");
                writer.string(bytes);
                writer.raw(b"}");
            });
        }
    }

    /// No more keys come. A tool that waits for some is told so, as it would be
    /// by the terminal.
    pub(crate) fn end_keys(&mut self, out: &mut Outbox<'_>, end_of_input: u8) {
        if !self.deaf
            && let Some(place) = self.keys.first_mut()
        {
            *place = end_of_input;
            self.typed(1, out);
        }
        self.deaf = true;
    }

    /// Takes in a chunk of output, whose bytes lie in `range`; an empty one is
    /// the end of that stream, which whoever reads it is to see.
    pub(crate) fn output(
        &mut self,
        fd: Fd,
        range: Range<usize>,
        incoming: &Incoming<'_>,
        descriptors: &mut Descriptors,
        terminals: &[Terminal],
    ) {
        self.to = fd;
        if let Some(terminal) = terminals.iter().find(|terminal| terminal.fds.has(fd)) {
            let bytes = incoming.payload(range);
            if frame::copy(bytes, self.decoded) {
                self.show(bytes.len(), terminal);
            }
        } else if range.is_empty() && fd == 1 {
            descriptors.close(fd);
        } else if descriptors.passes(fd) {
            self.pending = range;
            self.is_decoded = false;
        }
    }

    /// Takes in what goes to a terminal and is no chunk: to one that is neither 1
    /// nor 2.
    pub(crate) fn terminal(
        &mut self,
        string: Value<'_>,
        terminals: &[Terminal],
    ) -> Result<(), Failure> {
        let count = string.bytes(self.decoded).ok_or(Failure::BadReply)?.len();
        let beside = |terminal: &&Terminal| !terminal.fds.has(1) && !terminal.fds.has(2);
        if let Some(terminal) = terminals.iter().find(beside) {
            self.show(count, terminal);
        }
        Ok(())
    }

    /// Shows what is decoded.
    fn show(&mut self, count: usize, terminal: &Terminal) {
        let bytes = self.decoded.get_mut(..count).unwrap_or_default();
        self.to = terminal.output;
        self.pending = 0..terminal.untreat(bytes);
        self.is_decoded = true;
    }

    /// The server takes so many more bytes of stdin.
    pub(crate) fn widen(&mut self, count: i64) {
        self.credit = self.credit.saturating_add(usize::try_from(count).unwrap_or(0));
    }

    /// Writes some of the output: no more than a pipe takes at once, so as not
    /// to block.
    fn write(&mut self, incoming: &Incoming<'_>) -> Result<(), Failure> {
        let bytes = if self.is_decoded {
            self.decoded.get(self.pending.clone()).unwrap_or_default()
        } else {
            incoming.payload(self.pending.clone())
        };
        match os::write(self.to, bytes.get(..PIECE).unwrap_or(bytes)) {
            Ok(count) => self.pending.start = self.pending.start.wrapping_add(count),
            Err(Errno::EAGAIN) => {}
            // The terminal is gone. The tool is not held by that.
            Err(_) if self.is_decoded => self.pending = 0..0,
            // The reader went away, and whatever else may be wrong with it.
            Err(errno) => return Err(Failure::Output(errno)),
        }
        Ok(())
    }
}
