//! The two messages of a batch, read within bounds.
//!
//! Owns: what is taken of them. Members that nobody needs are passed over as they come
//! and never held; a member that is needed and stands there twice is an error. Must
//! not: hold more than so many objects, however many there are.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// So many objects in one batch; git-lfs has a hundred.
pub(super) const MOST: usize = 1000;

/// A request is no longer.
pub(super) const REQUEST: usize = 256 << 10;

/// Nor an answer, which has a link of a kilobyte or two for each object.
pub(super) const ANSWER: usize = 4 << 20;

/// So many headers may go with a link.
const HEADERS: usize = 32;

/// What git-lfs asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    pub(super) operation: Operation,
    pub(super) objects: Few<Object>,
    #[serde(rename = "ref")]
    pub(super) reference: Option<Reference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Download,
    Upload,
}

#[derive(Debug, Deserialize)]
pub(super) struct Object {
    pub(super) oid: String,
    pub(super) size: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reference {
    pub(super) name: Option<String>,
}

/// What a host answers.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) transfer: Option<String>,
    pub(super) objects: Few<Found>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Found {
    pub(super) oid: String,
    pub(super) error: Option<Fault>,
    pub(super) actions: Option<Actions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    pub(super) code: Option<u64>,
    pub(super) message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Actions {
    pub(super) download: Option<Said>,
    pub(super) upload: Option<Said>,
    pub(super) verify: Option<Said>,
}

/// A link, and what goes with it.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    pub(super) href: String,
    pub(super) header: Option<Headers>,
    pub(super) expires_in: Option<i64>,
    pub(super) expires_at: Option<String>,
}

/// A list that ends with an error where it is too long.
#[derive(Debug)]
pub(super) struct Few<T>(pub(super) Vec<T>);

/// Names and values, as they stand there.
#[derive(Debug)]
pub(super) struct Headers(pub(super) Vec<(String, String)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Few<T>, D::Error> {
        deserializer.deserialize_seq(Items(PhantomData)).map(Few)
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
        deserializer.deserialize_map(Pairs).map(Headers)
    }
}

struct Items<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::custom("too many objects"));
            }
            all.push(item);
        }
        Ok(all)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, String)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(pair) = members.next_entry()? {
            if all.len() == HEADERS {
                return Err(A::Error::custom("too many headers"));
            }
            all.push(pair);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(text: &str) -> Option<usize> {
        serde_json::from_str::<Wanted>(text).ok().map(|wanted| wanted.objects.0.len())
    }

    fn answer(text: &str) -> Option<usize> {
        serde_json::from_str::<Answer>(text).ok().map(|answer| answer.objects.0.len())
    }

    #[test]
    fn more_objects_than_are_looked_at_are_none() {
        let many = |count: usize| vec![json!({ "oid": "x", "size": 1 }); count];
        for (count, read) in [(0, Some(0)), (MOST, Some(MOST)), (MOST + 1, None)] {
            let text = json!({ "operation": "upload", "objects": many(count) }).to_string();
            assert_eq!(wanted(&text), read, "{count}");
            assert_eq!(answer(&text), read, "{count}");
        }
        let header = |count: usize| {
            let all: serde_json::Map<_, _> =
                (0..count).map(|at| (format!("x-{at}"), json!("1"))).collect();
            let action = json!({ "download": { "href": "https://x", "header": all } });
            json!({ "objects": [{ "oid": "x", "actions": action }] }).to_string()
        };
        assert_eq!(answer(&header(HEADERS)), Some(1));
        assert_eq!(answer(&header(HEADERS + 1)), None);
    }

    #[test]
    fn what_nobody_needs_is_passed_over_and_never_twice() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let wide = format!("[{}0]", "0,".repeat(100_000));
        for other in [deep, wide, "null".to_owned()] {
            let text = format!(r#"{{"x":{other},"operation":"download","objects":[],"ref":null}}"#);
            assert_eq!(wanted(&text), Some(0));
            let text = format!(r#"{{"objects":[{{"oid":"x","y":{other},"actions":null}}]}}"#);
            assert_eq!(answer(&text), Some(1));
        }
        for text in [
            r#"{"operation":"download","operation":"upload","objects":[]}"#,
            r#"{"operation":"download","objects":[],"objects":[{"oid":"x","size":1}]}"#,
            r#"{"operation":"download","objects":[{"oid":"x","oid":"y","size":1}]}"#,
            r#"{"operation":"Upload","objects":[]}"#,
            r#"{"operation":"download","objects":[{"oid":"x","size":-1}]}"#,
            r#"{"operation":"download","objects":[]} x"#,
        ] {
            assert_eq!(wanted(text), None, "{text}");
        }
    }
}
