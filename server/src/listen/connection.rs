//! One connection: frames in, with the descriptors that came with them; frames
//! out. tokio-util's length-delimited codec knows where a frame ends.
//!
//! Reading and writing are two halves over one socket, so that a peer that does
//! not read cannot keep the server from hearing it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::codec::{Decoder, Encoder, LengthDelimitedCodec, LengthDelimitedCodecError};
use tool_protocol::{Code, Refusal, frame, limits};

use crate::os::descriptors::{self, Received};
use crate::os::foreign::{Foreign, Spare, close_beside, close_connection};
use crate::os::readiness;

/// What reading brought.
#[derive(Debug)]
pub(crate) enum Read {
    /// A whole payload.
    Payload(Bytes),
    /// The peer sends no more. It may still read.
    End,
    /// The frame is not one: say so and close.
    Bad(Refusal),
}

/// The half that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    socket: Arc<UnixStream>,
    codec: LengthDelimitedCodec,
    buffer: BytesMut,
    /// What came with bytes that are not a whole message yet, each with how far
    /// the stream had come: it belongs to the last message begun there.
    parked: Vec<(u64, Foreign)>,
    /// What came with the last message.
    descriptors: Vec<Foreign>,
    /// Why descriptors that came are gone.
    lost: Option<Code>,
    spare: Spare,
    /// Bytes of the stream that were received, and that were whole messages.
    received: u64,
    parsed: u64,
    patience: Patience,
    /// When the message that is awaited must be whole; none is awaited for ever.
    deadline: Option<Instant>,
}

/// How long a peer may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From the connection to its first whole message.
    pub(crate) first: Duration,
    /// From a frame's first byte to its last.
    pub(crate) frame: Duration,
}

/// The half that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    socket: Arc<UnixStream>,
    codec: LengthDelimitedCodec,
    /// What comes before the buffer: long texts where they are, and what is between them.
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    buffer: BytesMut,
    /// What goes with a byte of all that, and how many come before it.
    passing: Option<(usize, Vec<OwnedFd>)>,
}

/// What was received of a connection before somebody reads it.
#[derive(Debug, Default)]
pub(crate) struct Come {
    /// Not parsed.
    pub(crate) bytes: BytesMut,
    /// They came with those bytes.
    pub(crate) descriptors: Vec<Foreign>,
    /// Why others are gone.
    pub(crate) lost: Option<Code>,
}

impl Come {
    /// Receives what is there, into `room`; the bytes stay there.
    pub(crate) fn receive(
        socket: BorrowedFd<'_>,
        room: &mut [u8],
        spare: &Spare,
        parked: usize,
    ) -> io::Result<(usize, Vec<Foreign>, Option<Code>)> {
        let own = PENDING_EACH.saturating_sub(parked);
        let Received { bytes, mut descriptors, truncated } = descriptors::receive(socket, room)?;
        let mut short = truncated;
        for one in descriptors.iter_mut().skip(own) {
            match spare.take() {
                Some(place) => one.set_place(place),
                None => short = true,
            }
        }
        let flood = parked + descriptors.len() > limits::MAX_FDS;
        let lost = if flood { Some(Code::BadFds) } else { short.then_some(Code::Busy) };
        if lost.is_some() {
            close_beside(std::mem::take(&mut descriptors));
        }
        Ok((bytes, descriptors, lost))
    }
}

/// How much is read at once.
const READ: usize = 16 * 1024;
/// Bytes of a text in one message.
const PIECE: usize = 32 * 1024;
/// How many pieces are written at once.
const SLICES: usize = 64;

/// Room in the buffer that is worth a read.
const SPARE: usize = 256;

/// Descriptors that each connection may have on their way; those beyond share
/// what is spare.
const PENDING_EACH: usize = 3;

/// Splits a connection in its halves.
pub(crate) fn split(
    socket: UnixStream,
    patience: Patience,
    spare: Spare,
    come: Come,
) -> (Reader, Writer) {
    let socket = Arc::new(socket);
    let codec = || {
        LengthDelimitedCodec::builder()
            .length_field_length(limits::PREFIX)
            .max_frame_length(limits::MAX_FRAME)
            .new_codec()
    };
    let reader = Reader {
        socket: Arc::clone(&socket),
        codec: codec(),
        received: come.bytes.len() as u64,
        parked: come.descriptors.into_iter().map(|one| (come.bytes.len() as u64, one)).collect(),
        buffer: come.bytes,
        descriptors: Vec::new(),
        lost: come.lost,
        spare,
        parsed: 0,
        patience,
        deadline: Some(Instant::now() + patience.first),
    };
    let writer = Writer {
        socket,
        codec: codec(),
        ahead: VecDeque::new(),
        ahead_bytes: 0,
        buffer: BytesMut::new(),
        passing: None,
    };
    (reader, writer)
}

impl Reader {
    /// The next payload. Giving up the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Read> {
        loop {
            match self.codec.decode(&mut self.buffer) {
                Ok(Some(payload)) if payload.is_empty() => {
                    return Ok(Read::Bad(bad(Code::BadFrame, "a frame is empty")));
                }
                Ok(Some(payload)) => {
                    self.deadline = None;
                    self.parsed += (limits::PREFIX + payload.len()) as u64;
                    self.descriptors.clear();
                    let parsed = self.parsed;
                    let with_it = self.parked.extract_if(.., |(at, _)| *at <= parsed);
                    self.descriptors.extend(with_it.map(|(_, descriptor)| descriptor));
                    // A buffer of its own for what comes next: an idle connection
                    // holds no memory, and one that goes on growing behind the
                    // payloads that were split off would double again and again.
                    let rest = std::mem::take(&mut self.buffer);
                    if !rest.is_empty() {
                        self.buffer = BytesMut::from(rest.as_ref());
                        self.hurry();
                    }
                    return Ok(Read::Payload(payload.freeze()));
                }
                Ok(None) => {}
                Err(error) => return too_long(error),
            }
            let received = match self.deadline {
                None => self.receive().await?,
                Some(deadline) => match timeout_at(deadline, self.receive()).await {
                    Ok(received) => received?,
                    Err(_) => {
                        let message = "the message did not come in time: send it whole, at once";
                        return Ok(Read::Bad(bad(Code::TooSlow, message)));
                    }
                },
            };
            if received == 0 {
                // A frame that was cut short is the end as well: there is no
                // more of it to come, and nothing has been done with it.
                return Ok(Read::End);
            }
            self.hurry();
        }
    }

    /// A message is awaited from now on: it must come in time.
    pub(crate) fn hurry(&mut self) {
        if self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.patience.frame);
        }
    }

    /// No message is awaited: its peer has said what it had to say.
    pub(crate) fn rest(&mut self) {
        self.deadline = None;
    }

    /// The descriptors that came with the last message.
    pub(crate) fn take_descriptors(&mut self) -> Result<Vec<Foreign>, Refusal> {
        let Some(code) = self.lost.take() else {
            return Ok(std::mem::take(&mut self.descriptors));
        };
        self.descriptors.clear();
        Err(match code {
            Code::Busy => bad(code, "the server is short of descriptors: try again later"),
            _ => bad(code, format!("more than {} descriptors came", limits::MAX_FDS)),
        })
    }

    /// Whether descriptors came with the last message and nobody has taken them.
    pub(crate) fn has_descriptors(&self) -> bool {
        self.lost.is_some() || !self.descriptors.is_empty()
    }

    /// Whether the peer has closed both directions.
    pub(crate) fn is_hung_up(&self) -> bool {
        descriptors::is_hung_up(self.socket.as_fd())
    }

    /// Something that ends when the peer has closed both directions.
    pub(crate) fn hang_up(&self) -> io::Result<HangUp> {
        let copy = self.socket.as_fd().try_clone_to_owned()?;
        // Only a hang-up is reported for this interest: neither readable data
        // nor a half-closed peer wakes it.
        Ok(HangUp(readiness::watch(copy, Interest::PRIORITY)?))
    }

    async fn receive(&mut self) -> io::Result<usize> {
        loop {
            self.socket.readable().await?;
            let start = self.buffer.len();
            // Within what the codec has reserved for the frame: to grow beyond it
            // would double a large buffer for nothing.
            let spare = self.buffer.capacity() - start;
            let room = if spare >= SPARE { spare.min(READ) } else { READ };
            self.buffer.resize(start + room, 0);
            let room = self.buffer.get_mut(start..).unwrap_or_default();
            let socket = &self.socket;
            let (spare, parked) = (&self.spare, self.parked.len());
            let result = socket
                .try_io(Interest::READABLE, || Come::receive(socket.as_fd(), room, spare, parked));
            match result {
                Ok((bytes, descriptors, lost)) => {
                    self.buffer.truncate(start + bytes);
                    self.received += bytes as u64;
                    let at = self.received;
                    self.parked.extend(descriptors.into_iter().map(|one| (at, one)));
                    if lost.is_some() {
                        self.parked.clear();
                        self.lost = lost;
                    }
                    return Ok(bytes);
                }
                Err(error) => {
                    self.buffer.truncate(start);
                    if error.kind() != io::ErrorKind::WouldBlock {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// Closes a connection that was split.
pub(crate) fn close(reader: Reader, writer: Writer) {
    drop(writer);
    // Nobody else has it: what watched it is gone.
    if let Ok(socket) = Arc::try_unwrap(reader.socket) {
        close_socket(socket);
    }
}

/// Closes a connection.
pub(crate) fn close_socket(socket: UnixStream) {
    if let Ok(socket) = socket.into_std() {
        close_connection(socket, |_| {});
    }
}

fn too_long(error: io::Error) -> io::Result<Read> {
    let is_length = error.get_ref().is_some_and(|inner| inner.is::<LengthDelimitedCodecError>());
    if !is_length {
        return Err(error);
    }
    let message = format!("a frame is longer than {} bytes", limits::MAX_FRAME);
    Ok(Read::Bad(bad(Code::FrameTooLarge, message)))
}

fn bad(code: Code, message: impl AsRef<str>) -> Refusal {
    Refusal::new(code, message)
}

impl Writer {
    /// Adds a JSON payload to what is to be written.
    pub(crate) fn queue(&mut self, payload: Vec<u8>) -> io::Result<()> {
        self.codec.encode(Bytes::from(payload), &mut self.buffer)
    }

    /// Adds a JSON payload whose first byte takes descriptors along.
    pub(crate) fn queue_with(
        &mut self,
        payload: Vec<u8>,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        self.passing = Some((self.pending(), descriptors));
        self.queue(payload)
    }

    /// Adds a chunk of output.
    pub(crate) fn queue_chunk(&mut self, kind: frame::Kind, bytes: &[u8]) {
        // One byte more than the chunk; a chunk is less than a frame.
        if let Some(prefix) = frame::prefix(bytes.len() + 1) {
            self.buffer.reserve(bytes.len() + limits::PREFIX + 1);
            self.buffer.extend_from_slice(&prefix);
            self.buffer.extend_from_slice(&[kind.byte()]);
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Adds chunks of a text, which is not copied: memory that is new costs as much as what is
    /// read and written of it.
    pub(crate) fn queue_text(&mut self, kind: frame::Kind, mut text: Bytes) {
        while !text.is_empty() {
            let piece = text.split_to(text.len().min(PIECE));
            let Some(prefix) = frame::prefix(piece.len() + 1) else { return };
            self.buffer.extend_from_slice(&prefix);
            self.buffer.extend_from_slice(&[kind.byte()]);
            let before = self.buffer.split().freeze();
            self.ahead_bytes += before.len() + piece.len();
            self.ahead.extend([before, piece]);
        }
    }

    /// How much is to be written.
    pub(crate) fn pending(&self) -> usize {
        self.ahead_bytes + self.buffer.len()
    }

    /// Writes some of it. Giving up the future loses nothing.
    pub(crate) async fn write_some(&mut self) -> io::Result<()> {
        loop {
            // Most of the time the socket takes it at once: ask first, wait then.
            match self.try_write() {
                Ok(written) => {
                    self.advance(written);
                    match &mut self.passing {
                        Some((0, _)) => self.passing = None,
                        Some((before, _)) => *before = before.saturating_sub(written),
                        None => {}
                    }
                    if self.buffer.is_empty() && self.buffer.capacity() > READ {
                        self.buffer = BytesMut::new();
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
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

    fn try_write(&self) -> io::Result<usize> {
        let first = self.ahead.front().map_or(&*self.buffer, |first| first);
        match &self.passing {
            None if self.ahead.is_empty() => self.socket.try_write(&self.buffer),
            None => {
                let all = self.ahead.iter().map(|ahead| &**ahead).chain([&*self.buffer]);
                let slices: Vec<IoSlice<'_>> = all.take(SLICES).map(IoSlice::new).collect();
                self.socket.try_write_vectored(&slices)
            }
            Some((0, passing)) => self.socket.try_io(Interest::WRITABLE, || {
                descriptors::send_with(self.socket.as_fd(), first, passing)
            }),
            // What comes before goes without it.
            Some((before, _)) => self.socket.try_write(first.get(..*before).unwrap_or(first)),
        }
    }
}

/// Ends when the peer has closed both directions.
#[derive(Debug)]
pub(crate) struct HangUp(AsyncFd<OwnedFd>);

impl HangUp {
    /// Waits for it.
    pub(crate) async fn wait(&self) {
        loop {
            match self.0.ready(Interest::PRIORITY).await {
                Ok(mut guard) => {
                    if descriptors::is_hung_up(self.0.get_ref().as_fd()) {
                        return;
                    }
                    guard.clear_ready();
                }
                Err(_) => return,
            }
        }
    }
}
