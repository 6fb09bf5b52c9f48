//! A child's descriptors, among which are none of anybody else's.
//!
//! A child that copies the server's table has, until it has executed, whatever callers
//! passed for other calls: a file that one of them wrote cannot be executed meanwhile,
//! nor is a lock given up or a pipe at its end, although that call is long over. And it
//! closes these only when the thread that waits for its execve has gone on, so that
//! waiting for that thread is no help.
//!
//! So nothing is copied. The child shares the server's table at first, parts from it with
//! the lowest numbers alone, of which no caller ever has one, and receives its own through
//! a socket that has one of those.
//!
//! Owns: those numbers, that socket. Must not: close what a caller passed, or have a
//! child do so before it executes: how long that takes is the caller's choice.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::foreign::close_queue;

/// Numbers that are the server's own for as long as it runs. The kernel copies so many,
/// the size of a word, even where fewer are asked for.
pub(crate) const LOW: RawFd = 64;
/// Of a lower limit of descriptors so many are not kept; children copy the table then.
pub(crate) const FROM: u64 = 1024;

/// As many as one message takes; the kernel allows 253.
const MOST: usize = 250;
/// For their control message.
const SPACE: usize = 16 + MOST * size_of::<RawFd>();

/// The one of these numbers that the socket gets.
static KEPT: AtomicI32 = AtomicI32::new(-1);

/// Takes all low numbers that are free, for good; once, before anything of a caller's
/// can come.
pub(crate) fn keep_low() -> Result<(), Errno> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard < FROM || soft <= u64::from(LOW.cast_unsigned()) {
        return Ok(());
    }
    let mut last = -1;
    loop {
        let null = super::descriptors::null()?;
        if null.as_raw_fd() >= LOW {
            break;
        }
        last = null.as_raw_fd();
        std::mem::forget(null);
    }
    KEPT.store(last, Ordering::Relaxed);
    Ok(())
}

/// The way by which children get their descriptors, one after the other.
#[derive(Debug)]
pub(super) struct Way {
    send: OwnedFd,
    /// Below `LOW`.
    receive: RawFd,
    /// Of the child that comes next: none takes what was meant for another.
    number: u64,
    space: Box<Space>,
}

#[repr(C, align(8))]
#[derive(Debug)]
struct Space([u8; SPACE]);

/// What a child needs to take its own.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Passage {
    receive: RawFd,
    number: u64,
    space: *mut libc::c_void,
    /// Nothing is left in the way.
    pub(super) taken: bool,
}

impl Way {
    /// The only one of this process; `None` where no numbers are kept for it.
    pub(super) fn new() -> Result<Option<Way>, Errno> {
        let receive = KEPT.swap(-1, Ordering::Relaxed);
        if receive < 0 {
            return Ok(None);
        }
        let send = connect(receive)?;
        Ok(Some(Way { send, receive, number: 0, space: Box::new(Space([0; SPACE])) }))
    }

    /// Sends a child's descriptors ahead of it. `None`: they cannot be sent just now.
    pub(super) fn put(&mut self, descriptors: &[RawFd]) -> Option<Passage> {
        self.number += 1;
        for some in descriptors.chunks(MOST) {
            if !self.send(some) {
                self.renew();
                return None;
            }
        }
        let space = (&raw mut *self.space).cast();
        Some(Passage { receive: self.receive, number: self.number, space, taken: false })
    }

    /// After a child that has not taken its own.
    pub(super) fn renew(&mut self) {
        // SAFETY: a new descriptor of the socket that we own, above the low numbers.
        let aside = unsafe { libc::fcntl(self.receive, libc::F_DUPFD_CLOEXEC, LOW) };
        if aside >= 0 {
            // SAFETY: it is new, and nobody else's.
            close_queue(unsafe { OwnedFd::from_raw_fd(aside) });
        }
        // If there is no other one, what lies there is known by its number.
        if let Ok(send) = connect(self.receive) {
            self.send = send;
        }
    }

    fn send(&mut self, descriptors: &[RawFd]) -> bool {
        let mut number = self.number;
        let mut part = libc::iovec { iov_base: (&raw mut number).cast(), iov_len: 8 };
        let mut message = header(&mut part, (&raw mut *self.space).cast());
        let length = u32::try_from(size_of_val(descriptors)).unwrap_or(u32::MAX);
        // SAFETY: the space has room for as many as one message takes; the message points
        // at what lives here.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(length) as _;
            let control = libc::CMSG_FIRSTHDR(&raw const message);
            (*control).cmsg_level = libc::SOL_SOCKET;
            (*control).cmsg_type = libc::SCM_RIGHTS;
            (*control).cmsg_len = libc::CMSG_LEN(length) as _;
            let to = libc::CMSG_DATA(control).cast::<RawFd>();
            ptr::copy_nonoverlapping(descriptors.as_ptr(), to, descriptors.len());
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(self.send.as_raw_fd(), &raw const message, flags) == 8
        }
    }
}

impl Passage {
    /// In a child that shares the server's table: parts from it, and takes its own.
    /// `each` calls back with every place of a descriptor's number, in the order in which
    /// they were sent.
    ///
    /// # Safety
    /// In such a child, which is not to return to the server's code.
    pub(super) unsafe fn part(&mut self, mut next: impl FnMut() -> Option<*mut RawFd>) -> bool {
        let (from, apart) = (LOW.cast_unsigned(), libc::CLOSE_RANGE_UNSHARE);
        // SAFETY: the numbers and addresses are the child's own.
        unsafe {
            // Nothing of this range is copied, and so there is nothing to close.
            if libc::syscall(libc::SYS_close_range, from, libc::c_uint::MAX, apart) < 0 {
                return false;
            }
            let mut place = next();
            while place.is_some() {
                let mut number = 0u64;
                let mut part = libc::iovec { iov_base: (&raw mut number).cast(), iov_len: 8 };
                let mut message = header(&mut part, self.space);
                let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
                if libc::recvmsg(self.receive, &raw mut message, flags) != 8
                    || message.msg_flags & libc::MSG_CTRUNC != 0
                {
                    return false;
                }
                let control = libc::CMSG_FIRSTHDR(&raw const message);
                if number != self.number || control.is_null() {
                    return false;
                }
                let come = (*control).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let come = std::slice::from_raw_parts(
                    libc::CMSG_DATA(control).cast::<RawFd>(),
                    come / size_of::<RawFd>(),
                );
                for descriptor in come {
                    let Some(to) = place else { return false };
                    *to = *descriptor;
                    place = next();
                }
            }
        }
        self.taken = true;
        true
    }
}

/// A message of one part, with room for descriptors.
fn header(part: &mut libc::iovec, space: *mut libc::c_void) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = SPACE as _;
    message
}

/// A pair of sockets that keep messages apart: one gets that number, in the place of
/// what has it, the other is given.
fn connect(number: RawFd) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (send, receive) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
    // SAFETY: the number is ours, and nobody else refers to it.
    let placed = unsafe { libc::dup3(receive.as_raw_fd(), number, libc::O_CLOEXEC) };
    Errno::result(placed)?;
    Ok(send)
}
