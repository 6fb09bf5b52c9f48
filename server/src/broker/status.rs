//! What `status` tells: the server, its limits and what is active, its tools
//! and their problems, what calls have left behind.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::Broker;
use super::setup::State;
use crate::os::process::command_line;

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
    /// The sockets, in words.
    pub(crate) sockets: Vec<String>,
    /// Whether the kernel has hidden who a peer is (another user namespace).
    pub(crate) hidden_peers: AtomicBool,
}

impl Facts {
    /// What the log and the reply call a call: unique within this server's log.
    pub(crate) fn call_id(&self, number: u32) -> String {
        format!("{:08x}-{number}", self.instance)
    }
}

/// The answer to `{"op":"status"}`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    version: &'static str,
    pid: u32,
    uptime_seconds: u64,
    sockets: Vec<String>,
    peers: &'static str,
    calls: Calls,
    tree: String,
    tools: Vec<ToolStatus>,
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

#[derive(Debug, Serialize)]
struct ToolStatus {
    name: String,
    runs: String,
    default: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    setup: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
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
        let census = self.executor.trees().census().await;
        let running = self.running().clone();
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
        let snapshot = self.registry.snapshot();
        let setups = self.setups.states();
        let (running, waiting) = self.admission.load();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_seconds: self.facts.started.elapsed().as_secs(),
            sockets: self.facts.sockets.clone(),
            peers: if self.facts.hidden_peers.load(Ordering::Relaxed) {
                "by the socket they come through: the kernel shows some as uid 65534"
            } else {
                "by uid and gid"
            },
            calls: Calls {
                running,
                waiting,
                finished: self.finished.load(Ordering::Relaxed),
                orphans_reaped: self.executor.reaper().orphans(),
            },
            tree: self.facts.tree.clone(),
            tools: tools(&snapshot, &setups),
            problems: snapshot.problems.iter().map(ToString::to_string).collect(),
            left_behind,
        }
    }
}

fn tools(
    snapshot: &crate::registry::Snapshot,
    setups: &BTreeMap<String, State>,
) -> Vec<ToolStatus> {
    let mut tools = Vec::new();
    for tool in snapshot.tools.values() {
        let runs = tool.wrapper.as_ref().map_or(&tool.binary, |wrapper| &wrapper.path);
        let mut warnings = tool.warnings.clone();
        warnings.extend(tool.missing());
        tools.push(ToolStatus {
            name: tool.name.clone(),
            runs: runs.display().to_string(),
            default: if tool.unrestricted() {
                "unrestricted".to_owned()
            } else {
                tool.default.to_string()
            },
            setup: setups.get(&tool.name).map(|state| match state {
                State::Running => "under way".to_owned(),
                State::Done => "done".to_owned(),
                State::Failed(why) => format!("failed: {why}"),
            }),
            warnings,
        });
    }
    tools
}
