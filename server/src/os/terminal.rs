//! Pseudo-terminals: a master for whoever relays, a slave for a tool.
//!
//! Owns: making one, its size and first modes, who is in its foreground. Must
//! not: relay a byte.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{posix_openpt, unlockpt};
use nix::unistd::Pid;
use tool_protocol::terminal::{Size, Terminal};

/// A new terminal.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Whoever has this is the screen and the keyboard. Does not block.
    pub(crate) master: OwnedFd,
    /// The terminal itself. Nobody's controlling one yet.
    pub(crate) slave: OwnedFd,
}

impl Pair {
    /// Makes one of that size, with those modes.
    pub(crate) fn new(wanted: &Terminal) -> Result<Pair, Errno> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags)?;
        unlockpt(&master)?;
        // By its master, not by a name that another mount may shadow.
        let peer = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: TIOCGPTPEER takes open flags and gives a new descriptor.
        let slave = unsafe {
            let number = libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, peer);
            OwnedFd::from_raw_fd(Errno::result(number)?)
        };
        let master = OwnedFd::from(master);
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK))?;
        set_modes(slave.as_fd(), wanted)?;
        set_size(slave.as_fd(), wanted.size)?;
        Ok(Pair { master, slave })
    }
}

/// The kernel's struct termios, which TCGETS and TCSETS know.
#[repr(C)]
#[derive(Default)]
struct Termios {
    modes: [u32; 4],
    line: u8,
    chars: [u8; tool_protocol::terminal::CHARS],
}

fn set_modes(terminal: BorrowedFd<'_>, wanted: &Terminal) -> Result<(), Errno> {
    if wanted.modes.is_none() && wanted.chars.is_empty() {
        return Ok(());
    }
    let mut termios = Termios::default();
    // SAFETY: TCGETS fills in the struct of that layout, TCSETS reads it.
    unsafe {
        Errno::result(libc::ioctl(terminal.as_raw_fd(), libc::TCGETS, &raw mut termios))?;
        if let Some([input, output, control, local]) = wanted.modes {
            // Its speed and size of characters are a pty's own. EXTPROC would
            // have the line edited by whoever has the master: nobody does.
            let control = keep(control, [0, 0, termios.modes.get(2).copied().unwrap_or(0), 0]);
            termios.modes = [input, output, control, local & !libc::EXTPROC];
        }
        for (place, char) in termios.chars.iter_mut().zip(&wanted.chars) {
            *place = *char;
        }
        Errno::result(libc::ioctl(terminal.as_raw_fd(), libc::TCSETS, &raw const termios))?;
    }
    Ok(())
}

/// The control modes wanted, with the speeds that the pty has.
fn keep(wanted: u32, [.., own, _]: [u32; 4]) -> u32 {
    const SPEEDS: u32 = libc::CBAUD | libc::CIBAUD;
    (wanted & !SPEEDS) | (own & SPEEDS)
}

/// Tells a terminal, by either end, how large its window is; whoever is in its
/// foreground gets SIGWINCH if that is another size.
pub(crate) fn set_size(terminal: BorrowedFd<'_>, size: Size) -> Result<(), Errno> {
    let window = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const window) };
    Errno::result(result).map(drop)
}

/// Makes a terminal the controlling one of the session that this process leads.
pub(crate) fn take_control(terminal: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: TIOCSCTTY takes a number: 0, no stealing.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) };
    Errno::result(result).map(drop)
}

/// The process group in the foreground of this session's terminal.
pub(crate) fn foreground(terminal: BorrowedFd<'_>) -> Option<Pid> {
    nix::unistd::tcgetpgrp(terminal).ok()
}

/// Puts a process group of this session there. SIGTTOU is blocked.
pub(crate) fn set_foreground(terminal: BorrowedFd<'_>, group: Pid) -> Result<(), Errno> {
    nix::unistd::tcsetpgrp(terminal, group)
}
