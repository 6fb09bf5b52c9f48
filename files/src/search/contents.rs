//! A thread of a search by content.
//!
//! Owns: opening a file (only a regular one, without waiting), reading it, and telling text
//! from what is none: a file with a NUL byte is binary, but for UTF-16 with its mark, which
//! is read as text. A file's results count once it is read as far as they need. Must not:
//! go by a name more than once.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;

use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use serde_json::Value;

use super::lines::Lines;
use super::{Found, Line, Search, Searching, Tally, give};
use crate::Stop;
use crate::best::Best;
use crate::shown::Bytes;
use crate::walk::{self, Kind, Visit, What};

/// Files up to this are read whole, into memory that a thread keeps.
const SMALL: usize = 256 * 1024;
/// What a thread may use for a line of a larger one.
const HEAP: usize = 8 << 20;

const OPEN: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

pub(super) struct Contents<'a> {
    search: &'a Search,
    matcher: RegexMatcher,
    best: &'a Best<Found>,
    stop: &'a Stop,
    give: Option<SyncSender<Value>>,
    tally: Tally,
    buffer: Vec<u8>,
    whole: Searcher,
    parts: Searcher,
}

impl<'a> Contents<'a> {
    pub(super) fn new(
        search: &'a Search,
        matcher: &RegexMatcher,
        best: &'a Best<Found>,
        stop: &'a Stop,
        give: Option<SyncSender<Value>>,
    ) -> Contents<'a> {
        let mut builder = SearcherBuilder::new();
        builder
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(search.before)
            .after_context(search.after);
        let whole = builder.binary_detection(BinaryDetection::none()).build();
        let parts =
            builder.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(HEAP)).build();
        Contents {
            search,
            // Its own: threads do not wait for each other's scratch.
            matcher: matcher.clone(),
            best,
            stop,
            give,
            tally: Tally::default(),
            buffer: Vec::new(),
            whole,
            parts,
        }
    }

    /// A file that is open.
    fn file(&mut self, file: std::fs::File, path: &[u8]) -> ControlFlow<()> {
        let skipped = &mut self.tally.skipped;
        let Ok(stat) = fstat(&file) else {
            skipped.unreadable += 1;
            return ControlFlow::Continue(());
        };
        if Kind::of(stat.st_mode) != Kind::File {
            return ControlFlow::Continue(());
        }
        let most = self.search.max_file_bytes;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > most {
            skipped.too_large += 1;
            return ControlFlow::Continue(());
        }
        let around = (self.search.before, self.search.after);
        let mut lines = Lines::new(&self.matcher, around, self.search.most);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let done = match size <= SMALL {
            true => small(&mut self.whole, &self.matcher, file, &mut self.buffer, &mut lines),
            false => {
                let file = Checked { file: file.take(most), stop: self.stop };
                self.parts.search_reader(&self.matcher, file, &mut lines)
            }
        };
        match done {
            Ok(()) if lines.binary => skipped.binary += 1,
            Ok(()) => {
                self.tally.searched += 1;
                let Lines { found, more, .. } = lines;
                return self.offer(found, more, path);
            }
            Err(_) if self.stop.check().is_err() => {}
            Err(error) if error.raw_os_error().is_some() => skipped.unreadable += 1,
            // The searcher's own: a line that does not fit.
            Err(_) => skipped.too_large += 1,
        }
        ControlFlow::Continue(())
    }

    fn offer(&mut self, found: Vec<Line>, more: bool, path: &[u8]) -> ControlFlow<()> {
        if found.is_empty() {
            return ControlFlow::Continue(());
        }
        let shown = Bytes(self.search.start.show(path));
        for mut line in found {
            let number = line.line;
            line.path = shown.clone();
            let line = Found::Line(line);
            let value = self.give.as_ref().and_then(|_| serde_json::to_value(&line).ok());
            let kept = self.best.offer(path, number, || Some(line));
            match kept {
                ControlFlow::Continue(kept) => give(self.give.as_ref().filter(|_| kept), value),
                ControlFlow::Break(()) => return ControlFlow::Break(()),
            }
        }
        match more {
            true => self.best.reject(),
            false => ControlFlow::Continue(false),
        }?;
        ControlFlow::Continue(())
    }
}

impl Visit for Contents<'_> {
    fn enter(&mut self, path: &[u8]) -> bool {
        self.search.enters(path, self.best)
    }

    fn found(&mut self, found: &walk::Found<'_>) -> ControlFlow<()> {
        if found.kind != Kind::File
            || !self.search.filter.takes(self.search.below(found.path))
            || self.best.beyond(found.path)
        {
            return ControlFlow::Continue(());
        }
        match openat(found.directory, found.name, OPEN, Mode::empty()) {
            Ok(file) => self.file(file.into(), found.path),
            Err(errno) => {
                // Gone, or something else by now, is not unreadable.
                if !matches!(errno, Errno::ENOENT | Errno::ELOOP | Errno::ENXIO) {
                    self.tally.skipped.unreadable += 1;
                }
                ControlFlow::Continue(())
            }
        }
    }
}

impl Searching for Contents<'_> {
    fn one(&mut self, file: &What, path: &[u8]) {
        let What::File(file, ..) = file else { return };
        match file.try_clone() {
            // There is no other file to stop for.
            Ok(file) => drop(self.file(file.into(), path)),
            Err(_) => self.tally.skipped.unreadable += 1,
        }
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// Reads a file whole, and searches that.
fn small(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    mut file: std::fs::File,
    buffer: &mut Vec<u8>,
    lines: &mut Lines<'_>,
) -> io::Result<()> {
    // One byte more than is expected: a short answer is the end, without asking again.
    buffer.resize(SMALL + 1, 0);
    let mut filled = 0;
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        let length = room.len();
        let count = match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        filled += count;
        if count < length {
            break;
        }
        if filled > SMALL {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
    }
    let text = buffer.get(..filled).unwrap_or_default();
    let wide = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    if !wide && memchr::memchr(0, text).is_some() {
        lines.binary = true;
        return Ok(());
    }
    searcher.search_slice(matcher, text, lines)
}

/// A file that ends when it is time to stop.
struct Checked<'a> {
    file: io::Take<std::fs::File>,
    stop: &'a Stop,
}

impl Read for Checked<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.stop.check() {
            Ok(()) => self.file.read(room),
            Err(why) => Err(io::Error::other(why)),
        }
    }
}
