//! Grammars, as they ship and as their tools read.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::let_underscore_must_use,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod curl;
mod gh;
mod git;
mod npm;
mod parseopt;
mod reading;
mod support;
