//! Lookups of names under way: how many, and whose.
//!
//! Owns: places for lookups, of a call and in all. The system's resolver cannot be
//! stopped: whoever asked may be long gone while a thread still waits for a name. So a
//! place is held by the lookup itself until the resolver has answered, not by who waits
//! for it: a call with names that nobody answers for cannot take the threads of the
//! others, however often it asks. Must not: keep answers; an answer is for those who
//! waited for it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::resolve::Resolve;

/// Lookups under way of all calls; a server needs more threads for blocking work.
pub const LOOKUPS: usize = 32;
/// Lookups under way of one call.
pub const LOOKUPS_OF_CALL: usize = 2;

/// Addresses, or what the resolver says.
type Found = Result<Vec<IpAddr>, String>;

/// The lookups of one call.
pub(super) struct Lookups {
    resolver: Arc<dyn Resolve>,
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
    by_name: Arc<Mutex<ByName>>,
}

/// Who else asks for a name that is looked up waits for the same answer.
type ByName = HashMap<String, watch::Receiver<Option<Found>>>;

impl Lookups {
    /// Those of a first call.
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Lookups {
        Lookups::among(resolver, Arc::new(Semaphore::new(LOOKUPS)))
    }

    /// Those of another call.
    pub(super) fn of_call(&self) -> Lookups {
        Lookups::among(Arc::clone(&self.resolver), Arc::clone(&self.all))
    }

    fn among(resolver: Arc<dyn Resolve>, all: Arc<Semaphore>) -> Lookups {
        let own = Arc::new(Semaphore::new(LOOKUPS_OF_CALL));
        Lookups { resolver, all, own, by_name: Arc::default() }
    }

    /// The addresses of a name. It waits for a place without an end: callers bound it.
    pub(super) async fn addresses(&self, host: &str) -> Found {
        let under_way = lock(&self.by_name).get(host).cloned();
        let answer = match under_way {
            Some(answer) => answer,
            None => {
                // The call's own first: its many wait there, and one or two among all.
                let own = Arc::clone(&self.own).acquire_owned().await.map_err(closed)?;
                let all = Arc::clone(&self.all).acquire_owned().await.map_err(closed)?;
                self.begin(host, [own, all])
            }
        };
        self::answer(answer).await
    }

    // Others may have waited for a place with the same name, and begun before.
    fn begin(
        &self,
        host: &str,
        places: [OwnedSemaphorePermit; 2],
    ) -> watch::Receiver<Option<Found>> {
        let mut by_name = lock(&self.by_name);
        if let Some(answer) = by_name.get(host) {
            return answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        by_name.insert(host.to_owned(), answer.clone());
        let under_way =
            UnderWay { host: host.to_owned(), by_name: Arc::clone(&self.by_name), _places: places };
        let resolver = Arc::clone(&self.resolver);
        // Of its own: it is not dropped with who asked.
        drop(tokio::spawn(async move {
            let found = resolver.resolve(&under_way.host).await;
            // Its place is free, and its name is asked for anew, before anybody hears.
            drop(under_way);
            tell.send_replace(Some(found.map_err(|error| error.to_string())));
        }));
        answer
    }
}

/// A lookup that the resolver has not answered yet.
struct UnderWay {
    host: String,
    by_name: Arc<Mutex<ByName>>,
    _places: [OwnedSemaphorePermit; 2],
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.by_name).remove(&self.host);
    }
}

async fn answer(mut answer: watch::Receiver<Option<Found>>) -> Found {
    let found = answer.wait_for(Option::is_some).await.map_err(closed)?;
    found.clone().unwrap_or_else(|| Err(ENDED.to_owned()))
}

const ENDED: &str = "the lookup has ended without an answer";

// Nothing closes these but the server's end.
fn closed<E>(_closed: E) -> String {
    ENDED.to_owned()
}

fn lock(by_name: &Mutex<ByName>) -> MutexGuard<'_, ByName> {
    by_name.lock().unwrap_or_else(PoisonError::into_inner)
}
