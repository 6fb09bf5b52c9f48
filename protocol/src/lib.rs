//! The messages of the wire as types: what a request may say, what a reply
//! says, and how both look as JSON.
//!
//! Owns: parsing a payload into a message, joining a request that came in
//! several messages, writing replies. Must not: do I/O, know a tool, or decide
//! anything. Frames, limits and error codes are in `tool-wire`, re-exported
//! here. docs/protocol.md is the same in words.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod control;
pub mod observation;
pub mod reply;
pub mod request;
mod strict;
pub mod terminal;
pub mod text;

pub use control::{Control, Signal};
pub use observation::{Failure, Fault, Observation};
pub use reply::{Output, Reply};
pub use request::{Id, Incoming, Request, Stdio};
pub use terminal::{Size, Terminal};
pub use text::Text;
pub use tool_wire::*;

/// Why a message is refused: the code for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What the peer's program reads.
    pub code: Code,
    /// One line that names what is wrong: bounded, and without anything that a
    /// terminal or a log would act on, whatever it quotes.
    pub message: String,
    /// The rule that decided, where one did.
    pub rule: Option<String>,
    /// What to do instead, where that is known; one line, as the message.
    pub hint: Option<String>,
}

/// Characters of a message, at most.
const LONGEST_MESSAGE: usize = 600;

impl Refusal {
    /// A refusal with that code and sentence.
    pub fn new(code: Code, message: impl AsRef<str>) -> Refusal {
        Refusal { code, message: one_line(message.as_ref()), rule: None, hint: None }
    }

    /// The same, by that rule.
    #[must_use]
    pub fn by(mut self, rule: &str) -> Refusal {
        self.rule = Some(rule.to_owned());
        self
    }

    /// The same, with what to do instead.
    #[must_use]
    pub fn hint(mut self, hint: impl AsRef<str>) -> Refusal {
        self.hint = Some(one_line(hint.as_ref()));
        self
    }
}

/// Control characters, and those that turn text around, as escapes.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == LONGEST_MESSAGE {
            line.push('…');
            break;
        }
        let acts = character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if acts {
            line.extend(character.escape_unicode());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_bounded_line_whatever_it_quotes() {
        let message = Refusal::new(Code::Internal, "a\n\u{1b}[2J\u{202e}é").message;
        assert_eq!(message, "a\\u{a}\\u{1b}[2J\\u{202e}é");
        let long = Refusal::new(Code::Internal, "x".repeat(70_000)).message;
        assert_eq!(long.chars().count(), LONGEST_MESSAGE + 1);
    }
}
