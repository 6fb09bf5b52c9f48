//! How a call ended, or why it never began.

use nix::errno::Errno;
use tool_protocol::Signal;

use super::output::Seen;
use super::supervise::Outcome;
use crate::os::process::Exit;

/// How a call ended, and its captured output.
#[derive(Debug)]
pub(crate) struct Report {
    /// What ended it.
    pub(crate) outcome: Outcome,
    /// Captured only.
    pub(crate) stdout: Vec<u8>,
    /// Captured only.
    pub(crate) stderr: Vec<u8>,
    /// Bytes that passed here.
    pub(crate) seen: Seen,
    /// Processes of the call that could not be killed.
    pub(crate) unkillable: usize,
    /// A process of it was ended for the memory that all of them may have together.
    pub(crate) ran_out: bool,
    /// What whoever decided on it has to say about how it ended, and what to do.
    pub(crate) hint: Option<(String, String)>,
}

impl Report {
    /// Of a tool that was to be ended by a signal before it was started.
    pub(crate) fn ended_by(signal: Signal) -> Report {
        Report::of(Outcome::Exited(Exit::Signal(signal.number())))
    }

    /// Of work that was done without a process, as an exit status.
    pub(crate) fn said(status: u8) -> Report {
        Report::of(Outcome::Exited(Exit::Code(status)))
    }

    /// Without output.
    pub(super) fn of(outcome: Outcome) -> Report {
        let seen = Seen::default();
        let (stdout, stderr) = (Vec::new(), Vec::new());
        Report { outcome, stdout, stderr, seen, unkillable: 0, ran_out: false, hint: None }
    }
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// No process, no descriptor, no memory at this moment.
    #[error("cannot start a process: {0}")]
    Resources(#[source] Errno),
    /// The kernel does not allow it, now or later.
    #[error("cannot start a process: {0}")]
    Forbidden(#[source] Errno),
    /// It could not be confined, and so did not run.
    #[error("cannot confine a process: {0}")]
    Unconfined(#[source] Errno),
    /// The directory was there and could not be entered.
    #[error("cannot enter the directory: {0}")]
    Directory(#[source] Errno),
    /// There is no terminal to be had.
    #[error("cannot make a terminal: {0}")]
    Terminal(#[source] Errno),
    /// The program could not be executed.
    #[error("cannot execute: {0}")]
    Exec(#[source] Errno),
}
