//! Tables of command lines.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// `tests/rules/day/TOOL.toml`: lines of an ordinary day.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Day {
    /// What is compared where a line does not say.
    pub compare: Vec<String>,
    /// Where the lines are run, in what a preparation leaves.
    pub directory: String,
    /// What `TOOL --version` begins with, where exit statuses and requests are
    /// those of one version.
    #[serde(default)]
    pub version: Option<String>,
    /// Scripts by name, run in an empty directory before a line.
    pub prepare: BTreeMap<String, String>,
    /// What the stub answers; the first that fits.
    #[serde(default)]
    pub answer: Vec<Answer>,
    pub line: Vec<Line>,
}

/// One line of a day.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// A line of a shell; `{port}` is the stub's.
    #[serde(rename = "do")]
    pub call: String,
    /// The preparation.
    #[serde(rename = "in")]
    pub state: String,
    /// The exit status.
    #[serde(default)]
    pub exit: i32,
    /// What its output has, stdout and stderr together.
    #[serde(default)]
    pub shows: Option<String>,
    /// What the stub saw, `METHOD PATH`, each of these among others.
    #[serde(default)]
    pub asks: Vec<String>,
    /// In place of the day's.
    #[serde(default)]
    pub compare: Option<Vec<String>>,
    /// What of these differs from the tool itself, or without rules, and why: it has to.
    #[serde(default)]
    pub differs: BTreeMap<String, String>,
}

/// What the stub answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// `METHOD PATH`; a `*` at its end is anything.
    pub to: String,
    /// What the request's body has.
    #[serde(default)]
    pub having: Option<String>,
    #[serde(default = "ok")]
    pub status: u16,
    /// `{port}` is the stub's own.
    #[serde(default)]
    pub body: String,
}

fn ok() -> u16 {
    200
}

/// `tests/rules/refused/TOOL.toml`: lines that do not run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub directory: String,
    pub prepare: BTreeMap<String, String>,
    pub line: Vec<Stopped>,
}

/// One line that is stopped, and by what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    #[serde(rename = "do")]
    pub call: String,
    #[serde(rename = "in")]
    pub state: String,
    /// The rule that answers; `unread` and `default` too.
    pub rule: String,
    /// `deny` or `ask`.
    pub is: String,
}

impl Day {
    pub fn of(tool: &str) -> Day {
        read(&format!("day/{tool}.toml"))
    }
}

impl Refused {
    pub fn of(tool: &str) -> Refused {
        read(&format!("refused/{tool}.toml"))
    }
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = crate::project().join("tests/rules").join(name);
    toml::from_str(&text(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(super) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
