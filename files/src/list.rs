//! `list_directory`: what is in a directory, and deeper where that is asked for.
//!
//! Owns: paging, and what is told of an entry. Must not: follow a symlink.
//!
//! - `ahead` a directory's files, looked at by two threads
//! - `json`  a listing as it is answered

mod ahead;
mod json;

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nix::fcntl::readlinkat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool_protocol::Fault;

use self::ahead::{Ahead, Seen};
use crate::best::{Best, Keep, Results, Weighed, size_of};
use crate::error::FileError;
use crate::ignored::Account;
use crate::root::Roots;
use crate::shown::{Bytes, order};
use crate::walk::{self, Found, Kind, Plan, Start, Visit, What};
use crate::when::Time;
use crate::{Operation, Stop, Target, as_json};

/// The most entries at once.
const MOST: usize = 10_000;
/// As many as are given where nothing is said.
const USUAL: usize = 1000;

/// As many files are worth another thread: one is there by the time that a third is looked at.
const MANY: usize = 48;

/// The operation.
#[derive(Debug)]
pub struct ListDirectory;

/// What to list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The directory; "." where absent.
    #[serde(default)]
    pub path: Option<String>,
    /// How deep; 1 where absent: only what is directly in the directory.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub depth: Option<usize>,
    /// Names that begin with a dot too.
    #[serde(default)]
    pub all: bool,
    /// Without what .gitignore leaves out. Where absent: true if depth is over 1, so that a
    /// tree shows sources and not what is built; false for one directory, to show all it has.
    #[serde(default)]
    pub gitignore: Option<bool>,
    /// The most entries, up to 10,000; 1000 where absent. Fewer are given where their paths
    /// would take more than 4 MiB: "next" goes on.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<usize>,
    /// Goes on after this path: "next" of the answer before.
    #[serde(default)]
    pub after: Option<Bytes>,
}

/// What is there.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The directory, as paths have it.
    pub path: Bytes,
    /// In the order of paths: what is in a directory comes right after it.
    pub entries: Vec<Entry>,
    /// Whether more come after these.
    pub has_more: bool,
    /// What to give as "after" for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Bytes>,
    /// How many directories could not be read.
    pub unreadable: u64,
}

/// One entry.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Entry {
    /// From the workspace on, as other tools take it.
    pub path: Bytes,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// In bytes; of files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was changed, ISO 8601.
    #[schemars(with = "String")]
    pub mtime: Time,
    /// What a symlink holds, where that stays in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Bytes>,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> EntryKind {
        match kind {
            Kind::File => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
            Kind::Symlink => EntryKind::Symlink,
            Kind::Other => EntryKind::Other,
        }
    }
}

/// What is told of an entry beside its path.
#[derive(Clone, Debug)]
struct Told {
    kind: EntryKind,
    size: Option<u64>,
    mtime: Time,
    target: Option<Bytes>,
}

impl Weighed for Told {
    fn size(&self) -> usize {
        self.target.as_ref().map_or(0, |target| size_of(&target.0))
    }
}

/// A directory that is open.
#[derive(Debug)]
pub struct Listing {
    start: Start,
    depth: usize,
    all: bool,
    gitignore: bool,
    limit: usize,
    after: Option<Vec<u8>>,
}

impl Operation for ListDirectory {
    const NAME: &'static str = "list_directory";
    type Input = Input;
    type Output = Output;
    type Target = Listing;

    fn find(roots: &Roots, input: Input) -> Result<Listing, FileError> {
        let (depth, limit) = (input.depth.unwrap_or(1), input.limit.unwrap_or(USUAL));
        if depth == 0 {
            return Err(FileError::said(Fault::InvalidInput, "depth is 0: give at least 1"));
        }
        if limit == 0 || limit > MOST {
            let message = format!("limit is {limit}: give 1 to {MOST}, and go on with \"after\"");
            return Err(FileError::said(Fault::InvalidInput, message));
        }
        let path = input.path.as_deref().unwrap_or(".");
        let start = Start::find(roots, path)?;
        if let What::File(..) = start.what {
            let message = format!("{} is a file: read it with read_file", path.escape_debug());
            return Err(FileError::said(Fault::NotADirectory, message));
        }
        let after = match input.after {
            None => None,
            Some(Bytes(after)) => {
                let below = after.strip_prefix(&*start.shown);
                Some(below.filter(|path| path.starts_with(&start.lead)).map(<[u8]>::to_vec).ok_or_else(|| {
                    FileError::said(
                        Fault::InvalidInput,
                        "after is no path of this listing: give \"next\" of the answer before",
                    )
                })?)
            }
        };
        let gitignore = input.gitignore.unwrap_or(depth > 1);
        Ok(Listing { start, depth, all: input.all, gitignore, limit, after })
    }
}

impl Target for Listing {
    type Output = Output;

    fn names(&self) -> Vec<Vec<u8>> {
        vec![self.start.name.clone()]
    }

    fn run(
        self,
        stop: &Stop,
        piece: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<Output, FileError> {
        let output = self.listed(stop)?.output();
        if let Some(piece) = piece {
            for entry in &output.entries {
                let value = serde_json::to_value(entry);
                piece(
                    value.map_err(|error| {
                        FileError::said(Fault::ExecutionError, error.to_string())
                    })?,
                );
            }
        }
        Ok(output)
    }

    fn json(
        self,
        stop: &Stop,
        piece: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<String, FileError> {
        match piece {
            None => {
                let listed = self.listed(stop)?;
                let json = listed.json();
                listed.start.leave();
                json
            }
            piece => as_json(&self.run(stop, piece)?),
        }
    }
}

/// What is in a directory.
#[derive(Debug)]
struct Listed {
    start: Start,
    entries: Results<Told>,
    has_more: bool,
    unreadable: u64,
}

impl Listing {
    fn listed(self, stop: &Stop) -> Result<Listed, FileError> {
        let What::Directory(directory) = &self.start.what else {
            return Err(FileError::said(Fault::NotADirectory, "it is no directory"));
        };
        let account = Arc::new(Account::default());
        let plan = Plan {
            start: directory.as_fd(),
            lead: &self.start.lead,
            hidden: self.all,
            rules: self.gitignore.then(|| self.start.rules(&account)),
            account,
            depth: self.depth,
            share: usize::MAX,
        };
        let best = Best::new(Keep::Lowest, self.limit);
        let walked = walk::walk(&plan, stop, || List { listing: &self, best: &best, ahead: None });
        let unreadable = walked.unreadable;
        if let Some(why) = walked.ended {
            return Err(why);
        }
        drop(walked.visits);
        let (has_more, entries) = (best.more(), best.into_results());
        Ok(Listed { start: self.start, entries, has_more, unreadable })
    }
}

impl Listed {
    fn output(self) -> Output {
        let of = |(path, told): (&[u8], &Told)| {
            let Told { kind, size, mtime, target } = told.clone();
            Entry { path: Bytes(self.start.show(path)), kind, size, mtime, target }
        };
        let entries: Vec<Entry> = self.entries.iter().map(of).collect();
        let (has_more, unreadable) = (self.has_more, self.unreadable);
        let next = entries.last().filter(|_| has_more).map(|entry| entry.path.clone());
        let path = Bytes(self.start.show(&self.start.lead));
        Output { path, entries, has_more, next, unreadable }
    }
}

/// One thread of a listing.
struct List<'a> {
    listing: &'a Listing,
    best: &'a Best<Told>,
    ahead: Option<Ahead>,
}

impl Visit for List<'_> {
    fn enter(&mut self, path: &[u8]) -> bool {
        let passed = self.listing.after.as_ref().is_some_and(|after| {
            // All of it is before, where it neither comes after nor holds what is named.
            let slash = after.get(path.len()) == Some(&b'/');
            let above =
                path.len() <= self.listing.start.lead.len() || (after.starts_with(path) && slash);
            order(path, after).is_lt() && !above
        });
        !passed && !self.best.beyond(path)
    }

    fn files(&mut self, names: &mut dyn ExactSizeIterator<Item = &[u8]>) {
        self.ahead = None;
        let What::Directory(directory) = &self.listing.start.what else { return };
        // What is deeper is not in that directory, and of what comes after something most is not
        // looked at.
        let all = self.listing.depth == 1 && self.listing.after.is_none();
        if all && names.len() >= MANY && names.len() <= self.best.wants() {
            self.ahead = Ahead::of(directory, names);
        }
    }

    fn found(&mut self, found: &Found<'_>) -> ControlFlow<()> {
        let List { listing, best, ahead } = self;
        let after = listing.after.as_ref();
        if after.is_some_and(|after| order(found.path, after).is_le()) {
            return ControlFlow::Continue(());
        }
        let told = || {
            let seen = match ahead {
                Some(ahead) => ahead.next(found.directory, found.name),
                None => Seen::at(found.directory, found.name),
            };
            seen.map(|seen| told(found, seen))
        };
        match best.offer(found.path, 0, told) {
            ControlFlow::Continue(_) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        }
    }
}

/// What is told of an entry.
fn told(found: &Found<'_>, seen: Seen) -> Told {
    let kind = Kind::of(seen.mode);
    let target = match kind {
        Kind::Symlink => readlinkat(found.directory, found.name).ok(),
        _ => None,
    };
    let target = target.map(|target| target.as_bytes().to_vec());
    Told {
        kind: kind.into(),
        size: if kind == Kind::File { u64::try_from(seen.size).ok() } else { None },
        mtime: Time::new(seen.seconds, seen.nanoseconds),
        target: target.filter(|target| stays(found.path, target)).map(Bytes),
    }
}

/// Whether a symlink's text, as it stands, names nothing outside of the root.
fn stays(path: &[u8], target: &[u8]) -> bool {
    if target.first() == Some(&b'/') {
        return false;
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => depth += 1,
        }
    }
    true
}
