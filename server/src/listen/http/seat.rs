//! The places that connections have.
//!
//! Owns: how many there are, and who gives one up for who waits: a connection that has asked
//! nothing for a second. Must not: end a connection whose request is under way, or whose
//! answer is not written; nor know what is asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long a connection asks nothing before it makes room for another.
const IDLE: Duration = Duration::from_secs(1);

/// All of them.
pub(super) struct Seats {
    places: Arc<Semaphore>,
    taken: Vec<(Weak<Asks>, CancellationToken)>,
    /// Told when a connection asks nothing any more.
    freed: Arc<Notify>,
}

/// One, until its connection is over.
pub(super) struct Seat {
    pub(super) asks: Arc<Asks>,
    /// Told to go once nothing is asked.
    pub(super) leave: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// What a connection asks.
pub(super) struct Asks {
    now: Mutex<Now>,
    freed: Arc<Notify>,
}

struct Now {
    asked: usize,
    /// When that was others last.
    since: Instant,
}

/// A request, until all of its answer is written.
pub(super) struct Ask(Arc<Asks>);

impl Seats {
    pub(super) fn new(most: usize) -> Seats {
        Seats { places: Arc::new(Semaphore::new(most)), taken: Vec::new(), freed: Arc::default() }
    }

    /// One more, once there is one. May be dropped meanwhile.
    pub(super) async fn take(&mut self) -> Option<Seat> {
        let place = self.place().await?;
        let now = Mutex::new(Now { asked: 0, since: Instant::now() });
        let asks = Arc::new(Asks { now, freed: Arc::clone(&self.freed) });
        let leave = CancellationToken::new();
        self.taken.push((Arc::downgrade(&asks), leave.clone()));
        Some(Seat { asks, leave, _place: place })
    }

    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.places).acquire_owned();
            self.taken.retain(|(asks, leave)| asks.strong_count() > 0 && !leave.is_cancelled());
            let since = |asks: &Weak<Asks>| asks.upgrade()?.idle_since();
            let idle = self.taken.iter().filter_map(|(asks, leave)| Some((since(asks)?, leave)));
            let idlest = idle.min_by_key(|(since, _)| *since);
            let for_long = async {
                match idlest {
                    Some((since, leave)) => {
                        sleep_until(since + IDLE).await;
                        leave
                    }
                    None => std::future::pending().await,
                }
            };
            let leave = tokio::select! {
                biased;
                place = place => return place.ok(),
                () = self.freed.notified() => continue,
                leave = for_long => leave,
            };
            leave.cancel();
            // Another one is to go only where this one does not.
            let place = Arc::clone(&self.places).acquire_owned();
            if let Ok(place) = timeout(IDLE * 2, place).await {
                return place.ok();
            }
        }
    }
}

impl Asks {
    /// One more request.
    pub(super) fn begin(self: &Arc<Asks>) -> Ask {
        self.note(|asked| asked + 1);
        Ask(Arc::clone(self))
    }

    /// Once nothing has been asked for so long that nothing will be.
    pub(super) async fn idle(&self) {
        loop {
            let until = self.idle_since().unwrap_or_else(Instant::now) + IDLE;
            sleep_until(until).await;
            if self.idle_since().is_some_and(|since| since + IDLE <= until) {
                return;
            }
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        let now = self.now();
        (now.asked == 0).then_some(now.since)
    }

    fn note(&self, asked: impl FnOnce(usize) -> usize) {
        let mut now = self.now();
        *now = Now { asked: asked(now.asked), since: Instant::now() };
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.0.note(|asked| asked.saturating_sub(1));
        self.0.freed.notify_one();
    }
}

/// Bytes that hyper may have when their body is gone already.
struct Unwritten<T> {
    bytes: Bytes,
    _held: Arc<T>,
}

impl<T> AsRef<[u8]> for Unwritten<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body with what is held until the last of it is written: its request is under way so long.
pub(super) fn until_written<T: Send + Sync + 'static>(body: Body, held: T) -> Body {
    let held = Arc::new(held);
    Body::new(body.map_frame(move |frame| {
        let held = &held;
        frame.map_data(|bytes| Bytes::from_owner(Unwritten { bytes, _held: Arc::clone(held) }))
    }))
}
