//! What `status` tells: what needs a look, the calls under way and those that
//! were refused last, the tools and their state, what calls have left behind.
//!
//! Owns: putting it together. Must not: show anything of a caller's as it came,
//! or more of it than an operator reads.
//!
//! - `tools`        the tools and their state
//! - `confinement`  what holds them

mod audit;
mod confinement;
mod tools;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Instant, SystemTime};

use serde::Serialize;

use self::audit::AuditStatus;
use self::confinement::ConfinementStatus;
pub(super) use self::tools::{State, ToolStatus, of as tool_status, own as own_status};
use super::recent::{Refused, UnderWay};
use super::{Broker, Callers, Peer, ProjectStatus, proxy_in_words};
use crate::metrics::Decided;
use crate::os::process::command_line;
use crate::registry::Snapshot;

/// Calls under way that are listed; there may be more.
const LISTED: usize = 50;

/// What is known once and told again and again.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The broker itself, for work that outlives a call.
    pub(crate) this: Weak<Broker>,
    /// This run of the server, in call ids.
    pub(crate) instance: u32,
    /// Since when it runs.
    pub(crate) started: Instant,
    /// How trees are ended, in words.
    pub(crate) tree: String,
    /// By what callers come.
    pub(crate) callers: Callers,
    /// Where the figures are given by HTTP.
    pub(crate) figures_at: OnceLock<SocketAddr>,
    /// Where tools are called by HTTP.
    pub(crate) http_at: OnceLock<SocketAddr>,
    /// Where operators answer by HTTP.
    pub(crate) operator_at: OnceLock<SocketAddr>,
    /// Whether the kernel has hidden who a peer is (another user namespace).
    pub(crate) hidden_peers: AtomicBool,
}

impl Facts {
    /// What the log and the reply call a call: unique within this server's log.
    pub(crate) fn call_id(&self, number: u32) -> String {
        format!("{:08x}-{number}", self.instance)
    }

    /// A caller, for people.
    pub(super) fn peer(&self, peer: Peer) -> String {
        let socket = self.callers.name(peer.socket);
        let socket = socket.as_deref().unwrap_or("?");
        format!("uid {}, gid {} at {socket}", peer.uid, peer.gid)
    }
}

/// The answer to `{"op":"status"}`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    version: &'static str,
    pid: u32,
    uptime_seconds: u64,
    /// What is unrestricted, degraded or wrong, one sentence each.
    attention: Vec<String>,
    sockets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    peers: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    calls: Calls,
    under_way: Vec<CallStatus>,
    refusals: Vec<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<AuditStatus>,
    tree: String,
    confinement: ConfinementStatus,
    unclean_restarts: u64,
    tools: Vec<ToolStatus>,
    /// The broker's own that are served.
    own_tools: Vec<ToolStatus>,
    project: ProjectStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<String>,
    problems: Vec<String>,
    left_behind: Vec<Daemon>,
}

#[derive(Debug, Serialize)]
struct Calls {
    running: usize,
    waiting: usize,
    finished: u64,
    orphans_reaped: u64,
}

/// A call under way.
#[derive(Debug, Serialize)]
struct CallStatus {
    call_id: String,
    tool: String,
    /// The tool and its arguments, escaped and shortened.
    command: String,
    seconds: u64,
    /// "running", "waiting" for a place or a setup, "asked": for an approval.
    state: &'static str,
    peer: String,
}

/// A call that was not run.
#[derive(Debug, Serialize)]
struct Refusal {
    /// Seconds since 1970.
    time: u64,
    seconds_ago: u64,
    call_id: String,
    tool: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    message: String,
}

#[derive(Debug, Serialize)]
struct Daemon {
    pid: i32,
    call: String,
    command: String,
}

impl Broker {
    /// The state of everything, at this moment. Reads /proc.
    pub(crate) async fn status(&self) -> Status {
        let left_behind = self.left_behind().await;
        let snapshot = self.registry.snapshot();
        let (tools, states) = tools::of(&snapshot, &self.setups.states());
        let (own_tools, own_states) = tools::own(&snapshot, self.registry.options());
        let (running, waiting) = self.admission.load();
        let project = self.project_status();
        let hidden = self.facts.hidden_peers.load(Ordering::Relaxed);
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_seconds: self.facts.started.elapsed().as_secs(),
            attention: self.attention(
                &of_all(&tools, &states, &own_tools, &own_states),
                &snapshot,
                &project,
            ),
            sockets: self.facts.callers.present(),
            metrics: self.facts.figures_at.get().map(ToString::to_string),
            http: self.facts.http_at.get().map(ToString::to_string),
            operator: self.facts.operator_at.get().map(ToString::to_string),
            peers: if hidden {
                "by the socket they come through: the kernel shows some as uid 65534"
            } else {
                "by uid and gid"
            },
            rate: self.rates.of_all().map(|rate| rate.to_string()),
            calls: Calls {
                running,
                waiting,
                finished: self.finished.load(Ordering::Relaxed),
                orphans_reaped: self.executor.reaper().orphans(),
            },
            under_way: self
                .recent
                .under_way()
                .iter()
                .take(LISTED)
                .map(|(number, call)| self.call_status(*number, call))
                .collect(),
            refusals: self.recent.refusals().into_iter().map(refusal).collect(),
            tree: self.facts.tree.clone(),
            confinement: ConfinementStatus::of(self),
            audit: self.audit.as_ref().map(|audit| AuditStatus::of(audit.state())),
            unclean_restarts: self.metrics.unclean_restarts_so_far(),
            tools,
            own_tools,
            project,
            proxy: self.registry.options().proxy.as_deref().map(proxy_in_words),
            problems: snapshot.problems.iter().map(ToString::to_string).collect(),
            left_behind,
        }
    }

    /// What an operator should look at first, at this moment.
    pub(crate) fn needs_attention(&self) -> Vec<String> {
        let snapshot = self.registry.snapshot();
        let (tools, states) = tools::of(&snapshot, &self.setups.states());
        let (own, own_states) = tools::own(&snapshot, self.registry.options());
        let all = of_all(&tools, &states, &own, &own_states);
        self.attention(&all, &snapshot, &self.project_status())
    }

    /// What an operator should look at first.
    fn attention(
        &self,
        tools: &[(&ToolStatus, &State)],
        snapshot: &Snapshot,
        project: &ProjectStatus,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if self.draining.is_cancelled() {
            lines.push("the server is stopping: it takes no new calls".to_owned());
        }
        let audit = self.audit.as_ref().map(|audit| AuditStatus::of(audit.state()));
        lines.extend(audit.iter().flat_map(AuditStatus::attention));
        lines.extend(ConfinementStatus::of(self).attention(self));
        lines.extend(self.confines.exposed(&self.workspace));
        lines.extend(self.facts.callers.troubles());
        self.confines.heed(snapshot);
        lines.extend(self.confines.left_out(&self.workspace, snapshot));
        let (waiting, standing) = self.approvals.counts();
        if waiting > 0 {
            lines.push(format!("{waiting} calls wait for an answer: see `tool-server approvals`"));
        }
        if standing > 0 {
            lines.push(format!("{standing} approvals stand: see `tool-server approvals`"));
        }
        lines.extend(tools.iter().filter_map(|(tool, state)| tool.attention(state)));
        lines.extend(tools.iter().filter_map(|(tool, _)| tool.unconfined()));
        // Of tools that are not in force at all, and of tools.d itself.
        let known = |name: &str| tools.iter().any(|(tool, _)| tool.name == name);
        let others = snapshot.problems.iter().filter(|one| !one.tool.as_deref().is_some_and(known));
        lines.extend(others.map(|problem| format!("not in force: {problem}")));
        lines.extend(tools.iter().filter_map(|(tool, _)| tool.failed_setup()));
        lines.extend(project.attention());
        if self.facts.tree.contains("WEAK") {
            lines.push(format!("process trees: ended {}", self.facts.tree));
        }
        if self.facts.hidden_peers.load(Ordering::Relaxed) {
            lines.push(
                "peers: the kernel hides who calls; give each caller a socket of its own"
                    .to_owned(),
            );
        }
        lines
    }

    fn call_status(&self, number: u32, call: &UnderWay) -> CallStatus {
        CallStatus {
            call_id: self.facts.call_id(number),
            tool: call.tool.clone(),
            command: call.command(),
            seconds: call.since.elapsed().as_secs(),
            state: match (call.started, call.decided) {
                (Some(_), _) => "running",
                (None, Decided::Ask) => "asked",
                (None, _) => "waiting",
            },
            peer: self.facts.peer(call.peer),
        }
    }

    /// Processes of calls that are over.
    async fn left_behind(&self) -> Vec<Daemon> {
        let census = self.executor.trees().census().await;
        let running = self.recent.numbers().into_iter().chain(self.project.number());
        let running: HashSet<u32> = running.collect();
        let mut left_behind: Vec<Daemon> = census
            .calls
            .iter()
            .filter(|(call, _)| !running.contains(call))
            .flat_map(|(call, pids)| pids.iter().map(|pid| (Some(*call), *pid)))
            .chain(census.nobodys.iter().map(|pid| (None, *pid)))
            .map(|(call, pid)| Daemon {
                pid: pid.as_raw(),
                call: call.map_or_else(|| "unknown".to_owned(), |call| self.facts.call_id(call)),
                command: command_line(pid).escape_ascii().to_string(),
            })
            .collect();
        left_behind.sort_by_key(|daemon| daemon.pid);
        left_behind
    }
}

fn of_all<'a>(
    tools: &'a [ToolStatus],
    states: &'a [State],
    own: &'a [ToolStatus],
    own_states: &'a [State],
) -> Vec<(&'a ToolStatus, &'a State)> {
    tools.iter().zip(states).chain(own.iter().zip(own_states)).collect()
}

fn refusal(refused: Refused) -> Refusal {
    let Refused { at, call_id, tool, code, rule, message, .. } = refused;
    let seconds = |duration: std::time::Duration| duration.as_secs();
    Refusal {
        time: at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, seconds),
        seconds_ago: at.elapsed().map_or(0, seconds),
        call_id,
        tool,
        code: code.as_str(),
        rule,
        message,
    }
}
