//! Gathers names and options, and lays them out in few slices.
//!
//! Owns: the layout, and the bounds that its small numbers set. Must not: know
//! TOML.

use std::collections::HashMap;

use super::notation::Notation;
use super::table::{Entry, Kind, Name, Node, Run, Spelling, Takes, Text, key};
use super::{Grammar, Style};

/// A grammar on its way.
#[derive(Debug, Default)]
pub(super) struct Builder {
    text: String,
    known: HashMap<String, Text>,
    nodes: Vec<Node>,
    names: Vec<Name>,
    tables: Vec<Run>,
    uses: Vec<u16>,
    spellings: Vec<Spelling>,
    options: Vec<Entry>,
    words: Vec<Text>,
    any_dashes: bool,
}

/// What is too much, for a sentence.
const TOO_LARGE: &str = "is too large: a grammar has at most 65,535 spellings of options";

impl Builder {
    pub(super) fn new(any_dashes: bool) -> Self {
        Self { any_dashes, ..Self::default() }
    }

    fn intern(&mut self, said: &str) -> Result<Text, String> {
        if let Some(text) = self.known.get(said) {
            return Ok(*text);
        }
        let start = u32::try_from(self.text.len()).ok();
        let len = u16::try_from(said.len()).ok();
        let (Some(start), Some(len)) = (start, len) else { return Err(TOO_LARGE.to_owned()) };
        let text = Text { start, len };
        self.text.push_str(said);
        self.known.insert(said.to_owned(), text);
        Ok(text)
    }

    /// Options that stand together: a command's own, or a set. Gives the table's
    /// index, or which of the options is wrong, and how.
    pub(super) fn table(&mut self, options: &[Notation<'_>]) -> Result<u16, (usize, String)> {
        let index = index(self.tables.len()).map_err(|wrong| (0, wrong))?;
        let start = self.spellings.len();
        for (nth, notation) in options.iter().enumerate() {
            self.option(index, notation).map_err(|wrong| (nth, wrong))?;
        }
        let run = run(start, self.spellings.len()).map_err(|wrong| (0, wrong))?;
        let (text, any_dashes) = (self.text.as_str(), self.any_dashes);
        let table = self.spellings.get_mut(run.range()).unwrap_or_default();
        let by = |spelling: &Spelling| key(piece(text, spelling.text), any_dashes).to_owned();
        table.sort_by_cached_key(by);
        if let Some([_, again]) = table.windows(2).find(|pair| match pair {
            [one, other] => by(one) == by(other),
            _ => false,
        }) {
            let spelling = piece(text, again.text);
            let has = |notation: &Notation<'_>| {
                notation.spellings.iter().any(|(known, _)| known == spelling)
            };
            let nth = options.iter().rposition(has).unwrap_or_default();
            return Err((nth, format!("is there twice: {spelling}")));
        }
        self.tables.push(run);
        Ok(index)
    }

    fn option(&mut self, table: u16, notation: &Notation<'_>) -> Result<(), String> {
        let option = index(self.options.len())?;
        let mut name = None;
        for (spelling, negated) in &notation.spellings {
            let text = self.intern(spelling)?;
            // The first long spelling says most.
            let long = !negated && spelling.starts_with("--");
            name = if long { name.or(Some(text)) } else { name };
            self.spellings.push(Spelling { text, option, negated: *negated });
        }
        let first = notation.spellings.first().map(|(spelling, _)| spelling.as_str());
        let name = match name {
            Some(name) => name,
            None => self.intern(first.unwrap_or_default())?,
        };
        let takes = match notation.takes {
            Takes::Words => {
                let start = self.words.len();
                for word in &notation.words {
                    let word = self.intern(word)?;
                    self.words.push(word);
                }
                Kind::Words(run(start, self.words.len())?)
            }
            plain => Kind::Plain(plain),
        };
        self.options.push(Entry { name, table, takes, global: false, harmless: false });
        Ok(())
    }

    /// A command; its commands come later, by [`Self::commands`].
    pub(super) fn node(
        &mut self,
        name: &str,
        parent: u16,
        table: u16,
        uses: &[u16],
        style: Style,
    ) -> Result<u16, String> {
        let node = index(self.nodes.len())?;
        let name = self.intern(name)?;
        let start = self.uses.len();
        self.uses.extend_from_slice(uses);
        let uses = run(start, self.uses.len())?;
        self.nodes.push(Node { name, parent, table, uses, commands: Run::default(), style });
        Ok(node)
    }

    /// The names and aliases of the commands beneath one, each with its node.
    pub(super) fn commands(
        &mut self,
        node: u16,
        mut names: Vec<(String, u16)>,
    ) -> Result<(), String> {
        names.sort();
        let start = self.names.len();
        for (name, node) in &names {
            let text = self.intern(name)?;
            self.names.push(Name { text, node: *node });
        }
        let commands = run(start, self.names.len())?;
        if let Some(node) = self.nodes.get_mut(usize::from(node)) {
            node.commands = commands;
        }
        Ok(())
    }

    /// The grammar. Options of the tool itself are global.
    pub(super) fn finish(mut self) -> Grammar {
        let tool = self.nodes.first();
        let shared = tool.and_then(|tool| self.uses.get(tool.uses.range())).unwrap_or_default();
        let global =
            |table: u16| tool.is_some_and(|tool| tool.table == table) || shared.contains(&table);
        for option in &mut self.options {
            option.global = global(option.table);
        }
        Grammar {
            text: self.text.into(),
            nodes: self.nodes.into(),
            names: self.names.into(),
            tables: self.tables.into(),
            uses: self.uses.into(),
            spellings: self.spellings.into(),
            options: self.options.into(),
            words: self.words.into(),
        }
    }
}

impl Grammar {
    /// Marks an option as one that says nothing about what a call is after.
    pub(super) fn mark_harmless(&mut self, option: u16) {
        if let Some(option) = self.options.get_mut(usize::from(option)) {
            option.harmless = true;
        }
    }
}

fn piece(text: &str, piece: Text) -> &str {
    let start = usize::try_from(piece.start).unwrap_or(usize::MAX);
    text.get(start..start.saturating_add(usize::from(piece.len))).unwrap_or_default()
}

fn index(at: usize) -> Result<u16, String> {
    u16::try_from(at).ok().filter(|at| *at < u16::MAX).ok_or_else(|| TOO_LARGE.to_owned())
}

fn run(start: usize, end: usize) -> Result<Run, String> {
    Ok(Run { start: index(start)?, len: index(end.saturating_sub(start))? })
}
