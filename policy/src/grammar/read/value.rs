//! What value an option has, once it is known which option it is.
//!
//! Owns: values, attached and in the next word. Must not: look up options.

use super::Reader;
use crate::grammar::table::{Kind, Spelling, Takes};
use crate::grammar::{Given, Why};

impl<'a> Reader<'a, '_> {
    /// An option, with its value if that is attached.
    pub(super) fn give(&mut self, found: Spelling, name: &[u8], attached: Option<&'a [u8]>) {
        let here = self.next;
        let option = self.grammar.spelled(found).option;
        // `--no-x` takes no value, but where the next word says whether it holds.
        let takes = match self.takes(found) {
            Takes::Words => Takes::Words,
            _ if found.negated => Takes::Nothing,
            takes => takes,
        };
        let mut negated = found.negated;
        let value = match (takes, attached) {
            (Takes::Nothing, Some(said)) if self.style.flag_values => match truth(said) {
                Some(holds) => {
                    negated ^= !holds;
                    attached
                }
                None => return self.unread(said, Why::UnexpectedValue(option)),
            },
            // How a grammar writes it: nobody's argument.
            (Takes::Number, _) => return self.unread(name, Why::UnknownOption),
            (Takes::Nothing, Some(_)) => {
                return self.unread(name, Why::UnexpectedValue(option));
            }
            (Takes::Nothing, None) => None,
            (Takes::Value, None) => match self.take() {
                Some(value) => Some(value),
                None => return self.unread(name, Why::MissingValue(option)),
            },
            (Takes::Last, None) => self.take(),
            (Takes::Value | Takes::Last | Takes::Attached, attached) => attached,
            (Takes::Words, Some(said)) if option.words().any(|word| word.as_bytes() == said) => {
                negated ^= said == b"false";
                attached
            }
            (Takes::Words, Some(said)) => {
                return self.unread(said, Why::UnexpectedValue(option));
            }
            (Takes::Words, None) => {
                let next = self.args.get(self.next).copied().unwrap_or_default();
                let word = option.words().any(|word| word.as_bytes() == next);
                negated ^= word && next == b"false";
                if word { self.take() } else { None }
            }
        };
        let missing = value.is_some_and(|value| value.starts_with(b"-") && value != b"-");
        if missing && !self.style.dash_values {
            // It is an option again.
            self.next = here;
            return self.unread(name, Why::MissingValue(option));
        }
        let argument = here.saturating_sub(1);
        self.line.options.push(Given { option, negated, value, argument });
    }

    pub(super) fn push(&mut self, found: Spelling, negated: bool, value: Option<&'a [u8]>) {
        let option = self.grammar.spelled(found).option;
        let argument = self.here();
        self.line.options.push(Given { option, negated, value, argument });
    }

    pub(super) fn takes(&self, found: Spelling) -> Takes {
        let entry = self.grammar.options.get(usize::from(found.option));
        match entry.map(|entry| entry.takes) {
            Some(Kind::Plain(takes)) => takes,
            Some(Kind::Words(_)) => Takes::Words,
            None => Takes::Nothing,
        }
    }
}

/// What Go's strconv.ParseBool makes of it.
fn truth(said: &[u8]) -> Option<bool> {
    match said {
        b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Some(false),
        _ => None,
    }
}
