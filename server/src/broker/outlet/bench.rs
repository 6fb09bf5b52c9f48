//! Who decides on the requests of one call: the rules of its tool, and where they
//! ask, an operator. What is decided is in the audit before it is sent on.
//!
//! Must not: see a credential, or know how a request is read.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use tokio::sync::mpsc;
use tokio::task::yield_now;
use tool_gate::signing::NO_GATE;
use tool_gate::{Answer, Judge, Part, Request};
use tool_policy::definition::gate::Adapter;
use tool_policy::{Decision, Verdict, Wire};
use tracing::{debug, warn};

use super::ask::Outcome;
use super::ledger::Ledger;
use crate::audit::{self, Summary};
use crate::broker::approval::{Answer as Word, Asker};
use crate::broker::wired::{UNRECORDED, decided, facts_of, unread};
use crate::broker::{Broker, Peer, Ticket};
use crate::exec::{Event, Pause};
use crate::metrics::Wire as Figure;
use crate::registry::Tool;

/// Decides for one call.
#[derive(Debug)]
pub(super) struct Bench {
    broker: Weak<Broker>,
    pub(super) tool: Arc<Tool>,
    pub(super) call_id: String,
    /// What was decided about the call itself.
    pub(super) call: Option<Verdict>,
    pub(super) asker: Asker,
    /// Who calls.
    pub(super) peer: Peer,
    /// To the caller.
    pub(super) events: Option<mpsc::Sender<Event>>,
    pub(super) pause: Arc<Pause>,
    pub(super) ledger: Ledger,
}

impl Judge for Bench {
    fn judge<'a>(
        &'a self,
        request: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Vec<Answer>> + Send + 'a>> {
        Box::pin(self.decide(request))
    }

    fn asks(&self, request: &Request) -> bool {
        request.parts.iter().any(|part| self.verdict(request, part).decision == Decision::Ask)
    }

    fn refused(&self, adapter: Option<Adapter>, host: &str, why: &str) {
        let Some(broker) = self.broker.upgrade() else { return };
        broker.metrics.wire(Figure::Unlisted);
        debug!(call_id = self.call_id, tool = self.tool.name, host, "not sent: {why}");
        if !self.ledger.refused() {
            return;
        }
        if let Some(audit) = &broker.audit {
            let line = unread(&self.call_id, &self.tool.name, adapter, host, why);
            // It is refused whether or not it is recorded.
            if !audit.wired(&line) {
                debug!(call_id = self.call_id, "a refusal is not recorded yet");
            }
        }
    }
}

impl Bench {
    /// For the call of this ticket.
    pub(super) fn new(
        broker: &Broker,
        tool: &Arc<Tool>,
        ticket: &Ticket,
        asker: Asker,
        events: Option<mpsc::Sender<Event>>,
        pause: Arc<Pause>,
    ) -> Bench {
        Bench {
            broker: Weak::clone(&broker.facts.this),
            tool: Arc::clone(tool),
            call_id: ticket.call_id.clone(),
            call: ticket.record.known.verdict.clone(),
            asker,
            peer: ticket.peer,
            events,
            pause,
            ledger: Ledger::default(),
        }
    }

    async fn decide(&self, request: &Request) -> Vec<Answer> {
        let Some(broker) = self.broker.upgrade() else { return Vec::new() };
        let mut verdicts = Vec::with_capacity(request.parts.len());
        for part in &request.parts {
            turn(verdicts.len()).await;
            verdicts.push(self.verdict(request, part));
        }
        let asked = verdicts.iter().any(|verdict| verdict.decision == Decision::Ask);
        let outcome = match asked {
            true => Some(self.ask(&broker, request, &verdicts).await),
            false => None,
        };
        let mut answers = Vec::with_capacity(request.parts.len());
        for (part, verdict) in request.parts.iter().zip(&verdicts) {
            turn(answers.len()).await;
            answers.push(self.settle(&broker, request, part, verdict, &outcome));
        }
        answers
    }

    /// What the rules say of a part.
    fn verdict(&self, request: &Request, part: &Part) -> Verdict {
        let (default, line) = self.default(request);
        let (subcommand, facts, changes) = (request.subcommand, &part.facts, part.changes);
        let wire = Wire { subcommand, facts, changes, default, line };
        self.tool.policy.judge_wire(&wire, self.call.as_ref())
    }

    /// What happens to a change that no rule is about, and where that stands.
    fn default(&self, request: &Request) -> (Decision, usize) {
        let gate = self.tool.gates.get(request.gate).map(|gate| (gate.default, gate.line));
        let signing = self.tool.signing.as_ref().map(|signing| (signing.default, signing.line));
        gate.or(signing).unwrap_or((Decision::Deny, 1))
    }

    /// Writes down what becomes of a part, and answers.
    fn settle(
        &self,
        broker: &Broker,
        request: &Request,
        part: &Part,
        verdict: &Verdict,
        outcome: &Option<Outcome>,
    ) -> Answer {
        let asked = outcome.as_ref().filter(|_| verdict.decision == Decision::Ask);
        let refused = match (verdict.decision, asked) {
            (Decision::Allow, _) => None,
            (Decision::Ask, Some(Outcome::Answered(Word::Yes(_)))) => None,
            (Decision::Ask, Some(outcome)) => Some(outcome.why()),
            (Decision::Ask, None) => Some("nobody was asked".to_owned()),
            (Decision::Deny, _) => Some(verdict.reason.as_deref().unwrap_or_default().to_owned()),
        };
        self.tell_observed(request, part, verdict);
        let passes = refused.is_none();
        let enough = passes && part.changes && !self.ledger.change();
        let has_line = match (passes, part.changes) {
            (true, true) => true,
            (true, false) => self.ledger.read(),
            (false, _) => self.ledger.refused(),
        };
        let recorded = !has_line || self.record(broker, request, part, verdict, asked, passes);
        broker.metrics.wire(if passes { Figure::Passed } else { Figure::Refused });
        let at = self.tool.at(verdict.line);
        let rule = verdict.rule.as_str().to_owned();
        let by = |why: &str| format!("{why} [rule {rule}, {at}]");
        let instead = verdict.instead.as_deref().map(str::to_owned);
        match refused {
            None if enough => Answer::Refused {
                reason: "one call may not change so many things: make several calls".to_owned(),
                rule,
                instead: None,
            },
            None if !recorded => {
                Answer::Refused { reason: UNRECORDED.to_owned(), rule, instead: None }
            }
            None => Answer::Allowed,
            Some(why) => {
                let reason = by(&why);
                // The log has as many lines of it as the audit.
                if has_line {
                    warn!(
                        call_id = self.call_id,
                        tool = self.tool.name,
                        host = request.host,
                        "not sent: {}: {reason}",
                        part.shown
                    );
                }
                Answer::Refused { reason, rule, instead }
            }
        }
    }

    fn tell_observed(&self, request: &Request, part: &Part, verdict: &Verdict) {
        let Some(would) = verdict.would else { return };
        if !self.ledger.observed() {
            return;
        }
        let (rule, at) = (verdict.rule.as_str(), self.tool.at(verdict.line));
        warn!(
            call_id = self.call_id,
            tool = self.tool.name,
            host = request.host,
            rule,
            would = would.as_str(),
            "observed on the wire, not enforced: {}: {} [rule {rule}, {at}]",
            part.shown,
            verdict.reason.as_deref().unwrap_or_default()
        );
    }

    /// `false`: it cannot be recorded, and is not to be sent.
    fn record(
        &self,
        broker: &Broker,
        request: &Request,
        part: &Part,
        verdict: &Verdict,
        asked: Option<&Outcome>,
        passed: bool,
    ) -> bool {
        let Some(audit) = &broker.audit else { return true };
        let facts = facts_of(part);
        let (id, by_uid, at, granted) = match asked {
            Some(Outcome::Answered(Word::Yes(yes))) => (yes.id.as_str(), yes.by, yes.at, true),
            Some(Outcome::Answered(Word::No { id, by, .. })) => {
                (id.as_str(), *by, std::time::SystemTime::now(), false)
            }
            _ => ("", 0, std::time::SystemTime::UNIX_EPOCH, false),
        };
        let approval = audit::Approval { id, by_uid, at, until: None, granted };
        let known = (request, part, facts.as_slice());
        let mut line = decided(&self.call_id, &self.tool, known, verdict, passed);
        line.approval = (!id.is_empty()).then_some(approval);
        if request.gate == NO_GATE {
            line.port = None;
        }
        audit.wired(&line)
    }
}

/// So many parts are looked at before others have their turn: all calls share a thread.
pub(super) const AT_ONCE: usize = 100;

async fn turn(number: usize) {
    if number % AT_ONCE == AT_ONCE - 1 {
        yield_now().await;
    }
}

/// The call is over.
impl Drop for Bench {
    fn drop(&mut self) {
        let unlogged = self.ledger.unlogged();
        if unlogged != (0, 0, 0) {
            let (refused, observed, asked) = unlogged;
            warn!(
                call_id = self.call_id,
                tool = self.tool.name,
                refused,
                observed,
                asked,
                "more requests of this call have no line here"
            );
        }
        let (reads, refused) = self.ledger.rest();
        let broker = self.broker.upgrade().filter(|_| reads + refused > 0);
        if let Some(audit) = broker.as_ref().and_then(|broker| broker.audit.as_ref()) {
            let (call_id, tool) = (self.call_id.as_str(), self.tool.name.as_str());
            audit.summed(&Summary { call_id, tool, reads, refused });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_have_their_turn_among_the_parts_of_a_request() {
        let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                yield_now().await;
            }
        });
        for number in 0..10_000 {
            turn(number).await;
        }
        other.abort();
        let turns = turns.load(std::sync::atomic::Ordering::Relaxed);
        assert!((50..=200).contains(&turns), "{turns} turns");
    }
}
