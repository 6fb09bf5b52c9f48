//! A call's way out: the gate that is made for it, and served as long as it runs.
//!
//! Owns: serving it, and its end with the call. Must not: understand a request (`tool_gate` does) or
//! decide about one (`bench` does, by the tool's rules).
//!
//! - `bench`    who decides on a call's requests, asks about them, and writes them down
//! - `ask`      the question to an operator
//! - `command`  credentials that a command prints
//! - `ledger`   which requests have a line of their own in the audit and the log
//! - `known`    the digest by which a request is known again
//! - `room`     memory of the requests that somebody is asked about

mod ask;
mod bench;
mod command;
mod known;
mod ledger;
mod room;

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tool_gate::Judge;
use tool_gate::adapter::git::Memory;
use tool_gate::credential::Keeper;
use tool_gate::grant::{CONNECTIONS, Grant};
use tool_gate::redact::Live;
use tool_gate::serve::{Came, connection};
use tool_gate::upstream::Upstream;
use tool_policy::Approved;
use tool_protocol::Refusal;

use self::bench::Bench;
pub(crate) use self::command::Commands;
use self::room::Room;
use super::confine::Way;
use super::signing::Service;
use super::{Asker, Broker, Peer, Permit, Ticket};
use crate::exec::{Arrival, Arrivals, Hear, Io, Pause, Place, Plan, Report};
use crate::registry::Tool;

/// What the gates of all calls share.
pub(crate) struct Gates {
    credentials: Arc<Keeper>,
    upstream: Arc<Upstream>,
    /// For requests that somebody is asked about.
    room: Room,
}

impl fmt::Debug for Gates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Gates")
    }
}

impl Gates {
    /// With these credentials.
    pub(crate) fn new(credentials: Arc<Keeper>) -> Gates {
        Gates { credentials, upstream: Arc::default(), room: Room::default() }
    }

    /// Where credentials come from.
    pub(super) fn credentials(&self) -> Arc<Keeper> {
        Arc::clone(&self.credentials)
    }

    /// Connections to hosts, for somebody with lookups of its own.
    pub(super) fn upstream(&self) -> Arc<Upstream> {
        Arc::new(self.upstream.of_call())
    }
}

/// A call that may run, and has a gate.
#[derive(Debug)]
pub(crate) struct Gated {
    /// Its definition.
    pub(super) tool: Arc<Tool>,
    /// Its place.
    pub(super) permit: Permit,
    /// What runs.
    pub(super) approved: Approved<Plan>,
    /// Its input and output.
    pub(super) io: Io,
    /// Who calls.
    pub(super) peer: Peer,
    /// Its way out.
    pub(super) way: Way,
}

/// Somebody serves a call's gate; dropped, nobody does, and what was connected ends.
#[derive(Debug)]
struct Served(AbortHandle);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Broker {
    /// Runs a call that has a gate, and serves it until the call is over.
    pub(super) async fn pass(
        &self,
        gated: Gated,
        mut hear: Hear,
        ticket: &mut Ticket,
    ) -> Result<Report, Refusal> {
        let Gated { tool, permit, approved, io, peer, way } = gated;
        self.confines.furnish(approved.get())?;
        let pause = Arc::new(self.pause());
        hear.pause = Some(Arc::clone(&pause));
        let asker = Asker::of(approved.get(), peer, &self.facts.peer(peer));
        let bench = Bench::new(self, &tool, ticket, asker, hear.events.clone(), pause);
        let redact = approved.get().redact.clone();
        let served = self.serve(way, &tool, redact, Arc::new(bench));
        let underway = self.launch(tool, permit, approved, io, None, ticket)?;
        let ended = self.await_end(underway, hear, ticket).await;
        drop(served);
        ended
    }

    /// Answers what a call's processes want signed, as the rules of its tool say, until
    /// what is returned is dropped.
    pub(super) fn sign(
        &self,
        tool: &Arc<Tool>,
        plan: &Plan,
        hear: &mut Hear,
        ticket: &Ticket,
    ) -> Option<Service> {
        plan.bell.as_ref()?;
        let pause = hear.pause.get_or_insert_with(|| Arc::new(self.pause()));
        let pause = Arc::clone(pause);
        let asker = Asker::of(plan, ticket.peer, &self.facts.peer(ticket.peer));
        let bench = Bench::new(self, tool, ticket, asker, hear.events.clone(), pause);
        self.signing.serve(tool, plan, Arc::new(bench))
    }

    /// For a call whose requests somebody may be asked about, again and again.
    fn pause(&self) -> Pause {
        /// So many times as long as one question waits.
        const QUESTIONS: u32 = 4;
        Pause::new(self.approvals.patience().saturating_mul(QUESTIONS))
    }

    fn serve(
        &self,
        way: Way,
        tool: &Tool,
        redact: Option<Arc<Live>>,
        judge: Arc<dyn Judge>,
    ) -> Served {
        let Way { push, door, arrivals, .. } = way;
        let grant = Grant {
            door,
            base: None,
            gates: Arc::clone(&tool.gates),
            push,
            judge,
            credentials: Arc::clone(&self.gates.credentials),
            redact,
            // What becomes of them is looked through, where it is to be.
            answers: None,
            upstream: Arc::new(self.gates.upstream.of_call()),
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            git: Memory::default(),
        };
        Served(tokio::spawn(take(arrivals, Arc::new(grant))).abort_handle())
    }
}

/// Serves what arrives. What was begun ends with this.
async fn take(mut arrivals: Arrivals, grant: Arc<Grant>) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            arrival = arrivals.next() => {
                let grant = Arc::clone(&grant);
                match arrival {
                    Some(Arrival::Proxy(stream, place)) => {
                        under_way.spawn(held(place, connection(stream, Came::Proxy, grant)));
                    }
                    Some(Arrival::Unix(stream, place)) => {
                        under_way.spawn(held(place, connection(stream, Came::Github, grant)));
                    }
                    None => return,
                }
            }
            _ = under_way.join_next(), if !under_way.is_empty() => {}
        }
    }
}

/// Serves one, whose place is free again after that.
async fn held(place: Place, served: impl Future<Output = ()>) {
    served.await;
    drop(place);
}
