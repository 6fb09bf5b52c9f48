//! What is to run, decided on as a whole and never changed afterwards.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::os::limit::Limit;

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
    /// How long it may run; none is for as long as it likes.
    pub(crate) timeout: Option<Duration>,
    /// Resource limits that its definition sets.
    pub(crate) limits: Vec<Limit>,
    /// The call's number: its processes carry it.
    pub(crate) call: u32,
}
