//! Definitions to choose from, and how one of them comes into tools.d.
//!
//! Owns: the catalog on disk and its index; definitions from a folder or a git
//! repository; the order in which one is read, tried, shown, put in its place and noted.
//! Must not: run anything of a definition, or change what a person wrote without
//! being told to. What a server does with tools.d is the registry's.
//!
//! A definition is read once, into a `Bundle`; that one is tried (`trial`), shown and
//! written (`stage`, `place`). In tools.d it appears by one rename.

mod bundle;
mod error;
mod fetch;
mod index;
mod origin;
mod packages;
mod place;
mod stage;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::registry::{RegistryOptions, Tool, ToolName};

pub(crate) use bundle::Bundle;
pub(crate) use error::CatalogError;
pub(crate) use fetch::Repository;
pub(crate) use index::{Entry, Index, Needs};
pub(crate) use origin::{From, Origin};
pub(crate) use packages::Packages;
pub(crate) use place::{Installed, Place};

use stage::Stage;

/// The catalog's directory, and what its index says.
#[derive(Debug)]
pub(crate) struct Catalog {
    path: PathBuf,
    pub(crate) index: Index,
}

impl Catalog {
    /// Opens the first of these that has an index.
    pub(crate) fn open(places: &[PathBuf]) -> Result<Catalog, CatalogError> {
        let Some(path) = places.iter().find(|path| path.join(index::FILE).is_file()) else {
            let looked: Vec<String> =
                places.iter().map(|path| path.display().to_string()).collect();
            return Err(CatalogError::NoCatalog { looked: looked.join(", ") });
        };
        Ok(Catalog { path: path.clone(), index: Index::read(path)? })
    }

    /// What it has of a name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.tools.iter().find(|entry| entry.name == name)
    }

    /// Reads a definition, which has to be what the index was made from.
    fn bundle(&self, name: &str) -> Result<Bundle, CatalogError> {
        let unknown = || CatalogError::Unknown { name: name.to_owned() };
        let entry = self.entry(name).ok_or_else(unknown)?;
        let bundle = Bundle::read(&self.path.join(&entry.path))?;
        if bundle.digest() != entry.sha256 {
            let message = format!(
                "{name} is not what its folder {} holds now: take the catalog anew, or make the index anew with `tool-server catalog index --write`",
                entry.path
            );
            return Err(CatalogError::Index { path: self.path.join(index::FILE), message });
        }
        Ok(bundle)
    }

    /// Loads every definition; what is wrong with the index, in lines.
    pub(crate) fn check(&self, options: &RegistryOptions) -> Result<Vec<String>, CatalogError> {
        Ok(self.index.differences(&made(&self.path, options)?))
    }
}

/// The index that the folders of a catalog make.
pub(crate) fn made(catalog: &Path, options: &RegistryOptions) -> Result<Index, CatalogError> {
    // The same on every machine: nothing of this one's server counts.
    let options = RegistryOptions {
        restricted_dir: catalog.join(".none"),
        owner: None,
        workspace: Vec::new(),
        require_rules: true,
        observe: false,
        env_inherit: Vec::new(),
        hidden: Vec::new(),
        builtin_dir: None,
        served: Vec::new(),
        ..options.clone()
    };
    Index::make(catalog, &options)
}

/// Writes the index of a catalog.
pub(crate) fn write_index(catalog: &Path, index: &Index) -> Result<PathBuf, CatalogError> {
    let (path, new) = (catalog.join(index::FILE), catalog.join(".index.json.new"));
    fs::write(&new, index.text()?).map_err(error::io("write", &new))?;
    fs::rename(&new, &path).map_err(error::io("replace", &path))?;
    Ok(path)
}

/// Where a definition is to come from.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Catalog(&'a Catalog),
    Path(&'a Path),
    Url(&'a Repository),
}

/// A definition that was read, and belongs to nobody yet.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) bundle: Bundle,
    pub(crate) from: From,
    pub(crate) packages: Vec<String>,
}

impl Candidate {
    /// Reads it. Nothing of it is run, now or later.
    pub(crate) fn read(name: &str, source: &Source<'_>) -> Result<Candidate, CatalogError> {
        if ToolName::parse(name).is_none() {
            return Err(CatalogError::BadName { name: name.to_owned() });
        }
        let (bundle, from) = match source {
            Source::Catalog(catalog) => {
                let version = catalog.index.version.clone();
                (catalog.bundle(name)?, From::Catalog { version })
            }
            Source::Path(path) => {
                let whole = fs::canonicalize(path).map_err(error::io("open", path))?;
                (Bundle::read(&whole)?, From::Path { path: whole })
            }
            Source::Url(repository) => {
                let fetch::Fetched { bundle, commit, folder } = fetch::fetch(name, repository)?;
                (bundle, From::Url { url: repository.url.clone(), commit, folder })
            }
        };
        if !bundle.has_definition() {
            return Err(CatalogError::NoDefinition { place: from.to_string(), hint: "" });
        }
        let packages = bundle.packages().map_err(|problem| CatalogError::Invalid {
            name: name.to_owned(),
            problems: vec![problem],
        })?;
        Ok(Candidate { name: name.to_owned(), bundle, from, packages })
    }
}

/// A candidate that would be a tool: in tools.d, under a hidden name, until it is put.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) candidate: Candidate,
    pub(crate) tool: Arc<Tool>,
    /// What is worth a look.
    pub(crate) notes: Vec<String>,
    stage: Stage,
}

impl Ready {
    /// Tries a candidate beside the tools that are there. One that nothing restricts is
    /// not taken, whatever the server's `require_rules` is.
    pub(crate) fn attempt(
        candidate: Candidate,
        place: &Place,
        options: &RegistryOptions,
    ) -> Result<Ready, CatalogError> {
        let stage = Stage::beneath(place.path())?;
        place::open_to_all(stage.path())?;
        trial::copy_others(place.path(), &stage, &candidate.name)?;
        Ready::in_stage(candidate, options, stage)
    }

    /// Tries a candidate alone, to be shown and never put.
    pub(crate) fn alone(
        candidate: Candidate,
        options: &RegistryOptions,
    ) -> Result<Ready, CatalogError> {
        let stage = Stage::in_temporary()?;
        place::open_to_all(stage.path())?;
        let options = RegistryOptions { workspace: Vec::new(), ..options.clone() };
        Ready::in_stage(candidate, &options, stage)
    }

    fn in_stage(
        candidate: Candidate,
        options: &RegistryOptions,
        stage: Stage,
    ) -> Result<Ready, CatalogError> {
        let tried = trial::attempt(options, &stage, &candidate.name, &candidate.bundle)?;
        if tried.tool.unrestricted() {
            let problem = "it has neither rules, nor `default`, nor a wrapper: everything would be allowed to it; write default = \"allow\", \"ask\" or \"deny\" into its tool.toml".to_owned();
            return Err(CatalogError::Invalid { name: candidate.name, problems: vec![problem] });
        }
        Ok(Ready { candidate, tool: tried.tool, notes: tried.notes, stage })
    }

    /// Refuses, unless told otherwise, to replace what a person has changed.
    pub(crate) fn may_replace(&self, place: &Place, force: bool) -> Result<(), CatalogError> {
        let path = place.path().join(&self.candidate.name);
        let Some(installed) = Installed::of(place.path(), &self.candidate.name) else {
            return Ok(());
        };
        if force || installed.is_untouched() || installed.is(&self.candidate.bundle) {
            return Ok(());
        }
        let how = changes(&path, &self.candidate.bundle);
        Err(CatalogError::Changed { path, how, kept: place.kept() })
    }

    /// Puts it into tools.d. What was there and was changed by a person is kept.
    pub(crate) fn put(self, place: &Place, force: bool) -> Result<Put, CatalogError> {
        self.may_replace(place, force)?;
        let name = self.candidate.name.as_str();
        let installed = Installed::of(place.path(), name);
        let noted = installed.as_ref().and_then(|installed| installed.origin.as_ref());
        let packages = noted.map(|origin| origin.packages.clone()).unwrap_or_default();
        let sha256 = self.candidate.bundle.digest();
        let origin = Origin { from: self.candidate.from.clone(), sha256, packages };
        if installed.as_ref().is_some_and(|installed| installed.is(&self.candidate.bundle)) {
            if noted.is_none_or(|noted| noted.from != origin.from) {
                origin.write(&place.path().join(name))?;
            }
            return Ok(Put::Already);
        }
        let ours = installed.as_ref().is_some_and(Installed::is_untouched);
        origin.write(&self.stage.path().join(name))?;
        let kept = place.put(&self.stage, name, ours)?;
        Ok(if installed.is_some() { Put::Replaced { kept } } else { Put::New })
    }
}

/// What `put` did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    New,
    Already,
    Replaced { kept: Option<PathBuf> },
}

/// Which files differ, in words.
fn changes(folder: &Path, new: &Bundle) -> String {
    let Ok(old) = Bundle::read(folder) else { return "it cannot be read".to_owned() };
    let names: BTreeSet<&str> = old.files().chain(new.files()).map(|(name, _)| name).collect();
    let differ = names.into_iter().filter_map(|name| match (old.file(name), new.file(name)) {
        (Some(_), None) => Some(format!("{name} is yours alone")),
        (None, Some(_)) => Some(format!("{name} is missing")),
        (old, new) if old != new => Some(format!("{name} differs")),
        _ => None,
    });
    differ.collect::<Vec<_>>().join(", ")
}

/// Notes in an installed definition which packages were written down for it.
pub(crate) fn note_packages(
    tools_dir: &Path,
    name: &str,
    packages: &[String],
) -> Result<(), CatalogError> {
    let folder = tools_dir.join(name);
    let Some(mut origin) = Origin::read(&folder) else { return Ok(()) };
    if origin.packages == packages {
        return Ok(());
    }
    origin.packages = packages.to_vec();
    origin.write(&folder)
}

/// The tools in tools.d with the packages that their definitions name, and those that
/// were written down for them.
pub(crate) fn packages_of(tools_dir: &Path) -> Vec<(String, Vec<String>, Vec<String>)> {
    installed_names(tools_dir)
        .into_iter()
        .map(|name| {
            let folder = tools_dir.join(&name);
            let needed = Bundle::read(&folder).ok().and_then(|bundle| bundle.packages().ok());
            let noted = Origin::read(&folder).map(|origin| origin.packages);
            (name, needed.unwrap_or_default(), noted.unwrap_or_default())
        })
        .collect()
}

/// The folders of tools.d that have a tool's name, sorted.
pub(crate) fn installed_names(tools_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(tools_dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| ToolName::parse(name).is_some())
        .collect();
    names.sort();
    names
}
