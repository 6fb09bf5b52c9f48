//! Who may ask at a door, at this moment: the file of tokens is looked at before each request
//! and each second, and read again when it is another one.
//!
//! Owns: which token is in force, whose it is, and that what was begun with a token ends when
//! the token is gone. A file that cannot be used lets nobody in. Must not: read a line of it;
//! `token` does.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::HttpError;
use super::token::{self, Line};
use crate::broker::Broker;
use crate::listen::mcp::Mcp;

/// Between two looks where nobody asks.
const LOOK: Duration = Duration::from_secs(1);
/// A file that was changed less than this ago may change again under the same time.
const YOUNG: Duration = Duration::from_secs(2);
/// The number of who is no caller.
const NO_NUMBER: usize = usize::MAX;

/// Who may ask.
#[derive(Debug)]
pub(super) struct Clients {
    /// None: anybody may.
    path: Option<PathBuf>,
    now: Mutex<Now>,
    opened: OnceLock<Opened>,
    /// At the other door: a token that is known there too opens neither.
    others: OnceLock<Weak<Clients>>,
}

/// Where callers have their numbers.
#[derive(Debug)]
struct Opened {
    broker: Arc<Broker>,
    /// What their names begin with there; none at the operators' door, where nobody calls.
    prefix: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Now {
    /// Of the file as it was read; none: it has to be read again.
    stamp: Option<Stamp>,
    /// Every client that ever was; one that is gone has no digest. None is taken out.
    clients: Vec<Client>,
    leaving: Vec<Leaving>,
    /// Why nobody is let in.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Client {
    name: Arc<str>,
    /// Among the callers.
    number: usize,
    digest: Option<[u8; 32]>,
    gone: CancellationToken,
}

/// A token that was in force. What was begun with it goes on for a moment: a file that is
/// written in place is empty for one.
#[derive(Debug)]
struct Leaving {
    client: usize,
    digest: [u8; 32],
    gone: CancellationToken,
    /// Seen at a look before.
    seen: bool,
}

/// One who has a token that is in force.
#[derive(Debug)]
pub(super) struct Known {
    /// Among the clients of this door.
    pub(super) index: usize,
    /// Among the callers.
    pub(super) number: usize,
    pub(super) name: Arc<str>,
    /// Cancelled when the token is gone.
    pub(super) gone: CancellationToken,
}

/// What a token is at this moment.
#[derive(Debug)]
pub(super) enum Found {
    /// In force.
    Known(Known),
    /// Of nobody.
    Nobody,
    /// The file cannot be used: nobody knows.
    Unreadable,
}

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    size: u64,
    times: [i64; 4],
    mode: u32,
    owner: u32,
}

impl Stamp {
    /// None where it may change without a new time.
    fn of(about: &Metadata) -> Option<Stamp> {
        let changed = Duration::from_secs(u64::try_from(about.ctime()).unwrap_or(0));
        let since = SystemTime::now().duration_since(UNIX_EPOCH + changed).unwrap_or_default();
        (since > YOUNG).then(|| Stamp {
            place: (about.dev(), about.ino()),
            size: about.size(),
            times: [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()],
            mode: about.mode(),
            owner: about.uid(),
        })
    }
}

impl Clients {
    /// Whoever comes.
    pub(super) fn anybody() -> Clients {
        let (now, opened, others) = Default::default();
        Clients { path: None, now, opened, others }
    }

    /// Those of a file, which has to be a good one at the start.
    pub(super) fn read(path: PathBuf) -> Result<Clients, HttpError> {
        let lines = token::read(&path, token::open(&path)?)?;
        let clients = Clients { path: Some(path), ..Clients::anybody() };
        clients.now().take(&lines, None);
        Ok(clients)
    }

    /// Whether a token is needed.
    pub(super) fn are_known(&self) -> bool {
        self.path.is_some()
    }

    /// How many have a token that is in force.
    pub(super) fn count(&self) -> usize {
        self.now().digests().count()
    }

    /// The door opens: callers have numbers from here on.
    pub(super) fn open(&self, broker: &Arc<Broker>, prefix: Option<&'static str>) {
        let opened = self.opened.get_or_init(|| Opened { broker: Arc::clone(broker), prefix });
        if !self.are_known() {
            opened.come("anybody");
        }
        for client in &mut self.now().clients {
            client.number = opened.come(&client.name);
        }
    }

    /// The number of whoever comes without a token.
    pub(super) fn nobodys_number(&self) -> usize {
        let opened = self.opened.get().filter(|_| !self.are_known());
        opened.map_or(NO_NUMBER, |opened| opened.come("anybody"))
    }

    /// No token opens both doors.
    pub(super) fn never_with(self: &Arc<Clients>, others: &Arc<Clients>) {
        self.others.set(Arc::downgrade(others)).ok();
        others.others.set(Arc::downgrade(self)).ok();
    }

    /// Whether a token is known to both.
    pub(super) fn share_with(&self, others: &Clients) -> bool {
        let own: Vec<[u8; 32]> = self.now().digests().collect();
        others.now().digests().any(|digest| own.contains(&digest))
    }

    /// Whose token this is, by the file as it is now. Every one is looked at, whole.
    pub(super) fn find(&self, token: &[u8]) -> Found {
        let digest = token::digest(token);
        let found = {
            let mut now = self.now();
            self.look(&mut now);
            if now.trouble.is_some() {
                return Found::Unreadable;
            }
            now.find(&digest)
        };
        let both = || {
            let others = self.others.get().and_then(Weak::upgrade);
            others.is_some_and(|others| others.now().find(&digest).is_some())
        };
        match found {
            Some(known) if !both() => Found::Known(known),
            _ => Found::Nobody,
        }
    }

    /// Looks at the file each second, and ends what belongs to nobody any more.
    pub(super) async fn keep(&self, mcp: &Mcp, stop: CancellationToken) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.are_known() {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = look.tick() => {}
            }
            let ended = {
                let mut now = self.now();
                self.look(&mut now);
                now.end()
            };
            for number in ended {
                mcp.end_all_of(number).await;
            }
        }
    }

    /// Reads the file again where it is another one.
    fn look(&self, now: &mut Now) {
        let Some(path) = &self.path else { return };
        let opened = token::open(path).map(|(file, about)| (Stamp::of(&about), file, about));
        let read = match opened {
            Ok((stamp, ..)) if stamp.is_some() && stamp == now.stamp => return,
            Ok((stamp, file, about)) => {
                token::read(path, (file, about)).map(|lines| (stamp, lines))
            }
            Err(error) => Err(error),
        };
        match read {
            Ok((stamp, lines)) => {
                now.take(&lines, self.opened.get());
                now.stamp = stamp;
                self.tell(now, None);
            }
            Err(error) => {
                now.take(&[], self.opened.get());
                now.stamp = None;
                self.tell(now, Some(format!("{error}; nobody is let in until it is put right")));
            }
        }
    }

    fn tell(&self, now: &mut Now, trouble: Option<String>) {
        if now.trouble == trouble {
            return;
        }
        match (&trouble, &self.path) {
            (Some(trouble), _) => warn!("{trouble}"),
            (None, Some(path)) => info!(file = %path.display(), "the tokens can be read again"),
            (None, None) => {}
        }
        if let (Some(opened), Some(path)) = (self.opened.get(), &self.path) {
            opened.broker.facts.callers.trouble(path, trouble.clone());
        }
        now.trouble = trouble;
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    fn come(&self, name: &str) -> usize {
        let number = |prefix: &str| self.broker.facts.callers.come(&format!("{prefix}{name}"));
        self.prefix.map_or(NO_NUMBER, number)
    }
}

impl Now {
    fn digests(&self) -> impl Iterator<Item = [u8; 32]> {
        self.clients.iter().filter_map(|client| client.digest)
    }

    fn find(&self, digest: &[u8; 32]) -> Option<Known> {
        let mut found = u64::MAX;
        for (index, client) in (0u64..).zip(&self.clients) {
            let same = client.digest.unwrap_or_default().ct_eq(digest);
            found.conditional_assign(&index, same);
        }
        let index = usize::try_from(found).ok()?;
        let client = self.clients.get(index).filter(|client| client.digest.is_some())?;
        let (name, gone) = (Arc::clone(&client.name), client.gone.clone());
        Some(Known { index, number: client.number, name, gone })
    }

    /// What the file has now. A line without a name keeps the one that its token was given.
    fn take(&mut self, lines: &[Line], opened: Option<&Opened>) {
        let named = |name: &str| lines.iter().any(|line| line.name.as_deref() == Some(name));
        let mut wanted: Vec<(Arc<str>, [u8; 32])> = Vec::new();
        for (place, line) in (1..).zip(lines) {
            let name = match &line.name {
                Some(name) => name.as_str().into(),
                None => self.number_of(&line.digest, place, &wanted, named),
            };
            wanted.push((name, line.digest));
        }
        for index in 0..self.clients.len() {
            let Some(client) = self.clients.get_mut(index) else { continue };
            let new = wanted.iter().find(|(name, _)| *name == client.name);
            let new = new.map(|(_, digest)| *digest);
            if client.digest == new {
                continue;
            }
            let gone = std::mem::take(&mut client.gone);
            if let Some(digest) = std::mem::replace(&mut client.digest, new) {
                self.leaving.push(Leaving { client: index, digest, gone, seen: false });
                info!(client = %client.name, "its token is gone");
            }
            let back = |left: &Leaving| left.client == index && Some(left.digest) == new;
            if let Some(back) = self.leaving.iter().position(back) {
                client.gone = self.leaving.swap_remove(back).gone;
            }
            match (opened, new) {
                (Some(opened), Some(_)) => client.number = opened.come(&client.name),
                (Some(opened), None) => opened.broker.facts.callers.go(client.number),
                (None, _) => {}
            }
        }
        for (name, digest) in wanted {
            if self.clients.iter().any(|client| client.name == name) {
                continue;
            }
            let number = opened.map_or(NO_NUMBER, |opened| opened.come(&name));
            if opened.is_some() {
                info!(client = %name, "has a token");
            }
            let gone = CancellationToken::new();
            self.clients.push(Client { name, number, digest: Some(digest), gone });
        }
    }

    /// The one that this token was given before; else its place in the file, or the next
    /// that nobody ever had.
    fn number_of(
        &self,
        digest: &[u8; 32],
        place: usize,
        wanted: &[(Arc<str>, [u8; 32])],
        named: impl Fn(&str) -> bool,
    ) -> Arc<str> {
        let left = self.leaving.iter().filter(|left| left.digest == *digest);
        let left = left.filter_map(|left| self.clients.get(left.client));
        let own = self.clients.iter().filter(|client| client.digest.as_ref() == Some(digest));
        let numbered = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let mut known = own.chain(left).map(|client| &client.name);
        if let Some(name) = known.find(|name| numbered(name) && !named(name)) {
            return Arc::clone(name);
        }
        let taken = |name: &str| {
            named(name)
                || wanted.iter().any(|(taken, _)| **taken == *name)
                || self.clients.iter().any(|client| *client.name == *name)
        };
        let mut free = (place..).map(|number| number.to_string()).filter(|name| !taken(name));
        free.next().unwrap_or_default().into()
    }

    /// Ends what was begun with tokens that have been gone for a look; whose it was.
    fn end(&mut self) -> Vec<usize> {
        let mut ended = Vec::new();
        for left in self.leaving.extract_if(.., |left| std::mem::replace(&mut left.seen, true)) {
            left.gone.cancel();
            ended.extend(self.clients.get(left.client).map(|client| client.number));
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(tokens: &[&str]) -> Now {
        let mut now = Now::default();
        let line = |token: &&str| Line { name: None, digest: token::digest(token.as_bytes()) };
        now.take(&tokens.iter().map(line).collect::<Vec<_>>(), None);
        now
    }

    fn find(now: &Now, token: &str) -> Option<usize> {
        now.find(&token::digest(token.as_bytes())).map(|known| known.index)
    }

    #[test]
    fn a_token_is_found_whole_and_nothing_else_is() {
        let now = now(&["0123456789abcdef", "fedcba9876543210"]);
        assert_eq!(find(&now, "0123456789abcdef"), Some(0));
        assert_eq!(find(&now, "fedcba9876543210"), Some(1));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "1"] {
            assert_eq!(find(&now, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_gone_for_two_looks_has_ended_and_what_came_back_has_not() {
        let mut now = now(&["0123456789abcdef"]);
        let line = || Line { name: None, digest: token::digest(b"0123456789abcdef") };
        let gone = now.clients[0].gone.clone();
        now.take(&[], None);
        assert!(find(&now, "0123456789abcdef").is_none());
        assert!(now.end().is_empty() && !gone.is_cancelled());
        now.take(&[line()], None);
        assert_eq!(find(&now, "0123456789abcdef"), Some(0));
        assert!(now.end().is_empty() && now.end().is_empty() && !gone.is_cancelled());
        now.take(&[], None);
        assert!(now.end().is_empty());
        assert_eq!((now.end().len(), gone.is_cancelled()), (1, true));
        now.take(&[line()], None);
        assert!(!now.clients[0].gone.is_cancelled(), "what is begun now goes on");
    }
}
