//! Patterns, addresses and paths, beside naive second implementations.
//!
//! Addresses and paths are asked as rules ask them, through a definition: `deny`
//! catches what may be, `allow` takes what is certain.

use tool_policy::facts::Observed;
use tool_policy::pattern::Pattern;
use tool_policy::{Decision, Definition, Policy, Scene};

/// The first line is a pattern, the rest a text.
pub fn pattern(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let value = data.get(end + 1..).unwrap_or_default();
    let parts = parts(text);
    let Ok(pattern) = Pattern::parse(text) else {
        assert!(text.is_empty() || parts.is_none());
        return;
    };
    let parts = parts.expect("a pattern");
    assert_eq!(pattern.as_str(), text);
    let folded = |left: u8, right: u8| left.eq_ignore_ascii_case(&right);
    assert_eq!(pattern.matches(value), fits(&parts, value, |left, right| left == right));
    assert_eq!(pattern.matches_folded(value), fits(&parts, value, folded));
    assert!(!pattern.matches(value) || value.starts_with(&pattern.beginning()));
    // A text that is quoted means itself.
    if let Ok(text) = std::str::from_utf8(value)
        && !text.is_empty()
    {
        let quoted: String = text.chars().flat_map(|c| ['\\', c]).collect();
        let quoted = if text.is_ascii() { quoted } else { text.replace(['\\', '*', '?'], "") };
        if let Ok(own) = Pattern::parse(&quoted) {
            assert_eq!(own.matches(value), text.is_ascii() || !text.contains(['\\', '*', '?']));
        }
    }
}

/// A byte, `?`, or `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    One,
    Any,
}

fn parts(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        parts.push(match byte {
            b'*' => Part::Any,
            b'?' => Part::One,
            b'\\' => Part::Byte(bytes.next()?),
            byte => Part::Byte(byte),
        });
    }
    Some(parts)
}

/// A table of which beginnings of the text each beginning of the pattern takes.
fn fits(parts: &[Part], text: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
    let mut takes = vec![false; text.len() + 1];
    takes[0] = true;
    for part in parts {
        let mut next = vec![false; text.len() + 1];
        for at in 0..=text.len() {
            next[at] = match part {
                Part::Any => takes[at] || at > 0 && next[at - 1],
                Part::One => at > 0 && takes[at - 1],
                Part::Byte(byte) => at > 0 && takes[at - 1] && same(*byte, text[at - 1]),
            };
        }
        takes = next;
    }
    takes[text.len()]
}

/// Judges one operand by a definition of one rule: whether the rule may be met
/// (`deny`), and whether it is met for certain (`allow`).
fn asked(
    matcher: &str,
    operand: &[u8],
    directory: &[u8],
    roots: &[Vec<u8>],
) -> Option<(bool, bool)> {
    let policy = |decision: Decision, default: Decision| -> Option<Policy> {
        let text = format!(
            "default = \"{default}\"\n[[rule]]\nid = \"x\"\nreason = \"x\"\n\
             decision = \"{decision}\"\noperands = {matcher}\n"
        );
        Some(Definition::from_toml("tool", &text, None).ok()?.policy)
    };
    let observed = Observed::default();
    let scene = Scene { directory, roots, observed: &observed };
    let judge = |policy: &Policy| policy.judge(&[operand], &scene).decision;
    let may_be = judge(&policy(Decision::Deny, Decision::Allow)?) == Decision::Deny;
    let certain = judge(&policy(Decision::Allow, Decision::Deny)?) == Decision::Allow;
    assert!(may_be || !certain, "certain, and yet it may not be");
    Some((may_be, certain))
}

/// One word. Whatever host one of several programs would take from it, a rule
/// about that host catches it, and a rule that allows another one does not let
/// it pass.
pub fn address(data: &[u8]) {
    let Ok(word) = std::str::from_utf8(data) else {
        asked("{ host = \"*\" }", data, b"/", &[]);
        return;
    };
    for host in hosts(word) {
        let (may_be, _) =
            asked(&format!("{{ host = {host:?} }}"), data, b"/", &[]).expect("a rule");
        assert!(may_be, "{word:?} may lead to {host}, and a rule about that host lets it pass");
        let other = if host == "allowed.example" { "other.example" } else { "allowed.example" };
        let only = format!("{{ host = {other:?} }}");
        let (_, certain) = asked(&only, data, b"/", &[]).expect("a rule");
        assert!(!certain, "{word:?} may lead to {host}, and a rule allows it as {other}");
        let (_, certain) =
            asked(&format!("{{ not = {{ host = {host:?} }} }}"), data, b"/", &[]).expect("a rule");
        assert!(!certain, "{word:?} may lead to {host}, and a rule is certain that it does not");
    }
}

/// The hosts that programs may take from a word.
fn hosts(word: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    if let Ok(url) = url::Url::parse(word) {
        hosts.extend(url.host_str().map(|host| host.trim_matches(['[', ']']).to_owned()));
    }
    if let Some((scheme, rest)) = word.split_once("://")
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        // RFC 3986, and curl: up to the first of /?#, behind the last @.
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        hosts.push(behind_login(authority, true).to_owned());
        // git, of schemes that are its own: up to the first /.
        if !["http", "https", "ws", "wss", "ftp", "ftps"].contains(&&*scheme.to_ascii_lowercase()) {
            let authority = rest.split('/').next().unwrap_or_default();
            hosts.push(behind_login(authority, true).to_owned());
            hosts.push(behind_login(authority, false).to_owned());
        }
    } else if let Some((place, path)) = word.split_once(':')
        && !place.contains('/')
        && !path.starts_with(':')
        && !word.contains("://")
        && !word.starts_with('-')
    {
        // ssh and git: host:path, user@host:path.
        hosts.push(place.rsplit('@').next().unwrap_or_default().to_owned());
    }
    if !word.contains("://") && !word.starts_with(['/', '.', '-']) {
        // curl: host/path, host:port/path.
        let authority = word.split(['/', '?', '#']).next().unwrap_or_default();
        hosts.push(behind_login(authority, true).to_owned());
    }
    for host in &mut hosts {
        *host = host.to_ascii_lowercase().trim_end_matches('.').to_owned();
    }
    hosts.retain(|host| is_name(host));
    hosts.sort();
    hosts.dedup();
    hosts
}

fn behind_login(authority: &str, last: bool) -> &str {
    let at = if last { authority.rfind('@') } else { authority.find('@') };
    let place = at.map_or(authority, |at| &authority[at + 1..]);
    place.split(':').next().unwrap_or_default()
}

/// A plain name with a letter in its last part: numbers are written in many ways.
fn is_name(host: &str) -> bool {
    let plain = |part: &str| {
        let inner = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        inner && !part.is_empty() && !part.starts_with('-') && !part.starts_with("xn--")
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() < 200
        && host.split('.').all(|part| plain(part) && part.len() < 60)
        && last.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Lines: a root, the call's directory, a path. What is allowed as beneath the
/// root lies there by its words, and no link can lead it elsewhere; what lies
/// there by its words is caught.
pub fn path(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (root, directory, path) = (next(), next(), next());
    // The server's own, resolved.
    let resolved = |path: &[u8]| {
        path.starts_with(b"/")
            && path[1..].split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
    };
    let Ok(root) = std::str::from_utf8(root) else { return };
    let directory = if resolved(directory) { directory } else { b"/workspace/x" };
    if !resolved(root.as_bytes()) || path.contains(&0) {
        return;
    }
    let by = |matcher: &str| asked(matcher, path, directory, &[root.as_bytes().to_vec()]);
    let Some(named) = by(&format!("{{ beneath = {root:?} }}")) else { return };
    let of_roots = by("{ beneath = \"@roots\" }").expect("a rule");
    assert_eq!(named, of_roots);
    let here = by("{ beneath = \".\" }").expect("a rule");
    let certain_not = by(&format!("{{ not = {{ beneath = {root:?} }} }}"));

    for (root, (may_be, certain)) in [(root.as_bytes(), named), (directory, here)] {
        let place = by_words(path, directory);
        let within = place.as_ref().is_some_and(|place| beneath(place, root));
        assert!(may_be || !within, "beneath by its words, and not caught");
        assert!(!certain || within, "allowed, and not beneath by its words");
        assert!(!certain || !leaves(path), "allowed, and a link may lead it elsewhere");
    }
    if let Some((_, certain_not)) = certain_not {
        let place = by_words(path, directory);
        let within = place.is_some_and(|place| beneath(&place, root.as_bytes()));
        assert!(!certain_not || !within && !leaves(path), "certain that it is not there");
    }
}

/// Whether `..` stands behind a name of the caller's.
fn leaves(path: &[u8]) -> bool {
    let mut names = false;
    path.split(|byte| *byte == b'/').any(|part| {
        let leaves = names && part == b"..";
        names |= !matches!(part, b"" | b"." | b"..");
        leaves
    })
}

fn by_words(path: &[u8], directory: &[u8]) -> Option<Vec<Vec<u8>>> {
    if path.is_empty() {
        return None;
    }
    let whole =
        if path.starts_with(b"/") { path.to_vec() } else { [directory, b"/", path].concat() };
    let mut place: Vec<Vec<u8>> = Vec::new();
    for part in whole.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(place.pop()),
            part => place.push(part.to_vec()),
        }
    }
    Some(place)
}

fn beneath(place: &[Vec<u8>], root: &[u8]) -> bool {
    let root: Vec<&[u8]> = root.split(|b| *b == b'/').filter(|part| !part.is_empty()).collect();
    place.len() >= root.len() && root.iter().zip(place).all(|(one, other)| one == other)
}
