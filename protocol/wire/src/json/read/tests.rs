//! The reader against its grammar, against cuts and against random bytes.

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
    let text =
        br#"{"exit_code": 0, "stdout": "a\u00e9\ud83d\ude00\n", "x": {"y": [1, {"z": null}, true]},
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
        let lists = [b"{\"a\":".to_vec(), b"[".repeat(inner), b"]".repeat(inner), b"}".to_vec()];
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
