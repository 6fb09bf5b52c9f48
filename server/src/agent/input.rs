//! An input's text as the type that its tool takes; and where it is not that, which member
//! is wrong and how, in words of JSON.
//!
//! Must not: know a tool.

use serde::de::DeserializeOwned;
use tool_protocol::{Failure, Fault};

/// Why a text is no input of a tool.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The member, as `edits[0].new_text`; nothing where it is about the whole.
    member: String,
    what: String,
}

/// Reads it.
pub(super) fn read<T: DeserializeOwned>(input: &str) -> Result<T, Wrong> {
    serde_json::from_str(input).map_err(|error| {
        // Only what is wrong is read again, to know where: that costs.
        let mut again = serde_json::Deserializer::from_str(input);
        let located = serde_path_to_error::deserialize::<_, T>(&mut again).err();
        let member = located.map(|error| error.path().to_string()).unwrap_or_default();
        let member = if member == "." { String::new() } else { member };
        Wrong { member, what: in_words(&error.to_string()) }
    })
}

impl Wrong {
    /// For the caller, who called the tool by a name with those fields of its own.
    pub(super) fn failure(self, tool: &str, fields: &[(&str, &str)]) -> Failure {
        let Wrong { member, what } = self;
        let own = fields.iter().find(|(_, ours)| *ours == member).map(|(theirs, _)| *theirs);
        let member = own.unwrap_or(&member);
        // What is unknown is named already.
        let message = match member.is_empty() || what.starts_with("unknown field") {
            true => format!("{tool}: the input is not understood: {what}"),
            false => format!("{tool}: the input is not understood: {member}: {what}"),
        };
        Failure::new(Fault::InvalidInput, message)
    }
}

/// Without the place in the text, which is not as the caller wrote it, and without names of
/// types that JSON does not have.
fn in_words(error: &str) -> String {
    let error = error.rsplit_once(" at line ").map_or(error, |(error, _)| error);
    let Some((seen, wanted)) = error.rsplit_once("expected ") else { return error.to_owned() };
    let wanted = match wanted {
        "u8" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "a sequence" => "a list",
        "a map" => "an object",
        wanted if wanted.starts_with("struct ") => "an object",
        wanted => wanted,
    };
    format!("{seen}expected {wanted}")
}

#[cfg(test)]
mod tests {
    use tool_files::edit::EditInput;
    use tool_files::read::ReadInput;

    use super::*;

    fn said<T: DeserializeOwned + std::fmt::Debug>(input: &str, fields: &[(&str, &str)]) -> String {
        read::<T>(input).unwrap_err().failure("t", fields).message
    }

    #[test]
    fn a_member_that_is_wrong_is_named_as_the_caller_named_it() {
        let none: &[(&str, &str)] = &[];
        for (input, fields, wanted) in [
            (
                r#"{"path":"a","start_line":"2"}"#,
                none,
                r#"start_line: invalid type: string "2", expected a whole number, 0 or more"#,
            ),
            (
                r#"{"path":"a","start_line":-1}"#,
                &[("startLine", "start_line")],
                "startLine: invalid value: integer `-1`, expected a whole number, 0 or more",
            ),
            (r#"{"path":["a"]}"#, none, "path: invalid type: sequence, expected a string"),
            ("{}", none, "missing field `path`"),
        ] {
            let wanted = format!("t: the input is not understood: {wanted}");
            assert_eq!(said::<ReadInput>(input, fields), wanted);
        }
        let edits = r#"{"path":"a","edits":[{"old_text":"a","new_text":"b"},{"old_text":"a"}]}"#;
        let message = said::<EditInput>(edits, none);
        assert!(message.ends_with("understood: edits[1]: missing field `new_text`"), "{message}");
        let message = said::<EditInput>(r#"{"path":"a","edits":"a"}"#, none);
        assert!(message.ends_with(r#"edits: invalid type: string "a", expected a list"#));
        let message = said::<EditInput>(r#"{"path":"a","zzz":"a"}"#, none);
        assert!(message.contains("understood: unknown field `zzz`, expected one of `path`"));
    }
}
