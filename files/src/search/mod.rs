//! `search_files`: by name or by content, in parallel.
//!
//! Owns: the input, the output, and which of the results are given: without streaming the
//! first in the order of paths and lines, the same at every call; with it those that came
//! first. Once there are surely more than are wanted, what cannot be among them is not
//! searched. Must not: follow a symlink, or match without a bound (every pattern takes
//! linear time).
//!
//! - `pattern`  what to look for, compiled
//! - `names`, `contents`   a thread of either search
//! - `lines`    lines as results have them

mod contents;
mod lines;
mod names;
mod pattern;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool_protocol::Fault;

use crate::best::{Best, Keep, Weighed, size_of};
use crate::error::FileError;
use crate::ignored::Account;
use crate::root::Roots;
use crate::shown::Bytes;
use crate::walk::{self, Plan, Start, Visit, What};
use crate::{Operation, Stop, Target};
use contents::Contents;
use names::Names;
use pattern::{Filter, Sought};

/// The most results at once.
const MOST: usize = 10_000;
/// As many as are given where nothing is said.
const USUAL: usize = 50;
/// The most lines around one.
const AROUND: usize = 100;
/// The most lines in all.
const LINES: usize = 50_000;
/// The largest file that is searched where nothing is said, in bytes.
const LARGE: u64 = 64 << 20;
/// How many files of a directory a thread takes at a time.
const SHARE: usize = 64;
/// How many results wait for who takes them as they come.
const WAITING: usize = 64;

/// The operation.
#[derive(Debug)]
pub struct SearchFiles;

/// What to search for, and where.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What to look for.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// "content": lines in files; "name": files by name. Where absent, "content", but for
    /// the types "glob" and "exact", which only names have.
    #[serde(default)]
    pub by: Option<By>,
    /// For content "regex" (the default) or "literal"; for names "glob" (the default),
    /// "regex" (of the path below the searched directory) or "exact". A glob without a slash
    /// matches the name in any directory, one with a slash the path below the searched one.
    #[serde(default, rename = "type")]
    pub kind: Option<PatternType>,
    /// Whether capitals matter; true where absent.
    #[serde(default)]
    pub case_sensitive: Option<bool>,
    /// The directory to search, or one file; "." where absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Only files that match one of these globs, as "*.rs" or "src/**".
    #[serde(default)]
    pub include: Vec<String>,
    /// No file and no directory that matches one of these globs.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// How many lines before each match to give, up to 100.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub before: Option<usize>,
    /// How many lines after each match to give, up to 100.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub after: Option<usize>,
    /// As many both before and after.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub context: Option<usize>,
    /// The most results, up to 10,000; 50 where absent. Fewer are given where they would
    /// take more than 4 MiB.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_results: Option<usize>,
    /// Names that begin with a dot too (.git only with "gitignore": false).
    #[serde(default)]
    pub hidden: bool,
    /// Without what .gitignore leaves out; true where absent.
    #[serde(default)]
    pub gitignore: Option<bool>,
    /// Larger files are skipped and counted; 64 MiB where absent.
    #[serde(default)]
    pub max_file_bytes: Option<u64>,
}

/// Names or contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Files by name.
    Name,
    /// Lines in files.
    Content,
}

/// How the pattern is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatternType {
    /// With `*`, `?`, `[a-z]`, `{a,b}` and `**`; names only.
    Glob,
    /// A regular expression without look-around and back-references.
    Regex,
    /// The very name; names only.
    Exact,
    /// The very text; content only.
    Literal,
}

/// What was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Output {
    /// In the order of paths and lines. The first in that order where there are more, but
    /// for callers that took results as they came: those have what came first.
    pub results: Vec<Found>,
    /// How many were found; where "truncated", there may be more.
    pub total: u64,
    /// How many files were searched.
    pub files_searched: u64,
    /// How many were not, and why.
    pub skipped: Skipped,
    /// Whether there is more than was given, or the search ended early.
    pub truncated: bool,
    /// Whether the time was up before the end.
    pub timed_out: bool,
    /// How long it took.
    pub duration_ms: u64,
}

/// What was not searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Skipped {
    /// Files and directories that cannot be read.
    pub unreadable: u64,
    /// Files that hold a NUL byte.
    pub binary: u64,
    /// Files over max_file_bytes, or with a line too long to search.
    pub too_large: u64,
    /// Ignore files that did not count: too large, or unreadable.
    pub ignore_files: u64,
}

/// One result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Found {
    /// A file, by its name.
    File(File),
    /// A line in a file.
    Line(Line),
}

/// A file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct File {
    /// From the workspace on, as other tools take it.
    pub path: Bytes,
    /// In bytes.
    pub size: u64,
    /// When it was changed, ISO 8601.
    pub mtime: String,
}

/// A line that matches.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Line {
    /// From the workspace on, as other tools take it.
    pub path: Bytes,
    /// From 1.
    pub line: u64,
    /// Of the first match in the line, in bytes from 1.
    pub column: u64,
    /// The line; where it is long, the part around the match, with "…" where it was cut.
    pub text: Bytes,
    /// Whether it was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The lines before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Bytes>,
    /// The lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Bytes>,
}

impl Weighed for Found {
    fn size(&self) -> usize {
        match self {
            Found::File(_) => 0,
            Found::Line(line) => line.size(),
        }
    }
}

impl Line {
    /// What its lines take in an answer.
    fn size(&self) -> usize {
        let around = self.before.iter().chain(&self.after);
        around.chain([&self.text]).map(|line| size_of(&line.0) + 3).sum()
    }
}

/// A search that is to run.
#[derive(Debug)]
pub struct Search {
    start: Start,
    sought: Sought,
    filter: Filter,
    before: usize,
    after: usize,
    most: usize,
    hidden: bool,
    gitignore: bool,
    max_file_bytes: u64,
}

impl Operation for SearchFiles {
    const NAME: &'static str = "search_files";
    type Input = Input;
    type Output = Output;
    type Target = Search;

    fn find(roots: &Roots, input: Input) -> Result<Search, FileError> {
        let wrong = |message: String| Err(FileError::said(Fault::InvalidInput, message));
        let most = input.max_results.unwrap_or(USUAL);
        if most == 0 || most > MOST {
            return wrong(format!("max_results is {most}: give 1 to {MOST}, or narrow the search"));
        }
        let around = input.context.unwrap_or(0);
        let (before, after) = (input.before.unwrap_or(around), input.after.unwrap_or(around));
        if before > AROUND || after > AROUND {
            return wrong(format!("before, after and context are at most {AROUND}: read the file"));
        }
        if most * (before + after + 1) > LINES {
            let message = "lower max_results, before or after";
            return wrong(format!("that may be more than {LINES} lines: {message}"));
        }
        let sensitive = input.case_sensitive.unwrap_or(true);
        let sought = Sought::new(&input.pattern, input.by, input.kind, sensitive)?;
        let filter = Filter::new(&input.include, &input.exclude, sensitive)?;
        let start = Start::find(roots, input.path.as_deref().unwrap_or("."))?;
        Ok(Search {
            start,
            sought,
            filter,
            before,
            after,
            most,
            hidden: input.hidden,
            gitignore: input.gitignore.unwrap_or(true),
            max_file_bytes: input.max_file_bytes.unwrap_or(LARGE),
        })
    }
}

impl Target for Search {
    type Output = Output;

    fn names(&self) -> Vec<Vec<u8>> {
        vec![self.start.name.clone()]
    }

    fn run(self, stop: &Stop, piece: Option<&mut dyn FnMut(Value)>) -> Result<Output, FileError> {
        let Some(piece) = piece else {
            return self.all(stop, None);
        };
        let (give, take) = sync_channel(WAITING);
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("search".to_owned());
            let search = builder.spawn_scoped(scope, || self.all(stop, Some(give)));
            let search = search.map_err(|error| {
                FileError::said(Fault::ExecutionError, format!("no thread to search in: {error}"))
            })?;
            take.iter().for_each(piece);
            search.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// What a thread did.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    searched: u64,
    skipped: Skipped,
}

/// A thread of a search.
trait Searching: Visit {
    /// One file that is open, by its path from the root on.
    fn one(&mut self, file: &What, path: &[u8]);

    fn tally(&self) -> Tally;
}

impl Search {
    fn all(&self, stop: &Stop, give: Option<SyncSender<Value>>) -> Result<Output, FileError> {
        let begun = Instant::now();
        let keep = if give.is_some() { Keep::Earliest } else { Keep::Lowest };
        let best = Best::new(keep, self.most);
        let (tally, ended) = match &self.sought {
            Sought::Names(names) => {
                self.through(stop, || Names::new(self, names, &best, give.clone()))
            }
            Sought::Contents(lines) => {
                self.through(stop, || Contents::new(self, lines, &best, stop, give.clone()))
            }
        };
        let timed_out = match ended {
            None => false,
            Some(FileError::TooLong) => true,
            Some(why) => return Err(why),
        };
        let (truncated, total) = (best.more() || timed_out, best.total());
        Ok(Output {
            results: best.into_results().into_each().collect(),
            total,
            files_searched: tally.searched,
            skipped: tally.skipped,
            truncated,
            timed_out,
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn through<S: Searching>(
        &self,
        stop: &Stop,
        mut thread: impl FnMut() -> S,
    ) -> (Tally, Option<FileError>) {
        let mut tally = Tally::default();
        let (threads, ended) = match &self.start.what {
            What::Directory(directory) => {
                let account = Arc::new(Account::default());
                let plan = Plan {
                    start: directory.as_fd(),
                    lead: &self.start.lead,
                    hidden: self.hidden,
                    rules: self.gitignore.then(|| self.start.rules(&account)),
                    account: Arc::clone(&account),
                    depth: usize::MAX,
                    share: match self.sought {
                        Sought::Names(_) => usize::MAX,
                        Sought::Contents(_) => SHARE,
                    },
                };
                let walked = walk::walk(&plan, stop, thread);
                tally.skipped.unreadable = walked.unreadable;
                tally.skipped.ignore_files = account.skipped();
                (walked.visits, walked.ended)
            }
            What::File(_, name, _) => {
                let mut thread = thread();
                let path = [&self.start.lead, name.to_bytes()].concat();
                thread.one(&self.start.what, &path);
                (vec![thread], stop.check().err())
            }
        };
        for Tally { searched, skipped } in threads.iter().map(Searching::tally) {
            tally.searched += searched;
            tally.skipped.unreadable += skipped.unreadable;
            tally.skipped.binary += skipped.binary;
            tally.skipped.too_large += skipped.too_large;
        }
        (tally, ended)
    }

    /// The path below the searched directory.
    fn below<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        path.get(self.start.lead.len()..).unwrap_or_default()
    }

    /// Whether a directory may hold what is wanted.
    fn enters(&self, path: &[u8], best: &Best<Found>) -> bool {
        !best.beyond(path) && !self.filter.excludes(self.below(path))
    }
}

/// A result to who takes them as they come.
fn give(give: Option<&SyncSender<Value>>, value: Option<Value>) {
    if let (Some(give), Some(value)) = (give, value) {
        // Nobody takes any more: the search ends by itself.
        give.send(value).unwrap_or_default();
    }
}
