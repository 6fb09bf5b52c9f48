//! The main path of the broker's own tools for files: the list of [`Broker::call`], but
//! what runs is no process.
//!
//! 1. **admit** it: how often, how many at once
//! 2. **find** what its input means: opened, beneath the roots, nothing changed
//! 3. **decide** on its real names; what is approved is what is open
//! 4. **note** in the audit's journal that it begins
//! 5. **do** it, on a thread that reaches the workspace alone
//! 6. **record** it and answer
//!
//! 2 to 6 are one trip of such a thread, in this order (`trip`), unless somebody is to be
//! asked, or noting takes more than writes to open files: then the rest is done from here.
//!
//! - `work`  what finds and does
//! - `trip`  the way of the thread
//!
//! Must not: know what one of these tools does.

mod trip;
mod work;

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tool_files::{FileError, Roots, Stop};
use tool_policy::facts::Observed;
use tool_policy::{Approved, Asked, Scene, Subject};
use tool_protocol::{Code, Failure, Refusal, Reply, Request};
use tracing::warn;

use self::trip::{Came, ToAsk, ToNote, Trip, carry_out};
use self::work::Pieces;
pub(crate) use self::work::{OnFiles, Work};
use super::answer::{draining, gone};
use super::approval::{Answer, Asker, Because, heed};
use super::{Broker, Call, Peer, Permit, Ticket};
use crate::exec::{Crew, CrewError, Io, Report, crew};
use crate::metrics::Approval as Figure;
use crate::registry::Tool;

/// Where files are, and who works on them.
#[derive(Debug)]
pub(crate) struct Files {
    roots: Arc<Roots>,
    crew: Arc<Crew>,
}

/// What is to be done for whom.
pub(crate) struct Operating {
    /// Who asks.
    pub(crate) peer: Peer,
    /// The tool's definition: its rules and limits.
    pub(crate) tool: Arc<Tool>,
    /// As the audit has it: the tool's name, and what the caller wrote as its words.
    pub(crate) request: Request,
    /// All of the input, as it came.
    pub(crate) said: Vec<u8>,
    /// The tool and its input.
    pub(crate) work: Box<dyn Work>,
    /// Takes results as they come.
    pub(crate) pieces: Option<Pieces>,
    /// Told what is waited for.
    pub(crate) notices: Option<mpsc::Sender<String>>,
    /// Cancelled when nobody wants it any more.
    pub(crate) gone: CancellationToken,
    /// Answers on the thread that has done it.
    pub(crate) tell: Option<TellOperated>,
}

/// Takes what came of a call where it is known.
pub(crate) type TellOperated = Box<dyn FnOnce(Operated) + Send>;

/// How it went.
#[derive(Debug)]
pub(crate) struct Operated {
    /// What came of it.
    pub(crate) result: Result<Box<RawValue>, Failure>,
    /// What the log and the audit call it.
    pub(crate) call_id: String,
    /// From its coming to its end, in milliseconds.
    pub(crate) duration_ms: u64,
}

/// What is decided on: the tool's name, and the real names of what is open.
#[derive(Debug)]
struct Meant {
    names: Vec<Vec<u8>>,
    directory: Vec<u8>,
    roots: Arc<[Vec<u8>]>,
    observed: Observed,
}

impl Subject for Meant {
    fn args(&self) -> Vec<&[u8]> {
        self.names.iter().map(Vec::as_slice).collect()
    }

    fn scene(&self) -> Scene<'_> {
        Scene { directory: &self.directory, roots: &self.roots, observed: &self.observed }
    }
}

/// Why there is no output.
enum Ended {
    Refused(Refusal),
    Failed(FileError),
}

/// A call that is over, and to be recorded and answered.
type Over = (Ticket, Result<Box<RawValue>, Ended>);

/// A call that has a place among those under way.
#[derive(Debug)]
struct Admitted {
    ticket: Ticket,
    permit: Permit,
}

impl Operated {
    fn new(reply: Reply, result: Result<Box<RawValue>, Failure>) -> Operated {
        let call_id = reply.call_id.unwrap_or_default();
        Operated { result, call_id, duration_ms: reply.duration_ms.unwrap_or(0) }
    }
}

impl From<Refusal> for Ended {
    fn from(refusal: Refusal) -> Ended {
        Ended::Refused(refusal)
    }
}

impl Files {
    /// Those roots, and those who work beneath them.
    pub(crate) fn new(roots: Roots, crew: Arc<Crew>) -> Files {
        Files { roots: Arc::new(roots), crew }
    }
}

impl Broker {
    /// Does what takes long and changes nothing, on one of the threads for files.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        peer: Peer,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CrewError> {
        self.files.crew.run(peer.whose(), work).await
    }

    /// Has one of the threads for files come, for that caller; whether one will.
    pub(crate) fn invite(&self, peer: Peer, come: impl FnOnce() + Send + 'static) -> bool {
        self.files.crew.invite(peer.whose(), come)
    }

    /// What was written for calls that are over is written out, as far as that goes.
    pub(crate) async fn rest_files(&self) {
        self.files.crew.rest().await;
    }

    /// One operation, from its input to its output; nothing where [`Operating::tell`] has
    /// taken that.
    pub(crate) async fn operate(self: &Arc<Broker>, asked: Operating) -> Option<Operated> {
        let Operating { peer, tool, request, said, work, pieces, notices, gone, tell } = asked;
        let call = Call { peer, tool: tool.name.clone(), request, io: Io::Captured, known: None };
        let mut ticket = self.open(&call);
        ticket.record.known.tool = Some(Arc::clone(&tool));
        let bytes = call.request.memory().saturating_add(said.len());
        let task = Task { tool, peer, bytes, said, pieces, notices, gone };
        let (ticket, ended) = self.carry_operation(&task, work, ticket, tell).await?;
        // The record may need a file to be opened, which not every thread may.
        if crew::is_confined() {
            yield_now().await;
        }
        let (report, result) = match ended {
            Ok(output) => (Ok(Report::said(0)), Ok(output)),
            Err(Ended::Failed(error)) => (Ok(Report::said(1)), Err(Failure::from(&error))),
            Err(Ended::Refused(refusal)) => (Err(refusal.clone()), Err(Failure::from(refusal))),
        };
        Some(Operated::new(self.close(ticket, report), result))
    }

    async fn carry_operation(
        self: &Arc<Broker>,
        task: &Task,
        work: Box<dyn Work>,
        ticket: Ticket,
        tell: Option<TellOperated>,
    ) -> Option<Over> {
        let permit = match self.come_in(task).await {
            Ok(permit) => permit,
            Err(refusal) => return Some((ticket, Err(refusal.into()))),
        };
        // 2 to 6, on the thread, as far as nothing has to be waited for.
        match self.send(task, work, Admitted { ticket, permit }, tell).await {
            Came::Told => None,
            Came::Ended(ended) => Some(*ended),
            // Seldom: other calls would all take as much room.
            Came::ToNote(approved) => Some(Box::pin(self.note_and_work(task, *approved)).await),
            Came::ToAsk(asked) => Some(Box::pin(self.ask_and_work(task, *asked)).await),
        }
    }

    async fn note_and_work(&self, task: &Task, to_note: ToNote) -> Over {
        let ToNote { admitted, work, approved } = to_note;
        let Admitted { mut ticket, permit: _permit } = admitted;
        let done = self.work(task, work, approved, &mut ticket).await;
        (ticket, done)
    }

    async fn ask_and_work(&self, task: &Task, to_ask: ToAsk) -> Over {
        let ToAsk { admitted, work, asked, because } = to_ask;
        let Admitted { mut ticket, permit } = admitted;
        // It gives its place up while it waits.
        drop(permit);
        let done = async {
            let approved = self.ask_about(task, asked, because, &mut ticket).await?;
            let _permit = self.place_for(task).await?;
            self.work(task, work, approved, &mut ticket).await
        };
        let done = done.await;
        (ticket, done)
    }

    /// Whether it may come in: 1.
    async fn come_in(&self, task: &Task) -> Result<Permit, Refusal> {
        if self.draining.is_cancelled() {
            return Err(draining());
        }
        self.within_rates(&task.tool, task.peer)?;
        self.place_for(task).await
    }

    async fn place_for(&self, task: &Task) -> Result<Permit, Refusal> {
        let Task { tool, peer, bytes, gone: left, .. } = task;
        tokio::select! {
            biased;
            permit = self.admission.admit(&tool.name, tool.concurrent, *peer, *bytes) => permit,
            () = left.cancelled() => Err(gone()),
            () = self.draining.cancelled() => Err(draining()),
        }
    }

    /// Sends it on its trip.
    async fn send(
        self: &Arc<Broker>,
        task: &Task,
        work: Box<dyn Work>,
        admitted: Admitted,
        tell: Option<TellOperated>,
    ) -> Came {
        let stop = Stop::new(None);
        let (trip, desk) = Trip::new(self, task, admitted, work, stop.clone(), tell);
        let is_answered = |came: &Came| matches!(came, Came::Told);
        let crew = &self.files.crew;
        let came = crew.run_and_answer(task.peer.whose(), move || trip.go(), is_answered);
        tokio::pin!(came);
        // Until it is known what is meant, a file system that does not answer is not waited
        // for: whoever has the call first goes on with it.
        let given_up = |because: Refusal| {
            stop.say();
            let Admitted { ticket, .. } = desk.take()?;
            Some(Came::ended(ticket, Err(because.into())))
        };
        let came = tokio::select! {
            biased;
            came = &mut came => came,
            () = task.gone.cancelled() => match given_up(gone()) {
                Some(sent) => return sent,
                None => came.await,
            },
            () = self.stop.cancelled() => match given_up(draining()) {
                Some(sent) => return sent,
                None => came.await,
            },
        };
        came.unwrap_or_else(|error| match desk.take() {
            Some(Admitted { ticket, .. }) => {
                Came::ended(ticket, Err(no_thread(&task.tool, error).into()))
            }
            None => Came::Told,
        })
    }

    /// Waits for an operator's word.
    async fn ask_about(
        &self,
        task: &Task,
        asked: Asked<Meant>,
        because: Because,
        ticket: &mut Ticket,
    ) -> Result<Approved<Meant>, Refusal> {
        let caller = self.facts.peer(task.peer);
        let names = asked.get().names.iter().map(Vec::as_slice);
        let asker = Asker::of_operation(&task.tool.name, names, &task.said, task.peer, &caller);
        let question = asker.question(&self.workspace, because, None);
        let rule = question.rule();
        if let Some(answer) = self.approvals.standing(&question) {
            ticket.record.known.answered(&answer);
            return heed(asked, answer, &rule);
        }
        self.record_hold(ticket)?;
        let instead = question.instead().map(|instead| format!("instead: {instead}"));
        let mut waiting = self.approvals.ask(question)?;
        self.metrics.approval(Figure::Asked);
        let line = waiting.line();
        warn!(call_id = ticket.call_id, tool = task.tool.name, "{line}");
        self.tell_operators(&waiting);
        if let Some(notices) = &task.notices {
            let or = instead.as_ref().map(|instead| format!("; {instead}")).unwrap_or_default();
            notices.try_send(format!("{line}{or}")).ok();
        }
        let answer = tokio::select! {
            biased;
            answer = waiting.answer() => answer,
            () = task.gone.cancelled() => {
                self.metrics.approval(Figure::Gone);
                return Err(gone());
            }
            () = self.draining.cancelled() => return Err(draining()),
        };
        let id = waiting.id().to_owned();
        drop(waiting);
        self.metrics.approval(match &answer {
            Some(Answer::Yes(_)) => Figure::Approved,
            Some(Answer::No { .. }) => Figure::Denied,
            None => Figure::TimedOut,
        });
        let answer = answer.ok_or_else(|| self.nobody_answered(&id, &rule, instead))?;
        ticket.record.known.answered(&answer);
        heed(asked, answer, &rule)
    }

    /// Notes what was approved, and does it.
    async fn work(
        &self,
        task: &Task,
        work: Box<dyn Work>,
        approved: Approved<Meant>,
        ticket: &mut Ticket,
    ) -> Result<Box<RawValue>, Ended> {
        self.record_begin(ticket)?;
        self.recent.started(ticket.number, &self.watch);
        let stop = Stop::new(Some(Instant::now() + task.tool.timeout));
        let (heeds, pieces) = (stop.clone(), task.pieces.clone());
        let run = move || carry_out(work, &approved, &heeds, pieces.as_ref());
        let done = self.files.crew.run(task.peer.whose(), run);
        tokio::pin!(done);
        let done = tokio::select! {
            biased;
            done = &mut done => done,
            () = task.gone.cancelled() => {
                stop.say();
                done.await
            }
            () = self.stop.cancelled() => {
                stop.say();
                done.await
            }
        };
        done.map_err(|error| no_thread(&task.tool, error))?.map_err(Ended::Failed)
    }
}

/// What stays the same from a call's coming to its end.
struct Task {
    tool: Arc<Tool>,
    peer: Peer,
    bytes: usize,
    /// All of the input, by which a question is known again.
    said: Vec<u8>,
    pieces: Option<Pieces>,
    notices: Option<mpsc::Sender<String>>,
    gone: CancellationToken,
}

fn no_thread(tool: &Tool, error: CrewError) -> Refusal {
    let code = match error {
        CrewError::Thread(_) => Code::SpawnFailed,
        CrewError::Confine(_) => Code::ConfinementUnavailable,
    };
    Refusal::new(code, format!("{}: {error}: see confinement in `status`", tool.name))
}
