//! Whether a rule is about calls, about requests, or about both.
//!
//! Owns: the members `on` and `asked`. Must not: let a rule pass that could never
//! be met where it says that it holds.

use std::ops::Range;

use toml::de::DeTable;

use super::When;
use super::read::Reader;
use crate::Decision;
use crate::definition::read::{Entry, Wrong, string};
use crate::wire::{Asks, On};

/// The members, before they are read.
#[derive(Default)]
pub(super) struct Said<'a, 'i> {
    pub(super) on: Option<Entry<'a, 'i>>,
    pub(super) asked: Option<Entry<'a, 'i>>,
}

/// `asked`.
pub(super) fn asked(entry: Entry<'_, '_>) -> Result<Asks, Wrong> {
    let said = string(entry)?;
    Asks::parse(said).ok_or_else(|| {
        (entry.1.span(), format!("asked must be \"start\" or \"wire\", not {said:?}"))
    })
}

impl Reader<'_> {
    /// What a rule is about, and when it asks.
    pub(super) fn about(
        &self,
        said: &Said<'_, '_>,
        when: &When,
        decision: Decision,
        table: &DeTable<'_>,
        rule: Range<usize>,
    ) -> Result<(On, Asks), Wrong> {
        let asks = match said.asked {
            Some(entry) if decision != Decision::Ask => {
                return Err((entry.0.span(), "asked is for a rule that asks".to_owned()));
            }
            Some(entry) => Some((asked(entry)?, entry)),
            None => None,
        };
        let at_start = matches!(asks, Some((Asks::Start, _)));
        let on = match said.on {
            Some(entry) => self.on(entry, when, decision, table)?,
            None => match (self.of_calls(when), self.of_requests(when, decision)) {
                (true, true) if !at_start => On::Both,
                (true, _) => On::Call,
                (false, true) => On::Wire,
                (false, false) => return Err((rule, self.of_neither(when))),
            },
        };
        if let Some((_, entry)) = asks.filter(|_| on == On::Wire || self.way.is_closed()) {
            let why = match on {
                On::Wire => "a rule about requests asks when they come: leave asked out",
                _ => "asked says when, and there is no [[gate]] to ask at: leave it out",
            };
            return Err((entry.0.span(), why.to_owned()));
        }
        Ok((on, asks.map_or(Asks::Start, |(asks, _)| asks)))
    }

    fn on(
        &self,
        entry: Entry<'_, '_>,
        when: &When,
        decision: Decision,
        table: &DeTable<'_>,
    ) -> Result<On, Wrong> {
        let said = string(entry)?;
        let Some(on) = On::parse(said) else {
            let message = format!("on must be \"call\", \"wire\" or \"both\", not {said:?}");
            return Err((entry.1.span(), message));
        };
        if on.call() && !self.of_calls(when) {
            return Err((entry.1.span(), self.why_not_calls(when)));
        }
        if on.wire() && !self.of_requests(when, decision) {
            return Err(self.why_not_requests(entry, when, table));
        }
        Ok(on)
    }

    /// What to say of a fact that nobody tells.
    pub(super) fn no_fact(&self, name: &str) -> String {
        let known: Vec<&str> = self.module.list().iter().map(|fact| fact.name).collect();
        let wire = match self.way.names().as_slice() {
            [] => String::new(),
            names => format!("; requests have {}", names.join(", ")),
        };
        match known.is_empty() {
            true if wire.is_empty() => "there is no module that tells facts of this tool: say facts = \"git\", \"gh\", \"npm\" or \"command\"".to_owned(),
            true => format!("there is no fact {name:?}{wire}"),
            false => format!("the module {} has no fact {name:?}; it has {}{wire}", self.module.as_str(), known.join(", ")),
        }
    }

    /// The grammar and the module know all that it asks for.
    fn of_calls(&self, when: &When) -> bool {
        let known = |path: &Vec<String>| {
            let words: Vec<&str> = path.iter().map(String::as_str).collect();
            self.grammar.is_some_and(|grammar| grammar.command(&words).is_some())
        };
        let told = |name: &str| self.module.list().iter().any(|fact| fact.name == name);
        let read = self.grammar.is_some() || !self.module.needs_grammar();
        when.subcommands.iter().all(known) && when.facts_named().all(|name| read && told(name))
    }

    /// It asks for something, and requests have it.
    fn of_requests(&self, when: &When, decision: Decision) -> bool {
        let names: Vec<&str> = when.facts_named().collect();
        let comes =
            when.subcommands.is_empty() || when.subcommands.iter().any(|path| self.way.comes(path));
        let says = !names.is_empty() || !when.subcommands.is_empty();
        says && comes && self.way.tells(&names) && when.is_of_requests(decision)
    }

    fn why_not_calls(&self, when: &When) -> String {
        let told = |name: &str| self.module.list().iter().any(|fact| fact.name == name);
        match when.facts_named().find(|name| !told(name)) {
            Some(name) => format!("calls have no fact {name:?}, only requests: say on = \"wire\""),
            None => "calls have no such subcommand, only requests: say on = \"wire\"".to_owned(),
        }
    }

    /// The member that requests have not, with its line.
    fn why_not_requests(&self, entry: Entry<'_, '_>, when: &When, table: &DeTable<'_>) -> Wrong {
        if self.way.is_silent() {
            let why = "there is no [[gate]], so nothing comes by the wire: say on = \"call\"";
            return (entry.1.span(), why.to_owned());
        }
        let members = ["options", "values", "operands", "directory", "without"];
        let strange = table.iter().find(|(key, _)| {
            let name = key.get_ref().as_ref();
            members.contains(&name) && (name != "without" || !when.without.is_empty())
        });
        let facts = table.iter().find(|(key, _)| key.get_ref() == "facts");
        let strange_fact = facts
            .and_then(|(_, value)| value.get_ref().as_table())
            .and_then(|all| all.iter().find(|(key, _)| self.way.fact(key.get_ref()).is_none()));
        let names = self.way.names().join(", ");
        if let Some((key, _)) = strange_fact {
            let why = format!("requests have no fact {:?}; they have {names}", key.get_ref());
            return (key.span(), why);
        }
        if let Some((key, _)) = strange.filter(|(key, _)| key.get_ref() != "without") {
            let why = format!("requests have no {}: rules about them have facts", key.get_ref());
            return (key.span(), why);
        }
        if let Some((key, _)) = table.iter().find(|(key, _)| key.get_ref() == "subcommand") {
            let all: Vec<&str> = self.way.subcommands().collect();
            let why = match all.as_slice() {
                [] => "requests have no subcommand: rules about them have facts".to_owned(),
                all => format!("requests have these subcommands alone: {}", all.join(", ")),
            };
            if !when.subcommands.iter().any(|path| self.way.comes(path)) {
                return (key.span(), why);
            }
        }
        if let Some((key, _)) = strange {
            let why = "requests have no options, and this rule would allow more than it says";
            return (key.span(), why.to_owned());
        }
        match facts {
            None => (entry.1.span(), format!("a rule about requests needs facts: {names}")),
            Some((key, _)) => {
                (key.span(), format!("no request has all of these facts; {}", self.by_adapter()))
            }
        }
    }

    fn of_neither(&self, when: &When) -> String {
        let names: Vec<&str> = when.facts_named().collect();
        format!(
            "neither calls nor requests have all that this rule asks for ({}): make two of it",
            names.join(", ")
        )
    }

    fn by_adapter(&self) -> String {
        let mut all: Vec<String> = Vec::new();
        for out in &self.way.gates {
            let names: Vec<&str> =
                crate::wire::told_by(out.adapter).iter().map(|fact| fact.name).collect();
            let line = format!("{}: {}", out.adapter.as_str(), names.join(", "));
            if !all.contains(&line) {
                all.push(line);
            }
        }
        all.join("; ")
    }
}
