//! `edit_file`: some text in a file is replaced, and nothing else of it.
//!
//! Owns: reading the file once, with nobody else at it, all replacements on it in memory,
//! and giving the result the file's name if nobody changed it meanwhile. Must not: change
//! a byte that was not asked for, or make half of the edits.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use memchr::memchr_iter;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::UnlinkatFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use tool_protocol::Fault;

use crate::error::{Doing, FileError, shown};
use crate::lock::Held;
use crate::nearest::nearest;
use crate::put::{self, Like, Over, Temporary, remove};
use crate::replace::{MOST, Text, Trouble};
use crate::way::{self, Way};
use crate::write::{is_zero, other_names, unmatched};
use crate::{Operation, Roots, Stop, Target, after, hash, opened, read, shape, when};

/// The largest file that is edited, before and after.
pub const LARGEST: u64 = 16 << 20;
/// How many edits at once.
const EDITS: usize = 1000;
/// How many a message names that are wrong, and its room for them.
const NAMED: usize = 6;
const ROOM: usize = 420;
/// The largest diff that is given.
const DIFF: usize = 256 << 10;
/// The most lines, before and after together, of which a diff is made.
const DIFF_LINES: usize = 2_000_000;
/// How long the shortest diff is looked for; a longer one is as right.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// `edit_file`.
#[derive(Debug)]
pub struct EditFile;

/// One replacement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The text to replace, exactly as it is in the file, and there only once.
    #[schemars(length(min = 1))]
    pub old_text: String,
    /// What comes in its place.
    pub new_text: String,
    /// Replace it everywhere.
    #[serde(default)]
    pub all: bool,
}

/// What to replace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditInput {
    /// The file: relative to the workspace, or absolute in it.
    pub path: String,
    /// Several replacements, each on the result of the one before; all are made or none.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1000))]
    pub edits: Option<Vec<Edit>>,
    /// For one replacement, instead of `edits`: the text to replace, exactly as it is in the
    /// file, and there only once.
    #[serde(default)]
    pub old_text: Option<String>,
    /// What comes in the place of `old_text`.
    #[serde(default)]
    pub new_text: Option<String>,
    /// Replace `old_text` everywhere.
    #[serde(default)]
    pub all: Option<bool>,
    /// Only show what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Keep what the file held as NAME.orig beside it; an error where that is there.
    #[serde(default)]
    pub backup: bool,
    /// Only change the file whose SHA-256 is this, as read_file gave it.
    #[serde(default)]
    pub if_match: Option<String>,
    /// Give a unified diff of what changed.
    #[serde(default)]
    pub diff: bool,
}

/// What was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EditOutput {
    /// As it was asked for.
    pub path: String,
    /// How many.
    pub replacements: u64,
    /// In bytes.
    pub size_before: u64,
    /// In bytes.
    pub size_after: u64,
    /// Lines of the result in which something was put, or from which something was taken.
    pub lines_changed: u64,
    /// When the file was last changed: ISO 8601, UTC.
    pub mtime: String,
    /// SHA-256 of the result.
    pub sha256: String,
    /// Unified, with a dry run or where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff is longer than 256 KiB, this is its beginning; or the file has more than a
    /// million lines, and there is none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
    /// What the file held is kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// Nothing was changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// So many other names (hard links) of the file that was edited keep what it held.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_names: u64,
    /// Attributes of the file that was edited which it has no more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
}

/// A file to edit, open.
#[derive(Debug)]
pub struct EditTarget {
    input: EditInput,
    edits: Vec<Edit>,
    /// Errors name the edit.
    several: bool,
    if_match: Option<String>,
    directory: OwnedFd,
    name: Vec<u8>,
    /// Until it is locked.
    open: Option<OwnedFd>,
    real: Vec<u8>,
    lasting: bool,
}

impl Operation for EditFile {
    const NAME: &'static str = "edit_file";
    type Input = EditInput;
    type Output = EditOutput;
    type Target = EditTarget;

    fn find(roots: &Roots, mut input: EditInput) -> Result<EditTarget, FileError> {
        let if_match = hash::given(input.if_match.take())?;
        let several = input.edits.is_some();
        let edits = edits(&mut input)?;
        let said = input.path.as_bytes();
        let said_no = |errno| FileError::system(Doing::Writing, said, errno);
        let place = roots.place(&input.path)?;
        let (directory, name, open) = match way::follow(&place, Doing::Writing, true)? {
            Way::Directory(_) => return Err(opened::not_a_file(said, "a directory")),
            Way::Missing { .. } => return Err(said_no(Errno::ENOENT)),
            Way::There { directory, name, open } => (directory, name, open),
        };
        opened::regular(open.as_fd(), said)?;
        if !input.dry_run {
            opened::may_write(open.as_fd()).map_err(said_no)?;
        }
        let real = opened::real_below(directory.as_fd(), std::slice::from_ref(&name), said)?;
        let (open, lasting) = (Some(open), roots.last());
        Ok(EditTarget { edits, several, if_match, directory, name, open, real, lasting, input })
    }
}

/// Both forms as one.
fn edits(input: &mut EditInput) -> Result<Vec<Edit>, FileError> {
    let invalid = |message: String| Err(FileError::said(Fault::InvalidInput, message));
    let one = (input.old_text.take(), input.new_text.take(), input.all.take());
    let edits = match (input.edits.take(), one) {
        (Some(edits), (None, None, None)) => edits,
        (None, (Some(old_text), Some(new_text), all)) => {
            return checked(vec![Edit { old_text, new_text, all: all.unwrap_or(false) }], false);
        }
        _ => return invalid("give either edits, or old_text and new_text".to_owned()),
    };
    if edits.is_empty() || edits.len() > EDITS {
        return invalid(format!("edits has to hold 1 to {EDITS} edits"));
    }
    checked(edits, true)
}

fn checked(edits: Vec<Edit>, several: bool) -> Result<Vec<Edit>, FileError> {
    let mut wrong = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        if edit.old_text.is_empty() {
            let message = "old_text is empty: name the text to replace, or use write_file";
            wrong.push(at(several, index, message));
        } else if edit.old_text == edit.new_text {
            wrong.push(at(several, index, "old_text and new_text are the same"));
        }
    }
    if wrong.is_empty() {
        return Ok(edits);
    }
    Err(FileError::said(Fault::InvalidInput, together(&wrong)))
}

/// All that is wrong in one line: each has some room in it.
fn together(wrong: &[String]) -> String {
    let named = wrong.len().min(NAMED);
    let room = ROOM / named.max(1);
    let short = |message: &String| match message.chars().count() > room {
        true => message.chars().take(room).chain(['…']).collect(),
        false => message.clone(),
    };
    let mut line = wrong.iter().take(NAMED).map(short).collect::<Vec<_>>().join("; ");
    if wrong.len() > named {
        line += &format!("; and {} more edits", wrong.len() - named);
    }
    line
}

fn at(several: bool, index: usize, message: &str) -> String {
    if several { format!("edits[{index}]: {message}") } else { message.to_owned() }
}

impl Target for EditTarget {
    type Output = EditOutput;

    fn names(&self) -> Vec<Vec<u8>> {
        let mut names = vec![self.real.clone()];
        if self.input.backup {
            names.push([&self.real, BACKUP].concat());
        }
        names
    }

    fn run(
        mut self,
        stop: &Stop,
        _: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<EditOutput, FileError> {
        let open = self.open.take();
        if let Some(open) = open.as_ref().filter(|_| self.input.dry_run) {
            let (before, stat) = self.content(open.as_fd(), stop)?;
            let text = self.replaced(before.clone(), stop)?;
            let mut output = self.output(&before, &text, &stat, None);
            output.other_names = other_names(&stat);
            return Ok(output);
        }
        let directory = self.directory.as_fd();
        let held = Held::take(directory, &self.name, self.said(), stop)?;
        let there = held.lock(directory, open, self.said(), stop)?;
        let there = there.ok_or_else(|| opened::changed(self.said()))?;
        let (before, stat) = match there.file() {
            Some(file) => self.content_of(file, there.stat, stop)?,
            None => self.content(there.open.as_fd(), stop)?,
        };
        let text = self.replaced(before.clone(), stop)?;
        let like = Like { stat: &stat, open: there.open.as_fd(), file: there.file() };
        let backup = self.input.backup.then(|| self.keep(&before, like, stop)).transpose()?;
        let taken = self.write(&text.bytes, like, stop).and_then(|mut temporary| {
            self.still(&stat)?;
            let not_kept = temporary.not_kept();
            temporary.take(&self.name, Over::What).map(|now| (now, not_kept))
        });
        match taken {
            Ok((now, not_kept)) => {
                if self.lasting {
                    put::last(directory, self.said())?;
                }
                let mut output = self.output(&before, &text, &now, backup);
                (output.other_names, output.not_kept) = (other_names(&stat), not_kept);
                there.replaced();
                if !self.lasting {
                    after::write_out(self.directory, held.key().clone(), &now);
                }
                Ok(output)
            }
            Err(error) => {
                if let Some(backup) = backup {
                    remove(directory, &backup, UnlinkatFlags::NoRemoveDir);
                }
                Err(error)
            }
        }
    }
}

/// What the name of what a file held ends with.
const BACKUP: &[u8] = b".orig";

impl EditTarget {
    fn said(&self) -> &[u8] {
        self.input.path.as_bytes()
    }

    /// All of it, and what is known of it.
    fn content(&self, open: BorrowedFd<'_>, stop: &Stop) -> Result<(Vec<u8>, FileStat), FileError> {
        let file = opened::reading(open);
        let file = file.map_err(|errno| FileError::system(Doing::Reading, self.said(), errno))?;
        let stat = fstat(&file);
        let stat = stat.map_err(|errno| FileError::system(Doing::Reading, self.said(), errno))?;
        self.content_of(&file, stat, stop)
    }

    /// The same, of what is open and known.
    fn content_of(
        &self,
        file: &File,
        stat: FileStat,
        stop: &Stop,
    ) -> Result<(Vec<u8>, FileStat), FileError> {
        let failed = |errno| FileError::system(Doing::Reading, self.said(), errno);
        if read::length_of(&stat) > LARGEST {
            return Err(self.too_large());
        }
        let content = all(file, &stat).map_err(|error| failed(opened::raw(&error)))?;
        stop.check()?;
        if shape::count(content.len()) > LARGEST {
            return Err(self.too_large());
        }
        if let Some(expected) = &self.if_match
            && hash::of(&content) != *expected
        {
            return Err(unmatched(self.said()));
        }
        if content.contains(&0) || std::str::from_utf8(&content).is_err() {
            let message = "is no UTF-8 text: replace all of it with write_file, as base64";
            let message = format!("{} {message}", shown(self.said()));
            return Err(FileError::said(Fault::BinaryFile, message));
        }
        Ok((content, stat))
    }

    fn too_large(&self) -> FileError {
        let path = shown(self.said());
        let message = format!("{path} is, or would be, larger than 16 MiB: edit it otherwise");
        FileError::said(Fault::FileTooLarge, message)
    }

    /// All edits made; or all that is wrong with them.
    fn replaced(&self, content: Vec<u8>, stop: &Stop) -> Result<Text, FileError> {
        let limit = usize::try_from(LARGEST).unwrap_or(usize::MAX);
        let mut text = Text::new(content);
        let (mut wrong, mut fault) = (Vec::new(), None);
        for (index, edit) in self.edits.iter().enumerate() {
            stop.check()?;
            let (old, new) = (edit.old_text.as_bytes(), edit.new_text.as_bytes());
            let (found, message) = match text.replace(old, new, edit.all, limit) {
                Ok(()) => continue,
                Err(Trouble::TooLarge) => return Err(self.too_large()),
                Err(Trouble::TooMany) => {
                    let message = format!("old_text is there more than {MOST} times: give more");
                    (Fault::FileTooLarge, message)
                }
                Err(Trouble::NotFound) => {
                    // It was text, and only text was put in. What is not shown is not sought.
                    let now = std::str::from_utf8(&text.bytes).ok();
                    let now = now.filter(|_| wrong.len() < NAMED);
                    let near = now.map(|now| nearest(now, &edit.old_text)).unwrap_or_default();
                    (Fault::TextNotFound, format!("old_text is not there; {near}"))
                }
                Err(Trouble::NotUnique(times, lines)) => {
                    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                    let lines = lines.join(", ");
                    let message = format!(
                        "old_text is there {times} times, first in line {lines}: give more of what \
                         is around it, or all = true"
                    );
                    (Fault::TextNotUnique, message)
                }
            };
            fault.get_or_insert(found);
            wrong.push(at(self.several, index, &message));
        }
        let Some(fault) = fault else { return Ok(text) };
        let wrong = together(&wrong);
        let message = format!("{}: nothing was changed: {wrong}", shown(self.said()));
        Err(FileError::said(fault, message))
    }

    fn write(&self, bytes: &[u8], like: Like<'_>, stop: &Stop) -> Result<Temporary<'_>, FileError> {
        let (directory, said) = (self.directory.as_fd(), self.said());
        Temporary::write(directory, said, bytes, Some(like), self.lasting, stop)
    }

    /// Puts what it held beside it.
    fn keep(&self, before: &[u8], like: Like<'_>, stop: &Stop) -> Result<Vec<u8>, FileError> {
        let name = [&self.name, BACKUP].concat();
        let temporary = self.write(before, like, stop)?;
        temporary.take(&name, Over::Nothing).map_err(|error| match error.fault() {
            Fault::AlreadyExists => {
                let path = shown(self.said());
                let message = format!("{path}.orig is there already: move it away, or no backup");
                FileError::said(Fault::AlreadyExists, message)
            }
            _ => error,
        })?;
        Ok(name)
    }

    /// An error where somebody changed it since, or it is called otherwise.
    fn still(&self, read: &FileStat) -> Result<(), FileError> {
        let at = (self.directory.as_fd(), &self.name);
        opened::still(at, &self.real, Some(read), self.said())
    }

    fn output(
        &self,
        before: &[u8],
        text: &Text,
        stat: &FileStat,
        backup: Option<Vec<u8>>,
    ) -> EditOutput {
        let wanted = self.input.diff || self.input.dry_run;
        let (diff, diff_truncated) = match wanted {
            true => diff(&self.input.path, before, &text.bytes),
            false => (None, false),
        };
        EditOutput {
            path: self.input.path.clone(),
            replacements: text.replacements,
            size_before: shape::count(before.len()),
            size_after: shape::count(text.bytes.len()),
            lines_changed: text.lines_changed(),
            mtime: when::modified(stat),
            sha256: hash::of(&text.bytes),
            diff,
            diff_truncated,
            backup: backup.map(|_| format!("{}.orig", self.input.path)),
            dry_run: self.input.dry_run,
            other_names: 0,
            not_kept: Vec::new(),
        }
    }
}

/// All of it; a byte more than the limit, where there is more.
fn all(file: &File, stat: &FileStat) -> std::io::Result<Vec<u8>> {
    // With room for one more, so that its end is seen without growing.
    let size = usize::try_from(read::length_of(stat)).unwrap_or(0);
    let mut content = Vec::with_capacity(size + 32);
    file.take(LARGEST + 1).read_to_end(&mut content)?;
    Ok(content)
}

fn diff(path: &str, before: &[u8], after: &[u8]) -> (Option<String>, bool) {
    // Both are text.
    let texts = std::str::from_utf8(before).ok().zip(std::str::from_utf8(after).ok());
    let Some((before, after)) = texts else { return (None, false) };
    let count = |text: &str| memchr_iter(b'\n', text.as_bytes()).count();
    if count(before) + count(after) > DIFF_LINES {
        return (None, true);
    }
    let lines = TextDiff::configure().timeout(DIFF_TIME).diff_lines(before, after);
    let name = path.trim_start_matches('/');
    let (from, to) = (format!("a/{name}"), format!("b/{name}"));
    let diff = lines.unified_diff().header(&from, &to).to_string();
    match shape::piece(diff.as_bytes(), DIFF, None) {
        Some(piece) if piece.bytes < diff.len() => (Some(piece.text), true),
        _ => (Some(diff), false),
    }
}

#[cfg(test)]
mod tests;
