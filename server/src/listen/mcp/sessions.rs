//! Sessions by HTTP: whose they are, how many, how long.
//!
//! Owns: that a session is its client's alone, that there are not too many, and that none
//! stays for nobody: where nobody listens any more its calls are ended, later the session.
//! Must not: carry a message; the SDK does.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Of one client.
const OF_ONE: usize = 32;
/// Of all.
const OF_ALL: usize = 128;
/// How long calls go on while their client listens to nothing.
const ABSENT: Duration = Duration::from_secs(60);
/// How long a session stays that nobody uses.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// All of them.
#[derive(Debug)]
pub(super) struct Sessions {
    there: Mutex<There>,
    /// The SDK's.
    manager: Arc<LocalSessionManager>,
}

#[derive(Debug, Default)]
struct There {
    known: HashMap<String, Arc<Entry>>,
    /// Whose are being made: they count too, or many at once would be no number.
    coming: Vec<usize>,
    /// The SDK's, at the last look, that are nobody's: who began one may be gone before it
    /// was answered.
    strangers: HashSet<String>,
}

/// The place of one that is being made, given back where it is not.
#[derive(Debug)]
pub(super) struct Place<'a> {
    of: &'a Sessions,
    owner: usize,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Entry {
    owner: usize,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    calls: CancellationToken,
    listening: usize,
    last: Instant,
}

/// Somebody listens, as long as there is this.
#[derive(Debug)]
pub(super) struct Listening(Arc<Entry>);

impl Entry {
    /// Of that client.
    pub(super) fn new(owner: usize) -> Arc<Entry> {
        let calls = CancellationToken::new();
        let now = Now { calls, listening: 0, last: Instant::now() };
        Arc::new(Entry { owner, now: Mutex::new(now) })
    }

    /// Cancelled when its calls are to end.
    pub(super) fn calls(&self) -> CancellationToken {
        self.now().calls.clone()
    }

    /// Somebody listens from now on.
    pub(super) fn listen(self: &Arc<Entry>) -> Listening {
        self.now().listening += 1;
        Listening(Arc::clone(self))
    }

    /// How long nobody has listened.
    fn idle(&self) -> Option<Duration> {
        let now = self.now();
        (now.listening == 0).then(|| now.last.elapsed())
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut now = self.0.now();
        now.listening = now.listening.saturating_sub(1);
        now.last = Instant::now();
    }
}

impl Sessions {
    /// None yet.
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Sessions {
        Sessions { there: Mutex::default(), manager }
    }

    /// The session of that name, if it is this client's.
    pub(super) fn find(&self, id: &str, owner: usize) -> Option<Arc<Entry>> {
        self.there().known.get(id).filter(|entry| entry.owner == owner).cloned()
    }

    /// A place for one more of that client's, if there is room; where there is none its own
    /// that has been idle for longest makes room.
    pub(super) async fn admit(&self, owner: usize) -> Option<Place<'_>> {
        let idlest = {
            let mut there = self.there();
            let own = || there.known.iter().filter(|(_, entry)| entry.owner == owner);
            let coming = there.coming.iter().filter(|other| **other == owner).count();
            let all = there.known.len() + there.coming.len();
            let mut idlest = None;
            if all >= OF_ALL || own().count() + coming >= OF_ONE {
                let idle = own().filter_map(|(id, entry)| Some((entry.idle()?, id.clone())));
                let (_, id) = idle.max()?;
                let entry = there.known.remove(&id);
                idlest = Some((id, entry));
            }
            there.coming.push(owner);
            idlest
        };
        let place = Place { of: self, owner };
        if let Some((id, entry)) = idlest {
            self.close(&id, entry).await;
        }
        Some(place)
    }

    /// Ends one, and its calls.
    pub(super) async fn end(&self, id: &str) {
        let entry = self.there().known.remove(id);
        self.close(id, entry).await;
    }

    async fn close(&self, id: &str, entry: Option<Arc<Entry>>) {
        if let Some(entry) = entry {
            entry.calls().cancel();
        }
        // One that has ended by itself is as good.
        self.manager.close_session(&id.into()).await.ok();
    }

    /// Ends all of a client's.
    pub(super) async fn end_all_of(&self, owner: usize) {
        let own: Vec<String> = {
            let there = self.there();
            let own = there.known.iter().filter(|(_, entry)| entry.owner == owner);
            own.map(|(id, _)| id.clone()).collect()
        };
        for id in own {
            self.end(&id).await;
        }
    }

    /// Ends what nobody listens to any more.
    pub(super) async fn sweep(&self) {
        let alive: Vec<String> = {
            let sessions = self.manager.sessions.read().await;
            sessions.keys().map(ToString::to_string).collect()
        };
        for id in self.over(&alive) {
            self.end(&id).await;
        }
    }

    /// Those to be ended, of the SDK's that are alive; the calls of others whose client is
    /// absent are ended here.
    fn over(&self, alive: &[String]) -> Vec<String> {
        let mut there = self.there();
        let strangers = alive.iter().filter(|id| !there.known.contains_key(*id)).cloned();
        let strangers: HashSet<String> = strangers.collect();
        // Twice: one of them may just be answered.
        let mut over: Vec<String> = strangers.intersection(&there.strangers).cloned().collect();
        there.strangers = strangers;
        for (id, entry) in &there.known {
            let idle = entry.idle().unwrap_or_default();
            if idle > IDLE || !alive.contains(id) {
                over.push(id.clone());
            } else if idle > ABSENT {
                let mut now = entry.now();
                std::mem::take(&mut now.calls).cancel();
            }
        }
        over
    }

    fn there(&self) -> MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// It is the place of what the SDK has made.
    pub(super) fn take(self, id: String, entry: Arc<Entry>) {
        self.of.there().known.insert(id, entry);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut there = self.of.there();
        if let Some(own) = there.coming.iter().position(|owner| *owner == self.owner) {
            there.coming.swap_remove(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn one(sessions: &Sessions, owner: usize) -> (String, Arc<Entry>) {
        let place = sessions.admit(owner).await.expect("a place");
        let (id, _transport) = sessions.manager.create_session().await.unwrap();
        let entry = Entry::new(owner);
        place.take(id.to_string(), Arc::clone(&entry));
        (id.to_string(), entry)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn long_ago(entry: &Entry, ago: Duration) {
        entry.now().last = Instant::now().checked_sub(ago).unwrap();
    }

    #[test]
    fn a_session_is_its_clients_alone_and_ends_with_its_calls() {
        runtime().block_on(async {
            let sessions = Sessions::new(Arc::default());
            let (id, entry) = one(&sessions, 3).await;
            assert!(sessions.find(&id, 3).is_some());
            assert!(sessions.find(&id, 4).is_none());
            let calls = entry.calls();
            sessions.end(&id).await;
            assert!(calls.is_cancelled() && sessions.find(&id, 3).is_none());
        });
    }

    #[test]
    fn nothing_goes_on_for_a_client_that_listens_no_more() {
        runtime().block_on(async {
            let sessions = Sessions::new(Arc::default());
            let (id, entry) = one(&sessions, 0).await;
            let listening = entry.listen();
            long_ago(&entry, IDLE * 2);
            sessions.sweep().await;
            assert!(!entry.calls().is_cancelled(), "somebody listens");
            let calls = entry.calls();
            drop(listening);
            long_ago(&entry, ABSENT * 2);
            sessions.sweep().await;
            assert!(calls.is_cancelled());
            assert!(sessions.find(&id, 0).is_some(), "it may come back");
            assert!(!entry.calls().is_cancelled(), "and call");
            long_ago(&entry, IDLE * 2);
            sessions.sweep().await;
            assert!(sessions.find(&id, 0).is_none());
        });
    }

    #[test]
    fn one_whose_client_left_before_it_was_answered_does_not_stay() {
        runtime().block_on(async {
            let sessions = Sessions::new(Arc::default());
            let (known, _entry) = one(&sessions, 0).await;
            let place = sessions.admit(0).await.expect("a place");
            let (_id, _transport) = sessions.manager.create_session().await.unwrap();
            drop(place);
            sessions.sweep().await;
            assert_eq!(sessions.manager.sessions.read().await.len(), 2, "it may be answered yet");
            sessions.sweep().await;
            let left: Vec<String> =
                sessions.manager.sessions.read().await.keys().map(ToString::to_string).collect();
            assert_eq!(left, [known]);
        });
    }

    #[test]
    fn of_too_many_the_idlest_makes_room_and_where_all_are_used_none_does() {
        runtime().block_on(async {
            let sessions = Sessions::new(Arc::default());
            let mut used = Vec::new();
            let (first, entry) = one(&sessions, 0).await;
            for _ in 1..OF_ONE {
                used.push(one(&sessions, 0).await.1.listen());
            }
            long_ago(&entry, Duration::from_secs(1));
            used.push(one(&sessions, 0).await.1.listen());
            assert!(sessions.find(&first, 0).is_none());
            assert!(sessions.admit(0).await.is_none(), "all are used");
            assert!(sessions.admit(1).await.is_some(), "another client is not in its way");
        });
    }

    #[test]
    fn those_that_are_being_made_count_and_give_their_places_back() {
        runtime().block_on(async {
            let sessions = Sessions::new(Arc::default());
            let mut places = Vec::new();
            for _ in 0..OF_ONE {
                places.push(sessions.admit(0).await.expect("a place"));
            }
            assert!(sessions.admit(0).await.is_none(), "none is idle yet");
            assert!(sessions.admit(1).await.is_some());
            drop(places);
            assert!(sessions.admit(0).await.is_some());
            assert!(sessions.there().coming.is_empty());
        });
    }
}
