//! Values of a TOML table, with the place of what is wrong with them.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::{Place, SyntaxError, line_at};

/// A message and the bytes that it is about.
pub(crate) type Wrong = (Range<usize>, String);

/// A member: its name and its value.
pub(crate) type Entry<'a, 'i> = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// One file, to say lines of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Which one.
    pub(crate) place: Place,
    /// All of it.
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// Its table.
    pub(crate) fn parse(self) -> Result<Spanned<DeTable<'a>>, SyntaxError> {
        // An editor that writes in place begins by emptying the file: that is no
        // definition, least of all one without restrictions.
        if self.text.trim().is_empty() {
            let message = match self.place {
                Place::Definition => {
                    "is empty: write the definition, or a comment where it has no members"
                }
                Place::Grammar => "is empty: write the grammar, or remove the file",
            };
            return Err(self.at((0..0, message.to_owned())));
        }
        DeTable::parse(self.text).map_err(|error| {
            let whole = self.text.len()..self.text.len();
            self.at((error.span().unwrap_or(whole), error.message().replace('\n', ", ")))
        })
    }

    /// What is wrong, with its line.
    pub(crate) fn at(self, (span, message): Wrong) -> SyntaxError {
        SyntaxError { place: self.place, line: self.line(&span), message }
    }

    /// The line where something begins.
    pub(crate) fn line(self, span: &Range<usize>) -> usize {
        line_at(self.text, span.start)
    }
}

pub(crate) fn string<'a>(entry: Entry<'a, '_>) -> Result<&'a str, Wrong> {
    entry.1.get_ref().as_str().ok_or_else(|| mismatch(entry, "a string"))
}

pub(crate) fn table<'a, 'i>(entry: Entry<'a, 'i>) -> Result<&'a DeTable<'i>, Wrong> {
    entry.1.get_ref().as_table().ok_or_else(|| mismatch(entry, "a table"))
}

/// The tables of a `[[name]]`, each with where it begins.
pub(crate) fn tables<'a, 'i>(
    entry: Entry<'a, 'i>,
) -> Result<Vec<(Range<usize>, &'a DeTable<'i>)>, Wrong> {
    let name = entry.0.get_ref();
    let expected = || mismatch(entry, &format!("a list of tables: write [[{name}]]"));
    let list = entry.1.get_ref().as_array().ok_or_else(expected)?;
    let each = |value: &'a Spanned<DeValue<'i>>| {
        let table = value.get_ref().as_table().ok_or_else(expected)?;
        Ok((value.span(), table))
    };
    list.iter().map(each).collect()
}

pub(crate) fn array<'a, 'i>(entry: Entry<'a, 'i>) -> Result<&'a DeArray<'i>, Wrong> {
    entry.1.get_ref().as_array().ok_or_else(|| mismatch(entry, "a list of strings"))
}

/// A list of strings, or one string; never empty. Each with its place.
pub(crate) fn strings<'a>(entry: Entry<'a, '_>) -> Result<Vec<(Range<usize>, &'a str)>, Wrong> {
    if let Some(text) = entry.1.get_ref().as_str() {
        return Ok(vec![(entry.1.span(), text)]);
    }
    let name = entry.0.get_ref();
    let each = |value: &'a Spanned<DeValue<'_>>| match value.get_ref().as_str() {
        Some(text) => Ok((value.span(), text)),
        None => Err((value.span(), format!("each of {name} must be a string"))),
    };
    let expected = || mismatch(entry, "a string or a list of strings");
    let list = entry.1.get_ref().as_array().ok_or_else(expected)?;
    match list.is_empty() {
        true => Err((entry.1.span(), format!("{name} is empty: leave it out, or say what"))),
        false => list.iter().map(each).collect(),
    }
}

/// A list of strings, which may be empty, none of them twice. Each with its place.
pub(crate) fn list<'a>(entry: Entry<'a, '_>) -> Result<Vec<(Range<usize>, &'a str)>, Wrong> {
    let name = entry.0.get_ref();
    let mut all: Vec<(Range<usize>, &str)> = Vec::new();
    for value in array(entry)? {
        let Some(text) = value.get_ref().as_str() else {
            return Err((value.span(), format!("each of {name} must be a string")));
        };
        if all.iter().any(|(_, known)| *known == text) {
            return Err((value.span(), format!("{text:?} is in {name} twice")));
        }
        all.push((value.span(), text));
    }
    Ok(all)
}

/// One of a few words.
pub(crate) fn chosen<T: Copy>(entry: Entry<'_, '_>, known: &[(&str, T)]) -> Result<T, Wrong> {
    let said = string(entry)?;
    let found = known.iter().find(|(word, _)| *word == said);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let name = entry.0.get_ref();
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        (entry.1.span(), format!("{name} must be one of {}, not {said:?}", words.join(", ")))
    })
}

pub(crate) fn flag(entry: Entry<'_, '_>) -> Result<bool, Wrong> {
    entry.1.get_ref().as_bool().ok_or_else(|| mismatch(entry, "true or false"))
}

/// A decision's word.
pub(crate) fn decision(entry: Entry<'_, '_>) -> Result<crate::Decision, Wrong> {
    let said = string(entry)?;
    crate::Decision::parse(said).ok_or_else(|| {
        let name = entry.0.get_ref();
        let message = format!("{name} must be \"allow\", \"ask\" or \"deny\", not {said:?}");
        (entry.1.span(), message)
    })
}

pub(crate) fn number(entry: Entry<'_, '_>) -> Result<f64, Wrong> {
    let float = || entry.1.get_ref().as_float()?.as_str().parse().ok();
    let whole = || integer(entry.1).and_then(|whole| u32::try_from(whole).ok()).map(f64::from);
    // A whole number beyond u32 is out of every range: let the check say so.
    let beyond = || integer(entry.1).map(|_| f64::INFINITY);
    float().or_else(whole).or_else(beyond).ok_or_else(|| mismatch(entry, "a number of seconds"))
}

pub(crate) fn integer(value: &Spanned<DeValue<'_>>) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(crate) fn mismatch(entry: Entry<'_, '_>, expected: &str) -> Wrong {
    let (name, found) = (entry.0.get_ref(), entry.1.get_ref().type_str());
    (entry.1.span(), format!("{name} must be {expected}, not of type {found}"))
}

pub(crate) fn unknown(key: &Spanned<DeString<'_>>, table: &str) -> Wrong {
    let name = key.get_ref().escape_debug();
    (key.span(), format!("{table}{name} is not a member of tool.toml"))
}
