//! What .gitignore, .ignore and .git/info/exclude leave out.
//!
//! Owns: reading these files through descriptors, without waiting for anything that is no
//! file, and git's meaning of them: the deepest file that has a word on a path decides, in
//! it the last line; .ignore before .gitignore before .git/info/exclude; a repository in a
//! repository begins anew, but for .ignore. The files count outside of repositories too
//! (an exported tree means what it says). Must not: enter directories. globset matches.
//!
//! What counts as nothing, so that a file is rather shown than hidden: a line that is not
//! UTF-8 or no valid pattern, and whole a file that is over [`MOST`], cannot be read, is no
//! regular file, costs more than [`COSTS`], or comes when [`BUDGET`] is used up (these are
//! counted).

use std::ffi::CStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};

/// The largest file that is read, in bytes.
pub const MOST: usize = 1 << 20;
/// What all files of a walk that count at one time may cost: about their bytes; each file
/// and each line more, and what has wildcards in the midst much more.
pub const BUDGET: usize = 4 << 20;
/// What one file may cost.
pub const COSTS: usize = BUDGET / 2;
/// What a file costs beside its lines.
const EACH: usize = 4096;
/// What a line costs beside its bytes.
const LINE: usize = 64;
/// How often a byte counts of a line that becomes a regular expression, some hundred bytes
/// of memory for each of its own.
const WILD: usize = 32;

const GITIGNORE: &CStr = c".gitignore";
const IGNORE: &CStr = c".ignore";
const GIT: &CStr = c".git";

/// What is used of the budget, and how many files did not count.
#[derive(Debug, Default)]
pub struct Account {
    used: AtomicUsize,
    skipped: AtomicU64,
}

impl Account {
    /// How many files that should count did not.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    fn skip<T>(&self) -> Option<T> {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Which of the files a directory has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Has {
    gitignore: bool,
    ignore: bool,
    git: bool,
}

impl Has {
    /// Notes an entry of the directory. A symlink is not followed, as git does not.
    pub fn note(&mut self, name: &CStr, file: bool, directory: bool) {
        if !name.to_bytes().starts_with(b".") {
            return;
        }
        self.gitignore |= file && name == GITIGNORE;
        self.ignore |= file && name == IGNORE;
        self.git |= (file || directory) && name == GIT;
    }

    /// Asks for each by name.
    pub fn look(directory: impl AsFd) -> Has {
        let kind = |name| {
            let found = fstatat(directory.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW);
            found.map_or(SFlag::empty(), |stat| {
                SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
            })
        };
        let git = kind(GIT);
        Has {
            gitignore: kind(GITIGNORE) == SFlag::S_IFREG,
            ignore: kind(IGNORE) == SFlag::S_IFREG,
            git: git == SFlag::S_IFREG || git == SFlag::S_IFDIR,
        }
    }
}

/// What counts in a directory: its own files, and those above.
#[derive(Debug)]
pub struct Rules {
    above: Option<Arc<Rules>>,
    /// Where in a path, counted from the root, what is in this directory begins.
    at: usize,
    ignore: Option<Set>,
    gitignore: Option<Set>,
    exclude: Option<Set>,
    repository: bool,
    cost: usize,
    account: Arc<Account>,
}

impl Rules {
    /// Of a directory with those files, whose entries' paths go on at `at`.
    pub fn of(
        above: Option<Arc<Rules>>,
        directory: impl AsFd,
        has: Has,
        at: usize,
        account: &Arc<Account>,
    ) -> Option<Arc<Rules>> {
        if has == Has::default() {
            return above;
        }
        let mut cost = 0;
        let mut set = |bytes: Option<Vec<u8>>| {
            let bytes = bytes?;
            let own = costs(&bytes);
            if own > COSTS {
                return account.skip();
            }
            let used = account.used.fetch_add(own, Ordering::Relaxed);
            if used.saturating_add(own) > BUDGET {
                account.used.fetch_sub(own, Ordering::Relaxed);
                return account.skip();
            }
            cost += own;
            Set::new(&bytes).or_else(|| account.skip())
        };
        let directory = directory.as_fd();
        let wanted = |wanted: bool, name| match wanted {
            true => read(directory, name).or_else(|| account.skip()),
            false => None,
        };
        let ignore = set(wanted(has.ignore, IGNORE)).filter(Set::says);
        let gitignore = set(wanted(has.gitignore, GITIGNORE)).filter(Set::says);
        let exclude = set(has.git.then(|| exclude(directory)).flatten()).filter(Set::says);
        let repository = has.git;
        if !repository && ignore.is_none() && gitignore.is_none() {
            account.used.fetch_sub(cost, Ordering::Relaxed);
            return above;
        }
        let account = Arc::clone(account);
        Some(Arc::new(Rules { above, at, ignore, gitignore, exclude, repository, cost, account }))
    }

    /// Whether a path, counted from the root, is left out. `matches` is scratch.
    pub fn ignore(&self, path: &[u8], directory: bool, matches: &mut Vec<usize>) -> bool {
        let (mut gitignore, mut exclude) = (None, None);
        let mut ended = false;
        let mut rules = Some(self);
        while let Some(here) = rules {
            let rest = path.get(here.at..).unwrap_or_default();
            let mut ask = |set: &Option<Set>| {
                set.as_ref().and_then(|set| set.says_of(rest, directory, matches))
            };
            if let Some(out) = ask(&here.ignore) {
                return out;
            }
            if !ended {
                gitignore = gitignore.or_else(|| ask(&here.gitignore));
                exclude = exclude.or_else(|| ask(&here.exclude));
            }
            ended |= here.repository;
            rules = here.above.as_deref();
        }
        gitignore.or(exclude).unwrap_or(false)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.cost, Ordering::Relaxed);
        // One after another: they may be ten thousand deep.
        let mut above = self.above.take();
        while let Some(mut rules) = above.and_then(Arc::into_inner) {
            above = rules.above.take();
        }
    }
}

/// What a file's lines take, compiled.
fn costs(bytes: &[u8]) -> usize {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.fold(EACH, |sum, line| {
        let rest = line.strip_prefix(b"**/").unwrap_or(line);
        let rest = rest.strip_prefix(b"*").unwrap_or(rest);
        let wild = rest.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        sum + LINE + line.len() * if wild { WILD } else { 1 }
    })
}

/// The lines of a file.
#[derive(Debug)]
struct Set {
    globs: GlobSet,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    keeps: bool,
    directories: bool,
}

impl Set {
    fn new(bytes: &[u8]) -> Option<Set> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut globs = GlobSetBuilder::new();
        let mut lines = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let Some((line, glob)) = std::str::from_utf8(line).ok().and_then(pattern) else {
                continue;
            };
            let glob =
                GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
            if let Ok(glob) = glob {
                globs.add(glob);
                lines.push(line);
            }
        }
        Some(Set { globs: globs.build().ok()?, lines })
    }

    fn says(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Out or not, by the last line that has a word on it.
    fn says_of(&self, path: &[u8], directory: bool, matches: &mut Vec<usize>) -> Option<bool> {
        self.globs.matches_candidate_into(&Candidate::from_bytes(path), matches);
        let lines = matches.iter().rev().filter_map(|index| self.lines.get(*index));
        let mut lines = lines.filter(|line| directory || !line.directories);
        lines.next().map(|line| !line.keeps)
    }
}

/// A line as a glob of a path from its directory on.
fn pattern(line: &str) -> Option<(Line, String)> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let line = without_spaces(line);
    let (keeps, line) = line.strip_prefix('!').map_or((false, line), |line| (true, line));
    let (directories, line) = line.strip_suffix('/').map_or((false, line), |line| (true, line));
    if line.is_empty() || line.ends_with('/') {
        return None;
    }
    let anchored = line.contains('/');
    let line = line.strip_prefix('/').unwrap_or(line);
    let mut glob = String::with_capacity(line.len() + 8);
    if !anchored {
        glob.push_str("**/");
    }
    translate(line, anchored, &mut glob)?;
    if glob.ends_with("/**") {
        // What is in it, not itself.
        glob.push_str("/*");
    }
    Some((Line { keeps, directories }, glob))
}

/// Spaces at the end say nothing, where no backslash is before them.
fn without_spaces(line: &str) -> &str {
    let trimmed = line.trim_end_matches(' ');
    let slashes = trimmed.len() - trimmed.trim_end_matches('\\').len();
    match slashes % 2 == 1 && trimmed.len() < line.len() {
        true => line.get(..trimmed.len() + 1).unwrap_or(line),
        false => trimmed,
    }
}

/// Git's glob as globset's: braces are themselves, `**` is more than `*` only as a whole
/// component, classes have names. `None`: nothing matches it, as git has it.
fn translate(line: &str, anchored: bool, glob: &mut String) -> Option<()> {
    let mut rest = line;
    let mut begins = true;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            '{' | '}' => {
                glob.push('\\');
                glob.push(first);
            }
            '\\' => {
                let escaped = rest.chars().nth(1)?;
                glob.push('\\');
                glob.push(escaped);
                taken += escaped.len_utf8();
            }
            '*' => {
                let behind = rest.trim_start_matches('*');
                taken = rest.len() - behind.len();
                let whole = anchored && begins && (behind.is_empty() || behind.starts_with('/'));
                glob.push_str(if whole && taken > 1 { "**" } else { "*" });
            }
            '[' => taken = class(rest, glob)?,
            _ => glob.push(first),
        }
        begins = first == '/';
        rest = rest.get(taken..).unwrap_or_default();
    }
    Some(())
}

/// A class in brackets: how long it is in `text`. What is not ASCII stands for its bytes,
/// here as there.
fn class(text: &str, glob: &mut String) -> Option<usize> {
    let negated = text.get(1..)?.starts_with(['!', '^']);
    let mut at = if negated { 2 } else { 1 };
    let mut members = String::new();
    let mut first = true;
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(']') && !first {
            at += 1;
            break;
        }
        first = false;
        if let Some((name, _)) = rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
            for (low, high) in named_class(name)? {
                members.extend(*low..=*high);
            }
            at += name.len() + 4;
            continue;
        }
        let (low, taken) = one(rest)?;
        at += taken;
        let range = text.get(at..)?.strip_prefix('-').filter(|rest| !rest.starts_with(']'));
        match range {
            Some(rest) => {
                let (high, taken) = one(rest)?;
                at += taken + 1;
                members.extend((low..='\u{7f}').take_while(|c| *c <= high));
                members.extend([low, high].iter().filter(|c| !c.is_ascii() && low <= high));
            }
            None => members.push(low),
        }
    }
    // A slash is in no class. globset knows no escapes in one: `]` goes first, `-` last, `!`
    // and `^` not first.
    let marks = |c: &char| matches!(c, '/' | ']' | '-' | '!' | '^');
    let has = |mark: char| if members.contains(mark) { Some(mark) } else { None };
    let mut class: String = has(']').into_iter().collect();
    class.extend(members.chars().filter(|c| !marks(c)));
    if negated {
        class.push('/');
    }
    match (class.is_empty(), has('!'), has('^'), has('-')) {
        (true, None, None, None) => return None,
        (true, Some(_), None, None) => glob.push_str("\\!"),
        (true, None, Some(_), None) => glob.push_str("\\^"),
        (true, Some(_), Some(_), None) => glob.push_str("{\\!,\\^}"),
        (true, not, caret, Some(_)) => {
            glob.push_str("[-");
            glob.extend(not.into_iter().chain(caret));
            glob.push(']');
        }
        (false, not, caret, dash) => {
            glob.push_str(if negated { "[!" } else { "[" });
            glob.push_str(&class);
            glob.extend(not.into_iter().chain(caret).chain(dash));
            glob.push(']');
        }
    }
    Some(at)
}

fn one(text: &str) -> Option<(char, usize)> {
    let mut chars = text.chars();
    match chars.next()? {
        '\\' => chars.next().map(|escaped| (escaped, 1 + escaped.len_utf8())),
        plain => Some((plain, plain.len_utf8())),
    }
}

fn named_class(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\u{1}', '\u{1f}'), ('\u{7f}', '\u{7f}')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[(' ', ' '), ('\t', '\r')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    })
}

/// The bytes of a regular file, not over [`MOST`].
fn read(directory: impl AsFd, name: &CStr) -> Option<Vec<u8>> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let size = usize::try_from(stat.st_size).ok()?;
    let regular = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    if !regular || size > MOST {
        return None;
    }
    let mut bytes = Vec::with_capacity(size.saturating_add(1));
    let most = u64::try_from(MOST).unwrap_or(u64::MAX);
    std::fs::File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= MOST).then_some(bytes)
}

/// .git/info/exclude, where .git is a directory (a work tree's own .git is a file, and
/// what it names may be anywhere).
fn exclude(directory: impl AsFd) -> Option<Vec<u8>> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let git = openat(directory, GIT, flags, Mode::empty()).ok()?;
    let info = openat(git, c"info", flags, Mode::empty()).ok()?;
    read(info, c"exclude")
}
