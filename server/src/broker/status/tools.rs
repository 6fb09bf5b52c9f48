//! The tools, each with its state in a word.

use std::collections::BTreeMap;

use serde::Serialize;
use tool_policy::Mode;

use crate::broker::setup;
use crate::registry::{RegistryOptions, Snapshot, Tool};

/// How a tool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) enum State {
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
pub(in crate::broker) struct ToolStatus {
    pub(in crate::broker) name: String,
    pub(in crate::broker) runs: String,
    pub(in crate::broker) default: String,
    pub(in crate::broker) state: &'static str,
    pub(in crate::broker) sandbox: String,
    /// Of the broker's own: where its definition comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::broker) definition: Option<String>,
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
    pub(in crate::broker) fn attention(&self, state: &State) -> Option<String> {
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
    pub(in crate::broker) fn failed_setup(&self) -> Option<String> {
        self.setup_failed.as_ref().map(|why| format!("{}: setup failed: {why}", self.name))
    }
}

/// The tools of tools.d and their states, in the same order.
pub(in crate::broker) fn of(
    snapshot: &Snapshot,
    setups: &BTreeMap<String, setup::State>,
) -> (Vec<ToolStatus>, Vec<State>) {
    let one = |tool: &Tool| {
        let (mut status, state) = status(tool, snapshot);
        (status.setup, status.setup_failed) = match setups.get(&tool.name) {
            None => (None, None),
            Some(setup::State::Running) => (Some("under way".to_owned()), None),
            Some(setup::State::Done) => (Some("done".to_owned()), None),
            Some(setup::State::Failed(why)) => (Some(format!("failed: {why}")), Some(why.clone())),
        };
        (status, state)
    };
    snapshot.tools.values().map(|tool| one(tool)).unzip()
}

/// The same of the broker's own tools that are served.
pub(in crate::broker) fn own(
    snapshot: &Snapshot,
    options: &RegistryOptions,
) -> (Vec<ToolStatus>, Vec<State>) {
    let one = |tool: &Tool| {
        let (status, state) = status(tool, snapshot);
        let definition = Some(tool.definition_in_words());
        // What the broker does itself it does in the workspace alone: nothing else confines it.
        let sandbox = if tool.any { status.sandbox } else { String::new() };
        (ToolStatus { runs: tool.runs_in_words(), definition, sandbox, ..status }, state)
    };
    snapshot.own(options).map(|tool| one(tool)).unzip()
}

fn status(tool: &Tool, snapshot: &Snapshot) -> (ToolStatus, State) {
    let state = State::of(tool, snapshot);
    let runs = tool.wrapper.as_ref().map_or(&tool.binary, |wrapper| &wrapper.path);
    let mut warnings = tool.warnings.clone();
    warnings.extend(tool.missing());
    let status = ToolStatus {
        name: tool.name.clone(),
        runs: runs.display().to_string(),
        default: snapshot.rules_in_words(tool),
        state: state.word(),
        sandbox: tool.sandbox_in_words(),
        definition: None,
        confined: tool.is_confined(),
        rate: tool.rate.map(|rate| rate.to_string()),
        setup: None,
        warnings,
        setup_failed: None,
    };
    (status, state)
}
