//! How many requests of one client are under way.
//!
//! Owns: that one client does not take every place there is, so that others get none. Must
//! not: wait; who has its share is told so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts that places are at most divided into: whoever has a token may use a fourth.
const PARTS: usize = 4;

/// Who has how many.
#[derive(Debug)]
pub(super) struct Shares {
    connections: usize,
    taken: Mutex<HashMap<usize, usize>>,
}

/// One of a client's, until its answer is over.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Shares>,
    client: usize,
}

impl Shares {
    /// Of that many connections.
    pub(super) fn of(connections: usize) -> Arc<Shares> {
        Arc::new(Shares { connections, taken: Mutex::default() })
    }

    /// What each has, of so many clients as there are now.
    pub(super) fn most(&self, clients: usize) -> usize {
        (self.connections / clients.clamp(1, PARTS)).max(1)
    }

    /// One more request of a client's, if it has not all of its own.
    pub(super) fn enter(self: &Arc<Shares>, client: usize, clients: usize) -> Option<Share> {
        let most = self.most(clients);
        let mut taken = self.lock();
        let own = taken.entry(client).or_default();
        if *own >= most {
            return None;
        }
        *own += 1;
        Some(Share { of: Arc::clone(self), client })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        match taken.get_mut(&self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.client)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_has_more_than_its_part_and_what_is_over_is_given_back() {
        let shares = Shares::of(12);
        let own: Vec<Share> = (0..12).map_while(|_| shares.enter(0, 2)).collect();
        assert_eq!((own.len(), shares.enter(0, 2).is_none()), (6, true));
        assert!(shares.enter(1, 2).is_some());
        assert!(shares.enter(0, 1).is_some(), "the other one's token is gone");
        drop(own);
        assert!(shares.lock().is_empty() && shares.enter(0, 2).is_some());
        let shares = Shares::of(256);
        assert_eq!([0, 1, 2, 99].map(|clients| shares.most(clients)), [256, 256, 128, 64]);
        assert_eq!(Shares::of(2).most(3), 1);
    }
}
