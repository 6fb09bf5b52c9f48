//! How names and lines are written in an answer, and in which order.
//!
//! Owns: bytes as the protocol writes strings (a string, or `{"b64":…}` where they are not
//! UTF-8), and the order of paths. Must not: replace a byte.

use std::borrow::Cow;
use std::cmp::Ordering;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tool_protocol::Text;
use tool_protocol::text::serialize_bytes;

/// A name or a line: a string, or `{"b64":…}` where it is not UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        Text::deserialize(deserializer).map(|text| Bytes(text.into_bytes()))
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "b64": { "type": "string" } },
                    "required": ["b64"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// What is compared at once of two paths, in bytes.
const PIECE: usize = 8;

/// Paths in the order of their components: what is in a directory comes right after it.
pub fn order(one: &[u8], other: &[u8]) -> Ordering {
    // No name holds a NUL: a slash is less than all that a name may go on with.
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    // Most of two paths is the same: a word at a time first.
    let (words, others) = (one.as_chunks::<PIECE>().0, other.as_chunks::<PIECE>().0);
    let same = words.iter().zip(others).take_while(|(word, other)| word == other).count();
    let rest = |path| <[u8]>::get(path, PIECE * same..).unwrap_or_default();
    let mut both = rest(one).iter().zip(rest(other));
    match both.find(|(a, b)| a != b) {
        None => one.len().cmp(&other.len()),
        Some((a, b)) => rank(*a).cmp(&rank(*b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_followed_by_what_is_in_it() {
        let mut paths: Vec<&[u8]> = vec![b"a.b", b"b", b"a/z", b"a", b"a-", b"a/b/c", b"a/b"];
        paths.sort_by(|a, b| order(a, b));
        let sorted: Vec<&[u8]> = vec![b"a", b"a/b", b"a/b/c", b"a/z", b"a-", b"a.b", b"b"];
        assert_eq!(paths, sorted);
        // Differing at each place of a word, and beyond.
        for before in 0..20 {
            let path = |end: &str| format!("{}{end}", "x".repeat(before)).into_bytes();
            assert_eq!(order(&path("/z"), &path("-a")), Ordering::Less);
            assert_eq!(order(&path("/"), &path("/a")), Ordering::Less);
            assert_eq!(order(&path("b/longer/than/a/word"), &path("a")), Ordering::Greater);
        }
        let long = |end: &str| format!("{}{end}", "long/".repeat(100)).into_bytes();
        assert_eq!(order(&long("a/b"), &long("a.b")), Ordering::Less);
        assert_eq!(order(&long("a"), &long("a/b")), Ordering::Less);
        assert_eq!(order(&long("b"), &long("b")), Ordering::Equal);
    }

    #[test]
    fn bytes_come_back() {
        for bytes in [b"a\nb".to_vec(), vec![0xff, b'a']] {
            let json = serde_json::to_string(&Bytes(bytes.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap().0, bytes);
        }
    }
}
