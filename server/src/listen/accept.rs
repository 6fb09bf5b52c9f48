//! Who may connect, and how many: what holds for every connection.
//!
//! Each connection has a budget of descriptors, and there are only as many
//! connections at once as the process's limit pays for: the others wait in the
//! kernel's queue, and nobody meets a server that has run out.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tool_protocol::{Code, Refusal, Request, Text};
use tracing::warn;

use super::connection::Patience;
use super::operation::Reload;
use super::unread::UNREAD;
use crate::agent::Agent;
use crate::broker::{Broker, Peer};
use crate::os::apart;
use crate::os::descriptors::peer;
use crate::os::foreign::Spare;
use crate::registry::ToolName;

/// Bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once, on all sockets.
    pub(crate) connections: usize,
    /// Calls under way on one connection.
    pub(crate) calls_per_connection: usize,
    /// Bytes of one request.
    pub(crate) request_bytes: usize,
    /// Arguments of one request.
    pub(crate) arguments: usize,
    /// Variables that one request offers.
    pub(crate) environment: usize,
    /// How long a peer may take.
    pub(crate) patience: Patience,
}

/// Descriptors that one connection and its call may need at once: itself, a
/// watch for its end, three that were passed or three pipes (both ends while a
/// process is made), three that come unasked before that is noticed, the
/// directory, a cgroup; or, with a terminal, both its ends, a line to its leader,
/// the leader's task, copies for who relays; or, with a gate, a ruleset of its own, a
/// listener and a copy of it, what its filter asks by, the line and the task, while it is
/// made a handle and two files of its ids, and one connection that waits for a place.
const DESCRIPTORS_EACH: u64 = 16;
/// One in so many is kept for what calls pass beyond three.
const SPARE_SHARE: u64 = 4;
/// More of them are never needed.
const MOST_SPARE: u64 = 8_192;
/// One in so many is kept for what calls connect at their gates.
const GATE_SHARE: u64 = 12;
/// Descriptors that one such connection may need: itself, the one on to the host, one that
/// is kept for the next request.
const GATE_EACH: u64 = 3;
/// More of them are never needed.
const MOST_GATE: u64 = 12_288;
/// Descriptors that the server itself needs.
const DESCRIPTORS_OWN: u64 = 24;

/// Kept free, so that whatever one message brings has room: what has none the kernel
/// closes within the read, however long that takes.
const ONE_MESSAGE: u64 = 256;
/// Of fewer descriptors none are kept for that, nor to keep low numbers from callers.
const FEW: u64 = apart::FROM;

/// What one connection takes.
pub(crate) const LEAST_DESCRIPTORS: u64 = DESCRIPTORS_OWN + DESCRIPTORS_EACH;

/// How many calls, each on a connection of its own, a limit of descriptors pays
/// for.
pub(crate) fn paid_for(descriptors: u64) -> usize {
    let low = u64::from(apart::LOW.cast_unsigned());
    let few = if descriptors < FEW { 0 } else { ONE_MESSAGE + low };
    let kept = DESCRIPTORS_OWN + few + spare_of(descriptors) + gates_of(descriptors);
    let left = descriptors.saturating_sub(kept);
    let paid = left / DESCRIPTORS_EACH;
    usize::try_from(paid).unwrap_or(usize::MAX).max(1)
}

/// Of a limit of descriptors, how many calls may pass beyond three each.
fn spare_of(descriptors: u64) -> u64 {
    (descriptors.saturating_sub(LEAST_DESCRIPTORS) / SPARE_SHARE).min(MOST_SPARE)
}

/// Of a limit of descriptors, how many are for what calls connect at their gates.
fn gates_of(descriptors: u64) -> u64 {
    (descriptors.saturating_sub(LEAST_DESCRIPTORS) / GATE_SHARE).min(MOST_GATE)
}

/// How many connections at gates a limit of descriptors pays for.
pub(crate) fn gate_places(descriptors: u64) -> usize {
    usize::try_from(gates_of(descriptors) / GATE_EACH).unwrap_or(usize::MAX)
}

impl Limits {
    /// As many connections as a limit of descriptors pays for.
    pub(crate) fn within(mut self, descriptors: u64) -> Limits {
        self.connections = self.connections.min(paid_for(descriptors));
        self
    }

    /// Whether a request is within them.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let (bytes, arguments, variables) = (request.size(), request.args.len(), request.env.len());
        if bytes <= self.request_bytes
            && arguments <= self.arguments
            && variables <= self.environment
        {
            return Ok(());
        }
        let message = format!(
            "the request is too large: {bytes} bytes, {arguments} arguments, {variables} variables"
        );
        Err(Refusal::new(Code::RequestTooLarge, message))
    }

    /// With the two times that a peer may take.
    pub(crate) fn patience(first: Duration, frame: Duration) -> Patience {
        Patience { first, frame }
    }
}

/// Who may use a socket, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Which socket, counted from 0.
    pub(crate) socket: usize,
    /// The tools that it serves; all where unset.
    pub(crate) tools: Option<Vec<String>>,
    /// The uids that may connect; any where unset.
    pub(crate) uids: Option<Vec<u32>>,
    /// The gids that may connect; any where unset.
    pub(crate) gids: Option<Vec<u32>>,
    /// Whether `status` and `reload` are answered, and nothing else.
    pub(crate) control: bool,
}

impl Rules {
    fn admits(&self, peer: Peer) -> bool {
        let listed = |list: &Option<Vec<u32>>, id| list.as_ref().is_some_and(|l| l.contains(&id));
        (self.uids.is_none() && self.gids.is_none())
            || listed(&self.uids, peer.uid)
            || listed(&self.gids, peer.gid)
    }

    /// Whether this socket serves a tool.
    pub(crate) fn serves(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool))
    }

    /// The tool that a request means.
    pub(crate) fn tool(&self, asked: Option<&Text>) -> Result<String, Refusal> {
        if self.control {
            let message = "no tools are called on the control socket: use TOOL_SOCKET";
            return Err(Refusal::new(Code::UnknownOp, message));
        }
        let Some(asked) = asked else {
            return match self.tools.as_deref() {
                Some([only]) => Ok(only.clone()),
                _ => Err(Refusal::new(Code::BadRequest, "the member tool is missing")),
            };
        };
        // What is no tool's name is not carried any further, into no log either.
        let name = std::str::from_utf8(asked.as_bytes()).ok().and_then(ToolName::parse);
        match name {
            Some(name) if self.serves(name.as_str()) => Ok(name.as_str().to_owned()),
            _ => {
                let name = asked.as_bytes().escape_ascii();
                let message = format!("no such tool on this socket: {name}");
                Err(Refusal::new(Code::UnknownTool, message))
            }
        }
    }
}

/// What the sessions of one socket share.
#[derive(Debug)]
pub(crate) struct Context {
    /// Below.
    pub(crate) broker: Arc<Broker>,
    /// The tools that are called with JSON.
    pub(crate) agent: Agent,
    /// Of this socket.
    pub(crate) rules: Rules,
    /// Of every connection.
    pub(crate) limits: Limits,
    /// To look at tools.d now.
    pub(crate) reload: Reload,
    /// Held by sessions that have a call or output under way: what a stop waits
    /// for.
    pub(crate) busy: TaskTracker,
    /// Of all sockets.
    pub(crate) shared: Shared,
}

/// What the sessions of all sockets share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// Told when a connection waits for room: a session that is idle goes.
    pub(crate) crowded: Arc<Notify>,
    /// Bytes that requests may hold which are not whole yet.
    partial: Arc<Semaphore>,
    /// Bytes of answers to calls with JSON that do not fit a message and are not written.
    unread: Arc<Semaphore>,
    /// Descriptors that calls pass beyond three each.
    pub(crate) spare: Spare,
}

impl Shared {
    /// With room for so many bytes of requests that are not whole, within a limit
    /// of descriptors.
    pub(crate) fn new(partial_bytes: usize, descriptors: u64) -> Shared {
        let bytes = partial_bytes.min(Semaphore::MAX_PERMITS);
        let spare = usize::try_from(spare_of(descriptors)).unwrap_or(0);
        Shared {
            crowded: Arc::default(),
            partial: Arc::new(Semaphore::new(bytes)),
            unread: Arc::new(Semaphore::new(UNREAD)),
            spare: Spare::new(spare),
        }
    }

    /// Room for an answer of so many bytes; none, where others fill it that nobody reads.
    pub(crate) fn room_for(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.unread).try_acquire_many_owned(bytes).ok()
    }

    /// Room for a request that grew to `bytes`, given back when it is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Arc::clone(&self.partial).try_acquire_many_owned(bytes).map_err(|_none| {
            let message = "too many requests are on their way in parts: try again later";
            Refusal::new(Code::Busy, message)
        })
    }
}

/// What uid_t shows of a user of another user namespace (kernel.overflowuid).
const OVERFLOW_UID: u32 = 65_534;

/// Who connected, if they may.
pub(super) fn identify(socket: &UnixStream, context: &Context) -> Result<Peer, Refusal> {
    let rules = &context.rules;
    let (uid, gid) = peer(socket.as_fd()).map_err(|errno| {
        Refusal::new(Code::PeerRefused, format!("who is calling is not known: {errno}"))
    })?;
    if uid == OVERFLOW_UID {
        context.broker.facts.hidden_peers.store(true, Ordering::Relaxed);
    }
    let peer = Peer { socket: rules.socket, uid, gid };
    if rules.admits(peer) {
        return Ok(peer);
    }
    warn!(uid, gid, "refused a peer");
    let message =
        format!("uid {uid}, gid {gid} may not use this socket: see peers.uids, peers.gids");
    Err(Refusal::new(Code::PeerRefused, message))
}
