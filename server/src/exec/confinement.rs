//! What holds a tool, made before it runs: whose process it is, what it reaches.
//!
//! Owns: the parts, ready to be entered by a new process. Must not: choose them.

use std::sync::Arc;

use super::outlet::Outlet;
use crate::os::identity::Identity;
use crate::os::landlock::Domain;
use crate::os::restrain::Restraint;
use crate::os::seccomp::Filter;

/// How one process is confined.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// Whose process it is; `None`: the server's own user.
    pub(crate) identity: Option<Identity>,
    /// The files, ports and processes that it reaches; kept for many calls.
    pub(crate) domain: Arc<Domain>,
    /// The system calls that it may make; kept for many calls.
    pub(crate) filter: Arc<Filter>,
    /// Namespaces of its own.
    pub(crate) spaces: bool,
    /// Its way out.
    pub(crate) outlet: Option<Outlet>,
}

impl Confinement {
    /// What a new process is to do to itself.
    pub(super) fn restraint(&self) -> Restraint<'_> {
        Restraint::new(self.identity, &self.domain, &self.filter)
    }
}
