//! Reading one JSON object, member by member, from borrowed bytes.
//!
//! A value that nobody asked for is skipped, checked for its grammar, at most
//! 64 deep. Strings are decoded piece by piece; a lone surrogate becomes
//! U+FFFD. Bytes over 0x7f are handed on as they are: whether they are UTF-8
//! is the question of whoever prints them.

mod cursor;

use crate::{base64, frame};
use cursor::Cursor;

/// The text is not one JSON object, is cut off, or nests too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// One object, whose members are read in their order.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    text: Cursor<'a>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    Later,
    Ended,
}

/// The value of a member.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A string.
    Text(Text<'a>),
    /// A number, as it is written.
    Number(&'a [u8]),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
    /// An object, as it is written: [`Object::new`] reads it.
    Object(&'a [u8]),
    /// A list, as it is written.
    List(&'a [u8]),
}

/// A string as it is written, without its quotes; its escapes are checked.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a [u8]);

/// The pieces of a string, decoded: see [`Text::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a>(Cursor<'a>);

/// A piece of a decoded string.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes that are written as they are.
    Run(&'a [u8]),
    /// What one escape stands for.
    Escape(char),
}

impl<'a> Object<'a> {
    /// Starts to read an object; white space around it is allowed.
    pub fn new(text: &'a [u8]) -> Result<Object<'a>, Malformed> {
        let mut text = Cursor::new(text);
        text.space();
        text.expect(b'{')?;
        Ok(Object { text, state: State::First })
    }

    /// The next member, or `None` once the object has ended and nothing but
    /// white space follows.
    pub fn next_member(&mut self) -> Result<Option<(Text<'a>, Value<'a>)>, Malformed> {
        if self.state == State::Ended {
            return Ok(None);
        }
        self.text.space();
        match self.text.peek() {
            Some(b'}') => {
                self.text.bump();
                self.text.space();
                self.state = State::Ended;
                return if self.text.peek().is_none() { Ok(None) } else { Err(Malformed) };
            }
            Some(b',') if self.state == State::Later => {
                self.text.bump();
                self.text.space();
            }
            _ if self.state == State::Later => return Err(Malformed),
            _ => {}
        }
        self.state = State::Later;
        let name = self.text.string()?;
        self.text.space();
        self.text.expect(b':')?;
        self.text.space();
        let value = self.text.value()?;
        Ok(Some((name, value)))
    }
}

impl<'a> Value<'a> {
    /// A whole number that fits; `None` for anything else.
    pub fn integer(self) -> Option<i64> {
        let Value::Number(text) = self else { return None };
        let (negative, digits) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        if digits.is_empty() {
            return None;
        }
        let mut number = 0_i64;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            number = number.checked_mul(10)?.checked_add(i64::from(digit & 15))?;
        }
        Some(if negative { number.wrapping_neg() } else { number })
    }

    /// The bytes of a string of the protocol, a JSON string or `{"b64":"…"}`,
    /// decoded to the start of `out`. `None` where it is neither, or `out` is
    /// shorter than the string as it is written.
    pub fn bytes(self, out: &mut [u8]) -> Option<&[u8]> {
        match self {
            Value::Text(text) => text.decode(out),
            Value::Object(text) => {
                let mut object = Object::new(text).ok()?;
                let (name, value) = object.next_member().ok()??;
                let Value::Text(text) = value else { return None };
                if !name.is("b64") || object.next_member() != Ok(None) {
                    return None;
                }
                let count = text.decode(out)?.len();
                let count = base64::decode_in_place(out.get_mut(..count)?)?;
                out.get(..count)
            }
            _ => None,
        }
    }
}

impl PartialEq for Value<'_> {
    /// As they are written: two spellings of one string are not equal.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => a.0 == b.0,
            (Value::Number(a), Value::Number(b))
            | (Value::Object(a), Value::Object(b))
            | (Value::List(a), Value::List(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Null, Value::Null) => true,
            _ => false,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<'a> Text<'a> {
    /// The string, decoded: runs of plain bytes, and single characters that
    /// were written as escapes.
    pub fn pieces(self) -> Pieces<'a> {
        Pieces(Cursor::new(self.0))
    }

    /// Whether this is the same string.
    pub fn is(self, other: &str) -> bool {
        self.is_bytes(other.as_bytes())
    }

    /// The same, for a string that is at hand as bytes.
    pub fn is_bytes(self, other: &[u8]) -> bool {
        let mut rest = other;
        for piece in self.pieces() {
            match rest.strip_prefix(piece.bytes(&mut [0; 4])) {
                Some(left) => rest = left,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// Decodes the string to the start of `out`; `None` where it does not fit.
    /// A decoded string is never longer than it is written.
    pub fn decode(self, out: &mut [u8]) -> Option<&[u8]> {
        let mut at = 0_usize;
        for piece in self.pieces() {
            let mut character = [0; 4];
            let bytes = piece.bytes(&mut character);
            if !frame::copy(bytes, out.get_mut(at..)?) {
                return None;
            }
            at = at.wrapping_add(bytes.len());
        }
        out.get(..at)
    }
}

impl<'a> Piece<'a> {
    /// The piece as bytes; a character is put into `place`.
    pub fn bytes<'b>(&'b self, place: &'b mut [u8; 4]) -> &'b [u8] {
        match self {
            Piece::Run(bytes) => bytes,
            Piece::Escape(character) => character.encode_utf8(place).as_bytes(),
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let cursor = &mut self.0;
        let start = cursor.at;
        while !matches!(cursor.peek()?, b'\\') {
            cursor.bump();
            if matches!(cursor.peek(), None | Some(b'\\')) {
                return cursor.since(start).map(Piece::Run);
            }
        }
        cursor.bump();
        let unit = cursor.escape().ok()?;
        let unit = match unit {
            // The first half of a pair, if its second half follows.
            0xd800..0xdc00 => {
                let mut ahead = cursor.clone();
                match ahead.second_half() {
                    Some(second) => {
                        *cursor = ahead;
                        0x1_0000_u32.wrapping_add(((unit & 0x3ff) << 10) | second)
                    }
                    None => unit,
                }
            }
            other => other,
        };
        Some(Piece::Escape(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

#[cfg(test)]
mod tests;
