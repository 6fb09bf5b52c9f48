//! What was found in a line.
//!
//! Owns: gathering it, within bounds, and the facts that it makes. Must not: tell
//! a part of what it is not sure of.

use super::word::{Word, joined};
use crate::facts::{Facts, Text, Value};

/// How deep commands may lie in each other.
const DEEPEST: usize = 32;
/// The most commands, redirections and variables of a line.
const MOST: usize = 1_000;

/// The line cannot be read for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unclear;

/// What was read for certain.
pub(super) type Sure<T> = Result<T, Unclear>;

/// All that a line has.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) chain: bool,
    pub(super) pipe: bool,
    pub(super) background: bool,
    pub(super) substitution: bool,
    pub(super) function: bool,
    pub(super) shell: bool,
    /// It goes to other directories.
    pub(super) moves: bool,
    programs: Vec<Vec<u8>>,
    paths: Vec<Word>,
    commands: Vec<Text<'static>>,
    variables: Vec<Vec<u8>>,
    reads: Vec<Word>,
    writes: Vec<Word>,
    removes: Vec<Word>,
    depth: usize,
    count: usize,
}

impl Found {
    pub(super) fn enter(&mut self) -> Sure<()> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(Unclear) } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The same one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Found) -> Sure<T>) -> Sure<T> {
        self.enter()?;
        let read = read(self);
        self.leave();
        read
    }

    fn one_more(&mut self) -> Sure<()> {
        self.count += 1;
        if self.count > MOST { Err(Unclear) } else { Ok(()) }
    }

    pub(super) fn program(&mut self, path: &Word, name: &[u8], rest: &[Word]) -> Sure<()> {
        self.one_more()?;
        self.programs.push(name.to_vec());
        self.paths.push(path.clone());
        self.commands.push(joined(name, rest));
        Ok(())
    }

    pub(super) fn variable(&mut self, name: Vec<u8>) -> Sure<()> {
        self.variables.push(name);
        self.one_more()
    }

    pub(super) fn read(&mut self, target: Word) -> Sure<()> {
        self.reads.push(target);
        self.one_more()
    }

    pub(super) fn write(&mut self, target: Word) -> Sure<()> {
        self.writes.push(target);
        self.one_more()
    }

    pub(super) fn remove(&mut self, target: Word) -> Sure<()> {
        self.removes.push(target);
        self.one_more()
    }

    /// What rules may ask for.
    pub(super) fn facts(self) -> Facts {
        let names = |mut all: Vec<Vec<u8>>| {
            all.sort_unstable();
            all.dedup();
            Value::Texts(all.into_iter().map(Text::new).collect())
        };
        let moves = self.moves;
        // A name without a slash is looked for in PATH, wherever the line goes.
        let paths = |all: Vec<Word>| {
            let text = |word: &Word| word.path(moves && word.may_hold(b"/"));
            Value::Texts(all.iter().map(text).collect())
        };
        let files =
            |all: Vec<Word>| Value::Texts(all.iter().map(|word| word.path(moves)).collect());
        Facts::new(vec![
            ("unclear", Value::Flag(false)),
            ("program", names(self.programs)),
            ("path", paths(self.paths)),
            ("command", Value::Texts(self.commands)),
            ("chain", Value::Flag(self.chain)),
            ("pipe", Value::Flag(self.pipe)),
            ("background", Value::Flag(self.background)),
            ("substitution", Value::Flag(self.substitution)),
            ("function", Value::Flag(self.function)),
            ("shell", Value::Flag(self.shell)),
            ("variable", names(self.variables)),
            ("reads", files(self.reads)),
            ("writes", files(self.writes)),
            ("removes", files(self.removes)),
        ])
    }
}
