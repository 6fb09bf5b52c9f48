//! From the members of a definition to its policy.
//!
//! Owns: the members that are about rules, and their checks against the grammar
//! and the facts module. Must not: pass over what could never be met; a rule
//! that names an option which does not exist protects nobody.

use std::ops::Range;
use std::sync::Arc;

use toml::de::DeTable;

use super::matcher::Matcher;
use super::options::OptionTest;
use super::words::{Words, sentence};
use super::{FactTest, Rule, When, on};
use crate::definition::read::{
    Entry, Source, Wrong, decision, mismatch, string, strings, table, tables, unknown,
};
use crate::definition::{Place, SyntaxError};
use crate::example;
use crate::facts::{Kind, Module};
use crate::grammar::Grammar;
use crate::judge::{self, Stated, Unmatched};
use crate::pattern::Pattern;
use crate::wire::{Asks, Way};
use crate::{Decision, Mode, Policy};

/// The members of a definition that are about rules, before they are read.
#[derive(Default)]
pub(crate) struct Said<'a, 'i> {
    pub(crate) default: Option<((Decision, judge::Words, Asks), usize)>,
    pub(crate) facts: Option<Entry<'a, 'i>>,
    pub(crate) protected: Option<Entry<'a, 'i>>,
    pub(crate) mode: Option<Entry<'a, 'i>>,
    pub(crate) unread: Option<Entry<'a, 'i>>,
    pub(crate) grammar: Option<Entry<'a, 'i>>,
    pub(crate) rules: Option<Entry<'a, 'i>>,
    pub(crate) examples: Option<Entry<'a, 'i>>,
}

/// The most rules: each is looked at for every call.
const MOST_RULES: usize = 512;

/// Reads the policy of a tool, whose program may have another name, and tries
/// its examples on it.
pub(crate) fn read(
    tool: &str,
    program: &str,
    said: &Said<'_, '_>,
    way: Way,
    source: Source<'_>,
    beside: Option<&str>,
) -> Result<Policy, SyntaxError> {
    let wrong = |wrong: Wrong| source.at(wrong);
    let grammar = grammar(said, source, beside)?;
    let module = module(program, said).map_err(wrong)?;
    if let (Some(_), false, Some(entry)) = (&grammar, module.needs_grammar(), said.facts) {
        let message = "facts = \"command\" reads every word as it is: leave the grammar out";
        return Err(source.at((entry.0.span(), message.to_owned())));
    }
    let protected = protected(said).map_err(wrong)?;
    let (unread, by_unread) = unread(said, grammar.is_some(), source).map_err(wrong)?;
    let (default, by_default) = match &said.default {
        Some(((decision, words, asked), line)) => {
            let (decision, line, asked) = (*decision, *line, *asked);
            (Stated { decision, line, said: true, asked }, words.clone())
        }
        None => (Stated::default(), judge::Words::default()),
    };
    let reader = Reader {
        grammar: grammar.as_ref(),
        module,
        words: Words { protected: &protected },
        way: &way,
        source,
    };
    let rules = reader.rules(said).map_err(wrong)?;
    let policy = Policy {
        tool: Arc::from(tool),
        default,
        by_default,
        by_unread,
        unread,
        mode: mode(said).map_err(wrong)?,
        module,
        rules,
        grammar,
        way,
    };
    if let Some(entry) = said.examples {
        example::check(&policy, entry, source)?;
    }
    Ok(policy)
}

fn grammar(
    said: &Said<'_, '_>,
    source: Source<'_>,
    beside: Option<&str>,
) -> Result<Option<Grammar>, SyntaxError> {
    match (said.grammar, beside) {
        (None, None) => Ok(None),
        (Some((key, _)), Some(_)) => {
            let message = "[grammar] is here and in grammar.toml: keep one of them";
            Err(source.at((key.span(), message.to_owned())))
        }
        (Some(entry), None) => {
            let table = table(entry).map_err(|wrong| source.at(wrong))?;
            Grammar::from_table(table).map(Some).map_err(|wrong| source.at(wrong))
        }
        (None, Some(text)) => {
            let file = Source { place: Place::Grammar, text };
            let parsed = file.parse()?;
            Grammar::from_table(parsed.get_ref()).map(Some).map_err(|wrong| file.at(wrong))
        }
    }
}

fn module(program: &str, said: &Said<'_, '_>) -> Result<Module, Wrong> {
    let Some(entry) = said.facts else {
        return Ok(Module::of_program(program));
    };
    let name = string(entry)?;
    Module::parse(name).ok_or_else(|| {
        let known = Module::ALL.map(Module::as_str).join(", ");
        (entry.1.span(), format!("facts must be one of {known}, not {name:?}"))
    })
}

fn protected(said: &Said<'_, '_>) -> Result<Vec<Pattern>, Wrong> {
    let Some(entry) = said.protected else { return Ok(Vec::new()) };
    let words = Words { protected: &[] };
    let mut all = Vec::new();
    for (span, text) in strings(entry)? {
        all.extend(words.patterns(text, span)?);
    }
    Ok(all)
}

fn mode(said: &Said<'_, '_>) -> Result<Mode, Wrong> {
    let Some(entry) = said.mode else { return Ok(Mode::default()) };
    let text = string(entry)?;
    Mode::parse(text).ok_or_else(|| {
        (entry.1.span(), format!("mode must be \"enforce\" or \"observe\", not {text:?}"))
    })
}

/// `default` and `unread`: a decision's word, or a table of it and what is said
/// with it.
pub(crate) fn answer(entry: Entry<'_, '_>) -> Result<(Decision, judge::Words, Asks), Wrong> {
    let name = entry.0.get_ref();
    let Some(members) = entry.1.get_ref().as_table() else {
        return Ok((decision(entry)?, judge::Words::default(), Asks::Start));
    };
    let (mut said, mut words, mut asked) = (None, judge::Words::default(), Asks::Start);
    for entry in members {
        match entry.0.get_ref().as_ref() {
            "decision" => said = Some(decision(entry)?),
            "reason" => words.reason = Some(Arc::from(sentence(entry)?)),
            "instead" => words.instead = Some(Arc::from(sentence(entry)?)),
            // Of a line that nobody has read nobody knows what it asks for.
            "asked" if name == "default" => asked = on::asked(entry)?,
            _ => return Err(unknown(entry.0, &format!("{name} "))),
        }
    }
    let missing = || (entry.1.span(), format!("{name} needs a decision: allow, ask or deny"));
    Ok((said.ok_or_else(missing)?, words, asked))
}

fn unread(
    said: &Said<'_, '_>,
    has_grammar: bool,
    source: Source<'_>,
) -> Result<(Unmatched, judge::Words), Wrong> {
    let line = |span: &Range<usize>| source.line(span);
    match (said.unread, has_grammar) {
        (Some(entry), true) => {
            let (decision, words, _) = answer(entry)?;
            Ok((Unmatched { decision, line: line(&entry.0.span()) }, words))
        }
        (Some((key, _)), false) => Err((
            key.span(),
            "unread is about command lines that a grammar cannot read, and there is none: add [grammar]".to_owned(),
        )),
        (None, _) => {
            let line = said.grammar.map_or(1, |(key, _)| line(&key.span()));
            Ok((Unmatched { decision: Decision::Deny, line }, judge::Words::default()))
        }
    }
}

pub(super) struct Reader<'a> {
    pub(super) grammar: Option<&'a Grammar>,
    pub(super) module: Module,
    words: Words<'a>,
    /// Where its requests go.
    pub(super) way: &'a Way,
    source: Source<'a>,
}

impl Reader<'_> {
    fn rules(&self, said: &Said<'_, '_>) -> Result<Vec<Rule>, Wrong> {
        let Some(entry) = said.rules else { return Ok(Vec::new()) };
        let mut rules: Vec<Rule> = Vec::new();
        for (span, table) in tables(entry)? {
            let rule = self.rule(span.clone(), table)?;
            if let Some(known) = rules.iter().find(|known| known.id == rule.id) {
                let message =
                    format!("there is a rule {} already, in line {}", rule.id, known.line);
                return Err((span, message));
            }
            if rules.len() == MOST_RULES {
                return Err((span, format!("a definition may have {MOST_RULES} rules")));
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn rule(&self, span: Range<usize>, table: &DeTable<'_>) -> Result<Rule, Wrong> {
        let (mut id, mut said, mut reason, mut instead) = (None, None, None, None);
        let mut options = Vec::new();
        let mut when = When::default();
        let mut about = on::Said::default();
        for entry in table {
            let (key, value) = entry;
            match key.get_ref().as_ref() {
                "id" => id = Some(name(entry)?),
                "decision" => said = Some(decision(entry)?),
                "reason" => reason = Some(sentence(entry)?),
                "instead" => instead = Some(sentence(entry)?),
                "on" => about.on = Some(entry),
                "asked" => about.asked = Some(entry),
                "subcommand" => when.subcommands = self.subcommands(entry)?,
                // Which there are depends on the subcommands.
                "options" | "without" | "values" => options.push(entry),
                "operands" if value.get_ref().as_bool() == Some(false) => when.no_operands = true,
                "operands" => when.operands = Some(self.words.matcher(entry)?),
                "directory" => when.directory = Some(self.words.matcher(entry)?),
                "facts" => when.facts = self.facts(entry)?,
                _ => {
                    let (_, message) = unknown(key, "[[rule]] ");
                    return Err((key.span(), message));
                }
            }
            // An empty table says nothing and looks as if it did.
            if value.get_ref().as_table().is_some_and(|table| table.is_empty()) {
                return Err((value.span(), format!("{} is empty: leave it out", key.get_ref())));
            }
        }
        for entry in options {
            match entry.0.get_ref().as_ref() {
                "options" => when.options = Some(self.options(entry, &when.subcommands)?),
                "without" => when.without = self.options(entry, &when.subcommands)?,
                _ => when.values = self.values(entry, &when.subcommands)?,
            }
        }
        let missing = |what: &str| (span.clone(), format!("a rule needs {what}"));
        let id = Arc::from(id.ok_or_else(|| missing("an id"))?);
        let decision = said.ok_or_else(|| missing("a decision: allow, ask or deny"))?;
        let (on, asked) = self.about(&about, &when, decision, table, span.clone())?;
        Ok(Rule {
            id,
            decision,
            on,
            asked,
            line: self.source.line(&span),
            reason: Arc::from(reason.ok_or_else(|| missing("a reason, for whoever is refused"))?),
            instead: instead.map(Arc::from),
            when,
        })
    }

    fn subcommands(&self, entry: Entry<'_, '_>) -> Result<Vec<Vec<String>>, Wrong> {
        let mut all = Vec::new();
        for (span, text) in strings(entry)? {
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            let found = self.grammar.and_then(|grammar| grammar.command(&words));
            let own: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match found.filter(|_| !words.is_empty()) {
                Some(command) => {
                    all.push(command.path().into_iter().map(str::to_owned).collect());
                }
                None if self.way.comes(&own) => all.push(own),
                None => {
                    self.grammar(entry)?;
                    return Err((span, format!("the grammar has no subcommand {text:?}")));
                }
            }
        }
        Ok(all)
    }

    fn options(
        &self,
        entry: Entry<'_, '_>,
        paths: &[Vec<String>],
    ) -> Result<Vec<OptionTest>, Wrong> {
        let mut all = Vec::new();
        for (span, text) in strings(entry)? {
            let (spelling, value) = match text.split_once('=') {
                Some((spelling, "")) => (spelling, None),
                Some((spelling, value)) => {
                    (spelling, Some(self.words.patterns(value, span.clone())?))
                }
                None => (text, None),
            };
            all.push(self.option(entry, paths, (span, spelling), value)?);
        }
        Ok(all)
    }

    fn values(
        &self,
        entry: Entry<'_, '_>,
        paths: &[Vec<String>],
    ) -> Result<Vec<(OptionTest, Matcher)>, Wrong> {
        let mut all = Vec::new();
        for (key, value) in table(entry)? {
            let spelling = (key.span(), key.get_ref().as_ref());
            let test = self.option(entry, paths, spelling, None)?;
            all.push((test, self.words.matcher((key, value))?));
        }
        Ok(all)
    }

    fn option(
        &self,
        entry: Entry<'_, '_>,
        paths: &[Vec<String>],
        (span, spelling): (Range<usize>, &str),
        value: Option<Vec<Pattern>>,
    ) -> Result<OptionTest, Wrong> {
        let found = OptionTest::find(self.grammar(entry)?, paths, spelling, value);
        found.ok_or_else(|| {
            let of = match paths {
                [] => String::new(),
                paths => {
                    let paths: Vec<_> = paths.iter().map(|path| path.join(" ")).collect();
                    format!(" for {}", paths.join(", "))
                }
            };
            (span, format!("the grammar has no option {spelling:?}{of}"))
        })
    }

    fn facts(&self, entry: Entry<'_, '_>) -> Result<Vec<(&'static str, FactTest)>, Wrong> {
        if self.way.is_silent() && self.module.needs_grammar() {
            self.grammar(entry)?;
        }
        let mut all = Vec::new();
        for entry in table(entry)? {
            let (key, value) = entry;
            let name = key.get_ref().as_ref();
            let own = self.module.list().iter().find(|fact| fact.name == name);
            let Some(fact) = own.or_else(|| self.way.fact(name)) else {
                return Err((key.span(), self.no_fact(name)));
            };
            let test = match (fact.kind, value.get_ref().as_bool()) {
                (Kind::Flag, Some(wanted)) => FactTest::Flag(wanted),
                (Kind::Flag, None) => return Err(mismatch(entry, "true or false")),
                (Kind::Texts, _) => FactTest::Texts(self.words.matcher(entry)?),
            };
            all.push((fact.name, test));
        }
        Ok(all)
    }

    pub(super) fn grammar(&self, entry: Entry<'_, '_>) -> Result<&Grammar, Wrong> {
        self.grammar.ok_or_else(|| {
            let name = entry.0.get_ref();
            let message = format!(
                "{name} needs a grammar, to read the arguments by: add [grammar], or grammar.toml"
            );
            (entry.0.span(), message)
        })
    }
}

/// Ids that mean something else where a rule is named.
const TAKEN: [&str; 4] = ["default", "unread", "unrestricted", "gate"];

fn name(entry: Entry<'_, '_>) -> Result<String, Wrong> {
    let text = string(entry)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || text.len() > 48 || !text.bytes().all(plain) || TAKEN.contains(&text) {
        let message = format!(
            "id must be 1 to 48 of a-z, 0-9 and -, and none of {}, not {text:?}",
            TAKEN.join(", ")
        );
        return Err((entry.1.span(), message));
    }
    Ok(text.to_owned())
}
