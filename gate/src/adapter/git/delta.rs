//! Objects of a pack that are told by what differs from another one.

/// The object that a delta makes of its base; `None` where it is broken, or longer
/// than `longest`.
pub(super) fn apply(base: &[u8], delta: &[u8], longest: usize) -> Option<Vec<u8>> {
    let (from, rest) = size(delta)?;
    let (to, mut rest) = size(rest)?;
    if from != base.len() || to > longest {
        return None;
    }
    let mut out = Vec::with_capacity(to);
    while let Some((code, after)) = rest.split_first() {
        rest = after;
        if code & 0x80 == 0 {
            let (piece, after) = rest.split_at_checked(usize::from(*code))?;
            if piece.is_empty() {
                return None;
            }
            out.extend_from_slice(piece);
            rest = after;
        } else {
            let mut number = |bits: std::ops::Range<u32>| {
                let mut value = 0_usize;
                for (at, bit) in bits.enumerate() {
                    if code & (1_u8 << bit) != 0 {
                        let (byte, after) = rest.split_first()?;
                        value |= usize::from(*byte) << (8 * at);
                        rest = after;
                    }
                }
                Some(value)
            };
            let start = number(0..4)?;
            let length = match number(4..7)? {
                0 => 0x10000,
                length => length,
            };
            out.extend_from_slice(base.get(start..start.checked_add(length)?)?);
        }
        if out.len() > to {
            return None;
        }
    }
    (out.len() == to).then_some(out)
}

fn size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (mut rest, mut value, mut shift) = (bytes, 0_usize, 0_u32);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        if shift > 49 {
            return None;
        }
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_copies_and_adds() {
        let base = b"0123456789";
        // 10 bytes to 6: three from offset 2, then "ab", then one from 0.
        let delta = [10, 6, 0x91, 2, 3, 2, b'a', b'b', 0x90, 1];
        assert_eq!(apply(base, &delta, 100).as_deref(), Some(&b"234ab0"[..]));
        assert_eq!(apply(base, &delta, 5), None, "too long");
        assert_eq!(apply(b"short", &delta, 100), None, "another base");
        for end in 0..delta.len() {
            assert_eq!(apply(base, &delta[..end], 100), None, "{end}");
        }
        assert_eq!(apply(base, &[10, 1, 0], 100), None, "a command that means nothing");
        assert_eq!(apply(base, &[10, 2, 0x91, 9, 2], 100), None, "beyond the base");
    }
}
