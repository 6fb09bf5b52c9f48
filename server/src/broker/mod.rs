//! The main path: what happens to a call, in the order in which it happens.
//!
//! 1. **find** the tool, in the registry of this moment; an unknown name makes
//!    the registry look at the disk once
//! 2. **admit** it: limits in all, by tool, by peer
//! 3. **enter** the directory, beneath a workspace root, by descriptor
//! 4. **plan** it: program, arguments, environment, directory: immutable
//! 5. **decide** on the plan; what is approved is that very plan
//! 6. **run** it and supervise it to its end
//! 7. **record** it
//! 8. **answer**
//!
//! Bytes become a [`Request`] in `listen`, above; the process is made in
//! `exec`, below. [`Broker::call`] is the list.

mod admission;
mod environment;
mod home;
mod plan;
mod setup;
mod status;
mod workspace;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tool_protocol::control::signal_name;
use tool_protocol::{Code, Id, Output, Refusal, Reply, Request};
use tracing::{debug, info, warn};

pub(crate) use self::admission::{Admission, Bounds, Peer, Permit};
pub(crate) use self::environment::{Environment, Of};
pub(crate) use self::home::Homes;
pub(crate) use self::plan::program;
pub(crate) use self::setup::{Setups, run_in_foreground};
pub(crate) use self::status::Facts;
pub(crate) use self::workspace::{RootError, Workspace};
use crate::exec::{Executor, Hear, Io, Outcome, Plan, Report, RunError, Running};
use crate::os::process::Exit;
use crate::policy::{self, Approved};
use crate::registry::{Decision, Origin, Registry, Tool, ToolName};

/// Everything that calls share.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The definitions.
    pub(crate) registry: Arc<Registry>,
    /// How many at once.
    pub(crate) admission: Admission,
    /// The roots.
    pub(crate) workspace: Workspace,
    /// What environments are made from.
    pub(crate) environment: Environment,
    /// Where tools keep things.
    pub(crate) homes: Homes,
    /// setup.sh, once a tool.
    pub(crate) setups: Setups,
    /// What runs.
    pub(crate) executor: Executor,
    /// Cancelled when no new call is taken.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the calls under way are ended.
    pub(crate) stop: CancellationToken,
    /// What `status` tells beside.
    pub(crate) facts: Facts,
    /// Counts calls: the marks of their processes.
    pub(crate) calls: AtomicU32,
    /// The numbers of the calls under way.
    pub(crate) running: Mutex<HashSet<u32>>,
    /// Calls that ended.
    pub(crate) finished: AtomicU64,
}

/// A call as `listen` hands it over.
#[derive(Debug)]
pub(crate) struct Call {
    /// Who calls.
    pub(crate) peer: Peer,
    /// The tool's name, which the socket has let through.
    pub(crate) tool: String,
    /// What was asked for.
    pub(crate) request: Request,
    /// How its input and output travel.
    pub(crate) io: Io,
}

/// What is noted of a call when it begins.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u32,
    call_id: String,
    tool: String,
    started: Instant,
    id: Option<Id>,
    buffered: bool,
    seed_only: bool,
}

/// A call whose tool runs.
#[derive(Debug)]
pub(crate) struct Underway {
    tool: Arc<Tool>,
    permit: Permit,
    approved: Approved<Plan>,
    running: Running,
}

impl Underway {
    /// How long it may run.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.approved.get().timeout
    }
}

/// What became of a call that was to begin at once.
#[derive(Debug)]
pub(crate) enum Begun {
    /// Its tool runs.
    Running(Ticket, Box<Underway>),
    /// It was refused, or could not be started.
    Refused(Reply),
}

/// A tool, and a place for a call of it.
#[derive(Debug)]
pub(crate) struct Reserved {
    tool: Arc<Tool>,
    permit: Permit,
}

impl Broker {
    /// One call, from request to reply.
    pub(crate) async fn call(&self, call: Call, hear: Hear) -> Reply {
        let ticket = self.open(&call);
        let ended = self.carry_out(call, hear, ticket.number).await;
        self.close(ticket, ended)
    }

    /// What a call needs to begin at once; `None` where something has to be
    /// waited for, or said, first.
    pub(crate) fn reserve(&self, tool: &str, peer: Peer) -> Option<Reserved> {
        let tool = self.registry.find(tool)?;
        let waits = self.draining.is_cancelled() || tool.stream || self.setups.runs(&tool.name);
        if waits {
            return None;
        }
        let permit = self.admission.try_admit(&tool.name, tool.concurrent, peer)?;
        Some(Reserved { tool, permit })
    }

    /// A call as far as the tool's start, where nothing has to be waited for.
    /// Its end is told by `collector`, and to be passed on to `ended`; or
    /// somebody attends to it.
    pub(crate) fn begin(&self, reserved: Reserved, call: Call, collector: u64) -> Begun {
        let Reserved { tool, permit } = reserved;
        let ticket = self.open(&call);
        match self.start(&tool, permit, call, ticket.number, Some(collector)) {
            Ok(underway) => Begun::Running(ticket, Box::new(underway)),
            Err(refusal) => Begun::Refused(self.close(ticket, Err(refusal))),
        }
    }

    /// Somebody else will attend to a call that has begun; to be called by whoever
    /// collects. It may have been stopped by a signal already.
    pub(crate) fn let_go(&self, underway: &mut Underway, stopped: Option<i32>) {
        self.executor.let_go(&mut underway.running, stopped);
    }

    /// Attends to a call that has begun, to its reply.
    pub(crate) async fn attend(&self, ticket: Ticket, underway: Underway, hear: Hear) -> Reply {
        let ended = self.await_end(underway, hear).await;
        self.close(ticket, ended)
    }

    /// The tool of a call that nobody attended to has ended.
    pub(crate) fn ended(&self, ticket: Ticket, underway: Underway, exit: Exit) -> Reply {
        let report = self.executor.ended(underway.running, exit);
        drop(underway.permit);
        self.close(ticket, Ok(report))
    }

    fn open(&self, call: &Call) -> Ticket {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.running().insert(number);
        Ticket {
            number,
            call_id: self.facts.call_id(number),
            tool: call.tool.clone(),
            started: Instant::now(),
            id: call.request.id.clone(),
            buffered: matches!(call.io, Io::Captured),
            seed_only: call.request.seed_only,
        }
    }

    fn close(&self, ticket: Ticket, ended: Result<Report, Refusal>) -> Reply {
        self.running().remove(&ticket.number);
        if let Ok(Report { unkillable: processes @ 1.., .. }) = &ended {
            warn!(call_id = ticket.call_id, processes, "could not be killed");
        }
        let mut reply = self.answer(ended, ticket.buffered, ticket.seed_only);
        self.record(&ticket, &reply);
        reply.id = ticket.id;
        reply.call_id = Some(ticket.call_id);
        reply.duration_ms = u64::try_from(ticket.started.elapsed().as_millis()).ok();
        reply
    }

    fn running(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry_out(&self, call: Call, mut hear: Hear, number: u32) -> Result<Report, Refusal> {
        if self.draining.is_cancelled() {
            return Err(Refusal::new(Code::Draining, "the server is stopping: try again later"));
        }
        let tool = self.find(&call.tool)?;
        if tool.stream && matches!(call.io, Io::Passed(..)) {
            let message =
                "this tool's input and output pass the broker: repeat with stdio \"stream\"";
            return Err(Refusal::new(Code::UseStream, message));
        }
        let gone_token = hear.gone.clone();
        // The setup is waited for with a place: what waits is bounded.
        let admitted = async {
            let bytes = call.request.memory();
            let permit = self.admission.admit(&tool.name, tool.concurrent, call.peer, bytes).await;
            self.setups.finished(&tool.name).await;
            permit
        };
        let permit = tokio::select! {
            biased;
            permit = admitted => permit?,
            () = gone_token.cancelled() => return Err(gone()),
            // As it would end a tool that has just been started.
            signal = hear.ending_signal() => return Ok(Report::ended_by(signal)),
            () = self.draining.cancelled() => return Err(Refusal::new(Code::Draining, "the server is stopping: try again later")),
        };
        let underway = self.start(&tool, permit, call, number, None)?;
        self.await_end(underway, hear).await
    }

    /// Enters, plans, decides, runs.
    fn start(
        &self,
        tool: &Arc<Tool>,
        permit: Permit,
        call: Call,
        number: u32,
        collector: Option<u64>,
    ) -> Result<Underway, Refusal> {
        let Call { request, io, .. } = call;
        let entered = self.enter(&request)?;
        let plan = self.plan(tool, &request, entered, number, !io.terminals().is_empty())?;
        // All of it that counts is in the plan.
        drop(request);
        let approved = decide(tool, plan)?;
        match self.executor.start(&approved, io, collector) {
            Ok(running) => Ok(Underway { tool: Arc::clone(tool), permit, approved, running }),
            Err(error) => Err(not_started(&error, &tool.origin, approved.get())),
        }
    }

    async fn await_end(&self, underway: Underway, hear: Hear) -> Result<Report, Refusal> {
        let Underway { tool, permit, approved, running } = underway;
        let report = self.executor.attend(&approved, running, hear, permit).await;
        // Beneath a terminal it is known only now whether it runs at all.
        report.map_err(|error| not_started(&error, &tool.origin, approved.get()))
    }

    /// The tool of that name, with one look at the disk for an unknown one.
    fn find(&self, name: &str) -> Result<Arc<Tool>, Refusal> {
        if let Some(tool) = self.registry.find(name) {
            return Ok(tool);
        }
        let unknown = || {
            let message = format!(
                "no such tool: {}; add it as a folder in {}, or see `tool-server check`",
                name.escape_default(),
                self.registry.options().tools_dir.display()
            );
            Refusal::new(Code::UnknownTool, message)
        };
        let valid = ToolName::parse(name).ok_or_else(unknown)?;
        let Some((tool, change)) = self.registry.look(&valid) else {
            return Err(match self.registry.snapshot().problem(name) {
                Some(problem) if problem.missing => {
                    Refusal::new(Code::NotInstalled, problem.to_string())
                }
                Some(problem) => Refusal::new(Code::BadDefinition, problem.to_string()),
                None => unknown(),
            });
        };
        info!(tool = name, "loaded on its first call");
        self.setups.start(self, &change.added);
        Ok(tool)
    }

    fn enter(&self, request: &Request) -> Result<OwnedFd, Refusal> {
        let Some(cwd) = &request.cwd else {
            return Err(Refusal::new(Code::BadRequest, "the member cwd is missing"));
        };
        self.workspace.enter(cwd.as_bytes())
    }

    fn plan(
        &self,
        tool: &Tool,
        request: &Request,
        entered: OwnedFd,
        number: u32,
        on_terminal: bool,
    ) -> Result<Plan, Refusal> {
        let home = self.homes.ensure(&tool.name)?;
        plan::build(&self.environment, tool, &home, request, entered, number, on_terminal)
    }

    fn answer(&self, ended: Result<Report, Refusal>, buffered: bool, seed_only: bool) -> Reply {
        let mut reply = match ended {
            Err(refusal) => Reply::refused(refusal),
            Ok(report) => match report.outcome {
                Outcome::Exited(Exit::Code(code)) => Reply { exit_code: code, ..Reply::default() },
                Outcome::Exited(Exit::Signal(number)) => Reply {
                    exit_code: u8::try_from(128 + number).unwrap_or(255),
                    signal: signal_name(number).map(str::to_owned),
                    ..Reply::default()
                },
                Outcome::TimedOut => Reply::refused(Refusal::new(
                    Code::TimedOut,
                    "the tool ran longer than its timeout and was ended: raise `timeout` in its definition if it needs more",
                )),
                Outcome::CallerGone => Reply::refused(gone()),
                Outcome::Interrupted => Reply::refused(Refusal::new(
                    Code::Interrupted,
                    "the server stopped and ended the tool: try again when it is back",
                )),
                Outcome::OutputTooLarge(seen) => Reply::output_too_large(seen),
            }
            .with_output(report, buffered, seed_only),
        };
        if buffered {
            reply.stdout.get_or_insert_with(|| Output::Exact(Vec::new()));
            reply.stderr.get_or_insert_with(|| Output::Exact(Vec::new()));
        }
        reply
    }

    fn record(&self, ticket: &Ticket, reply: &Reply) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        let (call_id, tool, exit_code) = (&ticket.call_id, &ticket.tool, reply.exit_code);
        match (reply.code, &reply.error) {
            // Nothing is wrong: it comes again.
            (Some(Code::UseStream), _) => debug!(call_id, tool, "to be streamed"),
            (Some(code), Some(error)) => {
                warn!(call_id, tool, code = code.as_str(), exit_code, "{error}");
            }
            _ => debug!(call_id, tool, exit_code, signal = reply.signal, "ended"),
        }
    }
}

trait WithOutput {
    fn with_output(self, report: Report, buffered: bool, seed_only: bool) -> Reply;
}

impl WithOutput for Reply {
    /// What was captured, but where the reply says that it does not fit.
    fn with_output(mut self, report: Report, buffered: bool, seed_only: bool) -> Reply {
        if buffered && self.stdout.is_none() {
            let wrap = if seed_only { Output::Lossy } else { Output::Exact };
            self.stdout = Some(wrap(report.stdout));
            self.stderr = Some(wrap(report.stderr));
        }
        self
    }
}

fn gone() -> Refusal {
    Refusal::new(Code::Interrupted, "the caller went away")
}

/// The decision on exactly this plan.
fn decide(tool: &Tool, plan: Plan) -> Result<Approved<Plan>, Refusal> {
    policy::decide(tool.default == Decision::Allow, plan).ok_or_else(|| {
        let how = match tool.default {
            Decision::Ask => "asks for an approval, which this version cannot give",
            Decision::Allow | Decision::Deny => "denies every call",
        };
        let message = format!("the tool's definition {how} ({})", tool.origin);
        Refusal::new(Code::Denied, message).by("default")
    })
}

/// Why nothing runs, told by what the kernel said.
fn not_started(error: &RunError, origin: &Origin, plan: &Plan) -> Refusal {
    use nix::errno::Errno;
    let program = plan.program.as_bytes().escape_ascii();
    match error {
        RunError::Resources(errno) => Refusal::new(
            Code::SpawnFailed,
            format!("cannot start {program}: {} (at this moment): try again later", errno.desc()),
        ),
        RunError::Forbidden(errno) => Refusal::new(
            Code::Internal,
            format!(
                "cannot start {program}: {}: the server's container may not allow it",
                errno.desc()
            ),
        ),
        RunError::Terminal(errno) => Refusal::new(
            Code::Internal,
            format!(
                "cannot make a terminal for the tool: {}: mount devpts at /dev/pts where the server runs",
                errno.desc()
            ),
        ),
        RunError::Directory(errno) => Refusal::new(
            Code::CwdNotFound,
            format!("the directory cannot be entered: {}", errno.desc()),
        ),
        RunError::Exec(Errno::E2BIG) => Refusal::new(
            Code::RequestTooLarge,
            "the arguments and environment are too long for the kernel",
        ),
        RunError::Exec(Errno::ENOENT | Errno::ENOTDIR) => Refusal::new(
            Code::NotInstalled,
            format!(
                "{program} is not there, or its interpreter is not: install it beside the server, or mend {}",
                origin
            ),
        ),
        RunError::Exec(errno) => Refusal::new(
            Code::NotInstalled,
            format!(
                "{program} cannot be executed: {}: make it executable by the server, or mend {}",
                errno.desc(),
                origin
            ),
        ),
    }
}
