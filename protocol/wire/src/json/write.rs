//! Writing JSON into a buffer that somebody else owns.

use crate::{base64, frame};

/// How a string is written: decided once for the whole of it, so that its
/// pieces in several messages are written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON string: the bytes are UTF-8.
    Text,
    /// `{"b64":"…"}`: they are not.
    Base64,
}

impl Form {
    /// The form that these bytes need.
    pub fn of(bytes: &[u8]) -> Form {
        if is_utf8(bytes) { Form::Text } else { Form::Base64 }
    }
}

/// Whether the bytes are UTF-8. What core has for that is faster on long texts,
/// and more than twice the size.
fn is_utf8(bytes: &[u8]) -> bool {
    // How many bytes of a character are still to come, and the next one's bounds.
    let (mut left, mut low, mut high) = (0_u8, 0x80, 0xbf);
    for byte in bytes {
        let byte = *byte;
        if left > 0 {
            if byte < low || byte > high {
                return false;
            }
            left = left.wrapping_sub(1);
            (low, high) = (0x80, 0xbf);
            continue;
        }
        match byte {
            0..0x80 => {}
            0xc2..0xe0 => left = 1,
            0xe0..0xf0 => left = 2,
            0xf0..0xf5 => left = 3,
            _ => return false,
        }
        // No overlong spellings, no surrogates, nothing over U+10FFFF.
        match byte {
            0xe0 => low = 0xa0,
            0xed => high = 0x9f,
            0xf0 => low = 0x90,
            0xf4 => high = 0x8f,
            _ => {}
        }
    }
    left == 0
}

const B64_OPEN: &[u8] = b"{\"b64\":\"";
const B64_CLOSE: &[u8] = b"\"}";

/// The most that one character of a string can become: `\u001f`.
const WIDEST: usize = 6;

/// JSON, written piece by piece. What does not fit is left out whole and
/// remembered: see [`Writer::overflowed`].
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    /// The most bytes that an empty string takes, in either form.
    pub const EMPTY_STRING: usize = B64_OPEN.len() + B64_CLOSE.len();

    /// Writes from the start of `out`.
    pub fn new(out: &'a mut [u8]) -> Writer<'a> {
        Writer { out, at: 0, overflowed: false }
    }

    /// How many bytes are written.
    pub fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing is written yet.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// How many more bytes fit.
    pub fn room(&self) -> usize {
        self.out.len().saturating_sub(self.at)
    }

    /// Whether something did not fit.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// What is written so far.
    pub fn written(&self) -> &[u8] {
        self.out.get(..self.at).unwrap_or_default()
    }

    /// The same, to fill in what was not known when it was written.
    pub fn written_mut(&mut self) -> &mut [u8] {
        self.out.get_mut(..self.at).unwrap_or_default()
    }

    /// The space behind what is written, for bytes that come from elsewhere;
    /// [`Writer::advance`] then takes them in.
    pub fn spare(&mut self) -> &mut [u8] {
        self.out.get_mut(self.at..).unwrap_or_default()
    }

    /// Takes in the first `count` bytes of [`Writer::spare`] as they are.
    pub fn advance(&mut self, count: usize) {
        if count <= self.room() {
            self.at = self.at.wrapping_add(count);
        } else {
            self.overflowed = true;
        }
    }

    /// Starts again at the beginning of the buffer.
    pub fn clear(&mut self) {
        self.at = 0;
        self.overflowed = false;
    }

    /// Writes bytes as they are: punctuation and names of members.
    pub fn raw(&mut self, bytes: &[u8]) {
        if frame::copy(bytes, self.spare()) {
            self.at = self.at.wrapping_add(bytes.len());
        } else {
            self.overflowed = true;
        }
    }

    /// Writes a number.
    pub fn number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let mut rest = number;
        let mut first = digits.len();
        for place in digits.iter_mut().rev() {
            let [.., digit] = (rest % 10).to_be_bytes();
            *place = b'0' | digit;
            rest /= 10;
            first = first.saturating_sub(1);
            if rest == 0 {
                break;
            }
        }
        self.raw(digits.get(first..).unwrap_or_default());
    }

    /// Writes a whole string, in the form that its bytes need.
    pub fn string(&mut self, bytes: &[u8]) {
        let before = self.at;
        if self.piece(bytes, Form::of(bytes), self.room()) < bytes.len() {
            self.at = before;
            self.overflowed = true;
        }
    }

    /// Writes as much from the start of `bytes` as one string of at most `room`
    /// bytes can hold, and returns how many bytes that is. The string is
    /// complete in itself and, as text, ends where a character ends. `room` must
    /// be at least [`Writer::EMPTY_STRING`], else nothing is written.
    pub fn piece(&mut self, bytes: &[u8], form: Form, room: usize) -> usize {
        let room = room.min(self.room());
        if room < Self::EMPTY_STRING {
            self.overflowed = true;
            return 0;
        }
        match form {
            Form::Text => self.text_piece(bytes, room),
            Form::Base64 => self.base64_piece(bytes, room),
        }
    }

    fn text_piece(&mut self, bytes: &[u8], room: usize) -> usize {
        // One byte is kept for the closing quote.
        let end = self.at.wrapping_add(room).saturating_sub(1);
        self.raw(b"\"");
        let mut taken = 0_usize;
        for byte in bytes {
            // Only where a character starts may the string end. The widest
            // character of UTF-8 has four bytes, the widest escape six.
            let starts = byte & 0b1100_0000 != 0b1000_0000;
            if starts && end.saturating_sub(self.at) < self.width(*byte) {
                break;
            }
            self.character(*byte);
            taken = taken.wrapping_add(1);
        }
        self.raw(b"\"");
        taken
    }

    /// What the character that starts with `byte` takes, or a little more.
    fn width(&self, byte: u8) -> usize {
        match byte {
            b' '..=b'!' | b'#'..=b'[' | b']'..=0x7f => 1,
            0x80.. => 4,
            _ => WIDEST,
        }
    }

    fn character(&mut self, byte: u8) {
        match byte {
            b'"' | b'\\' => self.raw(&[b'\\', byte]),
            b'\n' => self.raw(b"\\n"),
            b'\t' => self.raw(b"\\t"),
            0..=0x1f => {
                let low = byte & 15;
                let digit = if low < 10 { b'0' | low } else { low.wrapping_add(b'a' - 10) };
                self.raw(&[b'\\', b'u', b'0', b'0', b'0' | (byte >> 4), digit]);
            }
            _ => self.raw(&[byte]),
        }
    }

    fn base64_piece(&mut self, bytes: &[u8], room: usize) -> usize {
        let most = base64::bytes_for(room.saturating_sub(Self::EMPTY_STRING));
        let taken = bytes.get(..most).unwrap_or(bytes);
        self.raw(B64_OPEN);
        match base64::encode(taken, self.spare()) {
            Some(count) => self.advance(count),
            None => self.overflowed = true,
        }
        self.raw(B64_CLOSE);
        taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Object, Value};
    use super::*;

    fn written(bytes: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; bytes.len() * 6 + 16];
        let mut writer = Writer::new(&mut buffer);
        writer.string(bytes);
        assert!(!writer.overflowed());
        writer.written().to_vec()
    }

    /// What a reader gets from a string, through the reader of this crate.
    fn read_back(json: &[u8]) -> Vec<u8> {
        let text = [b"{\"a\":", json, b"}"].concat();
        let mut object = Object::new(&text).unwrap();
        let (name, value) = object.next_member().unwrap().unwrap();
        assert!(name.is("a") && object.next_member().unwrap().is_none());
        let mut out = vec![0; json.len()];
        value.bytes(&mut out).unwrap().to_vec()
    }

    #[test]
    fn escapes_are_exact() {
        for (bytes, json) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c/d", r#""a\"b\\c/d""#),
            ("\n\t\r\u{8}\u{c}", r#""\n\t\u000d\u0008\u000c""#),
            ("\u{1f}\u{1}\u{7f}", "\"\\u001f\\u0001\u{7f}\""),
            ("é€\u{1f600}\u{2028}", "\"é€\u{1f600}\u{2028}\""),
        ] {
            assert_eq!(written(bytes.as_bytes()), json.as_bytes());
        }
        assert_eq!(written(b"a\xff"), br#"{"b64":"Yf8="}"#);
        // An overlong form and an encoded surrogate are not UTF-8.
        assert_eq!(written(b"\xc0\x80"), br#"{"b64":"wIA="}"#);
        assert_eq!(written(b"\xed\xa0\x80"), br#"{"b64":"7aCA"}"#);
    }

    #[test]
    fn every_byte_value_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read_back(&written(&all)), all);
        for byte in 0..=255u8 {
            assert_eq!(read_back(&written(&[byte])), [byte]);
            assert_eq!(read_back(&written(&[b'x', byte, b'y'])), [b'x', byte, b'y']);
        }
        for character in (0..=0x0010_ffff_u32).filter_map(char::from_u32) {
            let bytes = character.to_string().into_bytes();
            assert_eq!(Form::of(&bytes), Form::Text);
            if character < '\u{3000}' || u32::from(character) % 97 == 0 {
                assert_eq!(read_back(&written(&bytes)), bytes);
            }
        }
    }

    #[test]
    fn pieces_join_to_the_whole_and_keep_within_their_room() {
        let sample = "a\u{1}\"é€\u{1f600}\\ plain text, \n and more".as_bytes();
        let binary: Vec<u8> = (0..=255).collect();
        for (bytes, form) in [(sample, Form::Text), (&binary[..], Form::Base64)] {
            for room in 17..200 {
                let mut joined = Vec::new();
                while joined.len() < bytes.len() {
                    let mut buffer = [0; 256];
                    let mut writer = Writer::new(&mut buffer);
                    let taken = writer.piece(&bytes[joined.len()..], form, room);
                    assert!(taken > 0 && writer.len() <= room && !writer.overflowed());
                    let back = read_back(writer.written());
                    assert_eq!(back.len(), taken);
                    if form == Form::Text {
                        assert_eq!(Form::of(&back), Form::Text, "cut inside a character");
                    }
                    joined.extend(back);
                }
                assert_eq!(joined, bytes);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_remembered() {
        let long = [b'x'; 64];
        for size in 0..64 {
            let mut buffer = vec![0; size];
            let mut writer = Writer::new(&mut buffer);
            writer.string(&long);
            assert!(writer.overflowed() && writer.is_empty());
            writer.clear();
            writer.raw(&long);
            assert!(writer.overflowed() && writer.is_empty());
            writer.advance(size + 1);
            assert_eq!(writer.len(), 0);
        }
        let mut exact = [0; 66];
        let mut writer = Writer::new(&mut exact);
        writer.string(&long);
        assert!(!writer.overflowed() && writer.room() == 0);
    }

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 18, 255, 511, 65_536, u32::MAX] {
            let mut buffer = [0; 10];
            let mut writer = Writer::new(&mut buffer);
            writer.number(number);
            assert_eq!(writer.written(), number.to_string().as_bytes());
            let text = format!("{{\"n\":{number}}}");
            let (_, value) = Object::new(text.as_bytes()).unwrap().next_member().unwrap().unwrap();
            assert!(matches!(value, Value::Number(_)));
            assert_eq!(value.integer(), Some(i64::from(number)));
        }
    }
}
