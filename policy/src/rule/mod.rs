//! Rules: what they say, and whether a call meets one.
//!
//! Owns: one rule and its answer. A rule that refuses or asks is met by what
//! may be meant; one that allows only by what is meant for certain. Must not:
//! weigh rules against each other; `judge` does.
//!
//! - `read`     from the members of a definition
//! - `on`       whether it is about calls or about requests
//! - `options`  which options a rule names
//! - `matcher`  what is asked of one value; `words` reads one
//! - `path`, `address`   operands that are paths or lead somewhere
//! - `quote`    what `{value}` stands for in a rule's words

mod address;
mod matcher;
mod on;
mod options;
mod path;
mod quote;
mod read;
mod words;

use std::sync::Arc;

use self::matcher::Matcher;
use self::options::OptionTest;
pub(crate) use self::read::{Said, answer, read};
use crate::Decision;
use crate::facts::{Facts, Text, Value};
use crate::grammar::CommandLine;
use crate::scene::Scene;
use crate::truth::Truth;
use crate::wire::{self, On};

/// A rule of a definition.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Unique in its definition.
    pub id: Arc<str>,
    /// What follows where it is met.
    pub decision: Decision,
    /// Where it stands in the definition.
    pub line: usize,
    /// Why, for whoever is refused or asked.
    pub reason: Arc<str>,
    /// What to do instead.
    pub instead: Option<Arc<str>>,
    /// What it is about: calls, requests, or both.
    pub on: On,
    /// Where it asks about calls: when.
    pub asked: wire::Asks,
    pub(crate) when: When,
}

/// What a call has to be; what is empty does not matter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct When {
    /// Any of these paths, or beneath one.
    subcommands: Vec<Vec<String>>,
    options: Option<Vec<OptionTest>>,
    without: Vec<OptionTest>,
    values: Vec<(OptionTest, Matcher)>,
    operands: Option<Matcher>,
    /// There are none.
    no_operands: bool,
    directory: Option<Matcher>,
    facts: Vec<(&'static str, FactTest)>,
}

/// What a fact has to be.
#[derive(Debug, PartialEq, Eq)]
enum FactTest {
    Flag(bool),
    Texts(Matcher),
}

/// A call as rules see it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) line: &'a CommandLine<'a>,
    pub(crate) facts: &'a Facts,
    pub(crate) scene: &'a Scene<'a>,
}

impl Rule {
    /// Whether a call meets it.
    pub(crate) fn is_met(&self, call: &Call<'_>) -> bool {
        match self.decision {
            // Of a line that could not be read nothing is certain.
            Decision::Allow => call.line.unread.is_none() && self.when.is_bound(call),
            Decision::Ask | Decision::Deny => self.when.may_be(call),
        }
    }

    /// Whoever is asked sees the request itself.
    pub(crate) fn asks_on_wire(&self) -> bool {
        self.decision == Decision::Ask && (self.on == On::Both || self.asked == wire::Asks::Wire)
    }

    /// A call that has a gate meets it only since something cannot be known yet.
    pub(crate) fn is_left_to_wire(&self, call: &Call<'_>) -> bool {
        self.decision == Decision::Deny && self.on == On::Both && !self.when.is_sure(call)
    }
}

impl When {
    /// For a rule that refuses: any value is enough, and so is one that cannot
    /// be known.
    fn may_be(&self, call: &Call<'_>) -> bool {
        let line = call.line;
        let any = |matcher: &Matcher, values: &[&[u8]]| {
            let each = values.iter().map(|value| matcher.test(&Text::new(*value), call.scene));
            Truth::any(each) != Truth::No
        };
        self.is_command(line)
            && (!self.no_operands || line.operands.is_empty())
            && self
                .options
                .as_ref()
                .is_none_or(|tests| tests.iter().any(|test| test.is_given(line)))
            && !self.without.iter().any(|test| test.holds_to_the_end(line))
            && (self.values.is_empty()
                || self.values.iter().any(|(option, matcher)| {
                    any(matcher, &option.values(line).collect::<Vec<_>>())
                }))
            && self.operands.as_ref().is_none_or(|matcher| any(matcher, &line.operands))
            && self
                .directory
                .as_ref()
                .is_none_or(|matcher| in_directory(matcher, call) != Truth::No)
            && self.facts.iter().all(|(name, test)| match (test, call.facts.get(name)) {
                (_, Value::Unknown) => true,
                (FactTest::Flag(wanted), Value::Flag(holds)) => wanted == holds,
                (FactTest::Texts(matcher), Value::Texts(values)) => {
                    let each = values.iter().map(|value| matcher.test(value, call.scene));
                    Truth::any(each) != Truth::No
                }
                // Kinds are checked as the rule is read.
                _ => true,
            })
    }

    /// For a rule that allows: there is a value, and all are meant for certain.
    fn is_bound(&self, call: &Call<'_>) -> bool {
        let line = call.line;
        let all = |matcher: &Matcher, values: &[&[u8]]| {
            let each = values.iter().map(|value| matcher.test(&Text::new(*value), call.scene));
            !values.is_empty() && Truth::all(each) == Truth::Yes
        };
        self.is_command(line)
            && (!self.no_operands || line.operands.is_empty())
            && options::bound(self.options.as_deref(), &self.values, line)
            && !self.without.iter().any(|test| test.is_given(line))
            && self.values.iter().all(|(option, matcher)| {
                let values: Vec<&[u8]> = option.values(line).collect();
                values.is_empty() || all(matcher, &values)
            })
            && self.operands.as_ref().is_none_or(|matcher| all(matcher, &line.operands))
            && self
                .directory
                .as_ref()
                .is_none_or(|matcher| in_directory(matcher, call) == Truth::Yes)
            && self.facts.iter().all(|(name, test)| match (test, call.facts.get(name)) {
                (FactTest::Flag(wanted), Value::Flag(holds)) => wanted == holds,
                (FactTest::Texts(matcher), Value::Texts(values)) => {
                    let each = values.iter().map(|value| matcher.test(value, call.scene));
                    !values.is_empty() && Truth::all(each) == Truth::Yes
                }
                _ => false,
            })
    }

    /// Of facts alone: each is known, and met.
    fn is_sure(&self, call: &Call<'_>) -> bool {
        self.facts.iter().all(|(name, test)| match (test, call.facts.get(name)) {
            (FactTest::Flag(wanted), Value::Flag(holds)) => wanted == holds,
            (FactTest::Texts(matcher), Value::Texts(values)) => {
                let each = values.iter().map(|value| matcher.test(value, call.scene));
                Truth::any(each) == Truth::Yes
            }
            _ => false,
        })
    }

    /// The facts that it asks for.
    pub(crate) fn facts_named(&self) -> impl Iterator<Item = &'static str> {
        self.facts.iter().map(|(name, _)| *name)
    }

    /// Whether requests can be compared with it: they have a subcommand and facts.
    /// What is no request at all, as a dry run, does not matter to one that stops.
    fn is_of_requests(&self, decision: Decision) -> bool {
        let bare = self.options.is_none()
            && self.values.is_empty()
            && self.operands.is_none()
            && !self.no_operands
            && self.directory.is_none();
        bare && (self.without.is_empty() || decision != Decision::Allow)
    }

    fn is_command(&self, line: &CommandLine<'_>) -> bool {
        let begins = |path: &Vec<String>| {
            path.len() <= line.subcommand.len()
                && path.iter().zip(&line.subcommand).all(|(wanted, word)| wanted == word)
        };
        self.subcommands.is_empty() || self.subcommands.iter().any(begins)
    }
}

fn in_directory(matcher: &Matcher, call: &Call<'_>) -> Truth {
    match call.scene.directory {
        b"" => Truth::Unknown,
        directory => matcher.test(&Text::new(directory), call.scene),
    }
}
