//! What content is called: its SHA-256, in hexadecimal.
//!
//! Owns: making it, and reading what a caller gives as `if_match`. Must not: open files.

use sha2::{Digest, Sha256};
use tool_protocol::Fault;

use crate::error::FileError;
use crate::escape::digit;

/// Of bytes as they come.
#[derive(Clone, Default, Debug)]
pub(crate) struct Hash(Sha256);

impl Hash {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn text(self) -> String {
        // By hand: there is one for each file that is read, and formatting takes longer than it.
        let mut text = vec![0; 64];
        for (digits, byte) in text.as_chunks_mut().0.iter_mut().zip(self.0.finalize()) {
            *digits = [digit(byte >> 4), digit(byte & 15)];
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Of all of it.
pub(crate) fn of(bytes: &[u8]) -> String {
    let mut hash = Hash::default();
    hash.update(bytes);
    hash.text()
}

/// What a caller gave, in lower case.
pub(crate) fn given(if_match: Option<String>) -> Result<Option<String>, FileError> {
    let Some(text) = if_match else { return Ok(None) };
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let message = "if_match is no SHA-256: give the 64 hexadecimal digits that read_file gave";
        return Err(FileError::said(Fault::InvalidInput, message));
    }
    Ok(Some(text.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha256sum_says_and_is_read_in_either_case() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of(b""), empty);
        assert_eq!(given(Some(empty.to_uppercase())).unwrap().unwrap(), empty);
        assert!(given(None).unwrap().is_none());
        for wrong in ["", "abc", &"g".repeat(64), &"a".repeat(65)] {
            assert_eq!(given(Some(wrong.into())).unwrap_err().fault(), Fault::InvalidInput);
        }
    }
}
