//! The layout of a frame: a 4-byte big-endian length, then the payload, whose
//! first byte tells its kind. Pure functions over bytes.

use crate::Code;
use crate::limits::{MAX_FRAME, PREFIX};

/// What a payload is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`: a JSON object.
    Json,
    /// Byte 0: a chunk of stdin; empty is its end.
    Stdin,
    /// Byte 1: a chunk of stdout; empty is its end.
    Stdout,
    /// Byte 2: a chunk of stderr; empty is its end.
    Stderr,
}

impl Kind {
    /// The byte that marks a chunk of this kind; JSON marks itself.
    pub const fn byte(self) -> u8 {
        match self {
            Kind::Stdin => 0,
            Kind::Stdout => 1,
            Kind::Stderr => 2,
            Kind::Json => b'{',
        }
    }
}

/// The payload's length from a prefix, or why the frame is refused. A refusal
/// is made on the prefix alone: nothing of the payload is read or reserved.
pub const fn length(prefix: [u8; PREFIX]) -> Result<usize, Code> {
    let length = u32::from_be_bytes(prefix);
    if length == 0 {
        return Err(Code::BadFrame);
    }
    // MAX_FRAME fits u32; comparing in u32 keeps 2^32-1 right on any target.
    #[allow(clippy::cast_possible_truncation, reason = "the constant is 65,536")]
    if length > MAX_FRAME as u32 {
        return Err(Code::FrameTooLarge);
    }
    Ok(length as usize)
}

/// The prefix for a payload of that length, `None` where it is empty or too long.
pub const fn prefix(length: usize) -> Option<[u8; PREFIX]> {
    if length == 0 || length > MAX_FRAME {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most 65,536")]
    Some((length as u32).to_be_bytes())
}

/// The kind of a payload and its content: the whole object for JSON, the bytes
/// behind the kind for a chunk.
pub fn split(payload: &[u8]) -> Result<(Kind, &[u8]), Code> {
    match payload.split_first() {
        Some((b'{', _)) => Ok((Kind::Json, payload)),
        Some((0, rest)) => Ok((Kind::Stdin, rest)),
        Some((1, rest)) => Ok((Kind::Stdout, rest)),
        Some((2, rest)) => Ok((Kind::Stderr, rest)),
        _ => Err(Code::BadFrame),
    }
}

/// Copies `bytes` to the start of `place`; where they do not fit, nothing is
/// copied and the answer is false. It cannot panic, as `copy_from_slice` can:
/// what can panic costs a program without std several KiB.
#[inline(never)]
pub fn copy(bytes: &[u8], place: &mut [u8]) -> bool {
    match place.get_mut(..bytes.len()) {
        Some(place) => {
            place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_or_not_at_all() {
        let mut place = *b"....";
        assert!(copy(b"abc", &mut place) && place == *b"abc.");
        assert!(!copy(b"12345", &mut place) && place == *b"abc.");
        assert!(copy(b"", &mut []) && !copy(b"1", &mut []));
    }

    #[test]
    fn lengths_at_their_edges() {
        for (length, expected) in [
            (0, Err(Code::BadFrame)),
            (1, Ok(1)),
            (65_535, Ok(65_535)),
            (65_536, Ok(65_536)),
            (65_537, Err(Code::FrameTooLarge)),
            (0x7fff_ffff, Err(Code::FrameTooLarge)),
            (0x8000_0000, Err(Code::FrameTooLarge)),
            (0xffff_ffff, Err(Code::FrameTooLarge)),
        ] {
            assert_eq!(super::length(u32::to_be_bytes(length)), expected, "{length}");
        }
        assert_eq!(prefix(0), None);
        assert_eq!(prefix(65_536), Some([0, 1, 0, 0]));
        assert_eq!(prefix(65_537), None);
    }

    #[test]
    fn only_four_first_bytes_are_kinds() {
        for byte in 0..=255u8 {
            let payload = [byte, b'x'];
            match (byte, split(&payload)) {
                (0..=2, Ok((kind, rest))) => assert_eq!((kind.byte(), rest), (byte, &b"x"[..])),
                (b'{', Ok((Kind::Json, all))) => assert_eq!(all, payload),
                (_, Err(Code::BadFrame)) => {}
                (byte, other) => panic!("{byte}: {other:?}"),
            }
        }
        assert_eq!(split(&[]), Err(Code::BadFrame));
    }
}
