//! The links and tokens that hosts gave a call, by numbers that the call may see.
//!
//! A number is no secret: only the call itself speaks to its gate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{HeaderName, HeaderValue};
use url::Url;

/// The part of a path that stands before a number.
pub(super) const PLACE: &str = "gate";

/// So many links are kept for a call; the oldest go first.
const MOST: u64 = 20_000;

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Download,
    Upload,
    Verify,
}

impl Action {
    pub(super) const ALL: [Action; 3] = [Action::Download, Action::Upload, Action::Verify];

    /// As it is called in a reply.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Action::Download => "download",
            Action::Upload => "upload",
            Action::Verify => "verify",
        }
    }
}

/// A link, and what has to be sent with it.
pub(super) struct Link {
    pub(super) action: Action,
    /// Which gate's, and which repository's.
    pub(super) of: (usize, String),
    pub(super) oid: String,
    pub(super) size: u64,
    pub(super) url: Url,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// All of a call.
#[derive(Default)]
pub(in super::super) struct Handles {
    inner: Mutex<(u64, HashMap<u64, Arc<Link>>)>,
}

impl std::fmt::Debug for Handles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Handles")
    }
}

impl Handles {
    /// Keeps a link; its number.
    pub(super) fn keep(&self, link: Link) -> u64 {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, links) = &mut *inner;
        *next += 1;
        links.insert(*next, Arc::new(link));
        if let Some(old) = next.checked_sub(MOST) {
            links.remove(&old);
        }
        *next
    }

    /// The link of a number.
    pub(super) fn get(&self, number: &str) -> Option<Arc<Link>> {
        let number: u64 = number.parse().ok()?;
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).1.get(&number).cloned()
    }
}
