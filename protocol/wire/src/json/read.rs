//! Reading one JSON object, member by member, from borrowed bytes.
//!
//! A value that nobody asked for is skipped, checked for its grammar, at most
//! 64 deep. Strings are decoded piece by piece; a lone surrogate becomes
//! U+FFFD. Bytes over 0x7f are handed on as they are: whether they are UTF-8
//! is the question of whoever prints them.

use crate::limits::MAX_DEPTH;
use crate::{base64, frame};

// One bit of a u64 remembers for each level whether it is an object.
const _: () = assert!(MAX_DEPTH <= 64);

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
        let mut text = Cursor { text, at: 0 };
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
        Pieces(Cursor { text: self.0, at: 0 })
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
            at = at.saturating_add(bytes.len());
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
                        0x1_0000_u32.saturating_add(((unit & 0x3ff) << 10) | second)
                    }
                    None => unit,
                }
            }
            other => other,
        };
        Some(Piece::Escape(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

/// A position in the text.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at = self.at.saturating_add(1);
        Some(byte)
    }

    fn since(&self, start: usize) -> Option<&'a [u8]> {
        self.text.get(start..self.at)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.bump() == Some(byte) { Ok(()) } else { Err(Malformed) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.bump();
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Malformed> {
        word.iter().try_for_each(|byte| self.expect(*byte))
    }

    fn value(&mut self) -> Result<Value<'a>, Malformed> {
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

    fn string(&mut self) -> Result<Text<'a>, Malformed> {
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
    fn escape(&mut self) -> Result<u32, Malformed> {
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
    fn second_half(&mut self) -> Option<u32> {
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
                    depth = depth.saturating_add(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads every member; what each is, for comparing.
    fn members(text: &[u8]) -> Result<Vec<(Vec<u8>, Value<'_>)>, Malformed> {
        let mut object = Object::new(text)?;
        let mut found = Vec::new();
        while let Some((name, value)) = object.next_member()? {
            found.push((name.decode(&mut [0; 65_536]).unwrap().to_vec(), value));
        }
        assert_eq!(object.next_member(), Ok(None), "ended stays ended");
        Ok(found)
    }

    /// The string value of the only member.
    fn only(text: &[u8]) -> Vec<u8> {
        let found = members(text).unwrap();
        assert_eq!(found.len(), 1);
        let mut out = vec![0; text.len()];
        found[0].1.bytes(&mut out).unwrap().to_vec()
    }

    #[test]
    fn members_of_every_kind_in_any_order_with_any_space() {
        let text = b" \t{ \"exit_code\" : 3 ,\r\n\"a\":\"x\\ny\",\"b\":true,\"c\":false,\"d\":null,
            \"e\":-1.5e+3,\"f\":{\"g\":[1,{\"h\":[]},{}]},\"i\":[ ] , \"j\":{ } }\n";
        let found = members(text).unwrap();
        let names: Vec<&[u8]> = found.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, [&b"exit_code"[..], b"a", b"b", b"c", b"d", b"e", b"f", b"i", b"j"]);
        assert_eq!(found[0].1.integer(), Some(3));
        assert!(matches!(found[1].1, Value::Text(text) if text.is("x\ny") && !text.is("x\n")));
        assert_eq!(found[2].1, Value::Bool(true));
        assert_eq!(found[3].1, Value::Bool(false));
        assert_eq!(found[4].1, Value::Null);
        assert_eq!(found[5].1, Value::Number(b"-1.5e+3"));
        assert_eq!(found[5].1.integer(), None);
        assert_eq!(found[6].1, Value::Object(b"{\"g\":[1,{\"h\":[]},{}]}"));
        assert_eq!(found[7].1, Value::List(b"[ ]"));
        assert_eq!(found[8].1, Value::Object(b"{ }"));
        assert!(members(b"{}").unwrap().is_empty());
    }

    #[test]
    fn strings_and_escapes() {
        assert_eq!(only(br#"{"a":"\"\\\/\b\f\n\r\t"}"#), b"\"\\/\x08\x0c\n\r\t");
        assert_eq!(only(br#"{"a":"\u0041\u00e9\u20AC\u0000"}"#), "Aé€\0".as_bytes());
        assert_eq!(only(br#"{"a":"\ud83d\ude00!"}"#), "\u{1f600}!".as_bytes());
        assert_eq!(only(br#"{"a":"\uDBFF\uDFFF"}"#), "\u{10ffff}".as_bytes());
        assert_eq!(only(br#"{"a":"\ud800\udc00"}"#), "\u{10000}".as_bytes());
        assert_eq!(only(br#"{"a":{"b64":"AP8="}}"#), b"\0\xff");
        assert_eq!(only(br#"{"a":{ "b64" : "\u002b\/+\/" }}"#), b"\xfb\xff\xbf");
        // An escaped name is the same name.
        assert!(members(br#"{"\u0061":1}"#).unwrap()[0].0 == b"a");
        // Bytes that are not UTF-8 are handed on.
        assert_eq!(only(b"{\"a\":\"\xff\"}"), b"\xff");
    }

    #[test]
    fn lone_surrogates_become_the_replacement_character() {
        let r = "\u{fffd}";
        for (text, expected) in [
            (r"\ud83d", r.to_string()),
            (r"\ude00", r.to_string()),
            (r"\ud83dx", format!("{r}x")),
            (r"\ud83d\n", format!("{r}\n")),
            (r"\ud83d\ud83d\ude00", format!("{r}\u{1f600}")),
            (r"\ude00\ud83d", format!("{r}{r}")),
            (r"\ud83d\u0041", format!("{r}A")),
        ] {
            assert_eq!(only(format!("{{\"a\":\"{text}\"}}").as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn every_byte_value_as_python_writes_it() {
        for byte in 0..=255u32 {
            let text = format!("{{\"a\": \"\\u{byte:04x}\"}}");
            let expected = char::from_u32(byte).unwrap().to_string();
            assert_eq!(only(text.as_bytes()), expected.as_bytes());
        }
        for byte in 0..=255u8 {
            let text = [b"{\"a\":\"x", &[byte][..], b"y\"}"].concat();
            let plain = byte >= b' ' && byte != b'"' && byte != b'\\';
            assert_eq!(members(&text).is_ok(), plain, "{byte}");
        }
    }

    #[test]
    fn what_is_not_one_object_is_malformed() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[]",
            "1",
            "\"a\"",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1}x",
            "{\"a\":1}{}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":e1}",
            "{\"a\":NaN}",
            "{\"a\":Infinity}",
            "{\"a\":tru}",
            "{\"a\":nul}",
            "{\"a\":[1,]}",
            "{\"a\":[,]}",
            "{\"a\":[1 2]}",
            "{\"a\":[}",
            "{\"a\":[}]}",
            "{\"a\":{]}}",
            "{\"a\":{\"b\"}}",
            "{\"a\":{\"b\":1,}}",
            "{\"a\":{1:2}}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12g4\"}",
            "{\"a\":\"\\u12\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":[\"\\q\"]}",
            "{\"a\":[{}{}]}",
            "{\"a\":[[]",
        ] {
            assert_eq!(members(text.as_bytes()), Err(Malformed), "{text}");
        }
        for text in [r#"{"b64":1}"#, r#"{"b64":"A"}"#, r#"{"x":""}"#, r#"{"b64":"","x":1}"#, "{}"] {
            assert_eq!(Value::Object(text.as_bytes()).bytes(&mut [0; 64]), None, "{text}");
        }
        assert_eq!(Value::Null.bytes(&mut [0; 4]), None);
    }

    #[test]
    fn a_text_cut_anywhere_is_malformed_and_never_panics() {
        let text = br#"{"exit_code": 0, "stdout": "a\u00e9\ud83d\ude00\n", "x": {"y": [1, {"z": null}, true]},
            "stderr": {"b64": "AP8="}, "duration_ms": 1.5e3}"#;
        assert!(members(text).is_ok());
        for end in 0..text.len() {
            assert_eq!(members(&text[..end]), Err(Malformed), "{end}");
        }
        // Nor does it panic if any one byte is another.
        for at in 0..text.len() {
            for byte in 0..=255 {
                let mut other = text.to_vec();
                other[at] = byte;
                for (_, value) in members(&other).unwrap_or_default() {
                    let _ = value.bytes(&mut [0; 16]);
                    let _ = value.integer();
                }
            }
        }
    }

    #[test]
    fn depth_at_its_edges() {
        for depth in [1, 2, 63, 64, 65, 66, 100_000] {
            let inner = depth - 1;
            let lists =
                [b"{\"a\":".to_vec(), b"[".repeat(inner), b"]".repeat(inner), b"}".to_vec()];
            let mut lists = lists.concat();
            if inner == 0 {
                lists = b"{}".to_vec();
            }
            assert_eq!(members(&lists).is_ok(), depth <= 64, "{depth}");
            assert_eq!(super::super::depth_within(&lists, 64), depth <= 64, "{depth}");
            let objects = [b"{\"a\":".repeat(inner), b"{}".to_vec(), b"}".repeat(inner)].concat();
            assert_eq!(members(&objects).is_ok(), depth <= 64, "{depth}");
            let mixed = [
                b"{\"a\":[".repeat(inner / 2),
                if inner % 2 == 0 { b"{}".to_vec() } else { b"{\"a\":[]}".to_vec() },
                b"]}".repeat(inner / 2),
            ];
            assert_eq!(members(&mixed.concat()).is_ok(), depth <= 64, "{depth}");
        }
    }

    #[test]
    fn integers_at_their_edges() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-15", Some(-15)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e400", None),
            ("1.0", None),
            ("-", None),
            ("1-1", None),
        ] {
            assert_eq!(Value::Number(text.as_bytes()).integer(), expected, "{text}");
        }
        assert_eq!(Value::Null.integer(), None);
    }

    #[test]
    fn a_buffer_that_is_too_short_is_refused() {
        let found = members(br#"{"a":"abc\n"}"#).unwrap();
        for size in 0..6 {
            assert_eq!(found[0].1.bytes(&mut vec![0; size]).is_some(), size >= 4);
        }
    }
}
