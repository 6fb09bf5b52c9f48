//! tool-server: holds the tools and their credentials, decides, and runs the
//! calls that tool-client forwards.
//!
//! # Layout, from the top; a module uses only floors below its own
//!
//! - `cli`, `app`, `log`   the command line; a server built, run and stopped
//! - `listen`              sockets: from bytes to a call and back
//! - `broker`              the main path: `Broker::call` is the list of it
//! - `exec`                one process and its whole tree
//! - `registry` `policy` `config`   which tools, whether they may run, settings
//! - `os`                  the only unsafe code and raw system calls
//!
//! Start reading at `broker/mod.rs`.

mod app;
mod broker;
mod cli;
mod config;
mod exec;
mod links;
mod listen;
mod log;
mod os;
mod policy;
mod registry;

fn main() -> std::process::ExitCode {
    cli::run()
}
