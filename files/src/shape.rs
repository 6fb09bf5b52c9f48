//! Bytes as an agent gets them: as lines, as text, in pieces.
//!
//! Owns: what is text and what is not, where a piece begins and where it is cut. Text is
//! UTF-8 without a NUL; all else is bytes, and never made to look like text. Must not:
//! open or read files.

use std::fmt::Write;

use memchr::{memchr, memchr_iter, memrchr};

/// What was seen of a file that is read from its beginning.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) bytes: u64,
    newlines: u64,
    open_line: bool,
    /// The beginning of a character whose rest is to come.
    partial: Vec<u8>,
    binary: bool,
}

impl Seen {
    pub(crate) fn update(&mut self, chunk: &[u8]) {
        self.bytes += count(chunk.len());
        if let Some(last) = chunk.last() {
            self.open_line = *last != b'\n';
        }
        if self.binary {
            return;
        }
        self.newlines += count(memchr_iter(b'\n', chunk).count());
        self.binary = memchr(0, chunk).is_some() || !self.utf8(chunk);
    }

    fn utf8(&mut self, mut chunk: &[u8]) -> bool {
        while !self.partial.is_empty() {
            let Some((byte, rest)) = chunk.split_first() else { return true };
            self.partial.push(*byte);
            chunk = rest;
            match std::str::from_utf8(&self.partial) {
                Ok(_) => self.partial.clear(),
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match std::str::from_utf8(chunk) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                self.partial.extend(chunk.get(error.valid_up_to()..).unwrap_or_default());
                true
            }
        }
    }

    /// Whether all of it was text.
    pub(crate) fn text(&self) -> bool {
        !self.binary && self.partial.is_empty()
    }

    /// A last one without a newline is one.
    pub(crate) fn lines(&self) -> u64 {
        self.newlines + u64::from(self.open_line)
    }
}

/// Where a piece begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At this line; the first is 1.
    Line(u64),
    /// At this byte; the first is 0.
    Byte(u64),
}

/// Gathers one piece of what comes by.
#[derive(Debug)]
pub(crate) struct Gather {
    start: Start,
    /// Lines to take.
    lines: Option<u64>,
    /// Bytes to take; one more shows that there is more.
    limit: usize,
    /// The next byte that comes, and its line.
    pub(crate) byte: u64,
    pub(crate) line: u64,
    begun: bool,
    pub(crate) bytes: Vec<u8>,
    done: bool,
}

impl Gather {
    /// From `start`, at most `lines` and about `limit` bytes; `byte` is the first that comes.
    pub(crate) fn new(start: Start, lines: Option<u64>, limit: usize, byte: u64) -> Gather {
        let begun = matches!(start, Start::Line(0 | 1)) || start == Start::Byte(byte);
        Gather { start, lines, limit, byte, line: 1, begun, bytes: Vec::new(), done: false }
    }

    /// Whether it wants no more.
    pub(crate) fn done(&self) -> bool {
        self.done
    }

    /// Whether it came to where the piece begins; `byte` and `line` are there.
    pub(crate) fn begun(&self) -> bool {
        self.begun
    }

    pub(crate) fn take(&mut self, chunk: &[u8]) {
        let rest = if self.begun { chunk } else { self.seek(chunk) };
        if !self.begun || self.done {
            return;
        }
        let room = (self.limit + 1).saturating_sub(self.bytes.len());
        let part = rest.get(..room).unwrap_or(rest);
        let mut end = part.len();
        if let Some(left) = self.lines.as_mut() {
            for newline in memchr_iter(b'\n', part) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    (end, self.done) = (newline + 1, true);
                    break;
                }
            }
        }
        self.bytes.extend(part.get(..end).unwrap_or(part));
        self.done |= self.bytes.len() > self.limit;
    }

    /// Passes what is before the piece.
    fn seek<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let mut passed = 0;
        match self.start {
            Start::Line(start) => {
                for newline in memchr_iter(b'\n', chunk) {
                    self.line += 1;
                    if self.line == start {
                        (passed, self.begun) = (newline + 1, true);
                        break;
                    }
                }
            }
            Start::Byte(start) => {
                let skip = usize::try_from(start - self.byte).unwrap_or(usize::MAX);
                passed = skip.min(chunk.len());
                let before = chunk.get(..passed).unwrap_or_default();
                self.line += count(memchr_iter(b'\n', before).count());
                self.begun = skip <= chunk.len();
            }
        }
        if !self.begun {
            passed = chunk.len();
        }
        self.byte += count(passed);
        chunk.get(passed..).unwrap_or_default()
    }
}

/// A piece of text, cut where it had to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// How many bytes of the file.
    pub(crate) bytes: usize,
    /// Lines that begin, or go on, in it.
    pub(crate) lines: u64,
}

/// The beginning of `bytes` that fits `limit`, cut at a line's end, or in a line that does
/// not fit at a character's; with the numbers of the lines, where the first is known and
/// they are wanted. None: it is no text.
pub(crate) fn piece(bytes: &[u8], limit: usize, number: Option<u64>) -> Option<Piece> {
    let Some(mut number) = number else {
        let text = whole(bytes.get(..fitting(bytes, limit))?)?;
        let lines = lines(text.as_bytes());
        return Some(Piece { bytes: text.len(), text: text.to_owned(), lines });
    };
    let mut piece = Piece { text: String::new(), bytes: 0, lines: 0 };
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let before = piece.text.len();
        write!(piece.text, "{number:>6}\t").unwrap_or_default();
        let room = limit.saturating_sub(piece.text.len());
        if line.len() > room && piece.lines > 0 {
            piece.text.truncate(before);
            break;
        }
        let line = whole(line.get(..fitting(line, room.max(1)))?)?;
        piece.text.push_str(line);
        (piece.bytes, piece.lines) = (piece.bytes + line.len(), piece.lines + 1);
        number += 1;
    }
    Some(piece)
}

/// How much of it fits.
fn fitting(bytes: &[u8], limit: usize) -> usize {
    let Some(within) = bytes.get(..limit).filter(|within| within.len() < bytes.len()) else {
        return bytes.len();
    };
    if let Some(newline) = memrchr(b'\n', within) {
        return newline + 1;
    }
    match std::str::from_utf8(within) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => within.len(),
    }
}

fn whole(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// A last one without a newline is one.
pub(crate) fn lines(bytes: &[u8]) -> u64 {
    let open = bytes.last().is_some_and(|last| *last != b'\n');
    count(memchr_iter(b'\n', bytes).count()) + u64::from(open)
}

/// In this process's memory, so it fits.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_is_known_however_it_comes(bytes in prop::collection::vec(any::<u8>(), 0..40),
            text in "\\PC{0,20}", size in 1_usize..7, which: bool) {
            let bytes = if which { text.into_bytes() } else { bytes };
            let mut seen = Seen::default();
            bytes.chunks(size).for_each(|chunk| seen.update(chunk));
            prop_assert_eq!(seen.text(), whole(&bytes).is_some());
            if seen.text() {
                prop_assert_eq!(seen.lines(), lines(&bytes));
            }
        }

        #[test]
        fn pieces_of_lines_and_bytes_are_those_of_a_naive_reader(
            text in "[ab\n]{0,60}", size in 1_usize..9, from in 0_usize..12, take in 1_usize..5) {
            let naive: Vec<&str> = text.split_inclusive('\n').collect();
            let mut gather = Gather::new(Start::Line(count(from) + 1), Some(count(take)), 1000, 0);
            text.as_bytes().chunks(size).for_each(|chunk| gather.take(chunk));
            let expected: String =
                naive.iter().skip(from).take(take).copied().collect();
            prop_assert_eq!(&gather.bytes, expected.as_bytes());
            let mut gather = Gather::new(Start::Byte(count(from)), None, 1000, 0);
            text.as_bytes().chunks(size).for_each(|chunk| gather.take(chunk));
            let after = text.as_bytes().get(from..).unwrap_or_default();
            prop_assert_eq!(&gather.bytes, after);
        }

        #[test]
        fn a_text_is_whole_again_when_its_pieces_are_put_together(
            text in "[aé€\n]{0,80}", limit in 12_usize..40, numbers: bool) {
            let (mut rest, mut again, mut number) = (text.as_bytes(), String::new(), 1);
            while !rest.is_empty() {
                let piece = piece(rest, limit, numbers.then_some(number)).unwrap();
                prop_assert!(piece.bytes > 0);
                prop_assert!(piece.text.len() <= limit);
                again.push_str(std::str::from_utf8(&rest[..piece.bytes]).unwrap());
                rest = &rest[piece.bytes..];
                number += piece.lines;
            }
            prop_assert_eq!(again, text);
        }
    }

    #[test]
    fn a_piece_is_cut_at_a_lines_end() {
        let cut = piece(b"one\ntwo\nthree\n", 9, None).unwrap();
        assert_eq!((cut.text.as_str(), cut.bytes, cut.lines), ("one\ntwo\n", 8, 2));
        let cut = piece("éé".as_bytes(), 3, None).unwrap();
        assert_eq!((cut.text.as_str(), cut.bytes, cut.lines), ("é", 2, 1));
        let cut = piece(b"a\nb", 100, Some(9)).unwrap();
        assert_eq!(cut.text, "     9\ta\n    10\tb");
        assert_eq!(piece(b"\xff", 9, None), None);
        assert_eq!(piece(b"a\0", 9, Some(1)), None);
    }
}
