//! The tools, each with its state in a word.

use std::collections::BTreeMap;

use serde::Serialize;
use tool_policy::Mode;

use crate::broker::setup;
use crate::registry::{Snapshot, Tool};

/// How a tool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As its definition says.
    Ok,
    /// Nothing restricts it.
    Unrestricted,
    /// Its rules are only observed.
    Observe,
    /// Its program cannot be run.
    Missing(String),
    /// Its definition is wrong now: the last good one is in force.
    LastGood(String),
}

impl State {
    fn of(tool: &Tool, snapshot: &Snapshot) -> State {
        if let Some(problem) = snapshot.problem(&tool.name) {
            return State::LastGood(problem.to_string());
        }
        match tool.missing() {
            Some(missing) => State::Missing(missing),
            None if tool.unrestricted() => State::Unrestricted,
            None if tool.policy.mode() == Mode::Observe => State::Observe,
            None => State::Ok,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Unrestricted => "unrestricted",
            State::Observe => "observe",
            State::Missing(_) => "missing binary",
            State::LastGood(_) => "last good kept",
        }
    }
}

/// One tool.
#[derive(Debug, Serialize)]
pub(super) struct ToolStatus {
    pub(super) name: String,
    runs: String,
    default: String,
    state: &'static str,
    sandbox: String,
    #[serde(skip)]
    confined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    setup: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip)]
    setup_failed: Option<String>,
}

impl ToolStatus {
    /// What there is to look at.
    pub(super) fn attention(&self, state: &State) -> Option<String> {
        let name = &self.name;
        match state {
            State::Ok => None,
            State::Unrestricted => {
                Some(format!("{name}: unrestricted: neither rules nor a default"))
            }
            State::Observe => Some(format!(
                "{name}: observe: what its rules refuse is logged, and runs all the same"
            )),
            State::Missing(why) => Some(format!("{name}: missing binary: {why}")),
            State::LastGood(why) => Some(format!("{name}: last good kept: {why}")),
        }
    }

    /// That nothing confines it.
    pub(super) fn unconfined(&self) -> Option<String> {
        let what = "sandbox: off: it is not confined, and reaches all that its user reaches";
        (!self.confined).then(|| format!("{}: {what}", self.name))
    }

    /// That its setup went wrong.
    pub(super) fn failed_setup(&self) -> Option<String> {
        self.setup_failed.as_ref().map(|why| format!("{}: setup failed: {why}", self.name))
    }
}

/// All of them, and their states, in the same order.
pub(super) fn of(
    snapshot: &Snapshot,
    setups: &BTreeMap<String, setup::State>,
) -> (Vec<ToolStatus>, Vec<State>) {
    let one = |tool: &Tool| {
        let state = State::of(tool, snapshot);
        let runs = tool.wrapper.as_ref().map_or(&tool.binary, |wrapper| &wrapper.path);
        let mut warnings = tool.warnings.clone();
        warnings.extend(tool.missing());
        let (setup, setup_failed) = match setups.get(&tool.name) {
            None => (None, None),
            Some(setup::State::Running) => (Some("under way".to_owned()), None),
            Some(setup::State::Done) => (Some("done".to_owned()), None),
            Some(setup::State::Failed(why)) => (Some(format!("failed: {why}")), Some(why.clone())),
        };
        let status = ToolStatus {
            name: tool.name.clone(),
            runs: runs.display().to_string(),
            default: tool.rules_in_words(),
            state: state.word(),
            sandbox: tool.sandbox_in_words(),
            confined: tool.is_confined(),
            rate: tool.rate.map(|rate| rate.to_string()),
            setup,
            warnings,
            setup_failed,
        };
        (status, state)
    };
    snapshot.tools.values().map(|tool| one(tool)).unzip()
}
