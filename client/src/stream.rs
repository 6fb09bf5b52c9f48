//! Input and output as chunks on the socket, both ways at once.
//!
//! Nothing here waits for one side only: stdin, the socket and the output are
//! polled together, so a server that is blocked writing to the client never
//! meets a client that is blocked writing to the server. Must not: wait for the
//! end of stdin once the last message has come, or change a caller's
//! descriptor (its flags belong to others too).

use crate::message::{Failure, Line};
use crate::os::{self, Errno, Fd, Poll};
use crate::reply::{Incoming, Open, Reply};
use core::ops::Range;
use tool_wire::frame::{self, Kind};
use tool_wire::limits::PREFIX;

/// The most bytes of stdin that are read at once.
const INPUT_CHUNK: usize = 32_768;

/// What a chunk has before its bytes: the prefix and its kind.
const HEAD: usize = PREFIX + 1;

/// What a pipe that is ready to be written to takes without blocking.
const OUTPUT_PIECE: usize = 4_096;

/// Stdin, on its way to the server.
struct Input<'a> {
    memory: &'a mut [u8],
    /// What of the current chunk is still to be sent.
    pending: Range<usize>,
    /// Nothing more is read.
    ended: bool,
}

impl<'a> Input<'a> {
    fn new(memory: &'a mut [u8], open: bool) -> Input<'a> {
        let mut input = Input { memory, pending: 0..0, ended: false };
        if !open {
            input.chunk(0);
        }
        input
    }

    /// Makes a chunk of the `count` bytes that were read; none are the end.
    fn chunk(&mut self, count: usize) {
        let length = count.saturating_add(1);
        if let (Some(place), Some(prefix)) = (self.memory.first_chunk_mut(), frame::prefix(length))
        {
            *place = prefix;
        }
        if let Some(kind) = self.memory.get_mut(PREFIX) {
            *kind = Kind::Stdin.byte();
        }
        self.pending = 0..count.saturating_add(HEAD);
        self.ended = count == 0;
    }

    fn wants_read(&self) -> bool {
        !self.ended && self.pending.is_empty()
    }

    fn read(&mut self) {
        let place = self.memory.get_mut(HEAD..HEAD + INPUT_CHUNK).unwrap_or_default();
        match os::read(0, place) {
            Ok(count) => self.chunk(count),
            // Another reader of the same descriptor was faster.
            Err(Errno::EAGAIN) => {}
            // A directory, a terminal that is gone: no more input.
            Err(_) => self.chunk(0),
        }
    }

    fn send(&mut self, socket: Fd) {
        let bytes = self.memory.get(self.pending.clone()).unwrap_or_default();
        match os::send(socket, bytes, &[], false) {
            Ok(count) => self.pending.start = self.pending.start.saturating_add(count),
            Err(Errno::EAGAIN) => {}
            // The server takes no more; what it has to say comes by reading.
            Err(_) => {
                self.pending = 0..0;
                self.ended = true;
            }
        }
    }
}

/// A chunk of the tool's output, on its way to the caller's descriptor.
struct Output {
    fd: Fd,
    pending: Range<usize>,
}

impl Output {
    /// Writes some of it. As long as there may be input to forward, no more
    /// than a pipe takes at once, so as not to block.
    fn write(&mut self, incoming: &Incoming<'_>, alone: bool) -> Result<(), Failure> {
        let bytes = incoming.payload(self.pending.clone());
        let piece = if alone { bytes } else { bytes.get(..OUTPUT_PIECE).unwrap_or(bytes) };
        match os::write(self.fd, piece) {
            Ok(count) => self.pending.start = self.pending.start.saturating_add(count),
            Err(Errno::EAGAIN) => {}
            // For a reader that went away SIGPIPE has ended the client already,
            // unless whoever started it had that signal ignored.
            Err(errno) => return Err(Failure::Output(errno)),
        }
        Ok(())
    }
}

/// Passes chunks on until the last message, which is returned.
pub(crate) fn relay<'i>(
    incoming: &'i mut Incoming<'_>,
    socket: Fd,
    open: Open,
    side: &mut [u8],
    line: &mut Line<'_>,
) -> Result<Reply<'i>, Failure> {
    let mut input = Input::new(side, open.has(0));
    let mut output = Output { fd: 1, pending: 0..0 };
    let range = loop {
        if output.pending.is_empty()
            && let Some(range) = incoming.take()?
        {
            let payload = incoming.payload(range.clone());
            let fd = match frame::split(payload) {
                Ok((Kind::Stdout, _)) => 1,
                Ok((Kind::Stderr, _)) => 2,
                Ok((Kind::Json, _)) => {
                    let reply = Reply::read(payload)?;
                    if reply.is_last() {
                        break range;
                    }
                    reply.tell_notice(line);
                    continue;
                }
                _ => return Err(Failure::BadReply),
            };
            if open.has(fd) {
                output = Output { fd, pending: range.start.saturating_add(1)..range.end };
            }
            continue;
        }

        let writing = !output.pending.is_empty();
        let from_server = if writing { 0 } else { Poll::READ };
        let to_server = if input.pending.is_empty() { 0 } else { Poll::WRITE };
        let mut polls = [
            Poll::new(0, if input.wants_read() { Poll::READ } else { 0 }),
            Poll::new(socket, from_server | to_server),
            Poll::new(output.fd, if writing { Poll::WRITE } else { 0 }),
        ];
        os::poll(&mut polls, true).map_err(Failure::Output)?;
        let [stdin, server, reader] = &polls;
        if stdin.is(Poll::READ) {
            input.read();
        }
        if server.is(Poll::WRITE) {
            input.send(socket);
        }
        if server.is(Poll::READ) {
            incoming.fill(socket)?;
        }
        if reader.is(Poll::WRITE) {
            output.write(incoming, input.ended && input.pending.is_empty())?;
        }
    };
    Reply::read(incoming.payload(range))
}
