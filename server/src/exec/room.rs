//! Room for what the calls' processes connect at their gates: each connection costs the
//! server descriptors, here and on to the host.
//!
//! Owns: how many there may be, of all calls and of one. A call that has a gate has room for
//! one connection from its start on, or does not start; more wait until there is some, so
//! that none can use up what another one needs. Must not: know what is connected.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of so many places one is for what calls have beyond their first connections.
const MORE: usize = 3;
/// As much of that one call may have.
const ONE: usize = 4;

/// Of all calls.
#[derive(Debug)]
pub(crate) struct Rooms {
    first: Arc<Semaphore>,
    more: Arc<Semaphore>,
    each: usize,
}

impl Rooms {
    /// For so many connections at once.
    pub(crate) fn new(places: usize) -> Rooms {
        let places = places.clamp(1, Semaphore::MAX_PERMITS);
        let more = places / MORE;
        Rooms {
            first: Arc::new(Semaphore::new(places - more)),
            more: Arc::new(Semaphore::new(more)),
            each: (more / ONE).max(1),
        }
    }

    /// Room for one call; `None` where too many have some.
    pub(crate) fn reserve(&self) -> Option<Room> {
        Some(Room {
            _first: Arc::clone(&self.first).try_acquire_owned().ok()?,
            own: Arc::new(Semaphore::new(1)),
            each: Arc::new(Semaphore::new(self.each)),
            more: Arc::clone(&self.more),
        })
    }
}

/// Of one call.
#[derive(Debug)]
pub(crate) struct Room {
    _first: OwnedSemaphorePermit,
    own: Arc<Semaphore>,
    each: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

/// Of one connection, as long as it is there.
#[derive(Debug)]
pub(crate) struct Place {
    _one: OwnedSemaphorePermit,
    _more: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Waits for a place.
    pub(super) async fn take(&self) -> Option<Place> {
        let more = async {
            let one = Arc::clone(&self.each).acquire_owned().await.ok()?;
            let more = Arc::clone(&self.more).acquire_owned().await.ok()?;
            Some(Place { _one: one, _more: Some(more) })
        };
        tokio::select! {
            biased;
            own = Arc::clone(&self.own).acquire_owned() => {
                Some(Place { _one: own.ok()?, _more: None })
            }
            more = more => more,
        }
    }

    /// The same without waiting.
    pub(super) fn try_take(&self) -> Option<Place> {
        if let Ok(own) = Arc::clone(&self.own).try_acquire_owned() {
            return Some(Place { _one: own, _more: None });
        }
        let one = Arc::clone(&self.each).try_acquire_owned().ok()?;
        let more = Arc::clone(&self.more).try_acquire_owned().ok()?;
        Some(Place { _one: one, _more: Some(more) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_one_connection_and_none_can_take_it_away() {
        let rooms = Rooms::new(12);
        let calls: Vec<Room> = std::iter::from_fn(|| rooms.reserve()).collect();
        assert_eq!(calls.len(), 8);
        // One takes what it can: its own, and a part of what is for all.
        let greedy: Vec<Place> = std::iter::from_fn(|| calls[0].try_take()).collect();
        assert_eq!(greedy.len(), 2);
        let others: Vec<Place> = calls[1..].iter().filter_map(Room::try_take).collect();
        assert_eq!(others.len(), 7);
        // What is for all is used up at some point, and comes back.
        let more: Vec<Place> = calls[1..].iter().filter_map(Room::try_take).collect();
        assert_eq!(more.len(), 3);
        drop(more);
        assert!(calls[1].try_take().is_some());
        drop(calls);
        assert!(rooms.reserve().is_some());
    }

    #[test]
    fn with_next_to_nothing_there_is_one_call_with_one_connection() {
        let rooms = Rooms::new(0);
        let call = rooms.reserve().unwrap();
        assert!(rooms.reserve().is_none());
        let place = call.try_take().unwrap();
        assert!(call.try_take().is_none());
        drop(place);
        assert!(call.try_take().is_some());
    }
}
