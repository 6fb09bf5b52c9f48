//! Words that are addresses: URLs, `user@host:path`, `host/path`.
//!
//! Owns: which host, scheme and port a word means. Programs read addresses
//! differently; where two of them could take another host from the same word,
//! the host is not known. Must not: resolve names, or guess.

use url::{Host, Url};

/// What an address names. `None` is what cannot be known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) scheme: Option<String>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
}

/// Schemes that a program may complete where their slashes are missing.
const SCHEMES: [&str; 14] = [
    "http", "https", "ftp", "ftps", "sftp", "scp", "ssh", "git", "git+ssh", "file", "ws", "wss",
    "gopher", "telnet",
];

/// What a word names; `None` where it is a path or no address at all.
pub(super) fn parse(word: &[u8]) -> Option<Address> {
    if word.is_empty() || is_path(word) {
        return None;
    }
    let unknown = Some(Address::default());
    let Ok(text) = std::str::from_utf8(word) else { return unknown };
    // What one program strips or takes for a slash, another keeps; names beyond
    // ASCII are mapped differently.
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    if text.contains(odd) {
        return unknown;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        if !is_scheme(scheme) {
            return unknown;
        }
        return Some(with_scheme(&scheme.to_ascii_lowercase(), rest, text));
    }
    // git's remote helpers: `ext::sh -c …`.
    if let Some((helper, _)) = text.split_once("::")
        && is_scheme(helper)
        && !helper.contains('.')
    {
        return Some(Address { scheme: Some(helper.to_ascii_lowercase()), ..Address::default() });
    }
    Some(without_scheme(text))
}

fn is_path(word: &[u8]) -> bool {
    matches!(word, b"." | b".." | b"-")
        || [b"/".as_slice(), b"./", b"../"].iter().any(|beginning| word.starts_with(beginning))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn with_scheme(scheme: &str, rest: &str, text: &str) -> Address {
    let known = |host, port| Address { scheme: Some(scheme.to_owned()), host, port };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        // `file:///x` has no host. Elsewhere one program takes the next word
        // for it, and another fails.
        return known((scheme == "file").then(String::new), None);
    }
    // What reads the web's schemes ends a host at `?` and `#`; git, of its own
    // schemes, only at the slash.
    let web = matches!(scheme, "http" | "https" | "ws" | "wss" | "ftp" | "ftps");
    if !web && !beyond(rest, authority).is_empty() || is_ambiguous(authority) {
        return known(None, None);
    }
    match Url::parse(text) {
        Ok(url) => {
            let host = url.host_str().and_then(canonical);
            known(host, url.port_or_known_default().or_else(|| port(scheme)))
        }
        Err(_) => known(None, None),
    }
}

/// `user@host:path`, `host:port/path`, `host/path`, `[::1]:path`.
fn without_scheme(text: &str) -> Address {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    // In `a:b@c` one program sees the host a, another c.
    let (login, place) = authority.split_once('@').unwrap_or(("", authority));
    let further = beyond(text, authority).contains(['@', ':']);
    if further || is_ambiguous(authority) || login.contains(':') {
        return Address::default();
    }
    let closed = place.starts_with('[').then(|| place.find(']')).flatten().map_or(0, |at| at + 1);
    let colon = place.get(closed..).and_then(|rest| rest.find(':')).map(|at| at + closed);
    let (name, after) = match colon.and_then(|at| place.split_at_checked(at)) {
        Some((name, after)) => (name, after.strip_prefix(':')),
        None => (place, None),
    };
    if after.is_some() && SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(name)) {
        return Address::default();
    }
    let Some(host) = canonical(name) else { return Address::default() };
    let host = Some(host);
    // `host:22/x` is a port to one program and a path to another; `host:x` is a
    // path, by ssh.
    match after {
        None => Address { scheme: None, host, port: None },
        Some(rest) if rest.bytes().all(|byte| byte.is_ascii_digit()) => {
            Address { scheme: None, host, port: rest.parse().ok() }
        }
        Some(_) => Address { scheme: Some("ssh".to_owned()), host, port: Some(22) },
    }
}

/// What stands between an authority that ends at `?` or `#` and the slash: to
/// some programs it is part of the authority, to ssh and git for one.
fn beyond<'a>(text: &'a str, authority: &str) -> &'a str {
    let whole = text.split('/').next().unwrap_or_default();
    whole.get(authority.len()..).unwrap_or_default()
}

/// Globs of curl's, a second `@`, escapes, names beyond ASCII.
fn is_ambiguous(authority: &str) -> bool {
    let after = authority.rsplit('@').next().unwrap_or_default();
    let bracketed = after.strip_prefix('[').and_then(|inner| inner.split_once(']'));
    let rest = bracketed.map_or(after, |(_, rest)| rest);
    let inner = bracketed.map_or("", |(inner, _)| inner);
    !authority.is_ascii()
        || authority.matches('@').count() > 1
        || authority.contains(['{', '}'])
        || rest.contains(['[', ']', '%'])
        || !inner.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
        || after.ends_with("..")
}

/// As patterns see it: small letters, no final dot, addresses in their usual
/// form, IPv6 without brackets.
fn canonical(name: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{name}/")).ok()?;
    let name = match url.host()? {
        Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    let odd = name.is_empty() || name.starts_with('.') || name.ends_with('.');
    (!odd).then_some(name)
}

fn port(scheme: &str) -> Option<u16> {
    Some(match scheme {
        "ssh" | "git+ssh" | "sftp" | "scp" => 22,
        "git" => 9418,
        "ftps" => 990,
        _ => return None,
    })
}
