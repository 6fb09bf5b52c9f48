//! How many requests of a client to an endpoint are taken.
//!
//! Owns: a bucket for each, in a bounded memory. Must not: wait.

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// Buckets at once; clients beyond share one for each endpoint.
const BUCKETS: usize = 8_192;
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// Who has this token.
    Token(usize),
    /// Who has none, at this address.
    Address(IpAddr),
    /// Everybody else.
    Others,
}

type Key = (Client, Cow<'static, str>);

/// All buckets.
pub(super) struct Rates {
    limiter: RateLimiter<Key, HashMapStateStore<Key>, DefaultClock, StateInformationMiddleware>,
    clock: DefaultClock,
    most: u32,
    window: Duration,
}

impl std::fmt::Debug for Rates {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Rates({} in {:?})", self.most, self.window)
    }
}

/// How much is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Of so many.
    pub(super) limit: u32,
    remaining: u32,
    /// Seconds until one more is taken, or, where there are more now, until all are.
    pub(super) reset: u64,
    /// Seconds.
    pub(super) window: u64,
}

impl Rates {
    /// So many in that time.
    pub(super) fn new(most: usize, window: Duration) -> Rates {
        let most =
            NonZeroU32::new(u32::try_from(most).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
        // Not less than governor's clock can tell apart.
        let interval = (window / most.get()).max(Duration::from_nanos(1));
        let quota = Quota::with_period(interval).unwrap_or_else(|| Quota::per_second(most));
        let quota = quota.allow_burst(most);
        let limiter = RateLimiter::hashmap(quota).with_middleware::<StateInformationMiddleware>();
        Rates { limiter, clock: DefaultClock::default(), most: most.get(), window }
    }

    /// One more request.
    pub(super) fn take(&self, client: Client, endpoint: &str) -> Result<Taken, Taken> {
        if self.limiter.len() >= BUCKETS {
            self.limiter.retain_recent();
        }
        let full = self.limiter.len() >= BUCKETS;
        let client = if full { Client::Others } else { client };
        let key = (client, Cow::Owned(endpoint.to_owned()));
        let taken = |remaining: u32, reset: Duration| Taken {
            limit: self.most,
            remaining,
            reset: (reset.as_secs() + u64::from(reset.subsec_nanos() > 0)).max(1),
            window: self.window.as_secs().max(1),
        };
        match self.limiter.check_key(&key) {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let used = self.most.saturating_sub(remaining);
                Ok(taken(remaining, (self.window / self.most).saturating_mul(used)))
            }
            Err(not_until) => Err(taken(0, not_until.wait_time_from(self.clock.now()))),
        }
    }
}

impl Taken {
    /// As headers of the answer.
    pub(super) fn tell(self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, self.limit.into());
        headers.insert(REMAINING, self.remaining.into());
        headers.insert(RESET, self.reset.into());
        if let Ok(policy) = HeaderValue::from_str(&format!("{};w={}", self.limit, self.window)) {
            headers.insert(POLICY, policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_and_each_endpoint_has_a_count_of_its_own() {
        let rates = Rates::new(3, Duration::from_secs(3600));
        let left: Vec<Option<u32>> = (0..4)
            .map(|_| rates.take(Client::Token(0), "/read").ok().map(|taken| taken.remaining))
            .collect();
        assert_eq!(left, [Some(2), Some(1), Some(0), None]);
        let refused = rates.take(Client::Token(0), "/read").unwrap_err();
        assert_eq!((refused.limit, refused.remaining, refused.window), (3, 0, 3600));
        assert!((1..=1200).contains(&refused.reset), "{refused:?}");
        assert!(rates.take(Client::Token(0), "/edit").is_ok());
        assert!(rates.take(Client::Token(1), "/read").is_ok());
    }

    #[test]
    fn clients_without_end_share_and_fill_no_memory() {
        let rates = Rates::new(1, Duration::from_secs(3600));
        let address = |n: u32| Client::Address(IpAddr::from(n.to_be_bytes()));
        let taken = (0..50_000).filter(|n| rates.take(address(*n), "").is_ok()).count();
        assert_eq!(taken, BUCKETS + 1);
        assert_eq!(rates.limiter.len(), BUCKETS + 1);
    }
}
