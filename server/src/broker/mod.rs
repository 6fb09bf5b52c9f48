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
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tool_protocol::control::signal_name;
use tool_protocol::{Code, Output, Refusal, Reply, Request};
use tracing::{Instrument, debug, info, info_span, warn};

pub(crate) use self::admission::{Admission, Bounds, Peer};
pub(crate) use self::environment::{Environment, Of};
pub(crate) use self::home::Homes;
pub(crate) use self::plan::program;
pub(crate) use self::setup::{Setups, run_in_foreground};
pub(crate) use self::status::Facts;
pub(crate) use self::workspace::{RootError, Workspace};
use crate::exec::{Executor, Hear, Io, Outcome, Plan, Report, RunError};
use crate::os::process::Exit;
use crate::policy::{self, Approved};
use crate::registry::{Decision, Registry, Tool, ToolName};

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
    /// What it hears while it runs.
    pub(crate) hear: Hear,
}

impl Broker {
    /// One call, from request to reply.
    pub(crate) async fn call(&self, call: Call) -> Reply {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call_id = self.facts.call_id(number);
        let span = info_span!("call", call_id = %call_id, tool = %call.tool);
        let started = Instant::now();
        let (id, seed_only) = (call.request.id.clone(), call.request.seed_only);
        let buffered = matches!(call.io, Io::Captured);
        async {
            self.running().insert(number);
            let ended = self.carry_out(call, number).await;
            self.running().remove(&number);
            let mut reply = self.answer(ended, buffered, seed_only);
            reply.id = id;
            reply.call_id = Some(call_id.clone());
            reply.duration_ms = u64::try_from(started.elapsed().as_millis()).ok();
            self.record(&reply);
            reply
        }
        .instrument(span.clone())
        .await
    }

    fn running(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry_out(&self, call: Call, number: u32) -> Result<Report, Refusal> {
        let Call { peer, tool, request, io, mut hear } = call;
        if self.draining.is_cancelled() {
            return Err(Refusal::new(Code::Draining, "the server is stopping: try again later"));
        }
        let tool = self.find(&tool)?;
        if tool.stream && matches!(io, Io::Passed(..)) {
            let message =
                "this tool's input and output pass the broker: repeat with stdio \"stream\"";
            return Err(Refusal::new(Code::UseStream, message));
        }
        let gone_token = hear.gone.clone();
        // The setup is waited for with a place: what waits is bounded.
        let admitted = async {
            let bytes = request.memory();
            let permit = self.admission.admit(&tool.name, tool.concurrent, peer, bytes).await;
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
        let entered = self.enter(&request)?;
        let on_terminal = io.terminal().is_some();
        let plan = self.plan(&tool, &request, entered, number, on_terminal)?;
        // All of it that counts is in the plan.
        drop(request);
        let approved = decide(&tool, plan)?;
        let report = self.executor.run(&approved, io, hear, permit).await;
        report.map_err(|error| not_started(&error, &tool, approved.get()))
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

    fn record(&self, reply: &Reply) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        match (reply.code, &reply.error) {
            (Some(code), Some(error)) => {
                warn!(code = code.as_str(), exit_code = reply.exit_code, "{error}");
            }
            _ => debug!(exit_code = reply.exit_code, signal = reply.signal, "ended"),
        }
    }
}

trait WithOutput {
    fn with_output(self, report: Report, buffered: bool, seed_only: bool) -> Reply;
}

impl WithOutput for Reply {
    /// What was captured, but where the reply says that it does not fit.
    fn with_output(mut self, report: Report, buffered: bool, seed_only: bool) -> Reply {
        if report.unkillable > 0 {
            warn!(processes = report.unkillable, "could not be killed");
        }
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
fn not_started(error: &RunError, tool: &Tool, plan: &Plan) -> Refusal {
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
                tool.origin
            ),
        ),
        RunError::Exec(errno) => Refusal::new(
            Code::NotInstalled,
            format!(
                "{program} cannot be executed: {}: make it executable by the server, or mend {}",
                errno.desc(),
                tool.origin
            ),
        ),
    }
}
