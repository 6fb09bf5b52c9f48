//! One call from an approved plan to its report.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tool_protocol::{Signal, limits};

use super::hear::{Event, Hear};
use super::leader::VERB;
use super::output::Capture;
use super::plan::Plan;
use super::plumbing::{Io, Plumbing};
use super::reaper::{Reaper, Started};
use super::supervise::{Outcome, Reins, supervise};
use super::terminal::{Laid, Terminal, Told, own_program};
use super::tree::{Target, Trees};
use crate::os::cgroup::{Group, Tree};
use crate::os::descriptors;
use crate::os::limit::Limit;
use crate::os::process::Exit;
use crate::os::root::Root;
use crate::os::spawn::{Image, Leads, Program, Step};
use crate::policy::Approved;

/// How a call ended, and its captured output.
#[derive(Debug)]
pub(crate) struct Report {
    /// What ended it.
    pub(crate) outcome: Outcome,
    /// Captured only.
    pub(crate) stdout: Vec<u8>,
    /// Captured only.
    pub(crate) stderr: Vec<u8>,
    /// Processes of the call that could not be killed.
    pub(crate) unkillable: usize,
}

impl Report {
    /// Of a tool that was to be ended by a signal before it was started.
    pub(crate) fn ended_by(signal: Signal) -> Report {
        let outcome = Outcome::Exited(Exit::Signal(signal.number()));
        Report { outcome, stdout: Vec::new(), stderr: Vec::new(), unkillable: 0 }
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

/// What every call shares.
#[derive(Debug)]
pub(crate) struct Executor {
    reaper: Reaper,
    trees: Trees,
    cgroups: Option<Mutex<Tree>>,
    null: OwnedFd,
    /// This program, to lead the sessions of terminals.
    own_program: Option<OwnedFd>,
    files: Option<(u64, u64)>,
    grace: Duration,
    /// How long a caller may take nothing of the output of a call that is over.
    stall: Duration,
}

impl Executor {
    /// `files` is RLIMIT_NOFILE for tools where it is not the server's own.
    pub(crate) fn new(
        trees: Trees,
        cgroups: Option<Tree>,
        files: Option<(u64, u64)>,
        grace: Duration,
        stall: Duration,
    ) -> Result<Executor, Errno> {
        let mut executor = Executor {
            reaper: Reaper::new(trees.hunt())?,
            trees,
            cgroups: cgroups.map(Mutex::new),
            null: descriptors::null()?,
            own_program: own_program(),
            files,
            grace,
            stall,
        };
        executor.probe(None)?;
        // Where the server's own cgroup was once killed, some kernels kill a
        // process at birth that starts in another one.
        let group = executor.take_group();
        if group.is_none() || executor.probe(group.as_ref()).is_err() {
            executor.cgroups = None;
        }
        executor.give_back(group);
        Ok(executor)
    }

    /// Whether a process can be started, and lives.
    fn probe(&self, group: Option<&Group>) -> Result<(), Errno> {
        let root = Root::open(Path::new("/"))?;
        let image = Image {
            // Nothing to run: that it gets as far as to find that out is the proof.
            program: Program::Named(c"/nonexistent/probe"),
            arguments: &[],
            environment: &[],
            directory: Some(root.as_fd()),
            descriptors: &[],
            umask: 0o077,
            limits: &[],
            leads: Leads::Session,
            cgroup: group.map(Group::as_fd),
        };
        match self.reaper.start(&image) {
            Err(error) if error.step == Step::Exec => Ok(()),
            Err(error) => Err(error.errno),
            Ok(_) => Err(Errno::EPERM),
        }
    }

    /// Where calls have cgroups, for people.
    pub(crate) fn cgroups(&self) -> Option<PathBuf> {
        let tree = self.cgroups.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(tree.path().to_owned())
    }

    /// The one that reaps.
    pub(crate) fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    /// The processes of calls.
    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
    }

    /// Runs the plan to its end; `place` is held until its processes have ended,
    /// which may be before its output was taken. When this returns, the tool's process has
    /// ended; where something else than the process ended the call, so has
    /// every process of it.
    pub(crate) async fn run(
        &self,
        plan: &Approved<Plan>,
        io: Io,
        mut hear: Hear,
        place: impl Send,
    ) -> Result<Report, RunError> {
        let group = self.take_group();
        let started = self.start(plan.get(), io, group.as_ref());
        let Running { pid, mut end, ours, terminal } = match started {
            Ok(running) => running,
            Err(error) => {
                self.give_back(group);
                return Err(error);
            }
        };
        tracing::debug!(%pid, "started");
        self.trees.leads(pid, plan.get().call);
        let mut reins = Reins { pid, terminal };
        let master = match self.introduce(&mut reins, &ours, &mut hear).await {
            Ok(master) => master,
            Err(error) => {
                self.trees.ended(pid);
                self.await_end(&mut end).await;
                self.give_back(group);
                return Err(error);
            }
        };
        let finish = CancellationToken::new();
        let (capture, overflow) = Capture::new(limits::MAX_FRAME);
        let watch = async {
            let timeout = plan.get().timeout;
            let outcome = supervise(&mut reins, &mut end, &mut hear, timeout, overflow).await;
            let mut unkillable = 0;
            if !matches!(outcome, Outcome::Exited(_)) {
                let target = Target { call: plan.get().call, leader: pid, group: group.as_ref() };
                unkillable = self.trees.end(target, self.grace).await;
                self.await_end(&mut end).await;
            }
            self.trees.ended(pid);
            drop(place);
            finish.cancel();
            (outcome, unkillable)
        };
        let ((outcome, unkillable), (stdout, stderr)) =
            tokio::join!(watch, ours.carry(master, &capture, &finish, self.stall));
        self.give_back(group);
        Ok(Report { outcome, stdout, stderr, unkillable })
    }

    fn start(&self, plan: &Plan, io: Io, group: Option<&Group>) -> Result<Running, RunError> {
        let wanted = io.terminal().cloned();
        let plumbing = Plumbing::lay(io, &self.null).map_err(RunError::Resources)?;
        let mut descriptors = plumbing.theirs();
        let mark = self.trees.marks().map(|marks| marks.mark(plan.call).as_limits());
        let mut limits: Vec<Limit> = self.files.map(Limit::files).into_iter().collect();
        limits.extend_from_slice(&plan.limits);
        let Some(wanted) = wanted else {
            limits.extend(mark.into_iter().flatten());
            let program = Program::Named(&plan.program);
            let what = What { program, arguments: &plan.arguments, environment: &plan.environment };
            let Started { pid, end } = self.launch(plan, what, &descriptors, &limits, group)?;
            drop(descriptors);
            return Ok(Running { pid, end, ours: plumbing.keep_ours(), terminal: None });
        };
        let own = self.own_program.as_ref().ok_or(RunError::Forbidden(Errno::ENOENT))?;
        let others = descriptors.iter().map(|(_, number)| *number);
        // The leader itself has the mark, and hands it on; the limits are the
        // tool's.
        let laid = Laid::new(&wanted, plan, limits, others).map_err(terminal_error)?;
        descriptors.extend(laid.descriptors(&wanted));
        let arguments = [c"tool-server".to_owned(), verb(), number(laid.first)];
        let what =
            What { program: Program::Open(own.as_fd()), arguments: &arguments, environment: &[] };
        let limits: Vec<Limit> = mark.into_iter().flatten().collect();
        let Started { pid, end } = self.launch(plan, what, &descriptors, &limits, group)?;
        drop(descriptors);
        let terminal = Some(laid.keep_ours());
        Ok(Running { pid, end, ours: plumbing.keep_ours(), terminal })
    }

    fn launch(
        &self,
        plan: &Plan,
        what: What<'_>,
        descriptors: &[(BorrowedFd<'_>, RawFd)],
        limits: &[Limit],
        group: Option<&Group>,
    ) -> Result<Started, RunError> {
        let image = Image {
            program: what.program,
            arguments: what.arguments,
            environment: what.environment,
            directory: Some(plan.directory.as_fd()),
            descriptors,
            umask: plan.umask,
            limits,
            leads: Leads::Session,
            cgroup: group.map(Group::as_fd),
        };
        self.reaper.start(&image).map_err(|error| failed(error.step, error.errno))
    }

    /// Where there is a terminal: waits until its leader has started the tool, and
    /// gives the end that relays to whoever does.
    async fn introduce(
        &self,
        reins: &mut Reins,
        ours: &super::plumbing::Ours,
        hear: &mut Hear,
    ) -> Result<Option<OwnedFd>, RunError> {
        let Some(terminal) = &mut reins.terminal else { return Ok(None) };
        let told = tokio::select! {
            biased;
            told = terminal.told() => told,
            // The program may lie where nothing answers. Whoever supervises ends it.
            () = hear.gone.cancelled() => return Ok(None),
            () = hear.stop.cancelled() => return Ok(None),
        };
        match told {
            Some(Told::Failed(step, errno)) => return Err(failed(step, errno)),
            // That it is gone already comes by the reaper.
            Some(Told::Runs | Told::Stopped(_)) | None => {}
        }
        let master = terminal.master().map_err(RunError::Resources)?;
        if ours.relays() {
            return Ok(Some(master));
        }
        hear.tell(Event::Pty(master));
        Ok(None)
    }

    /// After its tree was killed the process ends at once, unless the kernel
    /// cannot kill it (a dead NFS server): then the reaper keeps waiting for it,
    /// and the call does not.
    async fn await_end(&self, end: &mut oneshot::Receiver<Exit>) {
        drop(tokio::time::timeout(Duration::from_secs(1), end).await);
    }

    fn take_group(&self) -> Option<Group> {
        self.cgroups.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn give_back(&self, group: Option<Group>) {
        if let (Some(cgroups), Some(group)) = (&self.cgroups, group) {
            cgroups.lock().unwrap_or_else(PoisonError::into_inner).give_back(group);
        }
    }
}

/// A process of a call, and what stays here of it.
struct Running {
    pid: nix::unistd::Pid,
    end: oneshot::Receiver<Exit>,
    ours: super::plumbing::Ours,
    terminal: Option<Terminal>,
}

/// A program, and what it is given.
struct What<'a> {
    program: Program<'a>,
    arguments: &'a [std::ffi::CString],
    environment: &'a [std::ffi::CString],
}

fn verb() -> std::ffi::CString {
    std::ffi::CString::new(VERB).unwrap_or_default()
}

fn number(number: RawFd) -> std::ffi::CString {
    std::ffi::CString::new(number.to_string()).unwrap_or_default()
}

fn failed(step: Step, errno: Errno) -> RunError {
    match step {
        _ if passes(errno) => RunError::Resources(errno),
        Step::Clone | Step::Prepare => RunError::Forbidden(errno),
        Step::Directory => RunError::Directory(errno),
        Step::Exec => RunError::Exec(errno),
    }
}

/// A terminal that cannot be made: all are in use, or there is no /dev/ptmx.
fn terminal_error(errno: Errno) -> RunError {
    if passes(errno) { RunError::Resources(errno) } else { RunError::Terminal(errno) }
}

/// Whether an error is a shortage, which passes.
fn passes(errno: Errno) -> bool {
    use Errno::{EAGAIN, EMFILE, ENFILE, ENOMEM, ENOSPC, ETXTBSY};
    // A program that is being replaced is busy for a moment.
    matches!(errno, EAGAIN | ENOMEM | EMFILE | ENFILE | ENOSPC | ETXTBSY)
}
