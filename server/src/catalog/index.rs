//! `index.json`: what the catalog has, for people and programs that do not read
//! definitions.
//!
//! Owns: its form, and making it from the folders. Nothing in it is written by hand:
//! where it differs from the folders, the folders are right and `check` says so.
//! Must not: be believed about what a definition allows; that is loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::bundle::Bundle;
use super::error::{CatalogError, io};
use super::stage::Stage;
use super::trial;
use crate::registry::{RegistryOptions, Tool, ToolName};

/// The form of the file; a higher one is not read.
const SCHEMA: u32 = 1;

/// Its name.
pub(super) const FILE: &str = "index.json";

/// Where the definitions that ship lie, seen from the catalog.
const SHIPPED: &str = "../tools.d";

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) schema: u32,
    /// The release that it came with.
    pub(crate) version: String,
    pub(crate) tools: Vec<Entry>,
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// `NAME`, or `../tools.d/NAME`.
    pub(crate) path: String,
    pub(crate) description: String,
    /// What runs.
    pub(crate) binary: String,
    /// Debian packages with the program.
    pub(crate) packages: Vec<String>,
    /// What decides, in words.
    pub(crate) rules: String,
    pub(crate) needs: Needs,
    pub(crate) sha256: String,
}

/// What a definition reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Needs {
    /// `ADAPTER HOST`.
    pub(crate) hosts: Vec<String>,
    /// Where each credential is.
    pub(crate) credentials: Vec<String>,
}

impl Needs {
    /// Of a tool that was loaded.
    pub(crate) fn of(tool: &Tool) -> Needs {
        let mut needs = Needs::default();
        for gate in tool.gates.iter() {
            let adapter = gate.adapter.as_str();
            needs
                .hosts
                .extend(gate.hosts.iter().map(|host| format!("{adapter} {}", host.as_str())));
            needs.credentials.extend(gate.credential.iter().map(|credential| credential.name()));
        }
        needs.credentials.extend(tool.signing.iter().map(|signing| signing.key.name()));
        needs.credentials.sort();
        needs.credentials.dedup();
        needs
    }
}

impl Index {
    /// Reads the file of a catalog.
    pub(super) fn read(catalog: &Path) -> Result<Index, CatalogError> {
        let path = catalog.join(FILE);
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        let wrong = |message: String| CatalogError::Index { path: path.clone(), message };
        let index: Index = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if index.schema != SCHEMA {
            return Err(wrong(format!(
                "its schema is {}, this program reads {SCHEMA}: take a catalog of the same release",
                index.schema
            )));
        }
        for entry in &index.tools {
            let shipped = format!("{SHIPPED}/{}", entry.name);
            let leads = entry.path == entry.name || entry.path == shipped;
            if ToolName::parse(&entry.name).is_none() || !leads {
                return Err(wrong(format!(
                    "{:?} with the path {:?}: a path is NAME or {SHIPPED}/NAME",
                    entry.name, entry.path
                )));
            }
        }
        Ok(index)
    }

    /// Makes it from the folders; loads every definition and runs its examples.
    pub(super) fn make(catalog: &Path, options: &RegistryOptions) -> Result<Index, CatalogError> {
        let mut folders = BTreeMap::new();
        for (place, prefix) in [(catalog.join(SHIPPED), "../tools.d/"), (catalog.to_owned(), "")] {
            for entry in fs::read_dir(&place).map_err(io("read", &place))?.flatten() {
                let name = entry.file_name().into_string().unwrap_or_default();
                if !entry.path().is_dir() || name.starts_with('.') {
                    continue;
                }
                if ToolName::parse(&name).is_none() {
                    return Err(CatalogError::BadName { name });
                }
                let path = format!("{prefix}{name}");
                if let Some(other) = folders.insert(name.clone(), path) {
                    let path = catalog.join(FILE);
                    let message = format!("{name} is there twice: {other} and {name}; remove one");
                    return Err(CatalogError::Index { path, message });
                }
            }
        }
        let tools = folders.iter().map(|(name, path)| entry(catalog, name, path, options));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Index { schema: SCHEMA, version, tools: tools.collect::<Result<_, _>>()? })
    }

    /// As it is written.
    pub(crate) fn text(&self) -> Result<String, CatalogError> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        Ok(text.map_err(io("write", Path::new(FILE)))? + "\n")
    }

    /// How another one differs, in lines for people.
    pub(super) fn differences(&self, made: &Index) -> Vec<String> {
        let by_name = |index: &Index| -> BTreeMap<String, Entry> {
            index.tools.iter().map(|entry| (entry.name.clone(), entry.clone())).collect()
        };
        let (mine, made_tools) = (by_name(self), by_name(made));
        let mut found = Vec::new();
        if self.version != made.version {
            found.push(format!("its version is {}, not {}", self.version, made.version));
        }
        for (name, entry) in &made_tools {
            match mine.get(name) {
                None => found.push(format!("{name} is a folder and has no entry")),
                Some(other) if other != entry => {
                    found.push(format!("{name} is not as its folder is"))
                }
                Some(_) => {}
            }
        }
        let gone = mine.keys().filter(|name| !made_tools.contains_key(*name));
        found.extend(gone.map(|name| format!("{name} has an entry and no folder")));
        if found.is_empty() && self != made {
            found.push("its entries are not in the order of their names".to_owned());
        }
        found
    }
}

fn entry(
    catalog: &Path,
    name: &str,
    path: &str,
    options: &RegistryOptions,
) -> Result<Entry, CatalogError> {
    let bundle = Bundle::read(&catalog.join(path))?;
    let invalid =
        |problem: String| CatalogError::Invalid { name: name.to_owned(), problems: vec![problem] };
    if !bundle.has_definition() {
        return Err(invalid(format!("{path} has neither tool.toml nor tool.json")));
    }
    let stage = Stage::in_temporary()?;
    super::place::open_to_all(stage.path())?;
    let tried = trial::attempt(options, &stage, name, &bundle)?;
    if let Some(note) = tried.notes.first() {
        return Err(invalid(note.clone()));
    }
    let tool = tried.tool;
    let Some(description) = tool.description.clone() else {
        return Err(invalid(format!("{path}: give it a description")));
    };
    Ok(Entry {
        name: name.to_owned(),
        path: path.to_owned(),
        description,
        binary: tool.binary.display().to_string(),
        packages: bundle.packages().map_err(invalid)?,
        rules: tool.rules_in_words(),
        needs: Needs::of(&tool),
        sha256: bundle.digest(),
    })
}
