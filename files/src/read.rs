//! `read_file`: what is in a file, or a part of it.
//!
//! Owns: reading a regular file once, with bounded memory, however large it is or says it
//! is; what is given of it at once, and how to read on. Text is given as it is, byte for
//! byte; what is no text is never made to look like it. Must not: write, or wait for
//! anything that is no file.
//!
//! - `whole`  the usual case: all of a text, as JSON while it is read

mod whole;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, fstat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool_protocol::Fault;

use crate::error::{Doing, FileError, shown};
use crate::hash::Hash;
use crate::shape::{self, Gather, Piece, Seen, Start};
use crate::{Operation, Roots, Stop, Target, as_json, opened, when};

/// What is given at once.
pub const PIECE: usize = 1 << 20;
/// Larger files are not read to their end: they get no hash and no count of lines.
pub const WHOLE: u64 = 64 << 20;
/// As many bytes as make a piece of base64.
const BASE64: usize = PIECE / 4 * 3;
/// Read at once: little enough that it is still in the processor's cache when it is looked
/// at, and hashed.
const CHUNK: usize = 64 << 10;
/// What tells the kind of a file.
const HEAD: usize = 8 << 10;

/// `read_file`.
#[derive(Debug)]
pub struct ReadFile;

/// What to read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadInput {
    /// The file: relative to the workspace, or absolute in it.
    pub path: String,
    /// First line to read, counted from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line to read.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// Put its number and a tab before each line.
    #[serde(default)]
    pub line_numbers: bool,
    /// Read from this byte, counted from 0, instead of from a line; for very long lines.
    #[serde(default)]
    pub start_byte: Option<u64>,
    /// "base64" to get bytes of a file that is no text.
    #[serde(default)]
    pub encoding: Option<ReadAs>,
}

/// How content is to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ReadAs {
    /// Text.
    #[serde(rename = "utf-8")]
    Utf8,
    /// Any bytes.
    #[serde(rename = "base64")]
    Base64,
}

/// What a file is, or how its content is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Encoding {
    /// Text, byte for byte.
    #[serde(rename = "utf-8")]
    Utf8,
    /// Bytes, as base64.
    #[serde(rename = "base64")]
    Base64,
    /// No UTF-8 text: no content is given.
    #[serde(rename = "binary")]
    Binary,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadOutput {
    /// As it was asked for.
    pub path: String,
    /// The text, or base64; absent where the file is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Of the whole file, in bytes.
    pub size: u64,
    /// When it was last changed: ISO 8601, UTC.
    pub mtime: String,
    /// How `content` is given; "binary" where there is none.
    pub encoding: Encoding,
    /// Lines of the whole file; absent where it is no text, or larger than 64 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The first line of `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_line: Option<u64>,
    /// The last line of `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u64>,
    /// Less is given than was asked for: at most 1 MiB is given at once.
    pub truncated: bool,
    /// Where truncated: the `start_line` to read on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Where truncated: the `start_byte` to read on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_byte: Option<u64>,
    /// What it is, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// SHA-256 of the whole file, for `if_match`; absent where it is larger than 64 MiB, or
    /// changed while it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// It changed while it was read: `content` may be of two states of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

/// A file to read, open.
#[derive(Debug)]
pub struct ReadTarget {
    path: String,
    name: Vec<u8>,
    file: File,
    stat: FileStat,
    ask: Ask,
}

#[derive(Debug, Clone, Copy)]
struct Ask {
    start: Start,
    lines: Option<u64>,
    numbers: bool,
    base64: bool,
}

impl Operation for ReadFile {
    const NAME: &'static str = "read_file";
    type Input = ReadInput;
    type Output = ReadOutput;
    type Target = ReadTarget;

    fn find(roots: &Roots, input: ReadInput) -> Result<ReadTarget, FileError> {
        let ask = Ask::of(&input)?;
        let said = input.path.as_bytes();
        let (found, name) = roots.place(&input.path)?.found()?;
        let stat = opened::regular(found.as_fd(), said)?;
        let file = opened::reading(found.as_fd());
        let file = file.map_err(|errno| FileError::system(Doing::Reading, said, errno))?;
        Ok(ReadTarget { path: input.path, name, file, stat, ask })
    }
}

impl Ask {
    fn of(input: &ReadInput) -> Result<Ask, FileError> {
        let invalid = |message| Err(FileError::said(Fault::InvalidInput, message));
        let by_line = input.start_line.is_some() || input.end_line.is_some() || input.line_numbers;
        let base64 = input.encoding == Some(ReadAs::Base64);
        if by_line && (base64 || input.start_byte.is_some()) {
            return invalid("start_byte and base64 know no lines: leave out the members of lines");
        }
        let first = input.start_line.unwrap_or(1);
        if first == 0 || input.end_line.is_some_and(|last| last < first) {
            return invalid("lines are counted from 1, and end_line is not before start_line");
        }
        let lines = input.end_line.map(|last| (last - first).saturating_add(1));
        let start = match input.start_byte {
            Some(byte) => Start::Byte(byte),
            None if base64 => Start::Byte(0),
            None => Start::Line(first),
        };
        Ok(Ask { start, lines, numbers: input.line_numbers, base64 })
    }
}

impl Target for ReadTarget {
    type Output = ReadOutput;

    fn names(&self) -> Vec<Vec<u8>> {
        vec![self.name.clone()]
    }

    fn run(
        mut self,
        stop: &Stop,
        _: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<ReadOutput, FileError> {
        let mut read = self.read(stop)?;
        let after = fstat(&self.file).map_err(|errno| self.system(errno))?;
        let changed = !opened::untouched(&self.stat, &after);
        let size = read.whole.as_ref().map_or_else(|| length_of(&after), |whole| whole.bytes);
        let mut output = self.told(size, &after, read.hash.take(), changed);
        let head = read.head.as_slice();
        let text = read.whole.as_ref().map_or_else(|| !head.contains(&0), Seen::text);
        if text && !self.ask.base64 {
            self.text(&mut read.gather, read.whole.as_ref(), &mut output)?;
        }
        if output.encoding == Encoding::Binary {
            output.media_type = (!text || !self.ask.base64).then(|| media_type(head).to_owned());
        }
        if self.ask.base64 {
            self.bytes(&read.gather, &mut output)?;
        }
        Ok(output)
    }

    fn json(
        mut self,
        stop: &Stop,
        piece: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<String, FileError> {
        match self.whole(stop)? {
            Some(json) => Ok(json),
            None => as_json(&self.run(stop, piece)?),
        }
    }
}

/// What reading a file gave.
struct Whole {
    /// How it begins.
    head: Vec<u8>,
    gather: Gather,
    /// Of the whole file, where it was read whole.
    whole: Option<Seen>,
    hash: Option<Hash>,
}

impl ReadTarget {
    /// What is said of any file, as of one that is no text.
    fn told(&self, size: u64, now: &FileStat, hash: Option<Hash>, changed: bool) -> ReadOutput {
        ReadOutput {
            path: self.path.clone(),
            content: None,
            size,
            mtime: when::modified(now),
            encoding: Encoding::Binary,
            lines: None,
            start_line: None,
            end_line: None,
            truncated: false,
            next_line: None,
            next_byte: None,
            media_type: None,
            sha256: hash.filter(|_| !changed).map(Hash::text),
            changed,
        }
    }

    /// Reads it to its end, where it is not too large; else until there is enough.
    fn read(&mut self, stop: &Stop) -> Result<Whole, FileError> {
        let limit = if self.ask.base64 { BASE64 } else { PIECE };
        let mut whole = (length_of(&self.stat) <= WHOLE).then(Seen::default);
        let mut hash = Hash::default();
        let (mut first, mut head) = (0, Vec::new());
        if let (None, Start::Byte(byte)) = (&whole, self.ask.start) {
            head.resize(HEAD, 0);
            let length = retried(|| self.file.read_at(&mut head, 0));
            head.truncate(length.map_err(|error| self.no(&error))?);
            first = byte.min(length_of(&self.stat));
            let seek = self.file.seek(SeekFrom::Start(first));
            seek.map_err(|error| self.no(&error))?;
        }
        let mut gather = Gather::new(self.ask.start, self.ask.lines, limit, first);
        let expected = usize::try_from(length_of(&self.stat)).unwrap_or(CHUNK).saturating_add(1);
        if self.ask.lines.is_none() {
            gather.bytes.reserve_exact(expected.min(limit + 1));
        }
        let mut buffer = vec![0; expected.clamp(4096, CHUNK)];
        loop {
            stop.check()?;
            let binary = whole.is_none() && head.contains(&0) && !self.ask.base64;
            if binary || whole.is_none() && gather.done() {
                break;
            }
            let read = retried(|| self.file.read(&mut buffer)).map_err(|error| self.no(&error))?;
            let Some(chunk) = buffer.get(..read).filter(|chunk| !chunk.is_empty()) else { break };
            if head.is_empty() {
                head.extend_from_slice(chunk.get(..HEAD).unwrap_or(chunk));
            }
            if let Some(seen) = whole.as_mut() {
                seen.update(chunk);
                hash.update(chunk);
            }
            // It grows, or it has no size of its own, as in /proc.
            whole = whole.filter(|seen| seen.bytes <= WHOLE);
            gather.take(chunk);
        }
        let hash = whole.is_some().then_some(hash);
        Ok(Whole { head, gather, whole, hash })
    }

    /// As text, unless the piece is none.
    fn text(
        &self,
        gather: &mut Gather,
        whole: Option<&Seen>,
        output: &mut ReadOutput,
    ) -> Result<(), FileError> {
        let by_byte = matches!(self.ask.start, Start::Byte(_));
        let lines = whole.map(Seen::lines);
        // Where it was not read from the beginning, nobody counted.
        let first = (!by_byte || whole.is_some()).then_some(gather.line);
        self.within(gather, lines, output.size)?;
        if by_byte && gather.bytes.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            let message = "start_byte is inside of a character, or the file is no text: take \
                           next_byte as it was given, or encoding \"base64\"";
            return Err(FileError::said(Fault::InvalidInput, message));
        }
        let numbers = first.filter(|_| self.ask.numbers);
        let gathered = gather.bytes.len();
        // What is all of a text is neither looked through nor copied again.
        let piece = match whole.filter(|whole| whole.bytes == shape::count(gathered)) {
            Some(whole) if numbers.is_none() && gathered <= PIECE => {
                let lines = whole.lines();
                let text = String::from_utf8(std::mem::take(&mut gather.bytes)).ok();
                text.map(|text| Piece { bytes: gathered, text, lines })
            }
            _ => shape::piece(&gather.bytes, PIECE, numbers),
        };
        let Some(piece) = piece else { return Ok(()) };
        output.encoding = Encoding::Utf8;
        output.lines = lines;
        output.start_line = first.filter(|_| piece.lines > 0);
        output.end_line = output.start_line.map(|first| first + piece.lines - 1);
        output.truncated = piece.bytes < gathered;
        if output.truncated {
            output.next_byte = Some(gather.byte + shape::count(piece.bytes));
            let at_end = gather.bytes.get(piece.bytes.wrapping_sub(1)) == Some(&b'\n');
            output.next_line = output.end_line.filter(|_| at_end).map(|last| last + 1);
        }
        output.content = Some(piece.text);
        Ok(())
    }

    /// As base64.
    fn bytes(&self, gather: &Gather, output: &mut ReadOutput) -> Result<(), FileError> {
        self.within(gather, None, output.size)?;
        let given = gather.bytes.get(..BASE64).unwrap_or(&gather.bytes);
        output.truncated = given.len() < gather.bytes.len();
        output.next_byte = output.truncated.then(|| gather.byte + shape::count(given.len()));
        output.content = Some(STANDARD.encode(given));
        output.encoding = Encoding::Base64;
        Ok(())
    }

    /// An error where what was asked for begins behind the end.
    fn within(&self, gather: &Gather, lines: Option<u64>, size: u64) -> Result<(), FileError> {
        let path = shown(self.path.as_bytes());
        let message = match self.ask.start {
            Start::Line(1) => return Ok(()),
            Start::Line(_) if gather.begun() && !gather.bytes.is_empty() => return Ok(()),
            Start::Line(_) => {
                let lines = lines.unwrap_or(gather.line);
                format!("start_line is past the end: {path} has {lines} lines")
            }
            Start::Byte(byte) if byte <= size => return Ok(()),
            Start::Byte(_) => format!("start_byte is past the end: {path} has {size} bytes"),
        };
        Err(FileError::said(Fault::InvalidInput, message))
    }

    fn no(&self, error: &std::io::Error) -> FileError {
        self.system(opened::raw(error))
    }

    fn system(&self, errno: Errno) -> FileError {
        FileError::system(Doing::Reading, self.path.as_bytes(), errno)
    }
}

fn retried<T>(mut read: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// What it says of itself: in /proc that is 0.
pub(crate) fn length_of(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn media_type(head: &[u8]) -> &'static str {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "text/plain; charset=utf-32",
        [0xff, 0xfe, ..] => "text/plain; charset=utf-16le",
        [0xfe, 0xff, ..] => "text/plain; charset=utf-16be",
        _ => infer::get(head).map_or("application/octet-stream", |kind| kind.mime_type()),
    }
}

#[cfg(test)]
mod tests;
