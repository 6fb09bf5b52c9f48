//! What is fuzzed, and what must hold of it.
//!
//! Each target is a function over bytes that panics where something is wrong. The
//! same functions run under libFuzzer (fuzz/fuzz_targets), and on a stable
//! compiler with mutations that are the same every time (tests/smoke.rs).
//!
//! Owns: the targets, the naive second implementations that they compare with,
//! and the run on stable. Must not: know a name that is not public in what it
//! tests, or hold anything to a time.
//!
//! - `wire`        frames, base64, the client's reader and writer of JSON
//! - `message`     a caller's messages, requests in several, replies
//! - `definition`  a tool's definition files
//! - `grammar`     argument grammars over command lines
//! - `rules`       rules over calls; `case` is the language of their corpora
//! - `git`         what is read of a repository, and what a push changes
//! - `git_wire`    pushes, packs and paths as they come to the gate
//! - `graphql`     requests of GraphQL at the gate
//! - `matchers`    patterns, addresses and paths
//! - `json`        JSON, naively
//! - `source`      bytes as numbers and choices
//! - `mutate`      inputs from inputs
//! - `smoke`       many inputs through a target, and what is kept of a failure

pub mod case;
pub mod definition;
pub mod git;
pub mod git_wire;
pub mod grammar;
pub mod graphql;
pub mod json;
pub mod matchers;
pub mod message;
pub mod mutate;
pub mod rules;
pub mod smoke;
pub mod source;
pub mod wire;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its corpus, its dictionary and its libFuzzer program.
    pub name: &'static str,
    /// Panics where something is wrong.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident = $run:path;)*) => {
        /// Every target.
        pub const ALL: &[Target] = &[$(Target { name: stringify!($name), run: $run },)*];

        $(
            #[doc = concat!("The target `", stringify!($name), "`.")]
            pub fn $name(data: &[u8]) {
                $run(data);
            }
        )*
    };
}

targets! {
    frame = wire::frame;
    base64 = wire::base64;
    json_reader = wire::json_reader;
    json_writer = wire::json_writer;
    incoming = message::incoming;
    request = message::request;
    reply = message::reply;
    definition_toml = definition::definition_toml;
    definition_json = definition::definition_json;
    grammar = grammar::grammar;
    shipped_grammar = grammar::shipped;
    rules = rules::rules;
    git_config = git::config;
    git_push = git::push;
    pattern = matchers::pattern;
    address = matchers::address;
    path = matchers::path;
    git_wire = git_wire::git_wire;
    graphql = graphql::graphql;
}
