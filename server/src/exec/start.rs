//! An approved plan becomes a process: the tool's, or that of its leader.
//!
//! Owns: what the new process is given. Must not: wait for anything but its execve.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tool_policy::Approved;
use tracing::warn;

use super::bell::Bell;
use super::confinement::Confinement;
use super::leader::command_line;
use super::led::{Lead, Told, hear};
use super::outlet::{Open, Outlet, PORT};
use super::plan::Plan;
use super::plumbing::{Io, Plumbing};
use super::reaper::Started;
use super::report::RunError;
use super::run::{Executor, Running};
use super::task::{Confined, Task};
use super::terminal::Laid;
use crate::os::cgroup::{Bounds, Group};
use crate::os::identity::Identity;
use crate::os::limit::Limit;
use crate::os::root::Root;
use crate::os::spawn::{Image, Leads, Program, Step};

/// A leader, and the thread that lets its child go on.
const LEADER: u64 = 2;

/// How long the namespaces of a probe may take.
const PROBE: Duration = Duration::from_secs(5);

impl Executor {
    /// Starts the plan. With `collector` it is `Reaper::collect` that tells of its
    /// end, until a task is to be told.
    pub(crate) fn start(
        &self,
        plan: &Approved<Plan>,
        io: Io,
        collector: Option<u64>,
    ) -> Result<Running, RunError> {
        let group = self.take_group(bounds(plan.get(), &io))?;
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

    fn start_in(
        &self,
        plan: &Plan,
        io: Io,
        group: Option<&Group>,
        collector: Option<u64>,
    ) -> Result<Running, RunError> {
        let laid = Laid::new(io.terminals()).map_err(terminal_error)?;
        let plumbing = Plumbing::lay(io, &self.null).map_err(RunError::Resources)?;
        let mut descriptors = plumbing.theirs();
        descriptors.extend(laid.descriptors());
        descriptors.extend(plan.bell.as_ref().map(Bell::theirs));
        let mut limits: Vec<Limit> = self.files.map(Limit::files).into_iter().collect();
        limits.extend_from_slice(&plan.limits);
        let confinement = plan.confinement.as_ref();
        let spaces = confinement.is_some_and(|confinement| confinement.spaces);
        let terminal = laid.controlling();
        // Where there is a leader, that is what is started. It has the mark, and hands
        // it on; the limits and what confines are the tool's, and it sees to them.
        let lead = if terminal.is_some() || spaces {
            let numbers = descriptors.iter().map(|(_, number)| *number);
            let task = task(plan, numbers, &limits, terminal.map(|(_, front)| front));
            limits.clear();
            Some(Lead::new(&task).map_err(resources)?)
        } else {
            None
        };
        let asked = self.pair_for_questions(confinement, lead.is_none())?;
        let mut restraint = None;
        let own_line = lead.as_ref().map(|lead| command_line(lead.first()));
        let (program, arguments, environment) = match (&lead, &own_line) {
            (Some(lead), Some(line)) => {
                let slave = terminal.map(|(slave, _)| slave);
                let domain = confinement.map(|confinement| confinement.domain.as_fd());
                descriptors.extend(lead.descriptors(slave, domain));
                (self.own_program()?, line.as_slice(), &[][..])
            }
            _ => {
                restraint = confinement.map(Confinement::restraint);
                if let (Some(restraint), Some((_, theirs))) = (&mut restraint, &asked) {
                    restraint.listener = Some(theirs.as_fd());
                }
                (Program::Named(&plan.program), &plan.arguments[..], &plan.environment[..])
            }
        };
        let mark = self.trees.marks().map(|marks| marks.mark(plan.call).as_limits());
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
            restraint,
            cgroup: group.map(Group::as_fd),
            spaces,
        };
        // What a leader tells is to be heard from the start: by a task.
        let collector = collector.filter(|_| lead.is_none());
        let started = self.reaper.start(&image, collector);
        let Started { pid, watch, handle } =
            started.map_err(|error| failed(error.step, error.errno))?;
        let on_terminal = terminal.is_some();
        drop(descriptors);
        if let Some(lead) = lead.as_ref().filter(|_| spaces) {
            // Dropped, it has the leader end.
            let identity = confinement.and_then(|confinement| confinement.identity);
            lead.let_enter(pid, handle.as_ref(), identity).map_err(forbidden)?;
        }
        let leader = lead.map(|lead| lead.keep_ours(&self.runtime)).transpose();
        let mut outlet = Open::default();
        // In a network of its own the listener is made by the leader, and comes from it.
        if !spaces && leader.is_ok() {
            let asked = asked.and_then(|(ours, _)| questions(ours.as_fd()));
            self.open(plan, &mut outlet, None, asked);
        }
        let (ours, handed) = plumbing.keep_ours();
        Ok(Running {
            pid,
            began: Instant::now(),
            stopped: None,
            watch,
            ours,
            handed,
            masters: laid.keep_ours(),
            leader: leader.map_err(forbidden)?,
            group: None,
            on_terminal,
            outlet,
        })
    }

    /// Where a tool that has no leader sends the listener of its filter.
    fn pair_for_questions(
        &self,
        confinement: Option<&Confinement>,
        alone: bool,
    ) -> Result<Option<(StdStream, StdStream)>, RunError> {
        let asks = alone && confinement.is_some_and(|confinement| confinement.filter.notifies());
        let pair = asks.then(StdStream::pair).transpose();
        pair.map_err(|error| resources(number(&error)))
    }

    /// Takes what comes by the way out of a call; what cannot be opened is not there
    /// for its processes.
    pub(super) fn open(
        &self,
        plan: &Plan,
        open: &mut Open,
        listener: Option<OwnedFd>,
        questions: Option<OwnedFd>,
    ) {
        let Some(outlet) = plan.confinement.as_ref().and_then(|it| it.outlet.as_ref()) else {
            return;
        };
        match outlet.open(&self.runtime, listener, questions) {
            Ok(more) => open.join(more),
            Err(error) => warn!(%error, "the way out of a call could not be opened"),
        }
    }

    fn own_program(&self) -> Result<Program<'_>, RunError> {
        let own = self.own_program.as_ref().ok_or(RunError::Forbidden(Errno::ENOENT))?;
        Ok(Program::Open(own.as_fd()))
    }

    /// Whether a process can be started, and lives.
    pub(super) fn probe(&self, group: Option<&Group>) -> Result<(), Errno> {
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
            restraint: None,
            cgroup: group.map(Group::as_fd),
            spaces: false,
        };
        match self.reaper.start(&image, None) {
            Err(error) if error.step == Step::Exec => Ok(()),
            Err(error) => Err(error.errno),
            Ok(_) => Err(Errno::EPERM),
        }
    }

    /// Whether a call of that user can have namespaces: as far as its tool's start.
    /// Says whether they have a /proc of their own. Waits: for the start of the server.
    pub(super) fn probe_spaces(&self, identity: Option<Identity>) -> Result<bool, Errno> {
        let own = self.own_program().map_err(|_forbidden| Errno::ENOENT)?;
        let program = c"/nonexistent/probe".to_owned();
        let lead = Lead::new(&Task { spaces: Some(PORT), program, ..Task::default() })?;
        let root = Root::open(Path::new("/"))?;
        let line = command_line(lead.first());
        let image = Image {
            program: own,
            arguments: &line,
            environment: &[],
            directory: Some(root.as_fd()),
            descriptors: &lead.descriptors(None, None).collect::<Vec<_>>(),
            umask: 0o077,
            limits: &[],
            leads: Leads::Session,
            restraint: None,
            cgroup: None,
            spaces: true,
        };
        let started = self.reaper.start(&image, None).map_err(|error| error.errno)?;
        let known = |error: io::Error| number(&error);
        lead.let_enter(started.pid, started.handle.as_ref(), identity).map_err(known)?;
        let control = lead.keep_control();
        let mut fresh = false;
        loop {
            match hear_in_time(&control).map_err(known)? {
                Some(Told::Inside(_, is_fresh)) => fresh = is_fresh,
                // That it is not there: all before that was done.
                Some(Told::Failed(Step::Exec, _)) => return Ok(fresh),
                Some(Told::Failed(_, errno)) => return Err(errno),
                Some(_) => {}
                None => return Err(Errno::EPIPE),
            }
        }
    }

    /// A cgroup for a call, where calls have some. One that is to be bounded as a whole
    /// does not begin without.
    pub(super) fn take_group(&self, bounds: Bounds) -> Result<Option<Group>, RunError> {
        let Some(cgroups) = &self.cgroups else { return Ok(None) };
        let mut cgroups = cgroups.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = cgroups.hold(bounds);
        match cgroups.take(bounds) {
            Ok(group) => Ok(Some(group)),
            Err(_) if bounds.is_none() => Ok(None),
            Err(errno) => Err(RunError::Resources(errno)),
        }
    }

    pub(super) fn give_back(&self, group: Option<Group>) {
        if let (Some(cgroups), Some(group)) = (&self.cgroups, group) {
            cgroups.lock().unwrap_or_else(PoisonError::into_inner).give_back(group);
        }
    }
}

/// What all processes of a call may have together, by the limits that each of them has.
/// A leader and a thread of it are the server's affair.
fn bounds(plan: &Plan, io: &Io) -> Bounds {
    let spaces = plan.confinement.as_ref().is_some_and(|confinement| confinement.spaces);
    let own = if spaces || !io.terminals().is_empty() { LEADER } else { 0 };
    let processes = Limit::value(&plan.limits, "processes");
    Bounds {
        // Without room for one nothing begins; each process has its own limit too.
        processes: processes.map(|most| most.max(1).saturating_add(own)),
        memory: Limit::value(&plan.limits, "memory_bytes"),
    }
}

/// What the leader of a call is to do.
fn task(
    plan: &Plan,
    numbers: impl Iterator<Item = RawFd>,
    limits: &[Limit],
    terminal: Option<bool>,
) -> Task {
    let mut descriptors: Vec<RawFd> = numbers.collect();
    descriptors.sort_unstable();
    let confinement = plan.confinement.as_ref();
    let port = |outlet: &Outlet| outlet.address().port();
    Task {
        terminal,
        spaces: confinement
            .filter(|confinement| confinement.spaces)
            .map(|confinement| confinement.outlet.as_ref().map_or(PORT, port)),
        confined: confinement.map(|confinement| Confined {
            identity: confinement.identity,
            filter: Arc::clone(&confinement.filter),
        }),
        umask: plan.umask,
        descriptors,
        limits: limits.to_vec(),
        program: plan.program.clone(),
        arguments: plan.arguments.clone(),
        environment: plan.environment.clone(),
    }
}

/// The listener that a tool has sent before it ran: it lies there by now.
fn questions(ours: BorrowedFd<'_>) -> Option<OwnedFd> {
    match hear(ours) {
        Ok(Some(Told::Questions(listener))) => Some(listener),
        _ => None,
    }
}

/// The next word, waited for as long as the socket's own patience.
fn hear_in_time(control: &StdStream) -> io::Result<Option<Told>> {
    let mut polled = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(PROBE).unwrap_or(PollTimeout::MAX);
    if poll(&mut polled, patience)? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    hear(control.as_fd())
}

/// Why there is no process.
pub(super) fn failed(step: Step, errno: Errno) -> RunError {
    match step {
        _ if passes(errno) => RunError::Resources(errno),
        Step::Clone | Step::Prepare => RunError::Forbidden(errno),
        Step::Confine => RunError::Unconfined(errno),
        Step::Directory => RunError::Directory(errno),
        Step::Exec => RunError::Exec(errno),
    }
}

fn number(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn resources(errno: Errno) -> RunError {
    RunError::Resources(errno)
}

fn forbidden(error: io::Error) -> RunError {
    failed(Step::Prepare, number(&error))
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
