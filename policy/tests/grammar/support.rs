//! What the tests of grammars share.

use std::io::Write as _;
use std::path::Path;

use toml::de::DeTable;
use tool_policy::grammar::{CommandLine, Grammar};

/// The grammar that ships with a tool.
pub(crate) fn shipped(tool: &str) -> Grammar {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools.d").join(tool);
    grammar(&std::fs::read_to_string(path.join("grammar.toml")).unwrap())
}

/// A grammar from its text; a mistake in it shows the line.
pub(crate) fn grammar(text: &str) -> Grammar {
    let table = DeTable::parse(text).unwrap_or_else(|error| panic!("{}", error.message()));
    Grammar::from_table(table.get_ref()).unwrap_or_else(|(span, message)| {
        let line = text[..span.start].lines().count();
        panic!("line {line}: {message}: {}", &text[span])
    })
}

/// A command line as text, for comparing: the command; each option by its name,
/// `!` before it where it is negated, `=` and its value; `:` and the operands,
/// with `--` where it stood; or the sentence about what is unread.
pub(crate) fn shown(line: &CommandLine<'_>) -> String {
    if let Some(why) = line.why_unread("tool") {
        return format!("unread: {why}");
    }
    let mut words: Vec<String> = line.subcommand.iter().map(|name| (*name).to_owned()).collect();
    for given in &line.options {
        let no = if given.negated { "!" } else { "" };
        let value = given.value.map(|value| format!("={}", value.escape_ascii()));
        words.push(format!("{no}{}{}", given.option.name(), value.unwrap_or_default()));
    }
    words.push(":".to_owned());
    for (nth, operand) in line.operands.iter().enumerate() {
        if line.dashes == Some(nth) {
            words.push("--".to_owned());
        }
        words.push(operand.escape_ascii().to_string());
    }
    if line.dashes == Some(line.operands.len()) {
        words.push("--".to_owned());
    }
    words.join(" ")
}

/// The words of a recorded line; `''` is an empty one.
pub(crate) fn words(line: &str) -> Vec<String> {
    let word = |word: &str| if word == "''" { String::new() } else { word.to_owned() };
    line.split_whitespace().map(word).collect()
}

/// [`shown`] of arguments that are separated by spaces.
pub(crate) fn read(grammar: &Grammar, words: &str) -> String {
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    shown(&grammar.read(&args))
}

/// Says that a test cannot run on this machine, where everybody sees it and as
/// the project's other tests do. The test returns after it.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    // Not eprint!: the test harness captures that, and a skip must be seen.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("TOOL_TESTS_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
