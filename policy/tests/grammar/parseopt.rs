//! Reading agrees with git's own parser, on generated command lines.
//!
//! `git rev-parse --parseopt` is that parser for any options: it gets the options
//! that the grammar knows for a command, and a command line made of them, of
//! abbreviations, clusters, values and rubbish.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use proptest::prelude::*;
use proptest::sample::Index;
use tool_policy::grammar::{Command, CommandLine, Grammar, Takes, Unread, Why};

use crate::support::{self, shipped};

/// The commands that are read by git's own parser and by nothing beside it.
fn commands(git: &Grammar) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut waiting: Vec<Command<'_>> = git.command(&[]).unwrap().commands().collect();
    while let Some(command) = waiting.pop() {
        let style = command.style();
        let revisions = command.option("--max-count").is_some();
        if style.abbreviations && style.clusters && !style.raw && !revisions {
            found.push(command.path());
        }
        waiting.extend(command.commands());
    }
    found.sort();
    found
}

/// Whether git answers to it itself, whatever options there are.
fn help(spelling: &str) -> bool {
    let helps = ["-h", "--help", "--help-all"].contains(&spelling);
    helps || spelling.starts_with("--git-completion-helper")
}

/// The options of a command as `--parseopt` wants them.
fn specification(command: Command<'_>) -> String {
    let mut text = "x\n--\n".to_owned();
    let options: Vec<_> = command.options().filter(|(spelling, _)| !help(spelling)).collect();
    for (spelling, spelled) in &options {
        let takes = match spelled.option.takes() {
            Takes::Value | Takes::Last => "=",
            Takes::Attached => "?",
            Takes::Nothing => "",
            Takes::Words | Takes::Number => continue,
        };
        let name = spelling.trim_start_matches('-');
        if spelled.negated {
            continue;
        }
        let negatable = spelled.option.spellings().any(|other| {
            other.strip_prefix("--no-") == Some(name)
                || name
                    .strip_prefix("no-")
                    .is_some_and(|name| other.strip_prefix("--") == Some(name))
        });
        let no = if spelling.starts_with("--") && negatable { "" } else { "!" };
        writeln!(text, "{name}{takes}{no} x").unwrap();
    }
    text
}

/// What git makes of it: the options and the operands, or nothing if it refuses.
fn parsed(git: &Grammar, path: &[&str], args: &[String]) -> Result<String, String> {
    let command = git.command(path).unwrap();
    let mut process = Process::new("git");
    process.args(["rev-parse", "--parseopt", "--stuck-long"]);
    if command.style().operands_end_options {
        process.arg("--stop-at-non-option");
    }
    process.arg("--").args(args).current_dir("/");
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(specification(command).as_bytes()).unwrap();
    drop(stdin);
    let done = child.wait_with_output().unwrap();
    if !done.status.success() {
        return Err(String::from_utf8(done.stderr).unwrap());
    }
    Ok(normal(command, &String::from_utf8(done.stdout).unwrap()))
}

/// What `--parseopt` printed, in the form of [`shown`].
fn normal(command: Command<'_>, said: &str) -> String {
    let mut words = unquoted(said.strip_prefix("set --").unwrap_or(said)).into_iter();
    let mut shown = String::new();
    for word in words.by_ref().take_while(|word| word != "--") {
        let (name, value) = match word.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (format!("--{name}"), Some(value.to_owned())),
                None => (word.clone(), None),
            },
            None => {
                let (name, value) = word.split_at(2);
                (name.to_owned(), (!value.is_empty()).then(|| value.to_owned()))
            }
        };
        // The opposite of `--no-x` is shown as `--no-no-x`.
        let name = name.replacen("--no-no-", "--", 1);
        let spelled = command.option(&name).unwrap_or_else(|| panic!("{command:?} {name}"));
        let no = if spelled.negated { "!" } else { "" };
        write!(shown, "{no}{}", spelled.option.name()).unwrap();
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            write!(shown, "={value}").unwrap();
        }
        shown.push(' ');
    }
    shown.push(':');
    for word in words {
        write!(shown, " {word}").unwrap();
    }
    shown
}

/// The words of a line that is quoted for a shell as git does.
fn unquoted(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut inside, mut quoted, mut escaped) = (false, false, false);
    for letter in line.trim().chars() {
        if letter == ' ' && !quoted && !escaped {
            inside = false;
            continue;
        }
        if !std::mem::replace(&mut inside, true) {
            words.push(String::new());
        }
        match letter {
            '\'' if !escaped => quoted = !quoted,
            '\\' if !quoted && !escaped => escaped = true,
            _ => {
                words.last_mut().unwrap().push(letter);
                escaped = false;
            }
        }
    }
    words
}

/// What was read, in the form of [`parsed`], which has no `--` and no empty values.
fn shown(line: &CommandLine<'_>) -> String {
    let mut line = CommandLine { subcommand: Vec::new(), dashes: None, ..line.clone() };
    for given in &mut line.options {
        given.value = given.value.filter(|value| !value.is_empty());
    }
    support::shown(&line)
}

/// One argument of a generated command line.
#[derive(Clone, Debug)]
enum Word {
    Long { which: Index, negated: bool, cut: Option<Index>, value: Option<&'static str> },
    Cluster { which: Vec<Index>, value: Option<&'static str> },
    Plain(&'static str),
}

fn word() -> impl Strategy<Value = Word> {
    let value =
        || proptest::option::weighted(0.3, proptest::sample::select(vec!["v", "-", "1", ""]));
    let long = (any::<Index>(), any::<bool>(), proptest::option::of(any::<Index>()), value());
    let cluster = (proptest::collection::vec(any::<Index>(), 1..4), value());
    let plain = vec!["a", "b/c", "-", "--", "--end-of-options", "--zzz", "-~", "", "1", "HEAD"];
    prop_oneof![
        4 => long.prop_map(|(which, negated, cut, value)| Word::Long { which, negated, cut, value }),
        3 => cluster.prop_map(|(which, value)| Word::Cluster { which, value }),
        4 => proptest::sample::select(plain).prop_map(Word::Plain),
    ]
}

fn written(command: Command<'_>, words: &[Word]) -> Vec<String> {
    let options: Vec<&str> =
        command.options().map(|(spelling, _)| spelling).filter(|it| !help(it)).collect();
    let long: Vec<&str> = options.iter().filter(|it| it.starts_with("--")).copied().collect();
    let short: Vec<&str> = options.iter().filter(|it| it.len() == 2).copied().collect();
    let mut args = Vec::new();
    for word in words {
        args.push(match word {
            Word::Long { which, negated, cut, value } if !long.is_empty() => {
                let mut text = which.get(&long).to_string();
                if *negated && !text.starts_with("--no-") {
                    text = text.replacen("--", "--no-", 1);
                }
                if let Some(cut) = cut {
                    text.truncate(3 + cut.index(text.len() - 2));
                }
                match value {
                    Some(value) => format!("{text}={value}"),
                    None => text,
                }
            }
            Word::Cluster { which, value } if !short.is_empty() => {
                let letters = which.iter().map(|each| &each.get(&short)[1..]);
                format!("-{}{}", letters.collect::<String>(), value.unwrap_or_default())
            }
            Word::Plain(text) => (*text).to_owned(),
            _ => "a".to_owned(),
        });
    }
    args
}

fn agree(git: &Grammar, path: &[&str], args: &[String]) -> Result<(), String> {
    let command = git.command(path).unwrap();
    let all: Vec<&[u8]> =
        path.iter().map(|name| name.as_bytes()).chain(args.iter().map(String::as_bytes)).collect();
    let ours = git.read(&all);
    // Whether a word is a command beneath it is not `--parseopt`'s to say, nor
    // is help, nor what cannot be said in its language.
    let beyond = |spelling: &str| {
        command.option(spelling).is_some_and(|spelled| {
            matches!(spelled.option.takes(), Takes::Last | Takes::Words | Takes::Number)
        })
    };
    let helped = ours.options.iter().any(|given| help(given.option.name()));
    if ours.subcommand.len() != path.len() || helped {
        return Ok(());
    }
    if ours.options.iter().any(|given| beyond(given.option.name())) {
        return Ok(());
    }
    let command_wanted = command.commands().next().is_some();
    match (parsed(git, path, args), ours.unread.is_some()) {
        (Ok(_), true) if command_wanted => Ok(()),
        (Ok(_), true) if stricter(ours.unread.as_ref().unwrap()) => Ok(()),
        (Ok(theirs), false) => {
            let ours = shown(&ours);
            if ours == theirs { Ok(()) } else { Err(format!("git {theirs:?}\nwe  {ours:?}")) }
        }
        (Ok(theirs), true) => Err(format!("git {theirs:?}\nwe  {}", support::shown(&ours))),
        (Err(_), true) => Ok(()),
        // One dash where two are meant: git asks back, where it could go on.
        (Err(why), false) if why.contains("with two dashes") => Ok(()),
        (Err(why), false) => Err(format!("git refuses: {why}\nwe  {}", support::shown(&ours))),
    }
}

/// Where reading is unsure on purpose.
fn stricter(unread: &Unread<'_>) -> bool {
    // Versions of git differ: `--no-` may be the only `--no-x` there is, and with
    // a value the shorter ones are no beginnings of it.
    let no = [&b"--n"[..], b"--no", b"--no-"].contains(&unread.word.as_slice());
    // Help is asked for by the whole word, which these may be meant to become.
    let help = match &unread.why {
        Why::Ambiguous(names) => names.iter().any(|name| help(name)),
        _ => false,
    };
    no || help
}

/// The version of the git that is installed, as far as it says something.
fn version() -> Option<(u32, u32)> {
    let done = Process::new("git").arg("version").output().ok()?;
    let said = String::from_utf8(done.stdout).unwrap();
    let mut numbers = said.split_whitespace().nth(2)?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// What git prints for one that completes command lines, in an empty repository.
fn completions(args: &[&str]) -> Vec<String> {
    let repository = Path::new(env!("CARGO_TARGET_TMPDIR")).join("completions");
    let mut process = Process::new("git");
    process.args(args).arg("--git-completion-helper-all").stdin(Stdio::null());
    process.env("GIT_DIR", repository.join(".git")).current_dir(repository);
    let done = process.stdout(Stdio::piped()).stderr(Stdio::null()).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    said.split_whitespace().map(|word| word.trim_end_matches('=').to_owned()).collect()
}

/// As below, with what was recorded by recorded/git.py.
#[test]
fn reading_agrees_with_what_git_was_recorded_to_read() {
    let git = shipped("git");
    let (mut same, mut refused) = (0, 0);
    for line in include_str!("../recorded/git.txt").lines().filter(|line| !line.starts_with('#')) {
        let (given, theirs) = line.split_once('\t').unwrap();
        let args = support::words(given);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let ours = git.read(&args);
        let context = format!("git {given}\n{theirs}\n{}", support::shown(&ours));
        let unsure = ours
            .unread
            .as_ref()
            .is_some_and(|unread| stricter(unread) || matches!(unread.why, Why::Ambiguous(_)));
        match theirs.strip_prefix("set --") {
            Some(_) if unsure => {}
            Some(theirs) => {
                let command = git.command(&ours.subcommand).unwrap();
                assert!(ours.unread.is_none(), "{context}");
                assert_eq!(normal(command, theirs), shown(&ours), "{context}");
                same += 1;
            }
            None => {
                assert!(ours.unread.is_some(), "{context}");
                refused += 1;
            }
        }
    }
    assert!(same > 150 && refused > 100, "{same} {refused}");
}

#[test]
fn every_option_that_git_lists_is_known() {
    let test = "every_option_that_git_lists_is_known";
    let known = (2, 47);
    match version() {
        None => return support::skipped(test, "git is not installed"),
        Some(version) if version > known => {
            return support::skipped(test, "git is newer than its grammar: make that anew");
        }
        Some(_) => {}
    }
    let repository = Path::new(env!("CARGO_TARGET_TMPDIR")).join("completions");
    let made = Process::new("git").args(["init", "-q"]).arg(&repository).status().unwrap();
    assert!(made.success());
    let git = shipped("git");
    let mut seen = 0;
    let mut waiting: Vec<Command<'_>> = git.command(&[]).unwrap().commands().collect();
    while let Some(command) = waiting.pop() {
        let path = command.path();
        // What each would take for words of a command line of the caller's.
        let internal = ["update-index", "credential-cache", "stash", "reflog", "submodule"];
        if command.style().raw || internal.contains(&path[0]) {
            continue;
        }
        for spelling in completions(&path).iter().filter(|word| word.starts_with("--")) {
            assert!(spelling == "--" || command.option(spelling).is_some(), "{path:?} {spelling}");
            seen += 1;
        }
        waiting.extend(command.commands());
    }
    assert!(seen > 2000, "{seen}");
}

#[test]
fn reading_agrees_with_gits_own_parser() {
    if version().is_none() {
        support::skipped("reading_agrees_with_gits_own_parser", "git is not installed");
        return;
    }
    let git = shipped("git");
    let commands = commands(&git);
    assert!(commands.len() > 90, "{}", commands.len());
    let config = ProptestConfig { cases: 1024, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let input = (any::<Index>(), proptest::collection::vec(word(), 0..6));
    let result = runner.run(&input, |(which, words)| {
        let path = which.get(&commands);
        let args = written(git.command(path).unwrap(), &words);
        let agreed = agree(&git, path, &args);
        prop_assert!(agreed.is_ok(), "git {} {args:?}\n{}", path.join(" "), agreed.unwrap_err());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
