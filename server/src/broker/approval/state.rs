//! What waits, what stands and what was answered, behind the lock.
//!
//! Must not: wait, or tell anybody.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tool_protocol::{Code, Refusal};

use super::question::{Digest, Question, Site, show};
use super::{Answer, LATE, Settings};
use crate::broker::Peer;

/// What ids are made of: nothing that is mistaken for something else, and no words.
const LETTERS: &[u8; 20] = b"bcdfghjkmnpqrstvwxyz";

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) asks: BTreeMap<String, Ask>,
    pub(super) grants: Vec<Grant>,
    pub(super) words: Vec<Word>,
    /// Ids, and how each was answered.
    pub(super) answered: VecDeque<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) question: Arc<Question>,
    pub(super) since: Instant,
    /// To the call that waits; none once its caller has left.
    pub(super) caller: Option<oneshot::Sender<Answer>>,
    pub(super) left: Option<Instant>,
}

/// Yes to a rule in a repository, for a while.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) site: Site,
    pub(super) by: u32,
    pub(super) until: Instant,
}

/// An answer that nobody has heard yet.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) digest: Digest,
    pub(super) answer: Answer,
    pub(super) until: Instant,
}

impl State {
    /// Drops what is over.
    pub(super) fn forget(&mut self, now: Instant) {
        self.grants.retain(|grant| grant.until > now);
        self.words.retain(|word| word.until > now);
        self.asks.retain(|_, ask| ask.left.is_none_or(|left| left + LATE > now));
    }

    /// Room for one more question of this peer: those whose caller left go first.
    pub(super) fn make_room(&mut self, settings: &Settings, peer: Peer) -> Result<(), Refusal> {
        let of_peer = |ask: &Ask| ask.question.peer == peer;
        loop {
            let own = self.asks.values().filter(|ask| of_peer(ask)).count();
            if own < settings.per_peer && self.asks.len() < settings.waiting {
                return Ok(());
            }
            let crowded = own >= settings.per_peer;
            let oldest = self
                .asks
                .iter()
                .filter(|(_, ask)| ask.left.is_some() && (!crowded || of_peer(ask)))
                .min_by_key(|(_, ask)| ask.left)
                .map(|(id, _)| id.clone());
            let Some(oldest) = oldest else {
                let message = "too many calls wait for an approval: wait until some are answered";
                return Err(Refusal::new(Code::Busy, message));
            };
            self.asks.remove(&oldest);
        }
    }

    /// Takes a question that waits, to be answered.
    pub(super) fn take(&mut self, id: &str) -> Result<Ask, Refusal> {
        self.forget(Instant::now());
        self.asks.remove(id).ok_or_else(|| {
            let earlier = self.answered.iter().rev().find(|(answered, _)| answered == id);
            let message = match earlier {
                Some((_, told)) => format!("answered already: {told}"),
                None => {
                    format!("nothing waits as {}: see `tool-server approvals`", show(id.as_bytes()))
                }
            };
            Refusal::new(Code::BadRequest, message)
        })
    }

    /// Not a number that counts: after a restart it would be another question's.
    pub(super) fn new_id(&self) -> String {
        loop {
            let mut number = RandomState::new().hash_one(self.asks.len());
            let id: String = std::iter::repeat_with(|| {
                let letter = usize::try_from(number % 20).unwrap_or(0);
                number /= 20;
                LETTERS.get(letter).map_or('z', |letter| char::from(*letter))
            })
            .take(6)
            .collect();
            let known = self.asks.contains_key(&id)
                || self.grants.iter().any(|grant| grant.id == id)
                || self.answered.iter().any(|(answered, _)| *answered == id);
            if !known {
                return id;
            }
        }
    }
}
