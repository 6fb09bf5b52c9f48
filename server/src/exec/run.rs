//! One call from an approved plan to its report.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tool_protocol::frame::Kind;
use tool_protocol::limits;

use super::output::{self, Capture, Chunk};
use super::plan::Plan;
use super::reaper::{Reaper, Started};
pub(crate) use super::supervise::Hear;
use super::supervise::{Outcome, supervise};
use super::tree::{Target, Trees};
use crate::os::cgroup::{Group, Tree};
use crate::os::descriptors::{self, Here};
use crate::os::foreign::Foreign;
use crate::os::root::Root;
use crate::os::spawn::{Image, Step};
use crate::policy::Approved;

/// How input and output of a call travel.
#[derive(Debug)]
pub(crate) enum Io {
    /// The caller's descriptors; `/dev/null` where there is none.
    Passed([Option<Foreign>; 3]),
    /// Empty input, all output in the report.
    Captured,
    /// Chunks both ways.
    Streamed {
        /// From the caller; an empty one is the end.
        input: mpsc::Receiver<Bytes>,
        /// To the caller.
        output: mpsc::Sender<Chunk>,
    },
}

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
            program: c"/nonexistent/probe",
            arguments: &[],
            environment: &[],
            directory: root.as_fd(),
            stdio: [self.null.as_fd(); 3],
            umask: 0o077,
            files: None,
            mark: None,
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
        let plumbing = match Plumbing::lay(io, &self.null) {
            Ok(plumbing) => plumbing,
            Err(errno) => {
                self.give_back(group);
                return Err(RunError::Resources(errno));
            }
        };
        let started = self.start(plan.get(), &plumbing, group.as_ref());
        let ours = plumbing.keep_ours();
        let Started { pid, mut end } = match started {
            Ok(started) => started,
            Err(error) => {
                self.give_back(group);
                return Err(error);
            }
        };
        tracing::debug!(%pid, "started");
        self.trees.leads(pid, plan.get().call);
        let finish = CancellationToken::new();
        let (capture, overflow) = Capture::new(limits::MAX_FRAME);
        let watch = async {
            let timeout = plan.get().timeout;
            let outcome = supervise(pid, &mut end, &mut hear, timeout, overflow).await;
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
            tokio::join!(watch, ours.carry(&capture, &finish, self.stall));
        self.give_back(group);
        Ok(Report { outcome, stdout, stderr, unkillable })
    }

    fn start(
        &self,
        plan: &Plan,
        plumbing: &Plumbing<'_>,
        group: Option<&Group>,
    ) -> Result<Started, RunError> {
        let image = Image {
            program: &plan.program,
            arguments: &plan.arguments,
            environment: &plan.environment,
            directory: plan.directory.as_fd(),
            stdio: plumbing.theirs(),
            umask: plan.umask,
            files: self.files,
            mark: self.trees.marks().map(|marks| marks.mark(plan.call)),
            cgroup: group.map(Group::as_fd),
        };
        self.reaper.start(&image).map_err(|error| match error.step {
            _ if passes(error.errno) => RunError::Resources(error.errno),
            Step::Clone | Step::Prepare => RunError::Forbidden(error.errno),
            Step::Directory => RunError::Directory(error.errno),
            Step::Exec => RunError::Exec(error.errno),
        })
    }

    /// After its tree was killed the process ends at once, unless the kernel
    /// cannot kill it (a dead NFS server): then the reaper keeps waiting for it,
    /// and the call does not.
    async fn await_end(&self, end: &mut oneshot::Receiver<crate::os::process::Exit>) {
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

/// Whether an error is a shortage, which passes.
fn passes(errno: Errno) -> bool {
    use Errno::{EAGAIN, EMFILE, ENFILE, ENOMEM, ENOSPC, ETXTBSY};
    // A program that is being replaced is busy for a moment.
    matches!(errno, EAGAIN | ENOMEM | EMFILE | ENFILE | ENOSPC | ETXTBSY)
}

/// The descriptors of a call: the child's ends, and ours.
struct Plumbing<'a> {
    null: &'a OwnedFd,
    theirs: [Option<Theirs>; 3],
    ours: Ours,
}

/// What becomes one of the child's descriptors.
enum Theirs {
    Passed(Foreign),
    Pipe(OwnedFd),
}

impl Theirs {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Theirs::Passed(foreign) => foreign.as_fd(),
            Theirs::Pipe(pipe) => Some(pipe.as_fd()),
        }
    }
}

/// What stays here once the child runs.
#[derive(Default)]
struct Ours {
    captured: Option<(OwnedFd, OwnedFd)>,
    streamed: Option<Streamed>,
}

struct Streamed {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    input: mpsc::Receiver<Bytes>,
    output: mpsc::Sender<Chunk>,
}

impl<'a> Plumbing<'a> {
    fn lay(io: Io, null: &'a OwnedFd) -> Result<Plumbing<'a>, Errno> {
        let pipe = |pipe| Some(Theirs::Pipe(pipe));
        let (theirs, ours) = match io {
            Io::Passed(descriptors) => {
                (descriptors.map(|one| one.map(Theirs::Passed)), Ours::default())
            }
            Io::Captured => {
                let (out, out_child) = descriptors::pipe(&Here::Read)?;
                let (err, err_child) = descriptors::pipe(&Here::Read)?;
                let ours = Ours { captured: Some((out, err)), streamed: None };
                ([None, pipe(out_child), pipe(err_child)], ours)
            }
            Io::Streamed { input, output } => {
                let (in_child, stdin) = descriptors::pipe(&Here::Write)?;
                let (stdout, out_child) = descriptors::pipe(&Here::Read)?;
                let (stderr, err_child) = descriptors::pipe(&Here::Read)?;
                let streamed = Streamed { stdin, stdout, stderr, input, output };
                let ours = Ours { captured: None, streamed: Some(streamed) };
                ([pipe(in_child), pipe(out_child), pipe(err_child)], ours)
            }
        };
        Ok(Plumbing { null, theirs, ours })
    }

    fn theirs(&self) -> [BorrowedFd<'_>; 3] {
        self.theirs
            .each_ref()
            .map(|one| one.as_ref().and_then(Theirs::as_fd).unwrap_or(self.null.as_fd()))
    }

    /// Closes the child's ends here: the child has its own copies, and a pipe
    /// whose writing end is open here would never end.
    fn keep_ours(self) -> Ours {
        self.ours
    }
}

impl Ours {
    async fn carry(
        self,
        capture: &Capture,
        finish: &CancellationToken,
        stall: Duration,
    ) -> (Vec<u8>, Vec<u8>) {
        if let Some((stdout, stderr)) = self.captured {
            return tokio::join!(capture.collect(stdout, finish), capture.collect(stderr, finish));
        }
        if let Some(Streamed { stdin, stdout, stderr, input, output }) = self.streamed {
            tokio::join!(
                output::feed(stdin, input, finish),
                output::stream(stdout, Kind::Stdout, output.clone(), finish, stall),
                output::stream(stderr, Kind::Stderr, output, finish, stall),
            );
        }
        (Vec::new(), Vec::new())
    }
}
