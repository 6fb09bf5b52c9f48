//! What was read of a repository: the branch that is checked out, and what its
//! configuration says of where a push goes.
//!
//! Owns: reading the bytes of HEAD and of configuration files strictly. Must
//! not: understand what git might understand otherwise. Anything unusual makes
//! the whole of it unknown: another file that is included, a section on one
//! line with its members, a quoted value where the value counts.

use std::collections::BTreeMap;

/// What is known of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The branch that is checked out.
    pub head: Option<Vec<u8>>,
    /// A ref that the call names stands for another one, or may.
    pub symbolic: bool,
    /// It is a partial clone, or may be: what it lacks it fetches.
    pub promisor: bool,
    /// What its configuration says.
    pub(crate) config: Option<Config>,
}

/// The configuration, as far as it counts here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) push_default: Option<Vec<u8>>,
    pub(crate) remote_push_default: Option<Vec<u8>>,
    pub(crate) follow_tags: bool,
    /// A push pushes in submodules too, or may.
    pub(crate) recurses: bool,
    /// Addresses are rewritten.
    pub(crate) rewrites: bool,
    pub(crate) remotes: BTreeMap<Vec<u8>, Remote>,
    pub(crate) branches: BTreeMap<Vec<u8>, Branch>,
}

/// A `[remote "name"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) urls: Vec<Vec<u8>>,
    pub(crate) push_urls: Vec<Vec<u8>>,
    /// It says itself what a push without a refspec does.
    pub(crate) has_refspecs: bool,
    pub(crate) mirror: bool,
}

/// A `[branch "name"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) remote: Option<Vec<u8>>,
    pub(crate) push_remote: Option<Vec<u8>>,
    pub(crate) merge: Option<Vec<u8>>,
}

impl Observed {
    /// Nothing but whether it may be a partial clone.
    pub fn promising(promisor: bool) -> Observed {
        Observed { promisor, ..Observed::default() }
    }

    /// The same, where the call itself says `push.default`.
    pub(super) fn pushing_by(&self, value: &[u8]) -> Observed {
        let mut said = self.clone();
        if let Some(config) = &mut said.config {
            config.push_default = Some(value.to_vec());
        }
        said
    }
}

/// Reads what `.git/HEAD` and the configuration files hold. Several files are
/// given one after another, the strongest last, each ending in a new line.
pub fn observe(head: &[u8], config: &[u8]) -> Observed {
    let config = read(config);
    // Where it is unusual, the branch may be elsewhere.
    let head = config.as_ref().and_then(|_| branch_of(head));
    Observed { head, config, ..Observed::default() }
}

/// Whether a configuration may be a partial clone's. Looked at as it is: one that
/// only speaks of it costs its calls a little, and grants no push.
pub fn promises(config: &[u8]) -> bool {
    [b"promisor".as_slice(), b"partialclone"]
        .iter()
        .any(|word| config.windows(word.len()).any(|seen| seen.eq_ignore_ascii_case(word)))
}

fn branch_of(head: &[u8]) -> Option<Vec<u8>> {
    let line = head.strip_suffix(b"\n").unwrap_or(head);
    let name = line.strip_prefix(b"ref: refs/heads/")?;
    let plain = |byte: &u8| !byte.is_ascii_whitespace() && !byte.is_ascii_control();
    // `.invalid`: the refs are kept in another form, and HEAD as well.
    (!name.is_empty() && name != b".invalid" && name.iter().all(plain)).then(|| name.to_vec())
}

/// Where in the file a member stands.
struct Section {
    name: Vec<u8>,
    sub: Option<Vec<u8>>,
}

fn read(text: &[u8]) -> Option<Config> {
    let mut config = Config::default();
    let mut section: Option<Section> = None;
    if text.contains(&0) || text.starts_with(b"\xef\xbb\xbf") {
        return None;
    }
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        // A line that goes on in the next one could hide what that begins.
        if line.ends_with(b"\\") {
            return None;
        }
        match line.first() {
            None | Some(b'#' | b';') => {}
            Some(b'[') => section = Some(header(line)?),
            Some(_) => member(&mut config, section.as_ref()?, line)?,
        }
    }
    Some(config)
}

/// `[name]` or `[name "sub"]`, alone on its line.
fn header(line: &[u8]) -> Option<Section> {
    let inner = line.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let end = inner.iter().position(|byte| !plain(byte)).unwrap_or(inner.len());
    let (name, rest) = inner.split_at_checked(end)?;
    let name = name.to_ascii_lowercase();
    if name.is_empty() || matches!(name.as_slice(), b"include" | b"includeif") {
        return None;
    }
    if rest.is_empty() {
        return Some(Section { name, sub: None });
    }
    let quoted = rest.trim_ascii_start().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut sub = Vec::new();
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => sub.push(*bytes.next()?),
            b'"' => return None,
            byte => sub.push(*byte),
        }
    }
    Some(Section { name, sub: Some(sub) })
}

fn member(config: &mut Config, section: &Section, line: &[u8]) -> Option<()> {
    let mut parts = line.splitn(2, |byte| *byte == b'=');
    let key = parts.next()?.trim_ascii().to_ascii_lowercase();
    let value = parts.next().map(<[u8]>::trim_ascii);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    if !key.iter().all(plain) {
        // A comment behind a member without a value, or something worse.
        return None;
    }
    let text = || value.filter(|value| is_plain(value)).map(<[u8]>::to_vec);
    let flag = || match value.map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"true" | b"yes" | b"on" | b"1") => Some(true),
        Some(b"false" | b"no" | b"off" | b"0") => Some(false),
        Some(_) => None,
    };
    match (section.name.as_slice(), &section.sub, key.as_slice()) {
        (b"push", None, b"default") => config.push_default = Some(text()?),
        (b"push", None, b"followtags") => config.follow_tags = flag()?,
        (b"remote", None, b"pushdefault") => config.remote_push_default = Some(text()?),
        (b"url", Some(_), b"insteadof" | b"pushinsteadof") => config.rewrites = true,
        (b"push", None, b"recursesubmodules") => {
            let plain = value.is_none_or(is_plain).then_some(value)?;
            config.recurses |= !matches!(plain, Some(b"no" | b"check" | b"false"));
        }
        (b"submodule", None, b"recurse") => config.recurses |= flag()?,
        (b"extensions", None, b"worktreeconfig") => return (!flag()?).then_some(()),
        (b"extensions", None, b"refstorage") => return (value? == b"files").then_some(()),
        (
            b"extensions",
            None,
            b"partialclone" | b"noop" | b"noop-v1" | b"objectformat" | b"preciousobjects"
            | b"relativeworktrees",
        ) => {}
        // Refs, or the configuration, may be anywhere.
        (b"extensions", _, _) => return None,
        (b"remote", Some(name), key) => {
            let remote = config.remotes.entry(name.clone()).or_default();
            match key {
                b"url" => remote.urls.push(text()?),
                b"pushurl" => remote.push_urls.push(text()?),
                b"push" => remote.has_refspecs = true,
                b"mirror" => remote.mirror = flag()?,
                _ => {}
            }
        }
        (b"branch", Some(name), key) => {
            let branch = config.branches.entry(name.clone()).or_default();
            match key {
                b"remote" => branch.remote = Some(text()?),
                b"pushremote" => branch.push_remote = Some(text()?),
                b"merge" => branch.merge = Some(text()?),
                _ => {}
            }
        }
        _ => {}
    }
    Some(())
}

/// A value that means what it says: not quoted, escaped, commented or empty.
fn is_plain(value: &[u8]) -> bool {
    !value.is_empty() && !value.iter().any(|byte| matches!(byte, b'"' | b'\\' | b'#' | b';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &[u8] = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\
        [remote \"origin\"]\n\turl = git@github.com:o/r.git\n\
        \tfetch = +refs/heads/*:refs/remotes/origin/*\n\
        [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\
        [alias]\n\tx = \"!echo # ; \\\" \"\n# comment\n; comment\n\n[Push]\n\tDefault=current\r\n";

    #[test]
    fn a_usual_repository_is_understood() {
        let Observed { head, config, .. } = observe(b"ref: refs/heads/feature/x\n", USUAL);
        assert_eq!(head.as_deref(), Some(b"feature/x".as_slice()));
        let config = config.unwrap();
        assert_eq!(config.remotes[b"origin".as_slice()].urls, [b"git@github.com:o/r.git"]);
        assert_eq!(
            config.branches[b"main".as_slice()].merge.as_deref(),
            Some(&b"refs/heads/main"[..])
        );
        assert_eq!(config.push_default.as_deref(), Some(&b"current"[..]));
        assert!(!config.rewrites && !config.follow_tags);
        let rewritten = observe(b"", b"[url \"https://evil/\"]\ninsteadOf = https://github.com/\n");
        assert!(rewritten.config.unwrap().rewrites);
        assert_eq!(observe(b"", b"").config, Some(Config::default()));
        let known = b"[extensions]\nobjectFormat = sha256\npartialClone = origin\nnoop = x\n\
            refStorage = files\nworktreeConfig = false\n";
        assert_eq!(observe(b"", known).config, Some(Config::default()));
        assert_eq!(observe(b"ref: refs/heads/a\n", b"[include]\npath = x\n"), Observed::default());
        for (text, wanted) in [
            (&b"[push]\nrecurseSubmodules = on-demand"[..], true),
            (b"[push]\nrecurseSubmodules", true),
            (b"[push]\nrecurseSubmodules = check", false),
            (b"[submodule]\nrecurse = true", true),
            (b"[submodule]\nrecurse = no", false),
        ] {
            assert_eq!(observe(b"", text).config.unwrap().recurses, wanted);
        }
    }

    #[test]
    fn what_is_not_plainly_understood_is_not_known() {
        for text in [
            &b"[include]\npath = x"[..],
            b"[includeIf \"gitdir:x\"]\npath = x",
            b"[INCLUDE]\npath=x",
            b"[remote \"origin\"] url = x",
            b"[remote.origin]\nurl = x",
            b"[remote \"origin\"]\nurl = \"x\"",
            b"[remote \"origin\"]\nurl = x # comment",
            b"[remote \"origin\"]\nurl = x \\\ny",
            b"[remote \"origin\"]\nurl =",
            b"[remote \"origin\"]\nurl",
            b"[core]\nx = y \\\n[remote \"origin\"]",
            b"[remote \"a\"b\"]\nurl = x",
            b"[remote \"a\\\"]\nurl = x",
            b"[remote \"origin\"\nurl = x",
            b"[push]\nfollowTags = maybe",
            b"[extensions]\nworktreeConfig = true",
            b"[extensions]\nrefStorage = reftable",
            b"[extensions]\nlater = 1",
            b"[push]\nrecurseSubmodules = \"no\"",
            b"[extensions \"x\"]\nnoop = 1",
            b"url = x",
            b"[push]\ndefault ; x",
            b"\xef\xbb\xbf[push]\ndefault = nothing",
            b"[push]\ndefault = a\0b",
        ] {
            assert_eq!(observe(b"", text).config, None, "{}", text.escape_ascii());
        }
        for head in [
            &b"0123456789abcdef0123456789abcdef01234567\n"[..],
            b"ref: refs/remotes/origin/main\n",
            b"ref: refs/heads/\n",
            b"ref: refs/heads/.invalid\n",
            b"ref: refs/heads/a b\n",
            b"ref: refs/heads/a\nb\n",
            b"",
        ] {
            assert_eq!(observe(head, b"").head, None, "{}", head.escape_ascii());
        }
    }
}
