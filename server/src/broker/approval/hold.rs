//! A call that waits for an operator's word, on the main path between the
//! decision and the start.

use std::sync::Arc;

use tool_policy::{Approved, Asked, Consent, Subject};
use tool_protocol::{Code, Refusal};
use tracing::{info, warn};

use super::{Answer, Question};
use crate::broker::answer::{draining, gone};
use crate::broker::confine::Way;
use crate::broker::outlet::Gated;
use crate::broker::{Broker, Peer, Ticket, observe};
use crate::exec::{Event, Hear, Io, Plan, Report};
use crate::metrics::Approval as Outcome;
use crate::registry::Tool;

/// A call that was asked about and has not been answered.
#[derive(Debug)]
pub(crate) struct Held {
    /// Its definition.
    pub(in crate::broker) tool: Arc<Tool>,
    /// What would run.
    pub(in crate::broker) asked: Asked<Plan>,
    /// For an operator.
    pub(in crate::broker) question: Question,
    /// Kept while it waits.
    pub(in crate::broker) io: Io,
    /// Who calls.
    pub(in crate::broker) peer: Peer,
    /// Its gate, where it has one.
    pub(in crate::broker) way: Option<Way>,
}

/// What an answer makes of a plan that was asked about.
pub(in crate::broker) fn heed<T>(
    asked: Asked<T>,
    answer: Answer,
    question: &Rule,
) -> Result<Approved<T>, Refusal> {
    match answer {
        Answer::Yes(consent) => {
            let Consent { id, by, standing, .. } = &consent;
            info!(approval = id, by_uid = by, standing, rule = question.id, "approved");
            Ok(asked.approve(consent))
        }
        Answer::No { id, by, reason } => {
            info!(approval = id, by_uid = by, rule = question.id, "denied");
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let message = format!(
                "not run: a person denied request {id}{why} [rule {}, {}]",
                question.id, question.at
            );
            Err(Refusal::new(Code::Denied, message).by(&question.id))
        }
    }
}

/// The rule that asked.
#[derive(Debug)]
pub(in crate::broker) struct Rule {
    /// Its id.
    pub(in crate::broker) id: String,
    /// `FILE:LINE`.
    pub(in crate::broker) at: String,
}

impl Question {
    /// The rule that asked.
    pub(in crate::broker) fn rule(&self) -> Rule {
        Rule { id: self.site.rule.clone(), at: self.shown.at.clone() }
    }
}

impl Broker {
    /// Waits for an answer, runs what was approved, attends to it.
    pub(in crate::broker) async fn hold(
        &self,
        held: Held,
        mut hear: Hear,
        ticket: &mut Ticket,
    ) -> Result<Report, Refusal> {
        let Held { tool, asked, question, io, peer, way } = held;
        let rule = question.rule();
        let instead = question.instead();
        let caller_left = hear.gone.clone();
        let mut waiting = self.approvals.ask(question)?;
        self.metrics.approval(Outcome::Asked);
        let line = waiting.line();
        warn!(call_id = ticket.call_id, tool = tool.name, "{line}");
        self.tell_operators(&waiting);
        let instead = instead.map(|instead| format!("instead: {instead}"));
        let or = instead.as_ref().map(|instead| format!("; {instead}")).unwrap_or_default();
        hear.tell(Event::Notice(format!("{line}{or}")));
        let answer = tokio::select! {
            biased;
            answer = waiting.answer() => answer,
            () = caller_left.cancelled() => {
                self.metrics.approval(Outcome::Gone);
                return Err(gone());
            }
            signal = hear.ending_signal() => {
                self.metrics.approval(Outcome::Gone);
                return Ok(Report::ended_by(signal));
            }
            () = self.draining.cancelled() => return Err(draining()),
        };
        let id = waiting.id().to_owned();
        drop(waiting);
        self.metrics.approval(match &answer {
            Some(Answer::Yes(_)) => Outcome::Approved,
            Some(Answer::No { .. }) => Outcome::Denied,
            None => Outcome::TimedOut,
        });
        let answer = answer.ok_or_else(|| self.nobody_answered(&id, &rule, instead))?;
        ticket.record.known.answered(&answer);
        // While it waited its caller may have changed what git goes by.
        self.still_means(&tool, asked.get(), &rule)?;
        let approved = heed(asked, answer, &rule)?;
        // It gave its place up while it waited.
        let permit = tokio::select! {
            biased;
            permit = self.admission.admit(&tool.name, tool.concurrent, peer, 0) => permit?,
            () = caller_left.cancelled() => return Err(gone()),
            signal = hear.ending_signal() => return Ok(Report::ended_by(signal)),
            () = self.draining.cancelled() => return Err(draining()),
        };
        if let Some(way) = way {
            let gated = Gated { tool, permit, approved, io, peer, way };
            return self.pass(gated, hear, ticket).await;
        }
        let underway = self.launch(tool, permit, approved, io, None, ticket)?;
        self.await_end(underway, hear, ticket).await
    }

    /// That the call would do what was asked about, by a definition that is in force.
    fn still_means(&self, tool: &Tool, plan: &Plan, rule: &Rule) -> Result<(), Refusal> {
        let refuse = |what: &str| {
            let message =
                format!("not run: {what} since it was asked about [rule {}, {}]", rule.id, rule.at);
            let refusal = Refusal::new(Code::Denied, message).by(&rule.id);
            Err(refusal.hint("instead: repeat the command: it is asked about as it is now"))
        };
        let in_force = self.registry.in_force(&tool.name);
        if in_force.is_none_or(|now| now.hash != tool.hash) {
            return refuse("the tool's rules have changed");
        }
        let wants = tool.policy.wants(&plan.args());
        // Without what it was given for its gate: that was not there when it was looked at.
        let lasting = plan.environment.len().saturating_sub(plan.fresh);
        let environment = plan.environment.get(..lasting).unwrap_or_default();
        let now = observe(&self.workspace, &plan.place, &wants, environment);
        if now != plan.observed {
            return refuse("the repository's branch or configuration has changed");
        }
        Ok(())
    }

    pub(in crate::broker) fn nobody_answered(
        &self,
        id: &str,
        rule: &Rule,
        instead: Option<String>,
    ) -> Refusal {
        let seconds = self.approvals.settings.timeout.as_secs_f64();
        let message = format!(
            "not run: nobody answered request {id} within {seconds} s [rule {}, {}]: name the request in your report, and repeat this very command only when you are told that it was approved, within ten minutes of that",
            rule.id, rule.at
        );
        let refusal = Refusal::new(Code::Denied, message).by(&rule.id);
        match instead {
            Some(instead) => refusal.hint(instead),
            None => refusal,
        }
    }
}
