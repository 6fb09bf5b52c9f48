//! Where a grammar keeps its names, and looking them up.
//!
//! Owns: the records and their order. Must not: know how a command line reads.

use std::ops::Range;

use super::{Grammar, Style};

/// A piece of the grammar's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) start: u32,
    pub(super) len: u16,
}

/// Neighbours in one of the grammar's slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u16,
    pub(super) len: u16,
}

/// The tool, or one of its commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: Text,
    /// The tool is its own.
    pub(super) parent: u16,
    /// Its own options.
    pub(super) table: u16,
    pub(super) uses: Run,
    pub(super) commands: Run,
    pub(super) style: Style,
}

/// A name or an alias of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: Text,
    pub(super) node: u16,
}

/// One way to write an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    pub(super) text: Text,
    pub(super) option: u16,
    /// This one says that the option does not hold, such as `--no-x`.
    pub(super) negated: bool,
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Text,
    pub(super) table: u16,
    pub(super) takes: Kind,
    pub(super) global: bool,
    pub(super) harmless: bool,
}

/// [`Takes`], as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain(Takes),
    Words(Run),
}

/// What an option takes for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None: it is a flag.
    Nothing,
    /// One: what is attached, or the next word.
    Value,
    /// One that is attached, or none.
    Attached,
    /// One: what is attached, or the next word where there is one.
    Last,
    /// One of a few words, where the next word is one.
    Words,
    /// It is a number itself, `-5`.
    Number,
}

/// What a beginning of a name stands for.
pub(super) enum Found {
    Nothing,
    One(Spelling),
    Several(Vec<Spelling>),
}

/// The spelling of an option that is a number.
pub(super) const NUMBER: &str = "-<n>";

impl Grammar {
    pub(super) fn text(&self, text: Text) -> &str {
        let start = usize::try_from(text.start).unwrap_or(usize::MAX);
        self.text.get(start..start.saturating_add(usize::from(text.len))).unwrap_or_default()
    }

    pub(super) fn node(&self, index: u16) -> Option<&Node> {
        self.nodes.get(usize::from(index))
    }

    pub(super) fn any_dashes(&self) -> bool {
        self.nodes.first().is_some_and(|tool| tool.style.any_dashes)
    }

    /// What a spelling is found by.
    fn key(&self, text: Text) -> &[u8] {
        key(self.text(text), self.any_dashes()).as_bytes()
    }

    pub(super) fn table(&self, index: u16) -> &[Spelling] {
        let run = self.tables.get(usize::from(index)).copied().unwrap_or_default();
        self.spellings.get(run.range()).unwrap_or_default()
    }

    /// Every table whose options may stand with this command, its own first: the
    /// first that knows a spelling has it.
    pub(super) fn scope(&self, node: u16) -> impl Iterator<Item = u16> + '_ {
        let above = |index: &u16| {
            let parent = self.node(*index)?.parent;
            (parent != *index).then_some(parent)
        };
        let chain = std::iter::successors(Some(node), above);
        let here =
            move |index: &u16| *index == node || self.node(*index).is_some_and(Node::anywhere);
        chain.filter(here).filter_map(|index| self.node(index)).flat_map(|node| {
            let uses = self.uses.get(node.uses.range()).unwrap_or_default();
            std::iter::once(node.table).chain(uses.iter().copied())
        })
    }

    /// The option of a command that is spelled exactly so.
    pub(super) fn exactly(&self, node: u16, key: &[u8]) -> Option<Spelling> {
        self.scope(node).find_map(|table| self.exactly_in(table, key))
    }

    fn exactly_in(&self, table: u16, key: &[u8]) -> Option<Spelling> {
        let table = self.table(table);
        let at = table.binary_search_by(|spelling| self.key(spelling.text).cmp(key)).ok()?;
        table.get(at).copied()
    }

    /// The options of a command one of whose spellings begins so, of those that
    /// `wanted` lets pass. Several spellings of one option are one.
    pub(super) fn beginning(&self, node: u16, key: &[u8], wanted: impl Fn(&str) -> bool) -> Found {
        let mut found: Vec<Spelling> = Vec::new();
        for (nth, index) in self.scope(node).enumerate() {
            let table = self.table(index);
            let from = table.partition_point(|spelling| self.key(spelling.text) < key);
            let run = table.get(from..).unwrap_or_default().iter();
            for spelling in run.take_while(|spelling| self.key(spelling.text).starts_with(key)) {
                let hidden = || {
                    let whole = self.key(spelling.text);
                    self.scope(node).take(nth).any(|table| self.exactly_in(table, whole).is_some())
                };
                let same = |known: &Spelling| {
                    known.option == spelling.option && known.negated == spelling.negated
                };
                if wanted(self.text(spelling.text)) && !found.iter().any(same) && !hidden() {
                    found.push(*spelling);
                }
            }
        }
        match found.as_slice() {
            [] => Found::Nothing,
            [one] => Found::One(*one),
            _ => Found::Several(found),
        }
    }

    /// The command of this name, or alias, beneath a command.
    pub(super) fn child(&self, node: u16, name: &[u8]) -> Option<u16> {
        let names = self.names_beneath(node);
        let at = names.binary_search_by(|known| self.text(known.text).as_bytes().cmp(name)).ok()?;
        names.get(at).map(|known| known.node)
    }

    pub(super) fn names_beneath(&self, node: u16) -> &[Name] {
        let run = self.node(node).map(|node| node.commands).unwrap_or_default();
        self.names.get(run.range()).unwrap_or_default()
    }
}

impl Node {
    fn anywhere(&self) -> bool {
        self.style.options_anywhere
    }
}

impl Run {
    pub(super) fn range(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.len)
    }
}

/// What a spelling is found by: where dashes do not count, without them.
pub(super) fn key(spelling: &str, any_dashes: bool) -> &str {
    if any_dashes { spelling.trim_start_matches('-') } else { spelling }
}
