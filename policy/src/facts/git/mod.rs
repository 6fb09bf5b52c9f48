//! What is known of a call of git.
//!
//! Owns: the list of facts, and which part tells which. What a repository says
//! comes from what was observed; where it was not, it is unknown.
//!
//! - `observed`  what was read of a repository
//! - `remote`    where a call goes
//! - `push`      what a push changes there
//! - `refs`      refspecs
//! - `keys`      configuration that a call sets
//! - `loses`     what a call throws away
//! - `paths`     the directories and files that it names
//! - `wire`      the same facts of a request in plain sight

mod keys;
mod loses;
mod observed;
mod paths;
mod push;
mod refs;
mod remote;
pub mod wire;

pub use self::observed::{Observed, observe, promises};

use super::{Fact, Facts, Kind, Text, Value, Wants, fact, options};
use crate::grammar::CommandLine;
use crate::scene::Scene;

/// What this module tells.
#[rustfmt::skip]
pub(super) const FACTS: [Fact; 14] = [
    fact("remote", Kind::Texts, "the remote that a push, fetch, pull or ls-remote names, or the one that the branch has"),
    fact("url", Kind::Texts, "the addresses that a push, fetch, pull, ls-remote, clone or submodule add goes to, and that `remote add` and `set-url` write down"),
    fact("ref", Kind::Texts, "the refs of the remote that a push changes; a branch is meant by its short name and by refs/heads/NAME"),
    fact("force", Kind::Flag, "a push may drop commits of the remote: --force, --force-with-lease, +REFSPEC, --mirror"),
    fact("delete", Kind::Flag, "a push deletes refs of the remote: --delete, :REF, --prune, --mirror"),
    fact("tags", Kind::Texts, "the tags that a push names as tags: refs/tags/NAME, `tag NAME`, --tags, --follow-tags"),
    fact("unclear", Kind::Flag, "which refs a push changes cannot be told: it names none and the configuration is unusual, HEAD is no branch, -c changes what it does, or a refspec only git can resolve"),
    fact("symbolic", Kind::Texts, "the name that `symbolic-ref NAME TARGET` makes another name for TARGET"),
    fact("config", Kind::Texts, "the configuration keys that -c, --config-env, clone -c, config and remote set or remove; letters of both sizes are the same"),
    fact("configures", Kind::Texts, "as `config`, without what -c only switches off or says as it is: pager.NAME=false, core.hooksPath=/dev/null, core.fsmonitor=false, an empty credential.helper or diff.external, push.default=simple or current"),
    fact("setting", Kind::Texts, "the same with their values, KEY=VALUE, where a value is given; the key in small letters"),
    fact("directories", Kind::Texts, "the directories that -C, --git-dir and --work-tree name, as git puts them together"),
    fact("writes", Kind::Texts, "the files and directories that a call names to write to, or a local repository to read: --output, init, clone, worktree add, bundle create, config --file and the like"),
    fact("loses", Kind::Texts, "what a call throws away for good: changes (of files that git knows), files (that it does not), commits (that no branch has any more), stashes, tags"),
];

/// More refspecs, paths or settings than this are not told one by one.
const MANY: usize = 1024;

/// Members of a configuration that say where a push goes.
const DIRECTING: [&[u8]; 7] =
    [b"push.", b"remote.", b"branch.", b"url.", b"include.", b"includeif.", b"submodule.recurse"];

/// Options that name another repository than the directory's.
const ELSEWHERE: [&str; 3] = ["--git-dir", "--work-tree", "--bare"];

/// Which repository has to be observed.
pub(super) fn wants(line: &CommandLine<'_>) -> Wants {
    let asks = matches!(line.subcommand.first(), Some(&("push" | "fetch" | "pull" | "ls-remote")));
    let elsewhere = options::any_global(line, &ELSEWHERE);
    if !asks || elsewhere {
        return Wants::Nothing;
    }
    let known = |path| Wants::Repository { path, refs: push::looked_up(line) };
    paths::base(line).map_or(Wants::Nothing, known)
}

/// The repository whose objects a call may lack; of those that look at none,
/// nothing.
pub(crate) fn wants_promisor(line: &CommandLine<'_>) -> Wants {
    let none = matches!(
        line.subcommand.as_slice(),
        [] | ["version" | "help" | "init" | "config" | "var" | "check-ref-format" | "column", ..]
    );
    if none || options::any_global(line, &ELSEWHERE) {
        return Wants::Nothing;
    }
    paths::base(line).map_or(Wants::Nothing, |path| Wants::Promisor { path })
}

/// What is known.
pub(super) fn facts(line: &CommandLine<'_>, scene: &Scene<'_>) -> Facts {
    let keys = keys::set(line);
    let effective = keys::effective(line);
    let directed = match &effective {
        Value::Unknown => true,
        Value::Texts(keys) => {
            keys.iter().any(|key| DIRECTING.iter().any(|section| key.bytes().starts_with(section)))
        }
        Value::Flag(_) => false,
    };
    let base = paths::base(line);
    let elsewhere = options::any_global(line, &ELSEWHERE) || base.is_none();
    let nothing = Observed::default();
    // What was observed is of another repository, or the call overrules it.
    let observed = if directed || elsewhere { &nothing } else { scene.observed };
    let said;
    let observed = match keys::push_default(line) {
        Some(value) => {
            said = observed.pushing_by(value);
            &said
        }
        None => observed,
    };
    let remote = remote::of(line, observed);
    let push = push::of(line, observed, directed);
    Facts::new(vec![
        ("remote", remote.name),
        ("url", remote.url),
        ("ref", push.refs),
        ("force", push.force),
        ("delete", push.delete),
        ("tags", push.tags),
        ("unclear", push.unclear),
        ("symbolic", symbolic(line)),
        ("config", keys),
        ("configures", effective),
        ("setting", keys::settings(line)),
        ("directories", paths::directories(line, base.as_deref())),
        ("writes", paths::writes(line, base.as_deref())),
        ("loses", loses::of(line)),
    ])
}

/// Whether a call goes to repositories of this machine alone, by their paths.
pub(crate) fn is_local(facts: &Facts) -> bool {
    let Value::Texts(urls) = facts.get("url") else { return false };
    let path = |url: &[u8]| {
        let slash = url.iter().position(|byte| *byte == b'/').unwrap_or(url.len());
        !url.get(..slash).unwrap_or_default().contains(&b':')
    };
    !urls.is_empty() && urls.iter().all(|url| path(url.bytes()))
}

/// A ref by its full name, as rules see it, and the tag that it is.
pub fn named(full: &[u8]) -> (Text<'static>, Option<Text<'static>>) {
    let whole = Text::new(full.to_vec());
    let tag = full.strip_prefix(b"refs/tags/").map(|tag| Text::new(tag.to_vec()));
    match full.strip_prefix(b"refs/heads/") {
        Some(branch) => (Text::new(branch.to_vec()).or(full), None),
        None => (whole, tag),
    }
}

/// The ref that a call makes stand for another one.
fn symbolic(line: &CommandLine<'_>) -> Value {
    match (line.subcommand.as_slice(), line.operands.as_slice()) {
        (["symbolic-ref", ..], [name, _, ..]) => one(name),
        _ => none(),
    }
}

/// A call has nothing of the kind.
fn none() -> Value {
    Value::Texts(Vec::new())
}

/// One word.
fn one(word: &[u8]) -> Value {
    Value::Texts(vec![Text::new(word.to_vec())])
}
