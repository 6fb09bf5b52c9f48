//! What is to run, decided on as a whole and never changed afterwards.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use tool_gate::redact::Live;
use tool_policy::facts::Observed;
use tool_policy::{Scene, Subject};

use super::bell::Bell;
use super::confinement::Confinement;
use crate::os::foreign::Found;
use crate::os::limit::Limit;

/// One process to be.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file to execute: the tool's binary, or its wrapper's interpreter.
    pub(crate) program: CString,
    /// argv, the name first.
    pub(crate) arguments: Vec<CString>,
    /// Where in it the caller's own begin.
    pub(crate) own: usize,
    /// `NAME=value`, built from nothing.
    pub(crate) environment: Vec<CString>,
    /// So many of them, the last ones, are of this call alone: the way to its gate.
    pub(crate) fresh: usize,
    /// Opened beneath a workspace root.
    pub(crate) directory: Found,
    /// Its name as the kernel has it; empty where it has none.
    pub(crate) place: Vec<u8>,
    /// The names of the workspace roots.
    pub(crate) roots: Arc<[Vec<u8>]>,
    /// What was read for the decision, and counts for nothing else.
    pub(crate) observed: Observed,
    /// The caller's.
    pub(crate) umask: u32,
    /// How long it may run; none is for as long as it likes.
    pub(crate) timeout: Option<Duration>,
    /// Resource limits that its definition sets.
    pub(crate) limits: Vec<Limit>,
    /// What is taken out of its output, which then passes the server.
    pub(crate) redact: Option<Arc<Live>>,
    /// What its processes ask the server by.
    pub(crate) bell: Option<Bell>,
    /// What holds it; `None`: nothing.
    pub(crate) confinement: Option<Confinement>,
    /// The call's number: its processes carry it.
    pub(crate) call: u32,
}

/// What is decided on is what is run: both read these fields, and nothing changes
/// them.
impl Subject for Plan {
    fn args(&self) -> Vec<&[u8]> {
        self.arguments.iter().skip(self.own).map(|word| word.as_bytes()).collect()
    }

    fn scene(&self) -> Scene<'_> {
        Scene { directory: &self.place, roots: &self.roots, observed: &self.observed }
    }
}
