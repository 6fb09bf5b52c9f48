//! A call on its way: what it brings, what is noted of it, and how far it is.
//!
//! Owns: opening and closing a call: its number, its entry among those under way,
//! its log line, its figures, its record. Must not: decide about it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::os::foreign::HandedOn;
use tool_policy::{Approved, Verdict};
use tool_protocol::{Code, Id, Refusal, Reply, Request};
use tracing::{debug, warn};

use super::admission::{Peer, Permit};
use super::answer::answer;
use super::approval::Held;
use super::outlet::Gated;
use super::record::Record;
use super::{Broker, figures};
use crate::exec::{Io, Plan, Report, Running};
use crate::registry::Tool;

/// A call as `listen` hands it over.
#[derive(Debug)]
pub(crate) struct Call {
    /// Who calls.
    pub(crate) peer: Peer,
    /// The tool's name, which the socket has let through.
    pub(crate) tool: String,
    /// What was asked for.
    pub(crate) request: Request,
    /// How its input and output travel.
    pub(crate) io: Io,
    /// The tool itself, where it is one of the broker's own and none of tools.d.
    pub(crate) known: Option<Arc<Tool>>,
}

/// What is noted of a call when it begins.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) number: u32,
    pub(super) call_id: String,
    pub(super) peer: Peer,
    pub(super) tool: String,
    pub(super) started: Instant,
    pub(super) id: Option<Id>,
    pub(super) buffered: bool,
    pub(super) seed_only: bool,
    pub(super) record: Record,
}

/// A call whose tool runs.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(super) tool: Arc<Tool>,
    pub(super) permit: Permit,
    pub(super) approved: Approved<Plan>,
    pub(super) running: Running,
}

impl Underway {
    /// How long it may run.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.approved.get().timeout
    }

    /// Whether it is to be attended to at once, not only when its tool has ended.
    pub(crate) fn is_led(&self) -> bool {
        self.running.is_led()
    }

    /// What is to be closed before its end is told.
    pub(crate) fn handed_on(&mut self) -> HandedOn {
        self.running.handed_on()
    }
}

/// What became of a call that was to begin at once.
#[derive(Debug)]
pub(crate) enum Begun {
    /// Its tool runs.
    Running(Ticket, Box<Underway>),
    /// It is to be attended to: it waits for an operator, or has a gate.
    Later(Ticket, Unfinished),
    /// It was refused, or could not be started.
    Refused(Reply),
}

/// A call that has begun and not ended.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// Its tool runs.
    Running(Box<Underway>),
    /// It waits for an operator.
    Held(Box<Held>),
    /// It may run, and has a gate.
    Gated(Box<Gated>),
}

/// A tool, and a place for a call of it.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(super) tool: Arc<Tool>,
    pub(super) permit: Permit,
}

impl Ticket {
    /// What the log and the audit call it.
    pub(crate) fn call_id(&self) -> &str {
        &self.call_id
    }
}

impl Broker {
    /// A call has come.
    pub(crate) fn open(&self, call: &Call) -> Ticket {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        self.recent.came(number, call, started, &self.watch);
        let call_id = self.facts.call_id(number);
        Ticket {
            number,
            record: self.draft(call, &call_id),
            call_id,
            peer: call.peer,
            tool: call.tool.clone(),
            started,
            id: call.request.id.clone(),
            buffered: matches!(call.io, Io::Captured),
            seed_only: call.request.seed_only,
        }
    }

    /// It is over: noted wherever it is to be noted, and answered.
    pub(super) fn close(&self, ticket: Ticket, ended: Result<Report, Refusal>) -> Reply {
        if let Ok(Report { unkillable: processes @ 1.., .. }) = &ended {
            warn!(call_id = ticket.call_id, processes, "could not be killed");
        }
        let how = ticket.record.how(&ended);
        let mut reply = answer(ended, ticket.buffered, ticket.seed_only);
        self.note_end(&ticket, &reply);
        self.record_end(ticket.record, ticket.started, how, &reply);
        reply.id = ticket.id;
        reply.call_id = Some(ticket.call_id);
        reply.duration_ms = u64::try_from(ticket.started.elapsed().as_millis()).ok();
        reply
    }

    /// The same of a call that has begun, on a thread that reaches the workspace alone; the
    /// call back: its record takes more than one write, and nothing has happened.
    pub(super) fn close_at_once(
        &self,
        mut ticket: Ticket,
        report: Report,
    ) -> Result<Reply, Box<Ticket>> {
        let ended = Ok(report);
        let how = ticket.record.how(&ended);
        let reply = answer(ended, ticket.buffered, ticket.seed_only);
        if !self.record_end_at_once(&mut ticket.record, how, &reply) {
            return Err(Box::new(ticket));
        }
        self.note_end(&ticket, &reply);
        let duration_ms = u64::try_from(ticket.started.elapsed().as_millis()).ok();
        Ok(Reply { id: ticket.id, call_id: Some(ticket.call_id), duration_ms, ..reply })
    }

    /// Its end wherever it is noted, but in the audit.
    fn note_end(&self, ticket: &Ticket, reply: &Reply) {
        let under_way = self.recent.ended(ticket.number);
        self.log_end(ticket, reply);
        self.measure(ticket, under_way.as_ref(), reply);
        self.watch.ended(ticket.number, under_way.as_ref(), reply);
    }

    /// What was decided, for the record and the figures.
    pub(super) fn note(&self, ticket: &mut Ticket, verdict: Verdict) {
        self.recent.decided(ticket.number, figures::decided(verdict.meant()), &self.watch);
        ticket.record.known.verdict = Some(verdict);
    }

    /// Its line in the log.
    fn log_end(&self, ticket: &Ticket, reply: &Reply) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        let (call_id, tool, exit_code) = (&ticket.call_id, &ticket.tool, reply.exit_code);
        match (reply.code, &reply.error) {
            // Nothing is wrong: it comes again.
            (Some(Code::UseStream), _) => debug!(call_id, tool, "to be streamed"),
            (Some(code), Some(error)) => {
                warn!(call_id, tool, code = code.as_str(), exit_code, "{error}");
            }
            _ => debug!(call_id, tool, exit_code, signal = reply.signal, "ended"),
        }
    }
}
