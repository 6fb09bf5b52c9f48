//! A gate that belongs to no call: the agent's own requests for its model, by a socket of
//! the server's, decided on by rules and sent on with a credential that the agent does not
//! hold. Its grant lives as long as the server.
//!
//! Owns: deciding on its requests, and their lines in the audit, under the name `.proxy`,
//! which no tool can have. Must not: ask anybody, or know who is at the other end.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tool_gate::adapter::git::Memory;
use tool_gate::redact::Answers;
use tool_gate::serve::{Came, connection};
use tool_gate::{Answer, Door, Grant, Judge, Part, Request};
use tool_policy::definition::gate::Adapter;
use tool_policy::{Decision, Verdict, Wire};
use tracing::{debug, warn};

use super::Broker;
use super::wired::{UNRECORDED, decided, facts_of, unread};
use crate::audit::Summary;
use crate::exec::Stranger;
use crate::metrics::Wire as Figure;
use crate::registry::Tool;

/// So many that read, and so many that are refused, have lines of their own in each span.
const LINES: u64 = 64;
const SPAN: Duration = Duration::from_secs(60);

/// The proxy of a server.
pub(crate) struct Proxy {
    /// Its definition.
    pub(crate) tool: Arc<Tool>,
    grant: Arc<Grant>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Proxy").field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl Broker {
    /// The proxy of that definition, for so many connections at once.
    pub(crate) fn open_proxy(&self, tool: Arc<Tool>, places: usize) -> Proxy {
        let number = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let desk = Desk {
            broker: Weak::clone(&self.facts.this),
            tool: Arc::clone(&tool),
            call_id: self.facts.call_id(number),
            told: Mutex::new(Told::since(Instant::now())),
        };
        let first = tool.gates.first().and_then(|gate| gate.hosts.first());
        let grant = Grant {
            // Nobody comes by an address, and no secret is asked for.
            door: Door { address: ([127, 0, 0, 1], 0).into(), secret: String::new() },
            base: first.map(|host| host.as_str().to_owned()),
            gates: Arc::clone(&tool.gates),
            push: false,
            judge: Arc::new(desk),
            credentials: self.gates.credentials(),
            redact: None,
            answers: Some(Answers::default()),
            upstream: self.gates.upstream(),
            places: Arc::new(Semaphore::new(places)),
            git: Memory::default(),
        };
        Proxy { tool, grant: Arc::new(grant) }
    }
}

impl Proxy {
    /// Serves one connection to its end.
    pub(crate) async fn serve<S>(&self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        connection(stream, Came::Own, Arc::clone(&self.grant)).await;
    }
}

/// The other end may send descriptors with what it says.
pub(crate) fn stranger(stream: tokio::net::UnixStream) -> Stranger {
    Stranger::own(stream)
}

/// What it is, for people: where to, and with what.
pub(crate) fn in_words(tool: &Tool) -> String {
    let gates = tool.gates.iter().map(|gate| {
        let hosts: Vec<&str> = gate.hosts.iter().map(|host| host.as_str()).collect();
        match &gate.credential {
            Some(credential) => format!("{} with {}", hosts.join(", "), credential.name()),
            None => hosts.join(", "),
        }
    });
    gates.collect::<Vec<_>>().join("; ")
}

/// Decides on the requests of a proxy.
struct Desk {
    broker: Weak<Broker>,
    tool: Arc<Tool>,
    /// In the audit: one for as long as the server runs.
    call_id: String,
    told: Mutex<Told>,
}

/// Lines of this span, and what had none.
struct Told {
    since: Instant,
    reads: u64,
    refused: u64,
}

impl Told {
    fn since(since: Instant) -> Told {
        Told { since, reads: 0, refused: 0 }
    }

    fn rest(&self) -> (u64, u64) {
        (self.reads.saturating_sub(LINES), self.refused.saturating_sub(LINES))
    }
}

impl Judge for Desk {
    fn judge<'a>(
        &'a self,
        request: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Vec<Answer>> + Send + 'a>> {
        Box::pin(async move { self.decide(request) })
    }

    fn asks(&self, _request: &Request) -> bool {
        false
    }

    fn refused(&self, adapter: Option<Adapter>, host: &str, why: &str) {
        let Some(broker) = self.broker.upgrade() else { return };
        broker.metrics.wire(Figure::Unlisted);
        debug!(host, "the proxy did not send on: {why}");
        if !self.has_line(&broker, true) {
            return;
        }
        let line = unread(&self.call_id, &self.tool.name, adapter, host, why);
        // It is refused whether or not it is recorded.
        if let Some(audit) = &broker.audit
            && !audit.wired(&line)
        {
            debug!("a refusal is not recorded yet");
        }
    }
}

impl Desk {
    /// Whether one more that was refused, or only read, has a line: who asks without end
    /// does not fill the disk.
    fn has_line(&self, broker: &Broker, refused: bool) -> bool {
        let (has, rest) = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let mut rest = (0, 0);
            if now.saturating_duration_since(told.since) >= SPAN {
                rest = told.rest();
                *told = Told::since(now);
            }
            let count = if refused { &mut told.refused } else { &mut told.reads };
            *count = count.saturating_add(1);
            (*count <= LINES, rest)
        };
        self.sum(broker, rest);
        has
    }

    fn sum(&self, broker: &Broker, (reads, refused): (u64, u64)) {
        if let Some(audit) = broker.audit.as_ref().filter(|_| reads + refused > 0) {
            let (call_id, tool) = (self.call_id.as_str(), self.tool.name.as_str());
            audit.summed(&Summary { call_id, tool, reads, refused });
        }
    }

    fn decide(&self, request: &Request) -> Vec<Answer> {
        let Some(broker) = self.broker.upgrade() else { return Vec::new() };
        let gate = self.tool.gates.get(request.gate).map(|gate| (gate.default, gate.line));
        let (default, line) = gate.unwrap_or((Decision::Deny, 1));
        let each = request.parts.iter().map(|part| {
            let (subcommand, facts, changes) = (request.subcommand, &part.facts, part.changes);
            let wire = Wire { subcommand, facts, changes, default, line };
            let verdict = self.tool.policy.judge_wire(&wire, None);
            self.settle(&broker, request, part, &verdict)
        });
        each.collect()
    }

    fn settle(&self, broker: &Broker, request: &Request, part: &Part, verdict: &Verdict) -> Answer {
        let refused = match verdict.decision {
            Decision::Allow => None,
            Decision::Ask => Some("nobody is asked about a proxy's requests"),
            Decision::Deny => Some(verdict.reason.as_deref().unwrap_or_default()),
        };
        let passed = refused.is_none();
        let has_line = (passed && part.changes) || self.has_line(broker, !passed);
        let recorded = !has_line || self.record(broker, request, part, verdict, passed);
        broker.metrics.wire(if passed { Figure::Passed } else { Figure::Refused });
        let at = self.tool.at(verdict.line);
        let rule = verdict.rule.as_str().to_owned();
        match refused {
            None if recorded => Answer::Allowed,
            None => Answer::Refused { reason: UNRECORDED.to_owned(), rule, instead: None },
            Some(why) => {
                let reason = format!("{why} [rule {rule}, {at}]");
                if has_line {
                    warn!(
                        host = request.host,
                        "the proxy did not send on: {}: {reason}", part.shown
                    );
                }
                let instead = verdict.instead.as_deref().map(str::to_owned);
                Answer::Refused { reason, rule, instead }
            }
        }
    }

    fn record(
        &self,
        broker: &Broker,
        request: &Request,
        part: &Part,
        verdict: &Verdict,
        passed: bool,
    ) -> bool {
        let Some(audit) = &broker.audit else { return true };
        let facts = facts_of(part);
        let known = (request, part, facts.as_slice());
        audit.wired(&decided(&self.call_id, &self.tool, known, verdict, passed))
    }
}

/// The server ends.
impl Drop for Desk {
    fn drop(&mut self) {
        let rest = self.told.lock().unwrap_or_else(PoisonError::into_inner).rest();
        if let Some(broker) = self.broker.upgrade() {
            self.sum(&broker, rest);
        }
    }
}
