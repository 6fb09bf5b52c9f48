//! A request that an operator is asked about, before a byte of it is sent on.
//!
//! Owns: what is shown of it, and the wait. Its caller is told; the call's own time
//! stands still. Whoever made the request and ends takes the question along.

use tokio::task::yield_now;
use tool_gate::signing::NO_GATE;
use tool_gate::{Part, Request, Rest};
use tool_policy::definition::gate::Adapter;
use tool_policy::facts::Value;
use tool_policy::{Decision, Verdict};
use tracing::warn;

use super::bench::{AT_ONCE, Bench};
use super::known::Known;
use crate::broker::Broker;
use crate::broker::approval::{Answer, Because, Requested, elsewhere};
use crate::exec::Event;
use crate::metrics::Approval as Figure;

/// How a question came out.
#[derive(Debug)]
pub(super) enum Outcome {
    /// An operator said something.
    Answered(Answer),
    /// Nobody did, or could; why not, for the caller.
    Unanswered(String),
}

impl Outcome {
    /// Why nothing is sent.
    pub(super) fn why(&self) -> String {
        match self {
            Outcome::Answered(Answer::Yes(_)) => String::new(),
            Outcome::Answered(Answer::No { id, reason, .. }) if reason.is_empty() => {
                format!("a person denied request {id}")
            }
            Outcome::Answered(Answer::No { id, reason, .. }) => {
                format!("a person denied request {id}: {reason}")
            }
            Outcome::Unanswered(why) => why.clone(),
        }
    }
}

impl Bench {
    /// Asks about all parts that somebody is to be asked about, at once.
    pub(super) async fn ask(
        &self,
        broker: &Broker,
        request: &Request,
        verdicts: &[Verdict],
    ) -> Outcome {
        let asks = |verdict: &Verdict| verdict.decision == Decision::Ask;
        let Some(first) = verdicts.iter().find(|verdict| asks(verdict)) else {
            return Outcome::Unanswered("nothing was asked".to_owned());
        };
        let mut because = Because::of(&self.tool, first);
        // What is known of each part is in its line.
        because.facts.clear();
        for verdict in verdicts.iter().filter(|verdict| asks(verdict)) {
            let rule = verdict.rule.as_str().to_owned();
            if rule != because.rule && !because.also.contains(&rule) {
                because.also.push(rule);
            }
        }
        let asked = request.parts.iter().zip(verdicts).filter(|(_, it)| asks(it));
        if asked.into_iter().any(|(part, _)| is_anywhere(part)) {
            because.alone = because.alone.or(Some(ANYWHERE));
        }
        if request.gate == NO_GATE {
            // What is signed is known by the directory, and the call says which.
            because.alone = because.alone.or_else(|| self.call.as_ref().and_then(elsewhere));
        }
        let line = self.tool.gates.get(request.gate).map(|gate| gate.line);
        let requested = requested(request, verdicts, line).await;
        let question = self.asker.asks(&broker.workspace, because, requested);
        if let Some(answer) = broker.approvals.standing(&question) {
            return Outcome::Answered(answer);
        }
        // It lies in memory as long as somebody is waited for.
        let Some(_room) = broker.gates.room.take(self.peer, weight(request)) else {
            let why = "too much waits for an answer already: wait until some of it is answered";
            return Outcome::Unanswered(why.to_owned());
        };
        let rule = question.rule();
        let instead = question.instead();
        let once = question.is_once();
        let mut waiting = match broker.approvals.ask(question) {
            Ok(waiting) => waiting,
            Err(refusal) => return Outcome::Unanswered(refusal.message),
        };
        let _pause = self.pause.begin();
        broker.metrics.approval(Figure::Asked);
        let line = waiting.line();
        if self.ledger.asked() {
            warn!(call_id = self.call_id, tool = self.tool.name, "{line}");
        }
        broker.tell_operators(&waiting);
        let or = instead.map(|instead| format!("; instead: {instead}")).unwrap_or_default();
        if let Some(events) = &self.events {
            events.try_send(Event::Notice(format!("{line}{or}"))).ok();
        }
        let gone = Gone(Some(broker));
        let answer = tokio::select! {
            biased;
            answer = waiting.answer() => answer,
            () = broker.draining.cancelled() => {
                return Outcome::Unanswered("the server is stopping: try again later".to_owned());
            }
        };
        gone.never();
        let id = waiting.id().to_owned();
        drop(waiting);
        broker.metrics.approval(match &answer {
            Some(Answer::Yes(_)) => Figure::Approved,
            Some(Answer::No { .. }) => Figure::Denied,
            None => Figure::TimedOut,
        });
        let Some(answer) = answer else {
            let seconds = broker.approvals.patience().as_secs_f64();
            if once {
                return Outcome::Unanswered(format!(
                    "nobody answered request {id} within {seconds} s, and it is too long to be known again: repeat the command when somebody is there to answer"
                ));
            }
            return Outcome::Unanswered(format!(
                "nobody answered request {id} within {seconds} s: name the request in your report, and repeat this very command only when you are told that it was approved, within ten minutes of that"
            ));
        };
        let in_force = broker.registry.in_force(&self.tool.name);
        if in_force.is_none_or(|now| now.hash != self.tool.hash) {
            let why = format!("the tool's rules have changed since rule {} asked", rule.id);
            return Outcome::Unanswered(format!("{why}: repeat the command"));
        }
        Outcome::Answered(answer)
    }
}

/// Counts a question whose call ended before it was answered.
struct Gone<'a>(Option<&'a Broker>);

impl Gone<'_> {
    fn never(mut self) {
        self.0 = None;
    }
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if let Some(broker) = self.0 {
            broker.metrics.approval(Figure::Gone);
        }
    }
}

/// Why an approval of it cannot stand.
const ANYWHERE: &str =
    "it is not known which repository this changes, so it would stand for all of the host's";

/// Whether nobody knows which repository it is about, as of a mutation of GraphQL.
fn is_anywhere(part: &Part) -> bool {
    let mut facts = part.facts.iter();
    facts.any(|(name, value)| {
        matches!((name, value), ("repo" | "repository" | "package", Value::Unknown))
    })
}

/// What is asked about: the parts that ask, and where they go, by the gate that stands in
/// this line.
async fn requested(request: &Request, verdicts: &[Verdict], line: Option<usize>) -> Requested {
    let Request { adapter, host, port, credential, subcommand, parts, beside, .. } = request;
    let with = match credential {
        Some(name) => format!("with the credential {name}"),
        None => "without a credential".to_owned(),
    };
    let signs = request.gate == NO_GATE;
    let to = match credential {
        Some(name) if signs => format!("a signature, with the key at {name}"),
        _ => format!("{} to {host}:{port}, {with}", adapter.as_str()),
    };
    let asked = parts.iter().zip(verdicts);
    let asked: Vec<_> = asked.filter(|(_, it)| it.decision == Decision::Ask).collect();
    let mut known = Known::default();
    known.add(to.as_bytes());
    known.count(subcommand.len());
    subcommand.iter().for_each(|word| known.add(word.as_bytes()));
    known.count(asked.len());
    for (number, (part, _)) in asked.iter().enumerate() {
        if number % AT_ONCE == 0 {
            yield_now().await;
        }
        known.part(part);
    }
    known.count(beside.len());
    beside.iter().for_each(|line| known.add(line.as_bytes()));
    let known = known.end();
    let first = |name: &str| {
        let (part, _) = asked.first()?;
        match part.facts.iter().find(|(known, _)| *known == name) {
            Some((_, Value::Texts(texts))) => texts.first().map(|text| text.bytes().to_vec()),
            _ => None,
        }
    };
    // What is signed stays here. Else, as people name it: github.com, not api.github.com.
    let mut named = first("host").unwrap_or_else(|| host.clone().into_bytes());
    let at = format!(":{port}").into_bytes();
    if !is_usual(*adapter, *port) && !named.ends_with(&at) {
        named.extend(at);
    }
    let by = match line.filter(|_| !signs) {
        Some(line) => format!("by the gate in line {line}, {with}"),
        None => String::new(),
    };
    let site = match ["repository", "repo", "package"].into_iter().find_map(first) {
        _ if signs => None,
        Some(repository) => Some([named.as_slice(), b"/", &repository].concat()),
        None => Some(named),
    };
    let lines = asked.iter().map(|(part, _)| &part.shown).chain(beside).cloned().collect();
    let (unseen, once) = match request.rest {
        Rest::Nothing => (0, false),
        Rest::Digest(bytes) => (bytes, false),
        Rest::Unread(bytes) => (bytes, true),
    };
    let nothing = if signs { "been signed" } else { "been sent" };
    Requested { to, lines, site, by, known, unseen, once, nothing }
}

/// About how many bytes it is in memory, with what was decided of it.
fn weight(request: &Request) -> usize {
    let parts = request.parts.iter().map(|part| part.shown.len().saturating_add(PART));
    let lines = parts.chain(request.beside.iter().map(String::len));
    lines.fold(request.held, usize::saturating_add)
}

/// About so much of a part is not its line: its facts but for the caller's words, and
/// what the rules say.
const PART: usize = 1024;

/// Whether people leave the port out; a tunnel of `http` is told from plain HTTP.
fn is_usual(adapter: Adapter, port: u16) -> bool {
    port == 80 || (port == 443 && adapter != Adapter::Http)
}

#[cfg(test)]
mod tests {
    use tool_policy::facts::Text;

    use super::*;

    #[test]
    fn what_may_be_about_any_repository_is_approved_alone() {
        let part = |facts: Vec<(&'static str, Value)>| Part {
            changes: true,
            facts: facts.into_iter().collect(),
            shown: String::new(),
        };
        let named = || Value::Texts(vec![Text::new(b"o/r".to_vec())]);
        assert!(is_anywhere(&part(vec![("field", named()), ("repo", Value::Unknown)])));
        assert!(!is_anywhere(&part(vec![("repo", named()), ("event", Value::Unknown)])));
        assert!(!is_anywhere(&part(vec![("repository", named())])));
        assert!(!is_anywhere(&part(vec![("host", named())])));
    }
}
