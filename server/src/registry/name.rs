//! What a tool may be called.
//!
//! Owns: the one rule for a tool's name, which is also the rule for its
//! folder's. Must not: look at the disk.

use std::fmt;

/// A valid tool's name: 1 to 64 of `A-Z a-z 0-9 . _ + -`, not beginning with a
/// dot (hidden folders are nobody's tool) or a dash (it would read as a flag).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ToolName(String);

/// What is expected of a name, for messages.
pub(crate) const EXPECTED: &str =
    "1 to 64 of A-Z a-z 0-9 . _ + -, beginning with neither a dot nor a dash";

impl ToolName {
    /// The only way to make one.
    pub(crate) fn parse(text: &str) -> Option<ToolName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
        let fits = (1..=tool_protocol::limits::MAX_TOOL).contains(&text.len());
        let begins = !text.starts_with(['.', '-']);
        (fits && begins && text.bytes().all(allowed)).then(|| ToolName(text.to_owned()))
    }

    /// The name itself.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_lead_nowhere() {
        for good in ["git", "g++", "python3.12", "a", "7z", "x_y-z", "[".repeat(0).as_str()] {
            assert_eq!(ToolName::parse(good).is_some(), !good.is_empty(), "{good}");
        }
        assert!(ToolName::parse(&"a".repeat(64)).is_some());
        assert!(ToolName::parse(&"a".repeat(65)).is_none());
        for bad in ["", ".", "..", ".git", "-x", "a/b", "../x", "a b", "a\nb", "a\0", "é", "a:b"] {
            assert_eq!(ToolName::parse(bad), None, "{bad:?}");
        }
    }
}
