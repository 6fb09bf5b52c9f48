//! The process: its directory, its mask for files, its end. Whatever way it
//! ends, a terminal that was changed is put back first.
//!
//! Must not: end without that.

use super::terminal::restore;
use super::{Errno, address, call, number, retry};

/// Ends the program.
pub(crate) fn exit(status: u8) -> ! {
    restore();
    loop {
        // SAFETY: takes no memory, and does not come back.
        unsafe { call(number::EXIT_GROUP, usize::from(status), 0, 0, 0) };
    }
}

/// Ends the program by that signal, as it would end one that does not handle
/// it, and leaves no core. Comes back if the signal does not end a program, or
/// not this one (the first process of a container ignores them).
pub(crate) fn die_of(signal: u8) {
    const SIG_UNBLOCK: usize = 1;
    const PR_SET_DUMPABLE: usize = 4;
    const RLIMIT_CORE: usize = 4;

    restore();
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

/// The current directory to the start of `buffer`; its length without the NUL.
pub(crate) fn current_directory(buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the buffer is valid for writing that many bytes.
    let length = unsafe {
        retry(number::GETCWD, buffer.as_mut_ptr().expose_provenance(), buffer.len(), 0, 0)
    }?;
    Ok(length.saturating_sub(1))
}

/// The file mode creation mask. It can only be read by setting it, and stays
/// set: this program makes no files.
pub(crate) fn umask() -> u32 {
    // SAFETY: takes no memory.
    let mask = unsafe { call(number::UMASK, 0o077, 0, 0, 0) }.cast_unsigned();
    // Nine bits.
    u32::try_from(mask & 0o777).unwrap_or_default()
}
