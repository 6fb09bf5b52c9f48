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
use tool_protocol::Fault;

/// What an entry takes beside its path, with a size and a slash or two to be escaped.
const EACH: usize = 112;

impl Listed {
    pub(super) fn json(&self) -> Result<String, FileError> {
        let shown = &*self.start.shown;
        let each = EACH + shown.len();
        let mut to = spare::take(self.entries.path_bytes() + (self.entries.len() + 2) * each);
        to.extend_from_slice(b"{\"path\":");
        text(b"", &self.start.show(&self.start.lead), &mut to)?;
        to.extend_from_slice(b",\"entries\":[");
        for (index, (path, told)) in self.entries.iter().enumerate() {
            if index > 0 {
                to.push(b',');
            }
            to.extend_from_slice(b"{\"path\":");
            text(shown, path, &mut to)?;
            beside(told, &mut to)?;
        }
        write!(to, "],\"has_more\":{}", self.has_more).map_err(failed)?;
        if let Some((path, _)) = self.entries.iter().next_back().filter(|_| self.has_more) {
            to.extend_from_slice(b",\"next\":");
            text(shown, path, &mut to)?;
        }
        write!(to, ",\"unreadable\":{}}}", self.unreadable).map_err(failed)?;
        String::from_utf8(to).map_err(failed)
    }
}

/// What is told of an entry behind its path.
fn beside(told: &Told, to: &mut Vec<u8>) -> Result<(), FileError> {
    to.extend_from_slice(match told.kind {
        EntryKind::File => b",\"type\":\"file\"",
        EntryKind::Directory => b",\"type\":\"directory\"",
        EntryKind::Symlink => b",\"type\":\"symlink\"",
        EntryKind::Other => b",\"type\":\"other\"",
    });
    if let Some(size) = told.size {
        to.extend_from_slice(b",\"size\":");
        serde_json::to_writer(&mut *to, &size).map_err(failed)?;
    }
    to.extend_from_slice(b",\"mtime\":\"");
    to.extend_from_slice(&told.mtime.iso());
    to.push(b'"');
    if let Some(Bytes(target)) = &told.target {
        to.extend_from_slice(b",\"target\":");
        text(b"", target, to)?;
    }
    to.push(b'}');
    Ok(())
}

/// Two byte strings as one, as [`Bytes`] is written.
fn text(begin: &[u8], end: &[u8], to: &mut Vec<u8>) -> Result<(), FileError> {
    if std::str::from_utf8(begin).is_err() || std::str::from_utf8(end).is_err() {
        return serde_json::to_writer(to, &Bytes([begin, end].concat())).map_err(failed);
    }
    to.push(b'"');
    escape(begin, to);
    escape(end, to);
    to.push(b'"');
    Ok(())
}

fn failed(error: impl ToString) -> FileError {
    FileError::said(Fault::ExecutionError, error.to_string())
}
