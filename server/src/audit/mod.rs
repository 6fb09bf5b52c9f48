//! The audit: one line a call, each naming the digest of the line before it.
//!
//! A call that is to run has an entry in a journal, and room for its line on the
//! disk, before its tool starts; a server that is killed leaves the entry, and
//! the next one writes the line. Where that cannot be had the call is refused,
//! unless a setting says otherwise.
//!
//! Owns: the files in STATE_DIR/audit, which no other process writes. Must not:
//! know what a tool, a rule or a request is.
//!
//! - `record`    what a line says of a call
//! - `wire`      what a line says of a call's request at the gate
//! - `json` `time`   how it says it: in ASCII alone
//! - `trail`     the chain: appending, room, rotation
//! - `journal`   the calls that have begun
//! - `keeper`    both together, and what could not be written yet
//! - `recover`   the start
//! - `flush`     the thread beside: fsync, retries, files too many
//! - `echo`      each line once more, on stdout
//! - `files`     names, and how files are made
//! - `read` `verify`   reading it, which needs no server

mod echo;
mod error;
mod files;
mod flush;
mod journal;
mod json;
mod keeper;
mod read;
mod record;
mod recover;
#[cfg(test)]
mod tests;
mod time;
mod trail;
mod verify;
mod wire;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use tool_protocol::Code;

use self::keeper::{Keeper, Promise, Unsynced};
use crate::config::{AuditFailure, AuditSync};

pub(crate) use self::error::AuditError;
pub(crate) use self::files::{Part, directory, identity, next, parts};
pub(crate) use self::read::{Backward, Forward, Piece};
pub(crate) use self::record::{
    Approval, Asked, BY_HTTP, Decided, Draft, End, Ended, Fact, Passed, Peer,
};
pub(crate) use self::recover::Recovered;
pub(crate) use self::time::{parse as parse_time, rfc3339};
pub(crate) use self::verify::{Fault, verify};
pub(crate) use self::wire::{Summary, Wired};

/// How often a thread looks whether the lock is free before it sleeps, and how long it pauses in
/// between: some microseconds in all, as long as one or two writes take.
const LOOKS: usize = 32;
const PAUSES: usize = 8;

/// Where, and how.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The audit is in its directory `audit`.
    pub(crate) state_dir: PathBuf,
    /// What is made to last, and when.
    pub(crate) sync: AuditSync,
    /// What becomes of a call that cannot be recorded.
    pub(crate) on_failure: AuditFailure,
    /// How long a file may become.
    pub(crate) max_bytes: u64,
    /// How many complete files are kept; 0: all.
    pub(crate) keep: usize,
    /// Whether each line is written to stdout too.
    pub(crate) stdout: bool,
}

/// The record of all calls.
#[derive(Debug)]
pub(crate) struct Audit {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread beside has too.
#[derive(Debug)]
struct Shared {
    options: Options,
    keeper: Mutex<Keeper>,
    attention: Condvar,
}

/// A call that may run: it has an entry, and room for its line.
#[derive(Debug)]
#[must_use = "a call that has begun is to be ended"]
pub(crate) struct Open {
    text: Vec<u8>,
    /// None where it goes on unrecorded.
    promise: Option<Promise>,
}

/// What `status` tells.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The number of the last line.
    pub(crate) seq: u64,
    /// Its digest: noted elsewhere, it vouches for all lines up to it.
    pub(crate) head: String,
    /// Bytes of the file that is written.
    pub(crate) bytes: u64,
    /// Calls that have begun and not ended.
    pub(crate) open: usize,
    /// Lines that could not be written yet.
    pub(crate) waiting: usize,
    /// Calls whose line could not even be kept.
    pub(crate) lost: u64,
    /// How often it could not be written.
    pub(crate) failures: u64,
    /// Why calls cannot be recorded at this moment.
    pub(crate) trouble: Option<String>,
    /// Whether they are refused then.
    pub(crate) refuses: bool,
    /// Whether the file system keeps room for lines.
    pub(crate) reserves: bool,
    /// Lines that are in the file and were not written to stdout, where they
    /// were to be.
    pub(crate) not_on_stdout: Option<u64>,
}

impl Audit {
    /// Opens the audit, which no other server may have; writes the lines of calls
    /// that a server before has left.
    pub(crate) fn open(options: Options) -> Result<(Audit, Recovered), AuditError> {
        let (keeper, recovered) = recover::open(options.clone())?;
        let keeper = Mutex::new(keeper);
        let shared = Arc::new(Shared { options, keeper, attention: Condvar::new() });
        let thread = flush::start(&shared).map_err(AuditError::Thread)?;
        Ok((Audit { shared, thread: Some(thread) }, recovered))
    }

    /// Before a tool starts: the call has an entry, or is not to be run.
    pub(crate) fn begin(&self, draft: Draft, decided: &Decided<'_>) -> Result<Open, AuditError> {
        let text = draft.decided(decided);
        let mut keeper = self.shared.lock();
        let begun = keeper.begin(&text);
        let journal = keeper.journal.file();
        self.shared.unlock(keeper);
        let begun = match (begun, self.shared.options.sync) {
            (Ok(promise), AuditSync::Each) => {
                let lasting = journal.sync_data();
                if let Err(error) = &lasting {
                    let mut keeper = self.shared.lock();
                    keeper.take_back(promise);
                    keeper.sync_failed(Vec::new(), error);
                }
                lasting.map(|()| promise)
            }
            (begun, _) => begun,
        };
        match (begun, self.shared.options.on_failure) {
            (Ok(promise), _) => Ok(Open { text, promise: Some(promise) }),
            (Err(_), AuditFailure::Continue) => Ok(Open { text, promise: None }),
            (Err(error), AuditFailure::Refuse) => {
                let code = Code::AuditFailed;
                let ended = Ended {
                    end: End::Refused,
                    exit_code: Some(code.exit_status()),
                    code: Some(code.as_str()),
                    ..Ended::INTERRUPTED
                };
                self.write(text, None, &ended);
                let path = directory(&self.shared.options.state_dir);
                Err(AuditError::Write { path, why: error::words(&error) })
            }
        }
    }

    /// The same with the files that are open. None: that is not enough, since something failed,
    /// or what is written has to last before the tool starts; nothing has happened, and `begin`
    /// is to be asked. For a thread that may open nothing here.
    pub(crate) fn begin_at_once(&self, draft: &Draft, decided: &Decided<'_>) -> Option<Open> {
        if self.shared.options.sync == AuditSync::Each {
            return None;
        }
        let text = draft.clone().decided(decided);
        let mut keeper = self.shared.lock_soon();
        let promise = keeper.begin_at_once(&text);
        self.shared.unlock(keeper);
        Some(Open { text, promise: Some(promise?) })
    }

    /// Of a call that waits for an operator: an entry of its own, until it has
    /// another one, or its line.
    pub(crate) fn hold(&self, draft: &Draft, decided: &Decided<'_>) -> Result<Open, AuditError> {
        self.begin(draft.clone(), decided)
    }

    /// It has.
    pub(crate) fn let_go(&self, held: Open) {
        if let Some(promise) = held.promise {
            self.shared.lock().take_back(promise);
        }
    }

    /// After its end, before its caller is answered.
    pub(crate) fn end(&self, open: Open, ended: &Ended<'_>) {
        self.write(open.text, open.promise, ended);
    }

    /// The same by one write, into the room that was promised. The call back: that is not
    /// enough, since files have to be opened first, or something failed, or what is written
    /// has to last before the caller is answered; nothing has happened, and `end` is to be
    /// asked. For a thread that may open nothing here.
    pub(crate) fn end_at_once(&self, mut open: Open, ended: &Ended<'_>) -> Result<(), Open> {
        let each = self.shared.options.sync == AuditSync::Each;
        let Some(promise) = open.promise.filter(|_| !each) else { return Err(open) };
        let begun = open.text.len();
        ended.write(&mut open.text);
        let mut keeper = self.shared.lock_soon();
        let written = keeper.end_at_once(&open.text, promise);
        self.shared.unlock(keeper);
        if written {
            return Ok(());
        }
        open.text.truncate(begun);
        Err(open)
    }

    /// A call that is never run: its line at once.
    pub(crate) fn refused(&self, draft: Draft, decided: &Decided<'_>, ended: &Ended<'_>) {
        self.write(draft.decided(decided), None, ended);
    }

    /// A request of a call at its gate, before it is sent on: its line at once.
    /// `false`: it cannot be written, and is not to be sent.
    #[must_use = "a request that is not recorded is not sent"]
    pub(crate) fn wired(&self, wired: &Wired<'_>) -> bool {
        self.put(wired.line());
        self.is_refusing().is_none()
    }

    /// What else a call asked for, when it is over.
    pub(crate) fn summed(&self, summary: &Summary<'_>) {
        self.put(summary.line());
    }

    fn write(&self, mut text: Vec<u8>, promise: Option<Promise>, ended: &Ended<'_>) {
        ended.write(&mut text);
        self.append(text, promise);
    }

    fn put(&self, text: Vec<u8>) {
        self.append(text, None);
    }

    fn append(&self, text: Vec<u8>, promise: Option<Promise>) {
        let mut keeper = self.shared.lock();
        keeper.end(text, promise);
        let each = self.shared.options.sync == AuditSync::Each;
        let parts = if each { keeper.take_unsynced() } else { Vec::new() };
        self.shared.unlock(keeper);
        self.shared.make_last(parts);
    }

    /// What is known of the audit itself.
    pub(crate) fn state(&self) -> State {
        let keeper = self.shared.lock();
        State {
            seq: keeper.trail.seq,
            head: String::from_utf8(keeper.trail.head.to_vec()).unwrap_or_default(),
            bytes: keeper.trail.length,
            open: keeper.journal.open_calls(),
            waiting: keeper.waits(),
            lost: keeper.lost,
            failures: keeper.failures,
            trouble: keeper.trouble.clone(),
            refuses: self.shared.options.on_failure == AuditFailure::Refuse,
            reserves: keeper.trail.reserves,
            not_on_stdout: keeper.not_on_stdout(),
        }
    }

    /// Why calls are refused at this moment since they cannot be recorded.
    pub(crate) fn is_refusing(&self) -> Option<String> {
        match self.shared.options.on_failure {
            AuditFailure::Refuse => self.shared.lock().trouble.clone(),
            AuditFailure::Continue => None,
        }
    }

    /// When no call is under way any more and the server ends: everything is on
    /// the disk, and nothing is kept that is not needed.
    pub(crate) fn rest(&self) {
        let mut keeper = self.shared.lock();
        keeper.rest();
        let parts = keeper.take_unsynced();
        drop(keeper);
        if self.shared.options.sync != AuditSync::Never {
            self.shared.make_last(parts);
        }
        let echo = self.shared.lock().echo();
        if let Some(echo) = echo {
            echo.rest();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.attention.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a thread that will hold it for one write: whoever holds it now mostly does the same,
    /// which ends sooner than a thread sleeps and is woken.
    fn lock_soon(&self) -> MutexGuard<'_, Keeper> {
        for _ in 0..LOOKS {
            match self.keeper.try_lock() {
                Ok(keeper) => return keeper,
                Err(TryLockError::Poisoned(error)) => return error.into_inner(),
                Err(TryLockError::WouldBlock) => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
            }
        }
        self.lock()
    }

    /// Wakes the thread beside where it has something to do and sleeps.
    fn unlock(&self, mut keeper: MutexGuard<'_, Keeper>) {
        let wake = keeper.idle && keeper.wants_attention();
        keeper.idle &= !wake;
        drop(keeper);
        if wake {
            self.attention.notify_one();
        }
    }

    /// Waits until these are on the disk.
    fn make_last(&self, parts: Vec<Unsynced>) {
        if parts.is_empty() {
            return;
        }
        let lasting = parts.iter().try_for_each(|part| File::sync_data(&part.file));
        let mut keeper = self.lock();
        match lasting {
            Ok(()) => keeper.synced(&parts),
            Err(error) => keeper.sync_failed(parts, &error),
        }
        self.unlock(keeper);
    }
}
