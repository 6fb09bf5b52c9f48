//! One call from an approved plan to its report.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tool_policy::Approved;
use tool_protocol::limits;

use super::hear::{Event, Hear};
use super::leader::command_line;
use super::output::Capture;
use super::plan::Plan;
use super::plumbing::{Io, Ours, Plumbing};
use super::reaper::{Reaper, Watch};
use super::report::{Report, RunError};
use super::supervise::{Outcome, Reins, after, supervise};
use super::terminal::{Laid, Leader, Told, own_program};
use super::tree::{Target, Trees};
use crate::os::cgroup::{Group, Tree};
use crate::os::descriptors;
use crate::os::limit::Limit;
use crate::os::process::Exit;
use crate::os::root::Root;
use crate::os::spawn::{Image, Leads, Program, Step};

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
        match self.reaper.start(&image, None) {
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

    /// Starts the plan. With `collector` it is `Reaper::collect` that tells of its
    /// end, until a task is to be told.
    pub(crate) fn start(
        &self,
        plan: &Approved<Plan>,
        io: Io,
        collector: Option<u64>,
    ) -> Result<Running, RunError> {
        let group = self.take_group();
        match self.start_in(plan.get(), io, group.as_ref(), collector) {
            Ok(mut running) => {
                self.trees.leads(running.pid, plan.get().call);
                running.group = group;
                Ok(running)
            }
            Err(error) => {
                self.give_back(group);
                Err(error)
            }
        }
    }

    /// A task will attend to a call of whose end the collector was to be told;
    /// `stopped` is a signal that it was told of already.
    pub(crate) fn let_go(&self, running: &mut Running, stopped: Option<i32>) {
        if running.watch.is_none() {
            running.watch = Some(self.reaper.tell_task(running.pid));
        }
        running.stopped = stopped;
    }

    /// The process of a call that nobody attended to has ended.
    pub(crate) fn ended(&self, running: Running, exit: Exit) -> Report {
        self.trees.ended(running.pid);
        self.give_back(running.group);
        Report::of(Outcome::Exited(exit))
    }

    /// Attends to a call until its end; `place` is held until its processes have
    /// ended, which may be before its output was taken. When this returns, the
    /// tool's process has ended; where something else than the process ended the
    /// call, so has every process of it.
    pub(crate) async fn attend(
        &self,
        plan: &Approved<Plan>,
        running: Running,
        mut hear: Hear,
        place: impl Send,
    ) -> Result<Report, RunError> {
        let Running { pid, began, stopped, watch, ours, masters, leader, group } = running;
        // The collector has let it go; if not, there would be nobody to wait for.
        let Watch { mut end, stops } = watch.unwrap_or_else(|| self.reaper.tell_task(pid));
        let (relay, relayed) = mpsc::channel(4);
        let relay = (ours.relays() && leader.is_some()).then_some(relay);
        let mut reins = Reins { pid, stops, relay, leader };
        let timeout = plan.get().timeout;
        let left = || timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        if let Some(signal) = stopped {
            hear.tell(Event::Stopped(signal));
        }
        let masters = match self.introduce(masters, &mut reins, &ours, &mut hear, left()).await {
            Ok(masters) => masters,
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
            let reaper = &self.reaper;
            let outcome =
                supervise(reaper, &mut reins, &mut end, &mut hear, left(), overflow).await;
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
        let ((outcome, unkillable), (stdout, stderr, seen)) =
            tokio::join!(watch, ours.carry(masters, relayed, &capture, &finish, self.stall));
        self.give_back(group);
        // The tool may have ended before the last of its output was read.
        let outcome = match (outcome, capture.overflowed()) {
            (Outcome::Exited(_), Some(seen)) => Outcome::OutputTooLarge(seen),
            (outcome, _) => outcome,
        };
        Ok(Report { outcome, stdout, stderr, seen, unkillable })
    }

    fn start_in(
        &self,
        plan: &Plan,
        io: Io,
        group: Option<&Group>,
        collector: Option<u64>,
    ) -> Result<Running, RunError> {
        let wanted = io.terminals().to_vec();
        let plumbing = Plumbing::lay(io, &self.null).map_err(RunError::Resources)?;
        let mut descriptors = plumbing.theirs();
        let mark = self.trees.marks().map(|marks| marks.mark(plan.call).as_limits());
        let mut limits: Vec<Limit> = self.files.map(Limit::files).into_iter().collect();
        limits.extend_from_slice(&plan.limits);
        let others = descriptors.iter().map(|(_, number)| *number);
        let laid = if wanted.is_empty() {
            None
        } else {
            Some(Laid::new(&wanted, plan, &limits, others).map_err(terminal_error)?)
        };
        if let Some(laid) = &laid {
            descriptors.extend(laid.descriptors(&wanted));
        }
        // Where there is a leader, that is what is started. It has the mark, and hands
        // it on; the limits are the tool's, and it sets them.
        let lead = laid.as_ref().and_then(Laid::leader).map(command_line);
        let (program, arguments, environment) = if let Some(arguments) = &lead {
            limits.clear();
            let own = self.own_program.as_ref().ok_or(RunError::Forbidden(Errno::ENOENT))?;
            (Program::Open(own.as_fd()), arguments.as_slice(), &[][..])
        } else {
            (Program::Named(&plan.program), &plan.arguments[..], &plan.environment[..])
        };
        limits.extend(mark.into_iter().flatten());
        let image = Image {
            program,
            arguments,
            environment,
            directory: Some(plan.directory.as_fd()),
            descriptors: &descriptors,
            umask: plan.umask,
            limits: &limits,
            leads: Leads::Session,
            cgroup: group.map(Group::as_fd),
        };
        let started = self.reaper.start(&image, collector);
        let (pid, watch) = started.map_err(|error| failed(error.step, error.errno))?;
        drop(descriptors);
        let (masters, leader) = laid.map_or((Vec::new(), None), Laid::keep_ours);
        Ok(Running {
            pid,
            began: Instant::now(),
            stopped: None,
            watch,
            ours: plumbing.keep_ours(),
            masters,
            leader,
            group: None,
        })
    }

    /// Where there is a leader: waits until it has started the tool. Gives the ends
    /// of terminals that relay to whoever does; those that are relayed here come
    /// back.
    async fn introduce(
        &self,
        masters: Vec<OwnedFd>,
        reins: &mut Reins,
        ours: &Ours,
        hear: &mut Hear,
        left: Option<Duration>,
    ) -> Result<Vec<OwnedFd>, RunError> {
        if let Some(leader) = &mut reins.leader {
            let told = tokio::select! {
                biased;
                told = leader.told() => told,
                // The program may lie where nothing answers. Whoever supervises
                // ends it.
                () = hear.gone.cancelled() => return Ok(Vec::new()),
                () = hear.stop.cancelled() => return Ok(Vec::new()),
                () = after(left) => return Ok(Vec::new()),
            };
            match told {
                Some(Told::Failed(step, errno)) => return Err(failed(step, errno)),
                // That it is gone already comes by the reaper.
                Some(Told::Runs | Told::Stopped(_)) | None => {}
            }
        }
        if ours.relays() || masters.is_empty() {
            return Ok(masters);
        }
        hear.tell(Event::Pty(masters));
        Ok(Vec::new())
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
#[derive(Debug)]
pub(crate) struct Running {
    pid: Pid,
    /// When: its timeout counts from here, whoever attends to it.
    began: Instant,
    /// By which signal it was stopped before anybody attended to it.
    stopped: Option<i32>,
    /// Where a task is told of it.
    watch: Option<Watch>,
    ours: Ours,
    masters: Vec<OwnedFd>,
    leader: Option<Leader>,
    group: Option<Group>,
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
