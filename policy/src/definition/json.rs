//! `tool.json`, as the original project's folders have it.
//!
//! Owns: reading it strictly where it matters (no member twice, right types)
//! and leniently where the original did (members that mean nothing are a
//! warning). Must not: pass over a member that `tool.toml` would enforce.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{Definition, Place, SyntaxError, check_binary, check_timeout, line_at};

/// Members of `tool.toml` only. In `tool.json` they would be silently without
/// effect for every other reader of that format, so they are refused.
const TOML_ONLY: [&str; 16] = [
    "default",
    "facts",
    "env",
    "limits",
    "stdio",
    "mode",
    "unread",
    "protected",
    "grammar",
    "rule",
    "example",
    "sandbox",
    "gate",
    "signing",
    "hooks",
    "redact",
];

/// Parses the text of a `tool.json`.
pub(super) fn parse(text: &str) -> Result<Definition, SyntaxError> {
    let value: Json = serde_json::from_str(text).map_err(|error| SyntaxError {
        place: Place::Definition,
        line: error.line().max(1),
        // serde_json ends its messages with a position that we give ourselves.
        message: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
    })?;
    let Json::Object(members) = value else {
        let message = format!("a definition must be an object, not {}", value.kind());
        return Err(SyntaxError { place: Place::Definition, line: 1, message });
    };
    let mut definition = Definition::default();
    for (name, value) in members {
        // serde_json keeps no positions; the first mention of the member is it.
        let at = text.find(&format!("\"{name}\"")).unwrap_or(0);
        let wrong =
            |message| SyntaxError { place: Place::Definition, line: line_at(text, at), message };
        take(&mut definition, &name, value).map_err(wrong)?;
    }
    Ok(definition)
}

fn take(definition: &mut Definition, name: &str, value: Json) -> Result<(), String> {
    match (name, value) {
        // Python's `config.get("binary")`: null is as good as nothing.
        ("binary" | "timeout" | "description", Json::Null) => {}
        ("binary", Json::String(text)) => definition.binary = Some(check_binary(&text)?),
        ("timeout", Json::Number(seconds)) => definition.timeout = Some(check_timeout(seconds)?),
        ("description", Json::String(text)) => definition.description = Some(text),
        ("binary" | "description", other) => {
            return Err(format!("{name} must be a string, not {}", other.kind()));
        }
        ("timeout", other) => {
            return Err(format!("timeout must be a number of seconds, not {}", other.kind()));
        }
        // What the image installs for it: the original's catalog, not ours.
        ("packages", _) => {}
        (name, _) if TOML_ONLY.contains(&name) => {
            return Err(format!("{name} is a member of tool.toml: write the definition there"));
        }
        (name, _) => {
            definition.warnings.push(format!("tool.json: the member {name:?} has no meaning"));
        }
    }
    Ok(())
}

/// A value with no member twice, at any depth.
enum Json {
    Null,
    Bool,
    Number(f64),
    String(String),
    Array,
    Object(Vec<(String, Json)>),
}

impl Json {
    fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool => "true or false",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array => "a list",
            Json::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    // A timeout is a small number: what f64 cannot hold is out of range anyway.
    #[allow(clippy::cast_precision_loss)]
    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    #[allow(clippy::cast_precision_loss)]
    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        while list.next_element::<Json>()?.is_some() {}
        Ok(Json::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        while let Some((name, value)) = object.next_entry::<String, Json>()? {
            if members.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("the member {name:?} is there twice")));
            }
            members.push((name, value));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn the_originals_definitions_are_read_unchanged() {
        let text = r#"{"binary": "/usr/bin/npm", "timeout": 600, "packages": ["npm"], "x": 1}"#;
        let definition = parse(text).unwrap();
        assert_eq!(definition.binary.as_deref(), Some(Path::new("/usr/bin/npm")));
        assert_eq!(definition.timeout, Some(Duration::from_secs(600)));
        assert_eq!(definition.warnings, [r#"tool.json: the member "x" has no meaning"#]);
        assert_eq!(parse("{}").unwrap(), Definition::default());
        assert_eq!(parse(r#"{"binary": null}"#).unwrap(), Definition::default());
        let half = parse(r#"{"timeout": 0.5}"#).unwrap();
        assert_eq!(half.timeout, Some(Duration::from_millis(500)));
    }

    #[test]
    fn what_is_wrong_in_tool_json_has_its_line() {
        let cases = [
            ("", 1, "EOF"),
            ("{\"binary\": \"/usr/bin/n", 1, "EOF"),
            ("[]", 1, "must be an object, not a list"),
            ("{\n \"binary\": \"npm\"\n}", 2, "absolute path"),
            ("{\n\n \"timeout\": \"5\"}", 3, "number of seconds, not a string"),
            ("{\"timeout\": true}", 1, "not true or false"),
            ("{\"timeout\": 0}", 1, "more than 0 seconds"),
            ("{\"timeout\": -1}", 1, "more than 0 seconds"),
            ("{\"timeout\": 604801}", 1, "at most 7 days"),
            ("{\"timeout\": 1e400}", 1, "number out of range"),
            ("{\"timeout\": 1,\n\"timeout\": 2}", 2, "\"timeout\" is there twice"),
            ("{\"x\": {\"y\": 1, \"y\": 2}}", 1, "\"y\" is there twice"),
            ("{\"default\": \"deny\"}", 1, "is a member of tool.toml"),
            ("{\"rule\": []}", 1, "is a member of tool.toml"),
            ("{\"sandbox\": {}}", 1, "sandbox is a member of tool.toml"),
            ("{\n\"gate\": []}", 2, "gate is a member of tool.toml"),
            ("{\"signing\": null}", 1, "signing is a member of tool.toml"),
            ("{} {}", 1, "trailing characters"),
        ];
        for (text, line, message) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error:?}");
            assert!(error.message.contains(message), "{text}: {error:?}");
            assert!(!error.message.contains(" at line "), "{error:?}");
        }
    }
}
