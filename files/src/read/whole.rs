//! All of a text at once, written as JSON while it is read.
//!
//! Owns: the usual case, in one pass over the file: what is looked at, hashed and escaped is
//! a piece that the processor still has in its cache, and the answer is the only large
//! memory. Must not: decide what an answer says (`super` does), or know what is no text:
//! then it has read for nothing, and `super` reads again.

use std::io::{Read, Seek};

use memchr::memchr;
use nix::sys::stat::fstat;

use super::{Encoding, PIECE, ReadTarget, length_of, retried};
use crate::error::FileError;
use crate::escape::escape;
use crate::hash::Hash;
use crate::shape::{Start, count};
use crate::{Stop, as_json, opened, spare};

/// Read at once, into the thread's own stack.
const AT_ONCE: usize = 16 << 10;
/// What an answer takes beside its content.
const BESIDE: usize = 1024;

impl ReadTarget {
    /// The answer; none where it is not all of a text that is given at once.
    pub(super) fn whole(&mut self, stop: &Stop) -> Result<Option<String>, FileError> {
        let all = self.ask.start == Start::Line(1) && self.ask.lines.is_none();
        let size = usize::try_from(length_of(&self.stat)).unwrap_or(usize::MAX);
        // What has no size of its own, as in /proc, is not known to be small.
        if !all || self.ask.numbers || size == 0 || size > PIECE {
            return Ok(None);
        }
        // Room for as many escapes as most texts have.
        let mut json = spare::take(size + size / 16 + BESIDE);
        let answer = self.fill(&mut json, size, stop)?;
        let Some(rest) = answer else {
            spare::give(json);
            self.file.rewind().map_err(|error| self.no(&error))?;
            return Ok(None);
        };
        json.extend_from_slice(rest.as_bytes());
        match String::from_utf8(json) {
            Ok(json) => Ok(Some(json)),
            Err(error) => {
                spare::give(error.into_bytes());
                self.file.rewind().map_err(|error| self.no(&error))?;
                Ok(None)
            }
        }
    }

    /// Adds the answer's beginning and the content; the rest of the answer.
    fn fill(
        &self,
        json: &mut Vec<u8>,
        size: usize,
        stop: &Stop,
    ) -> Result<Option<String>, FileError> {
        json.extend_from_slice(br#"{"content":""#);
        let (mut hash, mut bytes, mut newlines, mut open_line) = (Hash::default(), 0, 0, false);
        let mut buffer = [0; AT_ONCE];
        let after = loop {
            stop.check()?;
            let read =
                retried(|| (&self.file).read(&mut buffer)).map_err(|error| self.no(&error))?;
            let chunk = buffer.get(..read).unwrap_or_default();
            bytes += read;
            if bytes > PIECE || memchr(0, chunk).is_some() {
                return Ok(None);
            }
            hash.update(chunk);
            newlines += escape(chunk, json);
            open_line = chunk.last().map_or(open_line, |last| *last != b'\n');
            // As long as it still says to be: this was the end.
            if read == 0 || bytes == size {
                let after = fstat(&self.file).map_err(|errno| self.system(errno))?;
                if read == 0 || length_of(&after) == count(size) {
                    break after;
                }
            }
        };
        let changed = !opened::untouched(&self.stat, &after);
        let mut output = self.told(count(bytes), &after, Some(hash), changed);
        let lines = newlines + u64::from(open_line);
        output.encoding = Encoding::Utf8;
        output.lines = Some(lines);
        output.start_line = Some(1).filter(|_| lines > 0);
        output.end_line = Some(lines).filter(|_| lines > 0);
        let rest = as_json(&output)?;
        Ok(rest.strip_prefix('{').map(|members| format!("\",{members}")))
    }
}
