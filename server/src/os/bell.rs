//! A socket that every process of a call has under one number, and rings: each ring
//! brings one connection of its own, so that processes that ask at the same time do not
//! hear each other's answers.
//!
//! Owns: making, ringing and hearing. Must not: know what is said.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{
    ControlMessage, MsgFlags, SockType, UnixAddr, getpeername, getsockopt, sendmsg, sockopt,
};

use super::descriptors::{keep_urgent, receive};
use super::foreign::Foreign;

/// Our end, which does not block, and the end to ring. Whole messages, so that rings
/// at the same time do not mix.
pub(crate) fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    let (ours, theirs) = UnixDatagram::pair()?;
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

/// The highest number, not above `most`, that a process may have a descriptor under.
pub(crate) fn highest(most: RawFd) -> RawFd {
    let (now, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
    RawFd::try_from(now).map_or(most, |now| most.min(now - 1))
}

/// Rings the bell that this program was started with, under that number; what is said
/// goes by the connection that comes back.
pub(crate) fn ring(number: RawFd) -> Result<UnixStream, Errno> {
    let (ours, theirs) = UnixStream::pair()
        .map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    // The kernel says where it is not open.
    fcntl_exists(number)?;
    let passed = [theirs.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&passed)];
    let one = [io::IoSlice::new(b"r")];
    sendmsg::<()>(number, &one, &control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(ours)
}

fn fcntl_exists(number: RawFd) -> Result<(), Errno> {
    // SAFETY: asks nothing of memory, and fails where the number is not open.
    Errno::result(unsafe { libc::fcntl(number, libc::F_GETFD) }).map(drop)
}

/// Who rang: a connection that came with a ring, if it is one; an error of the kind
/// `WouldBlock` where nobody did.
pub(crate) fn hear(bell: BorrowedFd<'_>) -> io::Result<Option<UnixStream>> {
    let came = receive(bell, &mut [0; 1])?;
    Ok(came.descriptors.into_iter().find_map(connection))
}

/// One half of a socketpair of streams and nothing else. What is connected to a name is
/// a service of the machine: it would be told something in our name.
fn connection(foreign: Foreign) -> Option<UnixStream> {
    let descriptor = foreign.as_fd()?;
    let streams = getsockopt(&descriptor, sockopt::SockType).ok()? == SockType::Stream;
    let peer = getpeername::<UnixAddr>(descriptor.as_raw_fd()).ok()?;
    let open = fcntl(descriptor, FcntlArg::F_GETFL).ok()? & libc::O_PATH == 0;
    if !(streams && open && peer.is_unnamed()) {
        return None;
    }
    let stream = UnixStream::from(descriptor.try_clone_to_owned().ok()?);
    stream.set_nonblocking(true).ok()?;
    keep_urgent(stream.as_fd()).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;

    use nix::fcntl::OFlag;

    use super::super::descriptors::send_with;
    use super::*;

    fn clone(descriptor: impl AsFd) -> OwnedFd {
        descriptor.as_fd().try_clone_to_owned().unwrap()
    }

    #[test]
    fn each_ring_brings_a_connection_of_its_own() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(hear(ours.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let mut first = ring(theirs.as_raw_fd()).unwrap();
        let mut second = ring(theirs.as_raw_fd()).unwrap();
        for (asks, word) in [(&mut first, b"1"), (&mut second, b"2")] {
            let mut answers = hear(ours.as_fd()).unwrap().unwrap();
            answers.write_all(word).unwrap();
            drop(answers);
            let mut heard = Vec::new();
            asks.read_to_end(&mut heard).unwrap();
            assert_eq!(heard, word);
        }
        drop(ours);
        assert!(ring(theirs.as_raw_fd()).is_err());
        assert!(ring(9999).is_err());
    }

    #[test]
    fn what_is_no_half_of_a_pair_of_streams_is_not_heard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("service");
        let service = UnixListener::bind(&path).unwrap();
        let (pipe, _write) = nix::unistd::pipe().unwrap();
        let (_, datagrams) = UnixDatagram::pair().unwrap();
        let none = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let root = nix::fcntl::open("/", OFlag::O_PATH, nix::sys::stat::Mode::empty()).unwrap();
        let strangers = [
            clone(&service),
            clone(UnixStream::connect(&path).unwrap()),
            pipe,
            clone(datagrams),
            clone(none),
            root,
        ];
        let (ours, theirs) = pair().unwrap();
        for stranger in strangers {
            send_with(theirs.as_fd(), b"r", &[stranger]).unwrap();
            assert!(hear(ours.as_fd()).unwrap().is_none());
        }
        // Several at once, or none.
        let several = [clone(UnixStream::pair().unwrap().0), clone(UnixStream::pair().unwrap().0)];
        send_with(theirs.as_fd(), b"r", &several).unwrap();
        hear(ours.as_fd()).unwrap();
        for nothing in [&b"r"[..], b"", b"more than one byte"] {
            theirs.send(nothing).unwrap();
            assert!(hear(ours.as_fd()).unwrap().is_none());
        }
        assert_eq!(hear(ours.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
