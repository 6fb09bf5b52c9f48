//! The doors for MCP: the tools, and the workspace's files, for clients of the Model
//! Context Protocol.
//!
//! Owns: what of the catalogue and of an observation a client is told, and in which form.
//! Must not: run or decide anything, read a file, or know a tool: every call goes one of
//! two ways to the broker. Frames, versions and requests are the official SDK's.
//!
//! - `way`        to the broker: what every door needs
//! - `direct`     by `Agent::dispatch`, from the server's own thread for HTTP
//! - `remote`     by calls with JSON over the socket, from another process
//! - `service`    one session of a client
//! - `told`       what a call tells while it is under way
//! - `tools`      definitions and results
//! - `media`      pictures and sounds among the results
//! - `resources`  files of the workspace
//! - `uri`        their names
//! - `roots`      where a client works
//! - `stdio`      a session on standard input and output
//! - `sessions`   sessions by HTTP: whose they are, how many, how long
//! - `http`       requests by HTTP
//! - `counted`    what their answers take until they are read

// Roots and lines for people are of the versions before the newest, which are served too.
#![expect(deprecated, reason = "the SDK calls so what the newest version no longer has")]

mod counted;
mod direct;
mod http;
mod media;
mod remote;
mod resources;
mod roots;
mod service;
mod sessions;
mod stdio;
mod told;
mod tools;
mod uri;
mod way;

pub(in crate::listen) use http::Mcp;
pub(crate) use stdio::serve_stdio;
pub(in crate::listen) use way::version_of;
