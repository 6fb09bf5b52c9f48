//! What a definition's files say, before anything is looked up.
//!
//! Owns: the members of `tool.toml`, `tool.json` and `grammar.toml` and their
//! checks; pure. A definition that fails its own examples is none. Must not:
//! touch the disk, or let a member pass that would not be enforced.

mod credential;
mod env;
pub mod gate;
mod gates;
mod json;
pub(crate) mod read;
pub mod sandbox;
pub mod signing;
mod toml;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::env::{Env, NAME_PATTERN, NamePattern};
use crate::Policy;
use crate::Rate;

/// The longest timeout, 7 days: anything more is a slip of the unit.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The resources that `[limits]` bounds, besides `concurrent`.
pub const LIMITS: [&str; 7] = [
    "core_bytes",
    "cpu_seconds",
    "file_bytes",
    "memory_bytes",
    "open_files",
    "processes",
    "stack_bytes",
];

/// A definition's own words. Everything is optional.
#[derive(Debug, Default, PartialEq)]
pub struct Definition {
    /// The program, an absolute path.
    pub binary: Option<PathBuf>,
    /// How long a call may run.
    pub timeout: Option<Duration>,
    /// Which variables the tool gets.
    pub env: Option<Env>,
    /// How many calls run at once.
    pub concurrent: Option<usize>,
    /// How often one peer may call it.
    pub rate: Option<Rate>,
    /// Resource limits, by the names of [`LIMITS`].
    pub limits: Vec<(&'static str, u64)>,
    /// Input and output pass the broker.
    pub stream: bool,
    /// One line for people.
    pub description: Option<String>,
    /// What the tool may touch.
    pub sandbox: sandbox::Sandbox,
    /// The definition has a `[sandbox]`.
    pub sandbox_said: bool,
    /// Where the tool may connect.
    pub gates: Vec<gate::Gate>,
    /// How commits and tags are signed.
    pub signing: Option<signing::Signing>,
    /// What may run.
    pub policy: Policy,
    /// What is worth a look.
    pub warnings: Vec<String>,
}

impl Definition {
    /// Reads a `tool.toml`, and the `grammar.toml` beside it where there is one,
    /// for the tool of that name; runs its examples.
    pub fn from_toml(
        tool: &str,
        text: &str,
        grammar: Option<&str>,
    ) -> Result<Definition, SyntaxError> {
        toml::parse(tool, text, grammar)
    }

    /// Reads a `tool.json`.
    pub fn from_json(text: &str) -> Result<Definition, SyntaxError> {
        json::parse(text)
    }
}

/// Which of a definition's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    /// `tool.toml` or `tool.json`.
    #[default]
    Definition,
    /// `grammar.toml`.
    Grammar,
}

/// What is wrong, and in which line of which file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The file.
    pub place: Place,
    /// Counted from 1.
    pub line: usize,
    /// One line that says what to do.
    pub message: String,
}

/// The line of a byte of a text, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn check_binary(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    // It is printed where a person decides: nothing in it moves a cursor or hides.
    let plain =
        |letter: char| matches!(letter, '\'' | '"' | '\\') || letter.escape_debug().len() == 1;
    if path.is_absolute() && text.chars().all(plain) && !text.ends_with('/') {
        return Ok(path.to_owned());
    }
    Err(format!("binary must be an absolute path of a program, not {text:?}"))
}

fn check_timeout(seconds: f64) -> Result<Duration, String> {
    let wrong = || format!("timeout must be more than 0 seconds and at most 7 days, not {seconds}");
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() && timeout <= MAX_TIMEOUT => Ok(timeout),
        _ => Err(wrong()),
    }
}
