//! Bytes between a tool's pipes and whoever wants them.
//!
//! A pump ends when it is told that the process has ended, not when its pipe
//! closes: a daemon may hold the pipe for years. What lies in the pipe at that
//! moment was written before, and is still taken.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tool_gate::redact::Live;

use super::hear::Event;
use super::sieve::Sieve;
use crate::os::descriptors::{read_now, readable_now};

/// Where a piece of output comes from, as the caller counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
    /// A terminal that is neither of them.
    Terminal,
    /// Nowhere: the tool was stopped by this signal, after all that came before.
    Stopped(i32),
}

/// A piece of output on its way to the caller; empty is the end of that stream.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Which stream.
    pub(crate) source: Source,
    /// At most [`PIECE`] bytes.
    pub(crate) bytes: Bytes,
}

/// How much one read takes: what a caller that does not read makes the server
/// hold is a few of these.
pub(crate) const PIECE: usize = 16 * 1024;

/// The most that is still read of a terminal whose tool has ended: a daemon may
/// go on writing to it.
const LAST_OF_A_TERMINAL: usize = 1 << 20;

/// Collects output up to a limit that all streams of a call share.
#[derive(Debug)]
pub(crate) struct Capture {
    seen: AtomicUsize,
    limit: usize,
    overflow: std::sync::Mutex<Option<oneshot::Sender<usize>>>,
}

impl Capture {
    /// A capture of at most `limit` bytes, and what tells that there were more.
    pub(crate) fn new(limit: usize) -> (Capture, oneshot::Receiver<usize>) {
        let (sender, receiver) = oneshot::channel();
        let overflow = std::sync::Mutex::new(Some(sender));
        (Capture { seen: AtomicUsize::new(0), limit, overflow }, receiver)
    }

    /// How much there was, where that was too much.
    pub(crate) fn overflowed(&self) -> Option<usize> {
        let seen = self.seen.load(Ordering::Relaxed);
        (seen > self.limit).then_some(seen)
    }

    fn count(&self, bytes: usize) -> bool {
        let seen = self.seen.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if seen <= self.limit {
            return true;
        }
        if let Ok(mut overflow) = self.overflow.lock()
            && let Some(sender) = overflow.take()
        {
            sender.send(seen).ok();
        }
        false
    }

    /// Reads one stream until `finish` or its end. Beyond the limit bytes are
    /// counted and dropped: memory stays bounded while the tool is stopped.
    pub(crate) async fn collect(
        &self,
        pipe: OwnedFd,
        finish: &CancellationToken,
        redact: Option<&Arc<Live>>,
    ) -> Vec<u8> {
        let (mut kept, mut sieve) = (Vec::new(), Sieve::new(redact));
        let Some(mut pieces) = Pieces::new(pipe, finish) else { return kept };
        while let Some(piece) = pieces.next().await {
            if self.count(piece.len()) {
                kept.extend_from_slice(&sieve.push(piece));
            }
        }
        kept.extend_from_slice(&sieve.finish());
        kept
    }
}

/// Bytes of a call that passed here; `None` where they did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// To the tool.
    pub(crate) stdin: Option<u64>,
    /// From it.
    pub(crate) stdout: Option<u64>,
    /// From it.
    pub(crate) stderr: Option<u64>,
}

impl Seen {
    /// Of a call that had no input, and all of whose output is here.
    pub(crate) fn captured(stdout: &[u8], stderr: &[u8]) -> Seen {
        let count = |bytes: &[u8]| u64::try_from(bytes.len()).ok();
        Seen { stdin: Some(0), stdout: count(stdout), stderr: count(stderr) }
    }
}

/// Where chunks go, and how much went there.
#[derive(Debug)]
pub(crate) struct Spout {
    to: mpsc::Sender<Chunk>,
    /// What is taken out of each stream.
    redact: Option<Arc<Live>>,
    stdout: AtomicU64,
    stderr: AtomicU64,
}

impl Spout {
    pub(crate) fn new(to: mpsc::Sender<Chunk>, redact: Option<Arc<Live>>) -> Spout {
        Spout { to, redact, stdout: AtomicU64::new(0), stderr: AtomicU64::new(0) }
    }

    /// What went out, beside so much that came in.
    pub(crate) fn seen(&self, stdin: u64) -> Seen {
        let count = |bytes: &AtomicU64| Some(bytes.load(Ordering::Relaxed));
        Seen { stdin: Some(stdin), stdout: count(&self.stdout), stderr: count(&self.stderr) }
    }

    async fn send(&self, chunk: Chunk) {
        let bytes = u64::try_from(chunk.bytes.len()).unwrap_or(0);
        match chunk.source {
            Source::Stdout => self.stdout.fetch_add(bytes, Ordering::Relaxed),
            Source::Stderr => self.stderr.fetch_add(bytes, Ordering::Relaxed),
            Source::Terminal | Source::Stopped(_) => 0,
        };
        // Whose caller is gone is ended by whoever hears of that.
        self.to.send(chunk).await.ok();
    }
}

/// Sends one stream to the caller, piece by piece, and its end; nothing where
/// there is none.
pub(crate) async fn stream(
    pipe: Option<OwnedFd>,
    source: Source,
    to: &Spout,
    finish: &CancellationToken,
    stall: Duration,
) {
    show(pipe, source, to, finish, stall, None).await;
}

/// The same of a terminal whose tool may be stopped: that is told behind what the
/// terminal showed before.
pub(crate) async fn show(
    pipe: Option<OwnedFd>,
    source: Source,
    to: &Spout,
    finish: &CancellationToken,
    stall: Duration,
    mut stops: Option<mpsc::Receiver<i32>>,
) {
    let Some(pipe) = pipe else { return };
    let mut pieces = Pieces::new(pipe, finish);
    let mut sieve = Sieve::new(to.redact.as_ref());
    while let Some(reading) = &mut pieces {
        let mut stopped = None;
        let bytes = tokio::select! {
            biased;
            signal = stop(&mut stops) => {
                stopped = Some(signal);
                Bytes::new()
            }
            piece = reading.next() => match piece {
                Some(piece) => sieve.push(piece),
                None => break,
            },
            () = Sieve::quiet(), if sieve.waits() => sieve.rest(),
        };
        // A caller that is gone takes nothing any more: the pipe is read on, so that
        // the tool is not held before it is ended.
        if !piece(to, source, bytes, finish, stall).await {
            return;
        }
        let Some(signal) = stopped else { continue };
        while let Some(bytes) = reading.now(PIECE) {
            if !piece(to, source, sieve.push(bytes), finish, stall).await {
                return;
            }
        }
        let chunk = Chunk { source: Source::Stopped(signal), bytes: Bytes::new() };
        if !give(to, chunk, finish, stall).await {
            return;
        }
    }
    if piece(to, source, sieve.finish(), finish, stall).await {
        end(source, to, finish, stall).await;
    }
}

/// Hands a piece on, if there is anything in it: nothing at all would be the end.
async fn piece(
    to: &Spout,
    source: Source,
    bytes: Bytes,
    finish: &CancellationToken,
    stall: Duration,
) -> bool {
    bytes.is_empty() || give(to, Chunk { source, bytes }, finish, stall).await
}

/// Never ready where nothing is told of stops.
async fn stop(stops: &mut Option<mpsc::Receiver<i32>>) -> i32 {
    if let Some(stops) = stops
        && let Some(signal) = stops.recv().await
    {
        return signal;
    }
    std::future::pending().await
}

/// Says that a stream is over. A terminal's own never is.
pub(crate) async fn end(source: Source, to: &Spout, finish: &CancellationToken, stall: Duration) {
    if source != Source::Terminal {
        give(to, Chunk { source, bytes: Bytes::new() }, finish, stall).await;
    }
}

/// Hands a chunk on. While the tool runs a caller may take its time (it may be a
/// pager); once the tool has ended, only so much of it. Says whether to go on.
async fn give(to: &Spout, chunk: Chunk, finish: &CancellationToken, stall: Duration) -> bool {
    let late = async {
        finish.cancelled().await;
        tokio::time::sleep(stall).await;
    };
    tokio::select! {
        biased;
        () = to.send(chunk) => true,
        () = late => false,
    }
}

/// Reads a pipe piece by piece.
struct Pieces<'a> {
    pipe: pipe::Receiver,
    buffer: BytesMut,
    finish: &'a CancellationToken,
    /// What is still to be read, once the process has ended.
    left: Option<usize>,
}

impl<'a> Pieces<'a> {
    fn new(pipe: OwnedFd, finish: &'a CancellationToken) -> Option<Pieces<'a>> {
        // A pipe or a terminal's master: both are made so that they do not block.
        let pipe = pipe::Receiver::from_owned_fd_unchecked(pipe).ok()?;
        Some(Pieces { pipe, buffer: BytesMut::new(), finish, left: None })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.finish.is_cancelled() {
                return self.take_what_is_there();
            }
            self.buffer.reserve(PIECE);
            let mut limited = (&mut self.pipe).take(PIECE as u64);
            let read = tokio::select! {
                biased;
                read = limited.read_buf(&mut self.buffer) => read,
                () = self.finish.cancelled() => continue,
            };
            return match read {
                Ok(0) | Err(_) => None,
                Ok(_) => Some(self.buffer.split().freeze()),
            };
        }
    }

    /// What lies in the pipe and was there when the process had ended. Asks the
    /// kernel itself, not the runtime, which may not have heard of it yet; and
    /// never waits: somebody else may have read it meanwhile.
    fn take_what_is_there(&mut self) -> Option<Bytes> {
        let left = *self.left.get_or_insert_with(|| {
            // What a terminal holds is told by reading it alone.
            let terminal = nix::unistd::isatty(&self.pipe).unwrap_or(false);
            if terminal { LAST_OF_A_TERMINAL } else { readable_now(self.pipe.as_fd()) }
        });
        let piece = self.now(left.min(PIECE))?;
        self.left = Some(left.saturating_sub(piece.len()));
        Some(piece)
    }

    /// What is there at this moment, at most so much.
    fn now(&self, most: usize) -> Option<Bytes> {
        let mut piece = vec![0; most];
        if piece.is_empty() {
            return None;
        }
        let bytes = read_now(self.pipe.as_fd(), &mut piece)?;
        piece.truncate(bytes);
        Some(Bytes::from(piece))
    }
}

/// Writes the caller's input to the tool until an empty chunk, or until either
/// end is gone; then the rest of the input is thrown away. Tells how much was
/// taken, the rest included. Says whether it was a terminal, and the caller's own
/// is gone: an empty chunk.
pub(crate) async fn feed(
    into: Option<OwnedFd>,
    mut input: mpsc::Receiver<Bytes>,
    credit: Option<&mpsc::Sender<Event>>,
    seen: &AtomicU64,
    finish: &CancellationToken,
) -> bool {
    let terminal = into.as_ref().is_some_and(|into| nix::unistd::isatty(into).unwrap_or(false));
    // As above.
    let mut into = into.and_then(|into| pipe::Sender::from_owned_fd_unchecked(into).ok());
    loop {
        let chunk = tokio::select! {
            biased;
            () = finish.cancelled() => return false,
            chunk = input.recv() => chunk,
        };
        let Some(bytes) = chunk else { return false };
        seen.fetch_add(u64::try_from(bytes.len()).unwrap_or(0), Ordering::Relaxed);
        if let Some(pipe) = &mut into {
            let written = tokio::select! {
                biased;
                () = finish.cancelled() => return false,
                written = pipe.write_all(&bytes) => written,
            };
            if terminal && bytes.is_empty() {
                return true;
            }
            if written.is_err() || bytes.is_empty() {
                into = None;
            }
        }
        if let Some(credit) = credit
            && !bytes.is_empty()
        {
            // A full queue is a caller that reads nothing: it gets no credit.
            tokio::select! {
                biased;
                () = finish.cancelled() => return false,
                _ = credit.send(Event::Credit(bytes.len())) => {}
            }
        }
    }
}
