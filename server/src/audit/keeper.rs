//! What is behind the lock: the chain and the journal together, and what could
//! not be written yet.
//!
//! Owns: the order of steps by which a call is never lost: an entry, and room
//! for its line, before it runs; its line; then its entry is void. Lines that
//! cannot be written wait, in their order; those that were promised room go
//! before. Must not: take the lock, or time.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::Options;
use super::echo::Echo;
use super::error::words;
use super::files;
use super::journal::{Journal, Number};
use super::trail::{Trail, line_room, write_again};
use super::{json, time};
use crate::config::{AuditFailure, AuditSync};

/// Room that has to be there before the audit is well again.
const LEAST: u64 = 4096;
/// Lines of calls that were not promised room wait up to so many bytes; more of
/// them are counted.
const MOST_WAITING: usize = 4 * 1024 * 1024;
/// How long a rotation that failed is not tried again.
const ROTATION_PAUSE: Duration = Duration::from_secs(1);

/// A call that has begun, as the keeper knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    number: Number,
    room: u64,
}

/// A line that could not be written.
#[derive(Debug)]
struct Waiting {
    text: Vec<u8>,
    promise: Option<Promise>,
}

/// What is to be made to last.
#[derive(Debug)]
pub(super) struct Unsynced {
    pub(super) file: Arc<File>,
    from: u64,
    to: u64,
}

/// The audit's state.
#[derive(Debug)]
pub(super) struct Keeper {
    options: Options,
    pub(super) trail: Trail,
    pub(super) journal: Journal,
    /// Room that calls under way will need for their lines.
    promised: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Lines that could not even wait.
    pub(super) lost: u64,
    /// How often something failed.
    pub(super) failures: u64,
    /// Why a call cannot be recorded at this moment.
    pub(super) trouble: Option<String>,
    /// Where what may not last begins.
    unsynced: u64,
    complete: Vec<Unsynced>,
    sync_failed: bool,
    /// Something was written since the last flush.
    pub(super) dirty: bool,
    /// There may be files too many.
    pub(super) surplus: bool,
    rotation_failed: Option<Instant>,
    /// The thread beside waits to be told.
    pub(super) idle: bool,
    pub(super) stop: bool,
    echo: Option<Arc<Echo>>,
}

impl Keeper {
    pub(super) fn new(
        options: Options,
        trail: Trail,
        journal: Journal,
        echo: Option<Arc<Echo>>,
    ) -> Keeper {
        let unsynced = trail.length;
        Keeper {
            options,
            trail,
            journal,
            promised: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lost: 0,
            failures: 0,
            trouble: None,
            unsynced,
            complete: Vec::new(),
            sync_failed: false,
            dirty: false,
            surplus: true,
            rotation_failed: None,
            idle: false,
            stop: false,
            echo,
        }
    }

    /// The way to stdout, where lines go there too.
    pub(super) fn echo(&self) -> Option<Arc<Echo>> {
        self.echo.clone()
    }

    /// How many lines did not get there.
    pub(super) fn not_on_stdout(&self) -> Option<u64> {
        self.echo.as_ref().map(|echo| echo.dropped())
    }

    /// An entry for a call that is to run, and room for its line.
    pub(super) fn begin(&mut self, text: &[u8]) -> io::Result<Promise> {
        let begun = self.try_begin(text);
        match &begun {
            Ok(_) => self.dirty = true,
            Err(error) => self.fail("record a call", error),
        }
        begun
    }

    fn try_begin(&mut self, text: &[u8]) -> io::Result<Promise> {
        if self.trouble.is_some() {
            self.heal()?;
        }
        let room = line_room(text.len().saturating_add(super::record::END));
        self.trail.reserve(self.promised.saturating_add(room))?;
        let number = self.journal.begin(self.trail.seq, text)?;
        self.promised = self.promised.saturating_add(room);
        Ok(Promise { number, room })
    }

    /// The same, where there is no trouble; no failure of it counts, since whoever begins it
    /// then the other way meets that too.
    pub(super) fn begin_at_once(&mut self, text: &[u8]) -> Option<Promise> {
        if self.trouble.is_some() {
            return None;
        }
        let promise = self.try_begin(text).ok()?;
        self.dirty = true;
        Some(promise)
    }

    /// The whole line of a call that had an entry, or of one that had none.
    pub(super) fn end(&mut self, text: Vec<u8>, promise: Option<Promise>) {
        // What was promised room does not wait behind what finds none.
        let waits = promise.is_none() && !self.waiting.is_empty();
        let written = if waits { self.heal() } else { Ok(()) };
        match written.and_then(|()| self.put(&text, promise)) {
            Ok(()) => self.dirty = true,
            Err(error) => {
                self.fail("write a line", &error);
                self.wait(Waiting { text, promise });
            }
        }
    }

    /// The same, where that is one line behind the others in the same file, and the journal
    /// is not to be written anew; no failure of it counts, since whoever ends it then the
    /// other way meets that too.
    pub(super) fn end_at_once(&mut self, text: &[u8], promise: Promise) -> bool {
        let full = self.trail.is_full(line_room(text.len()), self.options.max_bytes);
        if full || !self.waiting.is_empty() || self.journal.is_long() {
            return false;
        }
        let Ok(line) = self.trail.append(text) else { return false };
        if let Some(echo) = &self.echo {
            echo.line(line);
        }
        self.take_back(promise);
        self.dirty = true;
        true
    }

    /// Entries that a server has left: their calls were interrupted.
    pub(super) fn interrupted(&mut self, number: Number, text: Vec<u8>) {
        let room = line_room(text.len());
        self.promised = self.promised.saturating_add(room);
        self.end(text, Some(Promise { number, room }));
    }

    /// A call that has an entry is not run after all, and has no line yet.
    pub(super) fn take_back(&mut self, promise: Promise) {
        self.promised = self.promised.saturating_sub(promise.room);
        self.journal.void(promise.number);
    }

    fn wait(&mut self, waiting: Waiting) {
        if waiting.promise.is_none() {
            let bytes = self.waiting_bytes.saturating_add(waiting.text.len());
            if bytes > MOST_WAITING {
                self.lost = self.lost.saturating_add(1);
                return;
            }
            self.waiting_bytes = bytes;
        }
        self.waiting.push_back(waiting);
    }

    /// How many lines wait.
    pub(super) fn waits(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the thread beside has something to do.
    pub(super) fn wants_attention(&self) -> bool {
        self.dirty || self.surplus || self.trouble.is_some()
    }

    /// Makes sure that what is written is where it is looked for.
    pub(super) fn look_after(&mut self) {
        let checked = match self.trail.is_in_place() {
            Ok(true) => return,
            Ok(false) => {
                tracing::error!(
                    directory = %files::directory(&self.options.state_dir).display(),
                    "SOMEBODY HAS REMOVED OR REPLACED THE FILE OF THE AUDIT: it is written anew from what is open here"
                );
                self.failures = self.failures.saturating_add(1);
                self.trail.put_back()
            }
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => self.unsynced = 0,
            Err(error) => self.fail("be found where it was", &error),
        }
    }

    /// Writes a line, in another file where this one is full.
    fn put(&mut self, text: &[u8], promise: Option<Promise>) -> io::Result<()> {
        let room = promise.map_or_else(|| line_room(text.len()), |promise| promise.room);
        // What was promised to others is not taken.
        let beside = if promise.is_some() { 0 } else { room };
        if self.trail.is_full(line_room(text.len()), self.options.max_bytes) {
            self.rotate(self.promised.saturating_add(beside));
        }
        if promise.is_none() {
            self.trail.reserve(self.promised.saturating_add(room))?;
        }
        let line = self.trail.append(text)?;
        if let Some(echo) = &self.echo {
            echo.line(line);
        }
        if let Some(promise) = promise {
            self.take_back(promise);
        }
        if self.journal.is_long() {
            self.shorten_journal();
        }
        Ok(())
    }

    /// Goes on in another file. Where that fails, this one grows on: what is worse
    /// than a file that is too long is a call that is not recorded.
    fn rotate(&mut self, bytes: u64) {
        if self.rotation_failed.is_some_and(|then| then.elapsed() < ROTATION_PAUSE) {
            return;
        }
        let to = self.trail.length;
        match self.trail.rotate(bytes) {
            Ok(file) => {
                self.rotation_failed = None;
                if self.options.sync != AuditSync::Never {
                    self.complete.push(Unsynced { file, from: self.unsynced, to });
                }
                self.unsynced = 0;
                // Before files go: an entry's line is in the last file or the one
                // before it, or the entry is of a call under way.
                self.surplus = self.shorten_journal();
            }
            Err(error) => {
                let why = words(&error);
                tracing::warn!(%why, "the audit cannot go on in another file: this one grows");
                self.rotation_failed = Some(Instant::now());
            }
        }
    }

    fn shorten_journal(&mut self) -> bool {
        let shortened = self.journal.anew(self.options.sync != AuditSync::Never);
        if let Err(error) = &shortened {
            tracing::warn!(why = words(error), "the audit's journal cannot be shortened");
        }
        shortened.is_ok()
    }

    /// Tries what has failed once more, in its order.
    pub(super) fn heal(&mut self) -> io::Result<()> {
        while let Some(Waiting { text, promise }) = self.waiting.pop_front() {
            if let Err(error) = self.put(&text, promise) {
                self.waiting.push_front(Waiting { text, promise });
                return Err(error);
            }
            self.dirty = true;
            if promise.is_none() {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(text.len());
            }
        }
        if self.lost > 0 {
            self.put(&lost_line(self.lost), None)?;
            self.lost = 0;
        }
        if self.sync_failed {
            for part in &self.complete {
                write_again(&part.file, part.from, part.to)?;
            }
            self.complete.clear();
            write_again(&self.trail.file(), self.unsynced, self.trail.length)?;
            self.journal.anew(true)?;
            self.journal.file().sync_data()?;
            self.unsynced = self.trail.length;
            self.sync_failed = false;
        }
        self.trail.reserve(self.promised.saturating_add(LEAST))?;
        self.journal.reserve(LEAST)?;
        if let Some(why) = self.trouble.take() {
            tracing::warn!(was = why, "the audit is written again");
        }
        Ok(())
    }

    /// Notes why a call cannot be recorded, and says so once.
    pub(super) fn fail(&mut self, what: &str, error: &io::Error) {
        let why = words(error);
        if self.trouble.is_none() {
            let directory = files::directory(&self.options.state_dir);
            let then = match self.options.on_failure {
                AuditFailure::Refuse => "calls are refused until it can",
                AuditFailure::Continue => "CALLS GO ON UNRECORDED, as audit.on_failure says",
            };
            tracing::error!(directory = %directory.display(), "the audit cannot {what}: {why}: {then}");
        }
        self.failures = self.failures.saturating_add(1);
        self.trouble = Some(why);
    }

    /// What is to be made to last now, with the end of the current file.
    pub(super) fn take_unsynced(&mut self) -> Vec<Unsynced> {
        self.dirty = false;
        let mut parts = std::mem::take(&mut self.complete);
        parts.push(self.current());
        parts
    }

    /// The current file, as far as it is not known to last.
    pub(super) fn current(&self) -> Unsynced {
        Unsynced { file: self.trail.file(), from: self.unsynced, to: self.trail.length }
    }

    /// They last.
    pub(super) fn synced(&mut self, parts: &[Unsynced]) {
        let current = self.trail.file();
        for part in parts {
            if Arc::ptr_eq(&part.file, &current) && !self.sync_failed {
                self.unsynced = self.unsynced.max(part.to);
            }
        }
    }

    /// They may not.
    pub(super) fn sync_failed(&mut self, parts: Vec<Unsynced>, error: &io::Error) {
        let current = self.trail.file();
        self.complete.extend(parts.into_iter().filter(|part| !Arc::ptr_eq(&part.file, &current)));
        self.sync_failed = true;
        self.fail("make its lines last", error);
    }

    /// Before the server ends: nothing is kept that is not needed.
    pub(super) fn rest(&mut self) {
        if self.trouble.is_some() {
            // What cannot be written now is left in the journal.
            self.heal().ok();
        }
        self.journal.empty();
        self.trail.release();
    }
}

/// Says in the chain itself that there are calls without a line.
fn lost_line(count: u64) -> Vec<u8> {
    let mut text = Vec::new();
    json::member(&mut text, "time");
    time::write(&mut text, SystemTime::now());
    json::text(&mut text, "ended", Some(b"lost"));
    json::number(&mut text, "lost", Some(count));
    text
}
