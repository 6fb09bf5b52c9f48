//! Directories and files that a call names.
//!
//! Owns: which words are paths, and from where git takes them. Must not: look at
//! a disk, or grow faster than the arguments do. What is longer than git itself
//! takes is not known.

use super::MANY;
use crate::facts::{Text, Value, options};
use crate::grammar::CommandLine;

/// The longest path of a kernel's; a longer `-C` leads nowhere.
const LONGEST: usize = 4096;
/// More `-C` are nobody's.
const MOST: usize = 256;
/// What the base adds to all paths together.
const ADDED: usize = 256 * 1024;

/// Where `-C` leads, seen from the call's directory; empty where it is not given.
/// `None`: that is too long to be followed.
pub(super) fn base(line: &CommandLine<'_>) -> Option<Vec<u8>> {
    // A command's own `-C`, as in `git am -C1`, is another option.
    let given = options::global_values(line, &["-C"]).filter(|next| !next.is_empty());
    let mut base = Vec::new();
    for (index, next) in given.enumerate() {
        if next.starts_with(b"/") {
            base.clear();
        } else if !base.is_empty() {
            base.push(b'/');
        }
        if index >= MOST || base.len() + next.len() > LONGEST {
            return None;
        }
        base.extend_from_slice(next);
    }
    Some(base)
}

/// Where the call works, if not where it is made.
pub(super) fn directories(line: &CommandLine<'_>, base: Option<&[u8]>) -> Value {
    let Some(base) = base else { return Value::Unknown };
    let named = options::values(line, &["--git-dir", "--work-tree"]);
    let own = (!base.is_empty()).then(|| base.to_vec());
    match joined(base, named) {
        Some(named) => Value::Texts(own.into_iter().chain(named).map(Text::new).collect()),
        None => Value::Unknown,
    }
}

/// Options whose value is a file or a directory to write, by any command.
const OUTPUTS: [&str; 7] = [
    "--output",
    "--output-directory",
    "--separate-git-dir",
    "--export-marks",
    "--index-output",
    "--expire-to",
    "--filter-to",
];

/// What it writes to by name, and local repositories that it reads.
pub(super) fn writes(line: &CommandLine<'_>, base: Option<&[u8]>) -> Value {
    let Some(base) = base else { return Value::Unknown };
    let named: &[&str] = match line.subcommand.first() {
        Some(&"config") => &["--file"],
        Some(&"checkout-index") => &["--prefix"],
        Some(&"index-pack") => &["-o"],
        Some(&"clone") => &["--reference", "--reference-if-able"],
        _ => &[],
    };
    let repositories: &[&str] = match line.subcommand.first() {
        Some(&"clone") => &["--bundle-uri"],
        Some(&"archive") => &["--remote"],
        _ => &[],
    };
    let paths = options::values(line, &OUTPUTS)
        .chain(options::own_values(line, named))
        .chain(options::own_values(line, repositories).filter(|word| is_local(word)))
        .chain(operands(line).into_iter().flatten());
    match joined(base, paths.filter(|path| *path != b"-")) {
        Some(paths) => Value::Texts(paths.into_iter().map(Text::new).collect()),
        None => Value::Unknown,
    }
}

fn operands<'a>(line: &CommandLine<'a>) -> [Option<&'a [u8]>; 2] {
    let operand = |index: usize| line.operands.get(index).copied();
    let local = |index: usize| operand(index).filter(|word| is_local(word));
    match line.subcommand.as_slice() {
        ["init" | "pack-objects", ..] | ["worktree", "add", ..] | ["bundle", "create", ..] => {
            [operand(0), None]
        }
        ["mailinfo", ..] => [operand(0), operand(1)],
        ["worktree", "move", ..] => [operand(1), None],
        ["clone", ..] | ["submodule", "add", ..] => [local(0), operand(1)],
        ["fetch" | "pull" | "push" | "ls-remote" | "fetch-pack" | "send-pack", ..] => {
            [local(0), None]
        }
        ["remote", "add" | "set-url", ..] => [local(1), None],
        _ => [None, None],
    }
}

/// Whether git takes a word for a repository of this machine, by its path.
fn is_local(word: &[u8]) -> bool {
    let slash = word.iter().position(|byte| *byte == b'/');
    let before = word.get(..slash.unwrap_or(word.len())).unwrap_or_default();
    // The name of a remote has no slash.
    (slash.is_some() || matches!(word, b"." | b"..")) && !before.contains(&b':')
}

/// The paths, seen from the call's directory. `None`: they are too many.
fn joined<'a>(base: &[u8], paths: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Vec<u8>>> {
    let (mut all, mut added) = (Vec::new(), 0);
    for path in paths {
        let beneath = !base.is_empty() && !path.starts_with(b"/");
        added += if beneath { base.len() } else { 0 };
        if all.len() >= MANY || added > ADDED {
            return None;
        }
        all.push(if beneath { [base, b"/", path].concat() } else { path.to_vec() });
    }
    Some(all)
}
