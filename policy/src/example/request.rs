//! Examples of requests: what passes the gate, and what does not.
//!
//! ```toml
//! [[example]]
//! wire  = "push"        # a subcommand of requests; or fetch, read, change
//! facts = { ref = "main", force = true }
//! is    = "deny"
//! rule  = "push-force-protected"
//! ```
//!
//! A fact that is not given is `false`, or has no value; `"unknown"` is a flag that
//! cannot be known.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::compare;
use crate::Decision;
use crate::definition::gate::Adapter;
use crate::definition::read::{Entry, Wrong, decision, mismatch, string, strings, table, unknown};
use crate::facts::{Fact, Facts, Kind, Text, Value, git};
use crate::judge::Policy;
use crate::wire::{SIGNING, Wire, told_by};

/// What an example is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A request of this subcommand.
    Verb(&'static str),
    /// Any other request: it reads, or changes something.
    Fetch,
    Read,
    Change,
}

impl What {
    fn parse(policy: &Policy, entry: Entry<'_, '_>) -> Result<What, Wrong> {
        let said = string(entry)?;
        let mut verbs = policy.way.subcommands();
        match (verbs.find(|verb| *verb == said), said) {
            (Some(verb), _) => Ok(What::Verb(verb)),
            (None, "fetch") => Ok(What::Fetch),
            (None, "read") => Ok(What::Read),
            (None, "change") => Ok(What::Change),
            (None, _) => {
                let mut names: Vec<&str> = policy.way.subcommands().collect();
                names.extend(["fetch", "read", "change"]);
                let message = format!("wire must be one of {}, not {said:?}", names.join(", "));
                Err((entry.1.span(), message))
            }
        }
    }

    fn subcommand(&self) -> &[&str] {
        match self {
            What::Verb(verb) => std::slice::from_ref(verb),
            What::Fetch | What::Read | What::Change => &[],
        }
    }

    fn changes(self) -> bool {
        !matches!(self, What::Fetch | What::Read)
    }
}

/// Reads one, and tries it.
pub(super) fn check(policy: &Policy, span: Range<usize>, said: &DeTable<'_>) -> Result<(), Wrong> {
    let (mut what, mut is, mut rule, mut facts) = (None, None, None, None);
    for entry in said {
        match entry.0.get_ref().as_ref() {
            "wire" => what = Some((What::parse(policy, entry)?, entry)),
            "is" => is = Some(decision(entry)?),
            "rule" => rule = Some(string(entry)?.to_owned()),
            "facts" => facts = Some(entry),
            "call" | "args" => {
                let message = "an example has call, args or wire, not two of them";
                return Err((entry.0.span(), message.to_owned()));
            }
            _ => return Err(unknown(entry.0, "[[example]] ")),
        }
    }
    let missing = |what: &str| (span.clone(), format!("an example needs {what}"));
    let (what, entry) = what.ok_or_else(|| missing("wire"))?;
    let is = is.ok_or_else(|| missing("is = \"allow\", \"ask\" or \"deny\""))?;
    let names: Vec<&str> = match facts {
        Some(entry) => table(entry)?.iter().map(|(key, _)| key.get_ref().as_ref()).collect(),
        None => Vec::new(),
    };
    let out = out(policy, what, &names).ok_or_else(|| {
        let message = "no [[gate]] or [signing] has such a request with these facts";
        (entry.1.span(), message.to_owned())
    })?;
    let facts = told(out.list, facts, what)?;
    let request = Wire {
        subcommand: what.subcommand(),
        facts: &facts,
        changes: what.changes(),
        default: out.default,
        line: out.line,
    };
    compare(&policy.judge_wire(&request, None), is, rule.as_deref(), span)
}

/// What a request comes to.
struct Out {
    list: &'static [Fact],
    default: Decision,
    line: usize,
}

fn out(policy: &Policy, what: What, names: &[&str]) -> Option<Out> {
    if what == What::Verb("sign") {
        let (line, default) = policy.way.signing?;
        return Some(Out { list: SIGNING, default, line });
    }
    let git = matches!(what, What::Verb("push") | What::Fetch);
    let tells = |name: &&str, list: &[Fact]| list.iter().any(|fact| fact.name == *name);
    let gate = policy.way.gates.iter().find(|gate| {
        let list = told_by(gate.adapter);
        (gate.adapter == Adapter::Git) == git && names.iter().all(|name| tells(name, list))
    })?;
    let list = told_by(gate.adapter);
    Some(Out { list, default: gate.default, line: gate.line })
}

fn told(list: &'static [Fact], said: Option<Entry<'_, '_>>, what: What) -> Result<Facts, Wrong> {
    let mut known: Vec<(&'static str, Value)> = Vec::new();
    let said = said.map(table).transpose()?;
    let mut named = Vec::new();
    for fact in list {
        let given = said.and_then(|all| all.iter().find(|(key, _)| key.get_ref() == fact.name));
        let value = match (fact.kind, given) {
            (_, Some((_, value))) if value.get_ref().as_str() == Some("unknown") => Value::Unknown,
            (Kind::Flag, Some(entry)) => Value::Flag(flag(entry)?),
            (Kind::Flag, None) => Value::Flag(false),
            (Kind::Texts, Some(entry)) if (what, fact.name) == (What::Verb("push"), "ref") => {
                named = strings(entry)?.into_iter().map(|(_, name)| pushed(name)).collect();
                Value::Texts(named.iter().map(|(name, _)| name.clone()).collect())
            }
            (Kind::Texts, Some(entry)) => {
                let words = strings(entry)?.into_iter();
                Value::Texts(words.map(|(_, word)| Text::new(word.as_bytes().to_vec())).collect())
            }
            (Kind::Texts, None) => Value::Texts(Vec::new()),
        };
        known.push((fact.name, value));
    }
    let tags: Vec<Text<'static>> = named.into_iter().filter_map(|(_, tag)| tag).collect();
    if let Some((_, value @ Value::Texts(_))) = known.iter_mut().find(|(name, _)| *name == "tags")
        && value.is_nothing()
    {
        *value = Value::Texts(tags);
    }
    Ok(Facts::new(known))
}

/// A ref by every name that it has, and the tag that it is.
fn pushed(name: &str) -> (Text<'static>, Option<Text<'static>>) {
    let beginning = if name.starts_with("refs/") { "" } else { "refs/heads/" };
    git::named(format!("{beginning}{name}").as_bytes())
}

fn flag(entry: (&Spanned<toml::de::DeString<'_>>, &Spanned<DeValue<'_>>)) -> Result<bool, Wrong> {
    entry.1.get_ref().as_bool().ok_or_else(|| mismatch(entry, "true, false or \"unknown\""))
}
