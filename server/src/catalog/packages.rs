//! The file of Debian packages that an image is to have beside its own.
//!
//! Owns: its lines, one package each, blank ones aside: what builds the image takes
//! each word of it for a package. Must not: install anything.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::bundle::{keep, write_file};
use super::error::{CatalogError, io};

/// Whether it is the name of a Debian package: what comes of it is a word of an
/// apt-get command.
pub(crate) fn is_package(name: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+.-".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    (2..=100).contains(&name.len()) && begins && name.bytes().all(allowed)
}

/// The file.
#[derive(Debug)]
pub(crate) struct Packages {
    path: PathBuf,
    lines: Vec<String>,
}

impl Packages {
    /// Reads it; one that is not there has no lines.
    pub(crate) fn read(path: &Path) -> Result<Packages, CatalogError> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.map_err(io("read", path))?,
        };
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (number, line) in lines.iter().enumerate() {
            let name = line.trim();
            if !name.is_empty() && !is_package(name) {
                let (path, text) = (path.to_owned(), name.to_owned());
                return Err(CatalogError::BadPackage { path, line: number + 1, text });
            }
        }
        Ok(Packages { path: path.to_owned(), lines })
    }

    /// Whether a package has a line.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.lines.iter().any(|line| line.trim() == package)
    }

    /// Adds those that are not there; says which were new.
    pub(crate) fn add(&mut self, packages: &[String]) -> Vec<String> {
        let mut new = Vec::new();
        for package in packages {
            if !self.has(package) {
                self.lines.push(package.clone());
                new.push(package.clone());
            }
        }
        new
    }

    /// Takes out every line of these; says which were there.
    pub(crate) fn remove(&mut self, packages: &BTreeSet<String>) -> Vec<String> {
        let gone: Vec<String> = packages.iter().filter(|name| self.has(name)).cloned().collect();
        self.lines.retain(|line| !packages.contains(line.trim()));
        gone
    }

    /// Writes it anew, by rename.
    pub(crate) fn write(&self) -> Result<(), CatalogError> {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(io("make", folder))?;
        }
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io("remove", &new)(error));
            }
            _ => {}
        }
        write_file(&new, &text, 0o644)?;
        keep(&new)?;
        fs::rename(&new, &self.path).map_err(io("replace", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_once_and_others_stay() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("config/packages");
        let mut packages = Packages::read(&path).unwrap();
        assert_eq!(packages.add(&["jq".into(), "make".into(), "jq".into()]), ["jq", "make"]);
        packages.write().unwrap();
        fs::write(&path, "\nvim\njq\nmake\n").unwrap();
        let mut packages = Packages::read(&path).unwrap();
        assert_eq!(packages.add(&["jq".into()]), Vec::<String>::new());
        assert_eq!(packages.remove(&["jq".to_owned(), "other".to_owned()].into()), ["jq"]);
        packages.write().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "\nvim\nmake\n");
        for bad in ["ok\nnot one\n", "ok\n# a word of mine\n", "ok\n-o=x\n"] {
            fs::write(&path, bad).unwrap();
            let message = Packages::read(&path).unwrap_err().to_string();
            assert!(message.contains("line 2"), "{message}");
        }
    }
}
