//! From TOML to a grammar.
//!
//! Owns: the members of a grammar, every error with its bytes. Must not: pass
//! over anything that it does not know.

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::build::Builder;
use super::{Grammar, Style, Subcommands, notation};

/// A message and the bytes that it is about.
type Wrong = (Range<usize>, String);
type Key<'i> = Spanned<DeString<'i>>;
type Value<'i> = Spanned<DeValue<'i>>;

/// Commands beneath commands: no tool has more, and the loader recurses.
const DEEPEST: usize = 8;

impl Grammar {
    /// Reads a `[grammar]` table, or a file `grammar.toml`, which has the same
    /// members. The error has the bytes that it is about.
    pub fn from_table(table: &DeTable<'_>) -> Result<Self, Wrong> {
        let any_dashes = match table.get("any_dashes") {
            Some(value) => boolean("any_dashes", value)?,
            None => false,
        };
        let mut loader = Loader {
            builder: Builder::new(any_dashes),
            sets: HashMap::new(),
            harmless: Vec::new(),
        };
        if let Some(value) = table.get("sets") {
            for (name, options) in members("sets", value)? {
                let table = loader.options(name.get_ref(), options)?;
                loader.sets.insert(name.get_ref().to_string(), table);
            }
        }
        let style = Style { any_dashes, ..Style::CONVENTIONAL };
        loader.node("", 0, table, style, 0, 0..0)?;
        let Loader { builder, harmless, .. } = loader;
        let mut grammar = builder.finish();
        for (node, spelling, span) in harmless {
            let found = super::Command { grammar: &grammar, index: node }.option(&spelling);
            let Some(found) = found else {
                return Err((span, format!("harmless names {spelling}, which is no option here")));
            };
            let option = found.option.index();
            grammar.mark_harmless(option);
        }
        Ok(grammar)
    }
}

struct Loader {
    builder: Builder,
    sets: HashMap<String, u16>,
    /// Looked up once everything is there.
    harmless: Vec<(u16, String, Range<usize>)>,
}

impl Loader {
    /// The tool, or one of its commands, and all beneath it.
    fn node(
        &mut self,
        name: &str,
        parent: u16,
        table: &DeTable<'_>,
        inherited: Style,
        depth: usize,
        span: Range<usize>,
    ) -> Result<u16, Wrong> {
        let top = depth == 0;
        let mut style = inherited;
        let (mut options, mut uses, mut commands) = (None, Vec::new(), None);
        let (mut harmless, mut exact) = (Vec::new(), false);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "options" => options = Some(value),
                "uses" => uses = self.uses(value)?,
                "commands" => commands = Some(value),
                "harmless" => harmless = strings("harmless", value)?,
                "subcommands" => {
                    let said = value.get_ref().as_str().and_then(Subcommands::parse);
                    style.subcommands = said.ok_or_else(|| {
                        let members = "\"required\", \"optional\" or \"first\"";
                        (value.span(), format!("subcommands must be {members}"))
                    })?;
                }
                "exact_globals" if top => exact = boolean("exact_globals", value)?,
                "any_dashes" | "sets" if top => {}
                "aliases" if !top => {}
                other => match style.switch(other) {
                    Some(switch) => *switch = boolean(other, value)?,
                    None => return Err(unknown(key, top)),
                },
            }
        }
        let own = match options {
            Some(value) => self.options("options", value)?,
            None => self.builder.table(&[]).map_err(|(_, wrong)| (span.clone(), wrong))?,
        };
        let below = style.inherited();
        if exact {
            style = Style { clusters: false, abbreviations: false, ..style };
        }
        let node = self.builder.node(name, parent, own, &uses, style);
        let node = node.map_err(|wrong| (span, wrong))?;
        let harmless = harmless.into_iter();
        self.harmless.extend(harmless.map(|(said, span)| (node, said.to_owned(), span)));
        if let Some(value) = commands {
            self.commands(node, value, below, depth)?;
        }
        Ok(node)
    }

    fn commands(
        &mut self,
        node: u16,
        value: &Value<'_>,
        style: Style,
        depth: usize,
    ) -> Result<(), Wrong> {
        if depth >= DEEPEST {
            return Err((value.span(), format!("commands are more than {DEEPEST} deep")));
        }
        let mut names: HashMap<String, u16> = HashMap::new();
        let mut name = |said: &str, node: u16, span: Range<usize>| {
            let plain = |byte: u8| byte.is_ascii_graphic();
            if said.is_empty() || said.starts_with('-') || !said.bytes().all(plain) {
                return Err((span, format!("not a command's name: {said:?}")));
            }
            match names.insert(said.to_owned(), node) {
                Some(_) => Err((span, format!("two commands are named {said}"))),
                None => Ok(()),
            }
        };
        for (key, value) in members("commands", value)? {
            let said = key.get_ref().as_ref();
            let table = value.get_ref().as_table();
            let table = table.ok_or_else(|| mismatch(said, value, "a table"))?;
            let command = self.node(said, node, table, style, depth + 1, key.span())?;
            name(said, command, key.span())?;
            if let Some(aliases) = table.get("aliases") {
                for (alias, span) in strings("aliases", aliases)? {
                    name(alias, command, span)?;
                }
            }
        }
        let span = value.span();
        self.builder.commands(node, names.into_iter().collect()).map_err(|wrong| (span, wrong))
    }

    fn uses(&self, value: &Value<'_>) -> Result<Vec<u16>, Wrong> {
        let index = |(said, span): (&str, Range<usize>)| match self.sets.get(said) {
            Some(table) => Ok(*table),
            None => Err((span, format!("no set is named {said:?}"))),
        };
        strings("uses", value)?.into_iter().map(index).collect()
    }

    fn options(&mut self, name: &str, value: &Value<'_>) -> Result<u16, Wrong> {
        let list = strings(name, value)?;
        let mut options = Vec::with_capacity(list.len());
        for (said, span) in &list {
            let wrong = |wrong| (span.clone(), format!("option {said:?} {wrong}"));
            options.push(notation::parse(said).map_err(wrong)?);
        }
        self.builder.table(&options).map_err(|(nth, wrong)| match list.get(nth) {
            Some((said, span)) => (span.clone(), format!("option {said:?} {wrong}")),
            None => (value.span(), wrong),
        })
    }
}

fn strings<'a>(name: &str, value: &'a Value<'_>) -> Result<Vec<(&'a str, Range<usize>)>, Wrong> {
    let list = value.get_ref().as_array();
    let list = list.ok_or_else(|| mismatch(name, value, "a list of strings"))?;
    let string = |element: &'a Value<'_>| match element.get_ref().as_str() {
        Some(said) => Ok((said, element.span())),
        None => Err((element.span(), format!("each of {name} must be a string"))),
    };
    list.iter().map(string).collect()
}

fn members<'a, 'i>(name: &str, value: &'a Value<'i>) -> Result<&'a DeTable<'i>, Wrong> {
    value.get_ref().as_table().ok_or_else(|| mismatch(name, value, "a table"))
}

fn boolean(name: &str, value: &Value<'_>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| mismatch(name, value, "true or false"))
}

fn mismatch(name: &str, value: &Value<'_>, expected: &str) -> Wrong {
    let found = value.get_ref().type_str();
    (value.span(), format!("{name} must be {expected}, not of type {found}"))
}

fn unknown(key: &Key<'_>, top: bool) -> Wrong {
    let name = key.get_ref().escape_debug();
    let of = if top { "a grammar" } else { "a command in a grammar" };
    (key.span(), format!("{name} is not a member of {of}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Grammar, (usize, String)> {
        let table = DeTable::parse(text).unwrap();
        Grammar::from_table(table.get_ref()).map_err(|(span, message)| {
            (
                text.as_bytes()[..span.start].iter().filter(|byte| **byte == b'\n').count() + 1,
                message,
            )
        })
    }

    #[test]
    fn what_is_wrong_in_a_grammar_has_its_place() {
        let cases = [
            ("clusers = true", 1, "clusers is not a member of a grammar"),
            ("\nclusters = 1", 2, "clusters must be true or false, not of type integer"),
            ("options = \"-a\"", 1, "options must be a list of strings"),
            ("options = [\n\"-a\",\n5]", 3, "each of options must be a string"),
            ("options = [\n\"-a\",\n\"b\"]", 3, "option \"b\" \"b\" is not a spelling"),
            ("options = [\n\"-a\",\n\"-b -a\"]", 3, "option \"-b -a\" is there twice: -a"),
            ("any_dashes = true\noptions = [\"-g\",\n\"--g\"]", 3, "is there twice: --g"),
            ("harmless = [\n\"-a\"]", 2, "harmless names -a, which is no option here"),
            ("uses = [\"x\"]", 1, "no set is named \"x\""),
            ("[sets]\nx = 1", 2, "x must be a list of strings"),
            ("subcommands = \"never\"", 1, "\"required\", \"optional\" or \"first\""),
            ("commands = 1", 1, "commands must be a table"),
            ("[commands]\na = 1", 2, "a must be a table"),
            ("[commands.a]\nsets = {}", 2, "sets is not a member of a command"),
            ("[commands.a]\nany_dashes = true", 2, "any_dashes is not a member of a command"),
            ("[commands.a]\nexact_globals = true", 2, "exact_globals is not a member of a command"),
            ("aliases = []", 1, "aliases is not a member of a grammar"),
            ("[commands.a]\naliases = [\"a\"]", 2, "two commands are named a"),
            ("[commands.a]\n[commands.b]\naliases = [\n\"a\"]", 4, "two commands are named a"),
            ("[commands.\"\"]", 1, "not a command's name: \"\""),
            ("[commands.\"-a\"]", 1, "not a command's name: \"-a\""),
            ("[commands.\"a b\"]", 1, "not a command's name: \"a b\""),
        ];
        for (text, line, message) in cases {
            let (found, said) = load(text).unwrap_err();
            assert!(said.contains(message), "{text}: {said}");
            assert_eq!(found, line, "{text}: {said}");
        }
        let deep = format!("[{}a]", "a.commands.".repeat(9).replacen("a.", "commands.a.", 1));
        assert!(load(&deep).unwrap_err().1.contains("more than 8 deep"), "{deep}");
        let many: String = (0..33_000).map(|number| format!("\"--[no-]a{number}\",")).collect();
        assert!(load(&format!("options = [{many}]")).unwrap_err().1.contains("too large"));
    }

    #[test]
    fn an_empty_grammar_reads_operands() {
        let grammar = load("").unwrap();
        let args: Vec<&[u8]> = vec![b"a", b"--", b"-b"];
        let line = grammar.read(&args);
        assert_eq!(line.operands, [b"a".as_slice(), b"-b"]);
        assert_eq!(line.dashes, Some(1));
        assert_eq!(line.unread, None);
    }
}
