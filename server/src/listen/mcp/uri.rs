//! Names of files as URIs: `file:///workspace/src/main.rs`.
//!
//! Owns: escaping, both ways. Must not: decide whether a path is in the workspace; the
//! tool that opens it does.

/// The URI of an absolute path.
pub(super) fn of(path: &str) -> String {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

/// The path that a URI names; nothing where it is none of a file here.
pub(super) fn path(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let plain = !path.contains(['?', '#']) && path.starts_with('/');
    if !scheme.eq_ignore_ascii_case("file") || !plain {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    // No path holds a NUL.
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_its_uri_lead_to_each_other() {
        for name in ["/workspace/a", "/w/ä b%c#?.txt", "/w/\u{1}", "/"] {
            assert_eq!(path(&of(name)).as_deref(), Some(name));
        }
        assert_eq!(of("/w/a b"), "file:///w/a%20b");
        assert_eq!(path("file://localhost/w/a").as_deref(), Some("/w/a"));
        for wrong in [
            "/w/a",
            "http://h/a",
            "file://host/a",
            "file:///a%",
            "file:///a%0",
            "file:///%zz",
            "file:///a%00b",
            "file:///%ff",
            "file:///a?b",
            "file:a",
            "",
        ] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }
}
