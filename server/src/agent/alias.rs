//! Other names of the broker's own tools, each with field names of its own: what earlier
//! tool servers called them.
//!
//! Owns: the table, and putting an input into the fields of the tool's own name. A tool of
//! tools.d that has one of these names is that tool. Must not: check an input; the tool's
//! own type does.

use serde_json::{Map, Value};
use tool_protocol::{Failure, Fault};

/// One other name.
#[derive(Debug)]
pub(crate) struct Alias {
    /// As a caller may say.
    pub(crate) name: &'static str,
    /// The tool's own name.
    pub(crate) tool: &'static str,
    /// Its fields, and the tool's own.
    fields: &'static [(&'static str, &'static str)],
    /// What the name says by itself.
    sets: &'static [(&'static str, &'static str)],
}

/// Every other name.
pub(crate) const ALIASES: &[Alias] = &[
    Alias {
        name: "read",
        tool: "read_file",
        fields: &[("startLine", "start_line"), ("endLine", "end_line")],
        sets: &[],
    },
    Alias {
        name: "search",
        tool: "search_files",
        fields: &[("caseSensitive", "case_sensitive"), ("maxResults", "max_results")],
        sets: &[("by", "name")],
    },
    Alias {
        name: "edit",
        tool: "edit_file",
        fields: &[("findText", "old_text"), ("replaceText", "new_text"), ("replaceAll", "all")],
        sets: &[],
    },
    Alias { name: "write", tool: "write_file", fields: &[], sets: &[] },
    Alias { name: "list_dir", tool: "list_directory", fields: &[], sets: &[] },
    Alias { name: "command", tool: "run_shell", fields: COMMAND, sets: &[] },
    Alias { name: "execute_command", tool: "run_shell", fields: COMMAND, sets: &[] },
];

const COMMAND: &[(&str, &str)] =
    &[("timeout", "timeout_ms"), ("timeoutMs", "timeout_ms"), ("workingDirectory", "cwd")];

/// The tool that is meant, by its own name, and its input in its own fields. `is_tool`:
/// whether tools.d has one of a name.
pub(super) fn resolve(
    name: &str,
    input: String,
    is_tool: impl Fn(&str) -> bool,
) -> Result<(String, String), Failure> {
    if is_tool(name) {
        return Ok((name.to_owned(), input));
    }
    if let Some(alias) = named(name) {
        let mut object = object(&input)?;
        for (from, to) in alias.fields {
            if let Some(value) = object.remove(*from)
                && object.insert((*to).to_owned(), value).is_some()
            {
                let message = format!("{from} and {to} are the same: give one of them");
                return Err(Failure::new(Fault::InvalidInput, message));
            }
        }
        for (field, value) in alias.sets {
            object.entry(*field).or_insert_with(|| (*value).into());
        }
        return Ok((alias.tool.to_owned(), Value::Object(object).to_string()));
    }
    // Where it is one string it is a shell's line, by the rules for these.
    if name == "run_command" {
        let mut object = object(&input)?;
        match object.remove("command") {
            // A program and its arguments.
            Some(program @ Value::String(_))
                if object.get("args").is_some_and(Value::is_array)
                    && !object.contains_key("argv") =>
            {
                if let Some(Value::Array(mut argv)) = object.remove("args") {
                    argv.insert(0, program);
                    object.insert("argv".to_owned(), Value::Array(argv));
                }
                return Ok((name.to_owned(), Value::Object(object).to_string()));
            }
            Some(line @ Value::String(_)) => {
                object.insert("command".to_owned(), line);
                return Ok(("run_shell".to_owned(), Value::Object(object).to_string()));
            }
            Some(argv @ Value::Array(_)) if !object.contains_key("argv") => {
                object.insert("argv".to_owned(), argv);
                return Ok((name.to_owned(), Value::Object(object).to_string()));
            }
            _ => {}
        }
    }
    Ok((name.to_owned(), input))
}

fn named(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

/// What a tool is called itself, by that or another name.
pub(super) fn own_name(name: &str) -> &str {
    named(name).map_or(name, |alias| alias.tool)
}

/// The fields of another name, each with the tool's own.
pub(super) fn fields_of(name: &str) -> &'static [(&'static str, &'static str)] {
    named(name).map_or(&[], |alias| alias.fields)
}

fn object(input: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(input).map_err(|error| {
        Failure::new(Fault::InvalidInput, format!("the input is no JSON object: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(name: &str, input: &str) -> (String, Value) {
        let (name, input) = resolve(name, input.to_owned(), |_| false).unwrap();
        (name, serde_json::from_str(&input).unwrap())
    }

    #[test]
    fn other_names_have_fields_of_their_own() {
        let json = |text| serde_json::from_str::<Value>(text).unwrap();
        let (name, input) = resolved("edit", r#"{"path":"a","findText":"x","replaceText":"y"}"#);
        assert_eq!(name, "edit_file");
        assert_eq!(input, json(r#"{"path":"a","old_text":"x","new_text":"y"}"#));
        let (name, input) = resolved("search", r#"{"pattern":"*.rs","type":"glob"}"#);
        assert_eq!(name, "search_files");
        assert_eq!(input, json(r#"{"pattern":"*.rs","type":"glob","by":"name"}"#));
        let (name, _) = resolved("run_command", r#"{"command":"ls | wc"}"#);
        assert_eq!(name, "run_shell");
        let (name, input) = resolved("run_command", r#"{"command":["ls","-l"]}"#);
        assert_eq!((name.as_str(), &input), ("run_command", &json(r#"{"argv":["ls","-l"]}"#)));
        let (name, input) = resolved("run_command", r#"{"command":"ls","args":["-l"]}"#);
        assert_eq!((name.as_str(), &input), ("run_command", &json(r#"{"argv":["ls","-l"]}"#)));
        assert!(
            resolve("edit", r#"{"findText":"a","old_text":"b"}"#.to_owned(), |_| false).is_err()
        );
        let (name, _) = resolve("read", "{}".to_owned(), |name| name == "read").unwrap();
        assert_eq!(name, "read", "a tool of tools.d has its own name");
    }
}
