//! The journal: calls that have begun. An entry is there before a tool starts,
//! and void as soon as the call's line is in the audit.
//!
//! Owns: that the file stays short. It is emptied when nothing is open and it is
//! long enough for that to be worth a system call, and written anew, beside
//! itself, where little of it is still open. Must not: know what is in an entry.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use serde::Deserialize;

use super::files::{self, JOURNAL, NEW};
use super::json;
use super::read::{Forward, Piece};
use super::trail::{allocate, write_whole};

/// Room is taken in such steps.
const STEP: u64 = 256 * 1024;
/// So long it may become before it is emptied.
const EMPTIED_AT: u64 = 512 * 1024;
/// And before it is written anew, where not half of it is open.
const ANEW_AT: u64 = 1024 * 1024;

/// An entry's number within this run.
pub(super) type Number = u64;

/// Where an entry stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    length: u64,
}

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    file: Arc<File>,
    length: u64,
    /// Up to here there is room on the disk, where the file system keeps any.
    room: Option<u64>,
    open: HashMap<Number, Place>,
    live: u64,
    next: Number,
    line: Vec<u8>,
}

/// An entry that a server has left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) number: Number,
    pub(super) call_id: String,
    /// The number of the last line when it began: its own has a greater one.
    pub(super) after: u64,
}

#[derive(Deserialize)]
struct Entry {
    after: u64,
    call_id: String,
}

impl Journal {
    /// Opens the journal and reads what is in it. A torn end is cut off; so
    /// many bytes are told.
    pub(super) fn open(directory: &Path) -> io::Result<(Journal, Vec<Left>, u64)> {
        let file = Arc::new(files::open(&directory.join(JOURNAL))?);
        let mut journal = Journal {
            directory: directory.to_owned(),
            file: Arc::clone(&file),
            length: 0,
            room: Some(0),
            open: HashMap::new(),
            live: 0,
            next: 0,
            line: Vec::new(),
        };
        let (mut left, mut torn) = (Vec::new(), 0);
        let mut lines = Forward::new(&*file);
        loop {
            let (piece, line) = lines.next()?;
            let size = u64::try_from(line.len()).unwrap_or(u64::MAX);
            match piece {
                Piece::End => break,
                Piece::Torn => {
                    torn = file.metadata()?.len().saturating_sub(journal.length);
                    file.set_len(journal.length)?;
                    break;
                }
                Piece::Line => {
                    let place = Place { at: journal.length, length: size.saturating_add(1) };
                    // What a power cut has left in place of an entry says nothing.
                    if let Ok(Entry { after, call_id }) = serde_json::from_slice(line) {
                        let number = journal.note(place);
                        left.push(Left { number, call_id, after });
                    }
                    journal.length = journal.length.saturating_add(place.length);
                }
            }
        }
        Ok((journal, left, torn))
    }

    /// How many are open.
    pub(super) fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// The file.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Writes an entry: the members of the call's line so far.
    pub(super) fn begin(&mut self, after: u64, text: &[u8]) -> io::Result<Number> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        line.extend_from_slice(b"{\"after\":");
        json::digits(&mut line, after, 1);
        line.extend_from_slice(text);
        line.extend_from_slice(b"}\n");
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let reserved = self.reserve(length);
        let written = reserved.and_then(|()| write_whole(&self.file, &line, self.length));
        line.shrink_to(8 * 1024);
        self.line = line;
        written?;
        let place = Place { at: self.length, length };
        self.length = self.length.saturating_add(length);
        Ok(self.note(place))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.room.is_none_or(|room| room >= self.length.saturating_add(bytes))
    }

    /// Makes sure that so many bytes can be written.
    pub(super) fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let reserved = self.take_room(bytes);
        if reserved.is_err() && self.open.is_empty() && self.length > 0 {
            // What is void takes the room that is needed.
            self.empty();
            return Ok(self.take_room(bytes)?);
        }
        Ok(reserved?)
    }

    fn take_room(&mut self, bytes: u64) -> Result<(), Errno> {
        if let Some(room) = self.room.filter(|_| !self.has_room(bytes)) {
            let wanted = self.length.saturating_add(bytes);
            self.room = allocate(&self.file, room, wanted, STEP)?;
        }
        Ok(())
    }

    fn note(&mut self, place: Place) -> Number {
        self.next = self.next.wrapping_add(1);
        self.live = self.live.saturating_add(place.length);
        self.open.insert(self.next, place);
        self.next
    }

    /// The members that an entry has kept.
    pub(super) fn text(&self, number: Number) -> io::Result<Vec<u8>> {
        let place = self.open.get(&number).ok_or(io::ErrorKind::NotFound)?;
        let mut line = vec![0; usize::try_from(place.length).unwrap_or(0)];
        self.file.read_exact_at(&mut line, place.at)?;
        let end = line.len().saturating_sub(b"}\n".len());
        let comma = line.iter().position(|byte| *byte == b',').unwrap_or(end);
        Ok(line.get(comma..end).unwrap_or_default().to_vec())
    }

    /// The call has its line.
    pub(super) fn void(&mut self, number: Number) {
        if let Some(place) = self.open.remove(&number) {
            self.live = self.live.saturating_sub(place.length);
        }
        if self.open.is_empty() && self.length >= EMPTIED_AT {
            self.empty();
        }
    }

    /// Takes all away, where nothing is open.
    pub(super) fn empty(&mut self) {
        if self.open.is_empty() && self.length > 0 && self.file.set_len(0).is_ok() {
            self.length = 0;
            self.room = self.room.map(|_| 0);
        }
    }

    /// Whether it should be written anew.
    pub(super) fn is_long(&self) -> bool {
        self.length >= ANEW_AT && self.live.saturating_mul(2) < self.length
    }

    /// Writes what is open into another file, which takes this one's place. Where
    /// that fails, this one stays.
    pub(super) fn anew(&mut self, synced: bool) -> io::Result<()> {
        if self.open.is_empty() {
            self.empty();
            return Ok(());
        }
        let path = self.directory.join(JOURNAL);
        let new = self.directory.join(format!("{JOURNAL}{NEW}"));
        let written = self.copy(&new, synced).and_then(|copied| {
            std::fs::rename(&new, &path)?;
            Ok(copied)
        });
        match written {
            Ok((file, length, open)) => {
                (self.file, self.length, self.open) = (Arc::new(file), length, open);
                self.room = self.room.map(|_| length);
                Ok(())
            }
            Err(error) => {
                std::fs::remove_file(&new).ok();
                Err(error)
            }
        }
    }

    fn copy(&self, new: &Path, synced: bool) -> io::Result<(File, u64, HashMap<Number, Place>)> {
        let file = files::make(new)?;
        let mut order: Vec<(Number, Place)> = self.open.iter().map(|(n, p)| (*n, *p)).collect();
        order.sort_by_key(|(_, place)| place.at);
        let (mut length, mut open) = (0u64, HashMap::new());
        for (number, place) in order {
            let mut line = vec![0; usize::try_from(place.length).unwrap_or(0)];
            self.file.read_exact_at(&mut line, place.at)?;
            file.write_all_at(&line, length)?;
            open.insert(number, Place { at: length, length: place.length });
            length = length.saturating_add(place.length);
        }
        if synced {
            file.sync_data()?;
        }
        Ok((file, length, open))
    }
}
