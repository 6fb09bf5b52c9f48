//! The kernel, and nothing above it: system calls as safe functions, the start
//! of the program, its memory. The only place with unsafe code.
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

use arch::{call, number};
use core::ffi::CStr;
use core::mem::{offset_of, size_of, size_of_val};
use core::ptr::{from_mut, from_ref, null_mut};
use tool_wire::frame;

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
    pub(crate) const EPIPE: Errno = Errno(32);
    pub(crate) const ECONNRESET: Errno = Errno(104);
    pub(crate) const ECONNREFUSED: Errno = Errno(111);
}

// ---- The start and the memory of the program ------------------------------

/// The largest frame twice: a reply can be taken in while the one before it is
/// still in use, without moving bytes about.
const FRAME_MEMORY: usize = 2 * 65_540;
const SIDE_MEMORY: usize = 65_540;
const LINE_MEMORY: usize = 1_024;

/// The memory of the program beside its stack: zeroed pages that cost nothing
/// until they are touched. What a plain call uses comes first, in one page
/// (link.ld puts it at the start of one; an alignment here would pad the file).
#[repr(C, align(16))]
pub(crate) struct Memory {
    /// The request, and after it the messages that come in.
    pub(crate) frame: [u8; FRAME_MEMORY],
    /// Decoded output, the health reply, stdin on its way to the socket.
    pub(crate) side: [u8; SIDE_MEMORY],
    /// One line for people.
    pub(crate) line: [u8; LINE_MEMORY],
}

static mut MEMORY: Memory =
    Memory { frame: [0; FRAME_MEMORY], side: [0; SIDE_MEMORY], line: [0; LINE_MEMORY] };

/// The arguments or the environment: strings that live as long as the program.
#[derive(Clone)]
pub(crate) struct Strings {
    next: *const *const core::ffi::c_char,
}

impl Iterator for Strings {
    type Item = &'static [u8];

    fn next(&mut self) -> Option<&'static [u8]> {
        // SAFETY: `next` points into a list that the kernel made, which ends
        // with a null; it is never moved past that.
        let string = unsafe { *self.next };
        if string.is_null() {
            return None;
        }
        // SAFETY: the entry read was not the null, so another one follows; it
        // points to a string with a NUL, which nobody writes to.
        unsafe {
            self.next = self.next.add(1);
            Some(CStr::from_ptr(string).to_bytes())
        }
    }
}

/// Called by `_start` with the stack as the kernel made it: argc, the
/// arguments, a null, the environment, a null.
extern "C" fn entry(stack: *const usize) -> ! {
    // SAFETY: `_start` calls this once, with that stack.
    let (arguments, environment) = unsafe {
        let count = *stack;
        (stack.add(1).cast(), stack.add(count.wrapping_add(2)).cast())
    };
    let memory = &raw mut MEMORY;
    // SAFETY: `entry` runs once and there are no threads: this is the only
    // reference to it that there ever is.
    let memory = unsafe { &mut *memory };
    crate::main(Strings { next: arguments }, Strings { next: environment }, memory)
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(125)
}

/// Ends the program.
pub(crate) fn exit(status: u8) -> ! {
    loop {
        // SAFETY: takes no memory, and does not come back.
        unsafe { call(number::EXIT_GROUP, usize::from(status), 0, 0, 0) };
    }
}

// ---- Calls ----------------------------------------------------------------

/// Where a value is. Exposed: the compiler then knows that the kernel may look.
fn address<T>(value: &T) -> usize {
    from_ref(value).expose_provenance()
}

/// A descriptor as an argument of a system call.
fn argument(fd: Fd) -> usize {
    // A negative one stays invalid: the kernel looks at the low 32 bits.
    fd.cast_unsigned() as usize
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
unsafe fn retry(number: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize, Errno> {
    loop {
        // SAFETY: the caller vouches for it.
        match result(unsafe { call(number, a, b, c, d) }) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

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
                poll(&mut [Poll::new(fd, Poll::WRITE)], true)?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// What to wait for on a descriptor, and what came.
#[repr(C)]
pub(crate) struct Poll {
    fd: Fd,
    events: u16,
    happened: u16,
}

impl Poll {
    pub(crate) const READ: u16 = 1;
    pub(crate) const WRITE: u16 = 4;

    /// Waits for `events` on `fd`; for nothing at all if there are none.
    pub(crate) fn new(fd: Fd, events: u16) -> Poll {
        Poll { fd: if events == 0 { -1 } else { fd }, events, happened: 0 }
    }

    /// Whether an event that was asked for came. An error or the end of the
    /// other side counts as each of them: the next read or write tells.
    pub(crate) fn is(&self, event: u16) -> bool {
        const ERROR: u16 = 0x08;
        const HANG_UP: u16 = 0x10;
        self.events & event != 0 && self.happened & (event | ERROR | HANG_UP) != 0
    }

    /// Whether there is no such descriptor.
    pub(crate) fn is_closed(&self) -> bool {
        const INVALID: u16 = 0x20;
        self.happened & INVALID != 0
    }
}

/// Looks at the descriptors; waits until something happens if `wait` says so.
pub(crate) fn poll(polls: &mut [Poll], wait: bool) -> Result<usize, Errno> {
    // The kernel writes to it what is left of the time.
    let mut now = [0_u64; 2];
    let timeout = if wait { null_mut() } else { from_mut(&mut now) };
    let (list, count) = (polls.as_mut_ptr().expose_provenance(), polls.len());
    // SAFETY: the list is valid for its length, the time is null or valid; no
    // signal set is given.
    unsafe { retry(number::PPOLL, list, count, timeout.expose_provenance(), 0) }
}

/// The current directory to the start of `buffer`; its length without the NUL.
pub(crate) fn current_directory(buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer is valid for writing that many bytes.
    let length = unsafe {
        retry(number::GETCWD, buffer.as_mut_ptr().expose_provenance(), buffer.len(), 0, 0)
    }?;
    Ok(length.saturating_sub(1))
}

/// The file mode creation mask. It can only be read by setting it.
pub(crate) fn umask() -> u32 {
    // SAFETY: takes no memory; there is no other thread that could see the
    // mask in between.
    let mask = unsafe {
        let mask = call(number::UMASK, 0, 0, 0, 0).cast_unsigned() & 0o777;
        call(number::UMASK, mask, 0, 0, 0);
        mask
    };
    // Nine bits.
    u32::try_from(mask).unwrap_or_default()
}

// ---- The socket -----------------------------------------------------------

const AF_UNIX: u16 = 1;

/// The most bytes of a socket's path; one more is its NUL.
pub(crate) const SOCKET_PATH: usize = 107;

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
            self.length = self.length.saturating_add(bytes.len());
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
    let length = offset_of!(UnixAddress, path).saturating_add(path.length).saturating_add(1);
    // SAFETY: the address is valid for that length, which `push` keeps within it.
    unsafe { retry(number::CONNECT, socket, address(&path.address), length, 0) }?;
    // The kernel gives descriptors as an int.
    Ok(Fd::try_from(socket).unwrap_or(-1))
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

/// The most descriptors that a request passes: 0, 1 and 2.
pub(crate) const PASSED: usize = 3;

#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fds: [Fd; PASSED + 1],
}

/// Sends from the start of `bytes`, perhaps not all; `fds` (at most
/// [`PASSED`]) go with the first byte. A socket that the other side closed is
/// an error, not a signal.
pub(crate) fn send(socket: Fd, bytes: &[u8], fds: &[Fd], wait: bool) -> Result<usize, Errno> {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    const MSG_DONTWAIT: usize = 0x40;
    const MSG_NOSIGNAL: usize = 0x4000;

    let mut control =
        Control { length: 0, level: SOL_SOCKET, kind: SCM_RIGHTS, fds: [-1; PASSED + 1] };
    for (place, fd) in control.fds.iter_mut().zip(fds) {
        *place = *fd;
    }
    control.length = offset_of!(Control, fds).saturating_add(size_of_val(fds));
    let part = Part { start: bytes.as_ptr().expose_provenance(), length: bytes.len() };
    let message = Message {
        name: 0,
        name_length: 0,
        parts: address(&part),
        part_count: 1,
        control: if fds.is_empty() { 0 } else { address(&control) },
        control_length: if fds.is_empty() { 0 } else { control.length },
        flags: 0,
    };
    let flags = MSG_NOSIGNAL | if wait { 0 } else { MSG_DONTWAIT };
    // SAFETY: the message points to one part, which is `bytes`, and to a
    // control block that is valid for the length it says; all outlive the call.
    unsafe { retry(number::SENDMSG, argument(socket), address(&message), flags, 0) }
}

// ---- Signals --------------------------------------------------------------

/// Ends the program by that signal, as it would end one that does not handle
/// it, and leaves no core. Comes back if the signal does not end a program, or
/// not this one (the first process of a container ignores them).
pub(crate) fn die_of(signal: u8) {
    const SIG_UNBLOCK: usize = 1;
    const PR_SET_DUMPABLE: usize = 4;
    const RLIMIT_CORE: usize = 4;

    let signal = usize::from(signal);
    // The kernel's sigaction on both machines: handler, flags, restorer, mask.
    let default = [0_usize; 4];
    let set = 1_u64.checked_shl(u32::try_from(signal.wrapping_sub(1)).unwrap_or(64)).unwrap_or(0);
    let no_core = [0_u64; 2];
    // SAFETY: each address is that of a value of the layout and size that the
    // call reads; none of them writes.
    unsafe {
        call(number::PRLIMIT64, 0, RLIMIT_CORE, address(&no_core), 0);
        // Where cores go to a program, it gets them whatever the limit says.
        call(number::PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
        call(number::RT_SIGACTION, signal, address(&default), 0, size_of::<u64>());
        call(number::RT_SIGPROCMASK, SIG_UNBLOCK, address(&set), 0, size_of::<u64>());
        let pid = call(number::GETPID, 0, 0, 0, 0).cast_unsigned();
        call(number::KILL, pid, signal, 0, 0);
    }
}
