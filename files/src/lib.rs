//! Files of the workspace, for agents: read, write, edit, list, search, never outside.
//!
//! Owns: typed input and output of these tools, and what they do. Every name is resolved
//! by the kernel beneath a root that is open ([`root`]); nothing is looked up by a path
//! twice, and nothing that is no file is waited for. Each operation has two steps, so that
//! the broker can decide between them: [`Operation::find`] opens what the input means and
//! changes nothing; what it found knows its real names, and [`Target::run`] does the rest
//! on what is open. Must not: decide whether something may be done, know who asks, or
//! have threads of its own beyond those of a search, which end with it.
//!
//! - `root`    names to what is open, beneath the roots
//! - `read`, `write`, `edit`, `list`, `search`   the operations, one a module
//! - `template` files made from a template, all or none
//! - `way`     a name followed one step after the other, where the kernel's answer is not
//!   enough: absolute symlinks that lead into a root, and what is to be made
//! - `opened`  regular files, and only these, opened through what is open
//! - `own`     what this process has open, by number
//! - `attributes` what a file has beside its content, and what of it is handed on
//! - `put`, `lock`   content that takes a name at once; nobody else at it meanwhile
//! - `shape`, `replace`, `nearest`, `hash`, `when`   of bytes and times, without files
//! - `walk`    a tree, in parallel, by descriptors
//! - `ignored` what .gitignore and its like leave out
//! - `best`    the first results of many threads
//! - `shown`   names and lines as answers have them
//! - `escape`, `spare`   long answers: as JSON, and their memory
//! - `after`   what is done once an answer is on its way
//! - `help`    whom a thread asks for help
//! - `error`   what may go wrong, as the caller is told
//!
//! Everything blocks; whoever calls has a thread for it.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod after;
mod attributes;
mod best;
pub mod edit;
pub mod error;
mod escape;
#[cfg(test)]
mod fixture;
mod hash;
pub mod help;
pub mod ignored;
pub mod list;
mod lock;
mod nearest;
mod opened;
mod own;
mod put;
pub mod read;
mod replace;
pub mod root;
pub mod search;
mod shape;
pub mod shown;
pub mod spare;
pub mod template;
pub mod walk;
mod way;
pub mod when;
pub mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool_protocol::Fault;

pub use error::FileError;
pub use root::{Root, Roots};

/// One of the tools: what it takes, and how it begins.
pub trait Operation {
    /// What an agent calls it.
    const NAME: &'static str;
    /// Its input.
    type Input: DeserializeOwned + JsonSchema + Send + 'static;
    /// Its output.
    type Output: Serialize + JsonSchema;
    /// What its input means.
    type Target: Target<Output = Self::Output> + Send + 'static;

    /// Opens what the input means, beneath the roots; changes nothing.
    fn find(roots: &Roots, input: Self::Input) -> Result<Self::Target, FileError>;
}

/// What an operation is about, open.
pub trait Target {
    /// What comes of it.
    type Output;

    /// The real names, absolute, as the kernel has them, of what is read or changed; of
    /// something that is to be made, its directory's real name and its own. What rules see.
    fn names(&self) -> Vec<Vec<u8>>;

    /// Does it. Where a caller takes results as they come, `piece` gets each.
    fn run(
        self,
        stop: &Stop,
        piece: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<Self::Output, FileError>;

    /// The same, as JSON.
    fn json(
        self,
        stop: &Stop,
        piece: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<String, FileError>
    where
        Self: Sized,
        Self::Output: Serialize,
    {
        as_json(&self.run(stop, piece)?)
    }
}

fn as_json(output: &impl Serialize) -> Result<String, FileError> {
    serde_json::to_string(output)
        .map_err(|error| FileError::said(Fault::ExecutionError, error.to_string()))
}

/// When to stop: somebody said so, or it takes too long.
#[derive(Clone, Debug)]
pub struct Stop {
    said: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// At that time, or when it is said.
    pub fn new(deadline: Option<Instant>) -> Stop {
        Stop { said: Arc::new(AtomicBool::new(false)), deadline }
    }

    /// When the same says so, or at that time.
    pub fn until(&self, deadline: Instant) -> Stop {
        Stop { said: Arc::clone(&self.said), deadline: Some(deadline) }
    }

    /// Whoever runs is to stop.
    pub fn say(&self) {
        self.said.store(true, Ordering::Relaxed);
    }

    /// An error, where it is time.
    pub fn check(&self) -> Result<(), FileError> {
        if self.said.load(Ordering::Relaxed) {
            return Err(FileError::Stopped);
        }
        match self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            true => Err(FileError::TooLong),
            false => Ok(()),
        }
    }
}
