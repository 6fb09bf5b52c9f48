//! JSON, naively: recursive, with copies. What the readers of the project are
//! compared with.

use std::collections::HashSet;

/// Any value; strings are decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// As it is written.
    Number(Vec<u8>),
    Text(Vec<u8>),
    List(Vec<Json>),
    Object(Vec<(Vec<u8>, Json)>),
}

/// How exactly the grammar is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// RFC 8259.
    Strict,
    /// As a client reads what its server says: any run of a number's characters
    /// is one, strings may hold bytes that are no UTF-8, half a surrogate pair
    /// is U+FFFD.
    Lax,
}

/// A text that is one value, nested at most `depth` deep.
pub fn parse(text: &[u8], rules: Rules, depth: usize) -> Option<Json> {
    let mut parser = Parser { text, rules };
    parser.space();
    let value = parser.value(depth)?;
    parser.space();
    parser.text.is_empty().then_some(value)
}

impl Json {
    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        members.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value)
    }

    /// Whether no object in it has a member twice.
    pub fn no_member_twice(&self) -> bool {
        match self {
            Json::List(list) => list.iter().all(Json::no_member_twice),
            Json::Object(members) => {
                let mut seen = HashSet::new();
                members.iter().all(|(name, value)| seen.insert(name) && value.no_member_twice())
            }
            _ => true,
        }
    }

    /// Whether every number in it is a whole one that fits 64 bits: others may
    /// be too large for some readers.
    pub fn numbers_fit(&self) -> bool {
        match self {
            Json::Number(_) => self.integer().is_some(),
            Json::List(list) => list.iter().all(Json::numbers_fit),
            Json::Object(members) => members.iter().all(|(_, value)| value.numbers_fit()),
            _ => true,
        }
    }

    /// A whole number without a fraction or exponent.
    pub fn integer(&self) -> Option<i128> {
        let Json::Number(text) = self else { return None };
        let number: i128 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
    }
}

struct Parser<'a> {
    text: &'a [u8],
    rules: Rules,
}

impl Parser<'_> {
    fn space(&mut self) {
        while let Some((b' ' | b'\t' | b'\n' | b'\r', rest)) = self.text.split_first() {
            self.text = rest;
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text = self.text.strip_prefix(word)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        match self.text.first()? {
            b'n' => self.word(b"null").map(|()| Json::Null),
            b't' => self.word(b"true").map(|()| Json::Bool(true)),
            b'f' => self.word(b"false").map(|()| Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' => {
                let mut list = Vec::new();
                self.items(b"[", b"]", depth, |parser, depth| {
                    list.push(parser.value(depth)?);
                    Some(())
                })?;
                Some(Json::List(list))
            }
            b'{' => {
                let mut members = Vec::new();
                self.items(b"{", b"}", depth, |parser, depth| {
                    let name = parser.string()?;
                    parser.space();
                    parser.word(b":")?;
                    parser.space();
                    members.push((name, parser.value(depth)?));
                    Some(())
                })?;
                Some(Json::Object(members))
            }
            _ => self.number(),
        }
    }

    fn items(
        &mut self,
        open: &[u8],
        close: &[u8],
        depth: usize,
        mut item: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.word(open)?;
        self.space();
        if self.word(close).is_some() {
            return Some(());
        }
        loop {
            self.space();
            item(self, depth)?;
            self.space();
            if self.word(close).is_some() {
                return Some(());
            }
            self.word(b",")?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let of_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.text.iter().take_while(of_number).count();
        let (number, rest) = self.text.split_at(length);
        let begins = matches!(number.first()?, b'-' | b'0'..=b'9');
        if !begins || self.rules == Rules::Strict && !is_number(number) {
            return None;
        }
        self.text = rest;
        Some(Json::Number(number.to_vec()))
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        self.word(b"\"")?;
        let mut bytes = Vec::new();
        loop {
            let (byte, rest) = self.text.split_first()?;
            self.text = rest;
            match byte {
                b'"' => break,
                b'\\' => {
                    let character = self.escape()?;
                    bytes.extend(character.to_string().into_bytes());
                }
                0..0x20 => return None,
                byte => bytes.push(*byte),
            }
        }
        if self.rules == Rules::Strict && std::str::from_utf8(&bytes).is_err() {
            return None;
        }
        Some(bytes)
    }

    fn escape(&mut self) -> Option<char> {
        let (byte, rest) = self.text.split_first()?;
        self.text = rest;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(*byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let before = self.text;
                let second = self.word(b"\\u").and_then(|()| self.unit());
                let pair = [Some(first), second].into_iter().flatten();
                match char::decode_utf16(pair).next()? {
                    Ok(character) => {
                        if !(0xd800..0xdc00).contains(&first) {
                            self.text = before;
                        }
                        character
                    }
                    Err(_) if self.rules == Rules::Lax => {
                        self.text = before;
                        char::REPLACEMENT_CHARACTER
                    }
                    Err(_) => return None,
                }
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = std::str::from_utf8(self.text.get(..4)?).ok()?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let unit = u16::from_str_radix(digits, 16).ok().filter(|_| plain)?;
        self.text = &self.text[4..];
        Some(unit)
    }
}

/// `-? (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?`
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &mut &[u8]| {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *text = &text[count..];
        count
    };
    let mut text = text.strip_prefix(b"-").unwrap_or(text);
    let zero = text.starts_with(b"0");
    let count = digits(&mut text);
    if count == 0 || zero && count > 1 {
        return false;
    }
    if let Some(rest) = text.strip_prefix(b".") {
        text = rest;
        if digits(&mut text) == 0 {
            return false;
        }
    }
    if let Some((b'e' | b'E', rest)) = text.split_first() {
        text = rest;
        if let Some((b'+' | b'-', rest)) = text.split_first() {
            text = rest;
        }
        if digits(&mut text) == 0 {
            return false;
        }
    }
    text.is_empty()
}
