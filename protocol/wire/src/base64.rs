//! Base64 for strings that are not UTF-8: the standard alphabet, padded.
//!
//! Owns: encoding into and decoding inside a caller's buffer.
//! Must not: allocate, or accept more than one spelling of the same bytes.

/// The value of a character that is not in the alphabet.
const NONE: u8 = 0xff;

/// How many characters `bytes` bytes become.
pub const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

/// How many bytes fit into `characters` characters.
pub const fn bytes_for(characters: usize) -> usize {
    (characters / 4).saturating_mul(3)
}

/// Encodes `bytes` at the start of `out`, `None` where they do not fit; else
/// how many characters were written.
pub fn encode(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let length = encoded_len(bytes.len());
    let out = out.get_mut(..length)?;
    for (group, place) in bytes.chunks(3).zip(out.chunks_exact_mut(4)) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for (at, character) in place.iter_mut().enumerate() {
            *character = if at > group.len() {
                b'='
            } else {
                letter((bits >> 18_usize.saturating_sub(at.saturating_mul(6))) & 63)
            };
        }
    }
    Some(length)
}

/// Decodes `text` to the start of `out`; `None` where `text` is not exactly
/// what [`encode`] writes, or `out` is shorter than `text`.
pub fn decode<'o>(text: &[u8], out: &'o mut [u8]) -> Option<&'o [u8]> {
    let place = out.get_mut(..text.len())?;
    place.copy_from_slice(text);
    let length = decode_in_place(place)?;
    out.get(..length)
}

/// Decodes `buffer` over itself: the bytes are at its start, as many as the
/// result says. `None` where it is not exactly what [`encode`] writes; the
/// buffer is then spoilt.
pub fn decode_in_place(buffer: &mut [u8]) -> Option<usize> {
    if !buffer.len().is_multiple_of(4) {
        return None;
    }
    let padding = buffer.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let characters = buffer.len().saturating_sub(padding);
    let mut length = 0_usize;
    let mut bits = 0_u32;
    for at in 0..characters {
        let value = value(*buffer.get(at)?);
        if value == NONE {
            return None;
        }
        bits = (bits << 6) | u32::from(value);
        // The first character of a group completes no byte.
        if at % 4 != 0 {
            let shift = [0, 4, 2, 0].get(at % 4)?;
            let [.., byte] = (bits >> *shift).to_be_bytes();
            *buffer.get_mut(length)? = byte;
            length = length.wrapping_add(1);
        }
    }
    // Bits behind the last byte are zero: there is one spelling for each string.
    let left = match padding {
        0 => 0,
        1 => bits & 0b11,
        _ => bits & 0b1111,
    };
    (left == 0).then_some(length)
}

fn letter(value: u32) -> u8 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    LETTERS.get(value as usize).copied().unwrap_or(b'=')
}

fn value(character: u8) -> u8 {
    let (first, base) = match character {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'+' => (b'+', 62),
        b'/' => (b'/', 63),
        _ => return NONE,
    };
    character.wrapping_sub(first).wrapping_add(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0; encoded_len(bytes.len())];
        assert_eq!(encode(bytes, &mut out), Some(out.len()));
        out
    }

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; text.len()];
        decode(text, &mut out).map(<[u8]>::to_vec)
    }

    #[test]
    fn the_vectors_of_rfc_4648() {
        for (bytes, text) in [
            (&b""[..], &b""[..]),
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg=="),
            (b"fooba", b"Zm9vYmE="),
            (b"foobar", b"Zm9vYmFy"),
            (b"\xfb\xff\xbf", b"+/+/"),
        ] {
            assert_eq!(encoded(bytes), text);
            assert_eq!(decoded(text).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn every_length_and_every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for start in 0..4 {
            for length in 0..all.len() - start {
                let bytes = &all[start..start + length];
                assert_eq!(decoded(&encoded(bytes)).as_deref(), Some(bytes));
            }
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "Z",
            "Zg",
            "Zg=",
            "=",
            "==",
            "===",
            "====",
            "Zg===",
            "Z===",
            "Zh==",
            "Zm9=",
            "Zm9w=",
            "Zg==Zg==",
            "Zg==Zm9v",
            " Zg=",
            "Zg= ",
            "Zg\n=",
            "Zm-_",
            "Zm9\u{e9}",
            "Zm9=v",
            "Z=9v",
            "\0\0\0\0",
        ] {
            assert_eq!(decoded(text.as_bytes()), None, "{text:?}");
        }
        for byte in 0..=255u8 {
            let known = byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
            assert_eq!(decoded(&[byte, b'A', b'A', b'A']).is_some(), known, "{byte}");
        }
    }

    #[test]
    fn a_buffer_that_is_too_short_is_refused() {
        assert_eq!(encode(b"foo", &mut [0; 3]), None);
        assert_eq!(decode(b"Zm9v", &mut [0; 3]), None);
        assert_eq!(bytes_for(0), 0);
        assert_eq!(bytes_for(7), 3);
        assert_eq!(encoded_len(bytes_for(1000)), 1000);
    }
}
