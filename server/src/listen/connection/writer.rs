//! The half of a connection that writes, and what waits for it.
//!
//! Owns: the order of messages, whoever gives them: the session, and a thread that has the
//! answer to a call (`Line`). Each message is queued whole, under one lock, and what the
//! socket does not take at once stays at the front: two messages never mingle, and what is
//! begun is ended before anything else. A thread that has an answer while another one writes
//! leaves it to that one: the socket is not waited for under the lock. Must not: know what a
//! message says.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::Interest;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::codec::{Encoder, LengthDelimitedCodec};
use tool_protocol::{frame, limits};

use super::{READ, Watch, codec};
use crate::os::{descriptors, readiness};

/// Bytes of a text in one message.
const PIECE: usize = 32 * 1024;
/// A payload from this size on is written from where it lies.
const LONG: usize = 4 * 1024;
/// How many pieces are written at once.
const SLICES: usize = 64;
/// How many short answers go out together at most, how much of them waits, and up to when one
/// waits for more than the next.
const TOGETHER: usize = 6;
const TOGETHER_BYTES: usize = 16 * 1024;
const TOGETHER_WITHIN: Duration = Duration::from_micros(500);

/// The half that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    line: Arc<Line>,
    /// None where nothing has to be waited for.
    pub(super) watch: Option<Watch>,
}

/// Where threads put answers, as long as the connection is there.
#[derive(Debug)]
pub(crate) struct Line {
    socket: Arc<UnixStream>,
    queue: Mutex<Queue>,
}

/// What is to be written.
#[derive(Debug)]
pub(crate) struct Queue {
    codec: LengthDelimitedCodec,
    out: Out,
    /// A thread writes what came before, and will write all that comes until it has.
    writing: bool,
    /// All that there is waits for what comes next, and was not offered to the socket.
    held: Option<Held>,
    /// What of it takes room that all connections share.
    room: Option<OwnedSemaphorePermit>,
}

/// Answers that wait for the next.
#[derive(Debug)]
struct Held {
    answers: usize,
    since: Instant,
}

/// Bytes for the socket.
#[derive(Debug, Default)]
struct Out {
    /// What comes before the buffer: long texts where they are, and what is between them.
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    buffer: BytesMut,
    /// What goes with a byte of all that, and how many come before it.
    passing: Option<(usize, Vec<OwnedFd>)>,
}

impl Writer {
    /// Of that socket.
    pub(super) fn new(socket: Arc<UnixStream>) -> Writer {
        let (out, writing, held) = (Out::default(), false, None);
        let queue = Queue { codec: codec(), out, writing, held, room: None };
        Writer { line: Arc::new(Line { socket, queue: Mutex::new(queue) }), watch: None }
    }

    /// The runtime's eye on the socket.
    pub(super) fn watch(&mut self) -> io::Result<Watch> {
        if let Some(watch) = &self.watch {
            return Ok(Arc::clone(watch));
        }
        let (socket, both) =
            (Arc::clone(&self.line.socket), Interest::READABLE | Interest::WRITABLE);
        let watch = Arc::new(readiness::watch(socket, both)?);
        Ok(Arc::clone(self.watch.insert(watch)))
    }

    /// For a thread that will have an answer; it does not keep the connection open.
    pub(crate) fn line(&self) -> Weak<Line> {
        Arc::downgrade(&self.line)
    }

    /// What is to be written.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, Queue> {
        self.line.lock()
    }

    /// Adds a JSON payload to what is to be written.
    pub(crate) fn queue(&mut self, payload: Vec<u8>) -> io::Result<()> {
        self.waiting().queue(payload)
    }

    /// Adds a JSON payload whose first byte takes descriptors along.
    pub(crate) fn queue_with(
        &mut self,
        payload: Vec<u8>,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        let mut waiting = self.waiting();
        waiting.out.passing = Some((waiting.out.pending(), descriptors));
        waiting.queue(payload)
    }

    /// Adds a chunk of output.
    pub(crate) fn queue_chunk(&mut self, kind: frame::Kind, bytes: &[u8]) {
        self.waiting().queue_chunk(kind, bytes);
    }

    /// How much is to be written, and is not by a thread that is at it.
    pub(crate) fn pending(&self) -> usize {
        let waiting = self.waiting();
        if waiting.writing { 0 } else { waiting.out.pending() }
    }

    /// Writes some of it. Giving up the future loses nothing.
    pub(crate) async fn write_some(&mut self) -> io::Result<()> {
        // Most of the time the socket takes it at once: ask first, wait then.
        let written = self.waiting().write(&self.line.socket);
        if !written.as_ref().is_err_and(is_full) {
            return written;
        }
        let watch = self.watch()?;
        loop {
            let mut ready = watch.writable().await?;
            let written = self.waiting().write(&self.line.socket);
            if !written.as_ref().is_err_and(is_full) {
                return written;
            }
            ready.clear_ready();
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl Line {
    /// Adds the answer to a call, from the thread that has it, and writes what the socket
    /// takes at once, unless something waits already. What is left is the session's, which
    /// hears of the call's end too, and meets what is wrong with the socket.
    ///
    /// Where another answer `follows` soon, this one goes out with that, a few at once, or by
    /// [`Line::flush`]: to wake who waits for it takes as long as to read a small file.
    pub(crate) fn answer(
        &self,
        follows: bool,
        put: impl FnOnce(&mut Queue) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut queue = self.lock();
        let first = queue.is_written() && !queue.writing;
        put(&mut queue)?;
        if first && follows && queue.out.pending() < TOGETHER_BYTES && queue.may_hold() {
            queue.held.get_or_insert_with(Held::none).answers += 1;
        } else if first {
            self.write(queue);
        }
        Ok(())
    }

    /// Writes what waits for another answer; whether there was any.
    pub(crate) fn flush(&self) -> bool {
        let queue = self.lock();
        let held = queue.held.is_some();
        if held {
            self.write(queue);
        }
        held
    }

    /// Writes all that there is, and that comes meanwhile, as long as the socket takes it.
    fn write<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) {
        (queue.writing, queue.held) = (true, None);
        while queue.writing {
            let mut out = std::mem::take(&mut queue.out);
            drop(queue);
            let written = out.write(&self.socket);
            queue = self.lock();
            queue.writing = written.is_ok() && out.pending() == 0 && queue.out.pending() > 0;
            queue.take_back(out);
        }
    }

    /// Whether nothing is left to be written but what a thread is at, or that waits for more.
    pub(crate) fn is_written(&self) -> bool {
        self.lock().is_written()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn none() -> Held {
        Held { answers: 0, since: Instant::now() }
    }
}

impl Queue {
    /// Adds a JSON payload.
    pub(crate) fn queue(&mut self, payload: Vec<u8>) -> io::Result<()> {
        if payload.len() < LONG {
            return self.codec.encode(Bytes::from(payload), &mut self.out.buffer);
        }
        let prefix = frame::prefix(payload.len()).ok_or(io::ErrorKind::InvalidInput)?;
        self.out.buffer.extend_from_slice(&prefix);
        self.out.put_ahead(Bytes::from(payload));
        Ok(())
    }

    /// Adds a chunk of output.
    pub(crate) fn queue_chunk(&mut self, kind: frame::Kind, bytes: &[u8]) {
        // One byte more than the chunk; a chunk is less than a frame.
        if let Some(prefix) = frame::prefix(bytes.len() + 1) {
            let buffer = &mut self.out.buffer;
            buffer.reserve(bytes.len() + limits::PREFIX + 1);
            buffer.extend_from_slice(&prefix);
            buffer.extend_from_slice(&[kind.byte()]);
            buffer.extend_from_slice(bytes);
        }
    }

    /// Adds chunks of a text, which is not copied: memory that is new costs as much as what is
    /// read and written of it.
    pub(crate) fn queue_text(&mut self, kind: frame::Kind, mut text: Bytes) {
        while !text.is_empty() {
            let piece = text.split_to(text.len().min(PIECE));
            let Some(prefix) = frame::prefix(piece.len() + 1) else { return };
            self.out.buffer.extend_from_slice(&prefix);
            self.out.buffer.extend_from_slice(&[kind.byte()]);
            self.out.put_ahead(piece);
        }
    }

    /// Keeps that room as long as so much waits here.
    pub(crate) fn hold(&mut self, room: OwnedSemaphorePermit) {
        match &mut self.room {
            Some(held) => held.merge(room),
            held => *held = Some(room),
        }
    }

    /// Whether a thread writes it just now.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writing
    }

    /// Whether one more answer may wait.
    fn may_hold(&self) -> bool {
        let may =
            |held: &Held| held.answers + 1 < TOGETHER && held.since.elapsed() < TOGETHER_WITHIN;
        self.held.as_ref().is_none_or(may)
    }

    fn is_written(&self) -> bool {
        self.writing || self.held.is_some() || self.out.pending() == 0
    }

    /// Writes some of it, if the socket takes any.
    fn write(&mut self, socket: &UnixStream) -> io::Result<()> {
        if self.writing {
            return Ok(());
        }
        self.held = None;
        let mut out = std::mem::take(&mut self.out);
        let written = out.write(socket);
        self.take_back(out);
        written
    }

    /// What is left of what was taken to be written: before what has come since.
    fn take_back(&mut self, mut out: Out) {
        let since = std::mem::take(&mut self.out);
        self.out = if out.pending() == 0 && since.pending() > 0 {
            since
        } else {
            out.put(since);
            out
        };
        let pending = self.out.pending();
        if let Some(held) = &mut self.room {
            drop(held.split(held.num_permits().saturating_sub(pending)));
        }
    }
}

impl Out {
    /// How much there is.
    fn pending(&self) -> usize {
        self.ahead_bytes + self.buffer.len()
    }

    /// Adds bytes where they are, behind what the buffer has.
    fn put_ahead(&mut self, piece: Bytes) {
        let before = self.buffer.split().freeze();
        self.ahead_bytes += before.len() + piece.len();
        self.ahead.extend([before, piece]);
    }

    /// Adds all of that.
    fn put(&mut self, other: Out) {
        let before = self.pending();
        if let Some((at, passing)) = other.passing {
            self.passing = Some((before + at, passing));
        }
        for piece in other.ahead {
            self.put_ahead(piece);
        }
        self.buffer.extend_from_slice(&other.buffer);
    }

    /// Writes some of it, if the socket takes any.
    fn write(&mut self, socket: &UnixStream) -> io::Result<()> {
        if self.pending() == 0 {
            return Ok(());
        }
        let written = self.try_write(socket)?;
        self.advance(written);
        match &mut self.passing {
            Some((0, _)) => self.passing = None,
            Some((before, _)) => *before = before.saturating_sub(written),
            None => {}
        }
        if self.buffer.is_empty() && self.buffer.capacity() > READ {
            self.buffer = BytesMut::new();
        }
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.ahead.front_mut() {
            let part = written.min(first.len());
            first.advance(part);
            (written, self.ahead_bytes) = (written - part, self.ahead_bytes - part);
            if !first.is_empty() {
                return;
            }
            self.ahead.pop_front();
        }
        self.buffer.advance(written.min(self.buffer.len()));
    }

    fn try_write(&self, mut socket: &UnixStream) -> io::Result<usize> {
        let first = self.ahead.front().map_or(&*self.buffer, |first| first);
        match &self.passing {
            None if self.ahead.is_empty() => socket.write(&self.buffer),
            None => {
                let all = self.ahead.iter().map(|ahead| &**ahead).chain([&*self.buffer]);
                let slices: Vec<IoSlice<'_>> = all.take(SLICES).map(IoSlice::new).collect();
                socket.write_vectored(&slices)
            }
            Some((0, passing)) => descriptors::send_with(socket.as_fd(), first, passing),
            // What comes before goes without it.
            Some((before, _)) => socket.write(first.get(..*before).unwrap_or(first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A line, and what its peer has received when it is asked.
    fn line() -> (Arc<Line>, impl FnMut() -> Vec<u8>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let received = move || {
            let mut bytes = vec![0; 1 << 20];
            let length = theirs.read(&mut bytes).unwrap_or(0);
            bytes.truncate(length);
            bytes
        };
        (Writer::new(Arc::new(ours)).line, received)
    }

    fn answer(line: &Line, follows: bool, text: &str) {
        line.answer(follows, |queue| queue.queue(text.as_bytes().to_vec())).unwrap();
    }

    #[test]
    fn an_answer_goes_out_with_the_next_or_when_none_follows() {
        let (line, mut received) = line();
        answer(&line, true, "a");
        assert_eq!(received(), b"");
        assert!(line.is_written(), "it is not left to anybody");
        answer(&line, false, "b");
        assert_eq!(received(), b"\0\0\0\x01a\0\0\0\x01b");
        answer(&line, true, "c");
        line.flush();
        assert_eq!(received(), b"\0\0\0\x01c");
        line.flush();
        answer(&line, false, "d");
        assert_eq!(received(), b"\0\0\0\x01d");
        let together = |from: &mut dyn FnMut() -> Vec<u8>| {
            let sent = (1..=100).take_while(|_| {
                answer(&line, true, "e");
                from().is_empty()
            });
            sent.count() + 1
        };
        // As many as there may be, where none of them is kept waiting meanwhile.
        let most = (0..100).map(|_| together(&mut received)).max();
        assert_eq!(most, Some(TOGETHER));
        answer(&line, true, "f");
        let since = Instant::now();
        while since.elapsed() < TOGETHER_WITHIN {
            std::thread::yield_now();
        }
        answer(&line, true, "g");
        assert_eq!(received(), b"\0\0\0\x01f\0\0\0\x01g", "nor for long");
        answer(&line, true, "f");
        let long = "x".repeat(TOGETHER_BYTES);
        answer(&line, true, &long);
        assert_eq!(received().len(), 5 + limits::PREFIX + long.len(), "nor much of them");
    }

    #[test]
    fn what_the_socket_does_not_take_is_left_and_nothing_is_put_before_it() {
        let (line, mut received) = line();
        let mut sent = 0;
        while line.is_written() {
            answer(&line, sent % 3 == 0, &"x".repeat(3000));
            sent += 1;
        }
        // Not written by whoever answers: the session writes it.
        answer(&line, true, "y");
        line.flush();
        assert!(!line.is_written());
        let mut all = Vec::new();
        while !line.is_written() || all.len() < sent * 3004 + 5 {
            all.extend(received());
            line.lock().write(&line.socket).ok();
        }
        assert!(all.ends_with(b"\0\0\0\x01y"));
        assert_eq!(all.len(), sent * 3004 + 5);
    }
}
