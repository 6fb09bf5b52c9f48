//! Signals: blocked and read from a descriptor, so that none comes between two
//! steps; and stopping as a signal would stop the program.
//!
//! Must not: install a handler, or change what the caller ignores or blocks.

use super::{Errno, Fd, address, call, descriptor, number, read, result, retry};
use core::ptr::from_mut;

const SIG_BLOCK: usize = 0;
const SIG_UNBLOCK: usize = 1;
const SIGCONT: u8 = 18;

/// The bytes of a set of signals, as the kernel has it.
const SET: usize = size_of::<u64>();

fn change(how: usize, set: u64) -> u64 {
    let mut before = 0_u64;
    let place = from_mut(&mut before).expose_provenance();
    // SAFETY: both sets have the size that is given; the second one is written.
    unsafe { call(number::RT_SIGPROCMASK, how, address(&set), place, SET) };
    before
}

/// Blocks these signals too; those that were blocked before.
pub(crate) fn block(set: u64) -> u64 {
    change(SIG_BLOCK, set)
}

/// Blocks these no more.
pub(crate) fn unblock(set: u64) {
    change(SIG_UNBLOCK, set);
}

/// A descriptor to read these signals from, without waiting.
pub(crate) fn signal_descriptor(set: u64) -> Result<Fd, Errno> {
    const SFD_NONBLOCK: usize = 0o4000;
    const SFD_CLOEXEC: usize = 0o2_000_000;
    let new = usize::MAX;
    // SAFETY: the set has the size that is given.
    let fd =
        unsafe { retry(number::SIGNALFD4, new, address(&set), SET, SFD_NONBLOCK | SFD_CLOEXEC) }?;
    Ok(descriptor(fd))
}

/// The next signal that came, if one did.
pub(crate) fn next_signal(fd: Fd) -> Option<u8> {
    // The kernel's signalfd_siginfo: the signal's number comes first.
    let mut about = [0_u8; 128];
    read(fd, &mut about).ok()?;
    let (number, _) = about.split_first_chunk()?;
    u8::try_from(u32::from_ne_bytes(*number)).ok()
}

/// Whether that signal is ignored, as whoever started this program left it.
pub(crate) fn ignored(signal: u8) -> bool {
    const SIG_IGN: usize = 1;
    // The kernel's sigaction on both machines: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    let place = from_mut(&mut action).expose_provenance();
    // SAFETY: nothing is set; what is written has that layout and size.
    unsafe { call(number::RT_SIGACTION, usize::from(signal), 0, place, SET) };
    matches!(action, [SIG_IGN, ..])
}

/// The bit of a signal in a set.
fn bit(signal: u8) -> u64 {
    1_u64.checked_shl(u32::from(signal).wrapping_sub(1)).unwrap_or(0)
}

/// Sends a signal that stops to the whole group, or to this process alone, and
/// lets it act here if it is one of `blocked`. Comes back when the program runs
/// again; false if it never stopped: what stops nobody in an orphaned group, or
/// is ignored.
pub(crate) fn stop(signal: u8, group: bool, blocked: u64) -> bool {
    let set = bit(signal) & blocked;
    let number = usize::from(signal);
    // SAFETY: neither takes memory.
    unsafe {
        let to = if group { 0 } else { call(number::GETPID, 0, 0, 0, 0).cast_unsigned() };
        call(number::KILL, to, number, 0, 0);
    }
    if set != 0 {
        change(SIG_UNBLOCK, set);
        change(SIG_BLOCK, set);
    }
    // The signal that made it go on is pending; a stop takes away an older one.
    take_pending(SIGCONT)
}

/// Sends a signal that is blocked here to the whole group, but for this process.
pub(crate) fn signal_others(signal: u8) {
    // SAFETY: takes no memory.
    unsafe { call(number::KILL, 0, usize::from(signal), 0, 0) };
    take_pending(signal);
}

/// Takes that signal if it waits; whether it did.
fn take_pending(signal: u8) -> bool {
    let (set, now) = (bit(signal), [0_u64; 2]);
    // SAFETY: the set has the size that is given, the time is valid; nothing is
    // written.
    let took = unsafe { call(number::RT_SIGTIMEDWAIT, address(&set), 0, address(&now), SET) };
    result(took).is_ok()
}
