//! What may be done: a tool's definition, its rules, and the decision on a call.
//!
//! Pure: no I/O, no clock, no async. What has to be known beside the arguments
//! is handed in. docs/tools.md, "Rules", is the same in words.
//!
//! - `definition`  what `tool.toml`, `tool.json` and `grammar.toml` say
//! - `grammar`     a tool's own arguments, as data
//! - `rule`        one rule, and whether a call meets it; `pattern`, `truth`
//! - `facts`       what modules that know a tool can tell of a call
//! - `judge`       a tool's policy: from all rules to one decision
//! - `wire`        the decision on a request at the gate, by the same rules
//! - `needs`       which calls get a way to the gate
//! - `approved`    the only way to something that may run; `scene` is its input
//! - `example`     calls that a definition says what happens to
//!
//! Start reading at `judge.rs`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod approved;
mod decision;
pub mod definition;
mod example;
pub mod facts;
pub mod grammar;
mod judge;
mod needs;
pub mod pattern;
pub mod rate;
mod rule;
mod scene;
mod truth;
mod wire;

pub use approved::{Approved, Asked, Consent, Judged, decide};
pub use decision::{Decision, Mode};
pub use definition::{Definition, NamePattern, SyntaxError};
pub use judge::{Policy, RuleId, Verdict};
pub use needs::Needs;
pub use rate::Rate;
pub use rule::Rule;
pub use scene::{Scene, Subject};
pub use wire::{Asks, On, Wire, told_by};
