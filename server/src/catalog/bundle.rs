//! The files of one definition, held in memory.
//!
//! Owns: what a folder may hold to be taken at all, its digest, how it is shown, and
//! how it is written. What is shown, checked and written is this one object, whatever
//! becomes of the folder meanwhile. Must not: run or believe anything of it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::error::{CatalogError, io};

/// The most files of a definition.
const MAX_FILES: usize = 32;
/// The most bytes of one: what a grammar may have.
pub(super) const MAX_FILE: usize = 256 * 1024;
/// The most bytes of all.
const MAX_ALL: usize = 1024 * 1024;
/// The longest name of a file.
const MAX_NAME: usize = 64;

/// The files, by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bundle {
    files: BTreeMap<String, String>,
    /// Names that are in the folder and are not taken.
    pub(crate) left_out: Vec<String>,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Symlink,
    Other,
}

/// Collects files, one after the other, within the bounds.
#[derive(Debug)]
pub(super) struct Taking {
    place: String,
    files: BTreeMap<String, String>,
    bytes: usize,
    left_out: Vec<String>,
}

impl Taking {
    pub(super) fn new(place: &str) -> Taking {
        let place = place.to_owned();
        Taking { place, files: BTreeMap::new(), bytes: 0, left_out: Vec::new() }
    }

    fn refused<T>(&self, what: String) -> Result<T, CatalogError> {
        Err(CatalogError::Refused { place: self.place.clone(), what })
    }

    /// Whether this entry is to be read. A hidden one and a folder are left out;
    /// what could lead elsewhere, or is no file, refuses the whole.
    pub(super) fn wants(&mut self, name: &[u8], kind: Kind) -> Result<bool, CatalogError> {
        let shown = name.escape_ascii().to_string();
        match kind {
            Kind::Symlink => return self.refused(format!("{shown} is a symlink")),
            Kind::Other => return self.refused(format!("{shown} is no regular file")),
            Kind::File | Kind::Folder => {}
        }
        if name.starts_with(b".") || kind == Kind::Folder {
            self.left_out.push(shown);
            return Ok(false);
        }
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._+-".contains(byte);
        if name.len() > MAX_NAME || name.starts_with(b"-") || !name.iter().all(allowed) {
            return self.refused(format!("{shown} is no plain name for a file"));
        }
        if self.files.len() >= MAX_FILES {
            return self.refused(format!("it has more than {MAX_FILES} files"));
        }
        Ok(true)
    }

    /// Whether a file of that size still fits.
    pub(super) fn fits(&self, name: &str, size: usize) -> Result<(), CatalogError> {
        if size > MAX_FILE {
            return self.refused(format!("{name} has {size} bytes; a file may have {MAX_FILE}"));
        }
        if self.bytes + size > MAX_ALL {
            return self.refused(format!("its files have more than {MAX_ALL} bytes together"));
        }
        Ok(())
    }

    pub(super) fn take(&mut self, name: String, bytes: Vec<u8>) -> Result<(), CatalogError> {
        self.fits(&name, bytes.len())?;
        self.bytes += bytes.len();
        let Ok(text) = String::from_utf8(bytes) else {
            return self.refused(format!("{name} is not UTF-8 text, and could not be shown"));
        };
        self.files.insert(name, text);
        Ok(())
    }

    pub(super) fn done(self) -> Bundle {
        Bundle { files: self.files, left_out: self.left_out }
    }
}

impl Bundle {
    /// Reads a folder. No symlink in it is followed; `folder` itself is the caller's.
    pub(crate) fn read(folder: &Path) -> Result<Bundle, CatalogError> {
        let mut taking = Taking::new(&folder.display().to_string());
        let mut entries: Vec<_> = fs::read_dir(folder)
            .and_then(Iterator::collect::<io::Result<_>>)
            .map_err(io("read", folder))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let kind = entry.file_type().map_err(io("look at", &path))?;
            let kind = match kind {
                kind if kind.is_symlink() => Kind::Symlink,
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File,
                _ => Kind::Other,
            };
            let name = entry.file_name();
            if !taking.wants(name.as_encoded_bytes(), kind)? {
                continue;
            }
            // By wants, a plain name.
            let name = name.into_string().unwrap_or_default();
            let bytes = read_regular(&path).map_err(io("read", &path))?;
            taking.take(name, bytes)?;
        }
        Ok(taking.done())
    }

    /// The text of a file.
    pub(crate) fn file(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// Every file with its text, by name.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Whether there is a definition in it.
    pub(crate) fn has_definition(&self) -> bool {
        self.files.contains_key("tool.toml") || self.files.contains_key("tool.json")
    }

    /// Hex of SHA-256 over every name, length and content.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (name, text) in &self.files {
            hash.update(format!("{name}\0{}\0", text.len()));
            hash.update(text);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The Debian packages that the definition names.
    pub(crate) fn packages(&self) -> Result<Vec<String>, String> {
        #[derive(Deserialize)]
        struct Named {
            #[serde(default)]
            packages: Vec<String>,
        }
        let named: Named = match (self.file("tool.toml"), self.file("tool.json")) {
            (Some(text), _) => toml::from_str(text).map_err(|error| error.message().to_owned())?,
            (None, Some(text)) => serde_json::from_str(text).map_err(|error| error.to_string())?,
            (None, None) => return Ok(Vec::new()),
        };
        let bad = named.packages.iter().find(|name| !super::packages::is_package(name));
        match bad {
            Some(name) => Err(format!("packages: {name:?} is not the name of a Debian package")),
            None => Ok(named.packages),
        }
    }

    /// Writes the files into a new folder, with their modes whatever the umask.
    pub(super) fn write(&self, folder: &Path) -> Result<(), CatalogError> {
        fs::create_dir(folder).map_err(io("make", folder))?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))
            .map_err(io("set the mode of", folder))?;
        for (name, text) in &self.files {
            write_file(&folder.join(name), text, mode(name))?;
        }
        Ok(())
    }
}

/// 0755 for what is run.
fn mode(name: &str) -> u32 {
    let is_program = name == "restricted" || name.ends_with(".sh") || name.ends_with(".py");
    if is_program { 0o755 } else { 0o644 }
}

/// Waits until a file or a directory is on disk.
pub(super) fn keep(path: &Path) -> Result<(), CatalogError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io("keep", path))
}

/// Writes a new file with its mode.
pub(super) fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), CatalogError> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(path).map_err(io("make", path))?;
    file.write_all(text.as_bytes()).map_err(io("write", path))?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(io("set the mode of", path))
}

/// Reads a regular file that is no symlink, one byte beyond the bound at most.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(u64::try_from(MAX_FILE + 1).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn refusal(folder: &tempfile::TempDir) -> String {
        Bundle::read(folder.path()).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_is_read_whole_and_what_could_lead_elsewhere_refuses_it() {
        let good =
            folder(&[("tool.toml", b"packages = [\"jq\"]"), ("README.md", b"x"), (".git", b"")]);
        fs::create_dir(good.path().join("tests")).unwrap();
        let bundle = Bundle::read(good.path()).unwrap();
        assert_eq!(
            bundle.files().map(|(name, _)| name).collect::<Vec<_>>(),
            ["README.md", "tool.toml"]
        );
        assert_eq!(bundle.left_out, [".git", "tests"]);
        assert_eq!(bundle.packages().unwrap(), ["jq"]);
        symlink("/etc/passwd", good.path().join("setup.sh")).unwrap();
        assert!(refusal(&good).contains("setup.sh is a symlink"));
        let fifo = folder(&[]);
        nix::unistd::mkfifo(&fifo.path().join("tool.toml"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(refusal(&fifo).contains("no regular file"));
        assert!(refusal(&folder(&[("a b", b"")])).contains("no plain name"));
        assert!(refusal(&folder(&[("-x", b"")])).contains("no plain name"));
        assert!(refusal(&folder(&[("restricted", b"\x7fELF\xff")])).contains("not UTF-8"));
        assert!(refusal(&folder(&[("big", &[b'x'; MAX_FILE + 1])])).contains("a file may have"));
        let many: Vec<String> = (0..=MAX_FILES).map(|number| format!("f{number}")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert!(refusal(&folder(&many)).contains("more than 32 files"));
    }

    #[test]
    fn packages_are_names_of_debian_packages_and_nothing_else() {
        for bad in ["-o=x", "a b", "UP", "a;b", "a", "x/../y", "jq=1", "$(id)", "a\\nb"] {
            let folder = folder(&[("tool.toml", format!("packages = [\"{bad}\"]").as_bytes())]);
            let said = Bundle::read(folder.path()).unwrap().packages();
            assert!(said.is_err(), "{bad}: {said:?}");
        }
    }

    #[test]
    fn a_digest_is_of_names_and_content() {
        let one = Bundle::read(folder(&[("a", b"bc")]).path()).unwrap();
        let other = Bundle::read(folder(&[("ab", b"c")]).path()).unwrap();
        assert_ne!(one.digest(), other.digest());
        assert_eq!(one.digest().len(), 64);
    }

    #[test]
    fn what_is_written_has_its_modes() {
        let source = folder(&[("tool.toml", b"x"), ("setup.sh", b"y"), ("restricted", b"z")]);
        let bundle = Bundle::read(source.path()).unwrap();
        let target = tempfile::tempdir().unwrap();
        let new = target.path().join("new");
        bundle.write(&new).unwrap();
        for (name, bits) in
            [("tool.toml", 0o644), ("setup.sh", 0o755), ("restricted", 0o755), ("", 0o755)]
        {
            let mode = fs::metadata(new.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, bits, "{name}");
        }
        assert_eq!(Bundle::read(&new).unwrap(), bundle);
    }
}
