//! What is read of a repository, and what a push changes.
//!
//! Owns: git's own way to read a configuration, once more and whole. What is
//! taken for known must be what git reads; everything else may be unknown.

use tool_policy::facts::{Module, Observed, Text, Value, git};
use tool_policy::{Decision, Definition, Scene};

use crate::case::{Call, find};
use crate::grammar::shipped_grammar;

/// `HEAD`, a line with two dashes, and the configuration: where it is taken for
/// known, it is what git reads, written plainly.
pub fn config(data: &[u8]) {
    let (head, text) = match find(data, b"\n--\n") {
        Some(at) => (&data[..=at], &data[at + 4..]),
        None => (&b"ref: refs/heads/main\n"[..], data),
    };
    let observed = git::observe(head, text);
    assert_eq!(observed, git::observe(head, text));
    if let Some(branch) = &observed.head {
        assert_eq!([b"ref: refs/heads/", branch.as_slice()].concat(), head.trim_ascii_end());
    }
    let unknown = Observed::default();
    let unknown = {
        let mut same = unknown;
        same.head.clone_from(&observed.head);
        same
    };
    if observed == unknown {
        return;
    }
    // What git cannot read it does not run on.
    let Some(members) = read(text) else { return };
    let plain = written(&members);
    let again = git::observe(head, &plain);
    assert_eq!(again, observed, "git reads:\n{}", plain.escape_ascii());
    for including in [b"include.".as_slice(), b"includeif."] {
        let member = members.iter().find(|member| member.full().starts_with(including));
        assert!(member.is_none(), "another file is included: {member:?}");
    }
}

/// A member of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// In small letters, but for a part in quotes.
    pub section: Vec<u8>,
    /// The part in quotes.
    pub sub: Option<Vec<u8>>,
    /// In small letters.
    pub key: Vec<u8>,
    /// `None`: without a `=`.
    pub value: Option<Vec<u8>>,
}

impl Member {
    /// `section.sub.key`.
    pub fn full(&self) -> Vec<u8> {
        let sub = self.sub.as_ref().map_or(Vec::new(), |sub| [b".", sub.as_slice()].concat());
        [self.section.as_slice(), &sub, b".", &self.key].concat()
    }
}

/// Reads a configuration as git's config.c does; `None` where git stops.
pub fn read(text: &[u8]) -> Option<Vec<Member>> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { text, at: 0 };
    let mut members = Vec::new();
    let mut section: Option<(Vec<u8>, Option<Vec<u8>>)> = None;
    loop {
        match reader.next() {
            None => return Some(members),
            Some(byte) if is_space(byte) => {}
            Some(b'#' | b';') => while !matches!(reader.next(), None | Some(b'\n')) {},
            Some(b'[') => section = Some(reader.section()?),
            Some(byte) if byte.is_ascii_alphabetic() => {
                let (key, value) = reader.member(byte)?;
                let (section, sub) = section.clone()?;
                members.push(Member { section, sub, key, value });
            }
            Some(_) => return None,
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

impl Reader<'_> {
    /// The next character; a carriage return before a new line is none.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.text.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return Some(b'\n');
        }
        Some(byte)
    }

    fn section(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut name = Vec::new();
        loop {
            let byte = self.next()?;
            match byte {
                b']' => break,
                byte if is_space(byte) => return Some((name, Some(self.sub(byte)?))),
                byte if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        // `[a.b]`, the old way: small letters too.
        match name.iter().position(|byte| *byte == b'.') {
            Some(dot) => Some((name[..dot].to_vec(), Some(name[dot + 1..].to_vec()))),
            None => Some((name, None)),
        }
    }

    fn sub(&mut self, mut byte: u8) -> Option<Vec<u8>> {
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        let mut sub = Vec::new();
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next()? {
                    b'\n' => return None,
                    byte => sub.push(byte),
                },
                byte => sub.push(byte),
            }
        }
        (self.next()? == b']').then_some(sub)
    }

    fn member(&mut self, first: u8) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut key = vec![first.to_ascii_lowercase()];
        let mut byte = self.next();
        while let Some(one) = byte.filter(|byte| is_key(*byte)) {
            key.push(one.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        match byte {
            None | Some(b'\n') => Some((key, None)),
            Some(b'=') => Some((key, Some(self.value()?))),
            Some(_) => None,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut quoted, mut comment) = (false, false);
        let mut value = Vec::new();
        let mut kept = 0;
        loop {
            let Some(byte) = self.next().filter(|byte| *byte != b'\n') else {
                value.truncate(kept);
                return (!quoted).then_some(value);
            };
            if comment {
                continue;
            }
            if is_space(byte) && !quoted {
                if !value.is_empty() {
                    value.push(byte);
                }
                continue;
            }
            match byte {
                b'#' | b';' if !quoted => {
                    comment = true;
                    continue;
                }
                b'\\' => match self.next()? {
                    b'\n' => continue,
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                b'"' => {
                    quoted = !quoted;
                    kept = value.len();
                    continue;
                }
                byte => value.push(byte),
            }
            kept = value.len();
        }
    }
}

/// The members that say where a push goes, each in a section of its own.
fn written(members: &[Member]) -> Vec<u8> {
    let mut text = Vec::new();
    for member in members {
        let known = [b"push".as_slice(), b"remote", b"url", b"branch", b"extensions"];
        if !known.contains(&member.section.as_slice()) {
            continue;
        }
        text.extend([b"[", member.section.as_slice()].concat());
        if let Some(sub) = &member.sub {
            text.extend_from_slice(b" \"");
            for byte in sub {
                if matches!(byte, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.push(b'"');
        }
        text.extend([b"]\n", member.key.as_slice()].concat());
        // What others say is no matter, and may be anything.
        let counts: &[&[u8]] = match (member.section.as_slice(), &member.sub) {
            (b"push", None) => &[b"default", b"followtags"],
            (b"remote", None) => &[b"pushdefault"],
            (b"remote", Some(_)) => &[b"url", b"pushurl", b"mirror"],
            (b"branch", Some(_)) => &[b"remote", b"pushremote", b"merge"],
            (b"extensions", None) => &[b"worktreeconfig"],
            _ => &[],
        };
        if let Some(value) = &member.value {
            let counts = counts.contains(&member.key.as_slice());
            let value = if counts { value.as_slice() } else { b"x" };
            text.extend([b" = ", value].concat());
        }
        text.push(b'\n');
    }
    text
}

/// Lines: a ref, then arguments between `push REMOTE` and `+SOURCE:REF`. Whatever
/// stands there, a rule about the ref, or about force, catches it, or the line is
/// not read; and git's configuration can only make it stricter.
pub fn push(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (name, source, between) = (next(), next(), next());
    let plain = |name: &[u8]| {
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(byte))
            && !name.starts_with(b"-")
            && !name.starts_with(b"refs/")
            && name != b"HEAD"
    };
    let Ok(text) = std::str::from_utf8(name) else { return };
    if !plain(name) || source.starts_with(b"^") || source.contains(&b':') {
        return;
    }
    for (spec, force) in [
        ([b"+", source, b":refs/heads/", name].concat(), true),
        ([b"+", source, b":", name].concat(), true),
        ([source, b":refs/heads/", name].concat(), false),
        ([b":", name].concat(), false),
    ] {
        let before = if between.is_empty() { b"".to_vec() } else { [between, b"\n"].concat() };
        let call = Call::new(&[b"push\norigin\n", before.as_slice(), &spec].concat());
        let args = call.args();
        let (_, grammar, _) = shipped_grammar("git");
        let line = grammar.read(&args);
        if line.unread.is_some() || line.operands.last() != Some(&spec.as_slice()) {
            continue;
        }
        let observed = Observed::default();
        let scene = Scene { directory: b"/workspace", roots: &[], observed: &observed };
        let facts = Module::Git.facts(&line, &scene);
        // `tag NAME` takes the word behind it for a name.
        let tagged = line.operands.contains(&b"tag".as_slice());
        let has = |value: &Value, wanted: &[u8]| match value {
            Value::Unknown => true,
            Value::Texts(all) => {
                all.iter().any(|text: &Text<'_>| text.names().any(|n| n == wanted))
            }
            Value::Flag(_) => false,
        };
        let deletes = line.options.iter().any(|given| given.option.name() == "--delete");
        if !tagged && !deletes {
            assert!(has(facts.get("ref"), name), "{text}: {:?}", facts.get("ref"));
            let full = [b"refs/heads/", name].concat();
            assert!(has(facts.get("ref"), &full), "{text}: {:?}", facts.get("ref"));
            if force {
                assert_ne!(*facts.get("force"), Value::Flag(false));
            }
            if spec.starts_with(b":") {
                assert_ne!(*facts.get("delete"), Value::Flag(false));
            }
        }
        let rule = format!(
            "default = \"allow\"\n[[rule]]\nid = \"x\"\ndecision = \"deny\"\nreason = \"x\"\n\
             subcommand = \"push\"\nfacts = {{ ref = {text:?} }}\n"
        );
        // The grammar is parsed for each: only now and then.
        if data.len() % 64 == 7 && !tagged && !deletes {
            let (tool, _, beside) = shipped_grammar("git");
            let policy = Definition::from_toml(tool, &rule, Some(beside)).expect("a rule").policy;
            assert_eq!(policy.judge(&args, &scene).decision, Decision::Deny);
        }
    }
}
