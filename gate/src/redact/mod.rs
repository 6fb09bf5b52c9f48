//! Values of credentials, taken out of what a tool prints.
//!
//! A value is found in the forms that `forms` lists, wherever pieces of output are
//! cut: what may be the beginning of one is held back until it is known. It is held as
//! long as that takes, since a beginning that was let go for lack of patience would be
//! most of a value. Only a few bytes are (see [`Scrubber::quiet`]), so that what is
//! typed at a terminal appears.
//!
//! This is for mistakes: a server that answers with a token, a tool that logs too
//! much. Whoever wants to can print a value in a form that is not listed.
//!
//! - `forms`  the forms in which a value is looked for
//! - `live`   the values of a call, as they become more
//! - `answer` answers, where no output is looked through
//!
//! Must not: know where values come from, or read and write anything.

pub(crate) mod answer;
mod forms;
mod live;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use bytes::{Bytes, BytesMut};
use zeroize::Zeroizing;

pub use self::answer::Answers;
pub use self::live::Live;

/// What stands in the place of a value.
pub const MARK: &[u8] = b"[redacted]";

/// So much of the beginning of a value, at most, is shown before it is known to be
/// one, and no more than this part of it.
const SHOWN: usize = 3;
const SHOWN_PART: usize = 8;

/// What to look for; made once, for all streams of a call.
pub struct Values {
    /// In order.
    forms: Vec<Zeroizing<Vec<u8>>>,
    /// Those that begin with each byte.
    by_first: Vec<Range<usize>>,
    finder: AhoCorasick,
    longest: usize,
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Values").field("forms", &self.forms.len()).finish_non_exhaustive()
    }
}

/// More values, or longer ones, than can be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the values to redact are too long to be looked for: make them shorter than 64 KiB")]
pub struct TooMany;

impl Values {
    /// All forms of these; `None` where there is nothing to look for.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Values>, TooMany> {
        let forms = forms::of(values).ok_or(TooMany)?;
        let Some(longest) = forms.iter().map(|form| form.len()).max() else { return Ok(None) };
        let finder = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(forms.iter().map(|form| form.as_slice()))
            .map_err(|_too_large| TooMany)?;
        let below = |byte: u16| {
            forms.partition_point(|form| form.first().is_some_and(|first| u16::from(*first) < byte))
        };
        let by_first = (0..256).map(|byte| below(byte)..below(byte + 1)).collect();
        Ok(Some(Values { forms, by_first, finder, longest }))
    }

    /// Forms that go on where `tail` ends, with the length that they have of it.
    fn begun<'a>(&'a self, tail: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let longest = tail.len().min(self.longest.saturating_sub(1));
        (1..=longest).rev().flat_map(move |length| {
            let end = tail.get(tail.len() - length..).unwrap_or_default();
            let first = end.first().and_then(|first| self.by_first.get(usize::from(*first)));
            let some = first.and_then(|range| self.forms.get(range.clone())).unwrap_or_default();
            let begins = move |form: &&'a [u8]| form.len() > length && form.starts_with(end);
            some.iter().map(|form| form.as_slice()).filter(begins).map(move |form| (length, form))
        })
    }
}

/// One stream.
#[derive(Debug)]
pub struct Scrubber {
    live: Arc<Live>,
    /// What of it is looked for, and since when.
    values: Option<Arc<Values>>,
    generation: u64,
    /// What is not decided on.
    held: Zeroizing<Vec<u8>>,
    /// So much of it belongs to a value that was replaced already.
    covered: usize,
    /// So much of it was shown already.
    shown: usize,
}

impl Scrubber {
    /// For a stream that begins.
    pub fn new(live: Arc<Live>) -> Scrubber {
        let (generation, values) = live.now();
        Scrubber { live, values, generation, held: Zeroizing::default(), covered: 0, shown: 0 }
    }

    /// What is looked for now. None of what was is gone, so what is held stays held.
    fn refresh(&mut self) {
        if let Some((generation, values)) = self.live.after(self.generation) {
            (self.generation, self.values) = (generation, values);
        }
    }

    /// The next piece; what of it, and of what was held, can be let go.
    pub fn push(&mut self, piece: Bytes) -> Bytes {
        self.refresh();
        let Some(values) = &self.values else { return piece };
        if self.held.is_empty() {
            let found = values.finder.is_match(&*piece);
            if !found && values.begun(&piece).next().is_none() {
                return piece;
            }
        }
        self.held.extend_from_slice(&piece);
        let begun = values.begun(&self.held).next().map_or(0, |(length, _)| length);
        self.let_go(self.held.len() - begun, 0)
    }

    /// Nothing has come for a moment: a few bytes that may begin a value are shown, and
    /// still belong to it if they do. Of values that are short, none.
    pub fn quiet(&mut self) -> Bytes {
        self.refresh();
        let Some(values) = &self.values else { return Bytes::new() };
        let fresh = self.held.get(self.shown..).unwrap_or_default();
        let few = |(length, form): (usize, &[u8])| length <= SHOWN.min(form.len() / SHOWN_PART);
        if fresh.is_empty() || self.covered > 0 || !values.begun(&self.held).all(few) {
            return Bytes::new();
        }
        let fresh = Bytes::copy_from_slice(fresh);
        self.shown = self.held.len();
        fresh
    }

    /// Whether something is held that `quiet` has not shown.
    pub fn holds(&self) -> bool {
        self.shown < self.held.len()
    }

    /// The stream is over. A value that its end has cut off is one, where more than
    /// half of it is there.
    pub fn finish(&mut self) -> Bytes {
        self.refresh();
        let Some(values) = &self.values else { return Bytes::new() };
        let cut = values.begun(&self.held).find(|(length, form)| length * 2 > form.len());
        let cut = cut.map_or(0, |(length, _)| length);
        self.let_go(self.held.len(), cut)
    }

    /// Lets go what is held before `until`, values replaced; the last `cut` bytes are
    /// a value too.
    fn let_go(&mut self, until: usize, cut: usize) -> Bytes {
        let mut out = BytesMut::new();
        let mut place = 0;
        // The value that is being replaced; the first of them was, in an earlier piece.
        let mut current = (self.covered > 0).then_some(0..self.covered);
        let finder = self.values.iter().map(|values| &values.finder);
        let mut found: Vec<Range<usize>> = finder
            .flat_map(|finder| finder.find_overlapping_iter(&*self.held).map(|one| one.range()))
            .collect();
        found.push(self.held.len() - cut..self.held.len());
        found.sort_unstable_by_key(|range| range.start);
        let mut covered = current.clone().unwrap_or(0..0);
        for range in found {
            if range.is_empty() {
                continue;
            }
            match &mut current {
                // Values that overlap are one.
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ if range.start >= until => break,
                _ => {
                    place = current.map_or(place, |last| last.end);
                    self.plain(&mut out, place..range.start);
                    out.extend_from_slice(MARK);
                    current = Some(range);
                }
            }
            covered = current.clone().unwrap_or(0..0);
        }
        place = current.map_or(place, |last| last.end);
        self.plain(&mut out, place..until);
        let rest = Zeroizing::new(self.held.get(until..).unwrap_or_default().to_vec());
        self.held = rest;
        self.covered = covered.end.saturating_sub(until);
        self.shown = self.shown.saturating_sub(until);
        out.freeze()
    }

    /// What is no value and was not shown.
    fn plain(&self, out: &mut BytesMut, range: Range<usize>) {
        let start = range.start.max(self.shown);
        out.extend_from_slice(self.held.get(start..range.end).unwrap_or_default());
    }
}
