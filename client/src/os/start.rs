//! The start of the program: what the kernel left on the stack, the one block of
//! memory, and a panic, which is an end like any other.
//!
//! Must not: be called by anything but the kernel and the compiler.

use super::process::exit;
use crate::pty::Pty;
use crate::terminal::Terminal;
use core::ffi::{CStr, c_char};
use tool_wire::limits::MAX_TERMINALS;

/// The largest frame twice: a reply can be taken in while the one before it is
/// still in use, without moving bytes about.
const FRAME_MEMORY: usize = 2 * 65_540;
const SIDE_MEMORY: usize = 65_540;
const LINE_MEMORY: usize = 1_024;
/// A chunk of stdin with its head, and messages behind it.
const OUT_MEMORY: usize = 36_864;
const KEYS_MEMORY: usize = 256;
const SCREEN_MEMORY: usize = 65_540;

/// The memory of the program beside its stack: zeroed pages that cost nothing
/// until they are touched. What a plain call uses comes first, in one page
/// (link.ld puts it at the start of one; an alignment here would pad the file).
#[repr(C, align(16))]
pub(crate) struct Memory {
    /// The look for descriptors, then the request, then the messages that come in.
    pub(crate) frame: [u8; FRAME_MEMORY],
    /// Decoded output, the health reply, a directory that needs escapes.
    pub(crate) side: [u8; SIDE_MEMORY],
    /// One line for people.
    pub(crate) line: [u8; LINE_MEMORY],
    /// What is on its way to the server during a call.
    pub(crate) out: [u8; OUT_MEMORY],
    /// The caller's terminals, and the relays to the tool's.
    pub(crate) terminals: [Terminal; MAX_TERMINALS],
    pub(crate) ptys: [Pty; MAX_TERMINALS],
    /// What is typed, as a chunk.
    pub(crate) keys: [u8; KEYS_MEMORY],
    /// What a terminal is to show, of chunks.
    pub(crate) screen: [u8; SCREEN_MEMORY],
}

static mut MEMORY: Memory = Memory {
    frame: [0; FRAME_MEMORY],
    side: [0; SIDE_MEMORY],
    line: [0; LINE_MEMORY],
    out: [0; OUT_MEMORY],
    terminals: [const { Terminal::NONE }; MAX_TERMINALS],
    ptys: [const { Pty::NONE }; MAX_TERMINALS],
    keys: [0; KEYS_MEMORY],
    screen: [0; SCREEN_MEMORY],
};

/// The arguments or the environment: strings that live as long as the program.
#[derive(Clone)]
pub(crate) struct Strings {
    next: *const *const c_char,
}

impl Iterator for Strings {
    type Item = &'static [u8];

    #[inline(never)]
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
pub(super) extern "C" fn entry(stack: *const usize) -> ! {
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
