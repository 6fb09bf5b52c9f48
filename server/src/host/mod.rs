//! The host's side of a deployment: what `claude-container` would otherwise have
//! to work out in shell.
//!
//! Owns: ids of instances, the directories and files under CLAUDE_HOME, which
//! secret goes where, what a compose file is given, and what is wrong with all
//! that. Must not: start anything, ask an engine, or print a secret.
//!
//! - `instance`  the id of a project
//! - `place`     what a compose file is given for a project
//! - `layout`    directories, their modes and owners
//! - `keys`      reads `.env`
//! - `secrets`   splits it by service
//! - `shipped`   definitions that come with a release
//! - `findings`  what is wrong, here and in a running server

mod findings;
mod instance;
mod keys;
mod layout;
mod place;
mod secrets;
mod shipped;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use findings::{Finding, Level, home, server};
pub(crate) use layout::{Layout, lay};
pub(crate) use place::{Asked, Engine, Ids, Workspace, place};
pub(crate) use secrets::{Split, split};
pub(crate) use shipped::{Shipped, update};

/// What could not be done, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} {why}", path = path.display())]
    Refused { path: PathBuf, why: String },
    #[error("{path}:{line}: {why}", path = path.display())]
    Line { path: PathBuf, line: usize, why: String },
}

/// The id of a project, by whatever name it is called.
pub(crate) fn named(project: &Path) -> Result<String, HostError> {
    let real = std::fs::canonicalize(project).map_err(failed("find", project))?;
    Ok(instance::instance(&real))
}

/// The error of an operation on a path.
fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
    let path = path.to_owned();
    move |source| HostError::Io { operation, path, source }
}

fn refused(path: &Path, why: impl Into<String>) -> HostError {
    HostError::Refused { path: path.to_owned(), why: why.into() }
}

/// Something that a shell reads as one word, whatever is in it.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_shell_reads_one_word() {
        assert_eq!(super::quoted("a b"), "'a b'");
        assert_eq!(super::quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
