//! A call's terminal, as the server has it: a pty, and the leader of its session
//! (`leader`), which the tool runs beneath.
//!
//! Owns: what the leader is told and tells. Must not: read or write the
//! terminal; `run` does, where the caller cannot.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tool_protocol::Terminal as Wanted;
use tool_protocol::terminal::Size;

use super::leader::{Task, word};
use super::plan::Plan;
use crate::os::limit::Limit;
use crate::os::spawn::Step;
use crate::os::terminal::{Pair, set_size};

/// This program, to be executed anew as a leader; `None` where /proc does not
/// show it.
pub(crate) fn own_program() -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    nix::fcntl::open("/proc/self/exe", flags, Mode::empty()).ok()
}

/// Everything that exists before the leader does.
#[derive(Debug)]
pub(crate) struct Laid {
    /// What the leader gets, in the order of its numbers.
    slave: OwnedFd,
    theirs: OwnedFd,
    task: OwnedFd,
    /// The lowest of those numbers.
    pub(crate) first: RawFd,
    terminal: Terminal,
}

impl Laid {
    /// Makes a terminal for a tool whose other descriptors get these numbers.
    pub(crate) fn new(
        wanted: &Wanted,
        plan: &Plan,
        limits: Vec<Limit>,
        others: impl Iterator<Item = RawFd>,
    ) -> Result<Laid, Errno> {
        let Pair { master, slave } = Pair::new(wanted)?;
        let (ours, theirs) = StdStream::pair().map_err(|error| number(&error))?;
        ours.set_nonblocking(true).map_err(|error| number(&error))?;
        let control = UnixStream::from_std(ours).map_err(|error| number(&error))?;
        let behind = wanted.fds.iter().filter_map(|number| RawFd::try_from(*number).ok());
        let mut descriptors: Vec<RawFd> = others.chain(behind).collect();
        descriptors.sort_unstable();
        let task = Task {
            foreground: wanted.foreground,
            umask: plan.umask,
            limits,
            program: plan.program.clone(),
            arguments: plan.arguments.clone(),
            environment: plan.environment.clone(),
            descriptors,
        };
        let first = task.descriptors.last().copied().unwrap_or(0).max(2) + 1;
        let task = task.write().map_err(|error| number(&error))?;
        let terminal = Terminal { master, control };
        Ok(Laid { slave, theirs: theirs.into(), task, first, terminal })
    }

    /// What the leader has beside the tool's other descriptors.
    pub(crate) fn descriptors(&self, wanted: &Wanted) -> Vec<(BorrowedFd<'_>, RawFd)> {
        let behind = wanted.fds.iter().filter_map(|number| RawFd::try_from(*number).ok());
        let own = [&self.slave, &self.theirs, &self.task];
        behind
            .map(|number| (self.slave.as_fd(), number))
            .chain(own.into_iter().map(AsFd::as_fd).zip(self.first..))
            .collect()
    }

    /// What stays here once the leader runs: its ends are closed.
    pub(crate) fn keep_ours(self) -> Terminal {
        self.terminal
    }
}

fn number(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// A terminal whose leader runs.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
    control: UnixStream,
}

/// What a leader tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// The tool runs.
    Runs,
    /// It does not, and never will.
    Failed(Step, Errno),
    /// The tool was stopped by that signal.
    Stopped(i32),
}

impl Terminal {
    /// The end that relays.
    pub(crate) fn master(&self) -> Result<OwnedFd, Errno> {
        self.master.try_clone().map_err(|error| number(&error))
    }

    /// The next thing that the leader tells; `None` once it is gone. Giving up
    /// the future loses nothing: words come whole.
    pub(crate) async fn told(&mut self) -> Option<Told> {
        let mut said = [0; 2];
        loop {
            self.control.read_exact(&mut said).await.ok()?;
            let [kind, value] = said;
            let errno = Errno::from_raw(i32::from(value));
            return Some(match kind {
                word::RUNS => Told::Runs,
                word::UNPREPARED => Told::Failed(Step::Prepare, errno),
                word::NOT_EXECUTED => Told::Failed(Step::Exec, errno),
                word::STOPPED => Told::Stopped(i32::from(value)),
                _ => continue,
            });
        }
    }

    /// Sends a signal to the group in the terminal's foreground.
    pub(crate) fn signal(&self, signal: i32) {
        self.tell(word::SIGNAL, u8::try_from(signal).unwrap_or(0));
    }

    /// Puts the tool in the foreground, or not.
    pub(crate) fn set_foreground(&self, front: bool) {
        self.tell(word::FOREGROUND, u8::from(front));
    }

    /// Changes the size of the window.
    pub(crate) fn resize(&self, size: Size) {
        if let Err(errno) = set_size(self.master.as_fd(), size) {
            tracing::debug!(%errno, "the terminal keeps its size");
        }
    }

    fn tell(&self, kind: u8, number: u8) {
        // A leader that does not read was stopped by its own tool: what it is
        // told then is lost, as a signal to a dead process is.
        if let Err(error) = self.control.try_write(&[kind, number]) {
            tracing::debug!(%error, "the leader was not told");
        }
    }
}
