//! Quoting a call in a rule's words.
//!
//! Owns: what `{value}` stands for. Must not: let bytes of a caller's through as
//! they are, or more of them than fit a line.

use std::sync::Arc;

use super::{Call, FactTest, Rule, When};
use crate::facts::{Text, Value};
use crate::truth::Truth;

/// Stands in a reason or an instead for what met the rule.
const VALUE: &str = "{value}";

/// Where no value met the rule, or none is known.
const NOTHING: &str = "something unknown";

/// How many characters of a value are told.
const LENGTH: usize = 80;

impl Rule {
    /// The reason and the instead, for a call that met the rule.
    pub(crate) fn words(&self, call: &Call<'_>) -> (String, Option<Arc<str>>) {
        let quotes = |text: &str| text.contains(VALUE);
        if !quotes(&self.reason) && !self.instead.as_deref().is_some_and(quotes) {
            return (self.reason.to_string(), self.instead.clone());
        }
        let value = self.when.first(call).map_or_else(|| NOTHING.to_owned(), |value| short(&value));
        let said = |text: &str| text.replace(VALUE, &value);
        (said(&self.reason), self.instead.as_deref().map(|text| Arc::from(said(text))))
    }
}

impl When {
    /// The first value that met it: of an option, an operand, a fact; where it
    /// asks for none of these, the option.
    fn first(&self, call: &Call<'_>) -> Option<Vec<u8>> {
        let line = call.line;
        let values = self.values.iter().flat_map(|(option, matcher)| {
            option.values(line).map(move |value| (matcher, Text::new(value)))
        });
        let operands = self.operands.iter().flat_map(|matcher| {
            line.operands.iter().map(move |operand| (matcher, Text::new(*operand)))
        });
        let facts = self.facts.iter().filter_map(|(name, test)| {
            let (FactTest::Texts(matcher), Value::Texts(values)) = (test, call.facts.get(name))
            else {
                return None;
            };
            Some(values.iter().map(move |value| (matcher, value.clone())))
        });
        let mut all = values.chain(operands).chain(facts.flatten());
        all.find(|(matcher, value)| matcher.test(value, call.scene) != Truth::No)
            .map(|(_, value)| value.bytes().to_vec())
            .or_else(|| self.option(call))
    }

    fn option(&self, call: &Call<'_>) -> Option<Vec<u8>> {
        let tests = self.options.as_ref()?;
        let name = tests.iter().find_map(|test| test.name(call.line))?;
        Some(name.as_bytes().to_vec())
    }
}

/// Escaped, and with dots for what is beyond the length.
fn short(value: &[u8]) -> String {
    if value.is_empty() {
        return "''".to_owned();
    }
    let mut all = String::new();
    let mut kept = 0;
    for byte in value {
        all.extend(byte.escape_ascii().map(char::from));
        if all.len() > LENGTH {
            all.truncate(kept);
            all.push_str("...");
            break;
        }
        if all.len() + 3 <= LENGTH {
            kept = all.len();
        }
    }
    all
}
