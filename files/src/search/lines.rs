//! Lines as results have them.
//!
//! Owns: which lines are around a match, and cutting what is long. Must not: read a file.

use std::collections::VecDeque;
use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::Line;
use crate::best::{ROOM, size_of};
use crate::shown::Bytes;

/// The longest line that is given whole, in bytes.
const WIDEST: usize = 1000;
/// What is given before a match in a longer one.
const LEFT: usize = 200;
const CUT: &str = "…";

/// Takes the lines of one file.
pub(super) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    before: usize,
    after: usize,
    most: usize,
    /// The results, up to so many, without the path.
    pub(super) found: Vec<Line>,
    /// Whether there are more.
    pub(super) more: bool,
    /// What they take in an answer: beyond its room nothing is kept.
    size: usize,
    /// Whether a NUL byte was met.
    pub(super) binary: bool,
    last: VecDeque<(u64, Bytes)>,
    /// The first of those that still want lines after them.
    open: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(
        matcher: &'a RegexMatcher,
        (before, after): (usize, usize),
        most: usize,
    ) -> Lines<'a> {
        let (found, last) = (Vec::new(), VecDeque::new());
        Lines {
            matcher,
            before,
            after,
            most,
            found,
            more: false,
            size: 0,
            binary: false,
            last,
            open: 0,
        }
    }

    /// A line that was met; false: nothing more is wanted.
    fn line(&mut self, number: u64, line: &[u8], matches: bool) -> bool {
        let line = without_end(line);
        if self.before + self.after > 0 {
            self.around(number, line);
        }
        if matches && self.found.len() < self.most && self.size <= ROOM {
            self.result(number, line);
        } else if matches {
            self.more = true;
        }
        if self.before > 0 {
            if self.last.len() == self.before {
                self.last.pop_front();
            }
            self.last.push_back((number, Bytes(cut(line, 0).0)));
        }
        !self.more || self.open < self.found.len()
    }

    /// To those before it that want it.
    fn around(&mut self, number: u64, line: &[u8]) {
        let after = u64::try_from(self.after).unwrap_or(u64::MAX);
        let open = self.found.get_mut(self.open..).unwrap_or_default();
        for result in open {
            match number - result.line <= after {
                true => {
                    let line = cut(line, 0).0;
                    self.size += size_of(&line);
                    result.after.push(Bytes(line));
                }
                false => self.open += 1,
            }
        }
        let open = self.found.get(self.open..).unwrap_or_default();
        self.open += open.iter().take_while(|result| result.after.len() >= self.after).count();
    }

    fn result(&mut self, number: u64, line: &[u8]) {
        let at = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let (text, cut) = cut(line, at);
        let before = u64::try_from(self.before).unwrap_or(u64::MAX);
        let last = self.last.iter().filter(|(other, _)| number - other <= before);
        if self.after == 0 {
            self.open += 1;
        }
        let result = Line {
            path: Bytes::default(),
            line: number,
            column: u64::try_from(at).unwrap_or(0) + 1,
            text: Bytes(text),
            cut,
            before: last.map(|(_, line)| line.clone()).collect(),
            after: Vec::new(),
        };
        self.size += result.size();
        self.found.push(result);
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        Ok(self.line(found.line_number().unwrap_or(0), found.bytes(), true))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.line(context.line_number().unwrap_or(0), context.bytes(), false))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line, or the part of it around `at` with marks where it goes on; whether it is cut.
/// Characters stay whole.
fn cut(line: &[u8], at: usize) -> (Vec<u8>, bool) {
    if line.len() <= WIDEST {
        return (line.to_vec(), false);
    }
    let latest = line.len() - WIDEST;
    let begin = boundary(line, at.saturating_sub(LEFT).min(latest));
    let end = boundary(line, begin + WIDEST);
    let mut text = Vec::with_capacity(WIDEST + 2 * CUT.len());
    if begin > 0 {
        text.extend_from_slice(CUT.as_bytes());
    }
    text.extend_from_slice(line.get(begin..end).unwrap_or_default());
    if end < line.len() {
        text.extend_from_slice(CUT.as_bytes());
    }
    (text, true)
}

/// Where the character that is at `at` begins.
fn boundary(line: &[u8], at: usize) -> usize {
    let at = at.min(line.len());
    let within = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let back = (at.saturating_sub(3)..=at).rev().find(|at| !within(at));
    back.unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_its_match_between_characters() {
        let line = format!("{}needle{}", "é".repeat(5000), "ü".repeat(5000));
        let at = line.find("needle").unwrap();
        let (text, was_cut) = cut(line.as_bytes(), at);
        let text = String::from_utf8(text).unwrap();
        assert!(was_cut && text.contains("needle") && text.len() <= WIDEST + 6);
        assert!(text.starts_with('…') && text.ends_with('…'));
        let (text, _) = cut(line.as_bytes(), 0);
        assert!(text.starts_with("é".as_bytes()) && text.ends_with("…".as_bytes()));
        let (text, _) = cut(line.as_bytes(), line.len());
        assert!(text.ends_with("ü".as_bytes()));
        assert_eq!(cut(&[0x80; WIDEST + 1], 0).0.len(), WIDEST + 3);
    }
}
