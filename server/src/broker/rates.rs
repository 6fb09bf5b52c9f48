//! How often a peer may call: over all tools, and each tool.
//!
//! Owns: the buckets, one for each peer and rate, in a bounded memory. A call
//! beyond its rate is refused at once and uses nothing up. Must not: wait.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};
use tool_policy::Rate;
use tool_protocol::{Code, Refusal};

use super::{Broker, Peer};
use crate::metrics::Limit;
use crate::registry::{Snapshot, Tool};

/// Peers that have a bucket of their own, for each rate. Those beyond share one
/// with the others of their socket: who comes under many uids gets no more by it.
const PEERS: usize = 1_024;

/// The uid and gid of those that share: nobody's (it is what chown takes for
/// "leave it").
const SHARED: u32 = u32::MAX;

/// All rates.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Over all tools.
    all: Option<Bucket>,
    /// By tool, each with the rate that it was made for.
    tools: Mutex<HashMap<String, Bucket>>,
}

type Limiter<C> = RateLimiter<Peer, Peers, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The buckets of one rate.
#[derive(Debug)]
struct Bucket<C: Clock = MonotonicClock> {
    rate: Rate,
    limiter: Limiter<C>,
    clock: C,
}

impl<C: Clock + Clone> Bucket<C> {
    fn new(rate: Rate, clock: C) -> Option<Bucket<C>> {
        let interval = rate.interval();
        let quota = Quota::with_period(interval)?.allow_burst(rate.burst());
        let peers = Peers { interval: interval.into(), known: Mutex::default() };
        Some(Bucket { rate, limiter: RateLimiter::new(quota, peers, clock.clone()), clock })
    }

    /// One more call of this peer, or how long it has to wait for that.
    fn take(&self, peer: Peer) -> Result<(), Duration> {
        let taken = self.limiter.check_key(&peer);
        taken.map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }
}

/// When each peer's bucket will be as good as new, since the limiter's start.
#[derive(Debug)]
struct Peers {
    /// Between two calls, where all at once are used up.
    interval: Nanos,
    known: Mutex<HashMap<Peer, Nanos>>,
}

impl StateStore for Peers {
    type Key = Peer;

    fn measure_and_replace<T, F, E>(&self, peer: &Peer, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = known.get_mut(peer) {
            let (outcome, next) = measure(Some(*state))?;
            *state = next;
            return Ok(outcome);
        }
        // A new bucket is good until one interval from now.
        let (outcome, next) = measure(None)?;
        if known.len() >= PEERS {
            let now = next.saturating_sub(self.interval);
            known.retain(|_, state| *state > now);
        }
        if known.len() < PEERS {
            known.insert(*peer, next);
            return Ok(outcome);
        }
        let shared = Peer { uid: SHARED, gid: SHARED, ..*peer };
        let (outcome, next) = measure(known.get(&shared).copied())?;
        known.insert(shared, next);
        Ok(outcome)
    }
}

impl Rates {
    /// With a rate for each peer over all tools.
    pub(crate) fn new(all: Option<Rate>) -> Rates {
        let all = all.and_then(|rate| Bucket::new(rate, MonotonicClock));
        Rates { all, tools: Mutex::default() }
    }

    /// The rate over all tools.
    pub(super) fn of_all(&self) -> Option<Rate> {
        self.all.as_ref().map(|bucket| bucket.rate)
    }

    /// Forgets the tools that are gone, or have another rate now; the others keep
    /// what was used up.
    pub(crate) fn keep(&self, snapshot: &Snapshot) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        tools.retain(|name, bucket| {
            snapshot.tools.get(name).is_some_and(|tool| tool.rate == Some(bucket.rate))
        });
    }

    fn take(&self, peer: Peer) -> Result<(), Refusal> {
        let Some(bucket) = &self.all else { return Ok(()) };
        bucket.take(peer).map_err(|wait| refusal(&bucket.rate.in_words("call"), wait))
    }

    fn take_of(&self, tool: &Tool, peer: Peer) -> Result<(), Refusal> {
        let Some(rate) = tool.rate else { return Ok(()) };
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.get(&tool.name).is_none_or(|bucket| bucket.rate != rate) {
            let Some(bucket) = Bucket::new(rate, MonotonicClock) else { return Ok(()) };
            tools.insert(tool.name.clone(), bucket);
        }
        let Some(bucket) = tools.get(&tool.name) else { return Ok(()) };
        let what = format!("{} call", tool.name);
        bucket.take(peer).map_err(|wait| refusal(&rate.in_words(&what), wait))
    }
}

fn refusal(rate: &str, wait: Duration) -> Refusal {
    // Rounded up: who waits so long is let through.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let message =
        format!("too many calls: one caller may make {rate}; try again in {} s", seconds.max(1));
    Refusal::new(Code::RateLimited, message)
}

impl Broker {
    /// Whether a call of this tool by this peer is within its rates.
    pub(super) fn within_rates(&self, tool: &Tool, peer: Peer) -> Result<(), Refusal> {
        // The tool's first: what it refuses is not to use up the peer's other calls.
        let tools = self.rates.take_of(tool, peer).map_err(|refusal| (Limit::Tool, refusal));
        let all = || self.rates.take(peer).map_err(|refusal| (Limit::Peer, refusal));
        tools.and_then(|()| all()).map_err(|(by, refusal)| {
            self.metrics.rate_limited(by);
            refusal
        })
    }

    /// The same for a name that no tool is known by: to look for it costs a look
    /// at the disk.
    pub(super) fn within_rate(&self, peer: Peer) -> Result<(), Refusal> {
        self.rates.take(peer).inspect_err(|_| self.metrics.rate_limited(Limit::Peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;

    fn bucket(rate: &str) -> (Bucket<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (Bucket::new(rate.parse().unwrap(), clock.clone()).unwrap(), clock)
    }

    fn peer(uid: u32) -> Peer {
        Peer { socket: 0, uid, gid: 0 }
    }

    #[test]
    fn a_burst_passes_and_then_one_in_each_interval() {
        let (bucket, clock) = bucket("60/minute, burst 3");
        let taken = (0..10).filter(|_| bucket.take(peer(1)).is_ok()).count();
        assert_eq!(taken, 3);
        assert_eq!(bucket.take(peer(1)), Err(Duration::from_secs(1)));
        clock.advance(Duration::from_millis(999));
        assert_eq!(bucket.take(peer(1)), Err(Duration::from_millis(1)));
        // What was refused has used nothing up, and others are not bound by it.
        clock.advance(Duration::from_millis(1));
        assert_eq!(bucket.take(peer(1)), Ok(()));
        assert!(bucket.take(peer(1)).is_err());
        assert_eq!(bucket.take(peer(2)), Ok(()));
        clock.advance(Duration::from_secs(100));
        assert_eq!((0..10).filter(|_| bucket.take(peer(1)).is_ok()).count(), 3);
    }

    #[test]
    fn peers_without_end_share_and_fill_no_memory() {
        let (bucket, clock) = bucket("1/hour, burst 2");
        let passed = (0..100_000).filter(|uid| bucket.take(peer(*uid)).is_ok()).count();
        assert_eq!(passed, PEERS + 2, "those beyond share one bucket");
        // Another socket's share is its own; and who has a bucket keeps it.
        let elsewhere = Peer { socket: 1, ..peer(200_000) };
        assert_eq!(bucket.take(elsewhere), Ok(()));
        assert_eq!(bucket.take(peer(5)), Ok(()));
        assert!(bucket.take(peer(5)).is_err());
        let peers = bucket.limiter.into_state_store();
        assert_eq!(peers.known.lock().unwrap().len(), PEERS + 2);
        drop(clock);
    }

    #[test]
    fn peers_of_long_ago_make_room() {
        let (bucket, clock) = bucket("60/minute");
        let all = u32::try_from(PEERS).unwrap();
        assert_eq!((0..all).filter(|uid| bucket.take(peer(*uid)).is_ok()).count(), PEERS);
        clock.advance(Duration::from_secs(2));
        assert_eq!((all..2 * all).filter(|uid| bucket.take(peer(*uid)).is_ok()).count(), PEERS);
        let peers = bucket.limiter.into_state_store();
        assert_eq!(peers.known.lock().unwrap().len(), PEERS);
    }

    #[test]
    fn the_refusal_says_how_many_and_when() {
        let rate: Rate = "60/minute".parse().unwrap();
        let refusal = refusal(&rate.in_words("sh call"), Duration::from_millis(2_100));
        assert_eq!(refusal.code, Code::RateLimited);
        let message = "too many calls: one caller may make 60 sh calls a minute; try again in 3 s";
        assert_eq!(refusal.message, message);
    }
}
