//! Argument grammars: any grammar over any command line, and the shipped ones.
//!
//! Owns: the account of every argument, made from the outside: each byte of each
//! one belongs to a command's name, an option, a value, an operand or a `--`, or
//! else the line is unread. Must not: repeat how the reader walks.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tool_policy::Definition;
use tool_policy::definition::SyntaxError;
use tool_policy::grammar::{CommandLine, Given, Grammar, Subcommands, Takes};

use crate::case::{self, Call, Case};

/// Any grammar, any command line.
pub fn grammar(data: &[u8]) {
    let mut case: Case<'_> = case::parse(data);
    (case.shipped, case.rules) = (None, Vec::new());
    let Some(text) = &case.grammar else { return };
    match toml::de::DeTable::parse(text) {
        Ok(table) => match Grammar::from_table(table.get_ref()) {
            Ok(grammar) => read(&grammar, &case.call),
            Err((span, message)) => {
                assert!(span.start <= span.end && span.end <= text.len());
                assert!(!message.is_empty() && !message.contains('\n'));
            }
        },
        // Escapes that are Rust's and not TOML's.
        Err(_) => return,
    }
    let loaded = Definition::from_toml("x", text, None);
    drop(loaded.inspect_err(|error| is_told(error, text)));
}

/// The grammar of a shipped tool over any command line: the first line is the
/// tool, each other one an argument.
pub fn shipped(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let tool = std::str::from_utf8(&data[..end]).unwrap_or_default();
    let call = Call::new(data.get(end + 1..).unwrap_or_default());
    read(&shipped_grammar(tool).1, &call);
}

/// What `tools.d` has of a tool: its name, its grammar, the text of that. git's,
/// where it has none.
pub fn shipped_grammar(tool: &str) -> &'static (String, Grammar, String) {
    static ALL: OnceLock<BTreeMap<String, (String, Grammar, String)>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let dir = crate::smoke::directory().join("../tools.d");
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(&dir).expect("tools.d") {
            let path = entry.expect("an entry").path();
            let Ok(text) = std::fs::read_to_string(path.join("grammar.toml")) else { continue };
            let name = path.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
            let table = toml::de::DeTable::parse(&text).expect("TOML");
            let grammar = Grammar::from_table(table.get_ref()).expect("a grammar");
            all.insert(name.clone(), (name, grammar, text));
        }
        all
    });
    all.get(tool).or_else(|| all.get("git")).expect("the grammar of git")
}

/// The same with few of its commands, those that modules know most of: a
/// definition is read over and over, and most of a large grammar is as any other.
pub fn small_grammar(tool: &str) -> &'static (String, String) {
    static ALL: OnceLock<BTreeMap<&str, (String, String)>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let of = |(name, wanted): &(&'static str, &[&str])| {
            let (_, _, text) = shipped_grammar(name);
            (*name, ((*name).to_owned(), with_commands(text, wanted)))
        };
        SMALL.iter().map(of).collect()
    });
    all.get(tool).or_else(|| all.get("git")).expect("the grammar of git")
}

const SMALL: [(&str, &[&str]); 4] = [
    ("git", &["push", "fetch", "pull", "remote", "config", "reset", "clean", "stash", "tag"]),
    ("gh", &["api", "repo", "pr"]),
    ("npm", &["install", "publish", "run"]),
    ("curl", &[]),
];

/// The sections of a grammar that are not about other commands than these.
fn with_commands(text: &str, wanted: &[&str]) -> String {
    let mut kept = String::new();
    let mut keeps = true;
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('[') {
            let path = header.trim_end_matches(']');
            let command = path.strip_prefix("commands.").and_then(|rest| rest.split('.').next());
            keeps = command.is_none_or(|command| wanted.contains(&command));
        }
        if keeps {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// An error names a line that is there, in one line.
pub fn is_told(error: &SyntaxError, text: &str) {
    assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "{error:?}");
    assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
}

/// Reads a call, and holds what was read to the arguments.
pub fn read(grammar: &Grammar, call: &Call) {
    let args = call.args();
    let line = grammar.read(&args);
    assert_eq!(line, grammar.read(&args), "read twice, it is not the same");
    assert_eq!(line.why_unread("tool").is_some(), line.unread.is_some());
    let command = grammar.command(&line.subcommand).expect("a command of the grammar");
    assert_eq!(command.path(), line.subcommand);
    let Some(unread) = &line.unread else {
        let words = Account::of(grammar, &line, &args).words();
        rewritten(grammar, &line, &words);
        return;
    };
    // What stands before could be read, and reads the same without the rest.
    assert!(unread.argument < args.len() && unread.depth <= line.subcommand.len());
    let before = grammar.read(&args[..unread.argument]);
    assert_eq!(before.unread, None, "{unread:?} is told, and not what comes first");
    assert!(line.subcommand.starts_with(&before.subcommand));
    assert!(line.options.starts_with(&before.options));
    assert!(line.operands.starts_with(&before.operands));
    Account::of(grammar, &before, &args[..unread.argument]);
}

/// What an argument was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Option,
    Value,
    Operand,
    Command,
    Dashes,
}

/// What every argument was taken for.
struct Account<'l, 'a> {
    args: &'l [&'a [u8]],
    roles: Vec<Role>,
    line: &'l CommandLine<'a>,
    grammar: &'l Grammar,
    any_dashes: bool,
}

/// The argument in whose bytes a slice lies, and where in it.
fn place(args: &[&[u8]], slice: &[u8]) -> (usize, usize) {
    let at = slice.as_ptr() as usize;
    let holds = |arg: &&[u8]| {
        let start = arg.as_ptr() as usize;
        start <= at && at + slice.len() <= start + arg.len()
    };
    let argument = args.iter().position(holds).expect("what was read is of the arguments");
    (argument, at - args[argument].as_ptr() as usize)
}

impl<'l, 'a> Account<'l, 'a> {
    fn of(
        grammar: &'l Grammar,
        line: &'l CommandLine<'a>,
        args: &'l [&'a [u8]],
    ) -> Account<'l, 'a> {
        let mut roles: Vec<Option<Role>> = vec![None; args.len()];
        let mut operands = 0;
        for operand in &line.operands {
            let (argument, at) = place(args, operand);
            assert!(at == 0 && operand.len() == args[argument].len() && argument >= operands);
            operands = argument + 1;
            assert_eq!(roles[argument].replace(Role::Operand), None);
        }
        let mut last = 0;
        for given in &line.options {
            assert!(given.argument >= last, "the options are in their order");
            last = given.argument;
            let known = roles[given.argument].replace(Role::Option);
            assert!(known.is_none_or(|role| role == Role::Option), "{given:?} is {known:?} too");
            let Some(value) = given.value else { continue };
            let (argument, at) = place(args, value);
            if argument != given.argument {
                assert!(argument == given.argument + 1 && at == 0, "{given:?}");
                assert_eq!(value, args[argument]);
                assert_eq!(roles[argument].replace(Role::Value), None, "{given:?}");
                last = argument;
            }
        }
        let any_dashes = grammar.command(&[]).expect("the tool").style().any_dashes;
        let is_dashes = |word: &[u8]| {
            let all = word.len() >= 2 && word.iter().all(|byte| *byte == b'-');
            all && (any_dashes || word == b"--")
        };
        let (mut depth, mut dashes, mut ends) = (0, 0, 0);
        for (argument, role) in roles.iter_mut().enumerate() {
            if role.is_some() {
                continue;
            }
            let word = args[argument];
            if is_dashes(word) {
                let before = |operand: &&&[u8]| place(args, operand).0 < argument;
                assert_eq!(line.dashes, Some(line.operands.iter().filter(before).count()));
                dashes += 1;
                *role = Some(Role::Dashes);
            } else if word == b"--end-of-options" {
                ends += 1;
                *role = Some(Role::Dashes);
            } else {
                let name = line.subcommand.get(depth);
                let name = name.unwrap_or_else(|| panic!("{} is lost", word.escape_ascii()));
                let above = grammar.command(&line.subcommand[..depth]).expect("a command");
                let exact = std::str::from_utf8(word).ok().and_then(|word| {
                    grammar.command(&[&line.subcommand[..depth], &[word]].concat())
                });
                let abbreviated = above.style().command_abbreviations && !word.is_empty();
                assert!(exact.map_or(abbreviated, |found| found.name() == *name));
                depth += 1;
                *role = Some(Role::Command);
            }
        }
        assert_eq!(depth, line.subcommand.len(), "a command from nowhere");
        assert!(dashes == usize::from(line.dashes.is_some()) && dashes + ends <= 1);
        let roles = roles.into_iter().map(|role| role.expect("a role")).collect();
        let account = Account { args, roles, line, grammar, any_dashes };
        account.options_are_whole();
        account
    }

    /// The options that stand in one argument.
    fn within(&self, argument: usize) -> Vec<&Given<'a>> {
        self.line.options.iter().filter(|given| given.argument == argument).collect()
    }

    fn attached(&self, given: &Given<'a>) -> Option<usize> {
        let (argument, at) = place(self.args, given.value?);
        (argument == given.argument).then_some(at)
    }

    fn options_are_whole(&self) {
        for argument in 0..self.args.len() {
            if self.roles[argument] == Role::Option {
                let pieces = self.pieces(argument);
                assert!(!pieces.is_empty(), "{}", self.args[argument].escape_ascii());
            }
        }
    }

    /// The commands that stand before an argument.
    fn path(&self, argument: usize) -> &[&'a str] {
        let commands = self.roles[..argument].iter().filter(|role| **role == Role::Command);
        &self.line.subcommand[..commands.count()]
    }

    /// An argument with options as one word for each: `-ab` as `-a`, `-b`, a
    /// beginning of a name as the whole. Every byte is in one of them.
    fn pieces(&self, argument: usize) -> Vec<Vec<u8>> {
        let word = self.args[argument];
        let given = self.within(argument);
        let whole = match given.as_slice() {
            [one] => self.whole(argument, word, one),
            _ => None,
        };
        match whole {
            Some(word) => vec![word],
            None => self.letters(word, &given),
        }
    }

    /// A word that is one option, its name written out; none where it is letters.
    fn whole(&self, argument: usize, word: &[u8], given: &Given<'a>) -> Option<Vec<u8>> {
        let attached = self.attached(given);
        let end = attached.unwrap_or(word.len());
        let name = match attached {
            Some(_) => word[..end].strip_suffix(b"=").unwrap_or(&word[..end]),
            None => word,
        };
        let path = self.path(argument);
        let means = |spelling: &str| {
            let found = self.grammar.option(path, spelling);
            found.is_some_and(|found| found.option == given.option)
        };
        if std::str::from_utf8(name).is_ok_and(means) {
            assert_ne!(given.option.takes(), Takes::Number, "{}", word.escape_ascii());
            return Some(word.to_vec());
        }
        let trimmed = |text: &[u8]| {
            let dashes = text.iter().take_while(|byte| self.any_dashes && **byte == b'-').count();
            text[dashes..].to_vec()
        };
        let begins = |spelling: &&str| {
            let long = self.any_dashes || name.starts_with(b"--");
            long && trimmed(spelling.as_bytes()).starts_with(&trimmed(name))
        };
        let spelling = given.option.spellings().find(|one| begins(one) && means(one))?;
        let style = self.grammar.command(path).expect("a command").style();
        assert!(style.abbreviations, "{} is not written out", word.escape_ascii());
        Some([spelling.as_bytes(), &word[name.len()..]].concat())
    }

    /// A cluster.
    fn letters(&self, word: &[u8], given: &[&Given<'a>]) -> Vec<Vec<u8>> {
        let mut at = word.iter().position(|byte| *byte != b'-').unwrap_or(word.len());
        assert!(at == 1 || self.any_dashes, "{}", word.escape_ascii());
        let mut pieces = Vec::new();
        for (nth, one) in given.iter().enumerate() {
            if one.option.takes() == Takes::Number {
                let digits = one.value.expect("a number");
                assert!(word[at..].starts_with(digits) && !digits.is_empty());
                pieces.push([b"-", digits].concat());
                at += digits.len();
                continue;
            }
            let letter = [b'-', word[at]];
            let spelled = one.option.spellings().any(|spelling| {
                spelling.as_bytes() == letter
                    || self.any_dashes && spelling.trim_start_matches('-').as_bytes() == [word[at]]
            });
            assert!(spelled, "{}: {one:?} at {at}", word.escape_ascii());
            at += 1;
            let mut piece = letter.to_vec();
            if self.attached(one).is_some() {
                assert_eq!(nth + 1, given.len(), "{}", word.escape_ascii());
                piece.extend_from_slice(&word[at..]);
                at = word.len();
            }
            pieces.push(piece);
        }
        assert_eq!(at, word.len(), "{}: not all of it was read", word.escape_ascii());
        pieces
    }

    /// The call with every option in a word of its own.
    fn words(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for (argument, word) in self.args.iter().enumerate() {
            match self.roles[argument] {
                Role::Option => words.extend(self.pieces(argument)),
                _ => words.push(word.to_vec()),
            }
        }
        words.join(&b'\n')
    }
}

/// Written in another way, a call says the same.
fn rewritten(grammar: &Grammar, line: &CommandLine<'_>, words: &[u8]) {
    let words_taken = |given: &Given<'_>| given.option.takes() == Takes::Words;
    let tool = grammar.command(&[]).expect("the tool").style();
    let first = (0..=line.subcommand.len()).any(|depth| {
        let command = grammar.command(&line.subcommand[..depth]).expect("a command");
        command.style().subcommands == Subcommands::First
    });
    if tool.any_dashes || first || line.options.iter().any(words_taken) {
        return;
    }
    let call = Call::new(words);
    let args = call.args();
    if args.is_empty() {
        return;
    }
    let again = grammar.read(&args);
    assert_eq!(again.unread, None, "{}", words.escape_ascii());
    assert_eq!(again.subcommand, line.subcommand);
    assert_eq!(again.operands, line.operands);
    assert_eq!(again.dashes, line.dashes);
    let said = |line: &CommandLine<'_>| -> Vec<_> {
        let of = |one: &Given<'_>| (one.option.id(), one.negated, one.value.map(<[u8]>::to_vec));
        line.options.iter().map(of).collect()
    };
    assert_eq!(said(&again), said(line), "{}", words.escape_ascii());
}
