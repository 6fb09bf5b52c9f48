//! One connection: frames in, with the descriptors that came with them; frames
//! out. tokio-util's length-delimited codec knows where a frame ends.
//!
//! Reading and writing are two halves over one socket, so that a peer that does
//! not read cannot keep the server from hearing it.
//!
//! - `writer`  the half that writes, and what waits for it

mod writer;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::codec::{Decoder, LengthDelimitedCodec, LengthDelimitedCodecError};
use tool_protocol::{Code, Refusal, limits};

pub(crate) use self::writer::{Line, Queue, Writer};
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

/// The runtime's eye on a socket; there is one for both halves.
type Watch = Arc<AsyncFd<Arc<Socket>>>;

/// The half that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    socket: Arc<Socket>,
    /// None while it is lent: whatever came would wake the runtime, which does not want it.
    watch: Option<Watch>,
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

/// And of a message that is not known to be long.
const FEW: usize = 2 * 1024;

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
) -> io::Result<(Reader, Writer)> {
    let socket = Arc::new(socket.into_std()?);
    let mut writer = Writer::new(Arc::clone(&socket));
    // Without, it ends when it is to read, and its calls with it.
    let watch = writer.watch().ok();
    let reader = Reader {
        socket,
        watch,
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
    Ok((reader, writer))
}

/// What finds and makes frames.
fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .length_field_length(limits::PREFIX)
        .max_frame_length(limits::MAX_FRAME)
        .new_codec()
}

impl Reader {
    /// The next payload. Giving up the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Read> {
        loop {
            if let Some(read) = self.parse()? {
                return Ok(read);
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

    /// The next payload, where all of it is there; asks the socket once, and not the runtime.
    pub(crate) fn now(&mut self) -> io::Result<Option<Read>> {
        if let Some(read) = self.parse()? {
            return Ok(Some(read));
        }
        match self.take_in() {
            Ok(0) => Ok(Some(Read::End)),
            Ok(_) => {
                self.hurry();
                self.parse()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in the buffer, where that is a whole message.
    fn parse(&mut self) -> io::Result<Option<Read>> {
        let payload = match self.codec.decode(&mut self.buffer) {
            Ok(None) => return Ok(None),
            Ok(Some(payload)) => payload,
            Err(error) => return too_long(error).map(Some),
        };
        if payload.is_empty() {
            return Ok(Some(Read::Bad(bad(Code::BadFrame, "a frame is empty"))));
        }
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
        Ok(Some(Read::Payload(payload.freeze())))
    }

    /// Whether nothing has come but what was given.
    pub(crate) fn is_between(&self) -> bool {
        self.buffer.is_empty() && self.parked.is_empty() && self.lost.is_none()
    }

    /// What is readable when something comes.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// This half, to be used elsewhere until it is given back; what is left here reads nothing.
    pub(crate) fn lend(&mut self, writer: &mut Writer) -> Reader {
        (self.watch, writer.watch) = (None, None);
        let left = Reader {
            socket: Arc::clone(&self.socket),
            watch: None,
            codec: codec(),
            buffer: BytesMut::new(),
            parked: Vec::new(),
            descriptors: Vec::new(),
            lost: None,
            spare: self.spare.clone(),
            received: 0,
            parsed: 0,
            patience: self.patience,
            deadline: None,
        };
        std::mem::replace(self, left)
    }

    /// Given back, it reads on here.
    pub(crate) fn give_back(&mut self, lent: Reader, writer: &mut Writer) -> io::Result<()> {
        *self = lent;
        self.watch = Some(writer.watch()?);
        Ok(())
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
        let watch = self.watch.clone().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            let mut ready = watch.readable().await?;
            match self.take_in() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                received => return received,
            }
        }
    }

    /// So many bytes are in the buffer, and that came with them.
    fn came(&mut self, bytes: usize, descriptors: Vec<Foreign>, lost: Option<Code>) {
        self.received += bytes as u64;
        let at = self.received;
        self.parked.extend(descriptors.into_iter().map(|one| (at, one)));
        if lost.is_some() {
            self.parked.clear();
            self.lost = lost;
        }
    }

    /// What the socket has, into the buffer; `WouldBlock` where that is nothing.
    fn take_in(&mut self) -> io::Result<usize> {
        let start = self.buffer.len();
        if start == 0 && self.buffer.capacity() < SPARE {
            // Most messages are short, and need no more memory than they have bytes.
            let mut few = [0; FEW];
            let parked = self.parked.len();
            let (bytes, descriptors, lost) =
                Come::receive(self.socket.as_fd(), &mut few, &self.spare, parked)?;
            self.buffer.extend_from_slice(few.get(..bytes).unwrap_or_default());
            self.came(bytes, descriptors, lost);
            return Ok(bytes);
        }
        // Within what the codec has reserved for the frame: to grow beyond it
        // would double a large buffer for nothing.
        let spare = self.buffer.capacity() - start;
        let room = if spare >= SPARE { spare.min(READ) } else { READ };
        self.buffer.resize(start + room, 0);
        let room = self.buffer.get_mut(start..).unwrap_or_default();
        match Come::receive(self.socket.as_fd(), room, &self.spare, self.parked.len()) {
            Ok((bytes, descriptors, lost)) => {
                self.buffer.truncate(start + bytes);
                self.came(bytes, descriptors, lost);
                Ok(bytes)
            }
            Err(error) => {
                self.buffer.truncate(start);
                Err(error)
            }
        }
    }
}

/// Closes a connection that was split.
pub(crate) fn close(reader: Reader, writer: Writer) {
    drop(writer);
    let Reader { socket, watch, .. } = reader;
    drop(watch);
    // Nobody else has it: what watched it is gone.
    if let Ok(socket) = Arc::try_unwrap(socket) {
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
