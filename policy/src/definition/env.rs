//! The `[env]` table: which variables a tool gets.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// The `[env]` table; what is unset in it is for whoever loads it to fill in.
#[derive(Debug, Default, PartialEq)]
pub struct Env {
    /// From what the caller offers.
    pub forward: Option<Vec<NamePattern>>,
    /// From the server's own environment.
    pub inherit: Vec<NamePattern>,
    /// Names and values that the definition fixes.
    pub set: Vec<(String, String)>,
}

/// A variable's name, or a prefix of names written with a final `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    prefix: bool,
}

/// What is expected of a name pattern, for messages.
pub const NAME_PATTERN: &str = "a variable's name, a prefix as LC_*, or *";

impl NamePattern {
    /// The only way to make one.
    pub fn parse(text: &str) -> Option<NamePattern> {
        let (name, prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let plain = !name.contains(['=', '\0', '*']) && (prefix || !name.is_empty());
        plain.then(|| NamePattern { text: name.to_owned(), prefix })
    }

    /// Whether a variable's name is meant.
    pub fn matches(&self, name: &OsStr) -> bool {
        let (name, text) = (name.as_bytes(), self.text.as_bytes());
        if self.prefix { name.starts_with(text) } else { name == text }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.text, if self.prefix { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_or_prefixes() {
        let matches = |pattern: &str, name: &str| {
            NamePattern::parse(pattern).map(|pattern| pattern.matches(OsStr::new(name)))
        };
        assert_eq!(matches("TERM", "TERM"), Some(true));
        assert_eq!(matches("TERM", "TERMINFO"), Some(false));
        assert_eq!(matches("LC_*", "LC_ALL"), Some(true));
        assert_eq!(matches("LC_*", "LC"), Some(false));
        assert_eq!(matches("*", "ANY"), Some(true));
        for bad in ["", "A=B", "A\0", "A*B", "**", "*A"] {
            assert_eq!(NamePattern::parse(bad), None, "{bad:?}");
        }
        assert_eq!(NamePattern::parse("LC_*").unwrap().to_string(), "LC_*");
    }
}
