//! `write_file`: a file has this content, or is as it was.
//!
//! Owns: what a name to write means, and in which order things happen: parents, the lock,
//! what the caller expects to be there, the content, its name. A symlink is written
//! through to what it leads to beneath a root. Must not: write into a file that is there,
//! or replace what is no file.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::errno::Errno;
use nix::sys::stat::FileStat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool_protocol::Fault;

use crate::error::{Doing, FileError, shown};
use crate::hash::{self, Hash};
use crate::lock::Held;
use crate::put::{self, Like, Over, Parents, Temporary};
use crate::read::ReadAs;
use crate::way::{self, Way};
use crate::{Operation, Roots, Stop, Target, after, opened, shape, when};

/// The longest name that the kernel tells of something open.
const LONGEST: usize = 4095;
/// How many directories are made for a file.
const DEEPEST: usize = 128;

/// `write_file`.
#[derive(Debug)]
pub struct WriteFile;

/// What to write.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteInput {
    /// The file: relative to the workspace, or absolute in it. Directories that are missing
    /// are made.
    pub path: String,
    /// All that the file is to hold.
    pub content: String,
    /// "base64" where `content` is bytes as base64; else it is text.
    #[serde(default)]
    pub encoding: Option<ReadAs>,
    /// Only make a new file: an error where there is one.
    #[serde(default)]
    pub create_only: bool,
    /// Only replace the file whose SHA-256 is this, as read_file gave it.
    #[serde(default)]
    pub if_match: Option<String>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WriteOutput {
    /// As it was asked for.
    pub path: String,
    /// How many.
    pub bytes: u64,
    /// Nothing was there before.
    pub created: bool,
    /// SHA-256 of what it holds now.
    pub sha256: String,
    /// When it was written: ISO 8601, UTC.
    pub mtime: String,
    /// So many other names (hard links) of the file that was replaced keep what it held.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_names: u64,
    /// Attributes of the file that was replaced which this one has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
}

/// A file to write: where it lies, open.
#[derive(Debug)]
pub struct WriteTarget {
    path: String,
    content: Vec<u8>,
    create_only: bool,
    if_match: Option<String>,
    directory: OwnedFd,
    /// Directories to make, and the file.
    parents: Vec<Vec<u8>>,
    name: Vec<u8>,
    real: Vec<u8>,
    lasting: bool,
}

impl Operation for WriteFile {
    const NAME: &'static str = "write_file";
    type Input = WriteInput;
    type Output = WriteOutput;
    type Target = WriteTarget;

    fn find(roots: &Roots, input: WriteInput) -> Result<WriteTarget, FileError> {
        let said = input.path.as_bytes();
        let if_match = hash::given(input.if_match)?;
        if if_match.is_some() && input.create_only {
            let message = "create_only and if_match exclude one another: give one of them";
            return Err(FileError::said(Fault::InvalidInput, message));
        }
        let content = match input.encoding {
            Some(ReadAs::Base64) => STANDARD.decode(&input.content).map_err(|error| {
                let message = format!("content is no base64 ({error}): give it with its padding");
                FileError::said(Fault::InvalidInput, message)
            })?,
            _ => input.content.into_bytes(),
        };
        let place = roots.place(&input.path)?;
        let (directory, mut parents) = match way::follow(&place, Doing::Writing, true)? {
            Way::Directory(_) => return Err(opened::not_a_file(said, "a directory")),
            Way::Missing { slash: true, .. } => {
                return Err(opened::not_a_file(said, "the name of a directory"));
            }
            Way::Missing { directory, names, slash: false } => (directory, names),
            Way::There { directory, name, open } => {
                opened::regular(open.as_fd(), said)?;
                (directory, vec![name])
            }
        };
        let real = opened::real_below(directory.as_fd(), &parents, said)?;
        if real.len() > LONGEST || parents.len() > DEEPEST {
            return Err(FileError::system(Doing::Writing, said, Errno::ENAMETOOLONG));
        }
        let name = parents.pop().unwrap_or_default();
        Ok(WriteTarget {
            path: input.path,
            content,
            create_only: input.create_only,
            if_match,
            directory,
            parents,
            name,
            real,
            lasting: roots.last(),
        })
    }
}

impl Target for WriteTarget {
    type Output = WriteOutput;

    fn names(&self) -> Vec<Vec<u8>> {
        vec![self.real.clone()]
    }

    fn run(
        self,
        stop: &Stop,
        _: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<WriteOutput, FileError> {
        let said = self.path.as_bytes();
        if self.if_match.is_some() && !self.parents.is_empty() {
            return Err(gone(said));
        }
        let mut made = Parents::default();
        let within = made.make(self.directory, &self.parents, self.lasting, said)?;
        let directory = within.as_fd();
        let held = Held::take(directory, &self.name, said, stop)?;
        let there = held.lock(directory, None, said, stop)?;
        match &there {
            Some(_) if self.create_only => return Err(exists(said)),
            Some(there) => {
                let may = opened::may_write(there.open.as_fd());
                may.map_err(|errno| FileError::system(Doing::Writing, said, errno))?;
                if let Some(expected) = &self.if_match {
                    matches(there.open.as_fd(), expected, said, stop)?;
                }
            }
            None if self.if_match.is_some() => return Err(gone(said)),
            None => {}
        }
        let like = there.as_ref().map(|there| Like {
            stat: &there.stat,
            open: there.open.as_fd(),
            file: there.file(),
        });
        let mut temporary =
            Temporary::write(directory, said, &self.content, like, self.lasting, stop)?;
        let not_kept = temporary.not_kept();
        // The rules saw this name: the directory may have been moved since.
        let expected = like.filter(|_| self.if_match.is_some()).map(|like| like.stat);
        opened::still((directory, &self.name), &self.real, expected, said)?;
        let over = if there.is_some() { Over::What } else { Over::Nothing };
        let stat = temporary.take(&self.name, over).map_err(|error| match error.fault() {
            Fault::AlreadyExists if self.create_only => exists(said),
            Fault::AlreadyExists => opened::changed(said),
            _ => error,
        })?;
        made.keep();
        if self.lasting {
            put::last(directory, said)?;
        } else if over == Over::What {
            after::write_out(within, held.key().clone(), &stat);
        }
        Ok(WriteOutput {
            bytes: shape::count(self.content.len()),
            created: there.is_none(),
            sha256: hash::of(&self.content),
            mtime: when::modified(&stat),
            other_names: there.map_or(0, |there| {
                let names = other_names(&there.stat);
                there.replaced();
                names
            }),
            not_kept,
            path: self.path,
        })
    }
}

/// How many names a file has beside the one that it is known by.
#[allow(clippy::useless_conversion, reason = "it has 32 bits on other machines")]
pub(crate) fn other_names(stat: &FileStat) -> u64 {
    u64::from(stat.st_nlink).saturating_sub(1)
}

/// For serde: what is said only where there is something to say.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An error where its content is not that.
fn matches(
    file: BorrowedFd<'_>,
    expected: &str,
    said: &[u8],
    stop: &Stop,
) -> Result<(), FileError> {
    let failed = |errno| FileError::system(Doing::Reading, said, errno);
    let mut file = opened::reading(file).map_err(failed)?;
    let (mut hash, mut buffer) = (Hash::default(), vec![0; 256 << 10]);
    loop {
        stop.check()?;
        let read = file.read(&mut buffer);
        let read = read.map_err(|error| failed(opened::raw(&error)))?;
        let Some(chunk) = buffer.get(..read).filter(|chunk| !chunk.is_empty()) else { break };
        hash.update(chunk);
    }
    if hash.text() == expected { Ok(()) } else { Err(unmatched(said)) }
}

/// That it is not what the caller read.
pub(crate) fn unmatched(said: &[u8]) -> FileError {
    let message = "is not what if_match says: read it again, then try again";
    FileError::said(Fault::FileChanged, format!("{} {message}", shown(said)))
}

fn gone(said: &[u8]) -> FileError {
    let message = "is not there, and if_match says that it is: leave out if_match to make it";
    FileError::said(Fault::FileChanged, format!("{} {message}", shown(said)))
}

fn exists(said: &[u8]) -> FileError {
    let message = "is there already: leave out create_only to replace it";
    FileError::said(Fault::AlreadyExists, format!("{} {message}", shown(said)))
}

#[cfg(test)]
mod tests;
