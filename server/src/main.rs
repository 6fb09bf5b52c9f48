//! tool-server: holds the tools and their credentials, decides, and runs the
//! calls that tool-client forwards.
//!
//! # Layout, from the top; a module uses only floors below its own
//!
//! - `cli`, `app`, `log`   the command line; a server built, run and stopped
//! - `listen`              sockets: from bytes to a call and back
//! - `broker`              the main path: `Broker::call` is the list of it
//! - `exec`                one process and its whole tree
//! - `audit`               one line a call
//! - `metrics`             what is counted
//! - `host`                what claude-container asks on the host; knows no other floor
//! - `catalog`             definitions to choose from, and how one is taken
//! - `registry` `config`   which tools there are, settings
//! - `shown`               a text of somebody else's, for a person's terminal
//! - `os`                  the only unsafe code and raw system calls
//!
//! Whether a call may run is decided in the crate `tool-policy`, which knows no
//! floor: `registry` loads definitions by it, `broker` asks it, and `exec` runs
//! nothing but what it approved.
//!
//! Start reading at `broker/mod.rs`.

mod agent;
mod app;
mod audit;
mod broker;
mod catalog;
mod cli;
mod config;
mod exec;
mod host;
mod links;
mod listen;
mod log;
mod metrics;
mod os;
mod registry;
mod shown;

fn main() -> std::process::ExitCode {
    cli::run()
}
