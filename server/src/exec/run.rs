//! One call from its start (`start`) to its report.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tool_policy::Approved;
use tool_protocol::limits;

use super::ground::{Ground, NOBODY};
use super::hear::{Event, Hear};
use super::lacks::{Place, WITHOUT_PROC, without_namespaces};
use super::led::{Leader, Told, own_program};
use super::outlet::Open;
use super::output::Capture;
use super::plan::Plan;
use super::plumbing::Ours;
use super::reaper::{Reaper, Watch};
use super::report::{Report, RunError};
use super::start::failed;
use super::supervise::{Outcome, Reins, after, supervise};
use super::tree::{Target, Trees};
use crate::os::cgroup::{Bounds, Group, Tree};
use crate::os::descriptors;
use crate::os::foreign::HandedOn;
use crate::os::process::Exit;

/// Why calls have no cgroups although they are to.
const WITHOUT_CGROUPS: &str = "cgroups: none can be made here, or no process begins in one: mount \
    version 2 so that the server may write to its own cgroup, with cgroup.kill (Linux 5.14) and \
    clone3; until then [limits] hold for each process alone";

/// What every call shares.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(super) reaper: Reaper,
    pub(super) trees: Trees,
    pub(super) cgroups: Option<Mutex<Tree>>,
    pub(super) ground: Ground,
    pub(super) null: OwnedFd,
    /// This program, to lead.
    pub(super) own_program: Option<OwnedFd>,
    /// For what is waited for beside a call.
    pub(super) runtime: Handle,
    pub(super) files: Option<(u64, u64)>,
    pub(super) grace: Duration,
    /// How long a caller may take nothing of the output of a call that is over.
    pub(super) stall: Duration,
}

impl Executor {
    /// `files` is RLIMIT_NOFILE for tools where it is not the server's own; `asked`: the
    /// settings want cgroups.
    pub(crate) fn new(
        trees: Trees,
        asked: bool,
        cgroups: Option<Tree>,
        files: Option<(u64, u64)>,
        grace: Duration,
        stall: Duration,
    ) -> Result<Executor, Errno> {
        let (null, own_program) = (descriptors::null()?, own_program());
        let ground = Ground::find(own_program.as_ref(), &null, trees.marks());
        tracing::debug!(?ground, "what the machine gives to hold tools with");
        let mut executor = Executor {
            reaper: Reaper::new(trees.hunt())?,
            trees,
            cgroups: cgroups.map(Mutex::new),
            ground,
            null,
            own_program,
            runtime: Handle::current(),
            files,
            grace,
            stall,
        };
        executor.probe(None)?;
        // Where the server's own cgroup was once killed, some kernels kill a
        // process at birth that starts in another one.
        let group = executor.take_group(Bounds::default()).ok().flatten();
        if group.is_none() || executor.probe(group.as_ref()).is_err() {
            executor.cgroups = None;
        }
        if executor.cgroups.is_none() && asked {
            executor.ground.missing.push(WITHOUT_CGROUPS.to_owned());
        }
        executor.give_back(group);
        let somebody = executor.ground.switches.then_some(NOBODY);
        match executor.probe_spaces(somebody) {
            Ok(own_proc) => {
                (executor.ground.namespaces, executor.ground.own_proc) = (true, own_proc);
                executor.ground.missing.extend((!own_proc).then(|| WITHOUT_PROC.to_owned()));
            }
            Err(errno) => executor.ground.missing.push(without_namespaces(errno, Place::here())),
        }
        Ok(executor)
    }

    /// Where calls have cgroups, for people.
    pub(crate) fn cgroups(&self) -> Option<PathBuf> {
        let tree = self.cgroups.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(tree.path().to_owned())
    }

    /// What these are used for, in words, and what for they are not, with what to do.
    pub(crate) fn cgroup_uses(&self) -> (Vec<&'static str>, Option<String>) {
        let Some(tree) = &self.cgroups else { return (Vec::new(), None) };
        let tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
        (tree.uses(), tree.missing().map(str::to_owned))
    }

    /// What the machine gives to hold tools with.
    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The one that reaps.
    pub(crate) fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    /// The processes of calls.
    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
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
        let ran_out = running.group.as_ref().is_some_and(Group::ran_out);
        self.give_back(running.group);
        Report { ran_out, ..Report::of(Outcome::Exited(exit)) }
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
        let Running {
            pid,
            began,
            stopped,
            watch,
            ours,
            handed,
            masters,
            leader,
            group,
            on_terminal,
            outlet,
        } = running;
        let mut outlet = outlet;
        // The collector has let it go; if not, there would be nobody to wait for.
        let Watch { mut end, stops } = watch.unwrap_or_else(|| self.reaper.tell_task(pid));
        let (relay, relayed) = mpsc::channel(4);
        let relay = (ours.relays() && on_terminal).then_some(relay);
        let led = leader.is_some();
        let mut reins = Reins { pid, stops, relay, leader };
        let (timeout, redact) = (plan.get().timeout, plan.get().redact.as_ref());
        let left = || timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        if let Some(signal) = stopped {
            hear.tell(Event::Stopped(signal));
        }
        let told = self.introduce(plan.get(), &mut outlet, &mut reins, &mut hear, left()).await;
        let masters = match told {
            // Those of terminals that are relayed here stay.
            Ok(true) if !ours.relays() && !masters.is_empty() => {
                hear.tell(Event::Pty(masters));
                Vec::new()
            }
            Ok(true) => masters,
            Ok(false) => Vec::new(),
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
                let (call, group) = (plan.get().call, group.as_ref());
                let target = Target { call, leader: pid, led, group };
                unkillable = self.trees.end(target, self.grace).await;
                self.await_end(&mut end).await;
            }
            self.trees.ended(pid);
            drop(place);
            finish.cancel();
            (outcome, unkillable)
        };
        let ((outcome, unkillable), (stdout, stderr, seen)) = tokio::join!(
            watch,
            ours.carry(masters, relayed, &capture, redact, &finish, self.stall)
        );
        let ran_out = group.as_ref().is_some_and(Group::ran_out);
        self.give_back(group);
        handed.closed().await;
        // The tool may have ended before the last of its output was read.
        let outcome = match (outcome, capture.overflowed()) {
            (Outcome::Exited(_), Some(seen)) => Outcome::OutputTooLarge(seen),
            (outcome, _) => outcome,
        };
        Ok(Report { outcome, stdout, stderr, seen, unkillable, ran_out, hint: None })
    }

    /// Where there is a leader: waits until it has started the tool, and opens the
    /// way out that it has made. Whether all that is known; else whoever supervises
    /// ends the call.
    async fn introduce(
        &self,
        plan: &Plan,
        open: &mut Open,
        reins: &mut Reins,
        hear: &mut Hear,
        left: Option<Duration>,
    ) -> Result<bool, RunError> {
        let Some(leader) = &mut reins.leader else { return Ok(true) };
        let late = after(left);
        tokio::pin!(late);
        loop {
            let told = tokio::select! {
                biased;
                told = leader.told() => told,
                // The program may lie where nothing answers.
                () = hear.gone.cancelled() => return Ok(false),
                () = hear.stop.cancelled() => return Ok(false),
                () = &mut late => return Ok(false),
            };
            match told {
                Some(Told::Failed(step, errno)) => return Err(failed(step, errno)),
                Some(Told::Inside(listener, _)) => self.open(plan, open, Some(listener), None),
                Some(Told::Questions(asked)) => self.open(plan, open, None, Some(asked)),
                // That it is gone already comes by the reaper.
                Some(_) | None => return Ok(true),
            }
        }
    }

    /// After its tree was killed the process ends at once, unless the kernel
    /// cannot kill it (a dead NFS server): then the reaper keeps waiting for it,
    /// and the call does not.
    async fn await_end(&self, end: &mut oneshot::Receiver<Exit>) {
        drop(tokio::time::timeout(Duration::from_secs(1), end).await);
    }
}

/// A process of a call, and what stays here of it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) pid: Pid,
    /// When: its timeout counts from here, whoever attends to it.
    pub(super) began: Instant,
    /// By which signal it was stopped before anybody attended to it.
    pub(super) stopped: Option<i32>,
    /// Where a task is told of it.
    pub(super) watch: Option<Watch>,
    pub(super) ours: Ours,
    /// Closed before its end is told.
    pub(super) handed: HandedOn,
    pub(super) masters: Vec<OwnedFd>,
    pub(super) leader: Option<Leader>,
    pub(super) group: Option<Group>,
    /// It leads the session of a terminal.
    pub(super) on_terminal: bool,
    /// Its way out.
    pub(super) outlet: Open,
}

impl Running {
    /// Whether somebody has to attend to it from the start: what its leader tells is
    /// to be heard.
    pub(crate) fn is_led(&self) -> bool {
        self.leader.is_some()
    }

    /// What is to be closed before the end of a call is told that nobody attended to.
    pub(crate) fn handed_on(&mut self) -> HandedOn {
        std::mem::take(&mut self.handed)
    }
}
