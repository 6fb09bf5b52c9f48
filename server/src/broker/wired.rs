//! What the audit has of a request at a gate, a call's or the proxy's.
//!
//! Owns: which of its members a line gets. Must not: decide, or write it.

use std::os::unix::ffi::OsStrExt;

use tool_gate::{Part, Request};
use tool_policy::definition::gate::Adapter;
use tool_policy::{Decision, Verdict};

use super::record::fact;
use crate::audit::{Fact, Wired};
use crate::registry::Tool;

/// What somebody is told whose change cannot be recorded, and so is not sent.
pub(super) const UNRECORDED: &str = "the audit cannot be written: tell who runs the broker";

/// One that nobody understood, or that no gate has.
pub(super) fn unread<'a>(
    call_id: &'a str,
    tool: &'a str,
    adapter: Option<Adapter>,
    host: &'a str,
    why: &'a str,
) -> Wired<'a> {
    Wired {
        call_id,
        tool,
        adapter: adapter.map(Adapter::as_str),
        host,
        port: None,
        request: why,
        changes: false,
        facts: &[],
        decision: "deny",
        rule: None,
        at: None,
        would: None,
        passed: false,
        approval: None,
        credential: None,
    }
}

/// What is known of a part.
pub(super) fn facts_of(part: &Part) -> Vec<(&str, Fact<'_>)> {
    part.facts.iter().filter_map(fact).collect()
}

/// A part of one, as the rules decided, without anybody's approval.
pub(super) fn decided<'a>(
    call_id: &'a str,
    tool: &'a Tool,
    (request, part, facts): (&'a Request, &'a Part, &'a [(&'a str, Fact<'a>)]),
    verdict: &'a Verdict,
    passed: bool,
) -> Wired<'a> {
    Wired {
        call_id,
        tool: &tool.name,
        adapter: Some(request.adapter.as_str()),
        host: &request.host,
        port: Some(request.port),
        request: &part.shown,
        changes: part.changes,
        facts,
        decision: verdict.decision.as_str(),
        rule: Some(verdict.rule.as_str()),
        at: Some((tool.origin.file.as_os_str().as_bytes(), verdict.line)),
        would: verdict.would.map(Decision::as_str),
        passed,
        approval: None,
        credential: request.credential.as_deref(),
    }
}
