//! A call's terminals, as the server has them: ptys, and where one of them is the
//! controlling one the leader of its session (`leader`), which the tool runs
//! beneath.
//!
//! Owns: what the leader is told and tells. Must not: read or write a terminal,
//! or keep its master: whoever relays can hang it up.

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
use crate::os::terminal::Pair;

/// This program, to be executed anew as a leader; `None` where /proc does not
/// show it.
pub(crate) fn own_program() -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    nix::fcntl::open("/proc/self/exe", flags, Mode::empty()).ok()
}

/// The terminals of a call before anything runs.
#[derive(Debug)]
pub(crate) struct Laid {
    /// In the order in which they were asked for.
    pairs: Vec<Pair>,
    lead: Option<Lead>,
}

/// What a leader gets.
#[derive(Debug)]
struct Lead {
    /// Which of the terminals is the controlling one.
    controlling: usize,
    theirs: OwnedFd,
    task: OwnedFd,
    /// The lowest number of its three descriptors.
    first: RawFd,
    control: UnixStream,
}

impl Laid {
    /// Makes the terminals for a tool whose other descriptors get these numbers.
    pub(crate) fn new(
        wanted: &[Wanted],
        plan: &Plan,
        limits: &[Limit],
        others: impl Iterator<Item = RawFd>,
    ) -> Result<Laid, Errno> {
        let pairs = wanted.iter().map(Pair::new).collect::<Result<Vec<_>, _>>()?;
        let controlling = wanted.iter().enumerate().find(|(_, terminal)| terminal.controlling);
        let Some((controlling, terminal)) = controlling else {
            return Ok(Laid { pairs, lead: None });
        };
        let (ours, theirs) = StdStream::pair().map_err(|error| number(&error))?;
        ours.set_nonblocking(true).map_err(|error| number(&error))?;
        let control = UnixStream::from_std(ours).map_err(|error| number(&error))?;
        let mut descriptors: Vec<RawFd> = others.chain(wanted.iter().flat_map(numbers)).collect();
        descriptors.sort_unstable();
        let task = Task {
            foreground: terminal.foreground,
            umask: plan.umask,
            limits: limits.to_vec(),
            program: plan.program.clone(),
            arguments: plan.arguments.clone(),
            environment: plan.environment.clone(),
            descriptors,
        };
        // The lowest three in a row that the tool does not use.
        let free = |first: &RawFd| {
            task.descriptors.iter().all(|number| !(*first..*first + 3).contains(number))
        };
        let first = (3..).find(free).unwrap_or(3);
        let task = task.write().map_err(|error| number(&error))?;
        let lead = Lead { controlling, theirs: theirs.into(), task, first, control };
        Ok(Laid { pairs, lead: Some(lead) })
    }

    /// Where a leader finds its own descriptors; none where there is no leader.
    pub(crate) fn leader(&self) -> Option<RawFd> {
        self.lead.as_ref().map(|lead| lead.first)
    }

    /// What the tool has of them, and the leader beside.
    pub(crate) fn descriptors<'a>(&'a self, wanted: &[Wanted]) -> Vec<(BorrowedFd<'a>, RawFd)> {
        let mut all = Vec::new();
        for (pair, wanted) in self.pairs.iter().zip(wanted) {
            all.extend(numbers(wanted).map(|number| (pair.slave.as_fd(), number)));
        }
        if let Some(lead) = &self.lead
            && let Some(pair) = self.pairs.get(lead.controlling)
        {
            let own = [&pair.slave, &lead.theirs, &lead.task].map(AsFd::as_fd);
            all.extend(own.into_iter().zip(lead.first..));
        }
        all
    }

    /// What stays here once the process runs: its ends are closed.
    pub(crate) fn keep_ours(self) -> (Vec<OwnedFd>, Option<Leader>) {
        let masters = self.pairs.into_iter().map(|pair| pair.master).collect();
        (masters, self.lead.map(|lead| Leader { control: lead.control }))
    }
}

fn numbers(wanted: &Wanted) -> impl Iterator<Item = RawFd> {
    wanted.fds.iter().filter_map(|number| RawFd::try_from(*number).ok())
}

fn number(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// A leader that runs.
#[derive(Debug)]
pub(crate) struct Leader {
    control: UnixStream,
}

/// What a leader tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// The tool runs, and what the leader was told is done.
    Runs,
    /// It does not, and never will.
    Failed(Step, Errno),
    /// The tool was stopped by that signal.
    Stopped(i32),
}

impl Leader {
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
        self.tell(word::SIGNAL, u16::try_from(signal).unwrap_or(0), 0);
    }

    /// Puts the tool in the foreground, or not.
    pub(crate) fn set_foreground(&self, front: bool) {
        self.tell(word::FOREGROUND, u16::from(front), 0);
    }

    /// Asks it to say when it has done what it was told; whether it will.
    pub(crate) fn query(&self) -> bool {
        self.tell(word::QUERY, 0, 0)
    }

    /// Changes the size of the window.
    pub(crate) fn resize(&self, size: Size) {
        self.tell(word::SIZE, size.rows, size.cols);
    }

    /// Whether it was told.
    fn tell(&self, kind: u8, first: u16, second: u16) -> bool {
        let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
        // A leader that does not read was stopped by its own tool: what it is
        // told then is lost, as a signal to a dead process is.
        let told = self.control.try_write(&[kind, a, b, c, d]);
        if let Err(error) = &told {
            tracing::debug!(%error, "the leader was not told");
        }
        told.is_ok()
    }
}
