//! What client and server agree on to the byte: frames, base64, and the reader
//! and writer of JSON of a client without an allocator.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tool_wire::frame::{self, Kind};
use tool_wire::json::{self, Form, Object, Text, Value, Writer};
use tool_wire::limits::{MAX_DEPTH, MAX_FRAME, PREFIX};
use tool_wire::{Code, base64 as ours};

use crate::json::{Json, Rules, parse};
use crate::source::Source;

/// A stream of frames: read from its prefixes, and written again the same; their
/// payloads as messages.
pub fn frame(data: &[u8]) {
    let mut rest = data;
    while let Some((prefix, body)) = rest.split_first_chunk::<PREFIX>() {
        let said = prefix.iter().fold(0_u64, |sum, byte| sum * 256 + u64::from(*byte));
        let length = match frame::length(*prefix) {
            Ok(length) => {
                assert!(said >= 1 && said <= MAX_FRAME as u64);
                assert_eq!((length as u64, frame::prefix(length)), (said, Some(*prefix)));
                length
            }
            Err(code) => {
                let expected = if said == 0 { Code::BadFrame } else { Code::FrameTooLarge };
                assert_eq!(code, expected);
                assert!(said == 0 || said > MAX_FRAME as u64);
                return;
            }
        };
        let Some((payload, behind)) = body.split_at_checked(length) else { return };
        payload_of(payload);
        crate::message::one(payload);
        rest = behind;
    }
}

fn payload_of(payload: &[u8]) {
    match frame::split(payload) {
        Ok((Kind::Json, content)) => assert!(content == payload && payload.starts_with(b"{")),
        Ok((kind, content)) => {
            assert!(matches!(kind.byte(), 0..=2));
            assert_eq!([&[kind.byte()], content].concat(), payload);
        }
        Err(code) => {
            assert_eq!(code, Code::BadFrame);
            assert!(!matches!(payload.first(), Some(0..=2 | b'{')));
        }
    }
    let mut place = vec![b'.'; payload.len() / 2 + 1];
    let fits = payload.len() <= place.len();
    assert_eq!(frame::copy(payload, &mut place), fits);
    assert!(if fits { place.starts_with(payload) } else { place.iter().all(|b| *b == b'.') });
}

/// As the base64 crate has it, in both directions, in places of any size.
pub fn base64(data: &[u8]) {
    let mut source = Source::new(data);
    let spare = source.below(9);
    let data = source.rest();

    let expected = STANDARD.encode(data);
    let mut out = vec![0; expected.len() + spare];
    assert_eq!(ours::encoded_len(data.len()), expected.len());
    assert_eq!(ours::encode(data, &mut out), Some(expected.len()));
    assert!(out.starts_with(expected.as_bytes()));
    if let Some(short) = expected.len().checked_sub(1) {
        assert_eq!(ours::encode(data, &mut vec![0; short]), None);
    }
    decodes(expected.as_bytes(), spare);
    decodes(data, spare);
}

fn decodes(text: &[u8], spare: usize) {
    let expected = STANDARD.decode(text).ok();
    let mut out = vec![0; text.len() + spare];
    assert_eq!(ours::decode(text, &mut out), expected.as_deref());
    let mut place = text.to_vec();
    let count = ours::decode_in_place(&mut place);
    assert_eq!(count.and_then(|count| place.get(..count)), expected.as_deref());
}

/// The reader, beside a naive one and beside `serde_json`.
pub fn json_reader(data: &[u8]) {
    read_as(data, MAX_DEPTH);
    // What a strict reader takes for an object, this one does too.
    if let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(data)
        && json::depth_within(data, MAX_DEPTH)
    {
        let mut object = Object::new(data).expect("an object");
        let mut count = 0;
        while let Some((_, value)) = object.next_member().expect("a member") {
            count += 1;
            if let Value::Number(number) = value {
                assert!(serde_json::from_slice::<serde_json::Number>(number).is_ok());
            }
        }
        assert!(count >= members.len());
    }
    if let Some(value) = parse(data, Rules::Lax, 2000) {
        for max in [0, 1, 2, MAX_DEPTH, MAX_DEPTH + 1, 2000] {
            assert_eq!(json::depth_within(data, max), depth(&value) <= max, "{max} deep");
        }
    }
}

fn depth(value: &Json) -> usize {
    match value {
        Json::List(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Json::Object(members) => 1 + members.iter().map(|(_, one)| depth(one)).max().unwrap_or(0),
        _ => 0,
    }
}

/// The reader takes for an object what the naive one does, and finds the same.
fn read_as(text: &[u8], deepest: usize) {
    let expected = match parse(text, Rules::Lax, deepest) {
        Some(Json::Object(members)) => Some(members),
        _ => None,
    };
    let members = match Object::new(text) {
        Ok(object) => members(object),
        Err(_) => None,
    };
    let (members, expected) = match (members, expected) {
        (Some(members), Some(expected)) => (members, expected),
        (found, expected) => {
            assert_eq!(found.is_some(), expected.is_some(), "one of two readers takes it");
            return;
        }
    };
    assert_eq!(members.len(), expected.len());
    for ((name, value), (wanted, known)) in members.into_iter().zip(&expected) {
        same_text(name, wanted);
        same(value, known, deepest);
    }
}

fn members(mut object: Object<'_>) -> Option<Vec<(Text<'_>, Value<'_>)>> {
    let mut all = Vec::new();
    loop {
        match object.next_member() {
            Ok(Some(member)) => all.push(member),
            Ok(None) => break,
            Err(_) => return None,
        }
    }
    assert_eq!(object.next_member(), Ok(None));
    Some(all)
}

fn same(value: Value<'_>, known: &Json, deepest: usize) {
    let mut written = 0;
    match (value, known) {
        (Value::Null, Json::Null) => {}
        (Value::Bool(value), Json::Bool(known)) => assert_eq!(value, *known),
        (Value::Number(number), Json::Number(known)) => {
            assert_eq!(number, known);
            let whole = known.strip_prefix(b"-").unwrap_or(known);
            let whole = !whole.is_empty() && whole.iter().all(u8::is_ascii_digit);
            let fits = |number: &i128| number.unsigned_abs() <= i64::MAX.unsigned_abs().into();
            let expected = known_integer(known).filter(|number| whole && fits(number));
            assert_eq!(value.integer().map(i128::from), expected);
        }
        (Value::Text(text), Json::Text(known)) => {
            written = known.len();
            same_text(text, known);
        }
        (Value::List(list), Json::List(known)) => {
            let again = parse(list, Rules::Lax, deepest);
            assert_eq!(again.as_ref(), Some(&Json::List(known.clone())));
        }
        (Value::Object(text), Json::Object(_)) => {
            written = text.len();
            assert_eq!(parse(text, Rules::Lax, deepest).as_ref(), Some(known));
            read_as(text, deepest);
        }
        (value, known) => panic!("{value:?} is not {known:?}"),
    }
    let expected = match known {
        Json::Text(known) => Some(known.clone()),
        Json::Object(members) => match members.as_slice() {
            [(name, Json::Text(text))] if name == b"b64" => STANDARD.decode(text).ok(),
            _ => None,
        },
        _ => None,
    };
    let mut out = vec![0; written];
    assert_eq!(value.bytes(&mut out), expected.as_deref());
}

fn known_integer(text: &[u8]) -> Option<i128> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn same_text(text: Text<'_>, known: &[u8]) {
    let mut joined = Vec::new();
    for piece in text.pieces() {
        joined.extend_from_slice(piece.bytes(&mut [0; 4]));
    }
    assert_eq!(joined, known);
    assert!(text.is_bytes(known));
    assert!(!text.is_bytes(&[known, b"x"].concat()));
    let mut exact = vec![0; known.len()];
    assert_eq!(text.decode(&mut exact), Some(known));
    if let Some(short) = known.len().checked_sub(1) {
        assert!(!text.is_bytes(&known[..short]));
        assert_eq!(text.decode(&mut vec![0; short]), None);
    }
}

/// Strings of any bytes, whole and in pieces of any room, come back.
pub fn json_writer(data: &[u8]) {
    let mut source = Source::new(data);
    let room = source.below(400);
    let size = source.below(600);
    let number = u32::from_be_bytes([source.byte(), source.byte(), source.byte(), source.byte()]);
    let bytes = source.rest();
    let form = Form::of(bytes);
    assert_eq!(form == Form::Text, std::str::from_utf8(bytes).is_ok());

    let mut whole = vec![0; bytes.len() * 6 + Writer::EMPTY_STRING + 2];
    let mut writer = Writer::new(&mut whole);
    writer.string(bytes);
    assert!(!writer.overflowed());
    assert_eq!(string_of(writer.written()), bytes);
    let length = writer.len();

    // In a place that may be too small it is there whole, or not at all.
    let mut place = vec![0; size];
    let mut writer = Writer::new(&mut place);
    writer.number(number);
    let before = writer.len();
    assert!(writer.overflowed() || writer.written() == number.to_string().as_bytes());
    writer.string(bytes);
    assert!(writer.len() <= size);
    let fits = before + length <= size && before > 0;
    assert!(writer.overflowed() || fits);
    assert_eq!(writer.len(), if writer.overflowed() { before } else { before + length });

    let mut joined = Vec::new();
    while joined.len() < bytes.len() {
        let mut place = vec![0; size];
        let mut writer = Writer::new(&mut place);
        let left = &bytes[joined.len()..];
        let taken = writer.piece(left, form, room);
        assert!(taken <= left.len() && writer.len() <= room.min(size));
        if room.min(size) < Writer::EMPTY_STRING {
            assert!(taken == 0 && writer.overflowed() && writer.is_empty());
            return;
        }
        assert!(!writer.overflowed());
        let back = string_of(writer.written());
        assert_eq!(back, left[..taken]);
        assert!(form == Form::Base64 || std::str::from_utf8(&back).is_ok());
        if taken == 0 {
            // Not even one character, or three bytes, have that much room.
            assert!(room.min(size) < Writer::EMPTY_STRING + 6);
            return;
        }
        joined.extend(back);
    }
}

/// What `serde_json` and this crate's reader make of a string of the protocol.
fn string_of(text: &[u8]) -> Vec<u8> {
    let strict = match serde_json::from_slice(text).expect("JSON") {
        serde_json::Value::String(text) => text.into_bytes(),
        serde_json::Value::Object(members) if members.len() == 1 => {
            STANDARD.decode(members["b64"].as_str().expect("a string")).expect("base64")
        }
        other => panic!("no string: {other}"),
    };
    let message = [b"{\"a\":", text, b"}"].concat();
    let mut object = Object::new(&message).expect("an object");
    let (name, value) = object.next_member().expect("a member").expect("a member");
    assert!(name.is("a") && object.next_member() == Ok(None));
    assert_eq!(value.bytes(&mut vec![0; message.len()]), Some(strict.as_slice()));
    strict
}
