//! System calls of a confined process that somebody else answers: the listener of
//! its seccomp filter (seccomp_unotify(2)).
//!
//! Owns: handing the listener on, and the kernel's questions and answers. Must
//! not: choose an answer.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::descriptors::keep_urgent;

/// One byte goes with the listener.
pub(crate) const LISTENER: u8 = b'n';

/// A control message with one descriptor.
#[repr(C, align(8))]
struct OneDescriptor {
    length: libc::size_t,
    level: libc::c_int,
    kind: libc::c_int,
    number: RawFd,
    _rest: u32,
}

/// Sends the listener of the filter that this process has just entered, with
/// [`LISTENER`] and a zero, over a Unix socket. For the child before its execve: no
/// allocation.
pub(super) fn send_listener(socket: RawFd, listener: RawFd) -> bool {
    let word = [LISTENER, 0];
    let mut part =
        libc::iovec { iov_base: (&raw const word).cast_mut().cast(), iov_len: word.len() };
    let mut control = OneDescriptor {
        length: size_of::<OneDescriptor>() - size_of::<u32>(),
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        number: listener,
        _rest: 0,
    };
    // SAFETY: all-zero bytes are a valid msghdr; what it points at lives until the
    // call is over.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<OneDescriptor>();
        libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) == 2
    }
}

/// What a process asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    id: u64,
    /// The number of the system call.
    pub(crate) call: i64,
    /// Its arguments, as the registers had them.
    pub(crate) arguments: [u64; 6],
}

/// AUDIT_ARCH of this machine: numbers of system calls are of it.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// struct seccomp_notif_addfd.
#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    number_flags: u32,
}

const fn request(direction: u64, number: u64, size: usize) -> libc::Ioctl {
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "32 bits")]
    let request = ((direction << 30) | ((size as u64) << 16) | (0x21 << 8) | number) as libc::Ioctl;
    request
}

const RECEIVE: libc::Ioctl = request(3, 0, size_of::<libc::seccomp_notif>());
const SEND: libc::Ioctl = request(3, 1, size_of::<libc::seccomp_notif_resp>());
const ID_VALID: libc::Ioctl = request(1, 2, size_of::<u64>());
const ADD_DESCRIPTOR: libc::Ioctl = request(1, 3, size_of::<AddDescriptor>());

/// Answer the call with the new descriptor's number, in one step.
const ADD_AND_SEND: u32 = 2;

/// The listener of a filter: what the processes that have entered it ask.
#[derive(Debug)]
pub(crate) struct Questions(AsyncFd<OwnedFd>);

impl Questions {
    /// To be made in the runtime.
    pub(crate) fn new(listener: OwnedFd) -> io::Result<Questions> {
        // SAFETY: it is owned by what is made here, which gives nobody the means to
        // put another one in its place.
        let listener = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE)? };
        Ok(Questions(listener))
    }

    /// The next question, waited for; `None` once no process is left to ask.
    pub(crate) async fn next(&self) -> Result<Option<Question>, Errno> {
        loop {
            let mut ready = self.0.readable().await.map_err(|_closed| Errno::EBADF)?;
            let events = self.events()?;
            if events.contains(PollFlags::POLLIN) {
                match self.receive() {
                    // Whoever asked has gone, or hears a signal first.
                    Err(Errno::ENOENT | Errno::EINTR) => {}
                    other => return other.map(Some),
                }
            } else if events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                return Ok(None);
            } else {
                ready.clear_ready();
            }
        }
    }

    /// What is there at this moment. Nobody else reads it: what is to be read stays so.
    fn events(&self) -> Result<PollFlags, Errno> {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO)?;
        Ok(polled.first().and_then(PollFd::revents).unwrap_or(PollFlags::empty()))
    }

    fn receive(&self) -> Result<Question, Errno> {
        // SAFETY: the kernel wants zeroes, and fills in the struct.
        let asked = unsafe {
            let mut asked = MaybeUninit::<libc::seccomp_notif>::zeroed();
            Errno::result(libc::ioctl(self.0.as_raw_fd(), RECEIVE, asked.as_mut_ptr()))?;
            asked.assume_init()
        };
        let known = asked.data.arch == ARCHITECTURE;
        let call = if known { i64::from(asked.data.nr) } else { -1 };
        Ok(Question { id: asked.id, call, arguments: asked.data.args })
    }

    /// Answers a question with an error.
    pub(crate) fn refuse(&self, question: &Question, errno: Errno) -> Result<(), Errno> {
        let error = -(errno as i32);
        let answer = libc::seccomp_notif_resp { id: question.id, val: 0, error, flags: 0 };
        // SAFETY: reads one struct.
        let sent = unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw const answer) };
        match Errno::result(sent) {
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Whether whoever asked still waits for this answer.
    pub(crate) fn awaits(&self, question: &Question) -> bool {
        // SAFETY: reads one number.
        unsafe { libc::ioctl(self.0.as_raw_fd(), ID_VALID, &raw const question.id) == 0 }
    }

    /// Answers it with a new descriptor: a copy of this one, in the process that
    /// asked.
    pub(crate) fn give(
        &self,
        question: &Question,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        let cloexec = if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let added = AddDescriptor {
            id: question.id,
            flags: ADD_AND_SEND,
            source: descriptor.as_raw_fd().cast_unsigned(),
            number: 0,
            number_flags: cloexec,
        };
        // SAFETY: reads one struct.
        let given = unsafe { libc::ioctl(self.0.as_raw_fd(), ADD_DESCRIPTOR, &raw const added) };
        Errno::result(given).map(drop)
    }
}

/// Two ends of a Unix stream: the first stays here and does not block; the second
/// blocks unless wanted otherwise.
pub(crate) fn pair(theirs_blocks: bool) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut numbers: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: writes two numbers, which are new descriptors and ours.
    let (ours, theirs) = unsafe {
        Errno::result(libc::socketpair(libc::AF_UNIX, kind, 0, numbers.as_mut_ptr()))?;
        let [ours, theirs] = numbers;
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    keep_urgent(ours.as_fd())?;
    if theirs_blocks {
        fcntl(theirs.as_fd(), FcntlArg::F_SETFL(OFlag::empty()))?;
    }
    Ok((ours, theirs))
}

/// A TCP socket that is connected there, or is about to be: never waits. Whatever becomes
/// of it, its own address is that one too, and no other of the machine's.
pub(crate) fn connected(to: SocketAddr, blocks: bool) -> Result<OwnedFd, Errno> {
    let SocketAddr::V4(to) = to else { return Err(Errno::EAFNOSUPPORT) };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    // SAFETY: all-zero bytes are a valid sockaddr_in.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
    address.sin_port = to.port().to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
    let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // Kept over a disconnection, so it would listen there alone. The port is chosen by
    // connect(2), which shares it.
    let own = libc::sockaddr_in { sin_port: 0, ..address };
    let yes: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&yes)).unwrap_or_default();
    // SAFETY: each reads one value of the size that is told.
    unsafe {
        let (ip, by_connect) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
        let yes = (&raw const yes).cast();
        Errno::result(libc::setsockopt(made.as_raw_fd(), ip, by_connect, yes, size))?;
        Errno::result(libc::bind(made.as_raw_fd(), (&raw const own).cast(), length))?;
    }
    // SAFETY: reads one struct of that size.
    let begun = unsafe { libc::connect(made.as_raw_fd(), (&raw const address).cast(), length) };
    match Errno::result(begun) {
        Ok(_) | Err(Errno::EINPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    if blocks {
        fcntl(made.as_fd(), FcntlArg::F_SETFL(OFlag::empty()))?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::{Backlog, Shutdown, listen, shutdown};

    use super::*;

    /// Connected or waiting for a full queue, and then begun anew.
    #[test]
    fn a_socket_that_is_given_has_no_name_but_the_gates() {
        let gate = TcpListener::bind("127.0.0.1:0").unwrap();
        listen(&gate, Backlog::new(1).unwrap()).unwrap();
        let to = gate.local_addr().unwrap();
        let mut anew = 0;
        let kept: Vec<OwnedFd> = (0..8).map(|_| connected(to, false).unwrap()).collect();
        for socket in kept {
            shutdown(socket.as_raw_fd(), Shutdown::Both).ok();
            anew += usize::from(listen(&socket, Backlog::new(1).unwrap()).is_ok());
            let socket = TcpStream::from(socket);
            assert_eq!(socket.local_addr().unwrap().ip(), to.ip());
        }
        assert!(anew > 0);
    }
}
