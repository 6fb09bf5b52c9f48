//! By what a request is known again.
//!
//! Owns: the digest of all that is known of it, piece by piece: ten thousand refs make
//! no string of megabytes. Must not: leave out what an answer is for.

use sha2::{Digest as _, Sha256};
use tool_gate::Part;
use tool_policy::facts::{Text, Value};

/// A digest of pieces, each with its length: no two lists of pieces are one string.
#[derive(Default)]
pub(super) struct Known(Sha256);

impl Known {
    /// One more.
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.count(piece.len());
        self.0.update(piece);
    }

    /// How many follow.
    pub(super) fn count(&mut self, count: usize) {
        self.0.update(u64::try_from(count).unwrap_or(u64::MAX).to_le_bytes());
    }

    /// A part of a request: its line, and all of its facts.
    pub(super) fn part(&mut self, part: &Part) {
        self.add(part.shown.as_bytes());
        self.count(part.facts.iter().count());
        for (name, value) in part.facts.iter() {
            self.add(name.as_bytes());
            match value {
                Value::Flag(holds) => self.0.update([0, u8::from(*holds)]),
                Value::Unknown => self.0.update([1]),
                Value::Texts(texts) => {
                    self.0.update([2]);
                    self.count(texts.len());
                    texts.iter().for_each(|text| self.text(text));
                }
            }
        }
    }

    fn text(&mut self, text: &Text<'_>) {
        self.0.update([u8::from(text.is_open()), u8::from(text.is_folded())]);
        self.count(text.names().count());
        text.names().for_each(|name| self.add(name));
    }

    pub(super) fn end(self) -> Vec<u8> {
        self.0.finalize().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shown: &str, facts: Vec<(&'static str, Value)>) -> Vec<u8> {
        let mut known = Known::default();
        let facts = facts.into_iter().collect();
        known.part(&Part { changes: true, facts, shown: shown.to_owned() });
        known.end()
    }

    #[test]
    fn whatever_is_known_of_a_request_makes_it_another_one() {
        let text = |word: &str| Text::new(word.as_bytes().to_vec());
        let texts = |words: &[&str]| Value::Texts(words.iter().map(|word| text(word)).collect());
        let all = [
            of("", vec![]),
            of("a", vec![]),
            of("", vec![("a", Value::Unknown)]),
            of("", vec![("a", Value::Flag(true))]),
            of("", vec![("a", Value::Flag(false))]),
            of("", vec![("b", Value::Flag(false))]),
            of("", vec![("a", texts(&[]))]),
            of("", vec![("a", texts(&["x"]))]),
            of("", vec![("a", texts(&["x", "y"]))]),
            of("", vec![("a", texts(&["xy"]))]),
            of("", vec![("a", Value::Texts(vec![text("x").or("y")]))]),
            of("", vec![("a", Value::Texts(vec![text("x").folded()]))]),
            of("", vec![("a", Value::Texts(vec![text("x").open()]))]),
            of("", vec![("a", texts(&["x"])), ("b", texts(&["y"]))]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(one.len(), 32);
            assert!(all.iter().skip(at + 1).all(|other| other != one), "{at}");
        }
        assert_eq!(of("a", vec![("a", texts(&["x"]))]), of("a", vec![("a", texts(&["x"]))]));
    }
}
