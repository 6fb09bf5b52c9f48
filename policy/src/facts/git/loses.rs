//! What a call throws away for good.
//!
//! Owns: what git itself does not keep. Commits that a reflog still has, as
//! after an amend or a rebase, are not lost. Must not: look into a repository;
//! `git checkout WORD` is taken for a branch's name, unless WORD is written as a
//! path is.

use crate::facts::{Text, Value, options};
use crate::grammar::CommandLine;

const CHANGES: &str = "changes";
const FILES: &str = "files";
const COMMITS: &str = "commits";
const STASHES: &str = "stashes";
const TAGS: &str = "tags";

pub(super) fn of(line: &CommandLine<'_>) -> Value {
    let mut lost: Vec<&'static str> = Vec::new();
    let given = |spellings: &[&str]| options::any_own(line, spellings);
    let surely = |spellings: &[&str]| options::surely(line, spellings);
    let mut when = |holds: bool, what: &[&'static str]| {
        if holds {
            lost.extend(what);
        }
    };
    match line.subcommand.as_slice() {
        ["reset", ..] => when(given(&["--hard", "--merge"]), &[CHANGES]),
        ["clean", ..] => when(!surely(&["--dry-run"]), &[FILES]),
        ["checkout", ..] => {
            when(given(&["--force", "--ours", "--theirs"]) || restores(line), &[CHANGES]);
            when(given(&["-B"]), &[COMMITS]);
        }
        ["switch", ..] => {
            when(given(&["--force", "--discard-changes"]), &[CHANGES]);
            when(given(&["--force-create", "-C"]), &[COMMITS]);
        }
        ["restore", ..] => when(!surely(&["--staged"]) || given(&["--worktree"]), &[CHANGES]),
        ["branch", ..] => when(
            given(&["-D", "-M", "-C"])
                || given(&["--force"])
                    && (given(&["--delete", "--move", "--copy"]) || !line.operands.is_empty()),
            &[COMMITS],
        ),
        ["tag", ..] => when(given(&["--delete", "--force"]), &[TAGS]),
        ["stash", "drop" | "clear", ..] => when(true, &[STASHES]),
        ["reflog", "expire" | "delete", ..] | ["prune" | "filter-branch", ..] => {
            when(!surely(&["--dry-run"]), &[COMMITS])
        }
        ["gc", ..] => when(given(&["--prune"]), &[COMMITS]),
        // What nothing reaches any more stays behind, or is unpacked and goes later.
        ["repack", ..] => {
            let drops = ["-a", "-A", "--cruft-expiration", "--unpack-unreachable"];
            when(given(&["-d"]) && given(&drops), &[COMMITS]);
        }
        ["update-ref", ..] => when(given(&["-d", "--stdin"]), &[COMMITS]),
        ["worktree", "remove", ..] => when(given(&["--force"]), &[CHANGES, FILES]),
        ["rm", ..] => when(
            given(&["--force"]) && !surely(&["--cached"]) && !surely(&["--dry-run"]),
            &[CHANGES],
        ),
        ["submodule", "deinit" | "update", ..] => when(given(&["--force"]), &[CHANGES]),
        ["read-tree", ..] => when(given(&["--reset"]), &[CHANGES]),
        ["checkout-index", ..] => when(given(&["--force"]), &[CHANGES]),
        _ => {}
    }
    Value::Texts(lost.into_iter().map(|word| Text::new(word.as_bytes())).collect())
}

/// Whether a checkout names files.
fn restores(line: &CommandLine<'_>) -> bool {
    let operands = line.operands.as_slice();
    let new = options::any_own(line, &["-b", "-B", "--orphan", "--detach"]);
    let listed = options::any_own(line, &["--pathspec-from-file", "--patch"]);
    let path = |word: &&[u8]| {
        matches!(*word, b"." | b"..")
            || [b"./".as_slice(), b"../", b"/", b":"].iter().any(|start| word.starts_with(start))
            || word.ends_with(b"/")
            || word.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
    };
    // Behind `--` there are only files.
    let behind = line.dashes.is_some_and(|dashes| operands.len() > dashes);
    listed || behind || !new && (operands.len() > 1 || operands.iter().any(path))
}
