//! The command line that was read.
//!
//! Owns: what was found, and the sentence about what could not be read. Must
//! not: read.

use super::{Opt, Takes};

/// What arguments say, by a tool's grammar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine<'a> {
    /// The names of the command, not its aliases; empty where there is none.
    pub subcommand: Vec<&'a str>,
    /// The options, in their order, those before the command too.
    pub options: Vec<Given<'a>>,
    /// The operands.
    pub operands: Vec<&'a [u8]>,
    /// How many operands stand before `--`, where that ended the options.
    pub dashes: Option<usize>,
    /// The first thing that could not be read. The rest is read all the same, as
    /// well as may be: it may show a call that is to be refused, and never one
    /// that may run.
    pub unread: Option<Unread<'a>>,
}

/// An option that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// Which.
    pub option: Opt<'a>,
    /// In a spelling that says that it does not hold, or with a value that does.
    pub negated: bool,
    /// Its value, without the `=`.
    pub value: Option<&'a [u8]>,
    /// In which argument it stands.
    pub argument: usize,
}

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread<'a> {
    /// Which argument.
    pub argument: usize,
    /// What stands there; of several options in one argument, the one.
    pub word: Vec<u8>,
    /// Why not.
    pub why: Why<'a>,
    /// How many words of the subcommand stood before it.
    pub depth: usize,
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why<'a> {
    /// No such command.
    UnknownCommand,
    /// No such option.
    UnknownOption,
    /// It may be any of these.
    Ambiguous(Vec<&'a str>),
    /// The option needs a value, and there is none.
    MissingValue(Opt<'a>),
    /// The option has a value that it does not take.
    UnexpectedValue(Opt<'a>),
    /// `--` stands where a command may follow.
    DashesBeforeCommand,
}

/// How many names are told of those that may be meant.
const SHOWN: usize = 4;

impl CommandLine<'_> {
    /// Why it could not be read, as a sentence for people.
    pub fn why_unread(&self, tool: &str) -> Option<String> {
        let unread = self.unread.as_ref()?;
        let mut command = tool.to_owned();
        for name in self.subcommand.iter().take(unread.depth) {
            command.push(' ');
            command.push_str(name);
        }
        let word = unread.word.escape_ascii();
        Some(match &unread.why {
            Why::UnknownCommand => {
                format!("{word} is no command of {command} known to these rules")
            }
            Why::UnknownOption => format!("{word} is no option of {command} known to these rules"),
            Why::Ambiguous(names) => {
                let shown: Vec<&str> = names.iter().take(SHOWN).copied().collect();
                let more = if names.len() > SHOWN { " or another" } else { "" };
                format!(
                    "{word} of {command} is not written in full: it may be {}{more}",
                    shown.join(" or ")
                )
            }
            Why::MissingValue(_) => format!("{word} of {command} needs a value"),
            Why::UnexpectedValue(option) if option.takes() == Takes::Nothing => {
                format!("{word} of {command}: {} takes no such value", option.name())
            }
            Why::UnexpectedValue(option) => {
                format!("{word} of {command} is not a value that {} takes", option.name())
            }
            Why::DashesBeforeCommand => {
                format!("-- stands before {word}, which may be a command of {command}")
            }
        })
    }
}
