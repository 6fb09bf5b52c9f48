//! `.claude-container/config.json`: which scripts a project has.
//!
//! Owns: its members, and what a path in it may look like. Must not: look at the disk.

use serde::Deserialize;
use serde_json::Value;

use super::error::ProjectError;

/// Where it lies, beneath the project's root.
pub(crate) const CONFIG: &str = ".claude-container/config.json";

/// The longest path of a script.
const LONGEST: usize = 1024;

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Project {
    /// The scripts.
    #[serde(default)]
    pub(crate) setup: Scripts,
}

/// One for each side; none is none.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scripts {
    /// Run beside the tools, once it is approved.
    #[serde(default)]
    pub(crate) server: Option<String>,
    /// Run in the agent's container, as the agent.
    #[serde(default)]
    pub(crate) client: Option<String>,
}

/// Reads it. Whatever is not understood is an error.
pub(crate) fn parse(bytes: &[u8]) -> Result<Project, ProjectError> {
    let bad = |error: serde_json::Error| {
        // It quotes what the file says.
        let why: String = error.to_string().chars().flat_map(plain).collect();
        ProjectError::Config { why }
    };
    let project: Project = serde_json::from_slice(bytes).map_err(bad)?;
    // A list in the place of an object would be taken member by member.
    let value: Value = serde_json::from_slice(bytes).map_err(bad)?;
    if !value.is_object() || value.get("setup").is_some_and(|setup| !setup.is_object()) {
        return Err(ProjectError::Config { why: "a list where an object belongs".to_owned() });
    }
    let Scripts { server, client } = &project.setup;
    for (member, path) in [("setup.server", server), ("setup.client", client)] {
        if let Some(path) = path {
            check(path).map_err(|why| ProjectError::Path { member, why })?;
        }
    }
    Ok(project)
}

/// A path is written one way only: names with `/` between them.
fn check(path: &str) -> Result<(), &'static str> {
    match path {
        "" => return Err("is empty: leave the member out"),
        path if path.len() > LONGEST => return Err("is longer than 1024 bytes"),
        path if path.starts_with('/') => return Err("is not relative to the project"),
        path if path.starts_with('-') => return Err("begins with a dash"),
        path if path.chars().any(char::is_control) => return Err("holds a control character"),
        _ => {}
    }
    match path.split('/').all(|name| !matches!(name, "" | "." | "..")) {
        true => Ok(()),
        false => Err("has an empty name, . or .. in it"),
    }
}

/// As a line of text can hold it.
pub(super) fn plain(character: char) -> Box<dyn Iterator<Item = char>> {
    match character {
        ' '..='~' => Box::new(std::iter::once(character)),
        _ => Box::new(character.escape_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_paths_beneath_the_project_and_nothing_else_is_taken() {
        let scripts = |server: Option<&str>, client: Option<&str>| Project {
            setup: Scripts { server: server.map(str::to_owned), client: client.map(str::to_owned) },
        };
        let read = |text: &str| parse(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(read("{}"), Ok(scripts(None, None)));
        assert_eq!(read(r#"{"setup":{}}"#), Ok(scripts(None, None)));
        assert_eq!(
            read(r#"{"setup":{"server":"a/b.sh","client":"ü.sh"}}"#),
            Ok(scripts(Some("a/b.sh"), Some("ü.sh")))
        );
        for bad in [
            "",
            "[]",
            "{",
            "null",
            r#"{"setup":[]}"#,
            r#"[{"server":"a"}]"#,
            r#"{"setup":["a","b"]}"#,
            r#"{"setup":{"server":["sh","-c","x"]}}"#,
            r#"{"setup":{"server":1}}"#,
            r#"{"setup":{"server":""}}"#,
            r#"{"setup":{"server":"/etc/passwd"}}"#,
            r#"{"setup":{"server":"../x"}}"#,
            r#"{"setup":{"server":"a/../../x"}}"#,
            r#"{"setup":{"server":"./x"}}"#,
            r#"{"setup":{"server":"a//x"}}"#,
            r#"{"setup":{"server":"x/"}}"#,
            r#"{"setup":{"server":"-x"}}"#,
            r#"{"setup":{"client":"a\nb"}}"#,
            r#"{"setup":{"client":"a\u0000b"}}"#,
            r#"{"setup":{"client":"a\u001b[2Jb"}}"#,
            r#"{"setup":{"server":"a","server":"b"}}"#,
            r#"{"setup":{"server":"a"},"setup":{"server":"b"}}"#,
            r#"{"setup":{"server":"a","servers":"b"}}"#,
            r#"{"setup":{},"\u001b[2J":1}"#,
            r#"{} {}"#,
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.starts_with(CONFIG), "{bad}: {error}");
            assert!(error.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{bad}: {error:?}");
        }
        let long = format!(r#"{{"setup":{{"server":"{}"}}}}"#, "x".repeat(1025));
        assert!(read(&long).is_err());
        assert!(parse(b"{\"setup\":{\"server\":\"\xff\"}}").is_err());
    }
}
