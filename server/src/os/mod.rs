//! The only place with unsafe code and raw system calls. Each file wraps one
//! corner of the kernel in a safe function; none knows what a tool or a call is.

#![allow(unsafe_code, reason = "this is the place for it")]

pub(crate) mod apart;
pub(crate) mod bell;
pub(crate) mod cgroup;
mod child;
mod clone3;
pub(crate) mod closer;
pub(crate) mod cores;
pub(crate) mod descriptors;
pub(crate) mod foreign;
pub(crate) mod helper;
mod hurry;
pub(crate) mod identity;
pub(crate) mod json;
pub(crate) mod landlock;
pub(crate) mod leader;
pub(crate) mod limit;
pub(crate) mod mark;
pub(crate) mod notify;
mod nudge;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod readiness;
pub(crate) mod restrain;
pub(crate) mod root;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod spaces;
pub(crate) mod spawn;
pub(crate) mod startup;
pub(crate) mod terminal;
pub(crate) mod thread;
pub(crate) mod weaken;
