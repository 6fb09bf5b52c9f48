//! Text of a line: ASCII alone, whatever somebody sent.
//!
//! Owns: how strings, digests and numbers are written. Every byte outside
//! 0x20..0x7e is an escape, so that no line can be broken, no terminal spoken
//! to and no text turned around; what is not UTF-8 is `{"b64":…}`. Must not:
//! replace or drop a byte.

use std::io::Write;

use tool_protocol::base64;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes bytes as a JSON string, or as `{"b64":…}`.
pub(super) fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            out.push(b'"');
            escaped(out, text);
            out.push(b'"');
        }
        Err(_) => {
            let mut encoded = vec![0; base64::encoded_len(bytes.len())];
            // It is as long as it has to be.
            let length = base64::encode(bytes, &mut encoded).unwrap_or_default();
            out.extend_from_slice(b"{\"b64\":\"");
            out.extend_from_slice(encoded.get(..length).unwrap_or_default());
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Writes text between quotes.
fn escaped(out: &mut Vec<u8>, text: &str) {
    let plain = |byte: &u8| (0x20..=0x7e).contains(byte) && !matches!(byte, b'"' | b'\\');
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.bytes().position(|byte| !plain(&byte)).unwrap_or(rest.len());
        let (clean, other) = rest.split_at_checked(run).unwrap_or((rest, ""));
        out.extend_from_slice(clean.as_bytes());
        let mut characters = other.chars();
        match characters.next() {
            Some(character @ ('"' | '\\')) => {
                out.push(b'\\');
                out.extend(u8::try_from(character));
            }
            Some(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(b"\\u");
                    hex(out, &unit.to_be_bytes());
                }
            }
            None => {}
        }
        rest = characters.as_str();
    }
}

/// Writes bytes in hexadecimal.
pub(super) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(&digits_of(*byte));
    }
}

/// A byte in hexadecimal.
pub(super) fn digits_of(byte: u8) -> [u8; 2] {
    let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or(b'0');
    [digit(byte >> 4), digit(byte & 15)]
}

/// Writes `,"name":` before a value; names are ours and need no escape.
pub(super) fn member(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// A member that is a string, or null.
pub(super) fn text(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    member(out, name);
    match value {
        Some(bytes) => string(out, bytes),
        None => out.extend_from_slice(b"null"),
    }
}

/// A member that is a number, or null.
pub(super) fn number(out: &mut Vec<u8>, name: &str, value: Option<u64>) {
    member(out, name);
    match value {
        Some(value) => digits(out, value, 1),
        None => out.extend_from_slice(b"null"),
    }
}

/// A member that is true or false.
pub(super) fn flag(out: &mut Vec<u8>, name: &str, value: bool) {
    member(out, name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// A member that is a time span in milliseconds, to the microsecond; or null.
pub(super) fn millis(out: &mut Vec<u8>, name: &str, value: Option<std::time::Duration>) {
    member(out, name);
    let Some(value) = value else { return out.extend_from_slice(b"null") };
    let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    digits(out, micros / 1000, 1);
    out.push(b'.');
    digits(out, micros % 1000, 3);
}

/// Decimal digits, at least so many.
pub(super) fn digits(out: &mut Vec<u8>, value: u64, least: usize) {
    // A vector takes all that is written.
    write!(out, "{value:0least$}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn written(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        string(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_comes_back_and_none_is_raw() {
        let all: Vec<char> =
            (0..=0x2ff).chain(0x2000..=0x206f).filter_map(char::from_u32).collect();
        let text: String =
            all.into_iter().chain(['\u{feff}', '\u{10ffff}', '😀', '"', '\\']).collect();
        let line = written(text.as_bytes());
        assert!(line.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        assert_eq!(written(b"plain ~"), "\"plain ~\"");
        assert_eq!(written("\u{7f}\u{9b}é\n".as_bytes()), r#""\u007f\u009b\u00e9\u000a""#);
        assert_eq!(written("😀".as_bytes()), r#""\ud83d\ude00""#);
    }

    #[test]
    fn what_is_not_utf8_is_base64() {
        let value: Value = serde_json::from_str(&written(b"a\xff\x00b")).unwrap();
        assert_eq!(value, serde_json::json!({"b64": "Yf8AYg=="}));
    }

    #[test]
    fn spans_are_milliseconds_with_three_decimals() {
        let mut out = Vec::new();
        millis(&mut out, "a", Some(std::time::Duration::from_nanos(12_003_999)));
        millis(&mut out, "b", None);
        number(&mut out, "c", Some(u64::MAX));
        assert_eq!(out, br#","a":12.003,"b":null,"c":18446744073709551615"#);
    }
}
