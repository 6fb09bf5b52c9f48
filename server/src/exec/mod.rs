//! One process and its whole tree, from start to end.
//!
//! Owns: starting an approved plan, its input and output, its signals, its
//! timeout, the end of its tree, and every wait in the server. Must not: know
//! tools, rules or sockets.
//!
//! - `plan`       what is to run: immutable
//! - `reaper`     starts processes and is the only one that waits for them
//! - `confinement`  what holds it
//! - `ground`     what the machine gives to hold it
//! - `outlet`     its way out
//! - `room`       how much may be connected by it, and by those of other calls
//! - `bell`       what its processes ask the server by
//! - `connector`  the Unix sockets that it asks for
//! - `report`     how it ended, or why it never began
//! - `start`      a plan becomes a process
//! - `run`        one call: supervise, collect
//! - `supervise`  what ends a call: exit, timeout, the caller's death, a stop
//! - `hear`       what the caller asks meanwhile, and what it is told
//! - `pause`      time that is not the call's own
//! - `plumbing`   the descriptors of a call
//! - `output`     captured or streamed bytes
//! - `sieve`      what they pass through
//! - `terminal`   ptys
//! - `leader`     between server and tool, beneath a terminal or in namespaces: this
//!   program once more
//! - `task`       what it is to start
//! - `led`        what the server says to it and hears of it
//! - `trial`      a process that tries what a tool should not be able to do
//! - `tree`       the processes of a call, and their end
//! - `census`     who belongs to which call
//! - `hunt`       those that are gone before they are seen
//! - `crew`       threads for files of the workspace
//! - `lacks`      why namespaces cannot be had

mod bell;
mod census;
mod confinement;
mod connector;
pub(crate) mod crew;
pub(crate) mod ground;
mod hear;
mod hunt;
mod lacks;
mod leader;
mod led;
mod outlet;
mod output;
mod pause;
mod plan;
mod plumbing;
mod reaper;
mod report;
mod room;
mod run;
mod sieve;
mod start;
mod stranger;
mod supervise;
mod task;
mod terminal;
mod tree;
mod trial;

pub(crate) use bell::{Bell, Rings};
pub(crate) use confinement::Confinement;
pub(crate) use crew::{Crew, CrewError};
pub(crate) use ground::Ground;
pub(crate) use hear::{Event, Hear, Order};
pub(crate) use leader::{VERB as LEADER_VERB, lead};
pub(crate) use outlet::{Arrival, Arrivals, Outlet};
pub(crate) use output::{Chunk, Seen, Source};
pub(crate) use pause::Pause;
pub(crate) use plan::Plan;
pub(crate) use plumbing::Io;
pub(crate) use report::{Report, RunError};
pub(crate) use room::{Place, Rooms};
pub(crate) use run::{Executor, Running};
pub(crate) use stranger::Stranger;
pub(crate) use supervise::Outcome;
pub(crate) use tree::{Trees, sweep_leftovers};
pub(crate) use trial::{VERB as TRIAL_VERB, attempt};
