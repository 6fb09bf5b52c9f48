//! A listing as it is answered: the JSON that serde_json makes of its output, byte for byte.
//!
//! Owns: that its entries are written where they lie. There may be thousands, and a value of
//! their own for each, with its path, takes longer than to write them. Must not: know more
//! than [`super::Output`] says.

use std::io::Write;

use super::{EntryKind, Listed, Told};
use crate::error::FileError;
use crate::escape::escape;
use crate::shown::Bytes;
use crate::spare;
use crate::when::Iso;
use tool_protocol::Fault;

/// What an entry takes beside its path, with a size and a slash or two to be escaped.
const EACH: usize = 112;

impl Listed {
    pub(super) fn json(&self) -> Result<String, FileError> {
        let shown = Lead::of(&self.start.shown);
        let each = EACH + shown.escaped.len();
        let mut to = spare::take(self.entries.path_bytes() + (self.entries.len() + 2) * each);
        to.extend_from_slice(b"{\"path\":");
        text(&self.start.show(&self.start.lead), &mut to)?;
        to.extend_from_slice(b",\"entries\":[");
        let mut iso = Iso::default();
        for (index, (path, told)) in self.entries.iter().enumerate() {
            to.extend_from_slice(if index > 0 { b",{\"path\":" } else { b"{\"path\":" });
            shown.text(path, &mut to)?;
            beside(told, &mut iso, &mut to)?;
        }
        write!(to, "],\"has_more\":{}", self.has_more).map_err(failed)?;
        if let Some((path, _)) = self.entries.iter().next_back().filter(|_| self.has_more) {
            to.extend_from_slice(b",\"next\":");
            shown.text(path, &mut to)?;
        }
        write!(to, ",\"unreadable\":{}}}", self.unreadable).map_err(failed)?;
        String::from_utf8(to).map_err(failed)
    }
}

/// What is told of an entry behind its path.
fn beside(told: &Told, iso: &mut Iso, to: &mut Vec<u8>) -> Result<(), FileError> {
    // Nothing but files has a size.
    to.extend_from_slice(match (told.kind, told.size) {
        (EntryKind::File, Some(_)) => b",\"type\":\"file\",\"size\":",
        (EntryKind::File, None) => b",\"type\":\"file\"",
        (EntryKind::Directory, _) => b",\"type\":\"directory\"",
        (EntryKind::Symlink, _) => b",\"type\":\"symlink\"",
        (EntryKind::Other, _) => b",\"type\":\"other\"",
    });
    if let Some(size) = told.size {
        serde_json::to_writer(&mut *to, &size).map_err(failed)?;
    }
    to.extend_from_slice(b",\"mtime\":\"");
    to.extend_from_slice(iso.of(told.mtime));
    to.push(b'"');
    if let Some(Bytes(target)) = &told.target {
        to.extend_from_slice(b",\"target\":");
        text(target, to)?;
    }
    to.push(b'}');
    Ok(())
}

/// What all paths begin with.
struct Lead<'a> {
    shown: &'a [u8],
    /// With the quote before it; empty where it is not UTF-8.
    escaped: Vec<u8>,
}

impl Lead<'_> {
    fn of(shown: &[u8]) -> Lead<'_> {
        let mut escaped = Vec::new();
        if std::str::from_utf8(shown).is_ok() {
            escaped.push(b'"');
            escape(shown, &mut escaped);
        }
        Lead { shown, escaped }
    }

    /// A path as [`Bytes`] is written, behind that.
    fn text(&self, path: &[u8], to: &mut Vec<u8>) -> Result<(), FileError> {
        if self.escaped.is_empty() || std::str::from_utf8(path).is_err() {
            return serde_json::to_writer(to, &Bytes([self.shown, path].concat())).map_err(failed);
        }
        to.extend_from_slice(&self.escaped);
        escape(path, to);
        to.push(b'"');
        Ok(())
    }
}

/// A byte string, as [`Bytes`] is written.
fn text(bytes: &[u8], to: &mut Vec<u8>) -> Result<(), FileError> {
    Lead::of(b"").text(bytes, to)
}

fn failed(error: impl ToString) -> FileError {
    FileError::said(Fault::ExecutionError, error.to_string())
}
