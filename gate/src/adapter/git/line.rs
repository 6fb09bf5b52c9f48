//! pkt-lines: four hexadecimal digits of length, and that many bytes.
//!
//! Owns: reading one from bytes that may not be there yet, and writing one. Stricter
//! than git, which takes what nobody sends. Must not: know what a line means.

/// The longest line, its length included.
const LONGEST: usize = 65_520;

/// The length, in digits.
const DIGITS: usize = 4;

/// What stands in a stream of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// `0000`.
    Flush,
    /// `0001`.
    Delimiter,
    /// `0002`.
    End,
    /// What a line holds, with the newline that it may end in.
    Data(&'a [u8]),
}

/// It is no pkt-line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what git sent is no pkt-line")]
pub struct NoLine;

/// The first line, and how many bytes it is long; `None` where it is not whole yet.
pub fn next(bytes: &[u8]) -> Result<Option<(Line<'_>, usize)>, NoLine> {
    let Some((digits, _)) = bytes.split_at_checked(DIGITS) else {
        let wrong = bytes.iter().any(|byte| !byte.is_ascii_hexdigit());
        return if wrong { Err(NoLine) } else { Ok(None) };
    };
    let length = number(digits).ok_or(NoLine)?;
    let line = match length {
        0 => Line::Flush,
        1 => Line::Delimiter,
        2 => Line::End,
        3 => return Err(NoLine),
        length if length > LONGEST => return Err(NoLine),
        length => match bytes.get(DIGITS..length) {
            Some(data) => return Ok(Some((Line::Data(data), length))),
            None => return Ok(None),
        },
    };
    Ok(Some((line, DIGITS)))
}

fn number(digits: &[u8]) -> Option<usize> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| digit.try_into().ok());
    digits.iter().try_fold(0_usize, |sum, byte| digit(byte).map(|digit: usize| sum * 16 + digit))
}

/// Appends a line, cut where it is longer than a line can be.
pub fn push(out: &mut Vec<u8>, data: &[u8]) {
    let data = data.get(..LONGEST - DIGITS).unwrap_or(data);
    out.extend_from_slice(format!("{:04x}", data.len() + DIGITS).as_bytes());
    out.extend_from_slice(data);
}

/// Appends what ends a list of lines.
pub fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends what stands between two lists of lines.
pub fn delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

/// Appends bytes in a band, in as many lines as they need.
pub fn band(out: &mut Vec<u8>, band: u8, data: &[u8]) {
    for piece in data.chunks(LONGEST - DIGITS - 1) {
        push(out, &[&[band], piece].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        for (bytes, expected) in [
            (&b""[..], Ok(None)),
            (b"000", Ok(None)),
            (b"00g", Err(NoLine)),
            (b"0000x", Ok(Some((Line::Flush, 4)))),
            (b"0001", Ok(Some((Line::Delimiter, 4)))),
            (b"0002", Ok(Some((Line::End, 4)))),
            (b"0003", Err(NoLine)),
            (b"0004", Ok(Some((Line::Data(b""), 4)))),
            (b"0006a\nb", Ok(Some((Line::Data(b"a\n"), 6)))),
            (b"000Aabcdef", Ok(Some((Line::Data(b"abcdef"), 10)))),
            (b"000aabc", Ok(None)),
            (b"fff1", Err(NoLine)),
            (b"+006ab", Err(NoLine)),
            (b" 006ab", Err(NoLine)),
        ] {
            assert_eq!(next(bytes), expected, "{}", bytes.escape_ascii());
        }
        let mut out = Vec::new();
        band(&mut out, 2, &vec![b'x'; 70_000]);
        let (line, length) = next(&out).unwrap().unwrap();
        assert_eq!(length, LONGEST);
        assert!(matches!(line, Line::Data(data) if data.len() == LONGEST - 4 && data[0] == 2));
        let (line, rest) = next(&out[length..]).unwrap().unwrap();
        assert!(matches!(line, Line::Data(data) if data.len() == 70_000 - (LONGEST - 5) + 1));
        assert_eq!(length + rest, out.len());
    }
}
