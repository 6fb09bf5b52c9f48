//! Whether the chain is whole: every line is one of ours, has the number after
//! the one before it, and names its digest.
//!
//! Owns: what is wrong, and where first. Reads a line at a time. Must not: need
//! a server.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{self, Part};
use super::read::{Forward, Hash, LONGEST, Link, NOTHING, Piece, hash};

/// A chain without a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sound {
    /// How many lines.
    pub(crate) lines: u64,
    /// In how many files.
    pub(crate) files: usize,
    /// The number of the first line that is there.
    pub(crate) first: u64,
    /// The number of the last one.
    pub(crate) last: u64,
    /// Its digest.
    pub(crate) head: String,
    /// Bytes of a line that is being written, or was torn.
    pub(crate) torn: usize,
}

/// Why it is not whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// It cannot be read.
    #[error("cannot read the audit in {path}: {source}{advice}", path = path.display(), advice = advice(source))]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what it was, or is not where it was.
    #[error("{path}:{line}: {what}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        what: Wrong,
    },
    /// No line has the digest that was noted.
    #[error("no line has the sha256 {0}: lines that were there are gone, or all was written anew")]
    Head(String),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run this as root or as the server's user",
        io::ErrorKind::NotFound => {
            "; set STATE_DIR to the server's: there is none before its first start"
        }
        _ => "",
    }
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    NoRecord,
    Torn,
    TooLong,
    Number { found: u64, wanted: u64 },
    FileName(u64),
    Changed(u64),
    Beginning,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::NoRecord => {
                f.write_str("is no line of the audit: one JSON object in ASCII, with seq and prev")
            }
            Wrong::Torn => f.write_str("is not complete, and is not the last line"),
            Wrong::TooLong => write!(f, "is longer than {LONGEST} bytes"),
            Wrong::Number { found, wanted } if found > wanted => {
                write!(
                    f,
                    "is line {found} where {wanted} belongs: lines before it are gone, or are elsewhere"
                )
            }
            Wrong::Number { found, wanted } => {
                write!(f, "is line {found} where {wanted} belongs: a line was put in, or moved")
            }
            Wrong::FileName(first) => {
                write!(
                    f,
                    "is not line {first}, with which the file should begin: lines are gone, or it was renamed"
                )
            }
            Wrong::Changed(seq) => write!(
                f,
                "line {seq} is not what it was: its sha256 is not what the line after it has as prev (or that one was changed)"
            ),
            Wrong::Beginning => f.write_str("is line 1, and names a line before it"),
        }
    }
}

/// The line before.
struct Before {
    path: PathBuf,
    number: u64,
    seq: u64,
    hash: Hash,
}

/// Checks every line in the directory. `head`: the digest of a line that was
/// noted before, which must still be there.
pub(crate) fn verify(directory: &Path, head: Option<&str>) -> Result<Sound, Fault> {
    let unreadable = |source| Fault::Unreadable { path: directory.to_owned(), source };
    let parts = files::parts(directory).map_err(unreadable)?;
    let mut chain = Chain { before: None, first: 0, lines: 0, torn: 0, head, met: false };
    let files = parts.len();
    // Nothing was there yet when it was noted.
    chain.met = head.is_some_and(|head| head.as_bytes() == NOTHING);
    for (index, part) in parts.into_iter().enumerate() {
        chain.follow(part, index + 1 == files)?;
    }
    if let Some(head) = head.filter(|_| !chain.met) {
        return Err(Fault::Head(head.to_owned()));
    }
    let (last, hash) = chain.before.map_or((0, NOTHING), |before| (before.seq, before.hash));
    let head = String::from_utf8(hash.to_vec()).unwrap_or_default();
    Ok(Sound { lines: chain.lines, files, first: chain.first, last, head, torn: chain.torn })
}

struct Chain<'a> {
    before: Option<Before>,
    first: u64,
    lines: u64,
    torn: usize,
    head: Option<&'a str>,
    met: bool,
}

impl Chain<'_> {
    fn follow(&mut self, mut part: Part, is_last: bool) -> Result<(), Fault> {
        let opened = part.open();
        let Part { first, path, .. } = part;
        let unreadable = |source| Fault::Unreadable { path: path.clone(), source };
        // One that was removed since it was seen is missed by its numbers.
        let Some(file) = opened.map_err(unreadable)? else { return Ok(()) };
        let mut lines = Forward::new(file);
        let mut number = 0;
        loop {
            number += 1;
            let wrong = |what| Fault::Line { path: path.clone(), line: number, what };
            let line = match lines.next().map_err(unreadable)? {
                (Piece::End, _) => return Ok(()),
                (Piece::Torn, line) if line.len() > LONGEST => return Err(wrong(Wrong::TooLong)),
                (Piece::Torn, line) if is_last => {
                    self.torn = line.len();
                    return Ok(());
                }
                (Piece::Torn, _) => return Err(wrong(Wrong::Torn)),
                (Piece::Line, line) => line,
            };
            let link = Link::read(line).ok_or_else(|| wrong(Wrong::NoRecord))?;
            if let Some(before) = &self.before {
                let wanted = before.seq.saturating_add(1);
                if link.seq != wanted {
                    return Err(wrong(Wrong::Number { found: link.seq, wanted }));
                }
                if link.prev.as_bytes() != before.hash {
                    let (path, line) = (before.path.clone(), before.number);
                    return Err(Fault::Line { path, line, what: Wrong::Changed(before.seq) });
                }
            } else {
                self.first = link.seq;
                if link.seq <= 1 && link.prev.as_bytes() != NOTHING {
                    return Err(wrong(Wrong::Beginning));
                }
            }
            if number == 1
                && let Some(first) = first.filter(|first| *first != link.seq)
            {
                return Err(wrong(Wrong::FileName(first)));
            }
            let hash = hash(line);
            self.met |= self.head.is_some_and(|head| head.as_bytes() == hash);
            self.lines += 1;
            self.before = Some(Before { path: path.clone(), number, seq: link.seq, hash });
        }
    }
}
