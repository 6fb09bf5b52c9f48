//! What the registry knows at one moment.
//!
//! Owns: the immutable snapshot that a call looks its tool up in, and the
//! difference between two of them. Must not: change once it is made.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::RegistryOptions;
use super::builtin::{Builtins, is_a_call_of};
use super::error::LoadError;
use super::tool::Tool;

/// Every tool and every problem, as of one look at the disk.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) tools: BTreeMap<String, Arc<Tool>>,
    /// The broker's own.
    pub(crate) builtins: Builtins,
    pub(crate) problems: Vec<Problem>,
    /// Grows by one with every snapshot that differs from the one before.
    pub(crate) generation: u64,
}

impl Snapshot {
    /// Whether any tool has a credential that the server keeps for it.
    pub(crate) fn holds_credentials(&self) -> bool {
        self.tools.values().chain(self.builtins.values()).any(|tool| tool.holds_credential())
    }

    /// The broker's own tools that are served.
    pub(crate) fn own<'a>(
        &'a self,
        options: &'a RegistryOptions,
    ) -> impl Iterator<Item = &'a Arc<Tool>> {
        let served = self.builtins.iter().filter(|(name, _)| options.serves(name));
        served.map(|(_, tool)| tool)
    }

    /// What decides about a tool's calls, in words.
    pub(crate) fn rules_in_words(&self, tool: &Tool) -> String {
        match is_a_call_of(&tool.name) {
            None => tool.rules_in_words(),
            Some(other) if self.tools.contains_key(other) => format!("by the rules of {other}"),
            Some(other) => format!("by the rules of {other}, which is not in tools.d"),
        }
    }

    /// The first problem of a tool: why it is not there, or not up to date.
    pub(crate) fn problem(&self, name: &str) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.tool.as_deref() == Some(name))
    }
}

/// Something that an operator has to put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The tool that it is about; `None` for tools.d itself.
    pub(crate) tool: Option<String>,
    pub(crate) file: PathBuf,
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
    /// Whether nothing is wrong but that the program is not installed.
    pub(crate) missing: bool,
}

impl Problem {
    pub(super) fn new(tool: Option<&str>, error: &LoadError) -> Problem {
        Problem {
            tool: tool.map(str::to_owned),
            file: error.file().to_owned(),
            line: error.line(),
            message: error.to_string(),
            missing: matches!(error, LoadError::NoBinary { .. }),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}", self.message)
    }
}

/// What became different between two snapshots.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) added: Vec<Arc<Tool>>,
    pub(crate) changed: Vec<Arc<Tool>>,
    pub(crate) removed: Vec<String>,
    /// Of the broker's own tools there are others than there were.
    pub(crate) own: bool,
    /// Problems that were not there before.
    pub(crate) problems: Vec<Problem>,
    /// How many problems are there no more.
    pub(crate) solved: usize,
}

impl Change {
    /// Nothing is different.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
            && !self.own
            && self.problems.is_empty()
            && self.solved == 0
    }

    pub(super) fn between(old: &Snapshot, new: &Snapshot) -> Change {
        let mut change = Change::default();
        for (name, tool) in &new.tools {
            match old.tools.get(name) {
                None => change.added.push(Arc::clone(tool)),
                Some(before) if Arc::ptr_eq(before, tool) || before == tool => {}
                Some(_) => change.changed.push(Arc::clone(tool)),
            }
        }
        for (name, tool) in &new.builtins {
            if old.builtins.get(name).is_some_and(|before| before != tool) {
                change.changed.push(Arc::clone(tool));
            }
        }
        change.own = !old.builtins.keys().eq(new.builtins.keys());
        let gone = old.tools.keys().filter(|name| !new.tools.contains_key(*name));
        change.removed = gone.cloned().collect();
        let fresh = new.problems.iter().filter(|problem| !old.problems.contains(problem));
        change.problems = fresh.cloned().collect();
        change.solved = old.problems.iter().filter(|old| !new.problems.contains(old)).count();
        change
    }
}
