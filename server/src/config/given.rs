//! A value as somebody wrote it, from text or from TOML alike.
//!
//! Owns: reading the few kinds of values out of both. Must not: know settings.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

/// What was written.
#[derive(Debug)]
pub(super) enum Given<'a> {
    /// A variable, or every occurrence of a flag.
    Texts(Vec<String>),
    Toml(&'a DeValue<'a>),
}

/// What was expected instead; the part of the value where it is only a part,
/// and where in the file that stands.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) expected: String,
    pub(super) value: Option<String>,
    pub(super) at: Option<usize>,
}

impl From<&str> for Wrong {
    fn from(expected: &str) -> Wrong {
        Wrong { expected: expected.to_owned(), value: None, at: None }
    }
}

impl Wrong {
    /// About one element only.
    pub(super) fn of(expected: &str, value: &str, at: Option<usize>) -> Wrong {
        Wrong { expected: expected.to_owned(), value: Some(quoted(value)), at }
    }
}

/// An element of a list and where it stands in the file.
pub(super) type Element = (String, Option<usize>);

impl Given<'_> {
    /// A single text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Given::Texts(texts) => texts.last().map(String::as_str),
            Given::Toml(value) => value.as_str(),
        }
        .filter(|text| !text.contains('\0'))
    }

    /// A whole number.
    pub(super) fn integer(&self) -> Option<u64> {
        match self {
            Given::Texts(_) => self.text()?.parse().ok(),
            Given::Toml(value) => {
                let number = value.as_integer()?;
                u64::from_str_radix(number.as_str(), number.radix()).ok()
            }
        }
    }

    /// A number with or without a fraction.
    pub(super) fn decimal(&self) -> Option<f64> {
        let text = match self {
            Given::Texts(_) => self.text()?,
            Given::Toml(DeValue::Float(number)) => number.as_str(),
            Given::Toml(_) => {
                let whole = u32::try_from(self.integer()?).ok()?;
                return Some(f64::from(whole));
            }
        };
        // Rust also reads "inf" and "1e3": let only digits and a point pass.
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse().ok().filter(|_| plain)
    }

    /// Yes or no.
    pub(super) fn flag(&self) -> Option<bool> {
        match self {
            Given::Toml(value) => value.as_bool(),
            Given::Texts(_) => match self.text()? {
                "true" | "yes" | "1" => Some(true),
                "false" | "no" | "0" => Some(false),
                _ => None,
            },
        }
    }

    /// The permission bits of a file, written in octal.
    pub(super) fn mode(&self) -> Option<u32> {
        let number = match self {
            // A plain 660 would be decimal in TOML and is not what was meant.
            Given::Toml(DeValue::Integer(number)) if number.radix() == 8 => number.as_str(),
            _ => self.text().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?,
        };
        u32::from_str_radix(number, 8).ok().filter(|mode| *mode <= 0o777)
    }

    /// A list: TOML's own, or text split at a separator.
    pub(super) fn list(&self, separators: &[char]) -> Option<Vec<Element>> {
        let element = |value: &toml::Spanned<DeValue<'_>>| {
            let text = match value.get_ref() {
                DeValue::String(text) => text.clone().into_owned(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                _ => return None,
            };
            (!text.contains('\0')).then(|| (text, Some(value.span().start)))
        };
        match self {
            Given::Toml(value) => value.as_array()?.iter().map(element).collect(),
            Given::Texts(texts) => {
                let split = texts.iter().flat_map(|text| text.split(separators));
                let elements = split.filter(|text| !text.is_empty());
                Some(elements.map(|text| (text.to_owned(), None)).collect())
            }
        }
    }
}

/// As in the message about it.
impl fmt::Display for Given<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Texts(texts) => formatter.write_str(&quoted(&texts.join(" "))),
            Given::Toml(DeValue::String(text)) => formatter.write_str(&quoted(text)),
            Given::Toml(DeValue::Integer(number)) => write!(formatter, "{number}"),
            Given::Toml(DeValue::Float(number)) => write!(formatter, "{number}"),
            Given::Toml(DeValue::Boolean(flag)) => write!(formatter, "{flag}"),
            Given::Toml(value) => write!(formatter, "({})", value.type_str()),
        }
    }
}

/// A path made absolute: a relative one is taken from where the server starts.
pub(super) fn absolute(text: &str) -> Option<PathBuf> {
    std::path::absolute(Path::new(text)).ok()
}

/// A text as a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
