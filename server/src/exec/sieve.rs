//! What a stream of output passes through: nothing, or what takes values out of it.
//!
//! Must not: know which values, or read anything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tool_gate::redact::{Live, Scrubber};

/// After this, a few bytes that may begin a value are shown all the same: somebody may
/// be typing.
const QUIET: Duration = Duration::from_millis(20);

/// For one stream.
#[derive(Debug)]
pub(super) struct Sieve {
    scrubber: Option<Scrubber>,
    /// Nothing came since it was asked to show what it held.
    rested: bool,
}

impl Sieve {
    /// Takes these out, where there are any.
    pub(super) fn new(values: Option<&Arc<Live>>) -> Sieve {
        Sieve { scrubber: values.cloned().map(Scrubber::new), rested: false }
    }

    /// The next piece; what comes out may be empty.
    pub(super) fn push(&mut self, piece: Bytes) -> Bytes {
        self.rested = false;
        match &mut self.scrubber {
            Some(scrubber) => scrubber.push(piece),
            None => piece,
        }
    }

    /// Whether it holds something that may be shown if nothing comes.
    pub(super) fn waits(&self) -> bool {
        !self.rested && self.scrubber.as_ref().is_some_and(Scrubber::holds)
    }

    /// Until nothing has come for a moment.
    pub(super) async fn quiet() {
        tokio::time::sleep(QUIET).await;
    }

    /// What of it may be shown by then.
    pub(super) fn rest(&mut self) -> Bytes {
        self.rested = true;
        self.scrubber.as_mut().map(Scrubber::quiet).unwrap_or_default()
    }

    /// The stream is over.
    pub(super) fn finish(&mut self) -> Bytes {
        self.scrubber.as_mut().map(Scrubber::finish).unwrap_or_default()
    }
}
