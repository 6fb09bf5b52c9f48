//! The signals that the server takes as data: a signalfd, and the signals
//! blocked so that no handler ever runs. That is also what makes a vfork child
//! safe: it shares memory with a process that has no handlers.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Some signals, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Signals {
    /// Blocks the signals, in this thread and all that it will start, and opens
    /// the descriptor. A thread that was there before would have them unblocked,
    /// and SIGCHLD, whose default is to be ignored, would be lost in it.
    pub(crate) fn open(signals: &[Signal]) -> Result<Signals, Errno> {
        let mut set = SigSet::empty();
        for signal in signals {
            set.add(*signal);
        }
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next signal that came, `None` where none waits.
    pub(crate) fn next(&self) -> Result<Option<Signal>, Errno> {
        match self.0.read_signal()? {
            None => Ok(None),
            Some(info) => {
                let number = i32::try_from(info.ssi_signo).unwrap_or(0);
                Ok(Signal::try_from(number).ok())
            }
        }
    }
}
