//! The bytes of a line, one after the other.
//!
//! Owns: the line continuation: a backslash before a newline is nothing, also
//! within an operator. Must not: know quotes; whoever reads one asks for bytes
//! as they are.

/// A place in a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte, which stays.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while self.rest().starts_with(b"\\\n") {
            self.at += 2;
        }
        self.rest().first().copied()
    }

    /// The byte behind the next one.
    pub(super) fn second(mut self) -> Option<u8> {
        self.next();
        self.peek()
    }

    /// Takes the next byte.
    pub(super) fn next(&mut self) -> Option<u8> {
        self.peek()?;
        self.raw()
    }

    /// Takes the next byte as it is.
    pub(super) fn raw(&mut self) -> Option<u8> {
        let byte = self.rest().first().copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Takes these, if they come.
    pub(super) fn eat(&mut self, wanted: &[u8]) -> bool {
        let mut ahead = *self;
        let comes = wanted.iter().all(|byte| ahead.next() == Some(*byte));
        if comes {
            *self = ahead;
        }
        comes
    }

    /// Whether all bytes before that place are passed.
    pub(super) fn is_as_far_as(&self, other: Cursor<'_>) -> bool {
        self.at >= other.at
    }

    /// Takes a line as it is, without its newline; `None` at the end.
    pub(super) fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        self.at += end.map_or(rest.len(), |end| end + 1);
        rest.get(..end.unwrap_or(rest.len()))
    }

    /// The next word, where it is one of a few plain letters.
    pub(super) fn plain_word(mut self) -> Option<Vec<u8>> {
        let mut word = Vec::new();
        while let Some(byte) = self.peek() {
            if is_meta(byte) {
                break;
            }
            if word.len() > 8 || !(byte.is_ascii_alphabetic() || b"{}![]".contains(&byte)) {
                return None;
            }
            word.push(byte);
            self.next();
        }
        Some(word)
    }
}

/// Ends a word.
pub(super) fn is_meta(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
}
