//! GraphQL documents, as far as their operations.
//!
//! Owns: which operations a document has. Must not: guess; what it does not
//! understand is nothing that it knows.

/// The operations of a GraphQL document, `None` where it is not understood.
pub(super) fn operations(text: &[u8]) -> Option<Vec<&'static [u8]>> {
    let mut found: Vec<&'static [u8]> = Vec::new();
    let mut depth = 0usize;
    let mut rest = text;
    let mut pending = false;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'#' => {
                let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                rest = rest.get(end.unwrap_or(rest.len())..).unwrap_or_default();
            }
            b'"' => rest = behind_string(rest)?,
            b'{' | b'(' | b'[' => {
                if *byte == b'{' && depth == 0 && !pending {
                    found.push(b"query");
                }
                pending &= *byte != b'{' || depth > 0;
                depth += 1;
            }
            b'}' | b')' | b']' => depth = depth.checked_sub(1)?,
            byte if depth == 0 && (byte.is_ascii_alphabetic() || *byte == b'_') => {
                let end = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_');
                let end = end.unwrap_or(rest.len());
                let word = [&[*byte], rest.get(..end).unwrap_or_default()].concat();
                rest = rest.get(end..).unwrap_or_default();
                if pending {
                    continue;
                }
                pending = true;
                match word.as_slice() {
                    b"query" => found.push(b"query"),
                    b"mutation" => found.push(b"mutation"),
                    b"subscription" => found.push(b"subscription"),
                    b"fragment" => {}
                    _ => return None,
                }
            }
            _ => {}
        }
    }
    (depth == 0 && !pending && !found.is_empty()).then_some(found)
}

/// What follows a string whose first quote was taken.
fn behind_string(text: &[u8]) -> Option<&[u8]> {
    if let Some(block) = text.strip_prefix(b"\"\"") {
        let mut at = 0;
        loop {
            let here = block.get(at..)?;
            if here.starts_with(b"\\\"\"\"") {
                at += 4;
            } else if here.starts_with(b"\"\"\"") {
                return block.get(at + 3..);
            } else if here.is_empty() {
                return None;
            } else {
                at += 1;
            }
        }
    }
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return text.get(at + 1..),
            b'\n' => return None,
            _ => at += 1,
        }
    }
}
