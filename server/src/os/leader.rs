//! What a leader (exec::leader) does to itself: it is this program,
//! executed anew, with one thread and nothing of the server's.
//!
//! Owns: the descriptors that it was started with, its signals, its end. Must
//! not: be called by the server.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::process::Exit;

/// A descriptor that the server has placed for this program.
pub(crate) fn inherited(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: F_SETFD asks nothing of memory, and fails where the number is not
    // open. Then the server placed it there for us; each number is asked for once,
    // before anything else owns a descriptor of that number.
    unsafe {
        Errno::result(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Descriptors of those numbers, each to keep its number in a child.
pub(crate) fn placed(numbers: &[RawFd]) -> Vec<(BorrowedFd<'static>, RawFd)> {
    let same = |number: &RawFd| {
        // SAFETY: the server placed it; nothing in this program owns or closes it
        // before `close_placed`, which comes after the last use.
        (unsafe { BorrowedFd::borrow_raw(*number) }, *number)
    };
    numbers.iter().filter(|number| **number >= 0).map(same).collect()
}

/// Closes descriptors of those numbers: the tool's own, of which it alone shall
/// decide when they are closed.
pub(crate) fn close_placed(numbers: &[RawFd]) {
    for number in numbers {
        // SAFETY: the server placed it, and nothing in this program owns it.
        unsafe { libc::close(*number) };
    }
}

/// What woke the leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    /// The server has something to say, or is gone.
    pub(crate) server: bool,
    /// A child has changed.
    pub(crate) child: bool,
    /// The terminal was hung up: whoever had its other end is gone.
    pub(crate) hung_up: bool,
}

/// Signals, all of them held back.
#[derive(Debug)]
pub(crate) struct Held(SignalFd);

impl Held {
    /// Blocks every signal: none may end the leader before its tool, and a key
    /// pressed while the tool is in the background is nothing to it.
    pub(crate) fn new() -> Result<Held, Errno> {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
        let mut heard = SigSet::empty();
        heard.add(Signal::SIGCHLD);
        heard.add(Signal::SIGHUP);
        Ok(Held(SignalFd::with_flags(&heard, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits for the server or a child.
    pub(crate) fn wait(&self, server: BorrowedFd<'_>) -> Result<Woken, Errno> {
        let mut polls = [
            PollFd::new(server, PollFlags::POLLIN),
            PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
        ];
        loop {
            match poll(&mut polls, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
                Ok(_) => break,
            }
        }
        let [server, signals] = polls.map(|poll| poll.any().unwrap_or(true));
        let mut woken = Woken { server, child: false, hung_up: false };
        while signals && let Ok(Some(signal)) = self.0.read_signal() {
            let hung_up = signal.ssi_signo == libc::SIGHUP.cast_unsigned();
            woken.hung_up |= hung_up;
            woken.child |= !hung_up;
        }
        Ok(woken)
    }
}

/// Ends as the tool ended, so that whoever waits for the leader sees that; of a
/// signal without a core file, which the tool may have left.
pub(crate) fn end_as(exit: Exit) -> ! {
    let status = match exit {
        Exit::Code(code) => i32::from(code),
        Exit::Signal(number) => {
            let none = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: reads one struct; takes numbers.
            unsafe {
                libc::setrlimit64(libc::RLIMIT_CORE, &raw const none);
                libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
                // Whatever whoever executed this program had ignored.
                libc::signal(number, libc::SIG_DFL);
            }
            if let Ok(signal) = Signal::try_from(number) {
                kill(Pid::this(), signal).ok();
                // Only this one: another may wait, and would come first.
                let mut only = SigSet::empty();
                only.add(signal);
                sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), None).ok();
            }
            128 + number
        }
    };
    // SAFETY: ends the process; nothing in it is to be tidied up.
    unsafe { libc::_exit(status) }
}
