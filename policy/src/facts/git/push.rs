//! What a push changes on the other side.

use super::observed::{Config, Observed};
use super::refs::Refs;
use super::{MANY, none, remote};
use crate::facts::{Text, Value, options};
use crate::grammar::CommandLine;

/// The facts of a push; of another call there is nothing, and no flag holds.
pub(super) struct Push {
    pub(super) refs: Value,
    pub(super) force: Value,
    pub(super) delete: Value,
    pub(super) tags: Value,
    pub(super) unclear: Value,
}

/// `directed`: the call says itself, by `-c`, what a configuration would.
pub(super) fn of(line: &CommandLine<'_>, observed: &Observed, directed: bool) -> Push {
    if !matches!(line.subcommand.as_slice(), ["push" | "send-pack" | "http-push", ..]) {
        let no = || Value::Flag(false);
        return Push { refs: none(), force: no(), delete: no(), tags: none(), unclear: no() };
    }
    let mut refs = Refs::default();
    let plumbing = line.subcommand.first() != Some(&"push");
    let given = |spellings: &[&str]| options::any_own(line, spellings);
    let head = observed.head.as_deref();
    let mirror = given(&["--mirror"]);
    let tags = given(&["--tags"]);
    refs.force = mirror || given(&["--force", "--force-with-lease"]);
    refs.delete = mirror || given(&["--delete", "--prune"]);
    let deletes = given(&["--delete"]);
    let named = named_only(line, observed);
    let many = line.operands.len() > MANY;
    refs.unknown |= many;
    let mut specs = line.operands.iter().skip(1).copied().take_while(|_| !many);
    let mut any = many;
    while let Some(spec) = specs.next() {
        any = true;
        match spec {
            b"tag" if !plumbing => match specs.next() {
                Some(name) if !observed.symbolic => refs.name(&[b"refs/tags/", name].concat()),
                _ => refs.unknown = true,
            },
            // Names, not refspecs; git refuses a colon in them.
            name if deletes => refs.name(name),
            spec if plumbing || spec.contains(&b':') => refs.take(spec, head),
            spec => mapped(&mut refs, spec, named, head),
        }
    }
    if given(&["--all", "--branches"]) {
        any = true;
        refs.branch(b"*");
    }
    if tags {
        any = true;
        refs.name(b"refs/tags/*");
    }
    // The other side's namespace, submodules, and what stdin names.
    let hidden = given(&["--stdin"])
        || options::any_global(line, &["--namespace"])
        || options::own_values(line, &["--recurse-submodules"])
            .any(|value| !matches!(value, b"no" | b"check"));
    let submodules = observed.config.as_ref().is_some_and(|config| config.recurses)
        && !options::surely_not(line, &["--recurse-submodules"]);
    let mut unsure = many;
    if mirror || hidden || submodules {
        refs.unknown = true;
    } else if !any {
        unsure = !by_configuration(&mut refs, line, observed);
    }
    // A configuration that is not known may say it.
    let by_itself = || observed.config.as_ref().is_none_or(|config| config.follow_tags);
    let without = plumbing || options::surely_not(line, &["--follow-tags"]);
    if given(&["--follow-tags"]) || !without && by_itself() {
        refs.name(b"refs/tags/*");
    }
    // A mirror is plain enough: it changes everything.
    let unclear = !mirror && (directed || unsure || refs.unknown);
    // Without refspecs a configuration may say `+`, or mirror.
    let flag = |holds| match holds || !(directed || unsure) {
        true => Value::Flag(holds),
        false => Value::Unknown,
    };
    let texts = |texts: Vec<Text<'static>>| match refs.unknown || directed {
        true => Value::Unknown,
        false => Value::Texts(texts),
    };
    Push {
        force: flag(refs.force),
        delete: flag(refs.delete),
        tags: texts(refs.tags),
        refs: texts(refs.names),
        unclear: Value::Flag(unclear),
    }
}

/// The files of the refs that a push names without their other half: where one
/// stands for another ref, git pushes to that.
pub(super) fn looked_up(line: &CommandLine<'_>) -> Vec<Vec<u8>> {
    let pushes = matches!(line.subcommand.as_slice(), ["push", ..]);
    let deletes = options::any_own(line, &["--delete"]);
    if !pushes || deletes || line.operands.len() > MANY {
        return Vec::new();
    }
    let mut files = Vec::new();
    let mut specs = line.operands.iter().skip(1).copied();
    while let Some(spec) = specs.next() {
        let name = spec.strip_prefix(b"+").unwrap_or(spec);
        let whole = name.contains(&b':') || name.contains(&b'*') || name.starts_with(b"^");
        match name {
            b"tag" => {
                let tag = specs.next().map(|name| [b"refs/tags/", name].concat());
                files.extend(tag);
            }
            _ if whole || name.is_empty() => {}
            // The branch that is checked out is looked at anyway.
            b"HEAD" | b"@" => files.extend(spelled(b"HEAD").skip(1)),
            name => files.extend(spelled(name)),
        }
    }
    files
}

/// Where git looks for a ref of that name.
fn spelled(name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const PLACES: [(&[u8], &[u8]); 6] = [
        (b"", b""),
        (b"refs/", b""),
        (b"refs/tags/", b""),
        (b"refs/heads/", b""),
        (b"refs/remotes/", b""),
        (b"refs/remotes/", b"/HEAD"),
    ];
    PLACES.iter().map(move |(before, after)| [before, name, after].concat())
}

/// The configuration that names without a colon are looked up in, where it is
/// known, and has no refspecs of its own for the remote.
fn named_only<'a>(line: &CommandLine<'_>, observed: &'a Observed) -> Option<&'a Config> {
    let config = observed.config.as_ref()?;
    let name = remote::push_name(line, observed)?;
    let says = config.remotes.get(&name);
    // Git takes the ref that a symbolic one stands for.
    if observed.symbolic || says.is_none() && strange(&name) {
        return None;
    }
    (!says.is_some_and(|remote| remote.has_refspecs || remote.mirror)).then_some(config)
}

/// The name of a remote that the configuration does not have: git may find what
/// it does elsewhere. `origin` is what git takes where nothing is said.
fn strange(name: &[u8]) -> bool {
    name != b"origin" && !name.iter().any(|byte| matches!(byte, b'/' | b':' | b'.'))
}

/// A refspec without a colon: git goes by the configuration to find its other
/// half, and only then takes the same name.
fn mapped(refs: &mut Refs, spec: &[u8], config: Option<&Config>, head: Option<&[u8]>) {
    let Some(config) = config else {
        refs.force |= spec.starts_with(b"+");
        refs.unknown = true;
        return;
    };
    let name = spec.strip_prefix(b"+").unwrap_or(spec);
    let tracks = matches!(config.push_default.as_deref(), Some(b"upstream" | b"tracking"));
    let branch = name.strip_prefix(b"refs/heads/").unwrap_or(name);
    let merge = config.branches.get(branch).and_then(|branch| branch.merge.as_deref());
    match merge.filter(|_| tracks) {
        Some(merge) => {
            refs.force |= name.len() != spec.len();
            refs.name(merge);
        }
        None if tracks && matches!(name, b"HEAD" | b"@") => refs.unknown = true,
        None => refs.take(spec, head),
    }
}

/// A push that names no refspec. `false`: it is not known what it does.
fn by_configuration(refs: &mut Refs, line: &CommandLine<'_>, observed: &Observed) -> bool {
    let known = observed.config.as_ref().zip(remote::push_name(line, observed));
    let Some((config, remote)) = known else {
        refs.unknown = true;
        return false;
    };
    let strange = strange(&remote);
    let remote = config.remotes.get(&remote);
    if remote.map_or(strange, |remote| remote.has_refspecs || remote.mirror) {
        refs.unknown = true;
        return false;
    }
    match target(config, observed.head.as_deref()) {
        Target::Nothing => {}
        Target::Ref(name) => refs.name(name),
        Target::Branch(name) => refs.branch(name),
        Target::Unknown => refs.unknown = true,
    }
    true
}

enum Target<'a> {
    Nothing,
    Branch(&'a [u8]),
    Ref(&'a [u8]),
    Unknown,
}

fn target<'a>(config: &'a Config, head: Option<&'a [u8]>) -> Target<'a> {
    let merge = head.and_then(|head| config.branches.get(head)?.merge.as_deref());
    match (config.push_default.as_deref(), head) {
        (Some(b"nothing"), _) => Target::Nothing,
        // What is tracked has the same name, or git refuses.
        (None | Some(b"simple" | b"current"), Some(head)) => Target::Branch(head),
        (Some(b"upstream" | b"tracking"), Some(_)) => merge.map_or(Target::Unknown, Target::Ref),
        _ => Target::Unknown,
    }
}
