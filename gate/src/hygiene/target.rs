//! Where a request goes: host, port and path, or a refusal.
//!
//! A server that decodes twice, or joins `..` later than we look, would do something
//! else than what was decided on. So a path is either normal or refused.

use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Version};

use super::path;
use crate::refusal::Refusal;
use crate::serve::Came;

/// A request line may be this long.
const LONGEST: usize = 16 * 1024;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// In small letters, without a dot at its end.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Of CONNECT it is empty.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
}

/// Reads it.
///
/// `base`: the host that is meant where this machine is named.
pub(crate) fn read<B>(
    request: &Request<B>,
    came: Came,
    base: Option<&str>,
) -> Result<Target, Refusal> {
    if request.version() != Version::HTTP_11 && request.version() != Version::HTTP_10 {
        return Err(Refusal::Malformed("only HTTP/1.0 and HTTP/1.1 are spoken here"));
    }
    // The answer to TRACE is the request, with the credential.
    if matches!(
        request.method().as_str().to_ascii_uppercase().as_str(),
        "TRACE" | "TRACK" | "DEBUG"
    ) {
        return Err(Refusal::Malformed("a method that sends the request back is not for here"));
    }
    // Rules are about methods as they are meant, and servers are known that make
    // capitals of `delete`.
    if !request.method().as_str().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err(Refusal::Malformed("its method is not in capital letters"));
    }
    framed_once(request.headers())?;
    let uri = request.uri();
    let named = host_header(request.headers())?;
    if request.method() == Method::CONNECT {
        let authority = uri.authority().ok_or(Refusal::Malformed("CONNECT needs host:port"))?;
        let (host, port) = authority_of(authority.as_str())?;
        let port = port.ok_or(Refusal::Malformed("CONNECT needs a port"))?;
        if uri.scheme().is_some()
            || uri.path_and_query().is_some_and(|rest| rest != "/" && rest != "")
        {
            return Err(Refusal::Malformed("CONNECT needs host:port and nothing else"));
        }
        agree(named, &host, Some(port), port)?;
        return Ok(Target { host, port, path: String::new(), query: None });
    }
    let (host, port) = match (came, uri.authority()) {
        (_, Some(authority)) => {
            if uri.scheme() != Some(&Scheme::HTTP) {
                return Err(Refusal::Malformed(
                    "only http:// is taken in plain sight: for https use CONNECT",
                ));
            }
            let (host, port) = authority_of(authority.as_str())?;
            let port = port.unwrap_or(80);
            agree(named, &host, Some(port), 80)?;
            (host, port)
        }
        (Came::Github, None) => {
            let (host, port) = named.ok_or(Refusal::Malformed("it names no host"))?;
            (host, port.unwrap_or(443))
        }
        (Came::Own, None) => {
            let (host, port) = named.ok_or(Refusal::Malformed("it names no host"))?;
            match base.filter(|_| is_this_machine(&host)) {
                Some(base) => (base.to_owned(), 443),
                None => (host, port.unwrap_or(80)),
            }
        }
        (Came::Proxy, None) => {
            return Err(Refusal::Malformed("this is a proxy: the request has to name its host"));
        }
    };
    let path = path::normal(uri.path())?;
    let query = match uri.query() {
        Some(query) => Some(query_of(query)?),
        None => None,
    };
    if path.len().saturating_add(query.as_ref().map_or(0, String::len)) > LONGEST {
        return Err(Refusal::TooLong { limit: LONGEST });
    }
    Ok(Target { host, port, path, query })
}

// A page of a browser that a name of its own leads here names that.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

// What reads a body by its length and what reads it by its pieces would see two
// different requests.
fn framed_once(headers: &HeaderMap) -> Result<(), Refusal> {
    let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
    let encodings = headers.get_all(TRANSFER_ENCODING);
    let pieces = encodings.iter().count();
    let plain = encodings.iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"));
    match lengths.saturating_add(pieces) > 1 || !plain {
        true => Err(Refusal::Malformed("it says in two ways how long its body is")),
        false => Ok(()),
    }
}

fn host_header(headers: &HeaderMap) -> Result<Option<(String, Option<u16>)>, Refusal> {
    let mut values = headers.get_all(HOST).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::Malformed("it has two Host headers"));
    }
    let Some(value) = first else { return Ok(None) };
    let text =
        value.to_str().map_err(|_unseen| Refusal::Malformed("its Host header is not text"))?;
    authority_of(text).map(Some)
}

fn agree(
    named: Option<(String, Option<u16>)>,
    host: &str,
    port: Option<u16>,
    usual: u16,
) -> Result<(), Refusal> {
    match named {
        Some((other, other_port)) if other != host || other_port.or(Some(usual)) != port => {
            Err(Refusal::Malformed("its Host header and its target are not the same host"))
        }
        _ => Ok(()),
    }
}

/// Host and port, where they are plain: letters, digits, `-`, `.`, or an address.
pub(crate) fn authority_of(text: &str) -> Result<(String, Option<u16>), Refusal> {
    let bad = Refusal::Malformed("its host is not a name or an address");
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            match digits.parse::<u16>() {
                Ok(port) if port != 0 => Some(port),
                _ => return Err(Refusal::Malformed("its port is not a port")),
            }
        }
        Some(_) => return Err(bad),
        None => None,
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').map(str::to_owned).unwrap_or(host);
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let plain = match inner {
        Some(address) => match address.parse::<std::net::Ipv6Addr>() {
            Ok(address) => return Ok((format!("[{address}]"), port)),
            Err(_unreadable) => false,
        },
        None => {
            let bytes =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty()
                && host.len() <= 253
                && host.bytes().all(bytes)
                && !host.split('.').any(str::is_empty)
                && numbers_are_an_address(&host)
        }
    };
    match plain {
        true => Ok((host, port)),
        false => Err(bad),
    }
}

// 0x7f.1, 2130706433 and 127.1 are addresses to some and names to others.
fn numbers_are_an_address(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    let number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    !number || host.parse::<std::net::Ipv4Addr>().is_ok()
}

// Servers are known that take `_method` for the method, and others that make that name of
// `.method`, `[method` and `[_method]`, leave blanks before it away, end it at NUL, or put
// its value into a list by `[]`.
fn is_method(name: &str) -> bool {
    let begins = |c: char| matches!(c, '_' | '.' | '[' | ']');
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let name = name.to_ascii_lowercase();
    let bare = name.trim_start_matches(|c| begins(c) || blank(c));
    let marked = name.strip_suffix(bare).is_some_and(|before| before.contains(begins));
    // `_methods` and `_method_of_payment` are other names everywhere.
    let whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    marked && bare.strip_prefix("method").is_some_and(whole)
}

fn query_of(query: &str) -> Result<String, Refusal> {
    // Some part parameters at `;` as well.
    let mut pieces = query.split([';', '&']);
    let names_method = |piece: &str| {
        let mut names = url::form_urlencoded::parse(piece.as_bytes());
        names.any(|(name, _)| is_method(&name))
    };
    if pieces.any(names_method) {
        return Err(Refusal::Malformed("_method in its query does not pass"));
    }
    match query.bytes().all(|byte| byte > b' ' && byte < 0x7f && byte != b'#' && byte != b'\\') {
        true => Ok(query.to_owned()),
        false => Err(Refusal::Malformed("its query has bytes that have to be encoded")),
    }
}
