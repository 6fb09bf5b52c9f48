//! Time that a running call waits for somebody, and that is not its own.
//!
//! Owns: how long that was, and how long it may be in all: a call that always waits for
//! somebody would never end. Must not: end anything.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Waits of a call, of which several may overlap.
#[derive(Debug)]
pub(crate) struct Pause {
    state: Mutex<State>,
    /// What is waited beyond that is the call's own time.
    most: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// How many wait, and since when the first of them does.
    waiting: usize,
    since: Option<Instant>,
    /// Before that.
    total: Duration,
}

/// One wait; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wait<'a>(&'a Pause);

impl Pause {
    /// None yet; so long in all.
    pub(crate) fn new(most: Duration) -> Pause {
        Pause { state: Mutex::default(), most }
    }

    /// A wait begins.
    pub(crate) fn begin(&self) -> Wait<'_> {
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_add(1);
        state.since.get_or_insert_with(Instant::now);
        Wait(self)
    }

    /// How long it has been waited so far, as far as that counts, and whether it is.
    pub(super) fn so_far(&self) -> (Duration, bool) {
        let state = self.lock();
        let now = state.since.map(|since| since.elapsed()).unwrap_or_default();
        let total = state.total.saturating_add(now);
        (total.min(self.most), state.since.is_some() && total < self.most)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting = state.waiting.saturating_sub(1);
        if state.waiting == 0
            && let Some(since) = state.since.take()
        {
            state.total = state.total.saturating_add(since.elapsed());
        }
    }
}

/// Ready when a call has had so much time of its own; never where there is no limit.
pub(super) async fn over(timeout: Option<Duration>, pause: Option<&Pause>) {
    /// While somebody is waited for it is looked again after so long.
    const AGAIN: Duration = Duration::from_millis(200);
    let Some(timeout) = timeout else { return std::future::pending().await };
    let start = Instant::now();
    let mut slept = timeout;
    loop {
        tokio::time::sleep(slept).await;
        let (paused, waits) = pause.map(Pause::so_far).unwrap_or_default();
        let own = start.elapsed().saturating_sub(paused);
        match timeout.checked_sub(own).filter(|left| !left.is_zero()) {
            Some(left) => slept = if waits { left.max(AGAIN) } else { left },
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_for_somebody_is_not_the_calls_own_time() {
        let (pause, start) = (Pause::new(Duration::from_secs(60)), Instant::now());
        let moment = || tokio::time::sleep(Duration::from_millis(150));
        let waits = async {
            let first = pause.begin();
            moment().await;
            let second = pause.begin();
            drop(first);
            moment().await;
            drop(second);
        };
        tokio::join!(over(Some(Duration::from_millis(100)), Some(&pause)), waits);
        let taken = start.elapsed();
        assert!(taken >= Duration::from_millis(395), "{taken:?}");
    }
    #[tokio::test]
    async fn who_always_waits_for_somebody_is_ended_all_the_same() {
        let (most, own) = (Duration::from_millis(300), Duration::from_millis(100));
        let (pause, start) = (Pause::new(most), Instant::now());
        let always = async {
            let mut last = pause.begin();
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let next = pause.begin();
                drop(std::mem::replace(&mut last, next));
            }
        };
        let ended = tokio::select! {
            () = over(Some(own), Some(&pause)) => true,
            () = always => false,
            () = tokio::time::sleep(Duration::from_secs(60)) => false,
        };
        let taken = start.elapsed();
        assert!(ended && taken >= most + own, "{taken:?}");
    }
}
