//! Reading, writing and waiting for descriptors.
//!
//! Must not: change a descriptor that the caller shares with others; what needs
//! another flag is opened anew.

use super::{Errno, Fd, address, argument, call, call6, descriptor, number, result, retry};
use core::ptr::{from_mut, null_mut};

/// Reads what is there, at most the buffer; 0 is the end.
pub(crate) fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer is valid for writing that many bytes.
    unsafe {
        retry(number::READ, argument(fd), buffer.as_mut_ptr().expose_provenance(), buffer.len(), 0)
    }
}

/// Writes from the start of `bytes`, perhaps not all.
pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the bytes are valid for reading.
    unsafe {
        retry(number::WRITE, argument(fd), bytes.as_ptr().expose_provenance(), bytes.len(), 0)
    }
}

/// Writes all of `bytes`, and waits where a descriptor that does not block
/// cannot take more.
pub(crate) fn write_all(fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(fd, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::EAGAIN) => {
                poll(&mut [Poll::new(fd, Poll::WRITE)], None, None)?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Closes a descriptor. What it says is of no use: the descriptor is gone.
pub(crate) fn close(fd: Fd) {
    // SAFETY: takes no memory; not made again when interrupted, since the number
    // is free then and may be another's.
    unsafe { call(number::CLOSE, argument(fd), 0, 0, 0) };
}

/// Opens a terminal anew, for reading and writing without blocking: the flags of
/// the caller's own are others' too. `None` where the kernel does not let us.
pub(crate) fn reopen(fd: Fd) -> Option<Fd> {
    const O_RDWR: usize = 2;
    const O_NOCTTY: usize = 0o400;
    const O_NONBLOCK: usize = 0o4000;
    const O_CLOEXEC: usize = 0o2_000_000;

    // A number of at most four digits, and a NUL behind it.
    let mut path = *b"/proc/self/fd/\0\0\0\0\0";
    let mut writer = tool_wire::json::Writer::new(path.get_mut(14..18)?);
    writer.number(u32::try_from(fd).ok()?);
    if writer.overflowed() {
        return None;
    }
    let flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    // SAFETY: the path ends with a NUL; its directory is not looked at.
    unsafe { retry(number::OPENAT, 0, address(&path), flags, 0) }.ok().map(descriptor)
}

/// What to wait for on a descriptor, and what came.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Poll {
    fd: Fd,
    events: u16,
    happened: u16,
}

impl Poll {
    pub(crate) const READ: u16 = 1;
    pub(crate) const WRITE: u16 = 4;

    /// Nothing to wait for, three times: what one relay has.
    pub(crate) const NONE: [Poll; 3] = [Poll::of(-1); 3];

    /// Waits for `events` on `fd`; for nothing at all if there are none.
    pub(crate) fn new(fd: Fd, events: u16) -> Poll {
        Poll { fd: if events == 0 { -1 } else { fd }, events, happened: 0 }
    }

    /// Waits for nothing on `fd`: tells only whether there is such a descriptor.
    pub(crate) const fn of(fd: Fd) -> Poll {
        Poll { fd, events: 0, happened: 0 }
    }

    /// Whether an event that was asked for came. An error or the end of the
    /// other side counts as each of them: the next read or write tells.
    #[inline(never)]
    pub(crate) fn is(&self, event: u16) -> bool {
        const ERROR: u16 = 0x08;
        const HANG_UP: u16 = 0x10;
        self.events & event != 0 && self.happened & (event | ERROR | HANG_UP) != 0
    }

    /// Whether the other side of a terminal is gone.
    pub(crate) fn has_hung_up(&self) -> bool {
        const HANG_UP: u16 = 0x10;
        self.happened & HANG_UP != 0
    }

    /// Whether there is no such descriptor.
    pub(super) fn is_closed(&self) -> bool {
        const INVALID: u16 = 0x20;
        self.happened & INVALID != 0
    }
}

/// How long to wait: seconds and nanoseconds. The kernel writes back what is
/// left of it.
pub(crate) type Time = [u64; 2];

/// Waits until something happens, or the time is over; how many happened.
/// While it waits the signals of `mask` are blocked, not those that are now.
pub(crate) fn poll(
    polls: &mut [Poll],
    time: Option<&mut Time>,
    mask: Option<&u64>,
) -> Result<usize, Errno> {
    let time = time.map_or(null_mut(), from_mut).expose_provenance();
    let mask = mask.map_or(0, address);
    let list = polls.as_mut_ptr().expose_provenance();
    loop {
        let arguments = [list, polls.len(), time, mask, size_of::<u64>(), 0];
        // SAFETY: the list is valid for its length, the time and the mask are
        // null or valid; the kernel writes to the list and the time alone.
        match result(unsafe { call6(number::PPOLL, &arguments) }) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}
