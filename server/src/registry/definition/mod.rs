//! What a definition file says, before anything is looked up.
//!
//! Owns: the members of `tool.toml` and `tool.json` and their checks; pure.
//! Must not: touch the disk, or let a member pass that would not be enforced.

mod json;
mod toml;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::tool::{Decision, Pattern};
use crate::os::limit::Limit;

pub(super) use json::parse as parse_json;
pub(super) use toml::parse as parse_toml;

/// The longest timeout, 7 days: anything more is a slip of the unit.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Members that a later version enforces. Refused, not ignored: whoever wrote
/// them relies on them.
const NOT_YET: [&str; 6] = ["sandbox", "gate", "rule", "example", "protected", "mode"];

/// A definition's own words. Everything is optional.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Definition {
    pub(super) binary: Option<PathBuf>,
    pub(super) timeout: Option<Duration>,
    pub(super) default: Option<(Decision, usize)>,
    pub(super) facts: Option<String>,
    pub(super) env: Option<Env>,
    pub(super) concurrent: Option<usize>,
    pub(super) limits: Vec<Limit>,
    pub(super) stream: bool,
    pub(super) description: Option<String>,
    pub(super) warnings: Vec<String>,
}

/// The `[env]` table; what is unset in it is the loader's to fill in.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Env {
    pub(super) forward: Option<Vec<Pattern>>,
    pub(super) inherit: Vec<Pattern>,
    pub(super) set: Vec<(String, String)>,
}

/// What is wrong, and in which line.
#[derive(Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

/// The line of a byte of a text, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn check_binary(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if path.is_absolute() && !text.contains('\0') && !text.ends_with('/') {
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

fn not_supported(member: &str) -> String {
    format!("{member} is not supported by this version: it would not be enforced")
}
