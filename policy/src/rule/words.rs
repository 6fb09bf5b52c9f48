//! Reading matchers.
//!
//! Owns: the forms that a matcher may have in a definition. Must not: let an
//! empty one pass; nobody could say whether it means all or nothing.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::matcher::{AddressTest, Matcher, Root};
use crate::definition::read::{Entry, Wrong, integer, string, strings};
use crate::pattern::Pattern;

/// What reading a matcher has to know of its definition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a> {
    /// The list that `@protected` stands for.
    pub(super) protected: &'a [Pattern],
}

const FORMS: &str = "one_of, pattern, beneath, host, not or all";

impl Words<'_> {
    /// The patterns that a string stands for.
    pub(super) fn patterns(&self, text: &str, span: Range<usize>) -> Result<Vec<Pattern>, Wrong> {
        match text {
            "@protected" if self.protected.is_empty() => {
                let message = "@protected stands for the member `protected`, which is not there";
                Err((span, message.to_owned()))
            }
            "@protected" => Ok(self.protected.to_vec()),
            "@roots" => Err((span, "@roots may only stand in beneath".to_owned())),
            text => match Pattern::parse(text) {
                Ok(pattern) => Ok(vec![pattern]),
                Err(message) => Err((span, message.to_owned())),
            },
        }
    }

    fn all(&self, entry: Entry<'_, '_>) -> Result<Vec<Pattern>, Wrong> {
        let mut all = Vec::new();
        for (span, text) in strings(entry)? {
            all.extend(self.patterns(text, span)?);
        }
        Ok(all)
    }

    /// A matcher: a string, a list of matchers, or a table.
    pub(super) fn matcher(&self, entry: Entry<'_, '_>) -> Result<Matcher, Wrong> {
        self.value(entry.0.get_ref(), entry.1)
    }

    fn value(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Matcher, Wrong> {
        let wrong = |message: String| Err((value.span(), message));
        match value.get_ref() {
            DeValue::String(text) => Ok(patterns(self.patterns(text, value.span())?)),
            DeValue::Array(list) if list.is_empty() => {
                wrong(format!("{name} is empty: leave it out, or say what"))
            }
            DeValue::Array(list) => {
                let all: Result<Vec<_>, Wrong> =
                    list.iter().map(|value| self.value(name, value)).collect();
                Ok(Matcher::Any(all?))
            }
            DeValue::Table(table) => self.table(name, table, value.span()),
            other => wrong(format!(
                "{name} must be a pattern, a list or a table of {FORMS}, not of type {}",
                other.type_str()
            )),
        }
    }

    fn table(&self, name: &str, table: &DeTable<'_>, span: Range<usize>) -> Result<Matcher, Wrong> {
        let mut found: Option<Matcher> = None;
        let (mut scheme, mut port) = (None, None);
        for entry in table {
            let (key, value) = entry;
            let next = match key.get_ref().as_ref() {
                "one_of" => {
                    let exact = |(_, text): (_, &str)| Matcher::Exact(text.as_bytes().to_vec());
                    Matcher::Any(strings(entry)?.into_iter().map(exact).collect())
                }
                "pattern" => patterns(self.all(entry)?),
                "beneath" => beneath(entry)?,
                "host" => {
                    let host = self.all(entry)?;
                    Matcher::Address(AddressTest { host, scheme: None, port: None })
                }
                "not" => Matcher::Not(Box::new(self.value("not", value)?)),
                "all" => match self.value("all", value)? {
                    Matcher::Any(all) if value.get_ref().is_array() => Matcher::All(all),
                    _ => {
                        return Err((value.span(), "all must be a list of matchers".to_owned()));
                    }
                },
                "scheme" => {
                    scheme = Some((key.span(), self.all(entry)?));
                    continue;
                }
                "port" => {
                    port = Some((key.span(), ports(entry)?));
                    continue;
                }
                other => {
                    let other = other.escape_debug();
                    return Err((key.span(), format!("{name} has {other}, and may have {FORMS}")));
                }
            };
            if found.replace(next).is_some() {
                return Err((key.span(), format!("{name} must have one of {FORMS}, not two")));
            }
        }
        match &mut found {
            Some(Matcher::Address(test)) => {
                test.scheme = scheme.map(|(_, scheme)| scheme);
                test.port = port.map(|(_, port)| port);
            }
            _ => {
                let beside = scheme.map(|(span, _)| span).or(port.map(|(span, _)| span));
                if let Some(span) = beside {
                    return Err((
                        span,
                        "scheme and port stand beside host: say host = \"*\" for any".to_owned(),
                    ));
                }
            }
        }
        found.ok_or_else(|| (span, format!("{name} is empty: say one of {FORMS}")))
    }
}

fn patterns(all: Vec<Pattern>) -> Matcher {
    let mut all: Vec<Matcher> = all.into_iter().map(Matcher::Pattern).collect();
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            all.extend(last);
            Matcher::Any(all)
        }
    }
}

fn beneath(entry: Entry<'_, '_>) -> Result<Matcher, Wrong> {
    let mut all = Vec::new();
    for (span, text) in strings(entry)? {
        let root = match text {
            "." => Root::Directory,
            "@roots" => Root::Roots,
            path if path.starts_with('/') && !path.split('/').any(|part| part == "..") => {
                Root::Path(path.as_bytes().to_vec())
            }
            other => {
                let message = format!(
                    "beneath must be an absolute path without .., \".\" (the call's directory) or \"@roots\", not {other:?}"
                );
                return Err((span, message));
            }
        };
        all.push(Matcher::Beneath(root));
    }
    Ok(Matcher::Any(all))
}

fn ports(entry: Entry<'_, '_>) -> Result<Vec<u16>, Wrong> {
    let port = |value: &Spanned<DeValue<'_>>| {
        let number = integer(value).and_then(|number| u16::try_from(number).ok());
        number.ok_or_else(|| {
            (value.span(), "port must be a number, at most 65535, or a list of them".to_owned())
        })
    };
    match entry.1.get_ref().as_array() {
        Some(list) if list.is_empty() => {
            Err((entry.1.span(), "port is empty: leave it out, or say which".to_owned()))
        }
        Some(list) => list.iter().map(port).collect(),
        None => Ok(vec![port(entry.1)?]),
    }
}

/// A plain string that must not be empty.
pub(super) fn sentence(entry: Entry<'_, '_>) -> Result<String, Wrong> {
    let text = string(entry)?.trim();
    let name = entry.0.get_ref();
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err((entry.1.span(), format!("{name} must be one line of text"))),
        false => Ok(text.to_owned()),
    }
}
