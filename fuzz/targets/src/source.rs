//! Bytes as numbers, choices and strings, for targets whose input has a shape.
//!
//! What is missing at the end is zero: every input means something.

/// What is left of an input.
#[derive(Clone, Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// All of an input.
    pub fn new(data: &'a [u8]) -> Source<'a> {
        Source(data)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// One bit of the next byte.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`, from two bytes.
    pub fn below(&mut self, end: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number % end.max(1)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A string of the length that its first byte says, as far as there is so
    /// much. Where that byte is 255 it is 64 times as long, so that limits are
    /// reached by short inputs.
    pub fn bytes(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte());
        let times = if length == 255 { 64 } else { 1 };
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken.repeat(times)
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
