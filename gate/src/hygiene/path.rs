//! The path of a request, if everybody reads it alike.
//!
//! What is encoded and need not be is decoded; what has to stay encoded does, in one
//! form. A path that some server could read otherwise is refused: `.` and `..`, empty
//! segments, backslashes, control bytes, encoded `%`, `;` (what follows it is no part of the
//! name to some). An encoded slash stays,
//! as `%2f`, for the adapters that know what is meant by it.

use crate::refusal::Refusal;

/// Marks that stand for themselves.
const MARKS: &[u8] = b"-._~@!$&'()*+,=:";
/// Bytes that some take for a slash, an end, or for nothing.
const UNCLEAR: &[u8] = b"\\#?\"<>^`{|};";

/// The normal form.
pub(super) fn normal(path: &str) -> Result<String, Refusal> {
    let flat = |path: &String| is_flat(path) || crate::weaken::is("gate-paths");
    read(path).filter(flat).ok_or(Refusal::Malformed(
        "its path can be read in more than one way (.., //, \\, ; or what they are encoded as)",
    ))
}

fn read(path: &str) -> Option<String> {
    let mut normal = String::with_capacity(path.len());
    normal.push('/');
    let mut bytes = path.strip_prefix('/')?.bytes();
    // What no text stands for some take for what it looks like: `.` of two bytes.
    let mut text = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            if byte <= b' ' || byte >= 0x7f || UNCLEAR.contains(&byte) {
                return None;
            }
            normal.push(char::from(byte));
            text.push(byte);
            continue;
        }
        let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
        text.push((high << 4) | low);
        match (high << 4) | low {
            b'/' => normal.push_str("%2f"),
            b'\\' | b'%' | b';' | 0x00..=0x1f | 0x7f => return None,
            byte if byte.is_ascii_alphanumeric() || MARKS.contains(&byte) => {
                normal.push(char::from(byte));
            }
            _ => {
                normal.push('%');
                normal.extend([digit(high), digit(low)]);
            }
        }
    }
    std::str::from_utf8(&text).ok().map(|_| normal)
}

fn is_flat(path: &str) -> bool {
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        // `..;x` is `..` to servers that know parameters of segments.
        let dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
        let nameless = segment.is_empty() && !last || segment.starts_with(';');
        let hidden = segment.contains("%2f") && segment.split("%2f").any(str::is_empty);
        if nameless || hidden || segment.split("%2f").any(dots) {
            return false;
        }
    }
    true
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As a server would that decodes once too often.
    fn decoded(text: &str) -> String {
        let Some((before, after)) = text.split_once('%') else { return text.to_owned() };
        let (code, rest) = after.split_at_checked(2).unwrap_or(("", after));
        match u8::from_str_radix(code, 16).ok() {
            Some(byte) => format!("{before}{}{}", char::from(byte), decoded(rest)),
            None => format!("{before}%{}", decoded(after)),
        }
    }

    proptest! {
        #[test]
        fn a_normal_path_stays_and_has_nothing_to_join(
            path in "/(\\.|/|%2e|%2E|%2f|%5c|%25|%3b|%3f|%c3|;|\\\\|[a-c%?# ]|\\.\\.){0,12}"
        ) {
            if let Ok(once) = normal(&path) {
                prop_assert_eq!(&normal(&once).unwrap(), &once);
                let mut text = once.clone();
                for _ in 0..3 {
                    text = decoded(&text);
                    let steps: Vec<&str> =
                        text.split(['/', '\\']).map(|step| step.split(';').next().unwrap()).collect();
                    prop_assert!(!steps.contains(&"..") && !steps.contains(&"."), "{}", text);
                    prop_assert!(!steps[1..steps.len() - 1].contains(&""), "{}", text);
                }
            }
        }
    }
}
