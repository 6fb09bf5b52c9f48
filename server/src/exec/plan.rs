//! What is to run, decided on as a whole and never changed afterwards.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// One process to be.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file to execute: the tool's binary, or its wrapper's interpreter.
    pub(crate) program: CString,
    /// argv, the name first.
    pub(crate) arguments: Vec<CString>,
    /// `NAME=value`, built from nothing.
    pub(crate) environment: Vec<CString>,
    /// Opened beneath a workspace root.
    pub(crate) directory: OwnedFd,
    /// The caller's.
    pub(crate) umask: u32,
    /// How long it may run.
    pub(crate) timeout: Duration,
    /// The call's number: its processes carry it.
    pub(crate) call: u32,
}
