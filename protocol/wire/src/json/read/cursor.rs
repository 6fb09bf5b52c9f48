//! A position in a text, and the grammar of JSON from there: what comes next is
//! passed over and handed back as it is written.
//!
//! Must not: recurse, decode a string, or know what a member means.

use super::{Malformed, Text, Value};
use crate::limits::MAX_DEPTH;

// One bit of a u64 remembers for each level whether it is an object.
const _: () = assert!(MAX_DEPTH <= 64);

/// A position in the text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at = self.at.wrapping_add(1);
        Some(byte)
    }

    pub(super) fn since(&self, start: usize) -> Option<&'a [u8]> {
        self.text.get(start..self.at)
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.bump() == Some(byte) { Ok(()) } else { Err(Malformed) }
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.bump();
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Malformed> {
        word.iter().try_for_each(|byte| self.expect(*byte))
    }

    pub(super) fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let start = self.at;
        match self.peek() {
            Some(b'{') => {
                self.skip()?;
                Ok(Value::Object(self.since(start).ok_or(Malformed)?))
            }
            Some(b'[') => {
                self.skip()?;
                Ok(Value::List(self.since(start).ok_or(Malformed)?))
            }
            _ => self.scalar(),
        }
    }

    fn scalar(&mut self) -> Result<Value<'a>, Malformed> {
        match self.peek().ok_or(Malformed)? {
            b'"' => self.string().map(Value::Text),
            b't' => self.word(b"true").map(|()| Value::Bool(true)),
            b'f' => self.word(b"false").map(|()| Value::Bool(false)),
            b'n' => self.word(b"null").map(|()| Value::Null),
            _ => self.number().map(Value::Number),
        }
    }

    /// A number, not held to every rule: whoever needs its value looks closer.
    fn number(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.at;
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Err(Malformed);
        }
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.bump();
        }
        self.since(start).ok_or(Malformed)
    }

    pub(super) fn string(&mut self) -> Result<Text<'a>, Malformed> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.bump();
                    self.escape()?;
                }
                Some(b' '..) => {
                    self.bump();
                }
                _ => return Err(Malformed),
            }
        }
        let text = self.since(start).ok_or(Malformed)?;
        self.bump();
        Ok(Text(text))
    }

    /// What the escape behind a backslash stands for: a UTF-16 unit.
    pub(super) fn escape(&mut self) -> Result<u32, Malformed> {
        let byte = match self.bump().ok_or(Malformed)? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut unit = 0_u32;
                for _ in 0..4 {
                    let byte = self.bump().ok_or(Malformed)?;
                    let digit = match byte {
                        b'0'..=b'9' => byte & 15,
                        b'a'..=b'f' | b'A'..=b'F' => (byte & 15).wrapping_add(9),
                        _ => return Err(Malformed),
                    };
                    unit = (unit << 4) | u32::from(digit);
                }
                return Ok(unit);
            }
            _ => return Err(Malformed),
        };
        Ok(u32::from(byte))
    }

    /// The low ten bits of the second half of a surrogate pair, if it is next.
    pub(super) fn second_half(&mut self) -> Option<u32> {
        self.expect(b'\\').ok()?;
        let unit = self.escape().ok()?;
        (0xdc00..0xe000).contains(&unit).then_some(unit & 0x3ff)
    }

    /// Passes over an object or a list that is the value of a member: its
    /// first level is the second of the message.
    fn skip(&mut self) -> Result<(), Malformed> {
        let mut depth = 1_usize;
        let mut objects = 0_u64;
        loop {
            self.space();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth >= MAX_DEPTH {
                        return Err(Malformed);
                    }
                    self.bump();
                    depth = depth.wrapping_add(1);
                    let object = open == b'{';
                    objects = (objects << 1) | u64::from(object);
                    self.space();
                    match self.peek() {
                        // An empty one: closed below.
                        Some(b'}') if object => {}
                        Some(b']') if !object => {}
                        _ => {
                            if object {
                                self.name()?;
                            }
                            continue;
                        }
                    }
                }
                _ => {
                    self.scalar()?;
                }
            }
            // Behind a value: up as many levels as end here, or on to the next.
            loop {
                let object = objects & 1 == 1;
                self.space();
                match self.bump() {
                    Some(b'}') if object => {}
                    Some(b']') if !object => {}
                    Some(b',') => {
                        if object {
                            self.space();
                            self.name()?;
                        }
                        break;
                    }
                    _ => return Err(Malformed),
                }
                objects >>= 1;
                depth = depth.saturating_sub(1);
                if depth <= 1 {
                    return Ok(());
                }
            }
        }
    }

    fn name(&mut self) -> Result<(), Malformed> {
        self.string()?;
        self.space();
        self.expect(b':')
    }
}
