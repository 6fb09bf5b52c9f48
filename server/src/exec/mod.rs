//! One process and its whole tree, from start to end.
//!
//! Owns: starting an approved plan, its input and output, its signals, its
//! timeout, the end of its tree, and every wait in the server. Must not: know
//! tools, rules or sockets.
//!
//! - `plan`       what is to run: immutable
//! - `reaper`     starts processes and is the only one that waits for them
//! - `report`     how it ended, or why it never began
//! - `run`        one call: start, supervise, collect
//! - `supervise`  what ends a call: exit, timeout, the caller's death, a stop
//! - `hear`       what the caller asks meanwhile, and what it is told
//! - `plumbing`   the descriptors of a call
//! - `output`     captured or streamed bytes
//! - `terminal`   a pty, and what is said to the leader of its session
//! - `leader`     that leader: this program once more
//! - `tree`       the processes of a call, and their end
//! - `census`     who belongs to which call
//! - `hunt`       those that are gone before they are seen

mod census;
mod hear;
mod hunt;
mod leader;
mod output;
mod plan;
mod plumbing;
mod reaper;
mod report;
mod run;
mod supervise;
mod terminal;
mod tree;

pub(crate) use hear::{Event, Hear, Order};
pub(crate) use leader::{VERB as LEADER_VERB, lead};
pub(crate) use output::{Chunk, Seen, Source};
pub(crate) use plan::Plan;
pub(crate) use plumbing::Io;
pub(crate) use report::{Report, RunError};
pub(crate) use run::{Executor, Running};
pub(crate) use supervise::Outcome;
pub(crate) use tree::{Trees, sweep_leftovers};
