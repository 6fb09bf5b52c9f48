//! Values in what a tool prints, however they are written and wherever they are cut.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says so by failing"
)]

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;
use tool_gate::credential::Secret;
use tool_gate::redact::{Live, MARK, Scrubber, TooMany, Values};
use zeroize::Zeroizing;

const TOKEN: &[u8] = b"ghp_0a/b+c d\"e\\f<g>%&=\xc3\xa4~0123456789";

fn values(list: &[&[u8]]) -> Arc<Values> {
    Arc::new(Values::new(list.iter().copied()).unwrap().unwrap())
}

fn scrubber(values: &Arc<Values>) -> Scrubber {
    Scrubber::new(Arc::new(Live::new(Vec::new(), Some(Arc::clone(values)))))
}

/// The output, given in these pieces.
fn scrub<'a>(values: &Arc<Values>, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut scrubber = scrubber(values);
    let mut out = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&scrubber.push(Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&scrubber.finish());
    out
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// In one piece, cut at every byte, and byte by byte.
fn every_way(values: &Arc<Values>, input: &[u8], expected: &[u8]) {
    for at in 0..=input.len() {
        let (first, second) = input.split_at(at);
        assert_eq!(text(&scrub(values, [first, second])), text(expected), "cut at {at}");
    }
    assert_eq!(text(&scrub(values, input.chunks(1))), text(expected), "byte by byte");
}

#[test]
fn a_value_is_found_in_all_its_forms_however_output_is_cut() {
    let values = values(&[TOKEN]);
    let string = std::str::from_utf8(TOKEN).unwrap();
    let percent = |upper: bool| -> String {
        let encode = |byte: &u8| match byte {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(b) => char::from(*b).to_string(),
            b if upper => format!("%{b:02X}"),
            b => format!("%{b:02x}"),
        };
        TOKEN.iter().map(encode).collect()
    };
    let json = serde_json::to_string(string).unwrap();
    let json = json.trim_matches('"').to_owned();
    let forms = [
        TOKEN.to_vec(),
        percent(true).into_bytes(),
        percent(false).into_bytes(),
        percent(true).replace("%20", "+").into_bytes(),
        json.clone().into_bytes(),
        json.replace('/', "\\/").into_bytes(),
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").into_bytes(),
        json.replace('ä', "\\u00e4").into_bytes(),
        TOKEN.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes(),
    ];
    for form in forms {
        let input = [b"before \xff\0", &form[..], b" after\n"].concat();
        every_way(&values, &input, b"before \xff\0[redacted] after\n");
        // At either end, and twice.
        every_way(&values, &[&form[..], &form].concat(), b"[redacted][redacted]");
    }
}

#[test]
fn a_value_in_base64_is_found_wherever_it_begins() {
    let values = values(&[TOKEN]);
    for before in 0..6 {
        for after in 0..4 {
            let whole = [&b"user:"[..before.min(5)], TOKEN, &b"\nxyz"[..after]].concat();
            for digits in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
                let input = format!("Authorization: Basic {digits}\r\n");
                let out = text(&scrub(&values, input.as_bytes().chunks(7)));
                assert!(out.starts_with("Authorization: Basic "), "{out}");
                // Three digits before it and after it at most are told by others too.
                let kept = out.replace("[redacted]", "").len();
                let most = "Authorization: Basic \\r\\n".len()
                    + (before.min(5) + after).div_ceil(3) * 4
                    + 4;
                assert!(out.contains("[redacted]") && kept <= most, "{before} {after}: {out}");
                every_way(&values, input.as_bytes(), &scrub(&values, [input.as_bytes()]));
            }
        }
    }
    let long = [b'k'; 93];
    let values = Arc::new(Values::new([&long[..]]).unwrap().unwrap());
    let digits = STANDARD.encode(long);
    for width in [64, 76] {
        let lines: Vec<&str> = digits
            .as_bytes()
            .chunks(width)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        assert_eq!(text(&scrub(&values, [lines.join("\n").as_bytes()])), "[redacted]");
    }
}

#[test]
fn values_that_share_bytes_leave_none_of_them() {
    let values = values(&[b"abcdefgh", b"efghijkl", b"abcdefghXY", b"aaaaaaaa"]);
    every_way(&values, b"-abcdefghijkl-", b"-[redacted]-");
    every_way(&values, b"-abcdefghXY-", b"-[redacted]-");
    every_way(&values, b"-abcdefghX-", b"-[redacted]X-");
    every_way(&values, b"-abcdefghXefghijkl-", b"-[redacted]X[redacted]-");
    every_way(&values, b"aaaaaaaaaaaaaaaaaaaaaa!", b"[redacted]!");
    every_way(&values, b"abcdefabcdefgh!", b"abcdef[redacted]!");
    every_way(&values, b"aaaaaaa!aaaa", b"aaaaaaa!aaaa");
}

/// Against a plain way to find them, on what is easily mistaken.
#[test]
fn no_cut_of_what_resembles_values_changes_what_comes_out() {
    let list: [&[u8]; 3] = [b"ababac", b"babacab", b"acabab"];
    let values = values(&list);
    let mut state = 7_u32;
    for _ in 0..300 {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let input: Vec<u8> = (0..60).map(|_| b"aabbc"[next() as usize % 5]).collect();
        let mut covered = vec![false; input.len()];
        for value in list {
            for (at, window) in input.windows(value.len()).enumerate() {
                if window == value {
                    covered[at..at + value.len()].iter_mut().for_each(|one| *one = true);
                }
            }
        }
        // What is no value stays, and nothing of a value does.
        let plain: Vec<u8> =
            input.iter().zip(&covered).filter(|(_, covered)| !**covered).map(|(b, _)| *b).collect();
        let whole = scrub(&values, [&input[..]]);
        for pieces in [1, 2, 3, 7] {
            let out = scrub(&values, input.chunks(pieces));
            assert_eq!(text(&out), text(&whole));
        }
        let mark = text(MARK);
        // The end may cut one off.
        let out = text(&whole).replace(&mark, "");
        assert!(
            text(&plain).starts_with(&out) && plain.len() - out.len() < 7,
            "{} {out}",
            text(&plain)
        );
    }
}

#[test]
fn the_beginning_of_a_value_is_held_until_it_is_known_what_it_is() {
    let values = values(&[b"0123456789abcdef0123456789abcdef"]);
    let mut scrubber = scrubber(&values);
    let mut push = |piece: &'static [u8]| text(&scrubber.push(Bytes::from_static(piece)));
    assert_eq!(push(b"Password: "), "Password: ");
    assert_eq!(push(b"x0123456789abcde"), "x");
    assert!(scrubber.holds());
    // However long nothing comes.
    assert_eq!(scrubber.quiet(), "");
    assert_eq!(scrubber.push(Bytes::from_static(b"!")), "0123456789abcde!");
    // A few bytes are shown, so that typing is seen, and they still count.
    for (piece, shown) in [("0", "0"), ("1", "1"), ("2", "2"), ("3", ""), ("4", "")] {
        assert_eq!(scrubber.push(Bytes::from(piece)), "");
        assert_eq!(scrubber.quiet(), shown);
    }
    assert_eq!(scrubber.push(Bytes::from_static(b"56789abcdef0123456789abcdef.")), "[redacted].");
    assert_eq!(scrubber.push(Bytes::from_static(b"01")), "");
    assert_eq!(scrubber.quiet(), "01");
    assert!(!scrubber.holds());
    assert_eq!(scrubber.push(Bytes::from_static(b"x")), "x");
    assert_eq!(scrubber.finish(), "");
}

#[test]
fn a_value_that_the_end_cuts_off_is_not_shown() {
    let values = values(&[b"0123456789abcdef"]);
    every_way(&values, b"- 0123456789abcde", b"- [redacted]");
    every_way(&values, b"- 01234567", b"- 01234567");
}

#[test]
fn lines_of_a_key_are_values_and_short_ones_are_not() {
    let key = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\nAAAAC3NzaC1lZDI1NTE5\nabc\n-----END OPENSSH PRIVATE KEY-----\n";
    let values = values(&[key, b"hunter2"]);
    every_way(
        &values,
        b"-----BEGIN\r\nb3BlbnNzaC1rZXktdjE\r\nAAAAC3NzaC1lZDI1NTE5\r\nabc hunter hunter2",
        b"-----BEGIN\r\n[redacted]\r\n[redacted]\r\nabc hunter [redacted]",
    );
    assert!(Values::new([&b""[..], b"short", b"  x  "]).unwrap().is_none());
    assert!(Values::new([&[b'x'; 100_000][..]]).is_err());
}

fn secret(value: &[u8]) -> Secret {
    Secret::new(Zeroizing::new(value.to_vec()))
}

/// A token that is renewed while a call runs.
#[test]
fn a_value_that_is_learned_later_is_taken_out_from_then_on_and_the_first_one_still_is() {
    for first in [None, Some(&b"the-first-of-them"[..])] {
        let known: Vec<Secret> = first.iter().map(|value| secret(value)).collect();
        let values = Values::new(first).unwrap().map(Arc::new);
        let live = Arc::new(Live::new(known, values));
        let mut scrubbers = [(); 2].map(|()| Scrubber::new(Arc::clone(&live)));
        let [one, two] = &mut scrubbers;
        let push = |scrubber: &mut Scrubber, piece: &'static [u8]| {
            text(&scrubber.push(Bytes::from_static(piece)))
        };
        assert_eq!(push(one, b"the-second-of-them "), "the-second-of-them ");
        // In the middle of what may become the first.
        let begun = push(two, b"the-first-");
        assert_eq!(begun, if first.is_some() { "" } else { "the-first-" });
        live.learn(&secret(b"the-second-of-them")).unwrap();
        live.learn(&secret(b"the-second-of-them")).unwrap();
        assert_eq!(push(one, b"the-second-of-them "), "[redacted] ");
        let rest = push(two, b"of-them the-second-");
        assert_eq!(rest, if first.is_some() { "[redacted] " } else { "of-them " });
        assert_eq!(push(two, b"of-them!"), "[redacted]!");
        // Many times.
        for number in 0..50 {
            live.learn(&secret(format!("value-number-{number}").as_bytes())).unwrap();
        }
        let both = push(one, b"the-second-of-them value-number-0 value-number-49\n");
        assert_eq!(both, "[redacted] [redacted] [redacted]\\n");
        assert_eq!(live.learn(&secret(&[b'x'; 100_000])), Err(TooMany));
    }
}
