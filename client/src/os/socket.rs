//! The socket: its address, connecting, sending and receiving, with descriptors
//! where there are some.
//!
//! Must not: let a closed connection be a signal, or a received descriptor pass
//! to another program.

use super::{Errno, Fd, address, argument, descriptor, number, retry};
use core::mem::offset_of;
use core::ptr::from_mut;
use tool_wire::frame;
use tool_wire::limits::MAX_TERMINALS;

const AF_UNIX: u16 = 1;

/// The most bytes of a socket's path; one more is its NUL.
const SOCKET_PATH: usize = 107;

#[repr(C)]
struct UnixAddress {
    family: u16,
    path: [u8; SOCKET_PATH + 1],
}

/// A path that fits a socket's address.
pub(crate) struct SocketPath {
    address: UnixAddress,
    length: usize,
}

impl SocketPath {
    pub(crate) fn new() -> SocketPath {
        SocketPath {
            address: UnixAddress { family: AF_UNIX, path: [0; SOCKET_PATH + 1] },
            length: 0,
        }
    }

    /// Adds to the path; false if it is then too long.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let place = self.address.path.get_mut(self.length..SOCKET_PATH).unwrap_or_default();
        let fits = frame::copy(bytes, place);
        if fits {
            self.length = self.length.wrapping_add(bytes.len());
        }
        fits
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.address.path.get(..self.length).unwrap_or_default()
    }
}

/// Connects to the socket at that path. While its queue is full, this waits.
pub(crate) fn connect(path: &SocketPath) -> Result<Fd, Errno> {
    const SOCK_STREAM: usize = 1;
    const SOCK_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: takes no memory.
    let socket =
        unsafe { retry(number::SOCKET, usize::from(AF_UNIX), SOCK_STREAM | SOCK_CLOEXEC, 0, 0) }?;
    // The NUL belongs to the address.
    let length = offset_of!(UnixAddress, path).wrapping_add(path.length).wrapping_add(1);
    // SAFETY: the address is valid for that length, which `push` keeps within it.
    unsafe { retry(number::CONNECT, socket, address(&path.address), length, 0) }?;
    Ok(descriptor(socket))
}

#[repr(C)]
struct Message {
    name: usize,
    name_length: u32,
    parts: usize,
    part_count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
}

#[repr(C)]
struct Part {
    start: usize,
    length: usize,
}

/// What goes with a message or comes with one: a header, then descriptors.
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fds: [Fd; MAX_TERMINALS],
}

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;

/// The most bytes that [`rights`] writes.
pub(crate) const MOST_RIGHTS: usize = RIGHTS_HEAD + tool_wire::limits::MAX_FDS * size_of::<Fd>();
const RIGHTS_HEAD: usize = offset_of!(Control, fds);

/// Writes what makes descriptors go with a message to the start of `place`; how
/// many bytes that is, none for no descriptors or where they do not fit.
pub(crate) fn rights(fds: impl Iterator<Item = Fd>, place: &mut [u8]) -> usize {
    let mut length = RIGHTS_HEAD;
    for fd in fds {
        let Some(to) = place.get_mut(length..) else { return 0 };
        if !frame::copy(&fd.to_ne_bytes(), to) {
            return 0;
        }
        length = length.wrapping_add(size_of::<Fd>());
    }
    if length == RIGHTS_HEAD {
        return 0;
    }
    let [a, b, c, d] = SOL_SOCKET.to_ne_bytes();
    let [e, f, g, h] = SCM_RIGHTS.to_ne_bytes();
    let head = place.split_at_mut_checked(size_of::<usize>());
    let Some((first, second)) = head else { return 0 };
    let whole =
        frame::copy(&length.to_ne_bytes(), first) && frame::copy(&[a, b, c, d, e, f, g, h], second);
    if whole { length } else { 0 }
}

/// Sends from the start of `bytes`, perhaps not all, without waiting; what
/// [`rights`] wrote goes with the first byte. A socket that the other side
/// closed is an error, not a signal.
pub(crate) fn send(socket: Fd, bytes: &[u8], rights: &[u8]) -> Result<usize, Errno> {
    const MSG_DONTWAIT: usize = 0x40;
    const MSG_NOSIGNAL: usize = 0x4000;

    let part = Part { start: bytes.as_ptr().expose_provenance(), length: bytes.len() };
    let message = Message {
        name: 0,
        name_length: 0,
        parts: address(&part),
        part_count: 1,
        control: if rights.is_empty() { 0 } else { rights.as_ptr().expose_provenance() },
        control_length: rights.len(),
        flags: 0,
    };
    let flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    // SAFETY: the message points to one part, which is `bytes`, and to a
    // control block that is valid for the length it says; all outlive the call.
    unsafe { retry(number::SENDMSG, argument(socket), address(&message), flags, 0) }
}

/// Descriptors that came.
pub(crate) struct Came(Control);

impl Came {
    pub(crate) const NONE: Came =
        Came(Control { length: 0, level: 0, kind: 0, fds: [0; MAX_TERMINALS] });

    pub(crate) fn numbers(&self) -> &[Fd] {
        let Control { length, level, kind, fds } = &self.0;
        let count = length.saturating_sub(RIGHTS_HEAD) / size_of::<Fd>();
        let come = (*level, *kind) == (SOL_SOCKET, SCM_RIGHTS);
        fds.get(..count).filter(|_| come).unwrap_or_default()
    }
}

/// Takes in what is there, or waits for it: how many bytes, 0 is the end. If
/// descriptors come with them they are put into `came`; those that have no room
/// the kernel closes.
pub(crate) fn receive(socket: Fd, buffer: &mut [u8], came: &mut Came) -> Result<usize, Errno> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;

    let part = Part { start: buffer.as_mut_ptr().expose_provenance(), length: buffer.len() };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: address(&part),
        part_count: 1,
        control: from_mut(&mut came.0).expose_provenance(),
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let place = from_mut(&mut message).expose_provenance();
    // SAFETY: the message points to one part, which is `buffer`, and to a
    // control block of the length it says; both may be written to, and outlive
    // the call.
    unsafe { retry(number::RECVMSG, argument(socket), place, MSG_CMSG_CLOEXEC, 0) }
}
