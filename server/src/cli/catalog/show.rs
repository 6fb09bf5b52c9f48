//! `catalog list` and `catalog show`.

use clap::ArgMatches;
use serde_json::json;

use super::{candidate, names, open, say};
use crate::catalog::{CatalogError, From, Installed, Needs, Origin, Ready, installed_names};
use crate::registry::RegistryOptions;
use crate::shown::{harmless, pieces};

/// One line a tool: what the catalog has, and what is there beside it.
pub(super) fn list(
    options: &RegistryOptions,
    arguments: &ArgMatches,
) -> Result<bool, CatalogError> {
    let catalog = open(arguments)?;
    let mut rows = Vec::new();
    for entry in &catalog.index.tools {
        let installed = Installed::of(&options.tools_dir, &entry.name);
        let state = state(installed.as_ref(), Some(&entry.sha256));
        rows.push(json!({
            "name": entry.name, "state": state, "description": entry.description,
            "rules": entry.rules, "packages": entry.packages, "hosts": entry.needs.hosts,
            "credentials": entry.needs.credentials,
        }));
    }
    for name in installed_names(&options.tools_dir) {
        if catalog.entry(&name).is_some() {
            continue;
        }
        let installed = Installed::of(&options.tools_dir, &name);
        let state = state(installed.as_ref(), None);
        let from = installed.and_then(|installed| installed.origin);
        let from = from.map_or(String::new(), |origin| format!("from {}", origin.from));
        rows.push(json!({ "name": name, "state": state, "description": from }));
    }
    if arguments.get_flag("json") {
        say(&json!({ "tools": rows }).to_string());
        return Ok(true);
    }
    for row in rows {
        let text =
            |name: &str| row.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (name, state, what) = (text("name"), text("state"), harmless(text("description")));
        say(format!("{name:<12} {state:<24} {what}").trim_end());
    }
    Ok(true)
}

/// What is there of a name, in words; `offered`: the digest in the catalog.
fn state(installed: Option<&Installed>, offered: Option<&String>) -> &'static str {
    let Some(installed) = installed else { return "-" };
    let newer = offered.is_some() && installed.sha256.as_ref() != offered;
    let from_catalog = |origin: &Origin| matches!(origin.from, From::Catalog { .. });
    match &installed.origin {
        None if offered.is_some() && !newer => "installed",
        None => "your own",
        Some(origin) if !from_catalog(origin) && installed.is_untouched() => {
            "installed from elsewhere"
        }
        Some(_) if !newer && offered.is_some() => "installed",
        Some(origin) if installed.is_untouched() && offered != Some(&origin.sha256) => {
            "newer in the catalog"
        }
        Some(origin) if offered.is_none() || offered == Some(&origin.sha256) => "changed",
        Some(_) => "changed, newer in the catalog",
    }
}

/// A definition whole, as it would be taken.
pub(super) fn show(
    options: &RegistryOptions,
    arguments: &ArgMatches,
) -> Result<bool, CatalogError> {
    for name in names(arguments) {
        let ready = Ready::alone(candidate(&name, arguments)?, options)?;
        summary(&ready);
        files(&ready);
    }
    Ok(true)
}

/// What a definition is and reaches, in a few lines.
pub(super) fn summary(ready: &Ready) {
    let (candidate, tool) = (&ready.candidate, &ready.tool);
    let line = |what: &str, text: &str| {
        let text = harmless(text).replace('\n', " ");
        for (index, piece) in pieces(&text).into_iter().enumerate().filter(|_| !text.is_empty()) {
            say(&format!("{:<12} {piece}", if index == 0 { what } else { "" }));
        }
    };
    line(&format!("{}:", candidate.name), tool.description.as_deref().unwrap_or("no description"));
    line("from:", &candidate.from.to_string());
    line("sha256:", &candidate.bundle.digest());
    line("runs:", &tool.binary.display().to_string());
    if let Some(wrapper) = &tool.wrapper {
        let name = wrapper.path.file_name().unwrap_or_default();
        line("by:", &format!("the wrapper {}", name.display()));
    }
    line("rules:", &tool.rules_in_words());
    line("sandbox:", &tool.sandbox_in_words());
    let needs = Needs::of(tool);
    line("hosts:", &needs.hosts.join(", "));
    line("credentials:", &needs.credentials.join(", "));
    let paths = |paths: &[std::path::PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    line("reads:", &paths(&tool.sandbox.read));
    line("writes:", &paths(&tool.sandbox.write));
    line("packages:", &candidate.packages.join(", "));
    line("left out:", &candidate.bundle.left_out.join(", "));
    for note in &ready.notes {
        line("note:", note);
    }
}

/// Every file of it, each line behind a mark, and what goes on of a long one behind
/// another, so that no text can look like ours.
pub(super) fn files(ready: &Ready) {
    for (name, text) in ready.candidate.bundle.files() {
        say(&format!("--- {name}"));
        for line in text.split_terminator('\n') {
            for (index, piece) in pieces(&harmless(line)).into_iter().enumerate() {
                let mark = if index == 0 { '|' } else { '>' };
                say(&format!("{mark} {piece}"));
            }
        }
    }
}

/// Whether the catalog has it: then it came with this program.
pub(super) fn is_ours(ready: &Ready) -> bool {
    matches!(ready.candidate.from, From::Catalog { .. })
}
