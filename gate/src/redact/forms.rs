//! The forms in which a value is looked for.
//!
//! As it is, base64 (both alphabets, wherever in a longer text it begins, and broken
//! into lines), hexadecimal digits, percent-encoding (as programs differ in what they
//! encode, large and small digits), and as a JSON string. Of a value of several lines
//! each line, too.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// What is shorter is no secret, and stands everywhere.
const SHORTEST: usize = 6;
/// All forms together.
const MOST: usize = 4 << 20;
/// As base64(1) and openssl break lines.
const WIDTHS: [usize; 2] = [76, 64];

/// All forms of all values, each once; `None` where that is too much.
pub(super) fn of<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Vec<Zeroizing<Vec<u8>>>> {
    let mut forms = BTreeSet::new();
    let mut total = 0_usize;
    for value in values {
        let value = value.trim_ascii();
        if value.len() > 64 << 10 {
            return None;
        }
        let lines: Vec<&[u8]> = value.split(|byte| matches!(byte, b'\n' | b'\r')).collect();
        let frame = |line: &&[u8]| !line.starts_with(b"-----");
        for part in std::iter::once(value).chain(lines.into_iter().filter(frame)) {
            if part.len() < SHORTEST {
                continue;
            }
            for form in forms_of(part) {
                if form.len() >= SHORTEST && !forms.contains(&form) {
                    total += form.len();
                    forms.insert(form);
                }
            }
        }
        if total > MOST {
            return None;
        }
    }
    Some(forms.into_iter().map(Zeroizing::new).collect())
}

fn forms_of(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![value.to_vec(), hex(value, b"0123456789abcdef")];
    forms.push(hex(value, b"0123456789ABCDEF"));
    for before in 0..3 {
        forms.push(base64(&STANDARD_NO_PAD, value, before));
        forms.push(base64(&URL_SAFE_NO_PAD, value, before));
    }
    let whole = base64(&STANDARD_NO_PAD, value, 0);
    for width in WIDTHS.into_iter().filter(|width| whole.len() > *width) {
        for end in [&b"\n"[..], b"\r\n"] {
            forms.push(whole.chunks(width).collect::<Vec<_>>().join(end));
        }
    }
    for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
        for kept in
            [&b"-._~"[..], b"-._~!'()*", b"-._*", b"-._~!$&'()*+,;=:@", b"-._~!$&'()*+,;=:@/"]
        {
            let encoded = percent(value, kept, digits);
            // In a form a blank is a plus.
            forms.push(encoded.replace("%20", "+").into_bytes());
            forms.push(encoded.into_bytes());
        }
    }
    if let Ok(text) = std::str::from_utf8(value) {
        for (slash, html, ascii) in [
            (false, false, false),
            (true, false, false),
            (false, true, false),
            (false, false, true),
            (true, false, true),
        ] {
            forms.push(json(text, slash, html, ascii).into_bytes());
        }
    }
    forms
}

fn hex(value: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let digit = |number: u8| digits.get(usize::from(number)).copied().unwrap_or(b'0');
    value.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Of the digits of a text that has the value behind so many bytes of a group of
/// three, those that the value alone tells.
fn base64(engine: &impl Engine, value: &[u8], before: usize) -> Vec<u8> {
    let text = Zeroizing::new([&vec![0; before], value].concat());
    let digits = engine.encode(&*text).into_bytes();
    let (first, last) = ((before * 8).div_ceil(6), text.len() * 8 / 6);
    digits.get(first..last).unwrap_or_default().to_vec()
}

fn percent(value: &[u8], kept: &[u8], digits: &[u8; 16]) -> String {
    let mut text = String::new();
    for byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.extend(hex(&[*byte], digits).into_iter().map(char::from));
        }
    }
    text
}

/// As the inside of a JSON string: with `\/`, with `<`, `>` and `&` escaped, in ASCII
/// alone.
fn json(text: &str, slash: bool, html: bool, ascii: bool) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '/' if slash => out.push_str("\\/"),
            letter
                if letter < ' '
                    || (html && matches!(letter, '<' | '>' | '&'))
                    || (ascii && !letter.is_ascii()) =>
            {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            letter => out.push(letter),
        }
    }
    out
}
