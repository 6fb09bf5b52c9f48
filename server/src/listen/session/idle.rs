//! A connection that is idle makes room for another, where one waits.
//!
//! Owns: since when it is. Must not: end it.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a connection is idle before it makes room for another.
const IDLE: Duration = Duration::from_secs(1);
/// Since when a connection is idle. Its timer is set anew when it is over and not for each
/// call: that would wake the runtime each time, and a short call does not take as long.
#[derive(Debug, Default)]
pub(super) struct Idle {
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Idle {
    /// Something has happened; whether it is idle now.
    pub(super) fn note(&mut self, idle: bool) {
        self.since = idle.then(Instant::now);
    }

    /// Ready when somebody waits for room, and this connection has been idle for so long
    /// that its peer is not about to go on.
    pub(super) async fn crowded(&mut self, crowded: &Notify) {
        let until = self.since.unwrap_or_else(Instant::now) + IDLE;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        timer.as_mut().await;
        if timer.deadline() < until {
            timer.as_mut().reset(until);
            timer.as_mut().await;
        }
        crowded.notified().await;
    }
}
