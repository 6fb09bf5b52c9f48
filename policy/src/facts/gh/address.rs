//! Addresses and repositories, as gh reads them.
//!
//! Owns: which host, and which repository of it, a word leads to. Must not: take
//! for a host what another program may read as another one.

/// Where a word leads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// In small letters; none where the word has none.
    pub(super) scheme: Option<Vec<u8>>,
    pub(super) host: Host,
    /// What follows the host, or all of the word.
    pub(super) path: &'a [u8],
}

/// The host of an address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Host {
    /// It is gh's own default.
    #[default]
    None,
    Name(Vec<u8>),
    /// Programs may read several in it.
    Unknown,
}

impl Host {
    /// A name of letters, digits, dots and dashes, with a port or without one;
    /// gh takes everything else into the address that it makes of it.
    pub(super) fn of(name: &[u8]) -> Host {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        let mut parts = name.splitn(2, |byte| *byte == b':');
        let host = parts.next().unwrap_or_default();
        let port = parts.next().is_none_or(|port| {
            !port.is_empty() && port.len() <= 5 && port.iter().all(u8::is_ascii_digit)
        });
        let known = port && !host.is_empty() && host.iter().all(plain);
        if known { Host::Name(name.to_vec()) } else { Host::Unknown }
    }
}

/// `SCHEME://HOST/PATH`, `USER@HOST:PATH`, or a path alone.
pub(super) fn split(word: &[u8]) -> Address<'_> {
    let Some(at) = word.windows(3).position(|three| three == b"://") else { return scp(word) };
    let (scheme, rest) = word.split_at_checked(at).unwrap_or_default();
    let rest = rest.get(3..).unwrap_or_default();
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'\\');
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, b""));
    let mut parts = authority.rsplitn(2, |byte| *byte == b'@');
    let host = parts.next().unwrap_or_default();
    let user = parts.next().unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~-:%+".contains(byte);
    let clear = !scheme.is_empty()
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'+')
        && user.iter().all(plain)
        && !path.starts_with(b"\\");
    let host = if clear { Host::of(host) } else { Host::Unknown };
    Address { scheme: Some(scheme.to_ascii_lowercase()), host, path }
}

fn scp(word: &[u8]) -> Address<'_> {
    let alone = Address { path: word, ..Address::default() };
    let end = word.iter().position(|byte| *byte == b':').unwrap_or(word.len());
    let (before, path) = word.split_at_checked(end).unwrap_or((word, b""));
    let Some(at) = before.iter().position(|byte| *byte == b'@') else { return alone };
    if path.is_empty() || before.contains(&b'/') {
        return alone;
    }
    let host = Host::of(before.get(at + 1..).unwrap_or_default());
    Address { host, path: path.get(1..).unwrap_or_default(), ..alone }
}

/// The path of an endpoint itself; `None` where the other side may read it as another one.
pub(super) fn path(word: &[u8]) -> Option<Vec<u8>> {
    let end = word.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(word.len());
    let path = word.get(..end)?.strip_prefix(b"/").unwrap_or(word.get(..end)?);
    let path = path.strip_prefix(b"api/").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let odd = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    let escaped = path.iter().any(|byte| matches!(byte, b'%' | b'\\') || byte.is_ascii_control());
    (!escaped && !path.split(|byte| *byte == b'/').any(odd)).then(|| path.to_vec())
}

/// `OWNER/NAME`, `HOST/OWNER/NAME` or an address.
pub(super) fn repository(said: &[u8]) -> (Option<Vec<u8>>, Address<'_>) {
    let mut address = split(said);
    let mut parts: Vec<&[u8]> = address.path.split(|byte| *byte == b'/').collect();
    parts.retain(|part| !part.is_empty());
    if address.host == Host::None && parts.len() > 2 {
        address.host = Host::of(parts.remove(0));
    }
    let [owner, name] = parts.as_slice() else { return (None, address) };
    let name = name.strip_suffix(b".git").unwrap_or(name);
    let odd = |part: &[u8]| part.iter().any(|byte| b":@%?#\\".contains(byte));
    let plain = !odd(owner) && !odd(name);
    (plain.then(|| [owner, b"/".as_slice(), name].concat()), address)
}
