//! What is kept of a program's output: its beginning and its end, as text where it is text.
//!
//! Owns: the bound, and what is said of what is left out. Must not: know whose output it is.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What is kept of a stream: its beginning and its end.
#[derive(Debug)]
pub(super) struct Kept {
    most: usize,
    seen: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl Kept {
    pub(super) fn new(most: usize) -> Kept {
        Kept { most, seen: 0, head: Vec::new(), tail: VecDeque::new() }
    }

    /// So many bytes there were.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let half = self.most.div_ceil(2);
        let room = half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.most - half);
        drop(self.tail.drain(..over));
    }

    pub(super) fn truncated(&self) -> bool {
        self.seen > (self.head.len() + self.tail.len()) as u64
    }

    /// With a line in the place of what is left out, which is not cut within a character.
    pub(super) fn end(self) -> (String, &'static str) {
        let left_out = self.seen - (self.head.len() + self.tail.len()) as u64;
        let Kept { mut head, tail, .. } = self;
        let mut tail = Vec::from(tail);
        if left_out > 0 {
            let whole = head.len() - incomplete(&head);
            let begins = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            let left_out = left_out + (head.len() - whole) as u64 + begins as u64;
            head.truncate(whole);
            head.extend_from_slice(format!("\n[{left_out} bytes left out]\n").as_bytes());
            tail.drain(..begins);
        }
        head.append(&mut tail);
        text(head)
    }
}

/// Bytes at the end that begin a character and do not end it.
fn incomplete(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let Some(byte) = bytes.get(bytes.len() - back) else { return 0 };
        let length = match byte {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if length > back { back } else { 0 };
    }
    0
}

/// As it is where it is UTF-8.
pub(super) fn text(bytes: Vec<u8>) -> (String, &'static str) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, "utf-8"),
        Err(error) => (STANDARD.encode(error.as_bytes()), "base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let mut kept = Kept::new(10);
        for piece in ["0123", "4567", "89ab", "cdef"] {
            kept.take(piece.as_bytes());
        }
        assert!(kept.truncated());
        let (text, encoding) = kept.end();
        assert_eq!((text.as_str(), encoding), ("01234\n[6 bytes left out]\nbcdef", "utf-8"));
        let mut whole = Kept::new(10);
        whole.take(b"0123456789");
        assert!(!whole.truncated());
        assert_eq!(whole.end().0, "0123456789");
    }

    #[test]
    fn a_character_is_not_cut_and_bytes_that_are_none_are_base64() {
        let mut kept = Kept::new(6);
        kept.take("aéééébb".as_bytes());
        let (text, encoding) = kept.end();
        assert_eq!((text.as_str(), encoding), ("aé\n[6 bytes left out]\nbb", "utf-8"));
        let mut kept = Kept::new(10);
        kept.take(&[0xff, 0]);
        assert_eq!(kept.end(), ("/wA=".to_owned(), "base64"));
    }
}
