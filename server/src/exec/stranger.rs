//! Unix sockets whose other end a tool has: with what it says it may send descriptors,
//! which nobody here wants, and which take as long to close as it has chosen.
//!
//! Owns: reading the bytes, and closing all else where that holds up nobody. Must not:
//! know what is said.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::os::descriptors::{receive, send};
use crate::os::foreign::close_queue;

/// How much is read at once on another thread.
const READ: usize = 16 * 1024;

/// A socket that is closed elsewhere, with all that lies unread in it.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Until it is dropped.
    socket: Option<T>,
    plain: fn(T) -> Option<OwnedFd>,
}

impl<T> Queue<T> {
    /// `plain`: the socket alone, which nobody watches.
    pub(super) fn new(socket: T, plain: fn(T) -> Option<OwnedFd>) -> Queue<T> {
        Queue { socket: Some(socket), plain }
    }

    /// The socket itself.
    pub(super) fn get(&self) -> io::Result<&T> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().and_then(self.plain) {
            close_queue(socket);
        }
    }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stranger {
    stream: Arc<Queue<UnixStream>>,
    /// The tool has this very end as well, and so may set at any time how it is read.
    shared: bool,
    reading: Option<oneshot::Receiver<io::Result<Vec<u8>>>>,
    /// Read, and not yet asked for.
    rest: Vec<u8>,
}

impl Stranger {
    /// One end of it is the server's alone.
    pub(crate) fn own(stream: UnixStream) -> Stranger {
        let plain = |stream: UnixStream| stream.into_std().ok().map(OwnedFd::from);
        let stream = Arc::new(Queue::new(stream, plain));
        Stranger { stream, shared: false, reading: None, rest: Vec::new() }
    }

    /// The tool made both ends.
    pub(super) fn shared(stream: UnixStream) -> Stranger {
        Stranger { shared: true, ..Stranger::own(stream) }
    }

    /// Reads on a thread that nobody else waits for: what a tool may do to a socket that
    /// it has too, between any two steps here, holds up no other.
    fn read_elsewhere(&self) -> io::Result<oneshot::Receiver<io::Result<Vec<u8>>>> {
        let (done, reading) = oneshot::channel();
        let stream = Arc::clone(&self.stream);
        std::thread::Builder::new().name("stranger".to_owned()).spawn(move || {
            let mut bytes = vec![0; READ];
            let read = read(&stream, &mut bytes).map(|length| {
                bytes.truncate(length);
                bytes
            });
            drop(stream);
            drop(done.send(read));
        })?;
        Ok(reading)
    }
}

/// Reads bytes; the descriptors with them are closed elsewhere.
fn read(stream: &Queue<UnixStream>, buffer: &mut [u8]) -> io::Result<usize> {
    let stream = stream.get()?;
    stream.try_io(Interest::READABLE, || Ok(receive(stream.as_fd(), buffer)?.bytes))
}

impl AsyncRead for Stranger {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.rest.is_empty() {
                let now = self.rest.len().min(buffer.remaining());
                let rest = self.rest.split_off(now);
                buffer.put_slice(&std::mem::replace(&mut self.rest, rest));
                return Poll::Ready(Ok(()));
            }
            let result = if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                match read.map_err(io::Error::other)? {
                    Ok(bytes) if bytes.is_empty() => Ok(0),
                    Ok(bytes) => {
                        self.rest = bytes;
                        continue;
                    }
                    Err(error) => Err(error),
                }
            } else {
                ready!(self.stream.get()?.poll_read_ready(context))?;
                if self.shared {
                    self.reading = Some(self.read_elsewhere()?);
                    continue;
                }
                read(&self.stream, buffer.initialize_unfilled())
            };
            match result {
                Ok(bytes) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Stranger {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.stream.get()?;
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_io(Interest::WRITABLE, || send(stream.as_fd(), bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream.get()?.as_fd();
        let done = shutdown(stream.as_raw_fd(), Shutdown::Write);
        Poll::Ready(done.map_err(io::Error::from))
    }
}
