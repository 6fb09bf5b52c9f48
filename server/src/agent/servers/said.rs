//! What is asked and told about programs that go on, as JSON.
//!
//! Owns: the types. Must not: know how they are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool_protocol::{Failure, Fault};

use crate::agent::run::{Program, is_line, is_program, shell};

/// The name of one that has none.
const NAME: &str = "dev";
/// How long it is waited for where the caller does not say, and at most.
const READY: Duration = Duration::from_secs(30);
const MOST_READY: Duration = Duration::from_mins(10);

/// What to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::agent) struct StartInput {
    /// The program and its arguments, each a string of its own. Either this or `command`.
    argv: Option<Vec<String>>,
    /// One line of shell. Either this or `argv`.
    command: Option<String>,
    /// By which it is stopped and asked about: "dev" where unset.
    name: Option<String>,
    /// The directory to run in, in the workspace; the workspace itself where unset.
    cwd: Option<String>,
    /// Variables for the program; its definition says which it takes.
    env: Option<BTreeMap<String, String>>,
    /// Wait until its output has this text, such as "ready in".
    ready: Option<String>,
    /// How long to wait for that, in milliseconds: 30000 where unset. It goes on then.
    timeout_ms: Option<u64>,
}

/// The same, read.
#[derive(Debug)]
pub(in crate::agent) struct Starting {
    pub(super) name: String,
    pub(in crate::agent) program: Program,
    pub(super) ready: Option<String>,
    pub(super) patience: Duration,
}

impl Starting {
    /// What an input means.
    pub(in crate::agent) fn of(input: StartInput) -> Result<Starting, Failure> {
        let refuse = |message: &str| Err(Failure::new(Fault::InvalidInput, message));
        let StartInput { argv, command, name, cwd, env, ready, timeout_ms } = input;
        let words = match (argv, command) {
            (Some(argv), None) => {
                is_program(&argv)?;
                argv
            }
            (None, Some(line)) => {
                is_line(&line)?;
                shell(line)
            }
            _ => return refuse("give either argv or command"),
        };
        let name = name.unwrap_or_else(|| NAME.to_owned());
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            return refuse("name is 1 to 64 letters, digits, -, _ and .");
        }
        if ready
            .as_ref()
            .is_some_and(|text| text.is_empty() || text.len() > 1000 || text.contains('\n'))
        {
            return refuse("ready is a part of one line, of at most 1000 bytes");
        }
        let patience = timeout_ms.map_or(READY, Duration::from_millis).min(MOST_READY);
        Ok(Starting { name, program: Program::new(words, cwd, env), ready, patience })
    }
}

/// Which to end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::agent) struct StopInput {
    /// As it was started.
    #[serde(default = "unnamed")]
    pub(super) name: String,
}

/// Which to tell of.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::agent) struct StatusInput {
    /// As it was started; all where unset.
    pub(super) name: Option<String>,
}

/// What to give of which.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::agent) struct LogsInput {
    /// As it was started.
    #[serde(default = "unnamed")]
    pub(super) name: String,
    /// How many lines at most: 100 where unset.
    pub(super) lines: Option<usize>,
    /// Only lines with higher numbers, the first ones first; the last lines where unset.
    pub(super) since: Option<u64>,
}

fn unnamed() -> String {
    NAME.to_owned()
}

/// One of these.
#[derive(Debug)]
pub(in crate::agent) enum Ask {
    Stop(StopInput),
    Status(StatusInput),
    Logs(LogsInput),
}

impl Ask {
    /// Of which.
    pub(in crate::agent) fn name(&self) -> Option<&str> {
        match self {
            Ask::Stop(asked) => Some(&asked.name),
            Ask::Status(asked) => asked.name.as_deref(),
            Ask::Logs(asked) => Some(&asked.name),
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::agent) enum State {
    /// It waits for an approval, or for a place.
    Starting,
    /// Its program runs.
    Running,
    /// It is over.
    Ended,
}

/// A development server.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::agent) struct Shown {
    /// By which it is stopped and asked about.
    pub(super) name: String,
    /// How far it is.
    pub(super) state: State,
    /// It runs, and has written what says that it is ready, where that was asked for.
    pub(super) ready: bool,
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// How long it has run, or ran, in milliseconds.
    pub(super) ran_ms: u64,
    /// Of one that ended by itself: 128 and the signal's number where a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<u8>,
    /// The signal that ended it, without SIG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<String>,
    /// Why the broker ended it, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The number of the last line that it wrote; 0 where there is none.
    pub(super) last_line: u64,
}

/// A line that it wrote.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::agent) struct Line {
    /// Counted from 1, over stdout and stderr.
    pub(super) number: u64,
    /// "stdout" or "stderr".
    pub(super) stream: &'static str,
    /// Without its end.
    pub(super) text: String,
    /// "utf-8", or "base64" where it is not that.
    pub(super) encoding: &'static str,
}

/// Lines that it wrote.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::agent) struct Lines {
    /// In the order in which they came.
    pub(super) lines: Vec<Line>,
    /// To be given as `since` for what follows.
    pub(super) next: u64,
    /// How many lines that were asked for are not kept any more.
    pub(super) lost: u64,
    /// There are more after these.
    pub(super) more: bool,
}

/// What was started.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::agent) struct StartOutput {
    #[serde(flatten)]
    pub(super) server: Shown,
    /// What it has written so far, the last of it.
    #[serde(flatten)]
    pub(super) lines: Lines,
    /// Names in `env` that the definition of dev_server_start does not take.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env_left_out: Vec<String>,
}

/// What was ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::agent) struct StopOutput {
    /// It was not over before.
    pub(super) was_running: bool,
    #[serde(flatten)]
    pub(super) server: Shown,
}

/// All that there are.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::agent) struct StatusOutput {
    /// By name. Those that are over are kept for a while.
    pub(super) servers: Vec<Shown>,
}

/// What it wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::agent) struct LogsOutput {
    #[serde(flatten)]
    pub(super) server: Shown,
    #[serde(flatten)]
    pub(super) lines: Lines,
}
