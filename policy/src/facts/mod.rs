//! What modules that know a tool can tell of a call.
//!
//! Owns: which modules and facts there are, each with its sentence, and working
//! them out from a command line that the grammar has read. Must not: guess. What
//! cannot be known is [`Value::Unknown`], and rules take that for the worst.
//!
//! - `value`   what a fact is known to be
//! - `options` asking a command line for its options
//! - `git`, `gh`, `npm`   what is known of these tools
//! - `command` what a command line runs, whatever the program

mod command;
pub(crate) mod gh;
pub mod git;
mod npm;
pub(crate) mod options;
mod value;

pub use self::git::Observed;
pub use self::value::{Facts, Text, Value};

use crate::grammar::CommandLine;
use crate::scene::Scene;

/// A module that knows a tool's arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Module {
    /// Nobody knows this tool.
    #[default]
    None,
    /// git.
    Git,
    /// GitHub's command line.
    Gh,
    /// npm.
    Npm,
    /// The words are a command line: a program and its own.
    Command,
}

/// A fact that a module tells.
#[derive(Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its name in `facts`.
    pub name: &'static str,
    /// How it is matched.
    pub kind: Kind,
    /// One sentence for people.
    pub about: &'static str,
}

/// How a fact is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A matcher, over each value.
    Texts,
}

/// A row of a module's list of facts.
pub(crate) const fn fact(name: &'static str, kind: Kind, about: &'static str) -> Fact {
    Fact { name, kind, about }
}

/// What has to be observed before the facts of a call can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wants {
    /// Nothing.
    #[default]
    Nothing,
    /// The branch and the configuration of the repository that this path,
    /// relative to the call's directory where it is not absolute, lies in.
    Repository {
        /// Where to look for it.
        path: Vec<u8>,
        /// Refs that may stand for others, as their files are named.
        refs: Vec<Vec<u8>>,
    },
    /// Whether the repository that this path lies in fetches the objects that it
    /// lacks: a partial clone.
    Promisor {
        /// Where to look for it.
        path: Vec<u8>,
    },
}

impl Module {
    /// Every module.
    pub const ALL: [Module; 5] =
        [Module::Git, Module::Gh, Module::Npm, Module::Command, Module::None];

    /// As it is written in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Module::None => "none",
            Module::Git => "git",
            Module::Gh => "gh",
            Module::Npm => "npm",
            Module::Command => "command",
        }
    }

    /// The only way from text.
    pub fn parse(text: &str) -> Option<Module> {
        Module::ALL.into_iter().find(|module| module.as_str() == text)
    }

    /// What it tells.
    pub fn list(self) -> &'static [Fact] {
        match self {
            Module::None => &[],
            Module::Git => &git::FACTS,
            Module::Gh => &gh::FACTS,
            Module::Npm => &npm::FACTS,
            Module::Command => &command::FACTS,
        }
    }

    /// The module of a program with that name.
    pub(crate) fn of_program(name: &str) -> Module {
        // A program called `command` is one like any other.
        Module::parse(name).filter(|module| module.needs_grammar()).unwrap_or_default()
    }

    /// Whether it tells something of words that a grammar has read, and of no others.
    pub(crate) fn needs_grammar(self) -> bool {
        self != Module::Command
    }

    /// Whether there are calls for which something has to be observed.
    pub fn observes(self) -> bool {
        self == Module::Git
    }

    /// What has to be observed before `facts` can tell all.
    pub fn wants(self, line: &CommandLine<'_>) -> Wants {
        match self {
            Module::Git => git::wants(line),
            Module::None | Module::Gh | Module::Npm | Module::Command => Wants::Nothing,
        }
    }

    /// Whether a call is known to go to no host: what it changes never comes by a gate.
    pub(crate) fn stays_here(self, facts: &Facts) -> bool {
        self == Module::Git && git::is_local(facts)
    }

    /// What is known of a call.
    pub fn facts(self, line: &CommandLine<'_>, scene: &Scene<'_>) -> Facts {
        match self {
            Module::None => Facts::default(),
            Module::Git => git::facts(line, scene),
            Module::Gh => gh::facts(line),
            Module::Npm => npm::facts(line),
            Module::Command => command::facts(line),
        }
    }
}
