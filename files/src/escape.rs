//! Text as the inside of a JSON string.
//!
//! Owns: which bytes are escaped and how, the same as serde_json does, eight bytes at a time:
//! of a long text that is most of what an answer costs. Must not: open or read files.

/// As many bytes as are looked at together.
const WORD: usize = 8;
const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Adds it to `to`; how many line feeds are in it. What is no UTF-8 stays as it is.
pub(crate) fn escape(text: &[u8], to: &mut Vec<u8>) -> u64 {
    let (mut rest, mut newlines) = (text, 0);
    while let Some((run, marked)) = rest.split_at_checked(clean(rest)) {
        to.extend_from_slice(run);
        let Some((byte, behind)) = marked.split_first() else { break };
        newlines += u64::from(*byte == b'\n');
        let short = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            _ => 0,
        };
        if short == 0 {
            to.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
        } else {
            to.extend_from_slice(&[b'\\', short]);
        }
        rest = behind;
    }
    newlines
}

/// A hexadecimal digit, of a number below 16.
pub(crate) fn digit(half: u8) -> u8 {
    if half < 10 { b'0' + half } else { b'a' + half - 10 }
}

/// How many bytes at the beginning stay as they are.
pub(crate) fn clean(text: &[u8]) -> usize {
    let (words, tail) = text.as_chunks::<WORD>();
    for (index, word) in words.iter().enumerate() {
        // Of the marks the lowest is right; those above it may be false.
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * WORD + (marks.trailing_zeros() / 8) as usize;
        }
    }
    let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    text.len() - tail.len() + tail.iter().position(special).unwrap_or(tail.len())
}

/// The high bit of each byte that is below 0x20, a quote or a backslash.
fn marks(word: u64) -> u64 {
    let below = |word: u64, bound: u8| word.wrapping_sub(EACH * u64::from(bound)) & !word;
    let is = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(text: &str) {
        let mut ours = b"\"".to_vec();
        assert_eq!(escape(text.as_bytes(), &mut ours), text.matches('\n').count() as u64);
        ours.push(b'"');
        assert_eq!(String::from_utf8(ours).unwrap(), serde_json::to_string(text).unwrap());
    }

    #[test]
    fn every_character_is_written_as_serde_json_does_at_every_place() {
        for byte in 0..=0x2ff_u32 {
            let Some(one) = char::from_u32(byte) else { continue };
            (0..17).for_each(|before| same(&format!("{}{one}\"x{one}", "a".repeat(before))));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_does(text in "[ -~\\x00-\\x1fé€\u{10ffff}]{0,80}") {
            same(&text);
        }
    }
}
