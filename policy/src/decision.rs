//! What happens to a call, as a word.

use std::fmt;

/// What happens to a call. The order is the strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// It runs.
    Allow,
    /// It waits for a person.
    Ask,
    /// It does not run.
    Deny,
}

impl Decision {
    /// Every decision, the weakest first.
    pub const ALL: [Decision; 3] = [Decision::Allow, Decision::Ask, Decision::Deny];

    /// As it is written in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }

    /// The only way from text.
    pub fn parse(text: &str) -> Option<Decision> {
        Decision::ALL.into_iter().find(|decision| decision.as_str() == text)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Whether a decision is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is.
    #[default]
    Enforce,
    /// It is told, and every call runs.
    Observe,
}

impl Mode {
    /// As it is written in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
        }
    }

    /// The only way from text.
    pub fn parse(text: &str) -> Option<Mode> {
        [Mode::Enforce, Mode::Observe].into_iter().find(|mode| mode.as_str() == text)
    }
}
