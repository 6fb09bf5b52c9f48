//! What one call may do at the gate.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tool_policy::definition::gate::Gate;

use crate::credential::Keeper;
use crate::door::Door;
use crate::judge::Judge;
use crate::redact::{Answers, Live};
use crate::upstream::Upstream;

/// As many connections may a call have at once.
pub const CONNECTIONS: usize = 64;

/// What one call may do; dropped with it.
pub struct Grant {
    /// How it gets here.
    pub door: Door,
    /// The host that is meant by requests of `Came::Own` that name none but this machine.
    pub base: Option<String>,
    /// The definition's, in its order: the first whose host matches is meant.
    pub gates: Arc<[Gate]>,
    /// git: receive-pack may be asked for, not upload-pack alone.
    pub push: bool,
    /// Who decides.
    pub judge: Arc<dyn Judge>,
    /// Where credentials come from.
    pub credentials: Arc<Keeper>,
    /// What the call's output is looked through for: values that are handed out are put
    /// there first.
    pub redact: Option<Arc<Live>>,
    /// Answers are looked through themselves, where nobody looks through what becomes of
    /// them.
    pub answers: Option<Answers>,
    /// Connections to hosts: `Upstream::of_call`.
    pub upstream: Arc<Upstream>,
    /// Places for connections: `Semaphore::new(CONNECTIONS)`.
    pub places: Arc<Semaphore>,
    /// git: what was allowed already; `Memory::default()`.
    pub git: crate::adapter::git::Memory,
}

impl fmt::Debug for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Grant");
        shown.field("door", &self.door).field("push", &self.push).finish_non_exhaustive()
    }
}
