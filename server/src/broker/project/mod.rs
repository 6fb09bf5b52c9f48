//! The project's own setup: `.claude-container/config.json` in the first workspace root
//! names a script, which is run beside the tools, once the operator has approved it.
//!
//! The workspace is the agent's, so its script is nobody's until an operator has seen it:
//! what is approved is a hash of its path, its interpreter and its bytes, and what is run
//! are the bytes that the hash is of. It runs as the root's owner, confined as a tool,
//! with a HOME of its own and no network.
//!
//! Owns: what was said of it, and how far it is. Must not: let anybody but an operator
//! say something, or run it twice at once.
//!
//! - `config`  which scripts there are
//! - `look`    the script on the disk, and its hash
//! - `store`   what was said, over a restart
//! - `run`     running it, and its line in the audit
//! - `show`    it, for an operator's terminal

mod config;
mod error;
mod look;
mod run;
mod show;
mod store;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, info, info_span, warn};

pub(crate) use self::error::ProjectError;
use self::look::script;
pub(crate) use self::look::{Script, client};
use self::run::Cause;
pub(crate) use self::show::render;
use self::store::{Kept, Word};
use super::{Broker, Peer};
use crate::os::root::Root;

/// Of a hash as many digits have to be named.
const FEWEST: usize = 12;
/// So many scripts that were shown are remembered.
const SHOWN: usize = 16;

/// The setup of the project.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Where what was said is kept.
    file: PathBuf,
    /// Where the copy lies that is run.
    copies: PathBuf,
    timeout: Duration,
    state: Mutex<State>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct State {
    kept: Kept,
    under_way: Option<UnderWay>,
    /// What was run last, and how it went.
    last: Option<(String, Result<(), String>)>,
    /// The hashes of what was shown to an operator, the newest last.
    shown: VecDeque<String>,
}

#[derive(Debug)]
struct UnderWay {
    hash: String,
    number: u32,
    gone: CancellationToken,
}

/// How far it is, for `status`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// none, bad, waiting, denied, approved, running, done, failed.
    pub(crate) state: &'static str,
    /// Beneath the root, escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) script: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<String>,
    /// What is wrong, or went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

impl Status {
    fn of(state: &'static str) -> Status {
        Status { state, script: None, hash: None, why: None }
    }

    /// What an operator should look at.
    pub(super) fn attention(&self) -> Option<String> {
        let script = self.script.as_deref().unwrap_or_default();
        let why = self.why.as_deref().unwrap_or_default();
        match self.state {
            "waiting" => Some(format!(
                "project: {script} is not run until it is approved: see `tool-server project show`"
            )),
            "bad" => Some(format!("project: {why}")),
            "failed" => Some(format!("project: {script} failed: {why}")),
            _ => None,
        }
    }
}

impl Setup {
    /// Of the server with that state directory; it may take so long.
    pub(crate) fn new(state: &Path, timeout: Duration) -> Setup {
        let file = state.join("project.json");
        let kept = store::load(&file);
        let (under_way, last, shown) = (None, None, VecDeque::new());
        let state_ = State { kept, under_way, last, shown };
        let (state_, tasks) = (Mutex::new(state_), TaskTracker::new());
        Setup { file, copies: state.join("project"), timeout, state: state_, tasks }
    }

    /// The number by which the processes of the one under way are known.
    pub(super) fn number(&self) -> Option<u32> {
        self.lock().under_way.as_ref().map(|one| one.number)
    }

    /// Returns when none is under way; to be called when none begins any more.
    pub(crate) async fn rest(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was approved, if it is this.
    fn approval(&self, hash: &str) -> Option<Word> {
        self.lock().kept.approved.clone().filter(|word| word.hash == hash)
    }

    /// Notes what was said; it is not in force before it is on the disk.
    fn say(&self, change: impl FnOnce(&mut Kept)) -> Result<(), ProjectError> {
        let mut state = self.lock();
        let mut kept = state.kept.clone();
        change(&mut kept);
        let failed = |source| ProjectError::Write { path: self.file.clone(), source };
        store::save(&self.file, &kept).map_err(failed)?;
        state.kept = kept;
        Ok(())
    }

    fn status(&self, found: &Result<Option<Script>, ProjectError>) -> Status {
        let state = self.lock();
        let script = match found {
            Ok(None) => return Status::of("none"),
            Err(error) => return Status { why: Some(error.to_string()), ..Status::of("bad") },
            Ok(Some(script)) => script,
        };
        let is = |word: &Option<Word>| word.as_ref().is_some_and(|word| word.hash == script.hash);
        let last = state.last.as_ref().filter(|(hash, _)| *hash == script.hash);
        let runs = state.under_way.as_ref().is_some_and(|one| one.hash == script.hash);
        let (word, why) = match last {
            _ if runs => ("running", None),
            _ if is(&state.kept.denied) => ("denied", None),
            _ if !is(&state.kept.approved) => ("waiting", None),
            None => ("approved", None),
            Some((_, Ok(()))) => ("done", None),
            Some((_, Err(why))) => ("failed", Some(why.clone())),
        };
        let (name, hash) = (Some(script.name()), Some(script.hash.clone()));
        Status { script: name, hash, why, ..Status::of(word) }
    }
}

impl Broker {
    /// When the server starts: what is approved is run.
    pub(crate) fn begin_project(&self) {
        let span = info_span!("project");
        let _entered = span.enter();
        match self.project_script() {
            Ok(None) => {}
            Err(error) => warn!("{error}"),
            Ok(Some(script)) => match self.project.approval(&script.hash) {
                Some(word) => {
                    if let Err(error) = self.run_project(script, word, Cause::Start) {
                        warn!("{error}");
                    }
                }
                None => {
                    let status = self.project.status(&Ok(Some(script)));
                    if let Some(line) = status.attention() {
                        warn!("{line}");
                    }
                }
            },
        }
    }

    /// How far it is, for `status`.
    pub(crate) fn project_status(&self) -> Status {
        self.project.status(&self.project_script())
    }

    /// The script as it is now, and how far it is; who asks has seen it then.
    pub(crate) fn show_project(&self) -> Result<(Status, Option<Script>), ProjectError> {
        let found = self.project_script();
        let status = self.project.status(&found);
        let script = found?;
        if let Some(script) = &script {
            let mut state = self.project.lock();
            state.shown.retain(|hash| *hash != script.hash);
            state.shown.push_back(script.hash.clone());
            if state.shown.len() > SHOWN {
                state.shown.pop_front();
            }
        }
        Ok((status, script))
    }

    /// The operator has seen this one: it may be run, now and at each start.
    pub(crate) fn approve_project(&self, named: &str, by: Peer) -> Result<String, ProjectError> {
        check(named)?;
        let script = self.project_script()?.ok_or_else(none)?;
        self.project.is_meant(named, &script)?;
        let word = said(&script.hash, by);
        self.project.say(|kept| {
            kept.approved = Some(word.clone());
            kept.denied = None;
        })?;
        info!(hash = script.hash, by_uid = by.uid, "the project's setup is approved");
        let name = script.name();
        let begun = self.run_project(script, word, Cause::Operator(by));
        begun.map_err(|error| ProjectError::Asked(format!("approved, and not run: {error}")))?;
        Ok(format!("approved: {name} runs now: see `tool-server status`"))
    }

    /// It is not to be run, nor asked about any more.
    pub(crate) fn deny_project(&self, named: &str, by: Peer) -> Result<String, ProjectError> {
        check(named)?;
        // What was approved can be taken back whatever lies there now.
        let found = self.project_script().ok().flatten().map(|script| script.hash);
        let approved = self.project.lock().kept.approved.as_ref().map(|word| word.hash.clone());
        let all: Vec<String> = [approved, found].into_iter().flatten().collect();
        let hash = all.into_iter().rfind(|hash| hash.starts_with(named)).ok_or_else(|| {
            let why =
                "is neither the project's script nor approved: see `tool-server project show`";
            ProjectError::Asked(format!("{named} {why}"))
        })?;
        let word = said(&hash, by);
        self.project.say(|kept| {
            kept.approved.take_if(|word| word.hash.starts_with(named));
            kept.denied = Some(word);
        })?;
        let state = self.project.lock();
        if let Some(one) = state.under_way.as_ref().filter(|one| one.hash.starts_with(named)) {
            one.gone.cancel();
        }
        info!(hash, by_uid = by.uid, "the project's setup is denied");
        Ok(format!("denied: {hash} is not run"))
    }

    /// Once more, if it is approved.
    pub(crate) fn repeat_project(&self, by: Peer) -> Result<String, ProjectError> {
        let script = self.project_script()?.ok_or_else(none)?;
        let word = self.project.approval(&script.hash).ok_or_else(|| {
            ProjectError::Asked(format!(
                "{} is not approved as it is now: see `tool-server project show`",
                script.name()
            ))
        })?;
        let name = script.name();
        self.run_project(script, word, Cause::Operator(by))?;
        Ok(format!("{name} runs now: see `tool-server status`"))
    }

    fn project_script(&self) -> Result<Option<Script>, ProjectError> {
        self.workspace.first_root().map_or(Ok(None), script)
    }

    /// Runs what was approved; one at a time. Returns at once.
    fn run_project(&self, script: Script, word: Word, cause: Cause) -> Result<(), ProjectError> {
        let asked = |what: &str| Err(ProjectError::Asked(what.to_owned()));
        let Some(broker) = self.facts.this.upgrade() else { return asked("the server stops") };
        let gone = CancellationToken::new();
        let number = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        {
            let mut state = self.project.lock();
            if self.draining.is_cancelled() {
                return asked("the server is stopping");
            }
            if state.under_way.is_some() {
                return asked("the project's setup is under way: wait for its end");
            }
            let (hash, gone) = (script.hash.clone(), gone.clone());
            state.under_way = Some(UnderWay { hash, number, gone });
        }
        let span = info_span!("project", hash = script.hash.get(..FEWEST));
        let work = async move {
            let ended = run::run(&broker, &script, &word, cause, number, gone).await;
            match &ended {
                Ok(()) => info!("the project's setup is done"),
                Err(error) => warn!("the project's setup failed: {error}"),
            }
            let mut state = broker.project.lock();
            state.under_way = None;
            state.last = Some((script.hash, ended.map_err(|error| error.to_string())));
        };
        self.project.tasks.spawn(work.instrument(span));
        Ok(())
    }
}

impl Setup {
    /// Whether an operator who names a hash so means this script. Two scripts with the
    /// same first digits can be made; so who names a few of them has to have been shown
    /// the one, and not the other.
    fn is_meant(&self, named: &str, script: &Script) -> Result<(), ProjectError> {
        let asked = |why: String| Err(ProjectError::Asked(why));
        if !script.hash.starts_with(named) {
            let (name, now) = (script.name(), &script.hash);
            return asked(format!("{name} is now {now}: see `tool-server project show`"));
        }
        if named == script.hash {
            return Ok(());
        }
        let state = self.lock();
        let mut shown = state.shown.iter().filter(|hash| hash.starts_with(named));
        match (shown.next(), shown.next()) {
            (Some(one), None) if *one == script.hash => Ok(()),
            (None, _) => asked(format!(
                "nobody was shown {named} since the server's start: see `tool-server project \
                 show`, or name all 64 digits"
            )),
            (Some(_), None) => {
                asked("the script is another one by now: see `tool-server project show`".to_owned())
            }
            (Some(_), Some(_)) => {
                asked(format!("{named} is the beginning of several hashes: name all 64 digits"))
            }
        }
    }
}

/// A hash, or the beginning of one.
fn check(named: &str) -> Result<(), ProjectError> {
    let digits = named.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match digits && (FEWEST..=64).contains(&named.len()) {
        true => Ok(()),
        false => Err(ProjectError::Asked(format!(
            "a hash is named by at least {FEWEST} of its 64 digits, 0-9 and a-f"
        ))),
    }
}

fn said(hash: &str, by: Peer) -> Word {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Word { hash: hash.to_owned(), by: by.uid, at: now.as_secs() }
}

fn none() -> ProjectError {
    ProjectError::Asked(format!("the project has no setup.server in {}", config::CONFIG))
}

/// The script beneath that root, without a server, and who approved it.
pub(crate) fn show_at_rest(
    root: &Path,
    state: &Path,
) -> Result<(Status, Option<Script>), ProjectError> {
    let opened = Root::open(root);
    let root = opened.map_err(|errno| ProjectError::Root { path: root.to_owned(), errno })?;
    let setup = Setup::new(state, Duration::ZERO);
    let found = script(&root);
    let status = setup.status(&found);
    Ok((status, found?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script_of(hash: &str) -> Script {
        let (path, interpreter, bytes) = ("s".to_owned(), Vec::new(), Vec::new());
        Script { path, interpreter, bytes, hash: hash.to_owned() }
    }

    #[test]
    fn a_few_digits_mean_the_one_script_that_was_shown_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let setup = Setup::new(directory.path(), Duration::ZERO);
        let few = "0123456789ab";
        let (first, second) =
            (format!("{few}{}", "0".repeat(52)), format!("{few}{}", "1".repeat(52)));
        let meant = |named: &str, now: &str| setup.is_meant(named, &script_of(now)).is_ok();
        assert!(!meant(few, &first), "nobody has seen it");
        assert!(meant(&first, &first), "it is named whole");
        setup.lock().shown.push_back(first.clone());
        assert!(meant(few, &first));
        assert!(!meant(few, &second), "it was swapped for one that begins alike");
        setup.lock().shown.push_back(second.clone());
        assert!(!meant(few, &first) && !meant(few, &second), "it may be either");
        assert!(meant(&second, &second) && !meant(&second, &first));
        for bad in ["", "0123456789a", "0123456789AB", "0123456789ag", &"0".repeat(65)] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check(few).is_ok() && check(&first).is_ok());
    }
}
