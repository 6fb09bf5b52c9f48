//! The ways to write options: which option a word, or a letter of it, is.
//!
//! Owns: long words, clusters, beginnings. Must not: take values from further
//! words.

use super::Reader;
use crate::grammar::Why;
use crate::grammar::table::{Found, NUMBER, Spelling, Takes};

impl<'a> Reader<'a, '_> {
    pub(super) fn long(&mut self, word: &'a [u8]) {
        let (name, value) = if self.style.equals { split(word) } else { (word, None) };
        if let Some(found) = self.grammar.exactly(self.node, name) {
            return self.give(found, name, value);
        }
        // `--no-` may go on as any option that it negates: nobody means one.
        if !self.style.abbreviations || name == b"--no-" {
            return self.unread(name, Why::UnknownOption);
        }
        let long = |spelling: &str| spelling.starts_with("--");
        self.begun(self.here_command().beginning(name, long), name, value);
    }

    /// An option of which only the beginning is there.
    fn begun(&mut self, found: Found, name: &'a [u8], value: Option<&'a [u8]>) {
        match found {
            Found::Nothing => self.unread(name, Why::UnknownOption),
            Found::One(found) => self.give(found, name, value),
            Found::Several(found) => {
                let names = found.iter().map(|found| self.grammar.text(found.text));
                self.unread(name, Why::Ambiguous(names.collect()));
            }
        }
    }

    /// A word with one dash.
    pub(super) fn short(&mut self, word: &'a [u8]) {
        if word.len() > 2 || !self.style.clusters {
            let (name, value) =
                if self.style.clusters || !self.style.equals { (word, None) } else { split(word) };
            if let Some(found) = self.grammar.exactly(self.node, name) {
                return self.give(found, name, value);
            }
        }
        if let [_, first, ..] = word
            && first.is_ascii_digit()
            && self.grammar.exactly(self.node, &[b'-', *first]).is_none()
        {
            // Some know numbers without clusters.
        } else if !self.style.clusters {
            return self.unread(word, Why::UnknownOption);
        }
        let mut rest = word.get(1..).unwrap_or_default();
        while let Some((letter, after)) = rest.split_first() {
            let name = [b'-', *letter];
            let number = letter.is_ascii_digit();
            let found = self.grammar.exactly(self.node, &name);
            let counted = || self.grammar.exactly(self.node, NUMBER.as_bytes());
            if let Some(found) = found {
                match self.letter(found, &name, after) {
                    Some(left) => rest = left,
                    None => return,
                }
            } else if let Some(found) = number.then(counted).flatten() {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (digits, left) = rest.split_at_checked(digits).unwrap_or_default();
                self.push(found, false, Some(digits));
                rest = left;
            } else {
                return self.unread(&name, Why::UnknownOption);
            }
        }
    }

    /// One letter of a cluster. Gives what is left of the cluster, where it goes
    /// on.
    fn letter(&mut self, found: Spelling, name: &[u8], after: &'a [u8]) -> Option<&'a [u8]> {
        let equals = match after {
            [b'=', value @ ..] if self.style.short_equals && !value.is_empty() => Some(value),
            _ => None,
        };
        match (self.takes(found), equals) {
            (Takes::Nothing, Some(_)) | (Takes::Value | Takes::Attached | Takes::Last, Some(_)) => {
                self.give(found, name, equals);
                None
            }
            (Takes::Value | Takes::Last, None) if !after.is_empty() => {
                self.give(found, name, Some(after));
                None
            }
            (Takes::Attached, None) if !after.is_empty() && !self.style.short_equals => {
                self.give(found, name, Some(after));
                None
            }
            (Takes::Words, _) if !after.is_empty() => {
                self.push(found, found.negated, None);
                Some(after)
            }
            _ => {
                self.give(found, name, None);
                Some(after)
            }
        }
    }

    /// A word of a tool to which the number of dashes says nothing.
    pub(super) fn dashed(&mut self, word: &'a [u8], dashes: usize) {
        let (whole, value) = if self.style.equals { split(word) } else { (word, None) };
        let key = whole.get(dashes..).unwrap_or_default();
        if let Some(found) = self.grammar.exactly(self.node, key) {
            return self.give(found, whole, value);
        }
        let grammar = self.grammar;
        let letter = |byte: &u8| grammar.exactly(self.node, std::slice::from_ref(byte));
        let letters: Option<Vec<Spelling>> = key.iter().map(letter).collect();
        if let Some(letters) = letters.filter(|letters| self.style.clusters && !letters.is_empty())
        {
            return self.letters(&letters, whole, value);
        }
        if !self.style.abbreviations {
            return self.unread(whole, Why::UnknownOption);
        }
        // Whether `--no-x` is a beginning is asked of `x`: every option has a
        // name, and not every one a negated form.
        let command = self.here_command();
        if let Some(positive) = key.strip_prefix(b"no-").filter(|rest| !rest.is_empty()) {
            return match command.beginning(positive, |spelling| spelling.starts_with("--")) {
                Found::One(found) => {
                    let negated = [b"no-", grammar.text(found.text).trim_matches('-').as_bytes()];
                    match self.grammar.exactly(self.node, &negated.concat()) {
                        Some(found) => self.give(found, whole, value),
                        None => self.unread(whole, Why::UnknownOption),
                    }
                }
                found => self.begun(found, whole, value),
            };
        }
        match command.beginning(key, |spelling| spelling.starts_with("--")) {
            Found::Nothing => {
                let short = command.beginning(key, |spelling| !spelling.starts_with("--"));
                self.begun(short, whole, value);
            }
            found => self.begun(found, whole, value),
        }
    }

    /// A cluster where dashes do not count. What follows is the last letter's.
    fn letters(&mut self, letters: &[Spelling], whole: &'a [u8], value: Option<&'a [u8]>) {
        let Some((last, before)) = letters.split_last() else { return };
        for found in before {
            if self.takes(*found) == Takes::Value {
                let option = self.grammar.spelled(*found).option;
                self.unread(whole, Why::MissingValue(option));
            }
            self.push(*found, found.negated, None);
        }
        self.give(*last, whole, value);
    }
}

/// `--name=value`.
fn split(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    match word.iter().position(|byte| *byte == b'=').and_then(|at| word.split_at_checked(at)) {
        Some((name, value)) => (name, value.get(1..)),
        None => (word, None),
    }
}
