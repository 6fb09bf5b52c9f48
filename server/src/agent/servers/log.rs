//! What a program wrote last: lines, with numbers, in bounded room.
//!
//! Owns: cutting output into lines, and leaving out the oldest. Must not: know whose it is.

use std::collections::VecDeque;

use super::said::{Line, Lines};
use crate::agent::kept::text;

/// How many bytes of lines are kept.
const BYTES: usize = 256 * 1024;
/// What a line takes beside its bytes.
const LINE: usize = 32;
/// Where a line is cut that does not end.
const LONGEST: usize = 8 * 1024;
/// How many lines are given where the caller does not say, and at most.
const GIVEN: usize = 100;
const MOST_GIVEN: usize = 5000;

const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// The lines of one program.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: VecDeque<(usize, Vec<u8>)>,
    bytes: usize,
    /// How many there were before those.
    before: u64,
    /// What has not ended yet, of each stream.
    open: [Vec<u8>; 2],
}

impl Log {
    /// Takes what was written; whether a line has that text.
    pub(super) fn take(&mut self, stream: usize, bytes: &[u8], wanted: Option<&str>) -> bool {
        let wanted = wanted.map(str::as_bytes);
        let has = |line: &[u8]| {
            wanted.is_some_and(|text| line.windows(text.len().max(1)).any(|part| part == text))
        };
        let mut found = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = match piece.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (piece, false),
            };
            for part in piece.chunks(LONGEST) {
                let Some(open) = self.open.get_mut(stream) else { return found };
                if open.len() + part.len() > LONGEST {
                    self.close(stream);
                }
                let Some(open) = self.open.get_mut(stream) else { return found };
                // Only what is new, and what a text may begin in.
                let from = open.len().saturating_sub(wanted.map_or(0, <[u8]>::len));
                open.extend_from_slice(part);
                found = found || has(open.get(from..).unwrap_or_default());
            }
            if ends {
                self.close(stream);
            }
        }
        found
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        for stream in 0..STREAMS.len() {
            if self.open.get(stream).is_some_and(|open| !open.is_empty()) {
                self.close(stream);
            }
        }
    }

    fn close(&mut self, stream: usize) {
        let Some(open) = self.open.get_mut(stream) else { return };
        let mut line = std::mem::take(open);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        line.shrink_to_fit();
        self.bytes += line.len() + LINE;
        self.lines.push_back((stream, line));
        while self.bytes > BYTES
            && let Some((_, line)) = self.lines.pop_front()
        {
            self.bytes -= line.len() + LINE;
            self.before += 1;
        }
    }

    /// The number of the last line.
    pub(super) fn last(&self) -> u64 {
        self.before + self.lines.len() as u64
    }

    /// Some of the last ones.
    pub(super) fn last_lines(&self) -> Lines {
        self.lines(None, None)
    }

    /// Those after `since`, or the last ones; what has not ended yet only with these.
    pub(super) fn lines(&self, since: Option<u64>, most: Option<usize>) -> Lines {
        let most = most.unwrap_or(GIVEN).min(MOST_GIVEN);
        let last = self.last();
        let from = since.unwrap_or_else(|| last.saturating_sub(most as u64)).min(last);
        let skip = usize::try_from(from.saturating_sub(self.before)).unwrap_or(usize::MAX);
        let given = self.lines.iter().enumerate().skip(skip).take(most);
        let mut lines: Vec<Line> = given
            .map(|(place, (stream, line))| {
                self.line(self.before + place as u64 + 1, *stream, line.clone())
            })
            .collect();
        let next = lines.last().map_or(from.max(self.before), |line| line.number);
        if since.is_none() {
            for (stream, open) in self.open.iter().enumerate().filter(|(_, open)| !open.is_empty())
            {
                lines.push(self.line(last + 1, stream, open.clone()));
            }
        }
        let lost = match since {
            Some(since) => self.before.saturating_sub(since),
            None => 0,
        };
        Lines { lines, next, lost, more: next < last }
    }

    fn line(&self, number: u64, stream: usize, line: Vec<u8>) -> Line {
        let (text, encoding) = text(line);
        let stream = STREAMS.get(stream).copied().unwrap_or_default();
        Line { number, stream, text, encoding }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &Lines) -> Vec<(u64, &str)> {
        lines.lines.iter().map(|line| (line.number, line.text.as_str())).collect()
    }

    #[test]
    fn lines_have_numbers_and_what_has_not_ended_is_seen() {
        let mut log = Log::default();
        assert!(!log.take(0, b"one\r\ntw", Some("ready")));
        assert!(!log.take(1, b"err\n", Some("ready")));
        assert!(!log.take(0, b"o\nrea", Some("ready")));
        assert_eq!(texts(&log.lines(None, None)), [(1, "one"), (2, "err"), (3, "two"), (4, "rea")]);
        assert!(log.take(0, b"dy", Some("ready")), "in two pieces, without its end");
        let some = log.lines(Some(1), Some(1));
        assert_eq!((texts(&some), some.next, some.more), (vec![(2, "err")], 2, true));
        let rest = log.lines(Some(3), None);
        assert_eq!((texts(&rest), rest.next, rest.more), (vec![], 3, false));
        log.end();
        assert_eq!(texts(&log.lines(Some(3), None)), [(4, "ready")]);
        assert_eq!(texts(&log.lines(None, Some(1))), [(4, "ready")]);
        assert_eq!(log.lines(Some(99), None).next, 4);
    }

    #[test]
    fn the_oldest_are_left_out_and_counted_and_a_line_without_end_is_cut() {
        let mut log = Log::default();
        for _ in 0..100 {
            log.take(0, &[b'x'; 10_000], None);
        }
        assert!(log.bytes <= BYTES && log.open.iter().all(|open| open.len() <= LONGEST));
        for number in 0..100_000 {
            log.take(0, format!("{number}\n").as_bytes(), None);
        }
        assert!(log.bytes <= BYTES);
        let lines = log.lines(Some(0), Some(usize::MAX));
        assert!(lines.lines.len() <= MOST_GIVEN && lines.lost > 0 && lines.more);
        assert_eq!(lines.lines.first().unwrap().number, lines.lost + 1);
        let last = log.lines(None, Some(1));
        assert_eq!(last.lines.first().unwrap().text, "99999");
        log.take(1, &[0xff, b'\n'], None);
        assert_eq!(log.lines(None, Some(1)).lines.first().unwrap().encoding, "base64");
    }
}
