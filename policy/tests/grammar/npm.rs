//! npm's shipped grammar reads what npm reads: recorded by recorded/npm.py.

use std::collections::BTreeSet;

use crate::support::{self, read, shipped, words};

const RECORDED: &str = include_str!("../recorded/npm.txt");

#[test]
fn command_lines_of_npm_are_read() {
    let npm = shipped("npm");
    let cases = [
        ("i -gD left-pad", "install --global --save-dev : left-pad"),
        ("inst left-pad", "install : left-pad"),
        ("--global=false ci", "ci !--global=false :"),
        ("run build -- --watch", "run : build -- --watch"),
        ("dist-tags d x next", "dist-tag rm : x next"),
        ("config", "config :"),
        ("owner whoever", "owner : whoever"),
        ("install --glob", "unread: --glob is no option of tool install known to these rules"),
        ("install --nope x", "unread: --nope is no option of tool install known to these rules"),
        ("-- install x", "unread: -- stands before install, which may be a command of tool"),
        ("install --tag -g", "unread: --tag of tool install needs a value"),
        ("nstall", "unread: nstall is no command of tool known to these rules"),
    ];
    for (words, expected) in cases {
        assert_eq!(read(&npm, words), expected, "npm {words}");
    }
}

#[test]
fn reading_agrees_with_npms_own_parser() {
    let npm = shipped("npm");
    let (mut same, mut unread) = (0, 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (given, theirs) = line.split_once('\t').unwrap();
        let args = words(given);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let ours = npm.read(&args);
        if ours.unread.is_some() {
            unread += 1;
            continue;
        }
        let context = format!("npm {given}\n{theirs}\n{}", support::shown(&ours));
        assert_ne!(theirs, "differs", "{context}");
        let (operands, options) = theirs.split_once('|').unwrap();
        let (command, operands) = operands.split_once(':').unwrap();
        assert_eq!(command.trim(), ours.subcommand.first().copied().unwrap_or("?"), "{context}");
        // A command beneath a command is an operand to npm.
        let operands = words(operands);
        let beneath = ours.subcommand.len().saturating_sub(1);
        let rest: Vec<&[u8]> = operands.iter().skip(beneath).map(String::as_bytes).collect();
        assert_eq!(rest, ours.operands, "{context}");
        let given = |key: &str| ours.options.iter().any(|each| each.option.name() == key);
        for option in options.split_whitespace() {
            let (key, value) = option.split_once('=').unwrap();
            let key = format!("--{key}");
            // The short ones of this each stand for a value.
            if key == "--loglevel" {
                continue;
            }
            assert!(given(&key), "{key}: {context}");
            let last = ours.options.iter().rfind(|each| each.option.name() == key).unwrap();
            match value {
                "true" if last.value.is_none() => assert!(!last.negated, "{key}: {context}"),
                "false" => assert!(last.negated, "{key}: {context}"),
                _ => {}
            }
        }
        same += 1;
    }
    assert!(same > 250, "{same} read, {unread} unread");
}

/// What npm does not know it takes for a flag, so that the next word is an
/// operand. A grammar that knew it otherwise would read past that.
#[test]
fn nothing_is_read_that_npms_differ_about() {
    let npm = shipped("npm");
    let differing = RECORDED.lines().filter_map(|line| line.strip_suffix("\tdiffers"));
    let differing: BTreeSet<&str> = differing.collect();
    assert!(differing.len() > 30, "{}", differing.len());
    for given in differing {
        let args = words(given);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        assert!(npm.read(&args).unread.is_some(), "{given}");
    }
}
