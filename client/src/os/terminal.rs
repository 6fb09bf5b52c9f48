//! Terminals: their modes, size and foreground group. Remembers those that
//! were changed and how they were, so that any end of the program can put them back.
//!
//! Must not: change a terminal that this process may not: one whose foreground
//! is another group.

use super::{Errno, Fd, address, argument, call, number, result, retry};
use core::ptr::from_mut;

// The same on both machines.
const TCGETS: usize = 0x5401;
const TCSETSW: usize = 0x5403;
const TIOCGPGRP: usize = 0x540f;
const TIOCGWINSZ: usize = 0x5413;
const TIOCSWINSZ: usize = 0x5414;
const TIOCGDEV: usize = 0x8004_5432;

/// The kernel's struct termios.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Modes {
    /// c_iflag, c_oflag, c_cflag, c_lflag.
    pub(crate) flags: [u32; 4],
    line: u8,
    pub(crate) chars: [u8; 19],
}

impl Modes {
    pub(crate) const NONE: Modes = Modes { flags: [0; 4], line: 0, chars: [0; 19] };
}

/// The kernel's struct winsize: rows, columns, and pixels that nobody has.
pub(crate) type Window = [u16; 4];

/// The terminals that are not as they were, and how they were: the controlling one
/// and one that is the input. Looked at by every end of the program: link.ld puts it beside what every call has touched.
#[unsafe(link_section = ".bss.first")]
static mut CHANGED: [Option<(Fd, Modes)>; 2] = [None; 2];

/// Asks the kernel for something about a terminal, which it writes to `place`.
///
/// # Safety
/// What that request writes has the size of a `T`, and any bytes are one.
unsafe fn ask<T>(fd: Fd, request: usize, place: &mut T) -> Result<(), Errno> {
    let place = from_mut(place).expose_provenance();
    // SAFETY: the place is valid for what the request writes, says the caller.
    unsafe { retry(number::IOCTL, argument(fd), request, place, 0) }.map(|_| ())
}

/// The modes of a terminal; an error for everything else.
pub(crate) fn modes(fd: Fd) -> Result<Modes, Errno> {
    let mut modes = Modes::NONE;
    // SAFETY: TCGETS writes a struct termios, which is integers only.
    unsafe { ask(fd, TCGETS, &mut modes) }.map(|()| modes)
}

/// The size of a terminal; an error for one that is gone.
pub(crate) fn window(fd: Fd) -> Result<Window, Errno> {
    let mut window = [0; 4];
    // SAFETY: TIOCGWINSZ writes a struct winsize.
    unsafe { ask(fd, TIOCGWINSZ, &mut window) }.map(|()| window)
}

pub(crate) fn set_window(fd: Fd, window: Window) {
    // SAFETY: TIOCSWINSZ reads a struct winsize.
    unsafe { call(number::IOCTL, argument(fd), TIOCSWINSZ, address(&window), 0) };
}

/// Which terminal it is.
pub(crate) fn device(fd: Fd) -> Result<u32, Errno> {
    let mut device = 0_u32;
    // SAFETY: TIOCGDEV writes an unsigned int.
    unsafe { ask(fd, TIOCGDEV, &mut device) }.map(|()| device)
}

/// Whether this process is in the terminal's foreground group; an error
/// (ENOTTY) if it is not its controlling terminal.
pub(crate) fn in_foreground(fd: Fd) -> Result<bool, Errno> {
    let mut group = 0_i32;
    // SAFETY: TIOCGPGRP writes an int.
    unsafe { ask(fd, TIOCGPGRP, &mut group) }?;
    // SAFETY: takes no memory.
    let own = result(unsafe { call(number::GETPGID, 0, 0, 0, 0) })?;
    Ok(usize::try_from(group).is_ok_and(|group| group == own))
}

/// Gives the terminal other modes until [`restore`], which gives it those of
/// `before`.
pub(crate) fn change(fd: Fd, before: &Modes, to: &Modes) {
    let mut all = changes();
    for place in &mut all {
        if place.is_none_or(|(known, _)| known == fd) {
            *place = Some((fd, *before));
            break;
        }
    }
    // SAFETY: one thread; nothing refers to it.
    unsafe { CHANGED = all };
    // SAFETY: TCSETSW reads a struct termios. Made again when interrupted: what
    // is in the foreground when asked may be stopped before it is done.
    let _done = unsafe { retry(number::IOCTL, argument(fd), TCSETSW, address(to), 0) }.is_ok();
}

fn changes() -> [Option<(Fd, Modes)>; 2] {
    // SAFETY: one thread; the value is copied.
    unsafe { CHANGED }
}

/// How the terminal was, if it is not so now.
pub(crate) fn changed(fd: Fd) -> Option<Modes> {
    changes().into_iter().flatten().find(|(known, _)| *known == fd).map(|(_, before)| before)
}

/// Whether any terminal is not as it was.
pub(crate) fn any_changed() -> bool {
    let [first, _] = changes();
    first.is_some()
}

/// Puts the terminals back as they were, those that were changed and are still
/// this program's to change.
pub(crate) fn restore() {
    if !any_changed() {
        return;
    }
    for (fd, before) in changes().into_iter().flatten() {
        if in_foreground(fd) != Ok(false) {
            // SAFETY: TCSETSW reads a struct termios.
            unsafe { call(number::IOCTL, argument(fd), TCSETSW, address(&before), 0) };
        }
    }
    // SAFETY: one thread; nothing refers to it.
    unsafe { CHANGED = [None; 2] };
}
