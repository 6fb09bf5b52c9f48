//! What the audit is told of a call, gathered as the call goes on.
//!
//! Owns: what of a call is in its line. A request that is only asked to be
//! repeated (`use_stream`) is no call and has none. Must not: decide anything.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tool_policy::facts::Value;
use tool_policy::{Decision, Verdict};
use tool_protocol::{Code, Refusal, Reply, Request, Text};

use super::approval::Answer;
use super::{Broker, Call, Ticket};
use crate::audit::{Approval, Asked, Decided, Draft, End, Ended, Fact, Open, Passed, Peer};
use crate::exec::{Outcome, Report, Seen};
use crate::os::process::Exit;
use crate::registry::Tool;

/// A call's record so far.
#[derive(Debug, Default)]
pub(super) struct Record {
    entry: Entry,
    pub(super) known: Known,
}

/// How far it has got.
#[derive(Debug, Default)]
enum Entry {
    /// It is not recorded, or was.
    #[default]
    Nothing,
    /// It has not begun.
    Draft(Draft),
    /// It waits for an operator.
    Held(Draft, Open),
    /// Its tool runs, or is about to.
    Open(Open, Instant),
}

/// What was found and decided about it.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Its definition.
    pub(super) tool: Option<Arc<Tool>>,
    /// Which it was, resolved.
    pub(super) directory: Option<Vec<u8>>,
    /// With what it is confined.
    pub(super) confined: Option<&'static str>,
    /// What was decided.
    pub(super) verdict: Option<Verdict>,
    answer: Option<Given>,
}

/// An operator's answer.
#[derive(Debug)]
struct Given {
    id: String,
    by: u32,
    at: SystemTime,
    yes: bool,
}

impl Known {
    /// What an operator said.
    pub(super) fn answered(&mut self, answer: &Answer) {
        let (id, by, at, yes) = match answer {
            Answer::Yes(consent) => (&consent.id, consent.by, consent.at, true),
            Answer::No { id, by, .. } => (id, *by, SystemTime::now(), false),
        };
        self.answer = Some(Given { id: id.clone(), by, at, yes });
    }

    /// As the audit takes it.
    fn said<T>(&self, since: Instant, tell: impl FnOnce(&Decided<'_>) -> T) -> T {
        use std::os::unix::ffi::OsStrExt;
        let (tool, verdict) = (self.tool.as_ref(), self.verdict.as_ref());
        let both = tool.zip(verdict);
        let approval = self.answer.as_ref();
        let facts: Vec<(&str, Fact<'_>)> = match verdict {
            Some(verdict) => verdict.facts.iter().filter_map(fact).collect(),
            None => Vec::new(),
        };
        tell(&Decided {
            directory: self.directory.as_deref(),
            definition: tool.map(|tool| tool.hash.as_str()),
            decision: verdict.map(|verdict| verdict.decision.as_str()),
            rule: verdict.map(|verdict| verdict.rule.as_str()),
            at: both.map(|(tool, verdict)| (tool.origin.file.as_os_str().as_bytes(), verdict.line)),
            mode: tool.map(|tool| tool.policy.mode().as_str()),
            would: verdict.and_then(|verdict| verdict.would).map(Decision::as_str),
            confined: self.confined,
            facts: &facts,
            approval: approval.map(|Given { id, by, at, yes }| Approval {
                id,
                by_uid: *by,
                at: *at,
                until: None,
                granted: *yes,
            }),
            waited: Some(since.elapsed()),
        })
    }
}

impl Record {
    /// How the call ends, as far as its reply does not say.
    pub(super) fn how(&self, ended: &Result<Report, Refusal>) -> (End, Passed) {
        let report = match (ended, &self.entry) {
            (Ok(report), _) => report,
            (Err(_), Entry::Open(..)) => return (End::NotStarted, Passed::default()),
            // Before it begins, only its caller ends it with this code.
            (Err(Refusal { code: Code::Interrupted, .. }), _) => {
                return (End::CallerGone, Passed::default());
            }
            (Err(_), _) => return (End::Refused, Passed::default()),
        };
        let Seen { stdin, stdout, stderr } = report.seen;
        let end = match report.outcome {
            Outcome::Exited(Exit::Code(_)) => End::Exited,
            Outcome::Exited(Exit::Signal(_)) => End::Signaled,
            Outcome::TimedOut => End::TimedOut,
            Outcome::CallerGone => End::CallerGone,
            Outcome::Interrupted => End::Interrupted,
            // What was seen is not all that there was.
            Outcome::OutputTooLarge(_) => return (End::OutputTooLarge, Passed::default()),
        };
        (end, Passed { stdin, stdout, stderr })
    }
}

impl Broker {
    /// The beginning of a call's record.
    pub(super) fn draft(&self, call: &Call, call_id: &str) -> Record {
        let entry = if self.audit.is_some() {
            Entry::Draft(self.line(call_id, call.tool.as_bytes(), call.peer, &call.request))
        } else {
            Entry::Nothing
        };
        Record { entry, known: Known::default() }
    }

    fn line(&self, call_id: &str, tool: &[u8], peer: super::Peer, request: &Request) -> Draft {
        let socket = self.facts.callers.name(peer.socket);
        let socket = socket.as_deref().unwrap_or_default();
        let asked = Asked {
            call_id,
            tool,
            cwd: request.cwd.as_ref().map(Text::as_bytes),
            peer: Peer { socket, uid: peer.uid, gid: peer.gid },
            received: SystemTime::now(),
        };
        Draft::new(&asked, request.args.iter().map(Text::as_bytes))
    }

    /// A call of a tool that its socket does not serve: it is refused before it
    /// gets here, and has its line.
    pub(crate) fn record_stranger(&self, peer: super::Peer, request: &Request, code: Code) {
        let (Some(audit), Some(tool)) = (&self.audit, &request.tool) else { return };
        let call_id = self.facts.call_id(self.calls.fetch_add(1, Ordering::Relaxed));
        let draft = self.line(&call_id, tool.as_bytes(), peer, request);
        let ended = Ended {
            end: End::Refused,
            exit_code: Some(code.exit_status()),
            signal: None,
            code: Some(code.as_str()),
            duration: None,
            bytes: Passed::default(),
        };
        audit.refused(draft, &Decided::default(), &ended);
    }

    /// Before a call is held: that it waits survives this server.
    pub(super) fn record_hold(&self, ticket: &mut Ticket) -> Result<(), Refusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let Record { entry, known } = &mut ticket.record;
        match std::mem::replace(entry, Entry::Nothing) {
            Entry::Draft(draft) => {
                let held = known.said(ticket.started, |decided| audit.hold(&draft, decided));
                *entry = Entry::Held(draft, held.map_err(unrecorded)?);
            }
            other => *entry = other,
        }
        Ok(())
    }

    /// Before a tool starts: it is not run unrecorded.
    pub(super) fn record_begin(&self, ticket: &mut Ticket) -> Result<(), Refusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let Record { entry, known } = &mut ticket.record;
        let (draft, held) = match std::mem::replace(entry, Entry::Nothing) {
            Entry::Draft(draft) => (draft, None),
            Entry::Held(draft, held) => (draft, Some(held)),
            other => {
                *entry = other;
                return Ok(());
            }
        };
        let begun = known.said(ticket.started, |decided| audit.begin(draft, decided));
        if let Some(held) = held {
            audit.let_go(held);
        }
        *entry = Entry::Open(begun.map_err(unrecorded)?, Instant::now());
        Ok(())
    }

    /// The same, on a thread that reaches the workspace alone; `false`: it takes more than
    /// writes to what is open, and is to be done by the other.
    pub(super) fn record_at_once(&self, ticket: &mut Ticket) -> bool {
        let Some(audit) = &self.audit else { return true };
        let Record { entry: Entry::Draft(draft), known } = &ticket.record else { return false };
        match known.said(ticket.started, |decided| audit.begin_at_once(draft, decided)) {
            Some(open) => ticket.record.entry = Entry::Open(open, Instant::now()),
            None => return false,
        }
        true
    }

    /// Before the caller of a call that has begun is answered, on a thread that reaches the
    /// workspace alone; `false`: it takes more than one write, and is to be done by the other.
    pub(super) fn record_end_at_once(
        &self,
        record: &mut Record,
        how: (End, Passed),
        reply: &Reply,
    ) -> bool {
        let Some(audit) = &self.audit else { return true };
        match std::mem::replace(&mut record.entry, Entry::Nothing) {
            Entry::Nothing => true,
            Entry::Open(open, began) => {
                let ended = ended(how, reply, Some(began.elapsed()));
                let left = audit.end_at_once(open, &ended).err();
                let done = left.is_none();
                record.entry = left.map_or(Entry::Nothing, |open| Entry::Open(open, began));
                done
            }
            other => {
                record.entry = other;
                false
            }
        }
    }

    /// Before the caller is answered.
    pub(super) fn record_end(
        &self,
        record: Record,
        since: Instant,
        (end, bytes): (End, Passed),
        reply: &Reply,
    ) {
        let Some(audit) = &self.audit else { return };
        let ended = |duration| ended((end, bytes), reply, duration);
        match record.entry {
            Entry::Nothing => {}
            Entry::Open(open, began) => audit.end(open, &ended(Some(began.elapsed()))),
            Entry::Draft(_) if reply.code == Some(Code::UseStream) => {}
            Entry::Draft(draft) => {
                record.known.said(since, |decided| audit.refused(draft, decided, &ended(None)));
            }
            Entry::Held(draft, held) => {
                record.known.said(since, |decided| audit.refused(draft, decided, &ended(None)));
                audit.let_go(held);
            }
        }
    }
}

fn ended((end, bytes): (End, Passed), reply: &Reply, duration: Option<Duration>) -> Ended<'_> {
    Ended {
        end,
        exit_code: Some(reply.exit_code),
        signal: reply.signal.as_deref(),
        code: reply.code.map(Code::as_str),
        duration,
        bytes,
    }
}

fn unrecorded(error: crate::audit::AuditError) -> Refusal {
    Refusal::new(Code::AuditFailed, error.to_string())
}

/// What there is to tell of a fact: nothing, where the call has nothing of the kind.
pub(super) fn fact<'a>(
    (name, value): (&'static str, &'a Value),
) -> Option<(&'static str, Fact<'a>)> {
    if value.is_nothing() {
        return None;
    }
    let fact = match value {
        Value::Flag(holds) => Fact::Flag(*holds),
        Value::Texts(texts) => Fact::Texts(texts.iter().map(|text| text.bytes()).collect()),
        Value::Unknown => Fact::Unknown,
    };
    Some((name, fact))
}
