//! Calls that wait for an operator's word, and words that stand.
//!
//! A call that a rule asks about waits here. The operator's answer comes over the
//! control socket: yes or no to this call, or yes to its rule in its repository
//! for a while. An answer to a call whose caller has left stays good for the
//! identical plan of the same caller for ten minutes, once: callers' own timeouts are
//! short.
//!
//! Owns: who waits, what was answered, what stands. Must not: decide whether
//! something has to be asked (`policy`), or run anything.
//!
//! - `question`  the plan in words, and the digest by which it is known again
//! - `hold`      a call of the broker's that waits
//! - `state`     all of it, behind one lock
//! - `list`      all of it, for an operator
//! - `store`     what stands, kept over a restart
//! - `notify`    the operator's own command

mod hold;
mod list;
mod notify;
mod question;
mod state;
mod store;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};
use tool_policy::Consent;
use tool_protocol::{Code, Refusal};

pub(crate) use self::hold::Held;
pub(super) use self::hold::heed;
pub(in crate::broker) use self::question::elsewhere;
pub(crate) use self::question::{Asker, Because, Question, Requested, show};
use self::question::{Shown, Site};
use self::state::{Ask, Grant, State, Word};

/// How long an answer stays good for a caller that left, and how long a question
/// stays open after it.
const LATE: Duration = Duration::from_secs(600);
/// Answers that are remembered, so that a second one is told of the first.
const ANSWERED: usize = 64;

/// Whose word an answer by HTTP is. The log names the operator.
pub(crate) use crate::audit::BY_HTTP;

/// What the settings say.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long a call waits.
    pub(crate) timeout: Duration,
    /// How many wait, of all peers.
    pub(crate) waiting: usize,
    /// How many wait of one peer.
    pub(crate) per_peer: usize,
    /// A shell command that tells an operator.
    pub(crate) notify: Option<String>,
    /// Where standing approvals are kept.
    pub(crate) file: PathBuf,
}

/// All that waits and stands.
#[derive(Debug)]
pub(crate) struct Approvals {
    settings: Settings,
    state: Mutex<State>,
    /// Numbers of the commands of `notify` that run.
    commands: Mutex<HashSet<u32>>,
    changed: watch::Sender<u64>,
}

/// What an operator said.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// It may run.
    Yes(Consent),
    /// It may not.
    No {
        /// The question's id.
        id: String,
        /// The operator's uid.
        by: u32,
        /// In the operator's words.
        reason: String,
    },
}

/// A question that waits; dropped, its caller has left.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    approvals: &'a Approvals,
    id: String,
    question: Arc<Question>,
    answer: oneshot::Receiver<Answer>,
}

impl Waiting<'_> {
    /// The operator's answer; `None`: nobody gave one in time.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        timeout(self.approvals.settings.timeout, &mut self.answer).await.ok()?.ok()
    }

    /// By which it is answered.
    pub(in crate::broker) fn id(&self) -> &str {
        &self.id
    }

    /// One line for the caller.
    pub(crate) fn line(&self) -> String {
        self.question.line(&self.id, self.approvals.settings.timeout)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.approvals.leave(self);
    }
}

impl Approvals {
    /// With what stands from before.
    pub(crate) fn open(settings: Settings) -> Approvals {
        let (grants, words) = store::load(&settings.file);
        let state = Mutex::new(State { grants, words, ..State::default() });
        Approvals { settings, state, commands: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// How long somebody is waited for.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.timeout
    }

    /// What was answered already: by an answer that came late, which is used up,
    /// or by a standing approval.
    pub(crate) fn standing(&self, question: &Question) -> Option<Answer> {
        let mut state = self.lock();
        state.forget(Instant::now());
        let same = |word: &Word| !question.once && word.digest == question.digest;
        if let Some(place) = state.words.iter().position(same) {
            let word = state.words.remove(place);
            self.keep(&state);
            return Some(word.answer);
        }
        if question.alone.is_some() {
            return None;
        }
        // Of several rules that ask, one that stands does not answer the others.
        let standing = |site: Site| state.grants.iter().find(|grant| grant.site == site);
        let others = question.others();
        let grant = standing(question.site.clone())?;
        if !others.into_iter().all(|site| standing(site).is_some()) {
            return None;
        }
        let (id, by, at) = (grant.id.clone(), grant.by, SystemTime::now());
        Some(Answer::Yes(Consent { id, by, at, standing: true }))
    }

    /// Puts a question before the operators. One that the same caller asked before, and
    /// then left, is the same question.
    pub(crate) fn ask(&self, question: Question) -> Result<Waiting<'_>, Refusal> {
        let (sender, answer) = oneshot::channel();
        let question = Arc::new(question);
        let mut state = self.lock();
        state.forget(Instant::now());
        let again = state
            .asks
            .iter_mut()
            .filter(|_| !question.once)
            .find(|(_, ask)| ask.caller.is_none() && ask.question.digest == question.digest);
        let id = if let Some((id, ask)) = again {
            (ask.caller, ask.left) = (Some(sender), None);
            ask.since = Instant::now();
            id.clone()
        } else {
            state.make_room(&self.settings, question.peer)?;
            let id = state.new_id();
            let (caller, since) = (Some(sender), Instant::now());
            let ask = Ask { question: Arc::clone(&question), since, caller, left: None };
            state.asks.insert(id.clone(), ask);
            id
        };
        drop(state);
        self.tell_change();
        Ok(Waiting { approvals: self, id, question, answer })
    }

    /// An operator's yes, to this call or for so long to its rule in its
    /// repository. Gives what is to be told the operator.
    pub(crate) fn approve(
        &self,
        id: &str,
        by: u32,
        lasts: Option<Duration>,
        unseen: bool,
    ) -> Result<String, Refusal> {
        let consent =
            Consent { id: id.to_owned(), by, at: SystemTime::now(), standing: lasts.is_some() };
        let mut state = self.lock();
        if let Some(ask) = state.asks.get(id) {
            may_be_approved(&ask.question, lasts.is_some(), unseen)?;
        }
        let ask = state.take(id)?;
        let mut told = format!("approved {id}");
        if let Some(lasts) = lasts {
            let until = Instant::now() + lasts;
            let mut sites = vec![ask.question.site.clone()];
            sites.extend(ask.question.others());
            let rules: Vec<&str> = sites.iter().map(|site| site.rule.as_str()).collect();
            let site = &ask.question.site;
            told = format!(
                "{told}, and rule {} of {} in {} for {} s, for {}",
                rules.join(", "),
                site.tool,
                ask.question.place(),
                lasts.as_secs(),
                site.caller
            );
            for site in sites {
                state.grants.retain(|grant| grant.site != site);
                state.grants.push(Grant { id: id.to_owned(), site, by, until });
            }
        }
        self.settle(state, id, ask, Answer::Yes(consent), told)
    }

    /// An operator's no.
    pub(crate) fn deny(&self, id: &str, by: u32, reason: &str) -> Result<String, Refusal> {
        let mut state = self.lock();
        let ask = state.take(id)?;
        let answer = Answer::No { id: id.to_owned(), by, reason: show(reason.as_bytes()) };
        self.settle(state, id, ask, answer, format!("denied {id}"))
    }

    /// Ends a standing approval.
    pub(crate) fn revoke(&self, id: &str) -> Result<String, Refusal> {
        let mut state = self.lock();
        let before = state.grants.len();
        state.grants.retain(|grant| grant.id != id);
        if state.grants.len() == before {
            let message = format!(
                "no standing approval {}: see `tool-server approvals`",
                show(id.as_bytes())
            );
            return Err(Refusal::new(Code::BadRequest, message));
        }
        self.keep(&state);
        drop(state);
        self.tell_change();
        Ok(format!("revoked {id}"))
    }

    /// Waits until something is other than at that generation.
    pub(crate) async fn changed_since(&self, generation: u64) {
        let mut changes = self.changed.subscribe();
        // The sender lives as long as this.
        drop(changes.wait_for(|now| *now != generation).await);
    }

    /// Tells the caller, or keeps the answer for it.
    fn settle(
        &self,
        mut state: MutexGuard<'_, State>,
        id: &str,
        ask: Ask,
        answer: Answer,
        told: String,
    ) -> Result<String, Refusal> {
        let unheard = match ask.caller {
            Some(caller) => caller.send(answer).err(),
            None => Some(answer),
        };
        let mut told = told;
        let once = ask.question.once;
        if unheard.is_some() && once {
            told.push_str(": its caller has left, and it is for nobody else");
        }
        if let Some(answer) = unheard.filter(|_| !once) {
            told.push_str(": its caller has left; it stays good for the same call for ten minutes");
            state.words.push(Word {
                digest: ask.question.digest,
                answer,
                until: Instant::now() + LATE,
            });
        }
        if let Some(error) = self.keep(&state) {
            told = format!("{told} (not kept over a restart: {error})");
        }
        state.answered.push_back((id.to_owned(), told.clone()));
        while state.answered.len() > ANSWERED {
            state.answered.pop_front();
        }
        drop(state);
        self.tell_change();
        Ok(told)
    }

    /// The caller of a question has left, or has its answer.
    fn leave(&self, waiting: &mut Waiting<'_>) {
        let mut state = self.lock();
        waiting.answer.close();
        if waiting.question.once {
            state.asks.remove(&waiting.id);
        } else if let Ok(answer) = waiting.answer.try_recv() {
            // It was given while the caller left.
            let digest = waiting.question.digest;
            state.words.push(Word { digest, answer, until: Instant::now() + LATE });
            self.keep(&state);
        }
        if let Some(ask) = state.asks.get_mut(&waiting.id) {
            (ask.caller, ask.left) = (None, Some(Instant::now()));
        }
        drop(state);
        self.tell_change();
    }

    /// Writes what stands; says why where it cannot.
    fn keep(&self, state: &State) -> Option<std::io::Error> {
        let error = store::save(&self.settings.file, &state.grants, &state.words).err()?;
        tracing::warn!(file = %self.settings.file.display(), %error, "cannot keep approvals");
        Some(error)
    }

    fn tell_change(&self) {
        self.changed.send_modify(|generation| *generation += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a question may not be answered so.
fn may_be_approved(question: &Question, stands: bool, unseen: bool) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::new(Code::BadRequest, message));
    if let (Some(why), true) = (question.alone, stands) {
        return refuse(format!("it cannot be approved for a while: {why}: approve it alone"));
    }
    let Shown { argv_omitted_bytes, facts_omitted_bytes, .. } = &question.shown;
    let hidden = argv_omitted_bytes.saturating_add(*facts_omitted_bytes);
    if hidden > 0 && !unseen {
        return refuse(format!(
            "{hidden} bytes of this call were not shown: deny it, or approve it with --unseen"
        ));
    }
    Ok(())
}
