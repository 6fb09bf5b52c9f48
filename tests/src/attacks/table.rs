//! The rows of attacks.

use std::path::Path;

use serde::Deserialize;

/// `tests/attacks/NAME.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The tool that is called by its name.
    pub tool: String,
    pub group: Vec<Group>,
}

/// Rows of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    /// Natively the attacker's program runs; else the call itself does harm.
    pub payload: bool,
    /// Natively it cannot be shown here: why.
    #[serde(default)]
    pub unshown: Option<String>,
    pub rows: Vec<Row>,
}

/// What is left, and what is called: lines of a shell.
#[derive(Clone, Debug, Deserialize)]
pub struct Row(pub String, pub String, pub String);

impl Table {
    pub fn of(name: &str) -> Table {
        let path = crate::project().join("tests/attacks").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Row {
    pub fn id(&self) -> &str {
        &self.0
    }

    /// The two lines, with the world's paths in them.
    pub fn lines(&self, places: &[(&str, &Path)]) -> (String, String) {
        let fill = |text: &String| {
            let mut text = text.clone();
            for (name, path) in places {
                text = text.replace(&format!("{{{name}}}"), &path.display().to_string());
            }
            text
        };
        (fill(&self.1), fill(&self.2))
    }
}
