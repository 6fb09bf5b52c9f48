//! The part of a call's way that one thread for files goes alone.
//!
//! Owns: finding, deciding, noting, doing, recording and answering in one trip, where nothing
//! of it has to be waited for; a thread that is woken once more for a call costs more than
//! reading a file. Where somebody is to be asked, or the audit takes more than writes to what is
//! open there (`Audit::begin_at_once`, `Audit::end_at_once`: the thread opens nothing
//! but the workspace), it comes back, and the broker's own thread goes on. Must not: decide
//! otherwise than [`super`] says, or keep
//! the broker alive while a file system does not answer.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use serde_json::value::RawValue;
use tool_files::{FileError, Roots, Stop};
use tool_policy::facts::Observed;
use tool_policy::{Approved, Asked, Judged, decide};
use tool_protocol::{Failure, Refusal};

use super::super::answer::{denied, tell_observed};
use super::super::approval::Because;
use super::super::{Broker, Ticket};
use super::work::{Pieces, Work};
use super::{Admitted, Ended, Meant, Operated, Over, Task, TellOperated};
use crate::exec::Report;
use crate::registry::Tool;

/// A call that has come in. Whoever takes it goes on with it: the thread, once it knows what
/// is meant; or who gives the call up before, and does not wait for the thread.
#[derive(Clone, Debug)]
pub(super) struct Desk(Arc<Mutex<Option<Admitted>>>);

/// How far the thread came. Mostly to the end: calls take no room for what is seldom.
pub(super) enum Came {
    /// It is over, and to be recorded and answered; its place is free.
    Ended(Box<Over>),
    /// It is to be asked about.
    ToAsk(Box<ToAsk>),
    /// It may be done, and is not noted.
    ToNote(Box<ToNote>),
    /// It was done, recorded and answered; or somebody gave it up before.
    Told,
}

/// A call that somebody is to be asked about.
pub(super) struct ToAsk {
    pub(super) admitted: Admitted,
    pub(super) work: Box<dyn Work>,
    pub(super) asked: Asked<Meant>,
    pub(super) because: Because,
}

/// A call that may be done, once that is noted.
pub(super) struct ToNote {
    pub(super) admitted: Admitted,
    pub(super) work: Box<dyn Work>,
    pub(super) approved: Approved<Meant>,
}

impl Came {
    /// To the end of a call that is to be recorded and answered.
    pub(super) fn ended(ticket: Ticket, ended: Result<Box<RawValue>, Ended>) -> Came {
        Came::Ended(Box::new((ticket, ended)))
    }
}

/// What the thread takes along.
pub(super) struct Trip {
    broker: Weak<Broker>,
    roots: Arc<Roots>,
    tool: Arc<Tool>,
    desk: Desk,
    work: Box<dyn Work>,
    stop: Stop,
    pieces: Option<Pieces>,
    tell: Option<TellOperated>,
}

impl Desk {
    /// To go on with the call; none where another does.
    pub(super) fn take(&self) -> Option<Admitted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Trip {
    /// Of that call, which lies on the desk. Said to `stop`: it ends as soon as it can.
    pub(super) fn new(
        broker: &Arc<Broker>,
        task: &Task,
        admitted: Admitted,
        work: Box<dyn Work>,
        stop: Stop,
        tell: Option<TellOperated>,
    ) -> (Trip, Desk) {
        let desk = Desk(Arc::new(Mutex::new(Some(admitted))));
        let trip = Trip {
            broker: Arc::downgrade(broker),
            roots: Arc::clone(&broker.files.roots),
            tool: Arc::clone(&task.tool),
            desk: desk.clone(),
            work,
            stop,
            pieces: task.pieces.clone(),
            tell,
        };
        (trip, desk)
    }

    /// Goes it, on a thread for files.
    pub(super) fn go(self) -> Came {
        let Trip { broker: to_broker, roots, tool, desk, mut work, stop, pieces, tell } = self;
        let found = work.find(&roots);
        // While it is stuck above, a server that stops is not held up.
        let Some(broker) = to_broker.upgrade() else { return Came::Told };
        let Some(Admitted { mut ticket, permit }) = desk.take() else { return Came::Told };
        let names = match found {
            Ok(names) => names,
            Err(error) => return Came::ended(ticket, Err(Ended::Failed(error))),
        };
        let approved = match broker.judge(&tool, names, &mut ticket) {
            Judgement::Allowed(approved) => approved,
            Judgement::Denied(refusal) => return Came::ended(ticket, Err(refusal.into())),
            Judgement::Asked(asked, because) => {
                let admitted = Admitted { ticket, permit };
                return Came::ToAsk(Box::new(ToAsk { admitted, work, asked, because }));
            }
        };
        if !broker.record_at_once(&mut ticket) {
            let admitted = Admitted { ticket, permit };
            return Came::ToNote(Box::new(ToNote { admitted, work, approved }));
        }
        broker.recent.started(ticket.number, &broker.watch);
        drop(broker);
        let stop = stop.until(Instant::now() + tool.timeout);
        let done = carry_out(work, &approved, &stop, pieces.as_ref());
        drop(permit);
        let (Some(tell), Some(broker)) = (tell, to_broker.upgrade()) else {
            return Came::ended(ticket, done.map_err(Ended::Failed));
        };
        let report = Report::said(u8::from(done.is_err()));
        match broker.close_at_once(ticket, report) {
            Ok(reply) => {
                tell(Operated::new(reply, done.map_err(|error| Failure::from(&error))));
                Came::Told
            }
            Err(ticket) => Came::ended(*ticket, done.map_err(Ended::Failed)),
        }
    }
}

/// What the rules say.
enum Judgement {
    Allowed(Approved<Meant>),
    Denied(Refusal),
    Asked(Asked<Meant>, Because),
}

impl Broker {
    fn judge(&self, tool: &Tool, names: Vec<Vec<u8>>, ticket: &mut Ticket) -> Judgement {
        let meant = Meant {
            names,
            directory: self.workspace.first().to_vec(),
            roots: self.workspace.names(),
            observed: Observed::default(),
        };
        let is_path = |name: &&Vec<u8>| name.first() == Some(&b'/');
        ticket.record.known.directory = meant.names.first().filter(is_path).cloned();
        let (judgement, verdict) = match decide(&tool.policy, meant) {
            Judged::Allowed(approved, verdict) => {
                tell_observed(tool, &ticket.call_id, &verdict);
                (Judgement::Allowed(approved), verdict)
            }
            Judged::Denied(_, verdict) => (Judgement::Denied(denied(tool, &verdict)), verdict),
            Judged::Asked(asked, verdict) => {
                (Judgement::Asked(asked, Because::of(tool, &verdict)), verdict)
            }
        };
        self.note(ticket, verdict);
        judgement
    }
}

/// Does what was approved: nothing but an approval leads here, and it is open already.
pub(super) fn carry_out(
    mut work: Box<dyn Work>,
    _approved: &Approved<Meant>,
    stop: &Stop,
    pieces: Option<&Pieces>,
) -> Result<Box<RawValue>, FileError> {
    work.run(stop, pieces)
}
