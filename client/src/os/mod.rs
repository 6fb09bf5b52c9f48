//! The kernel, and nothing above it: system calls as safe functions, the start
//! of the program, its memory, its end. The only place with unsafe code.
//!
//! Must not: know the protocol, or decide anything. Every call that a signal
//! interrupts is made again here, so nothing above sees EINTR.
#![allow(unsafe_code, reason = "the only place with raw system calls; see the header")]

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
mod io;
mod process;
mod signal;
mod socket;
mod start;
mod table;
mod terminal;

use arch::{call, call6, number};
use core::ptr::from_ref;

pub(crate) use io::{Poll, Time, close, poll, read, reopen, write, write_all};
pub(crate) use process::{current_directory, die_of, exit, umask};
pub(crate) use signal::{
    block, ignored, next_signal, signal_descriptor, signal_others, stop, unblock,
};
pub(crate) use socket::{Came, MOST_RIGHTS, SocketPath, connect, receive, rights, send};
pub(crate) use start::{Memory, Strings};
pub(crate) use table::open_descriptors;
pub(crate) use terminal::{
    Modes, Window, any_changed, change, changed, device, in_foreground, modes, restore, set_window,
    window,
};

/// A file descriptor, as the kernel counts them.
pub(crate) type Fd = i32;

/// Why a system call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) u16);

impl Errno {
    pub(crate) const ENOENT: Errno = Errno(2);
    pub(crate) const EINTR: Errno = Errno(4);
    pub(crate) const EAGAIN: Errno = Errno(11);
    pub(crate) const EACCES: Errno = Errno(13);
    pub(crate) const ENOTDIR: Errno = Errno(20);
    pub(crate) const EINVAL: Errno = Errno(22);
    pub(crate) const EPIPE: Errno = Errno(32);
    pub(crate) const ECONNRESET: Errno = Errno(104);
    pub(crate) const ECONNREFUSED: Errno = Errno(111);
}

/// Where a value is. Exposed: the compiler then knows that the kernel may look.
fn address<T>(value: &T) -> usize {
    from_ref(value).expose_provenance()
}

/// A descriptor as an argument of a system call.
fn argument(fd: Fd) -> usize {
    // A negative one stays invalid: the kernel looks at the low 32 bits.
    fd.cast_unsigned() as usize
}

/// What the kernel gave as a descriptor, which it counts in an int.
fn descriptor(value: usize) -> Fd {
    Fd::try_from(value).unwrap_or(-1)
}

fn result(value: isize) -> Result<usize, Errno> {
    match u16::try_from(value.wrapping_neg()) {
        Ok(errno @ 1..4096) => Err(Errno(errno)),
        _ => Ok(value.cast_unsigned()),
    }
}

/// Makes a system call, again as long as a signal interrupts it.
///
/// # Safety
/// As for [`call`].
#[inline(never)]
unsafe fn retry(number: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize, Errno> {
    loop {
        // SAFETY: the caller vouches for it.
        match result(unsafe { call(number, a, b, c, d) }) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}
