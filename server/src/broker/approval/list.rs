//! What an operator sees of all that waits and stands.

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::question::{Shown, show};
use super::{Approvals, LATE};
use crate::broker::Peer;

/// A question in the list of those that wait.
#[derive(Debug, Serialize)]
pub(crate) struct Asked {
    id: String,
    since_seconds: u64,
    /// Whether the caller still waits.
    waits: bool,
    /// Until it is refused, or forgotten.
    left_seconds: u64,
    #[serde(flatten)]
    shown: Shown,
}

/// A standing approval in the list.
#[derive(Debug, Serialize)]
pub(crate) struct Standing {
    id: String,
    tool: String,
    rule: String,
    repository: String,
    /// By which gate, where it is for requests.
    #[serde(skip_serializing_if = "String::is_empty")]
    gate: String,
    /// For whom.
    caller: String,
    by_uid: u32,
    left_seconds: u64,
}

/// What an operator sees.
#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    /// Changes with everything that changes here.
    generation: u64,
    waiting: Vec<Asked>,
    standing: Vec<Standing>,
}

impl Approvals {
    /// What waits and what stands.
    pub(crate) fn list(&self) -> Listing {
        let now = Instant::now();
        let mut state = self.lock();
        state.forget(now);
        let waiting = state.asks.iter().map(|(id, ask)| {
            let ends = ask.left.map_or(ask.since + self.settings.timeout, |left| left + LATE);
            Asked {
                id: id.clone(),
                since_seconds: now.saturating_duration_since(ask.since).as_secs(),
                waits: ask.caller.is_some(),
                left_seconds: ends.saturating_duration_since(now).as_secs(),
                shown: ask.question.shown.clone(),
            }
        });
        let mut waiting: Vec<Asked> = waiting.collect();
        waiting.sort_by_key(|asked| std::cmp::Reverse(asked.since_seconds));
        let standing = state.grants.iter().map(|grant| Standing {
            id: grant.id.clone(),
            tool: grant.site.tool.clone(),
            rule: grant.site.rule.clone(),
            repository: show(&grant.site.repository),
            gate: show(grant.site.by.as_bytes()),
            caller: grant.site.caller.clone(),
            by_uid: grant.by,
            left_seconds: grant.until.saturating_duration_since(now).as_secs(),
        });
        let standing = standing.collect();
        Listing { generation: *self.changed.borrow(), waiting, standing }
    }

    /// What waits of one caller: what it was told itself, and no word of anybody else's.
    pub(crate) fn of_caller(&self, peer: Peer) -> Vec<Value> {
        let now = Instant::now();
        let mut state = self.lock();
        state.forget(now);
        let own = state.asks.iter().filter(|(_, ask)| ask.question.peer == peer);
        own.map(|(id, ask)| {
            let Shown { tool, rule, reason, instead, argv, argv_omitted_bytes, .. } =
                &ask.question.shown;
            let ends = ask.left.map_or(ask.since + self.settings.timeout, |left| left + LATE);
            json!({
                "id": id,
                "waits": ask.caller.is_some(),
                "left_seconds": ends.saturating_duration_since(now).as_secs(),
                "tool": tool,
                "rule": rule,
                "reason": reason,
                "instead": instead,
                "argv": argv,
                "argv_omitted_bytes": argv_omitted_bytes,
            })
        })
        .collect()
    }

    /// The generation of the list.
    pub(crate) fn generation(&self) -> u64 {
        *self.changed.borrow()
    }

    /// How many wait, and how many stand.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let mut state = self.lock();
        state.forget(Instant::now());
        (state.asks.values().filter(|ask| ask.caller.is_some()).count(), state.grants.len())
    }
}
