//! The part of a call's way that one thread for files goes alone.
//!
//! Owns: finding, deciding, noting and doing in one trip, where nothing of it has to be
//! waited for; a thread that is woken twice for a call costs more than reading a file. Where
//! somebody is to be asked, or the journal takes more than one write into room that is there
//! (`Audit::begin_at_once`: the thread opens nothing but the workspace), it comes back, and
//! the broker's own thread goes on. Must not: decide otherwise than [`super`] says, or keep
//! the broker alive while a file system does not answer.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use serde_json::value::RawValue;
use tool_files::{FileError, Roots, Stop};
use tool_policy::facts::Observed;
use tool_policy::{Approved, Asked, Judged, decide};
use tool_protocol::Refusal;

use super::super::answer::{denied, tell_observed};
use super::super::approval::Because;
use super::super::record::Record;
use super::super::{Broker, Ticket};
use super::work::{Pieces, Work};
use super::{Meant, Task};
use crate::registry::Tool;

/// What is noted of a call. Whoever takes it goes on with the call: the thread, once it knows
/// what is meant; or who gives the call up before, and does not wait for the thread.
#[derive(Clone, Debug)]
pub(super) struct Desk(Arc<Mutex<Option<Record>>>);

/// How far the thread came.
pub(super) enum Came {
    /// What the input means is not to be had.
    Unfound(Record, FileError),
    /// Somebody gave it up.
    GivenUp,
    /// The rules do not let it.
    Refused(Record, Refusal),
    /// It is to be asked about.
    ToAsk(Record, Box<dyn Work>, Asked<Meant>, Because),
    /// It may be done, and is not noted.
    ToNote(Record, Box<dyn Work>, Approved<Meant>),
    /// It was done.
    Done(Record, Result<Box<RawValue>, FileError>),
}

/// What the thread takes along.
pub(super) struct Trip {
    broker: Weak<Broker>,
    roots: Arc<Roots>,
    tool: Arc<Tool>,
    call: Call,
    desk: Desk,
    work: Box<dyn Work>,
    stop: Stop,
    pieces: Option<Pieces>,
}

/// Which call it is.
struct Call {
    number: u32,
    id: String,
    started: Instant,
}

impl Desk {
    /// With what is noted so far.
    pub(super) fn new(record: Record) -> Desk {
        Desk(Arc::new(Mutex::new(Some(record))))
    }

    /// To go on with the call; none where another does.
    pub(super) fn take(&self) -> Option<Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Trip {
    /// Of that call, with what is on that desk. Said to `stop`: it ends as soon as it can.
    pub(super) fn new(
        broker: &Arc<Broker>,
        task: &Task,
        ticket: &Ticket,
        desk: Desk,
        work: Box<dyn Work>,
        stop: Stop,
    ) -> Trip {
        let (number, id, started) = (ticket.number, ticket.call_id.clone(), ticket.started);
        Trip {
            broker: Arc::downgrade(broker),
            roots: Arc::clone(&broker.files.roots),
            tool: Arc::clone(&task.tool),
            call: Call { number, id, started },
            desk,
            work,
            stop,
            pieces: task.pieces.clone(),
        }
    }

    /// Goes it, on a thread for files.
    pub(super) fn go(self) -> Came {
        let Trip { broker, roots, tool, call, desk, mut work, stop, pieces } = self;
        let found = work.find(&roots);
        let Some(mut record) = desk.take() else { return Came::GivenUp };
        let names = match found {
            Ok(names) => names,
            Err(error) => return Came::Unfound(record, error),
        };
        // While it is stuck above, a server that stops is not held up.
        let Some(broker) = broker.upgrade() else { return Came::GivenUp };
        let approved = match broker.judge(&tool, &call, names, &mut record) {
            Judgement::Allowed(approved) => approved,
            Judgement::Denied(refusal) => return Came::Refused(record, refusal),
            Judgement::Asked(asked, because) => return Came::ToAsk(record, work, asked, because),
        };
        if !broker.record_at_once(&mut record, call.started) {
            return Came::ToNote(record, work, approved);
        }
        broker.recent.started(call.number, &broker.watch);
        drop(broker);
        let stop = stop.until(Instant::now() + tool.timeout);
        let done = carry_out(work, &approved, &stop, pieces.as_ref());
        Came::Done(record, done)
    }
}

/// What the rules say.
enum Judgement {
    Allowed(Approved<Meant>),
    Denied(Refusal),
    Asked(Asked<Meant>, Because),
}

impl Broker {
    fn judge(
        &self,
        tool: &Tool,
        call: &Call,
        names: Vec<Vec<u8>>,
        record: &mut Record,
    ) -> Judgement {
        let meant = Meant {
            names,
            directory: self.workspace.first().to_vec(),
            roots: self.workspace.names(),
            observed: Observed::default(),
        };
        let is_path = |name: &&Vec<u8>| name.first() == Some(&b'/');
        record.known.directory = meant.names.first().filter(is_path).cloned();
        let (judgement, verdict) = match decide(&tool.policy, meant) {
            Judged::Allowed(approved, verdict) => {
                tell_observed(tool, &call.id, &verdict);
                (Judgement::Allowed(approved), verdict)
            }
            Judged::Denied(_, verdict) => (Judgement::Denied(denied(tool, &verdict)), verdict),
            Judged::Asked(asked, verdict) => {
                (Judgement::Asked(asked, Because::of(tool, &verdict)), verdict)
            }
        };
        self.note_of(call.number, record, verdict);
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
