//! The main path: what happens to a call, in the order in which it happens.
//!
//! 1. **find** the tool, in the registry of this moment; an unknown name makes
//!    the registry look at the disk once
//! 2. **admit** it: how often by peer and tool, how many at once in all, by tool,
//!    by peer
//! 3. **enter** the directory, beneath a workspace root, by descriptor
//! 4. **plan** it: program, arguments, environment, directory: immutable
//! 5. **decide** on the plan; what is approved is that very plan
//! 6. **note** in the audit's journal that it begins
//! 7. **run** it and supervise it to its end; where it may ask for something
//!    outside, at its gate alone, which `outlet` serves
//! 8. **record** it: its line in the audit, the log
//! 9. **answer**
//!
//! Bytes become a [`Request`] in `listen`, above; the process is made in
//! `exec`, below. [`Broker::call`] is the list.

mod admission;
mod answer;
mod approval;
mod callers;
mod confine;
mod environment;
mod figures;
mod home;
mod observe;
mod operate;
mod outlet;
mod outside;
mod plan;
mod project;
mod proxy;
mod rates;
mod recent;
mod record;
mod redact;
mod setup;
mod signing;
mod sockets;
mod status;
mod ticket;
mod watch;
mod wired;
mod workspace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use tokio_util::sync::CancellationToken;
use tool_policy::{Approved, Judged};
use tool_protocol::{Code, Refusal, Reply, Request};
use tracing::info;

pub(crate) use self::admission::{Admission, Bounds, Peer, Permit};
use self::answer::{draining, gone, not_started};
pub(crate) use self::approval::{Approvals, BY_HTTP, Held, Settings as ApprovalSettings};
use self::approval::{Asker, Because, Question, heed};
pub(crate) use self::callers::Callers;
pub(crate) use self::confine::{Confines, Level};
pub(crate) use self::environment::{Environment, Of, takes};
pub(crate) use self::home::Homes;
pub(crate) use self::observe::observe;
pub(crate) use self::operate::{Files, OnFiles, Operated, Operating, TellOperated, Work};
use self::outlet::Gated;
pub(crate) use self::outlet::{Commands, Gates};
use self::plan::Planned;
pub(crate) use self::plan::program;
pub(crate) use self::project::{
    ProjectError, Setup as ProjectSetup, Status as ProjectStatus, client as project_client,
    render as render_script, show_at_rest as show_project_at_rest,
};
pub(crate) use self::proxy::{Proxy, in_words as proxy_in_words, stranger as proxy_stranger};
pub(crate) use self::rates::Rates;
pub(crate) use self::recent::Recent;
use self::redact::Begins;
pub(crate) use self::redact::Redact;
pub(crate) use self::setup::{Setups, run_in_foreground};
pub(crate) use self::signing::Signing;
pub(crate) use self::status::Facts;
use self::ticket::Reserved;
pub(crate) use self::ticket::{Begun, Call, Ticket, Underway, Unfinished};
pub(crate) use self::watch::{Told, Viewer, Watch};
pub(crate) use self::workspace::{RootError, Workspace};
use crate::audit::Audit;
use crate::exec::{Executor, Hear, Io, Plan, Report};
use crate::metrics::{Metrics, Reload};
use crate::os::foreign::Found;
use crate::os::process::Exit;
use crate::registry::{Registry, Tool, ToolName};

/// Everything that calls share.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The definitions.
    pub(crate) registry: Arc<Registry>,
    /// How many at once.
    pub(crate) admission: Admission,
    /// How often.
    pub(crate) rates: Rates,
    /// The roots.
    pub(crate) workspace: Workspace,
    /// What environments are made from.
    pub(crate) environment: Environment,
    /// Where tools keep things.
    pub(crate) homes: Homes,
    /// What holds them.
    pub(crate) confines: Confines,
    /// setup.sh, once a tool.
    pub(crate) setups: Setups,
    /// The project's own setup.
    pub(crate) project: ProjectSetup,
    /// What waits for an operator.
    pub(crate) approvals: Approvals,
    /// What the gates of all calls share.
    pub(crate) gates: Gates,
    /// One line a call; none where there are no calls, as for `tool-server setup`.
    pub(crate) audit: Option<Audit>,
    /// What is taken out of output.
    pub(crate) redact: Redact,
    /// Signatures for those that have no key.
    pub(crate) signing: Signing,
    /// What runs.
    pub(crate) executor: Executor,
    /// The workspace's files, for the broker's own tools.
    pub(crate) files: Files,
    /// Cancelled when no new call is taken.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the calls under way are ended.
    pub(crate) stop: CancellationToken,
    /// What `status` tells beside.
    pub(crate) facts: Facts,
    /// Counts calls: the marks of their processes.
    pub(crate) calls: AtomicU32,
    /// The calls under way, and those that were refused last.
    pub(crate) recent: Recent,
    /// Who watches.
    pub(crate) watch: Watch,
    /// What is counted.
    pub(crate) metrics: Metrics,
    /// Calls that ended.
    pub(crate) finished: AtomicU64,
}

impl Broker {
    /// One call, from request to reply.
    pub(crate) async fn call(&self, call: Call, hear: Hear) -> Reply {
        let ticket = self.open(&call);
        self.call_opened(ticket, call, hear).await
    }

    /// The same, of a call whose ticket is there.
    pub(crate) async fn call_opened(&self, mut ticket: Ticket, call: Call, hear: Hear) -> Reply {
        let ended = self.carry_out(call, hear, &mut ticket).await;
        self.close(ticket, ended)
    }

    /// What a call needs to begin at once; `None` where something has to be
    /// waited for, or said, first.
    pub(crate) fn reserve(&self, tool: &str, peer: Peer) -> Option<Reserved> {
        let tool = self.registry.find(tool)?;
        // A signature may be asked about, as long as a person takes.
        let asks = tool.stream || tool.signing.is_some();
        let waits = self.draining.is_cancelled() || asks || self.setups.runs(&tool.name);
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
        let (mut ticket, mut call) = (self.open(&call), call);
        let withheld = sockets::withhold(&tool, &mut call.io);
        let within = withheld.and_then(|()| self.within_rates(&tool, call.peer));
        let start = |()| self.start(&tool, permit, call, &mut ticket, Begins::Collected(collector));
        match within.and_then(start) {
            Ok(Unfinished::Running(underway)) => Begun::Running(ticket, underway),
            Ok(later) => Begun::Later(ticket, later),
            Err(refusal) => Begun::Refused(self.close(ticket, Err(refusal))),
        }
    }

    /// Somebody else will attend to a call that has begun; to be called by whoever
    /// collects. It may have been stopped by a signal already.
    pub(crate) fn let_go(&self, underway: &mut Underway, stopped: Option<i32>) {
        self.executor.let_go(&mut underway.running, stopped);
    }

    /// Attends to a call that has begun, to its reply.
    pub(crate) async fn attend(&self, mut ticket: Ticket, call: Unfinished, hear: Hear) -> Reply {
        let ended = self.finish(call, hear, &mut ticket).await;
        self.close(ticket, ended)
    }

    /// The tool of a call that nobody attended to has ended.
    pub(crate) fn ended(&self, ticket: Ticket, underway: Underway, exit: Exit) -> Reply {
        let mut report = self.executor.ended(underway.running, exit);
        report.hint = outside::hint(&underway.tool, underway.approved.get(), &report);
        drop(underway.permit);
        self.close(ticket, Ok(report))
    }

    async fn carry_out(
        &self,
        mut call: Call,
        mut hear: Hear,
        ticket: &mut Ticket,
    ) -> Result<Report, Refusal> {
        if self.draining.is_cancelled() {
            return Err(draining());
        }
        let tool = match &call.known {
            Some(tool) => Arc::clone(tool),
            None => self.find(&call.tool, call.peer)?,
        };
        ticket.record.known.tool = Some(Arc::clone(&tool));
        if tool.stream && matches!(call.io, Io::Passed(..)) {
            let message =
                "this tool's input and output pass the broker: repeat with stdio \"stream\"";
            return Err(Refusal::new(Code::UseStream, message));
        }
        sockets::withhold(&tool, &mut call.io)?;
        self.within_rates(&tool, call.peer)?;
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
            () = self.draining.cancelled() => return Err(draining()),
        };
        let redact = self.redact.values(&tool).await?;
        let call = self.start(&tool, permit, call, ticket, Begins::Attended(redact))?;
        self.finish(call, hear, ticket).await
    }

    async fn finish(
        &self,
        call: Unfinished,
        hear: Hear,
        ticket: &mut Ticket,
    ) -> Result<Report, Refusal> {
        match call {
            Unfinished::Running(underway) => self.await_end(*underway, hear, ticket).await,
            // Rare, and large: not in every call's future.
            Unfinished::Held(held) => Box::pin(self.hold(*held, hear, ticket)).await,
            Unfinished::Gated(gated) => Box::pin(self.pass(*gated, hear, ticket)).await,
        }
    }

    /// Enters, plans, decides, runs.
    fn start(
        &self,
        tool: &Arc<Tool>,
        permit: Permit,
        call: Call,
        ticket: &mut Ticket,
        begins: Begins,
    ) -> Result<Unfinished, Refusal> {
        let Call { request, io, peer, .. } = call;
        let entered = self.enter(&request)?;
        ticket.record.known.tool = Some(Arc::clone(tool));
        let number = ticket.number;
        let on_terminal = !io.terminals().is_empty();
        let Planned { mut plan, way, missing } =
            self.plan(tool, &request, entered, number, on_terminal)?;
        self.signing.prepare(tool, &mut plan, &io.numbers())?;
        let collector = begins.apply(&mut plan);
        // All of it that counts is in the plan.
        drop(request);
        ticket.record.known.directory = Some(plan.place.clone());
        ticket.record.known.confined = Some(confine::in_audit(tool, &plan));
        let approved = match (tool_policy::decide(&tool.policy, plan), missing) {
            // Nobody is asked about a program that is not there.
            (Judged::Allowed(_, verdict) | Judged::Asked(_, verdict), Some(missing)) => {
                self.note(ticket, verdict);
                return Err(missing);
            }
            (Judged::Allowed(approved, verdict), None) => {
                answer::tell_observed(tool, &ticket.call_id, &verdict);
                self.note(ticket, verdict);
                approved
            }
            (Judged::Denied(_, verdict), _) => {
                let refusal = answer::denied(tool, &verdict);
                self.note(ticket, verdict);
                return Err(refusal);
            }
            (Judged::Asked(asked, verdict), None) => {
                let because = Because::of(tool, &verdict);
                self.note(ticket, verdict);
                let (plan, caller) = (asked.get(), self.facts.peer(peer));
                let question = Question::new(&self.workspace, plan, peer, &caller, because);
                match self.approvals.standing(&question) {
                    Some(answer) => {
                        ticket.record.known.answered(&answer);
                        heed(asked, answer, &question.rule())?
                    }
                    None => {
                        self.record_hold(ticket)?;
                        let tool = Arc::clone(tool);
                        let held = Held { tool, asked, question, io, peer, way };
                        return Ok(Unfinished::Held(Box::new(held)));
                    }
                }
            }
        };
        let tool = Arc::clone(tool);
        if let Some(way) = way {
            let gated = Gated { tool, permit, approved, io, peer, way };
            return Ok(Unfinished::Gated(Box::new(gated)));
        }
        let underway = self.launch(tool, permit, approved, io, collector, ticket)?;
        Ok(Unfinished::Running(Box::new(underway)))
    }

    /// Runs what was approved.
    fn launch(
        &self,
        tool: Arc<Tool>,
        permit: Permit,
        approved: Approved<Plan>,
        io: Io,
        collector: Option<u64>,
        ticket: &mut Ticket,
    ) -> Result<Underway, Refusal> {
        self.record_begin(ticket)?;
        match self.executor.start(&approved, io, collector) {
            Ok(running) => {
                self.recent.started(approved.get().call, &self.watch);
                Ok(Underway { tool, permit, approved, running })
            }
            Err(error) => Err(not_started(&error, &tool.origin, approved.get())),
        }
    }

    async fn await_end(
        &self,
        underway: Underway,
        mut hear: Hear,
        ticket: &Ticket,
    ) -> Result<Report, Refusal> {
        let Underway { tool, permit, approved, running } = underway;
        // To the end.
        let _signs = self.sign(&tool, approved.get(), &mut hear, ticket);
        let report = self.executor.attend(&approved, running, hear, permit).await;
        // Beneath a terminal it is known only now whether it runs at all.
        let mut report =
            report.map_err(|error| not_started(&error, &tool.origin, approved.get()))?;
        report.hint = outside::hint(&tool, approved.get(), &report);
        Ok(report)
    }

    /// The tool of that name, with one look at the disk for an unknown one.
    fn find(&self, name: &str, peer: Peer) -> Result<Arc<Tool>, Refusal> {
        if let Some(tool) = self.registry.find(name) {
            return Ok(tool);
        }
        self.within_rate(peer)?;
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
        self.metrics.reloaded(Reload::Applied);
        self.setups.start(self, &change.added);
        Ok(tool)
    }

    fn enter(&self, request: &Request) -> Result<Found, Refusal> {
        let Some(cwd) = &request.cwd else {
            return Err(Refusal::new(Code::BadRequest, "the member cwd is missing"));
        };
        self.workspace.enter(cwd.as_bytes())
    }

    /// Whether the server has credentials that a tool might read: one that is not
    /// confined.
    fn guards(&self, tool: &Tool) -> bool {
        let proxy = self.registry.options().proxy.as_ref();
        let proxys = proxy.is_some_and(|proxy| proxy.holds_credential());
        !tool.is_confined() && (proxys || self.registry.snapshot().holds_credentials())
    }

    fn plan(
        &self,
        tool: &Tool,
        request: &Request,
        entered: Found,
        number: u32,
        on_terminal: bool,
    ) -> Result<Planned, Refusal> {
        let Broker { environment, workspace, homes, confines, .. } = self;
        let ground = self.executor.ground();
        let guards = self.guards(tool);
        confines.heed(&self.registry.snapshot());
        let site = plan::Site { environment, workspace, homes, confines, ground, guards };
        plan::build(&site, tool, request, entered, number, on_terminal)
    }
}
