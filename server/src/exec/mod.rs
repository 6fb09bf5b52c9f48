//! One process and its whole tree, from start to end.
//!
//! Owns: starting an approved plan, its input and output, its signals, its
//! timeout, the end of its tree, and every wait in the server. Must not: know
//! tools, rules or sockets.
//!
//! - `plan`       what is to run: immutable
//! - `reaper`     starts processes and is the only one that waits for them
//! - `run`        one call: start, supervise, collect
//! - `supervise`  what ends a call: exit, timeout, the caller's death, a stop
//! - `output`     captured or streamed bytes
//! - `tree`       the processes of a call, and their end
//! - `census`     who belongs to which call
//! - `hunt`       those that are gone before they are seen

mod census;
mod hunt;
mod output;
mod plan;
mod reaper;
mod run;
mod supervise;
mod tree;

pub(crate) use output::Chunk;
pub(crate) use plan::Plan;
pub(crate) use run::{Executor, Hear, Io, Report, RunError};
pub(crate) use supervise::Outcome;
pub(crate) use tree::{Trees, sweep_leftovers};
