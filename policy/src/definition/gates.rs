//! Reading the `[[gate]]` tables.
//!
//! Owns: their members and their checks. Must not: let a gate be wider than it
//! reads, or two say something about the same.

use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeTable;
use url::{Host, Url};

use super::credential::{self, absolute, is_token};
use super::gate::{Adapter, Credential, Gate, NO_HEADERS, Scheme};
use super::read::{
    Entry, Source, Wrong, array, chosen, decision, flag, integer, list, string, tables, unknown,
};
use crate::Decision;
use crate::pattern::Pattern;

/// The most gates: each is looked at for every request.
const MOST: usize = 64;

/// The longest `credential_ttl`, a day.
const MAX_TTL: u64 = 24 * 60 * 60;

/// Reads all of them.
pub(super) fn read(entry: Entry<'_, '_>, source: Source<'_>) -> Result<Vec<Gate>, Wrong> {
    let mut gates: Vec<Gate> = Vec::new();
    for (span, table) in tables(entry)? {
        let line = source.line(&span);
        let gate = one(&span, table, line)?;
        if let Some(known) = gates.iter().find(|known| is_same(known, &gate)) {
            let message =
                format!("this gate and the one of line {} are about the same", known.line);
            return Err((span, message));
        }
        if gates.len() == MOST {
            return Err((span, format!("there are more than {MOST} gates")));
        }
        gates.push(gate);
    }
    Ok(gates)
}

/// The same adapter would have to choose between them.
fn is_same(one: &Gate, other: &Gate) -> bool {
    one.adapter == other.adapter
        && one.ports == other.ports
        && one.repositories == other.repositories
        && one.methods == other.methods
        && one.paths == other.paths
        && one.hosts.iter().any(|host| other.hosts.contains(host))
}

fn one(span: &Range<usize>, members: &DeTable<'_>, line: usize) -> Result<Gate, Wrong> {
    let known = Adapter::ALL.map(|adapter| (adapter.as_str(), adapter));
    let said = members.iter().find(|(key, _)| key.get_ref() == "adapter");
    let Some(entry) = said else {
        let message = "a gate needs an adapter: git, github, npm or http";
        return Err((span.clone(), message.to_owned()));
    };
    let adapter = chosen(entry, &known)?;
    let mut gate = empty(adapter, line);
    let (mut ttl, mut scheme) = (None, None);
    for member in members {
        let (key, value) = member;
        let name = key.get_ref().as_ref();
        let wrong = |message: String| (value.span(), message);
        if let Some(others) = only_of(name, adapter) {
            let message = format!("{name} is for {others} gates, this one is {}", adapter.as_str());
            return Err((key.span(), message));
        }
        match name {
            "adapter" => {}
            "hosts" => gate.hosts = each(member, |text| host(text, adapter))?,
            "ports" => gate.ports = ports(member)?,
            "repositories" => gate.repositories = each(member, repository)?,
            "methods" => gate.methods = each(member, method)?,
            "paths" => gate.paths = each(member, path)?,
            "headers" => gate.headers = each(member, header)?,
            "credential" => {
                let read = credential::read(string(member)?);
                gate.credential =
                    Some(read.map_err(|message| wrong(format!("credential {message}")))?);
            }
            "credential_ttl" => ttl = Some((key.span(), self::ttl(member)?)),
            "scheme" => {
                gate.scheme = credential::scheme(string(member)?).map_err(wrong)?;
                scheme = Some(key.span());
            }
            "upstream" => gate.upstream = Some(upstream(string(member)?).map_err(wrong)?),
            "ca" => gate.ca = Some(file(member)?),
            "private" => gate.private = each(member, network)?,
            "default" => gate.default = decision(member)?,
            "lfs" => gate.lfs = flag(member)?,
            _ => return Err(unknown(key, "[[gate]] ")),
        }
    }
    if gate.hosts.is_empty() {
        return Err((span.clone(), "a gate needs hosts, as hosts = [\"example.com\"]".to_owned()));
    }
    if let Some(span) = scheme.filter(|_| gate.credential.is_none()) {
        return Err((span, "scheme has no effect without a credential".to_owned()));
    }
    if gate.credential.is_some() && gate.hosts.iter().any(|host| host.as_str() == "*") {
        let message = "a gate for every host cannot have a credential: everybody would get it";
        return Err((span.clone(), message.to_owned()));
    }
    match (&mut gate.credential, ttl) {
        (Some(Credential::Command { ttl, .. }), Some((_, said))) => *ttl = said,
        (_, Some((span, _))) => {
            let message = "credential_ttl is for credentials of the form command:";
            return Err((span, message.to_owned()));
        }
        (_, None) => {}
    }
    Ok(gate)
}

fn empty(adapter: Adapter, line: usize) -> Gate {
    let (scheme, default) = match adapter {
        Adapter::Git => (Scheme::Basic("x-access-token".to_owned()), Decision::Allow),
        Adapter::Github => (Scheme::Token, Decision::Ask),
        Adapter::Npm => (Scheme::Bearer, Decision::Deny),
        Adapter::Http => (Scheme::Bearer, Decision::Ask),
    };
    Gate {
        line,
        adapter,
        hosts: Vec::new(),
        ports: Vec::new(),
        repositories: Vec::new(),
        methods: Vec::new(),
        paths: Vec::new(),
        headers: Vec::new(),
        credential: None,
        scheme,
        upstream: None,
        ca: None,
        private: Vec::new(),
        default,
        lfs: false,
    }
}

/// Whose member it is, where it is not this adapter's.
fn only_of(name: &str, adapter: Adapter) -> Option<&'static str> {
    match (name, adapter) {
        ("repositories" | "lfs", Adapter::Git) => None,
        ("repositories" | "lfs", _) => Some("git"),
        ("methods" | "paths", Adapter::Http | Adapter::Npm) => None,
        ("methods" | "paths", _) => Some("http and npm"),
        ("headers", Adapter::Http) => None,
        ("headers", _) => Some("http"),
        _ => None,
    }
}

/// Each of a list, which is not empty where it is there: empty means all, and
/// whoever writes `[]` may mean none.
fn each<T>(
    entry: Entry<'_, '_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Wrong> {
    let name = entry.0.get_ref();
    let one = |(span, text): (Range<usize>, &str)| {
        parse(text).map_err(|why| (span, format!("each of {name} must be {why}, not {text:?}")))
    };
    let all: Vec<T> = list(entry)?.into_iter().map(one).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err((entry.1.span(), format!("{name} is empty: leave it out, or say what"))),
        false => Ok(all),
    }
}

/// A name, `*.NAME` for any below it, or `*`.
fn host(text: &str, adapter: Adapter) -> Result<Pattern, String> {
    let expected = || "a host's name, *.NAME or *, without scheme, port and path".to_owned();
    let (wild, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (text == "*", text),
    };
    if wild && adapter == Adapter::Git {
        // Git is led to the gate by the names of hosts.
        return Err("the name of one host".to_owned());
    }
    if text == "*" {
        return Pattern::parse(text).map_err(str::to_owned);
    }
    let odd = |c: char| !(c.is_ascii_alphanumeric() || "-._:[]".contains(c));
    if name.is_empty() || name.contains(odd) || (wild && name.parse::<IpAddr>().is_ok()) {
        return Err(expected());
    }
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let canonical = match bare.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) if name.contains([':', '[', ']']) => return Err(expected()),
        Err(_) => match Host::parse(name) {
            Ok(Host::Domain(name)) if !name.starts_with('.') && !name.contains("..") => {
                name.strip_suffix('.').unwrap_or(&name).to_owned()
            }
            // `0x7f.1` is an address to some.
            _ => return Err(expected()),
        },
    };
    let text = if wild { format!("*.{canonical}") } else { canonical };
    Pattern::parse(&text).map_err(str::to_owned)
}

fn ports(entry: Entry<'_, '_>) -> Result<Vec<u16>, Wrong> {
    let mut ports = Vec::new();
    for value in array(entry)? {
        let port =
            integer(value).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        match port {
            Some(port) if !ports.contains(&port) => ports.push(port),
            Some(port) => return Err((value.span(), format!("{port} is in ports twice"))),
            None => {
                let message = "each of ports must be a number from 1 to 65535";
                return Err((value.span(), message.to_owned()));
            }
        }
    }
    Ok(ports)
}

fn repository(text: &str) -> Result<Pattern, String> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == ':';
    match text.contains(odd) || text.starts_with('/') || text.ends_with('/') {
        true => Err("OWNER/NAME, or a pattern of it".to_owned()),
        false if text.ends_with(".git") => Err("written without .git".to_owned()),
        false => Pattern::parse(text).map_err(str::to_owned),
    }
}

fn method(text: &str) -> Result<String, String> {
    let plain = is_token(text) && !text.bytes().any(|byte| byte.is_ascii_lowercase());
    if plain { Ok(text.to_owned()) } else { Err("a method in capital letters".to_owned()) }
}

fn path(text: &str) -> Result<Pattern, String> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "?#".contains(c);
    match text.starts_with(['/', '*']) && !text.contains(odd) {
        true => Pattern::parse(text).map_err(str::to_owned),
        false => Err("a pattern that begins with /".to_owned()),
    }
}

/// A name, or the beginning of one and `*`: never all of them.
fn header(text: &str) -> Result<Pattern, String> {
    let expected = || "a header's name in small letters, or its beginning and *".to_owned();
    let name = text.strip_suffix('*').unwrap_or(text);
    let plain =
        is_token(name) && !name.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'*');
    if NO_HEADERS.contains(&text) {
        return Err("a header that may pass".to_owned());
    }
    match plain && name.len() > 2 {
        true => Pattern::parse(text).map_err(str::to_owned),
        false => Err(expected()),
    }
}

fn ttl(entry: Entry<'_, '_>) -> Result<Duration, Wrong> {
    let seconds = integer(entry.1).and_then(|seconds| u64::try_from(seconds).ok());
    match seconds.filter(|seconds| (1..=MAX_TTL).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => {
            let message = format!("credential_ttl must be a number of seconds, 1 to {MAX_TTL}");
            Err((entry.1.span(), message))
        }
    }
}

/// Not shown where it is wrong: it may hold a password.
fn upstream(text: &str) -> Result<String, String> {
    let expected = || "upstream must be a URL, as \"https://example.com/base\"".to_owned();
    let url = Url::parse(text).map_err(|_wrong| expected())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(expected());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("upstream holds a user or a password: use credential".to_owned());
    }
    match url.query().is_some() || url.fragment().is_some() {
        true => Err("upstream must end with its path: no ? and no #".to_owned()),
        false => Ok(text.trim_end_matches('/').to_owned()),
    }
}

fn file(entry: Entry<'_, '_>) -> Result<PathBuf, Wrong> {
    let wrong = || {
        let name = entry.0.get_ref();
        (entry.1.span(), format!("{name} must be the absolute path of a file, without .."))
    };
    absolute(string(entry)?).ok_or_else(wrong)
}

/// `ADDRESS/BITS`, with nothing beyond the bits.
fn network(text: &str) -> Result<String, String> {
    let expected = || "a network, as 10.0.0.0/8 or fd00::/8".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(expected)?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u32 = bits.parse().ok().filter(|_| plain).ok_or_else(expected)?;
    let (number, width) = match address.parse::<IpAddr>().map_err(|_wrong| expected())? {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    if bits > width {
        return Err(expected());
    }
    match number.checked_shl(bits).unwrap_or(0) {
        0 => Ok(text.to_owned()),
        _ => Err("a network whose address has nothing behind its bits".to_owned()),
    }
}

#[cfg(test)]
mod tests;
