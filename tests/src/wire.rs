//! A raw connection: frames, and descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde_json::Value;

use crate::PATIENCE;

/// The most bytes that a frame may have.
pub const MAX_FRAME: usize = 65_536;

/// A connection to a server's socket. Reading gives up after [`PATIENCE`].
#[derive(Debug)]
pub struct Wire {
    pub stream: UnixStream,
}

/// What a `stream` call gave: both outputs, and the last message.
#[derive(Debug)]
pub struct Streamed {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whether each stream was ended by an empty chunk before the last message.
    pub ended: (bool, bool),
    pub last: Value,
}

impl Wire {
    #[track_caller]
    pub fn connect(socket: &Path) -> Wire {
        Wire::try_connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()))
    }

    pub fn try_connect(socket: &Path) -> io::Result<Wire> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Wire { stream })
    }

    /// Sends bytes as they are. The server may have closed: see `try_send`.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("send");
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends one frame.
    #[track_caller]
    pub fn send_frame(&mut self, payload: &[u8]) {
        self.send(&frame(payload));
    }

    #[track_caller]
    pub fn send_json(&mut self, message: &Value) {
        self.send_frame(message.to_string().as_bytes());
    }

    /// A chunk of stdin; an empty one ends it.
    #[track_caller]
    pub fn send_input(&mut self, bytes: &[u8]) {
        self.send_frame(&[&[0], bytes].concat());
    }

    /// Sends one frame with descriptors beside its first byte.
    #[track_caller]
    pub fn send_with_fds(&mut self, message: &Value, fds: &[BorrowedFd<'_>]) {
        let bytes = frame(message.to_string().as_bytes());
        self.send_bytes_with_fds(&bytes, fds);
    }

    /// Bytes as they are, with descriptors beside the first.
    #[track_caller]
    pub fn send_bytes_with_fds(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let raw: Vec<_> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
        let control = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &control[..0] } else { &control[..] };
        let iov = [IoSlice::new(bytes)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        let sent = sendmsg::<()>(self.stream.as_raw_fd(), &iov, control, flags, None);
        let sent = sent.expect("sendmsg");
        self.send(&bytes[sent..]);
    }

    /// The next frame's payload; `None` where the server closed.
    #[track_caller]
    pub fn recv_frame(&mut self) -> Option<Vec<u8>> {
        self.try_recv_frame().unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    pub fn try_recv_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut prefix = [0; 4];
        loop {
            match self.stream.read(&mut prefix) {
                Ok(0) => return Ok(None),
                // A socket with a time limit is not read again by the kernel
                // when the machine stops and goes on (signal(7)).
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Closed with bytes of ours unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
                Ok(some) => self.stream.read_exact(&mut prefix[some..])?,
            }
            break;
        }
        let length = u32::from_be_bytes(prefix) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(io::Error::other(format!("the server sent a frame of {length} bytes")));
        }
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        Ok(Some(payload))
    }

    /// The next message, which must be JSON.
    #[track_caller]
    pub fn recv_json(&mut self) -> Value {
        let payload = self.recv_frame().expect("an answer, not the end of the connection");
        serde_json::from_slice(&payload)
            .unwrap_or_else(|error| panic!("{error}: {}", payload.escape_ascii()))
    }

    /// Sends a message and gives the next one.
    #[track_caller]
    pub fn call(&mut self, message: &Value) -> Value {
        self.send_json(message);
        self.recv_json()
    }

    /// The same where the server may not answer.
    pub fn try_call(&mut self, message: &Value) -> Option<Value> {
        self.try_send(&frame(message.to_string().as_bytes())).ok()?;
        serde_json::from_slice(&self.try_recv_frame().ok()??).ok()
    }

    /// Reads a `stream` call to its last message.
    #[track_caller]
    pub fn recv_stream(&mut self) -> Streamed {
        let mut got =
            Streamed { stdout: vec![], stderr: vec![], ended: (false, false), last: Value::Null };
        loop {
            let payload = self.recv_frame().expect("a last message before the end");
            match payload.split_first() {
                Some((1, rest)) => {
                    assert!(!got.ended.0, "stdout after its end");
                    got.ended.0 = rest.is_empty();
                    got.stdout.extend_from_slice(rest);
                }
                Some((2, rest)) => {
                    assert!(!got.ended.1, "stderr after its end");
                    got.ended.1 = rest.is_empty();
                    got.stderr.extend_from_slice(rest);
                }
                Some((b'{', _)) => {
                    got.last = serde_json::from_slice(&payload).expect("JSON");
                    if got.last.get("exit_code").is_some() {
                        return got;
                    }
                }
                _ => panic!("not a kind of payload: {}", payload.escape_ascii()),
            }
        }
    }

    /// Everything until the server closes, as messages; panics where it does
    /// not close.
    #[track_caller]
    pub fn until_closed(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.recv_frame()).collect()
    }

    /// Receives the descriptors that come with the next bytes, and those bytes.
    pub fn recv_with_fds(&mut self) -> (Vec<u8>, Vec<OwnedFd>) {
        let mut bytes = vec![0; 4 + MAX_FRAME];
        let mut space = nix::cmsg_space!([i32; 253]);
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let fd = self.stream.as_raw_fd();
        let message = recvmsg::<()>(fd, &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC);
        let message = message.expect("recvmsg");
        let mut fds = Vec::new();
        for control in message.cmsgs().expect("control messages") {
            if let ControlMessageOwned::ScmRights(raw) = control {
                fds.extend(raw.into_iter().map(crate::sys::own));
            }
        }
        let length = message.bytes;
        bytes.truncate(length);
        (bytes, fds)
    }

    /// Closes the sending half: no end of a call.
    pub fn no_more(&self) {
        self.stream.shutdown(Shutdown::Write).expect("shutdown");
    }
}

/// A payload with its length before it.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length of four bytes");
    [&length.to_be_bytes(), payload].concat()
}
