//! Lines of a file, from its beginning or from its end, one at a time.
//!
//! Owns: bounded memory, however long a file or a line is. Must not: judge what
//! a line says.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// No line of ours is longer.
pub(crate) const LONGEST: usize = 1 << 20;

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// A line's digest as the next one gives it.
pub(crate) type Hash = [u8; 64];

/// What the first line of all gives in place of a digest.
pub(crate) const NOTHING: Hash = [b'0'; 64];

/// The digest of a line, without its end.
pub(crate) fn hash(line: &[u8]) -> Hash {
    let mut text = NOTHING;
    for (digits, byte) in text.as_chunks_mut().0.iter_mut().zip(Sha256::digest(line)) {
        *digits = super::json::digits_of(byte);
    }
    text
}

/// What makes a line one of the chain.
#[derive(Debug, Deserialize)]
pub(crate) struct Link {
    pub(crate) seq: u64,
    pub(crate) prev: String,
    #[serde(default)]
    pub(crate) call_id: Option<String>,
    /// What it is, where it is not the line of a call.
    #[serde(default)]
    pub(crate) kind: Option<String>,
}

impl Link {
    /// Reads a line; `None` where it is none of ours.
    pub(crate) fn read(line: &[u8]) -> Option<Link> {
        let clean = line.iter().all(|byte| (0x20..=0x7e).contains(byte));
        clean.then(|| serde_json::from_slice(line).ok()).flatten()
    }
}

/// A piece of a file up to the end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line; its end is left out.
    Line,
    /// The beginning of one that is not complete, or too long.
    Torn,
    /// The end of the file.
    End,
}

/// Lines from the beginning.
#[derive(Debug)]
pub(crate) struct Forward<R> {
    from: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Forward<R> {
    pub(crate) fn new(from: R) -> Forward<R> {
        Forward { from: BufReader::with_capacity(BLOCK, from), line: Vec::new() }
    }

    /// The next line; what was torn is gone on with at the next call, so that a
    /// line that is being written can be waited for.
    pub(crate) fn next(&mut self) -> io::Result<(Piece, &[u8])> {
        if self.line.last() == Some(&b'\n') || self.line.len() > LONGEST {
            self.line.clear();
        }
        let room = (LONGEST + 1).saturating_sub(self.line.len());
        let mut limited = (&mut self.from).take(u64::try_from(room).unwrap_or(0));
        limited.read_until(b'\n', &mut self.line)?;
        Ok(match self.line.strip_suffix(b"\n") {
            Some(line) => (Piece::Line, line),
            None if self.line.is_empty() => (Piece::End, &[]),
            None => (Piece::Torn, &self.line),
        })
    }
}

/// Complete lines, the last one first.
#[derive(Debug)]
pub(crate) struct Backward<'a> {
    file: &'a File,
    /// Where what is in `buffer` begins in the file.
    start: u64,
    buffer: Vec<u8>,
    /// Whether the last line's end was looked for.
    begun: bool,
    /// Behind that end.
    end: u64,
}

impl<'a> Backward<'a> {
    /// From the end of the file as it is now.
    pub(crate) fn new(file: &'a File) -> io::Result<Backward<'a>> {
        let start = file.metadata()?.len();
        Ok(Backward { file, start, buffer: Vec::new(), begun: false, end: 0 })
    }

    /// The line before the last one that was given, and where it begins. What
    /// stands behind the last end of a line is passed over; of a line that is too
    /// long it is an error.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            // Without the end of the line that is looked for.
            let looked = self.buffer.len().saturating_sub(usize::from(self.begun));
            let end = self
                .buffer
                .get(..looked)
                .and_then(|text| text.iter().rposition(|byte| *byte == b'\n'));
            match end {
                Some(at) if !self.begun => {
                    self.buffer.truncate(at + 1);
                    self.begun = true;
                    self.end = self.start.saturating_add(u64::try_from(at + 1).unwrap_or(0));
                }
                Some(at) => {
                    let line = self.buffer.split_off(at + 1);
                    return Ok(Some(self.give(line, at + 1)));
                }
                None if self.start == 0 && self.begun && !self.buffer.is_empty() => {
                    let line = std::mem::take(&mut self.buffer);
                    return Ok(Some(self.give(line, 0)));
                }
                None if self.start == 0 => return Ok(None),
                None if self.buffer.len() > LONGEST => {
                    return Err(io::Error::other("a line is too long to be one of the audit"));
                }
                None => self.read_before()?,
            }
        }
    }

    /// Where the last complete line ends, once a line was asked for.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    fn give(&self, mut line: Vec<u8>, at: usize) -> (u64, Vec<u8>) {
        line.pop();
        (self.start.saturating_add(u64::try_from(at).unwrap_or(0)), line)
    }

    fn read_before(&mut self) -> io::Result<()> {
        let length = usize::try_from(self.start).unwrap_or(BLOCK).min(BLOCK);
        let mut block = vec![0; length];
        let start = self.start.saturating_sub(u64::try_from(length).unwrap_or(0));
        self.file.read_exact_at(&mut block, start)?;
        block.extend_from_slice(&self.buffer);
        (self.buffer, self.start) = (block, start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn backwards(text: &[u8]) -> Vec<(u64, String)> {
        let file = file(text);
        let mut lines = Backward::new(&file).unwrap();
        let mut found = Vec::new();
        while let Some((at, line)) = lines.next().unwrap() {
            found.push((at, String::from_utf8(line).unwrap()));
        }
        found
    }

    #[test]
    fn lines_come_from_the_end_with_their_places() {
        let own = |lines: &[(u64, &str)]| -> Vec<(u64, String)> {
            lines.iter().map(|(at, line)| (*at, (*line).to_owned())).collect()
        };
        assert_eq!(backwards(b"one\ntwo\n"), own(&[(4, "two"), (0, "one")]));
        assert_eq!(backwards(b"one\ntwo\nto"), own(&[(4, "two"), (0, "one")]));
        assert_eq!(backwards(b"\n\n"), own(&[(1, ""), (0, "")]));
        assert_eq!(backwards(b"torn"), own(&[]));
        assert_eq!(backwards(b""), own(&[]));
        let long: Vec<String> = (0..5000).map(|n| format!("{n}{}", "x".repeat(n % 300))).collect();
        let found = backwards((long.join("\n") + "\n").as_bytes());
        let lines: Vec<String> = found.iter().rev().map(|(_, line)| line.clone()).collect();
        assert_eq!(lines, long);
        let wide = format!("{}\n{}\n", "a".repeat(200_000), "b".repeat(70_000));
        assert_eq!(backwards(wide.as_bytes())[0].0, 200_001);
    }

    #[test]
    fn a_line_that_is_being_written_is_waited_for() {
        let mut written = file(b"one\ntw");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&written));
        let mut lines = Forward::new(File::open(path).unwrap());
        let mut next = || {
            let (piece, line) = lines.next().unwrap();
            (piece, String::from_utf8(line.to_vec()).unwrap())
        };
        assert_eq!(next(), (Piece::Line, "one".into()));
        assert_eq!(next(), (Piece::Torn, "tw".into()));
        assert_eq!(next(), (Piece::Torn, "tw".into()));
        written.write_all(b"o\nthree\n").unwrap();
        assert_eq!(next(), (Piece::Line, "two".into()));
        assert_eq!(next(), (Piece::Line, "three".into()));
        assert_eq!(next(), (Piece::End, String::new()));
    }

    #[test]
    fn an_endless_line_takes_bounded_memory() {
        let mut lines = Forward::new(io::repeat(b'x'));
        let (piece, line) = lines.next().unwrap();
        assert_eq!((piece, line.len()), (Piece::Torn, LONGEST + 1));
        assert!(lines.next().unwrap().1.len() <= LONGEST + 1);
    }
}
