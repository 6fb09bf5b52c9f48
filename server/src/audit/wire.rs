//! What a line says of a request that a call made at its gate. It has `kind`, which
//! the line of a call has not, and the call's `call_id`.
//!
//! Owns: the members of such a line and their bounds. Must not: do I/O.

use std::time::SystemTime;

use super::record::{Approval, Fact, LONG_NAME, approval, at, facts, shortened};
use super::{json, time};

/// A request, or a part of one, and what was decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wired<'a> {
    /// The call's.
    pub(crate) call_id: &'a str,
    /// The tool's name.
    pub(crate) tool: &'a str,
    /// Who understood it; none where nobody did.
    pub(crate) adapter: Option<&'a str>,
    /// Where it was to go.
    pub(crate) host: &'a str,
    /// And to which port, where that is known.
    pub(crate) port: Option<u16>,
    /// What it does, in one line; or why it was not understood.
    pub(crate) request: &'a str,
    /// Whether it changes something there.
    pub(crate) changes: bool,
    /// What is known of it.
    pub(crate) facts: &'a [(&'a str, Fact<'a>)],
    /// allow, ask or deny.
    pub(crate) decision: &'a str,
    /// Which rule.
    pub(crate) rule: Option<&'a str>,
    /// Where it stands: file and line.
    pub(crate) at: Option<(&'a [u8], usize)>,
    /// What would have been decided, where it was only observed.
    pub(crate) would: Option<&'a str>,
    /// Whether it was sent on.
    pub(crate) passed: bool,
    /// Where the rule asks.
    pub(crate) approval: Option<Approval<'a>>,
    /// The name of the credential that was added.
    pub(crate) credential: Option<&'a str>,
}

impl Wired<'_> {
    pub(super) fn line(&self) -> Vec<u8> {
        let mut out = begin("wire", self.call_id, self.tool);
        json::text(&mut out, "adapter", self.adapter.map(str::as_bytes));
        json::member(&mut out, "host");
        shortened(&mut out, self.host.as_bytes(), LONG_NAME);
        json::number(&mut out, "port", self.port.map(u64::from));
        json::member(&mut out, "request");
        shortened(&mut out, self.request.as_bytes(), LONG_NAME);
        json::flag(&mut out, "changes", self.changes);
        facts(&mut out, self.facts);
        json::text(&mut out, "decision", Some(self.decision.as_bytes()));
        json::text(&mut out, "rule", self.rule.map(str::as_bytes));
        at(&mut out, self.at);
        json::text(&mut out, "would", self.would.map(str::as_bytes));
        json::flag(&mut out, "passed", self.passed);
        approval(&mut out, self.approval.as_ref());
        json::text(&mut out, "credential", self.credential.map(str::as_bytes));
        out
    }
}

/// Requests of a call that have no line of their own: they were too many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary<'a> {
    /// The call's.
    pub(crate) call_id: &'a str,
    /// The tool's name.
    pub(crate) tool: &'a str,
    /// Requests that passed and changed nothing.
    pub(crate) reads: u64,
    /// Requests that were refused.
    pub(crate) refused: u64,
}

impl Summary<'_> {
    pub(super) fn line(&self) -> Vec<u8> {
        let mut out = begin("wire_more", self.call_id, self.tool);
        json::number(&mut out, "reads", Some(self.reads));
        json::number(&mut out, "refused", Some(self.refused));
        out
    }
}

fn begin(kind: &str, call_id: &str, tool: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    json::member(&mut out, "time");
    time::write(&mut out, SystemTime::now());
    json::text(&mut out, "kind", Some(kind.as_bytes()));
    json::text(&mut out, "call_id", Some(call_id.as_bytes()));
    json::text(&mut out, "tool", Some(tool.as_bytes()));
    out
}
