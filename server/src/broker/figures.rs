//! A call's end in the figures, and what the figures are at this moment.
//!
//! Must not: be waited for by a call; it is a few atomic additions.

use tool_policy::Decision;
use tool_protocol::{Code, Reply};

use super::recent::UnderWay;
use super::watch::ran;
use super::{Broker, Ticket};
use crate::metrics::{Decided, Exit, Now};

/// What the rules say.
pub(super) fn decided(decision: Decision) -> Decided {
    match decision {
        Decision::Allow => Decided::Allow,
        Decision::Ask => Decided::Ask,
        Decision::Deny => Decided::Deny,
    }
}

impl Broker {
    /// Counts a call that is over, and keeps it in mind where it was refused.
    pub(super) fn measure(&self, ticket: &Ticket, ended: Option<&UnderWay>, reply: &Reply) {
        let exit = match (reply.code, &reply.signal) {
            // The same call comes again.
            (Some(Code::UseStream), _) => return,
            (Some(code), _) => Exit::Code(code),
            (None, Some(_)) => Exit::Signal,
            (None, None) => Exit::Status(reply.exit_code),
        };
        if !ran(reply.code) {
            let (id, tool) = (&ticket.call_id, &ticket.tool);
            self.recent.refused(id, tool, ticket.peer, reply, &self.watch);
        }
        // The broker's own tools are in no folder.
        let found = ticket.record.known.tool.is_some();
        let exists = || found || self.registry.find(&ticket.tool).is_some();
        let decided = ended.map_or(Decided::None, |ended| ended.decided);
        let before = ended.and_then(|ended| ended.started);
        let figures = self.metrics.tool(&ticket.tool, exists);
        figures.ended(decided, exit, ticket.started.elapsed(), before);
    }

    /// All figures as text.
    pub(crate) fn figures(&self) -> String {
        let (running, waiting) = self.admission.load();
        let snapshot = self.registry.snapshot();
        let (tools, problems) = (snapshot.tools.len(), snapshot.problems.len());
        if let Some(audit) = &self.audit {
            let state = audit.state();
            self.metrics.audit_failures(state.failures);
            self.metrics.audit_not_on_stdout(state.not_on_stdout.unwrap_or(0));
        }
        self.metrics.text(&Now { running, waiting, tools, problems })
    }
}
