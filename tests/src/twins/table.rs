//! The text format of the tables, `tests/twins/KIND.twins` (and `.sessions`,
//! whose scripts are steps: [`super::session`]), and which rows a run takes.
//!
//! ```text
//! # a comment, before the script of a row
//! == the name of a row
//! @differs stream why it does, on purpose     (or client; broker: both)
//! @may stream why it is a matter of time      (it has to end; what it says may differ)
//! @needs less                                 (a program; without it the row is skipped)
//! the script of the caller's bash, to the next row
//! ```
//!
//! In a script a plain name is a tool, natively or through the client; what the
//! caller runs of its own has a path (`/bin/cat`) or is a builtin, of which
//! `printf`, `true` and `false` are switched off. `$H` holds the helpers, `$L`
//! the compiled ones, `$D` the data, `wait_for FILE` waits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The file's name without its ending.
    pub kind: String,
    pub name: String,
    /// Way and reason.
    differs: Vec<(String, String)>,
    /// The same for a difference that is not there every time.
    may: Vec<(String, String)>,
    /// Programs without which it cannot run.
    pub needs: Vec<String>,
    pub script: String,
    /// Of all rows, so that each has a directory of its own.
    pub number: usize,
}

impl Row {
    /// `kind: name`, what `TWIN_ONLY` looks at and a report says.
    pub fn title(&self) -> String {
        format!("{}: {}", self.kind, self.name)
    }

    /// Whether this row may be the same there, or not.
    pub fn may_differ(&self, way: &str) -> bool {
        self.may.iter().any(|(name, _)| name == way || stands_for(name, way))
    }

    /// The reason for which this row is not the same there.
    pub fn differs(&self, way: &str) -> Option<&str> {
        let is = |name: &str| name == way || stands_for(name, way);
        self.differs.iter().find(|(name, _)| is(name)).map(|(_, reason)| reason.as_str())
    }
}

/// Whether what is said of one way is said of another: `broker` is each of them,
/// `spaces` is `client` in namespaces.
fn stands_for(name: &str, way: &str) -> bool {
    match way {
        "client" | "stream" => name == "broker",
        "spaces" => name == "broker" || name == "client",
        _ => false,
    }
}

/// Where the tables and helpers are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("twins")
}

/// The rows of all tables with this ending whose title has `TWIN_ONLY` in it,
/// in the order of the files' names.
pub fn rows(ending: &str) -> Vec<Row> {
    let only = std::env::var("TWIN_ONLY").unwrap_or_default();
    let mut rows = every_row(ending);
    rows.retain(|row| row.title().contains(&only));
    rows
}

/// All of them, whatever the environment says.
pub fn every_row(ending: &str) -> Vec<Row> {
    let entries = fs::read_dir(directory()).expect("tests/twins");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|is| is == ending));
    files.sort();
    let mut rows = Vec::new();
    for path in files {
        let kind = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a table");
        rows.extend(
            read(&kind, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        );
    }
    for (number, row) in rows.iter_mut().enumerate() {
        row.number = number;
    }
    rows
}

/// Reads one table.
///
/// # Errors
///
/// The line that is no part of the format, or a name that is there twice.
pub fn read(kind: &str, text: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| Err(format!("line {}: {why}: {line}", number + 1));
        if let Some(name) = line.strip_prefix("== ") {
            if rows.iter().any(|row| row.name == name) {
                return wrong("this name is there already");
            }
            rows.push(Row {
                kind: kind.to_owned(),
                name: name.to_owned(),
                differs: Vec::new(),
                may: Vec::new(),
                needs: Vec::new(),
                script: String::new(),
                number: 0,
            });
            continue;
        }
        let Some(row) = rows.last_mut() else {
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            return wrong("before the first row");
        };
        match line.strip_prefix('@').map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) {
            Some((word, rest)) if row.script.is_empty() => match (word, rest.split_once(' ')) {
                ("differs", Some((way, why))) => row.differs.push((way.into(), why.into())),
                ("may", Some((way, why))) => row.may.push((way.into(), why.into())),
                ("needs", None) if !rest.is_empty() => row.needs.push(rest.into()),
                _ => return wrong("no such attribute"),
            },
            _ if row.script.is_empty() && (line.starts_with('#') || line.is_empty()) => {}
            _ => {
                row.script.push_str(line);
                row.script.push('\n');
            }
        }
    }
    match rows.iter().find(|row| row.script.is_empty()) {
        Some(row) => Err(format!("{:?} has no script", row.name)),
        None => Ok(rows),
    }
}

/// How long anything may take; `TWIN_PATIENCE` in seconds, for whoever looks for
/// a fault.
pub fn patience() -> Duration {
    let set = std::env::var("TWIN_PATIENCE").ok().and_then(|text| text.parse().ok());
    set.map_or(crate::PATIENCE, Duration::from_secs)
}

/// The same for a row that differs this way: it may be by having no end, which is waited for
/// each time. One that is only slow counts as one that differs, as it does.
pub fn patience_of(row: &Row, way: &str) -> Duration {
    let most = if row.differs(way).is_some() { Duration::from_secs(15) } else { patience() };
    most.min(patience())
}

/// How often each row is run, `TWIN_ROUNDS`; once where it is unset.
pub fn rounds() -> usize {
    std::env::var("TWIN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}
