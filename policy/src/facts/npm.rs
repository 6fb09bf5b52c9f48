//! What is known of a call of npm.
//!
//! Owns: what a call changes at a registry, where its packages come from, and
//! whether their scripts run. Must not: read `.npmrc` or `package.json`; they
//! are the caller's, and what they say is not known here.

use super::{Fact, Facts, Kind, Text, Value, fact, options};
use crate::grammar::CommandLine;

/// What this module tells.
#[rustfmt::skip]
pub(super) const FACTS: [Fact; 5] = [
    fact("registry", Kind::Texts, "the registry that --registry names; none where it comes from a file"),
    fact("publish", Kind::Flag, "it changes something at the registry: publish, unpublish, deprecate, dist-tag, owner, access, star, team, token and the like"),
    fact("scripts", Kind::Flag, "scripts of packages or of the project may run; not with --ignore-scripts"),
    fact("source", Kind::Texts, "where packages that are named come from: registry, git, url (an archive), path"),
    fact("path", Kind::Texts, "the local folders and archives that are named, without file:; not known where npm may read one as another, as with ~"),
];

/// What is known.
pub(super) fn facts(line: &CommandLine<'_>) -> Facts {
    let registry = options::values(line, &["--registry"]).map(|url| Text::new(url.to_vec()));
    let words = named(line);
    Facts::new(vec![
        ("registry", Value::Texts(registry.collect())),
        ("publish", Value::Flag(publishes(line))),
        ("scripts", Value::Flag(runs_scripts(line))),
        ("source", sources(&words)),
        ("path", paths(&words)),
    ])
}

fn publishes(line: &CommandLine<'_>) -> bool {
    let reads = |words: &[&str]| {
        line.subcommand.get(1).is_none_or(|word| words.contains(word)) && line.operands.is_empty()
            || line.subcommand.get(1).is_some_and(|word| words.contains(word))
    };
    match line.subcommand.as_slice() {
        ["publish" | "unpublish" | "deprecate" | "undeprecate" | "star" | "unstar", ..] => true,
        ["dist-tag" | "team" | "org" | "hook", ..] => !reads(&["ls"]),
        // `npm owner PACKAGE` is a list.
        ["owner"] => false,
        ["owner", verb, ..] => *verb != "ls",
        ["access", ..] => !reads(&["list", "get", "ls-collaborators", "ls-packages"]),
        ["token", ..] | ["trust", ..] => !reads(&["list"]),
        ["profile", ..] => !reads(&["get"]),
        ["stage", ..] => !reads(&["list", "view", "download"]),
        _ => false,
    }
}

fn runs_scripts(line: &CommandLine<'_>) -> bool {
    let runs = matches!(
        line.subcommand.first(),
        Some(
            &("install"
                | "ci"
                | "install-test"
                | "install-ci-test"
                | "update"
                | "uninstall"
                | "rebuild"
                | "dedupe"
                | "link"
                | "pack"
                | "publish"
                | "version"
                | "run"
                | "run-script"
                | "test"
                | "start"
                | "stop"
                | "restart"
                | "exec"
                | "init"
                | "explore"
                | "edit")
        )
    );
    let is_npx = line.subcommand.is_empty() && !named(line).is_empty();
    (runs || is_npx) && !options::surely(line, &["--ignore-scripts"])
}

/// The words that name packages, of a command that fetches them.
fn named<'a>(line: &CommandLine<'a>) -> Vec<&'a [u8]> {
    let first = || line.operands.first().copied().into_iter().collect();
    match line.subcommand.as_slice() {
        ["install" | "install-test" | "update" | "link" | "pack" | "publish" | "fund", ..]
        | ["cache", "add", ..]
        | ["owner", ..] => line.operands.clone(),
        // What follows the package are fields of it.
        ["view", ..] => first(),
        ["diff", ..] => options::values(line, &["--diff"]).collect(),
        // npx, whose grammar has no commands, is npm exec.
        ["exec", ..] | [] => {
            let named: Vec<&[u8]> = options::values(line, &["--package"]).collect();
            if named.is_empty() { first() } else { named }
        }
        _ => Vec::new(),
    }
}

fn sources(words: &[&[u8]]) -> Value {
    let mut found: Vec<&'static str> = words.iter().map(|word| source(word).name()).collect();
    found.sort_unstable();
    found.dedup();
    Value::Texts(found.into_iter().map(|word| Text::new(word.as_bytes())).collect())
}

fn paths(words: &[&[u8]]) -> Value {
    let local = words.iter().filter_map(|word| match source(word) {
        Source::Path(path) => Some(path.map(|path| Text::new(path.to_vec()))),
        _ => None,
    });
    local.collect::<Option<Vec<_>>>().map_or(Value::Unknown, Value::Texts)
}

/// Where a package comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Registry,
    Git,
    Url,
    /// A folder or an archive; `None` where npm may read it as another one.
    Path(Option<&'a [u8]>),
}

impl Source<'_> {
    fn name(self) -> &'static str {
        match self {
            Source::Registry => "registry",
            Source::Git => "git",
            Source::Url => "url",
            Source::Path(_) => "path",
        }
    }
}

/// How npm reads a package's name, `name@source` or a source alone.
fn source(word: &[u8]) -> Source<'_> {
    if scheme(word).is_some() {
        return addressed(word);
    }
    // The name may begin with a scope's `@`.
    let at = word.iter().skip(1).position(|byte| *byte == b'@').map(|at| at + 1);
    let name = at.and_then(|at| word.get(..at)).unwrap_or(word);
    let behind = at.and_then(|at| word.get(at + 1..));
    if behind.is_some_and(|behind| !word.starts_with(b"@") && is_host(behind)) {
        return Source::Git;
    }
    let scoped = name.starts_with(b"@");
    if !scoped && (name.contains(&b'/') || is_archive(name)) {
        return addressed(word);
    }
    let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    let plain = match parts.as_slice() {
        [scope, name] => scoped && scope.len() > 1 && !matches!(*name, b"" | b"." | b".."),
        [name] => !scoped && !name.starts_with(b".") && !name.starts_with(b"~"),
        _ => false,
    };
    match behind {
        Some(behind) if plain => addressed(behind),
        None if plain => Source::Registry,
        // No name that npm takes.
        _ => Source::Path(path(word)),
    }
}

/// What stands behind `name@`, or without a name.
fn addressed(spec: &[u8]) -> Source<'_> {
    let begins = |starts: &[&[u8]]| starts.iter().any(|start| spec.starts_with(start));
    let scheme = scheme(spec);
    if let Some((name, rest)) = scheme {
        return match name.to_ascii_lowercase().as_slice() {
            b"npm" => Source::Registry,
            b"file" => Source::Path(file(rest)),
            b"http" | b"https" if !rest.windows(4).any(|four| four == b".git") => Source::Url,
            _ => Source::Git,
        };
    }
    if begins(&[b".", b"/", b"~/"]) {
        return Source::Path(path(spec));
    }
    let end = spec.iter().position(|byte| *byte == b'#').unwrap_or(spec.len());
    let place = spec.get(..end).unwrap_or(spec);
    let mut parts = place.split(|byte| *byte == b'/');
    match (parts.next(), parts.next(), parts.next()) {
        _ if place.contains(&b':') => Source::Git,
        // `owner/name` is GitHub's, whatever its ending.
        (Some(owner), Some(name), None) if is_part(owner) && is_part(name) => Source::Git,
        (_, None, _) if spec.contains(&b'/') => Source::Git,
        (_, None, _) if !is_archive(spec) => Source::Registry,
        _ => Source::Path(path(spec)),
    }
}

/// `SCHEME:` and what follows it.
fn scheme(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|byte| *byte == b':')?;
    let (name, rest) = word.split_at_checked(at)?;
    let letters = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'+' | b'-');
    (!name.is_empty() && name.iter().all(letters)).then_some((name, rest.get(1..)?))
}

/// `HOST.TLD:`, as git over ssh has it behind `user@`.
fn is_host(behind: &[u8]) -> bool {
    let at = behind.iter().position(|byte| *byte == b':');
    let host = at.and_then(|at| behind.get(..at)).unwrap_or_default();
    host.contains(&b'.') && !host.starts_with(b".")
}

fn is_part(part: &[u8]) -> bool {
    let odd = |byte: &u8| *byte == b'@' || byte.is_ascii_whitespace();
    !part.is_empty() && !part.iter().any(odd)
}

fn is_archive(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    [b".tgz".as_slice(), b".tar.gz", b".tar"].iter().any(|end| word.ends_with(end))
}

/// A path as it is; npm makes an address of it on the way, and takes `/../x`
/// for `../x` and `/~/x` for one at home.
fn path(word: &[u8]) -> Option<&[u8]> {
    let odd = |byte: &u8| matches!(byte, b'%' | b'?' | b'#' | b'\\') || byte.is_ascii_control();
    let begins = [b"~".as_slice(), b"/.", b"/~"].iter().any(|start| word.starts_with(start));
    let doubled = word.windows(2).any(|two| two == b"//");
    (!begins && !doubled && !word.iter().any(odd)).then_some(word)
}

/// The path of `file:`, with none, one or three slashes before it.
fn file(rest: &[u8]) -> Option<&[u8]> {
    // Two stand before a host.
    path(rest.strip_prefix(b"//").filter(|path| path.starts_with(b"/")).unwrap_or(rest))
}
