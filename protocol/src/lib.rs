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
pub mod reply;
pub mod request;
mod strict;
pub mod text;

pub use control::{Control, Signal};
pub use reply::{Output, Reply};
pub use request::{Id, Incoming, Request, Stdio};
pub use text::Text;
pub use tool_wire::*;

/// Why a message is refused: the code for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What the peer's program reads.
    pub code: Code,
    /// One line that names what is wrong.
    pub message: String,
}

impl Refusal {
    /// A refusal with that code and sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }
}
