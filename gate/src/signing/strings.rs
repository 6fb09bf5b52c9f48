//! How SSH writes strings: a length of four bytes, and that many.

/// Reads strings and numbers, one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strings<'a>(pub(super) &'a [u8]);

impl<'a> Strings<'a> {
    /// So many bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// Four bytes, the largest first.
    pub(super) fn number(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    /// A string.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.bytes(length)
    }
}

/// Writes a string; all that is written here is far shorter than 4 GiB.
pub(super) fn put(into: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).unwrap_or(u32::MAX);
    into.extend_from_slice(&length.to_be_bytes());
    into.extend_from_slice(string);
}

/// Writes a number that is not below zero, without zeros before it but the one that
/// keeps it above.
pub(super) fn put_number(into: &mut Vec<u8>, number: &[u8]) {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = number.get(zeros..).unwrap_or_default();
    let mut string = Vec::with_capacity(digits.len() + 1);
    if digits.first().is_some_and(|first| *first >= 0x80) {
        string.push(0);
    }
    string.extend_from_slice(digits);
    put(into, &string);
}
