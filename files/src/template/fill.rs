//! Text with variables: `{{NAME}}`.
//!
//! Owns: what is a variable, what stands for it, and which ones stood somewhere. What is
//! filled in is not read again. Must not: know files.

use std::collections::{BTreeMap, BTreeSet};

use super::{BYTES, invalid, shown_text, too_large};
use crate::FileError;

/// The longest name.
const LONGEST: usize = 128;

/// The variables.
#[derive(Debug)]
pub(super) struct Filler {
    values: BTreeMap<String, String>,
    used: BTreeSet<String>,
    keeps: bool,
}

impl Filler {
    /// Those; `keeps`: others stay as they are.
    pub(super) fn new(values: BTreeMap<String, String>, keeps: bool) -> Result<Filler, FileError> {
        if let Some(name) = values.keys().find(|name| !is_name(name)) {
            let name = shown_text(name);
            return Err(invalid(format!(
                "{name} is no name of a variable: letters, digits and _, not a digit first"
            )));
        }
        Ok(Filler { values, used: BTreeSet::new(), keeps })
    }

    /// The text with the values; `place` is where it stands, for people.
    pub(super) fn fill(&mut self, text: &str, place: &str) -> Result<String, FileError> {
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let inside = variable(after);
            let known =
                inside.and_then(|(name, after)| Some((name, self.values.get(name)?, after)));
            match (inside, known) {
                (_, Some((name, value, after))) => {
                    filled.push_str(value);
                    if !self.used.contains(name) {
                        self.used.insert(name.to_owned());
                    }
                    rest = after;
                }
                (Some((name, _)), None) if !self.keeps => {
                    let at = text.len() - after.len();
                    let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
                    return Err(invalid(format!(
                        "{place}, line {line}: no variable {name} is given: add it to variables, \
                         or set keep_unknown"
                    )));
                }
                // Braces that are no variable's: the second may begin one.
                _ => {
                    filled.push('{');
                    rest = rest.get(before.len() + 1..).unwrap_or_default();
                }
            }
            if filled.len() > BYTES {
                return Err(too_large());
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Which stood somewhere, and which did not.
    pub(super) fn told(self) -> (Vec<String>, Vec<String>) {
        let Filler { values, used, .. } = self;
        values.into_keys().partition(|name| used.contains(name))
    }
}

/// A name that ends in braces, at the beginning of a text; and what follows.
fn variable(text: &str) -> Option<(&str, &str)> {
    // No more is looked at than a name is long.
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = text.bytes().take(LONGEST + 1).take_while(|byte| is_part(byte)).count();
    let (name, rest) = text.split_at_checked(length)?;
    Some((name, rest.strip_prefix("}}")?)).filter(|(name, _)| is_name(name))
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && rest && name.len() <= LONGEST
}
