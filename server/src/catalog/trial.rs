//! A definition is tried before it is anybody's tool.
//!
//! Owns: loading it by the registry's own check, with its examples, beside copies of
//! the tools that are there. Must not: run anything of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::bundle::{Bundle, write_file};
use super::error::{CatalogError, io};
use super::stage::Stage;
use crate::registry::{self, RegistryOptions, Tool, ToolName};

/// The files of a folder that the registry reads.
const READ: [&str; 7] = [
    "tool.toml",
    "tool.json",
    "grammar.toml",
    "restricted.py",
    "restricted.sh",
    "restricted",
    "setup.sh",
];

/// What came of it.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) tool: Arc<Tool>,
    /// What is worth a look.
    pub(super) notes: Vec<String>,
}

/// Writes a bundle into the stage and loads it as the server would, as `options` say;
/// the tools of `options.tools_dir` are there as well.
pub(super) fn attempt(
    options: &RegistryOptions,
    stage: &Stage,
    name: &str,
    bundle: &Bundle,
) -> Result<Tried, CatalogError> {
    let options = RegistryOptions { tools_dir: stage.path().to_owned(), ..options.clone() };
    let place = stage.path().display().to_string();
    let before: BTreeSet<String> =
        problems(&options, &place).into_iter().map(|(_, text)| text).collect();
    bundle.write(&stage.path().join(name))?;
    let report = registry::check(options);
    let new: Vec<String> = report
        .errors
        .iter()
        .map(|problem| problem.to_string().replace(&format!("{place}/"), ""))
        .filter(|text| !before.contains(text))
        .collect();
    let tool = report.tools.iter().find(|tool| tool.name == name).cloned();
    let Some(tool) = tool.filter(|_| new.is_empty()) else {
        return Err(CatalogError::Invalid { name: name.to_owned(), problems: new });
    };
    let of_it = |problem: &&registry::Problem| problem.tool.as_deref() == Some(name);
    let notes = report.warnings.iter().filter(of_it);
    // That a program is not installed here is nothing: it is needed where the server runs.
    let missing = tool.missing();
    let notes =
        notes.map(|problem| &problem.message).filter(|message| missing.as_ref() != Some(*message));
    let notes = notes.cloned().collect();
    Ok(Tried { tool, notes })
}

fn problems(options: &RegistryOptions, place: &str) -> Vec<(Option<String>, String)> {
    let report = registry::check(options.clone());
    let text = |problem: &registry::Problem| problem.to_string().replace(&format!("{place}/"), "");
    report.errors.iter().map(|problem| (problem.tool.clone(), text(problem))).collect()
}

/// Copies the tools that are there, but for one name, into the stage. What cannot be
/// read is a problem already, and is left out.
pub(super) fn copy_others(tools_dir: &Path, stage: &Stage, but: &str) -> Result<(), CatalogError> {
    for entry in fs::read_dir(tools_dir).map_err(io("read", tools_dir))?.flatten() {
        let name = entry.file_name();
        let Some(name) =
            name.to_str().filter(|name| *name != but && ToolName::parse(name).is_some())
        else {
            continue;
        };
        let folder = stage.path().join(name);
        let texts: Vec<(&str, String)> = READ
            .iter()
            .filter_map(|file| Some((*file, fs::read_to_string(entry.path().join(file)).ok()?)))
            .collect();
        if texts.is_empty() {
            continue;
        }
        fs::create_dir(&folder).map_err(io("make", &folder))?;
        super::place::open_to_all(&folder)?;
        for (file, text) in texts {
            write_file(
                &folder.join(file),
                &text,
                if file == "restricted" { 0o755 } else { 0o644 },
            )?;
        }
    }
    Ok(())
}
