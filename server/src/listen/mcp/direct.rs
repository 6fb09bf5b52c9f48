//! To the broker from the server's own thread for HTTP.
//!
//! Must not: run anything there; the broker's thread does.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio_util::task::TaskTracker;
use tool_protocol::Observation;

use super::tools::definitions;
use super::way::{Asked, Listed, Seen, Way, Wrong};
use crate::agent::{Agent, Invocation};
use crate::registry::Snapshot;

/// As often an output is in memory until it is written: as text, as a value, and both of them
/// escaped once more.
const TIMES: usize = 3;

/// By `Agent::dispatch`.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    agent: Agent,
    workspaces: Arc<[String]>,
    /// Made once for all sessions: each of them asks when something changes.
    known: Arc<Mutex<Option<Known>>>,
    /// Held by calls.
    busy: [TaskTracker; 2],
}

/// The list of the tools that there are.
#[derive(Debug)]
struct Known {
    of: Arc<Snapshot>,
    listed: Listed,
}

impl Direct {
    /// `busy`: who waits for the ends of calls.
    pub(super) fn new(agent: Agent, busy: [TaskTracker; 2]) -> Direct {
        let paths = agent.broker().workspace.paths();
        // One that is not UTF-8 no URI names.
        let workspaces = paths.filter_map(|path| path.to_str().map(str::to_owned)).collect();
        Direct { agent, workspaces, known: Arc::default(), busy }
    }
}

impl Way for Direct {
    async fn list(&self) -> Result<Listed, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the list is made: what changes meanwhile makes another one.
        let snapshot = self.agent.broker().registry.snapshot();
        if let Some(Known { of, listed }) = &*known
            && Arc::ptr_eq(of, &snapshot)
        {
            return Ok(listed.clone());
        }
        let listed = definitions(&crate::agent::format::mcp(&self.agent.tools(None)))?;
        *known = Some(Known { of: snapshot, listed: listed.clone() });
        Ok(listed)
    }

    async fn call(&self, asked: Asked) -> Result<Seen, String> {
        let _busy = self.busy.each_ref().map(TaskTracker::token);
        let Asked { tool, input, pieces, notices, gone, visitor } = asked;
        let visitor = visitor.ok_or("it is not known who asks")?;
        let asked = Invocation {
            peer: visitor.peer,
            tool,
            input: Value::Object(input).to_string().into_bytes(),
            only: None,
            pieces,
            notices,
            tell: None,
            gone,
        };
        let stopped = |_ended| "the server is stopping".to_owned();
        let answers = visitor.answers;
        let called = self.agent.dispatch(asked, move |seen| answers.take(seen, TIMES));
        seen(called.await.map_err(stopped)?)
    }

    async fn changed(&self, from: String) -> Listed {
        let mut snapshots = self.agent.broker().registry.subscribe();
        loop {
            snapshots.borrow_and_update();
            match self.list().await {
                Ok(listed) if listed.version != from => return listed,
                _ => {}
            }
            if snapshots.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn workspaces(&self) -> &[String] {
        &self.workspaces
    }
}

fn seen(observation: Observation) -> Result<Seen, String> {
    let Observation { tool, output, error, duration_ms, call_id, .. } = observation;
    let output = output.map(|output| serde_json::from_str(output.get())).transpose();
    let output = output.map_err(|error| format!("an output that is no JSON: {error}"))?;
    let error = error.map(|error| Wrong {
        code: error.code.to_string(),
        message: error.message,
        rule: error.rule,
        hint: error.hint,
    });
    Ok(Seen { tool, output, error, duration_ms, call_id })
}
