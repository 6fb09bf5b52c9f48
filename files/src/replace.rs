//! Text found and replaced.
//!
//! Owns: one replacement after the other on text in memory, what of the text they touched,
//! and where a text is found that should be there once. Must not: open or read files, or
//! change a byte that was not found.

use std::ops::Range;

use memchr::memmem::{Finder, find_iter};
use memchr::{memchr_iter, memmem};

use crate::shape::count;

/// How many places are replaced at once.
pub(crate) const MOST: usize = 1_000_000;
/// How many lines a message names.
const NAMED: usize = 5;

/// A text that is replaced, step by step.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    /// What replacements put there, in order, apart from one another.
    touched: Vec<Range<usize>>,
    pub(crate) replacements: u64,
}

/// Why a text is not replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is not there.
    NotFound,
    /// It is there so many times, first in these lines.
    NotUnique(u64, Vec<u64>),
    /// The result would be larger than the limit.
    TooLarge,
    /// It is there more often than is replaced at once.
    TooMany,
}

impl Text {
    pub(crate) fn new(bytes: Vec<u8>) -> Text {
        Text { bytes, touched: Vec::new(), replacements: 0 }
    }

    /// Replaces what is there once, or `all` of it, from the beginning and apart from one
    /// another. On trouble nothing changes. `old` is not empty.
    pub(crate) fn replace(
        &mut self,
        old: &[u8],
        new: &[u8],
        all: bool,
        limit: usize,
    ) -> Result<(), Trouble> {
        let spots: Vec<usize> = match all {
            true => find_iter(&self.bytes, old).take(MOST + 1).collect(),
            false => self.only(old)?,
        };
        if spots.is_empty() {
            return Err(Trouble::NotFound);
        }
        if spots.len() > MOST {
            return Err(Trouble::TooMany);
        }
        let kept = self.bytes.len().saturating_sub(spots.len().saturating_mul(old.len()));
        let size = spots.len().saturating_mul(new.len()).saturating_add(kept);
        if size > limit {
            return Err(Trouble::TooLarge);
        }
        let (mut bytes, mut from) = (Vec::with_capacity(size), 0);
        let mut put = Vec::with_capacity(spots.len());
        for spot in &spots {
            bytes.extend(self.bytes.get(from..*spot).unwrap_or_default());
            put.push(bytes.len()..bytes.len() + new.len());
            bytes.extend(new);
            from = spot + old.len();
        }
        bytes.extend(self.bytes.get(from..).unwrap_or_default());
        self.bytes = bytes;
        self.replacements += count(spots.len());
        self.touch(&spots, old.len(), new.len(), put);
        Ok(())
    }

    /// Where it is, if it is there once. Places that overlap are two.
    fn only(&self, old: &[u8]) -> Result<Vec<usize>, Trouble> {
        let finder = Finder::new(old);
        let Some(first) = finder.find(&self.bytes) else { return Err(Trouble::NotFound) };
        let behind = self.bytes.get(first + 1..).unwrap_or_default();
        let Some(second) = finder.find(behind) else { return Ok(vec![first]) };
        let mut spots: Vec<usize> = finder.find_iter(&self.bytes).take(NAMED).collect();
        let mut times = count(finder.find_iter(&self.bytes).count());
        if spots.len() < 2 {
            (spots, times) = (vec![first, first + 1 + second], 2);
        }
        let mut lines = self.lines_of(&spots);
        lines.dedup();
        Err(Trouble::NotUnique(times, lines))
    }

    /// The lines of places that are in order.
    fn lines_of(&self, spots: &[usize]) -> Vec<u64> {
        let (mut line, mut from) = (1, 0);
        let of = |spot: &usize| {
            let between = self.bytes.get(from..*spot).unwrap_or_default();
            line += count(memchr_iter(b'\n', between).count());
            from = *spot;
            line
        };
        spots.iter().map(of).collect()
    }

    /// Moves what was touched before to where it is now, and adds what was put.
    fn touch(&mut self, spots: &[usize], old: usize, new: usize, mut put: Vec<Range<usize>>) {
        // A place in the text before, in the text now; one within what was replaced is at
        // the beginning or the end of what it was replaced by.
        let moved = |place: usize, end: bool| {
            let before = spots.partition_point(|spot| spot + old <= place);
            match spots.get(before) {
                Some(spot) if *spot < place => {
                    let start = spot - before * old + before * new;
                    if end { start + new } else { start }
                }
                _ => place - before * old + before * new,
            }
        };
        put.extend(self.touched.iter().map(|was| moved(was.start, false)..moved(was.end, true)));
        put.sort_by_key(|range| (range.start, range.end));
        self.touched.clear();
        for range in put {
            match self.touched.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.touched.push(range),
            }
        }
    }

    /// How many lines, as they are now, have something in them that was put there, or
    /// something taken out of them.
    pub(crate) fn lines_changed(&self) -> u64 {
        let ends = self.touched.iter().flat_map(|range| {
            let last = range.end.saturating_sub(usize::from(!range.is_empty()));
            [range.start, last]
        });
        let lines = self.lines_of(&ends.collect::<Vec<_>>());
        let (mut changed, mut counted) = (0, 0);
        for pair in lines.chunks_exact(2) {
            let [first, last] = pair else { continue };
            changed += (last + 1).saturating_sub(counted.max(*first - 1) + 1);
            counted = *last;
        }
        changed
    }
}

/// The line in which a text is first found.
pub(crate) fn line_of(text: &[u8], part: &[u8]) -> Option<u64> {
    let before = text.get(..memmem::find(text, part)?)?;
    Some(count(memchr_iter(b'\n', before).count()) + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Edits = &'static [(&'static str, &'static str, bool)];

    fn edited(text: &str, edits: Edits) -> Text {
        let mut text = Text::new(text.into());
        for (old, new, all) in edits {
            text.replace(old.as_bytes(), new.as_bytes(), *all, 1 << 20).unwrap();
        }
        text
    }

    #[test]
    fn changed_lines_are_those_that_were_touched() {
        let cases: [(&str, Edits, u64); 8] = [
            ("a\nb\nc\n", &[("b", "x", false)], 1),
            ("a\nb\nc\n", &[("b\n", "x\ny\n", false)], 2),
            ("a\nb\nc\n", &[("b\n", "", false)], 1),
            ("a a a\na\nb\na", &[("a", "x", true)], 3),
            ("a\nb\nc\n", &[("a", "x", false), ("x\nb", "y", false)], 1),
            ("a\nb\nc\n", &[("c", "1\n2", false), ("a", "x", false)], 3),
            ("a\r\nb", &[("b", "c\r\nd", false)], 2),
            ("a", &[("a", "", false)], 1),
        ];
        for (text, edits, lines) in cases {
            assert_eq!(edited(text, edits).lines_changed(), lines, "{text:?} {edits:?}");
        }
    }

    #[test]
    fn what_is_there_more_than_once_is_told_with_its_lines() {
        let trouble = |text: &str, old: &str| {
            Text::new(text.into()).replace(old.as_bytes(), b"", false, 99).unwrap_err()
        };
        assert_eq!(trouble("x\ny\nx x\nx", "x"), Trouble::NotUnique(4, vec![1, 3, 4]));
        assert_eq!(trouble("\naaa", "aa"), Trouble::NotUnique(2, vec![2]));
        assert_eq!(trouble("abc", "x"), Trouble::NotFound);
    }

    #[test]
    fn a_result_that_is_too_large_is_not_made() {
        let mut text = Text::new(b"aaaa".to_vec());
        assert_eq!(text.replace(b"a", &[b'b'; 30], true, 100), Err(Trouble::TooLarge));
        assert_eq!(text.bytes, b"aaaa");
        assert_eq!(text.replace(b"a", &[b'b'; 25], true, 100), Ok(()));
        let mut text = Text::new(vec![b'a'; MOST + 1]);
        assert_eq!(text.replace(b"a", b"", true, 100), Err(Trouble::TooMany));
    }

    proptest! {
        #[test]
        fn replacing_is_what_a_naive_model_does(
            text in "[ab\r\né]{0,30}",
            edits in prop::collection::vec(("[ab\né]{1,3}", "[abx\n]{0,3}", any::<bool>()), 1..6)) {
            let (mut ours, mut model) = (Text::new(text.clone().into_bytes()), text);
            let mut replaced = 0;
            for (old, new, all) in &edits {
                let places = (0..model.len())
                    .filter(|at| model.as_bytes()[*at..].starts_with(old.as_bytes()))
                    .count();
                let result = ours.replace(old.as_bytes(), new.as_bytes(), *all, 10_000);
                match places {
                    0 => prop_assert_eq!(result, Err(Trouble::NotFound)),
                    1 => prop_assert_eq!(result, Ok(())),
                    _ if *all => prop_assert_eq!(result, Ok(())),
                    _ => {
                        prop_assert!(matches!(result, Err(Trouble::NotUnique(2.., _))));
                        continue;
                    }
                }
                replaced += model.matches(old.as_str()).count();
                model = model.replace(old.as_str(), new);
            }
            prop_assert_eq!(&ours.bytes, model.as_bytes());
            prop_assert_eq!(ours.replacements, count(replaced));
            let lines = count(model.matches('\n').count()) + 1;
            prop_assert!(ours.lines_changed() <= lines);
            prop_assert_eq!(ours.lines_changed() == 0, replaced == 0);
        }

        #[test]
        fn every_line_that_differs_was_touched(
            text in "([ab]{0,2}\n){0,8}",
            edits in prop::collection::vec(("[ab]{1,2}", "[xy]{0,2}", any::<bool>()), 1..5)) {
            let mut ours = Text::new(text.clone().into_bytes());
            for (old, new, all) in &edits {
                ours.replace(old.as_bytes(), new.as_bytes(), *all, 10_000).ok();
            }
            // No newline came or went, so that lines can be compared one by one.
            let now = String::from_utf8(ours.bytes.clone()).unwrap();
            let differ = text.lines().zip(now.lines()).filter(|(was, is)| was != is).count();
            prop_assert!(ours.lines_changed() >= count(differ));
        }
    }
}
