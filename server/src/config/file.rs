//! The settings file.
//!
//! Owns: reading it, and finding each setting in it with its line. Must not:
//! pass over a key that is no setting.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::settings::SETTINGS;

/// The most bytes of a settings file.
const MAX_FILE: u64 = 1_048_576;

/// The file's text.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    text: String,
}

/// Each setting in it and its line.
#[derive(Debug)]
pub(super) struct Table<'a> {
    file: &'a File,
    found: BTreeMap<&'static str, (DeValue<'a>, usize)>,
}

/// Reads the file that the operator named.
pub(super) fn read(path: &Path) -> Result<File, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).map_or(true, |size| size > MAX_FILE) {
        return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_at(error.as_bytes(), error.utf8_error().valid_up_to());
        ConfigError::FileNotText { path: path.to_owned(), line }
    })?;
    Ok(File { path: path.to_owned(), text })
}

impl File {
    /// Finds every setting.
    pub(super) fn parse(&self) -> Result<Table<'_>, ConfigError> {
        let table = DeTable::parse(&self.text).map_err(|error| {
            let at = error.span().map_or(self.text.len(), |span| span.start);
            let (path, line) = (self.path.clone(), self.line(at));
            ConfigError::Syntax { path, line, message: error.message().replace('\n', ", ") }
        })?;
        let mut found = BTreeMap::new();
        self.walk("", table.into_inner(), &mut found)?;
        Ok(Table { file: self, found })
    }

    /// The line of a byte.
    pub(super) fn line(&self, offset: usize) -> usize {
        line_at(self.text.as_bytes(), offset)
    }

    fn walk<'a>(
        &'a self,
        above: &str,
        table: DeTable<'a>,
        found: &mut BTreeMap<&'static str, (DeValue<'a>, usize)>,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            let line = self.line(key.span().start);
            let name = format!("{above}{}", key.get_ref());
            let within = format!("{name}.");
            let setting = SETTINGS.iter().find(|setting| setting.key == name);
            let is_section = SETTINGS.iter().any(|setting| setting.key.starts_with(&within));
            match (setting, value.into_inner()) {
                (Some(setting), value) => {
                    found.insert(setting.key, (value, line));
                }
                (None, DeValue::Table(inner)) if is_section => self.walk(&within, inner, found)?,
                _ => {
                    let path = self.path.clone();
                    return Err(ConfigError::UnknownKey {
                        path,
                        line,
                        key: name.escape_debug().to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl<'a> Table<'a> {
    /// A setting's value and line.
    pub(super) fn get(&self, key: &str) -> Option<&(DeValue<'a>, usize)> {
        self.found.get(key)
    }

    /// The file that it came from.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }
}

fn line_at(text: &[u8], offset: usize) -> usize {
    1 + text.iter().take(offset).filter(|byte| **byte == b'\n').count()
}
