//! Byte strings: a JSON string where they are UTF-8, `{"b64":"…"}` where not.
//!
//! Must not: replace a byte, but for [`lossy`], which only a seed-only client
//! gets.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes without a NUL, as they travel in arguments, directories and
/// environments.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text(Vec<u8>);

impl Text {
    /// The bytes, or `None` where one of them is NUL: no string of the kernel's
    /// can hold it, and whoever shows the string would show only half of it.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Text> {
        let bytes = bytes.into();
        (!bytes.contains(&0)).then_some(Text(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Goes on with the rest of a string that was cut in two.
    pub(crate) fn append(&mut self, rest: Text) {
        self.0.extend_from_slice(&rest.0);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Bytes as text for a client that only knows the seed's protocol: what is not
/// UTF-8 becomes U+FFFD.
#[allow(clippy::disallowed_methods, reason = "the one place that the protocol allows it in")]
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes bytes of any value, as a string or as `{"b64":…}`.
pub fn serialize_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry("b64", &STANDARD.encode(bytes))?;
            map.end()
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        let Raw(bytes) = Raw::deserialize(deserializer)?;
        Text::new(bytes).ok_or_else(|| de::Error::custom("a string holds a NUL"))
    }
}

/// Bytes of any value, NUL too: what somebody typed.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct RawVisitor;

        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or {\"b64\":\"…\"}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw(text.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let Some("b64") = map.next_key::<String>()?.as_deref() else {
                    return Err(de::Error::custom(
                        "an object in place of a string must be {\"b64\":…}",
                    ));
                };
                let encoded = map.next_value::<String>()?;
                if map.next_key::<String>()?.is_some() {
                    return Err(de::Error::custom("{\"b64\":…} has no other member"));
                }
                let bytes = STANDARD
                    .decode(encoded)
                    .map_err(|error| de::Error::custom(format_args!("b64: {error}")))?;
                Ok(Raw(bytes))
            }
        }

        deserializer.deserialize_any(RawVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(1u8..=255, 0..200)) {
            let text = Text::new(bytes).unwrap();
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text);
        }
    }

    #[test]
    fn what_is_not_a_string_is_refused() {
        for json in [
            r#""a\u0000b""#,
            r#"{"b64":"AA=="}"#,
            r#"{"b64":"?"}"#,
            r#"{"b65":"YQ=="}"#,
            r#"{"b64":"YQ==","x":1}"#,
            "1",
            "null",
            "[]",
            r#""\ud800""#,
        ] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json}");
        }
    }
}
