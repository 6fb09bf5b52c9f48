//! What is known of a command line that a program or a shell is to run.
//!
//! Owns: the facts of the words of a program (argv), and of a line of a shell where
//! the program is one (`sh -c LINE`). Must not: guess. A line that one shell reads
//! otherwise than another, or of which a part is known only when it runs, is
//! `unclear`, and no other fact of it is known. Nor know what a program does with its
//! own arguments, but for those that run others: `python -c`, `awk` and `make` are programs.
//!
//! - `cursor`   the bytes of a line
//! - `word`     a word, as far as it is known
//! - `parse`    lists, pipelines, compound commands
//! - `expand`   words, expansions, redirections
//! - `run`      one program with its words; those that run others
//! - `wrapper`  the options of programs that run others
//! - `found`    what was found, and the facts that it makes

mod cursor;
mod expand;
mod found;
mod parse;
mod run;
mod word;
mod wrapper;

use self::found::{Found, Sure, Unclear};
use self::parse::Dialect;
use self::word::Word;
use super::{Fact, Facts, Kind, Value, fact};
use crate::grammar::CommandLine;

/// The longest words that are read, together.
const LONGEST: usize = 256 * 1024;

/// What this module tells.
#[rustfmt::skip]
pub(super) const FACTS: [Fact; 14] = [
    fact("unclear", Kind::Flag, "what runs cannot be told for certain: a program by a variable, text that is run and not in the line, or what shells read differently; then no other fact is known"),
    fact("program", Kind::Texts, "the programs and builtins that run, without their directories, wherever in the line they are; what env, xargs, find -exec, sh -c and the like run too"),
    fact("path", Kind::Texts, "the same as they are written"),
    fact("command", Kind::Texts, "each of them with its words, without quotes and directory, one blank between words: rm -rf /tmp/x"),
    fact("chain", Kind::Flag, "commands follow each other: && || ; & or a newline, if and while"),
    fact("pipe", Kind::Flag, "a pipeline"),
    fact("background", Kind::Flag, "&"),
    fact("substitution", Kind::Flag, "a command within a word: $( ), backquotes, <( ), >( )"),
    fact("function", Kind::Flag, "it defines a function"),
    fact("shell", Kind::Flag, "a shell runs, also the one that a line is for"),
    fact("variable", Kind::Texts, "the variables that assignments, for and env set"),
    fact("reads", Kind::Texts, "the files that redirections read, and the script of sh FILE"),
    fact("writes", Kind::Texts, "the files that redirections write"),
    fact("removes", Kind::Texts, "the operands of rm, rmdir, unlink and shred, and where a find begins that deletes or runs these"),
];

/// What is known.
pub(super) fn facts(line: &CommandLine<'_>) -> Facts {
    let mut found = Found::default();
    match words(&mut found, &line.operands) {
        Ok(()) => found.facts(),
        Err(Unclear) => FACTS.iter().map(|fact| (fact.name, Value::Unknown)).map(unclear).collect(),
    }
}

fn unclear((name, value): (&'static str, Value)) -> (&'static str, Value) {
    if name == "unclear" { (name, Value::Flag(true)) } else { (name, value) }
}

fn words(found: &mut Found, words: &[&[u8]]) -> Sure<()> {
    if words.iter().map(|word| word.len()).sum::<usize>() > LONGEST {
        return Err(Unclear);
    }
    let words: Vec<Word> = words.iter().map(|word| Word::literal(word)).collect();
    found.run(&words, Dialect::Posix)
}
