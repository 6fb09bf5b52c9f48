//! The crate as those see it who use it: definitions in, decisions out.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says so by failing"
)]

mod addresses;
mod command_facts;
mod command_shells;
mod definitions;
mod gh_and_npm_facts;
mod git_facts;
mod git_lengths;
mod needs;
mod paths;
mod quotes;
mod rules;
mod support;
mod wire;
