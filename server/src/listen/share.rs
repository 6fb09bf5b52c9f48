//! What callers have together, and each of them at most.
//!
//! Owns: that one caller does not take all there is, so that others get none. Must not: wait,
//! who has its share is told so; or know of what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts that it is at most divided into: whoever has a token may use a fourth.
const PARTS: usize = 4;

/// Who has how much.
#[derive(Debug)]
pub(super) struct Shares {
    all: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<usize, usize>,
}

/// Some of a client's, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Shares>,
    client: usize,
    much: usize,
}

impl Shares {
    /// Of so much in all.
    pub(super) fn of(all: usize) -> Arc<Shares> {
        Arc::new(Shares { all, taken: Mutex::default() })
    }

    /// What each has, of so many clients as there are now.
    pub(super) fn most(&self, clients: usize) -> usize {
        (self.all / clients.clamp(1, PARTS)).max(1)
    }

    /// So much more for a client, if it has not all of its own. Who has nothing gets whatever
    /// there is.
    pub(super) fn enter(
        self: &Arc<Shares>,
        client: usize,
        clients: usize,
        much: usize,
    ) -> Option<Share> {
        let most = self.most(clients);
        let mut taken = self.lock();
        let own = taken.by.get(&client).copied().unwrap_or_default();
        let whole = taken.all.checked_add(much).filter(|whole| *whole <= self.all)?;
        if own > 0 && own + much > most {
            return None;
        }
        taken.by.insert(client, own + much);
        taken.all = whole;
        Some(Share { of: Arc::clone(self), client, much })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// How much it is.
    pub(super) fn much(&self) -> usize {
        self.much
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.all = taken.all.saturating_sub(self.much);
        match taken.by.get_mut(&self.client) {
            Some(own) if *own > self.much => *own -= self.much,
            _ => drop(taken.by.remove(&self.client)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_has_more_than_its_part_and_what_is_over_is_given_back() {
        let shares = Shares::of(12);
        let own: Vec<Share> = (0..12).map_while(|_| shares.enter(0, 2, 1)).collect();
        assert_eq!((own.len(), shares.enter(0, 2, 1).is_none()), (6, true));
        assert!(shares.enter(1, 2, 1).is_some());
        assert!(shares.enter(0, 1, 1).is_some(), "the other one's token is gone");
        drop(own);
        assert!(shares.lock().by.is_empty() && shares.enter(0, 2, 1).is_some());
        let shares = Shares::of(256);
        assert_eq!([0, 1, 2, 99].map(|clients| shares.most(clients)), [256, 256, 128, 64]);
        assert_eq!(Shares::of(2).most(3), 1);
    }

    #[test]
    fn who_has_nothing_gets_more_than_its_part_and_nobody_gets_what_is_not_there() {
        let shares = Shares::of(100);
        let large = shares.enter(0, 4, 60).expect("it has nothing");
        assert!(shares.enter(0, 4, 1).is_none(), "it has its part");
        assert!(shares.enter(1, 4, 41).is_none(), "so much is not there");
        let rest = shares.enter(1, 4, 40).expect("all that is there");
        assert!(shares.enter(2, 4, 1).is_none());
        drop(large);
        assert!(shares.enter(2, 4, 60).is_some());
        drop(rest);
        assert!(shares.enter(0, 4, usize::MAX).is_none());
        assert_eq!(shares.lock().all, 0);
    }
}
