//! At the start: the end of the chain is found, what was torn is cut off, and
//! calls that a killed server has left get their line.
//!
//! Killed again meanwhile, the next start goes on where this one was: an entry
//! whose call has a line is passed over.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Options;
use super::echo::Echo;
use super::error::AuditError;
use super::files::{self, CURRENT, JOURNAL, NEW};
use super::journal::{Journal, Left};
use super::keeper::Keeper;
use super::read::{Backward, Hash, Link, NOTHING, hash};
use super::record::Ended;
use super::trail::Trail;
use crate::config::AuditSync;

/// What was found at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Calls that were under way when the server before was killed.
    pub(crate) interrupted: usize,
    /// Bytes of lines that were not complete.
    pub(crate) torn: u64,
}

/// Opens the audit.
pub(super) fn open(options: Options) -> Result<(Keeper, Recovered), AuditError> {
    let directory = files::directory(&options.state_dir);
    files::make_directory(&directory).map_err(AuditError::open(&directory))?;
    for name in [CURRENT, JOURNAL] {
        let left = directory.join(format!("{name}{NEW}"));
        match std::fs::remove_file(&left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(AuditError::Open { path: left, source: error });
            }
            _ => {}
        }
    }
    let path = directory.join(CURRENT);
    let file = files::open(&path).map_err(AuditError::open(&path))?;
    let mut recovered = Recovered::default();
    let found = cut(&file).and_then(|(length, torn)| {
        recovered.torn = torn;
        Ok((length, find_end(&directory, &file)?))
    });
    let (length, (first, end)) = found.map_err(AuditError::open(&path))?;
    let path = directory.join(JOURNAL);
    let (journal, left, torn) = Journal::open(&directory).map_err(AuditError::open(&path))?;
    recovered.torn = recovered.torn.saturating_add(torn);
    let left = without_line(&directory, left).map_err(AuditError::open(&directory))?;
    let sync = options.sync;
    let trail = Trail::new(directory.clone(), file, length, first, end);
    let echo = options.stdout.then(Echo::start).transpose().map_err(AuditError::Thread)?;
    let mut keeper = Keeper::new(options, trail, journal, echo.map(Arc::new));
    for (entry, ended) in left {
        if ended {
            keeper.journal.void(entry.number);
            continue;
        }
        let mut text = keeper.journal.text(entry.number).map_err(AuditError::open(&path))?;
        Ended::INTERRUPTED.write(&mut text);
        keeper.interrupted(entry.number, text);
        recovered.interrupted += 1;
    }
    if keeper.trouble.is_none() {
        if sync != AuditSync::Never {
            let last = keeper.trail.file().sync_data();
            last.and_then(|()| files::sync_directory(&directory))
                .map_err(AuditError::open(&directory))?;
        }
        keeper.journal.empty();
    }
    // A disk that is full is known before the first call.
    if let Err(error) = keeper.heal() {
        keeper.fail("be written", &error);
    }
    Ok((keeper, recovered))
}

/// Cuts off what stands behind the last end of a line; gives what is left, and
/// how much was cut.
fn cut(file: &File) -> io::Result<(u64, u64)> {
    let size = file.metadata()?.len();
    let mut lines = Backward::new(file)?;
    lines.next()?;
    let end = lines.end();
    if end < size {
        file.set_len(end)?;
    }
    Ok((end, size.saturating_sub(end)))
}

/// The number of the current file's first line; the number and the digest of the
/// last line of all. Where a line cannot be read it still counts: the chain goes
/// on behind it, and whoever verifies it is told of that line.
fn find_end(directory: &Path, current: &File) -> io::Result<(u64, (u64, Hash))> {
    if let Some(end) = last_of(current)? {
        let first = match super::read::Forward::new(current).next()? {
            (super::read::Piece::Line, line) => Link::read(line).map(|link| link.seq),
            _ => None,
        };
        return Ok((first.unwrap_or(end.0), end));
    }
    for (_, path) in files::complete(directory)?.into_iter().rev() {
        if let Some(end) = last_of(&File::open(path)?)? {
            return Ok((end.0.saturating_add(1), end));
        }
    }
    Ok((1, (0, NOTHING)))
}

fn last_of(file: &File) -> io::Result<Option<(u64, Hash)>> {
    let mut lines = Backward::new(file)?;
    let mut head = None;
    let mut behind = 0u64;
    while let Some((_, line)) = lines.next()? {
        let head = *head.get_or_insert_with(|| hash(&line));
        if let Some(link) = Link::read(&line) {
            return Ok(Some((link.seq.saturating_add(behind), head)));
        }
        behind += 1;
    }
    Ok(head.map(|head| (behind, head)))
}

/// The entries of the journal, and whether they are void: their calls have a
/// line, or another entry behind this one.
fn without_line(directory: &Path, left: Vec<Left>) -> io::Result<Vec<(Left, bool)>> {
    let Some(oldest) = left.iter().map(|entry| entry.after).min() else { return Ok(Vec::new()) };
    let mut found: HashMap<String, u64> = HashMap::new();
    'files: for mut part in files::parts(directory)?.into_iter().rev() {
        let Some(file) = part.open()? else { continue };
        let mut lines = Backward::new(&file)?;
        while let Some((_, line)) = lines.next()? {
            let Some(link) = Link::read(&line) else { continue };
            if link.seq <= oldest {
                break 'files;
            }
            // A call's requests have lines too: they are not its end.
            if let (Some(call_id), None) = (link.call_id, link.kind) {
                found.entry(call_id).or_insert(link.seq);
            }
        }
    }
    let last: HashMap<String, u64> =
        left.iter().map(|entry| (entry.call_id.clone(), entry.number)).collect();
    let ended = |entry: &Left| {
        found.get(&entry.call_id).is_some_and(|seq| *seq > entry.after)
            || last.get(&entry.call_id) != Some(&entry.number)
    };
    Ok(left
        .into_iter()
        .map(|entry| {
            let ended = ended(&entry);
            (entry, ended)
        })
        .collect())
}
