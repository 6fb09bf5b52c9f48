//! What a session knows of what it has lent.
//!
//! Owns: when it lends, what comes back, and when it takes over. Must not: read meanwhile.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::Session;
use super::call::{Asked, Caller};
use super::lease::THREADS;
use super::slot::{Back, Lease};

/// How often the session looks at what it has lent.
const LOOK: Duration = Duration::from_millis(5);

/// That it has lent something.
pub(super) struct Lent {
    look: Pin<Box<Sleep>>,
    /// How many calls had been begun at the last look.
    seen: u64,
}

impl Lent {
    /// Until it is time to look.
    pub(super) async fn look(&mut self) {
        self.look.as_mut().await;
    }
}

impl Session {
    /// Whether what is read next may be read by a thread that does this or another call.
    pub(super) fn may_lend(&self, asked: &Asked) -> bool {
        self.lent.is_none()
            && !asked.pieces
            && self.reading()
            && self.partial.is_none()
            && !self.exclusive
            && self.input.is_none()
            && self.writer.pending() == 0
            && self.under_way() + *THREADS <= self.context.limits.calls_per_connection
            && !self.context.broker.draining.is_cancelled()
            && self.context.agent.is_for_files(&asked.tool)
    }

    /// Lends what is read next to the thread that answers this connection first.
    pub(super) fn lend(&mut self, caller: Caller) {
        let several = !self.reader.is_between() || self.under_way() > 1;
        let reader = self.reader.lend(&mut self.writer);
        let (caller, runtime) = (Arc::new(caller), Handle::current());
        let seen = self.slot.offer(Box::new(Lease { reader, caller, runtime, several }));
        self.lent = Some(Lent { look: Box::pin(sleep(LOOK)), seen });
    }

    /// Something has come back.
    pub(super) async fn returned(&mut self, back: Back) -> io::Result<()> {
        let Back { reader, read, begun, ended } = back;
        begun.into_iter().for_each(|begun| self.go_on(begun));
        let watched = match reader {
            Some(reader) => {
                self.lent = None;
                self.reader.give_back(reader, &mut self.writer)
            }
            None => Ok(()),
        };
        if let Some(ended) = ended {
            self.ended(ended)?;
        }
        watched?;
        match read? {
            Some(read) => self.hear(read).await,
            None => Ok(()),
        }
    }

    /// One of its calls has ended: where that was for nobody to go on from, it reads itself.
    pub(super) fn reclaim(&mut self) -> io::Result<()> {
        match self.lent.as_ref().and_then(|_| self.slot.unclaimed()) {
            Some(reader) => {
                self.lent = None;
                self.reader.give_back(reader, &mut self.writer)
            }
            None => Ok(()),
        }
    }

    /// Takes over what nobody has taken, and what has begun no other call since the last look.
    pub(super) fn look(&mut self) -> io::Result<()> {
        let Some(lent) = &mut self.lent else { return Ok(()) };
        match self.slot.regain(Some(lent.seen)) {
            Err(count) => {
                lent.seen = count;
                lent.look.as_mut().reset(Instant::now() + LOOK);
                Ok(())
            }
            Ok((reader, begun)) => {
                self.lent = None;
                begun.into_iter().for_each(|begun| self.go_on(begun));
                self.reader.give_back(reader, &mut self.writer)
            }
        }
    }

    /// Has it back, before the connection is closed.
    pub(super) async fn regain(&mut self) {
        while self.lent.is_some() {
            let (reader, begun) = match self.slot.regain(None) {
                Ok((reader, begun)) => (Some(reader), begun),
                // A thread that only waits does so for a moment; it may be about to begin a call.
                Err(_) => match timeout(LOOK, self.slot.next()).await {
                    Ok(back) => (back.reader, back.begun),
                    Err(_) => continue,
                },
            };
            begun.into_iter().for_each(|begun| self.go_on(begun));
            if let Some(reader) = reader {
                // It reads nothing any more.
                (self.reader, self.lent) = (reader, None);
            }
        }
        while let Some(back) = self.slot.come() {
            back.begun.into_iter().for_each(|begun| self.go_on(begun));
        }
    }
}
