//! Memory of requests that somebody is asked about.
//!
//! Owns: how much of it there is at once, in all and for one caller. A request lies in
//! memory as long as its question waits. Must not: know what a request is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::broker::Peer;

/// So many bytes for all requests that wait.
const ALL: usize = 128 << 20;
/// So many for those of one caller.
const OF_ONE: usize = ALL / 2;

/// What there is.
#[derive(Debug, Clone, Default)]
pub(super) struct Room(Arc<Mutex<HashMap<Peer, usize>>>);

/// A part of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Room,
    peer: Peer,
    bytes: usize,
}

impl Room {
    /// Takes so many bytes for this caller; `None` where there are not so many.
    pub(super) fn take(&self, peer: Peer, bytes: usize) -> Option<Taken> {
        let mut taken = self.lock();
        let all = taken.values().fold(bytes, |sum, more| sum.saturating_add(*more));
        let own = taken.get(&peer).copied().unwrap_or_default().saturating_add(bytes);
        if all > ALL || own > OF_ONE {
            return None;
        }
        taken.insert(peer, own);
        drop(taken);
        Some(Taken { room: self.clone(), peer, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Peer, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        let left = taken.get(&self.peer).copied().unwrap_or_default().saturating_sub(self.bytes);
        match left {
            0 => taken.remove(&self.peer),
            left => taken.insert(self.peer, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_have_so_much_memory_and_no_more() {
        let room = Room::default();
        let peer = |uid| Peer { socket: 0, uid, gid: 0 };
        let half = OF_ONE / 2;
        let first = room.take(peer(1), half).expect("there is room");
        let _second = room.take(peer(1), half).expect("there is room");
        assert!(room.take(peer(1), 1).is_none(), "of one caller it is enough");
        let _others = room.take(peer(2), OF_ONE).expect("for another there is more");
        assert!(room.take(peer(3), 1).is_none(), "in all it is enough");
        drop(first);
        assert!(room.take(peer(3), half).is_some());
        assert!(room.take(peer(1), half + 1).is_none());
        assert_eq!(room.lock().len(), 2, "who has nothing is forgotten");
    }
}
