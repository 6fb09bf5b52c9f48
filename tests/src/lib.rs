//! The harness of the outside tests: a real `tool-server` in a directory of its
//! own, real `tool-client` symlinks, the raw wire, and a look at processes.
//!
//! ```no_run
//! use tool_broker_tests::{Server, run};
//!
//! let server = Server::start(|s| {
//!     s.tool("cat", r#"{"binary":"/bin/cat"}"#);      // tools.d/cat/tool.json
//!     s.tool("id", "binary = \"/usr/bin/id\"\n");     // tools.d/id/tool.toml
//!     s.env("TOOL_SOMETHING", "1");
//! });
//! let outcome = run(server.client("cat").arg("a file"), b"");
//! assert_eq!(outcome.code(), Some(1));
//! ```
//!
//! | module | what |
//! | --- | --- |
//! | [`attacks`] | tables of attacks, and a world in which every harm is seen |
//! | [`binaries`] | the built `tool-server` and `tool-client` |
//! | [`setup`] | [`Setup`]: directories, definitions, environment, limits; runs verbs without a server |
//! | [`server`] | [`Server`]: a running one; it dies, with all that it left, when dropped |
//! | [`outcome`] | [`run`]: a command with its input, output and exit, and a deadline |
//! | [`twin`] | the same command natively and through the client, byte for byte |
//! | [`twins`] | tables of such commands, and what differs as text |
//! | [`wire`] | [`Wire`]: a raw connection, frames and descriptors |
//! | [`rules`] | the shipped rules on tables of command lines |
//! | [`http`] | a server whose tools are called by HTTP, and requests byte for byte |
//! | [`forge`] | a git server on loopback that wants a password |
//! | [`exposition`] | the figures of a server, read strictly |
//! | [`mcp`] | clients of MCP, by hand, at both doors |
//! | [`process`] | /proc: who is alive, whose child, how many descriptors |
//! | [`terminal`] | a command on a pseudo-terminal |
//! | [`sys`] | the only unsafe code |
//!
//! Rules: nothing here or in a test waits for a fixed time and then looks; it
//! polls with [`eventually`] until a generous deadline. Nothing is ended by
//! name. A test that cannot run here calls [`skipped`] and returns.

pub mod attacks;
pub mod binaries;
pub mod exposition;
pub mod forge;
pub mod http;
pub mod lingering;
pub mod mcp;
pub mod outcome;
pub mod process;
pub mod rules;
pub mod server;
pub mod setup;
pub mod sys;
pub mod terminal;
pub mod twin;
pub mod twins;
pub mod wire;

pub use exposition::Exposition;
pub use forge::Forge;
pub use outcome::{Outcome, Running, run, spawn};
pub use process::{alive, eventually, eventually_some};
pub use server::{Server, still_works};
pub use setup::Setup;
pub use wire::Wire;

use std::io::Write as _;
use std::time::Duration;

/// How long anything may take before a test says that it hangs. A row of the twins makes
/// hundreds of calls, on a machine that may do much else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Says that a test cannot run on this machine, on stderr and in the file that
/// `TOOL_TESTS_SKIPPED` names. The test returns after it.
pub fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    // Not eprint!: the test harness captures that, and a skip must be seen.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("TOOL_TESTS_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Whether this process may become any user, mount, and so on.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The root of the workspace: where README.md and docs/ are.
pub fn project() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests/ lies in the project").to_path_buf()
}
