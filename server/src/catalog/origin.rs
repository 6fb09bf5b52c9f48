//! Where an installed definition came from.
//!
//! Owns: the file `.origin.json` in its folder, which the registry does not look at.
//! It is a note for `list`, `add` and `remove`, and nothing is allowed by it. Must not:
//! be believed about what the folder holds now.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bundle::{keep, write_file};
use super::error::{CatalogError, io};

/// Its name: hidden, so that it is no part of a definition.
pub(super) const FILE: &str = ".origin.json";

/// What is noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    #[serde(flatten)]
    pub(crate) from: From,
    /// The digest of what was put there.
    pub(crate) sha256: String,
    /// The packages that were noted for it in the file of packages.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
}

/// Where from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub(crate) enum From {
    Catalog { version: String },
    Path { path: PathBuf },
    Url { url: String, commit: String, folder: String },
}

impl std::fmt::Display for From {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            From::Catalog { version } => write!(formatter, "the catalog of {version}"),
            From::Path { path } => write!(formatter, "{}", path.display()),
            From::Url { url, commit, folder } if folder.is_empty() => {
                write!(formatter, "{url} at {commit}")
            }
            From::Url { url, commit, folder } => write!(formatter, "{url} at {commit}, {folder}"),
        }
    }
}

impl Origin {
    /// What a folder's note says; one that cannot be read is none.
    pub(crate) fn read(folder: &Path) -> Option<Origin> {
        let text = fs::read_to_string(folder.join(FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes it, by rename.
    pub(super) fn write(&self, folder: &Path) -> Result<(), CatalogError> {
        let (path, new) = (folder.join(FILE), folder.join(".origin.new"));
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let text = text.map_err(io("write", &path))? + "\n";
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io("remove", &new)(error));
            }
            _ => {}
        }
        write_file(&new, &text, 0o644)?;
        keep(&new)?;
        fs::rename(&new, &path).map_err(io("replace", &path))
    }
}
