//! Descriptors that come with bytes, and what a descriptor is.
//!
//! Owns: recvmsg with SCM_RIGHTS, the test for a hung-up peer, pipes and
//! /dev/null. Every descriptor is close-on-exec from its first moment.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessage, MsgFlags, SockFlag, accept4, getsockopt, sendmsg, setsockopt, sockopt,
};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, pipe2};
use tool_protocol::limits::MAX_FDS;

use super::foreign::Foreign;

/// What one read of a socket brought.
#[derive(Debug)]
pub(crate) struct Received {
    /// Bytes read; 0 is the end of what the peer sends.
    pub(crate) bytes: usize,
    /// Descriptors that came with them.
    pub(crate) descriptors: Vec<Foreign>,
    /// Whether more came than there was room for, or than this process could
    /// take: the rest is gone.
    pub(crate) truncated: bool,
}

/// A control message's header, before its descriptors.
const HEADER: usize = 16;

/// Room for what the kernel puts before the descriptors where a socket is shared and its
/// other holder asks for it: credentials, a label of at most a page.
const BEFORE: usize = 4096 + 256;

/// A control message with a descriptor of the sender's process, since Linux 6.5.
const SCM_PIDFD: libc::c_int = 4;

/// Room for one control message with as many descriptors as one can have,
/// aligned as the kernel wants it.
#[repr(C, align(8))]
struct ControlSpace([u8; BEFORE + HEADER + (MAX_FDS + 1) * size_of::<RawFd>()]);

/// Reads bytes and all the descriptors that came with them. Never blocks.
///
/// Always with room for as many as one message can have: those without room the kernel
/// closes within this very call, and what they are, and so how long that takes, is the
/// sender's choice. Whoever wants fewer drops the others, which are closed elsewhere.
///
/// Not nix's recvmsg: it gives no way to the descriptors of a truncated control
/// message, which the kernel has installed all the same, and so leaks them.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut space = MaybeUninit::<ControlSpace>::uninit();
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut space).cast();
    message.msg_controllen = size_of::<ControlSpace>();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let bytes = loop {
        // SAFETY: the message points at `buffer` and `space`, both live and of
        // the lengths given.
        let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        match usize::try_from(result) {
            Ok(bytes) => break bytes,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has filled in the control messages within `space`;
    // the CMSG functions stay inside msg_controllen, and each descriptor is
    // new, ours, and read once.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(header) = control.as_ref() {
            let kinds = [libc::SCM_RIGHTS, SCM_PIDFD];
            if header.cmsg_level == libc::SOL_SOCKET && kinds.contains(&header.cmsg_type) {
                let data = libc::CMSG_DATA(control).cast::<RawFd>();
                let length = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                for index in 0..length / size_of::<RawFd>() {
                    let number = data.add(index).read_unaligned();
                    descriptors.push(Foreign::new(OwnedFd::from_raw_fd(number)));
                }
            }
            control = libc::CMSG_NXTHDR(&raw const message, control);
        }
    }
    let truncated = message.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(Received { bytes, descriptors, truncated })
}

/// Writes to a socket; descriptors go with the first byte. Never blocks.
pub(crate) fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[OwnedFd],
) -> io::Result<usize> {
    let passed: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&passed)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let sent = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, flags, None);
    sent.map_err(io::Error::from)
}

/// Writes to a socket that somebody else may have set to block. Never blocks.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    nix::sys::socket::send(socket.as_raw_fd(), bytes, flags).map_err(io::Error::from)
}

/// Reads urgent bytes of a socket as any others: else the kernel throws them away within
/// a read that comes to them, and closes what came with them.
pub(crate) fn keep_urgent(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    setsockopt(&socket, sockopt::OobInline, &true)
}

/// Waits until something can be read there, or the peer has gone; `false`: for so long.
pub(crate) fn readable_within(descriptor: BorrowedFd<'_>, most: Duration) -> bool {
    let mut polled = [PollFd::new(descriptor, PollFlags::POLLIN)];
    let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::ZERO);
    poll(&mut polled, most).is_ok_and(|ready| ready > 0)
}

/// Whether the peer has closed both directions: it is gone, not just silent.
pub(crate) fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    match poll(&mut polled, PollTimeout::ZERO) {
        Ok(_) => polled
            .first()
            .and_then(PollFd::revents)
            .is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)),
        Err(_) => false,
    }
}

/// A pipe: the end to read, the end to write. The end that stays here does not
/// block.
pub(crate) enum Here {
    /// This process reads.
    Read,
    /// This process writes.
    Write,
}

/// Makes a pipe; the end that stays here does not block.
pub(crate) fn pipe(here: &Here) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    let ours = match here {
        Here::Read => read.as_fd(),
        Here::Write => write.as_fd(),
    };
    fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((read, write))
}

/// How many bytes lie in a pipe, to be read without waiting.
pub(crate) fn readable_now(pipe: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int to the address it is given.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Reads from a pipe that does not block; `None` at its end and where nothing is
/// there.
pub(crate) fn read_now(pipe: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match nix::unistd::read(pipe, buffer) {
            Ok(0) => return None,
            Ok(bytes) => return Some(bytes),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// The name of an open directory, without links and `..`.
pub(crate) fn path_of(directory: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let path = std::fs::read_link(link).ok()?;
    Some(std::os::unix::ffi::OsStringExt::into_vec(path.into_os_string()))
}

/// `/dev/null`, for reading and writing.
pub(crate) fn null() -> Result<OwnedFd, Errno> {
    open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
}

/// Takes a connection; it does not block, as the listener does not.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let number = accept4(listener.as_raw_fd(), flags)?;
    // SAFETY: a new descriptor, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    keep_urgent(socket.as_fd())?;
    Ok(UnixStream::from(socket))
}

/// Who is at the other end of a socket: uid and gid when it connected.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> Result<(u32, u32), Errno> {
    let credentials = getsockopt(&socket, sockopt::PeerCredentials)?;
    Ok((credentials.uid(), credentials.gid()))
}

/// SO_PEERPIDFD, since Linux 6.5; the same on every architecture but parisc and
/// sparc.
const SO_PEERPIDFD: libc::c_int = 77;

/// The process that connected.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    /// Its number here, 0 where it has none.
    pub(crate) pid: Pid,
    process: Option<OwnedFd>,
    /// The kernel itself said which process it is, not just its number.
    pub(crate) exact: bool,
}

impl PeerProcess {
    /// Whether it lives still. One that has ended may have passed its socket on, and
    /// its number may be another's.
    pub(crate) fn lives(&self) -> bool {
        let Some(process) = &self.process else { return false };
        let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO) == Ok(0)
    }
}

/// Who connected, as a process.
pub(crate) fn peer_process(socket: BorrowedFd<'_>) -> Result<PeerProcess, Errno> {
    let pid = Pid::from_raw(getsockopt(&socket, sockopt::PeerCredentials)?.pid());
    let mut number: libc::c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the kernel writes one int, for which there is room.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut number).cast(),
            &raw mut length,
        )
    };
    match Errno::result(result) {
        Ok(_) => {
            // SAFETY: a new descriptor, and nobody else's.
            let process = unsafe { OwnedFd::from_raw_fd(number) };
            Ok(PeerProcess { pid, process: Some(process), exact: true })
        }
        // An older kernel tells a number, which may be another process's by now.
        Err(Errno::ENOPROTOOPT) => {
            let process = super::process::Handle::open(pid).ok().map(OwnedFd::from);
            Ok(PeerProcess { pid, process, exact: false })
        }
        // It has ended and was reaped.
        Err(Errno::ESRCH | Errno::ENODATA | Errno::EINVAL) => {
            Ok(PeerProcess { pid, process: None, exact: true })
        }
        Err(errno) => Err(errno),
    }
}
/// Lets the kernel end a TCP connection whose other end takes nothing for so long.
pub(crate) fn give_up_after(socket: &impl AsFd, millis: u32) -> nix::Result<()> {
    setsockopt(socket, sockopt::TcpUserTimeout, &millis)
}

/// Begins to write what a file holds to the disk, and waits for nothing. Where that cannot be
/// begun the kernel does it when it likes.
pub(crate) fn write_out(file: &OwnedFd) {
    // SAFETY: takes plain numbers, and the descriptor is open.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
