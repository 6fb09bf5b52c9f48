//! What to look for, compiled.
//!
//! Owns: which types of pattern go with what, their bounds, and saying where a pattern is
//! wrong. Must not: search.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ParserBuilder;
use tool_protocol::Fault;

use super::{By, PatternType};
use crate::error::FileError;

/// The longest pattern, in bytes.
const LONGEST: usize = 16 * 1024;
/// The most globs in a list, and their bytes together.
const GLOBS: usize = 1000;
const GLOBS_LONG: usize = 64 * 1024;
/// What a compiled pattern may take, in bytes.
const SIZE: usize = 10 << 20;

/// What a search looks for.
#[derive(Debug)]
pub(super) enum Sought {
    Names(Named),
    Contents(RegexMatcher),
}

/// Names that are looked for.
#[derive(Debug)]
pub(super) enum Named {
    Globs(GlobSet),
    Regex(RegexMatcher),
    /// The name, or with a slash the path.
    Exact(Vec<u8>),
}

impl Sought {
    pub(super) fn new(
        pattern: &str,
        by: Option<By>,
        kind: Option<PatternType>,
        sensitive: bool,
    ) -> Result<Sought, FileError> {
        if pattern.is_empty() {
            return Err(FileError::said(Fault::InvalidInput, "pattern is empty: say what to find"));
        }
        if pattern.len() > LONGEST {
            let message = format!("pattern is longer than {LONGEST} bytes: give a shorter one");
            return Err(FileError::said(Fault::InvalidPattern, message));
        }
        let by = by.unwrap_or(match kind {
            Some(PatternType::Glob | PatternType::Exact) => By::Name,
            _ => By::Content,
        });
        Ok(match (by, kind) {
            (By::Name, None | Some(PatternType::Glob)) => {
                Sought::Names(Named::Globs(globs("pattern", &[pattern], sensitive)?))
            }
            (By::Name, Some(PatternType::Regex)) => {
                Sought::Names(Named::Regex(regex(pattern, sensitive, false, false)?))
            }
            (By::Name, Some(PatternType::Exact)) if sensitive => {
                let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
                Sought::Names(Named::Exact(pattern.as_bytes().to_vec()))
            }
            (By::Name, Some(PatternType::Exact)) => {
                let exact = globset::escape(pattern);
                Sought::Names(Named::Globs(globs("pattern", &[exact.as_str()], false)?))
            }
            (By::Content, None | Some(PatternType::Regex)) => {
                Sought::Contents(regex(pattern, sensitive, false, true)?)
            }
            (By::Content, Some(PatternType::Literal)) => {
                Sought::Contents(regex(pattern, sensitive, true, true)?)
            }
            (By::Name, Some(PatternType::Literal)) => {
                let message = "by name, type is glob, regex or exact: give one of them";
                return Err(FileError::said(Fault::InvalidInput, message));
            }
            (By::Content, Some(PatternType::Glob | PatternType::Exact)) => {
                let message = "by content, type is regex or literal: give one of them, or by name";
                return Err(FileError::said(Fault::InvalidInput, message));
            }
        })
    }
}

impl Named {
    /// Whether a path below the searched directory is one of those.
    pub(super) fn is(&self, path: &[u8]) -> bool {
        match self {
            Named::Globs(globs) => globs.is_match_candidate(&Candidate::from_bytes(path)),
            Named::Regex(regex) => regex.is_match(path).unwrap_or(false),
            Named::Exact(exact) if exact.contains(&b'/') => path == exact,
            Named::Exact(exact) => path.rsplit(|byte| *byte == b'/').next() == Some(exact),
        }
    }
}

/// Which files a search is about, by globs.
#[derive(Debug)]
pub(super) struct Filter {
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
}

impl Filter {
    pub(super) fn new(
        include: &[String],
        exclude: &[String],
        sensitive: bool,
    ) -> Result<Filter, FileError> {
        let set = |name, list: &[String]| match list {
            [] => Ok(None),
            list => {
                let list: Vec<&str> = list.iter().map(String::as_str).collect();
                globs(name, &list, sensitive).map(Some)
            }
        };
        Ok(Filter { include: set("include", include)?, exclude: set("exclude", exclude)? })
    }

    /// Whether a file is searched, by its path below the searched directory.
    pub(super) fn takes(&self, path: &[u8]) -> bool {
        self.include.as_ref().is_none_or(|include| matches(include, path)) && !self.excludes(path)
    }

    /// Whether a file or directory is left out.
    pub(super) fn excludes(&self, path: &[u8]) -> bool {
        let exclude = self.exclude.as_ref().filter(|_| !path.is_empty());
        exclude.is_some_and(|exclude| matches(exclude, path))
    }
}

fn matches(globs: &GlobSet, path: &[u8]) -> bool {
    globs.is_match_candidate(&Candidate::from_bytes(path))
}

/// Globs of a path below the searched directory; without a slash, of a name.
fn globs(member: &str, list: &[&str], sensitive: bool) -> Result<GlobSet, FileError> {
    let wrong = |glob: &str, why: String| {
        let glob = glob.escape_debug();
        FileError::said(Fault::InvalidPattern, format!("{member}: the glob {glob} is wrong: {why}"))
    };
    let long = list.iter().map(|glob| glob.len()).sum::<usize>() > GLOBS_LONG;
    if long || list.len() > GLOBS || list.iter().any(|glob| glob.len() > LONGEST) {
        let message = format!(
            "{member}: more than {GLOBS} globs, or one over {LONGEST} bytes, or together over \
             {GLOBS_LONG}: give fewer or shorter ones"
        );
        return Err(FileError::said(Fault::InvalidPattern, message));
    }
    let mut set = GlobSetBuilder::new();
    for glob in list {
        let plain = glob.strip_suffix('/').unwrap_or(glob);
        let plain = plain.strip_prefix("./").unwrap_or(plain);
        let whole = match plain.strip_prefix('/') {
            Some(anchored) => anchored.to_owned(),
            None if plain.contains('/') => plain.to_owned(),
            None => format!("**/{plain}"),
        };
        let built = GlobBuilder::new(&whole)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .case_insensitive(!sensitive)
            .build();
        set.add(built.map_err(|error| wrong(glob, error.kind().to_string()))?);
    }
    set.build().map_err(|error| {
        let first = error.glob().or(list.first().copied()).unwrap_or_default();
        wrong(first, error.kind().to_string())
    })
}

/// A regular expression, or a text as one.
fn regex(
    pattern: &str,
    sensitive: bool,
    literal: bool,
    lines: bool,
) -> Result<RegexMatcher, FileError> {
    let wrong = |why: String| FileError::said(Fault::InvalidPattern, why);
    if !literal {
        let mut parser = ParserBuilder::new();
        parser.utf8(false).multi_line(lines).crlf(lines).case_insensitive(!sensitive);
        parser.build().parse(pattern).map_err(|error| wrong(position(&error)))?;
    }
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(!sensitive).fixed_strings(literal).size_limit(SIZE);
    if lines {
        builder.multi_line(true).crlf(true);
    }
    builder.build(pattern).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default();
        wrong(format!("the pattern cannot be used, each match is within one line: {why}"))
    })
}

/// Where a pattern is wrong, and why.
fn position(error: &regex_syntax::Error) -> String {
    let (at, why) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span().start, error.kind().to_string()),
        other => return format!("the pattern is wrong: {other}"),
    };
    match at.line {
        1 => format!("the pattern is wrong at character {}: {why}", at.column),
        line => format!("the pattern is wrong at line {line}, character {}: {why}", at.column),
    }
}
