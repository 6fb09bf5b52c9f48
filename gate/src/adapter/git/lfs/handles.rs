//! The links and tokens that hosts gave a call, by numbers that the call may see.
//!
//! A number is no secret: only the call itself speaks to its gate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{HeaderName, HeaderValue};
use url::Url;

/// The part of a path that stands before a number.
pub(super) const PLACE: &str = "gate";

/// So many links, and bytes in them, are kept for a call; the oldest go first.
const MOST: usize = 20_000;
const BYTES: usize = 16 << 20;

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

impl Link {
    /// About as many bytes are held by it.
    fn weight(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        self.url.as_str().len() + headers + self.of.1.len() + self.oid.len()
    }
}

/// All of a call.
#[derive(Default)]
pub(in super::super) struct Handles {
    inner: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    last: u64,
    links: BTreeMap<u64, Arc<Link>>,
    bytes: usize,
}

impl std::fmt::Debug for Handles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Handles")
    }
}

impl Handles {
    /// Keeps a link; its number.
    pub(super) fn keep(&self, link: Link) -> u64 {
        let mut kept = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        kept.bytes += link.weight();
        let number = kept.last;
        kept.links.insert(number, Arc::new(link));
        while kept.links.len() > MOST || kept.bytes > BYTES {
            let Some((_, oldest)) = kept.links.pop_first() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.weight());
        }
        number
    }

    /// The link of a number.
    pub(super) fn get(&self, number: &str) -> Option<Arc<Link>> {
        let number: u64 = number.parse().ok()?;
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).links.get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_a_call_are_bounded_and_the_oldest_go_first() {
        let link = |length: usize| {
            let url = Url::parse(&format!("https://files.example/{}", "x".repeat(length)));
            let of = (0, "github.com/o/r".to_owned());
            let action = Action::Download;
            Link { action, of, oid: "ab".repeat(32), size: 1, url: url.unwrap(), headers: vec![] }
        };
        let few = Handles::default();
        for _ in 0..=MOST {
            few.keep(link(1));
        }
        assert!(few.get("1").is_none() && few.get("2").is_some());
        let long = Handles::default();
        let number = (0..1000).map(|_| long.keep(link(30_000))).last().unwrap();
        let kept = long.inner.lock().unwrap();
        assert!(kept.bytes <= BYTES && kept.links.len() > 400, "{}", kept.links.len());
        assert!(kept.links.contains_key(&number) && !kept.links.contains_key(&1));
        assert_eq!(kept.bytes, kept.links.values().map(|link| link.weight()).sum::<usize>());
    }
}
