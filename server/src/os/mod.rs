//! The only place with unsafe code and raw system calls. Each file wraps one
//! corner of the kernel in a safe function; none knows what a tool or a call is.

#![allow(unsafe_code, reason = "this is the place for it")]

pub(crate) mod cgroup;
mod child;
mod clone3;
pub(crate) mod descriptors;
pub(crate) mod foreign;
pub(crate) mod leader;
pub(crate) mod limit;
pub(crate) mod mark;
pub(crate) mod process;
pub(crate) mod readiness;
pub(crate) mod root;
pub(crate) mod signals;
pub(crate) mod spawn;
pub(crate) mod startup;
pub(crate) mod terminal;
