//! Commands and options by name, for whoever writes about them: rules, messages.
//!
//! Owns: the handles. Must not: read command lines.

use std::fmt;

use super::table::{Entry, Found, Kind, Name, Run, Spelling, Takes, key};
use super::{Grammar, Style};

/// Which option, within its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionId(u16);

/// An option of a grammar.
#[derive(Clone, Copy)]
pub struct Opt<'a> {
    grammar: &'a Grammar,
    index: u16,
}

/// What a spelling means: an option, or that it does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelled<'a> {
    /// The option.
    pub option: Opt<'a>,
    /// The spelling is one like `--no-x`.
    pub negated: bool,
}

/// A command of a grammar, or the tool itself.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    pub(super) grammar: &'a Grammar,
    pub(super) index: u16,
}

impl Grammar {
    /// The command at a path of names or aliases; the tool itself at none.
    pub fn command(&self, path: &[&str]) -> Option<Command<'_>> {
        let mut index = 0;
        for name in path {
            index = self.child(index, name.as_bytes())?;
        }
        Some(Command { grammar: self, index })
    }

    /// What a whole spelling means to the command at a path: to its own options,
    /// and to those of commands above it that may stand with it. Not the tool's
    /// options before a command: those are at the empty path.
    pub fn option(&self, path: &[&str], spelling: &str) -> Option<Spelled<'_>> {
        self.command(path)?.option(spelling)
    }

    /// What a whole spelling means to the command at a path or to any beneath
    /// it, and to the tool before them where `path` is empty. Each option once.
    pub fn options_beneath(&self, path: &[&str], spelling: &str) -> Vec<Spelled<'_>> {
        let mut all: Vec<Spelled<'_>> = Vec::new();
        let mut waiting: Vec<Command<'_>> = self.command(path).into_iter().collect();
        while let Some(command) = waiting.pop() {
            all.extend(command.option(spelling).filter(|spelled| !all.contains(spelled)));
            waiting.extend(command.commands());
        }
        all
    }

    /// The option of this id.
    pub fn opt(&self, id: OptionId) -> Option<Opt<'_>> {
        self.options.get(usize::from(id.0)).map(|_| Opt { grammar: self, index: id.0 })
    }

    pub(super) fn spelled(&self, spelling: Spelling) -> Spelled<'_> {
        let option = Opt { grammar: self, index: spelling.option };
        Spelled { option, negated: spelling.negated }
    }
}

impl<'a> Command<'a> {
    /// Its name; empty for the tool itself.
    pub fn name(self) -> &'a str {
        self.grammar.node(self.index).map(|node| self.grammar.text(node.name)).unwrap_or_default()
    }

    /// Its names from the tool's command down to its own.
    pub fn path(self) -> Vec<&'a str> {
        let mut path = Vec::new();
        let mut at = self;
        while at.index != 0 {
            path.push(at.name());
            let parent = self.grammar.node(at.index).map(|node| node.parent);
            at.index = parent.unwrap_or_default();
        }
        path.reverse();
        path
    }

    /// The commands beneath it, each once.
    pub fn commands(self) -> impl Iterator<Item = Self> + 'a {
        let Self { grammar, index } = self;
        let names = grammar.names_beneath(index).iter();
        let own = move |name: &&Name| {
            let node = grammar.node(name.node);
            node.is_some_and(|node| grammar.text(node.name) == grammar.text(name.text))
        };
        names.filter(own).map(move |name| Self { grammar, index: name.node })
    }

    /// How its arguments are read.
    pub fn style(self) -> Style {
        self.grammar.node(self.index).map_or(Style::CONVENTIONAL, |node| node.style)
    }

    /// What a whole spelling means to it.
    pub fn option(self, spelling: &str) -> Option<Spelled<'a>> {
        let key = key(spelling, self.grammar.any_dashes());
        let found = self.grammar.exactly(self.index, key.as_bytes())?;
        Some(self.grammar.spelled(found))
    }

    /// Every option that may stand with it, with each of its spellings.
    pub fn options(self) -> impl Iterator<Item = (&'a str, Spelled<'a>)> {
        let grammar = self.grammar;
        let tables = grammar.scope(self.index);
        tables
            .flat_map(|table| grammar.table(table))
            .map(move |spelling| (grammar.text(spelling.text), grammar.spelled(*spelling)))
    }

    pub(super) fn beginning(self, key: &[u8], wanted: impl Fn(&str) -> bool) -> Found {
        self.grammar.beginning(self.index, key, wanted)
    }
}

impl<'a> Opt<'a> {
    /// Which one it is within its grammar.
    pub fn id(self) -> OptionId {
        OptionId(self.index)
    }

    pub(super) fn index(self) -> u16 {
        self.index
    }

    /// Its first long spelling, or where it has none, its first.
    pub fn name(self) -> &'a str {
        self.entry().map(|entry| self.grammar.text(entry.name)).unwrap_or_default()
    }

    /// Every way to write it, those that negate it too.
    pub fn spellings(self) -> impl Iterator<Item = &'a str> {
        let table = self.entry().map(|entry| self.grammar.table(entry.table)).unwrap_or_default();
        let own = move |spelling: &&Spelling| spelling.option == self.index;
        table.iter().filter(own).map(move |spelling| self.grammar.text(spelling.text))
    }

    /// What it takes for a value.
    pub fn takes(self) -> Takes {
        match self.entry().map(|entry| entry.takes) {
            Some(Kind::Plain(takes)) => takes,
            Some(Kind::Words(_)) => Takes::Words,
            None => Takes::Nothing,
        }
    }

    /// The words that [`Takes::Words`] means.
    pub fn words(self) -> impl Iterator<Item = &'a str> {
        let run = match self.entry().map(|entry| entry.takes) {
            Some(Kind::Words(run)) => run,
            _ => Run::default(),
        };
        let words = self.grammar.words.get(run.range()).unwrap_or_default();
        words.iter().map(move |word| self.grammar.text(*word))
    }

    /// It is an option of the tool, not of one of its commands.
    pub fn global(self) -> bool {
        self.entry().is_some_and(|entry| entry.global)
    }

    /// It says nothing about what a call is after.
    pub fn harmless(self) -> bool {
        self.entry().is_some_and(|entry| entry.harmless)
    }

    fn entry(self) -> Option<&'a Entry> {
        self.grammar.options.get(usize::from(self.index))
    }
}

// By name: a grammar has thousands.
impl fmt::Debug for Opt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.path()).finish()
    }
}

impl PartialEq for Opt<'_> {
    /// The same option of the same grammar.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.grammar, other.grammar) && self.index == other.index
    }
}

impl Eq for Opt<'_> {}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    fn grammar() -> Grammar {
        let text = "options = [\"-v --verbose\", \"-C=\"]\nharmless = [\"-v\"]\n\
            [sets]\nquiet = [\"-q --[no-]quiet\"]\n\
            [commands.remote]\noptions_anywhere = true\noptions = [\"-R --repo=\"]\n\
            [commands.remote.commands.remove]\naliases = [\"rm\"]\nuses = [\"quiet\"]\n\
            [commands.remote.commands.add]\nuses = [\"quiet\"]\noptions = [\"-q\", \"--tags{a,b}\"]";
        Grammar::from_table(DeTable::parse(text).unwrap().get_ref()).unwrap()
    }

    #[test]
    fn commands_and_options_are_found_by_name() {
        let grammar = grammar();
        assert_eq!(grammar.command(&["remote", "rm"]).unwrap().path(), ["remote", "remove"]);
        assert!(grammar.command(&["remote", "nope"]).is_none());
        assert!(grammar.command(&["rm"]).is_none());
        let verbose = grammar.option(&[], "-v").unwrap();
        assert_eq!(verbose.option.name(), "--verbose");
        assert!(verbose.option.global() && verbose.option.harmless() && !verbose.negated);
        assert_eq!(grammar.opt(verbose.option.id()), Some(verbose.option));
        let directory = grammar.option(&[], "-C").unwrap().option;
        assert!(directory.global() && !directory.harmless());
        assert_eq!((directory.name(), directory.takes()), ("-C", Takes::Value));
        // Not a command's, unless it may stand there.
        assert!(grammar.option(&["remote"], "-v").is_none());
        assert!(!grammar.option(&["remote", "rm"], "--repo").unwrap().option.global());
        let quiet = grammar.option(&["remote", "rm"], "--no-quiet").unwrap();
        assert!(quiet.negated);
        let spellings: Vec<&str> = quiet.option.spellings().collect();
        assert_eq!(spellings, ["--no-quiet", "--quiet", "-q"]);
        // Its own goes before the shared one, of which the rest is still there.
        let own = grammar.option(&["remote", "add"], "-q").unwrap().option;
        assert_eq!((own.name(), own.takes()), ("-q", Takes::Nothing));
        assert_eq!(grammar.option(&["remote", "add"], "--quiet").unwrap().option, quiet.option);
        let tags = grammar.option(&["remote", "add"], "--tags").unwrap().option;
        assert_eq!(tags.words().collect::<Vec<_>>(), ["a", "b"]);
        assert!(grammar.option(&[], "--verb").is_none());
    }

    #[test]
    fn a_spelling_may_mean_several_options_beneath_a_command() {
        let grammar = grammar();
        let names = |path: &[&str], spelling: &str| {
            let mut names: Vec<String> = grammar
                .options_beneath(path, spelling)
                .iter()
                .map(|spelled| format!("{spelled:?}"))
                .collect();
            names.sort();
            names
        };
        let one = |name: &str| format!("Spelled {{ option: {name}, negated: false }}");
        assert_eq!(names(&[], "-q"), [one("--quiet"), one("-q")]);
        assert_eq!(names(&["remote"], "-q"), [one("--quiet"), one("-q")]);
        assert_eq!(names(&["remote", "rm"], "-q"), [one("--quiet")]);
        assert_eq!(names(&[], "--repo"), [one("--repo")]);
        assert_eq!(names(&[], "--nope"), Vec::<String>::new());
        assert_eq!(names(&["nope"], "-q"), Vec::<String>::new());
    }
}
