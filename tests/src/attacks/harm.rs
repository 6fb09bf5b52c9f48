//! What an attack has done.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use crate::run;

/// Sentences about what happened and must not; none is what is wanted.
#[derive(Debug, Default)]
pub struct Harm(pub Vec<String>);

impl Harm {
    pub fn add(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    /// Bytes that came out somewhere hold none of the secrets.
    pub fn bytes(&mut self, place: &str, bytes: &[u8], secrets: &Secrets) {
        let text = String::from_utf8_lossy(bytes);
        for (name, wanted) in &secrets.0 {
            if text.contains(wanted) {
                self.add(format!("{place}: {name}"));
            }
        }
        if let Some(at) = text.find("TOOK") {
            let line: String =
                text[at..].lines().next().unwrap_or_default().chars().take(120).collect();
            self.add(format!("{place}: {}", line.escape_debug()));
        }
    }

    /// No file beneath holds one, nor is set-uid or a device.
    pub fn files(&mut self, directory: &Path, secrets: &Secrets) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            let kind = data.file_type();
            if kind.is_dir() {
                self.files(&path, secrets);
            } else if kind.is_file() {
                if data.mode() & 0o6000 != 0 && data.uid() == 0 {
                    self.add(format!("{}: set-uid root", path.display()));
                }
                let bytes = fs::read(&path).unwrap_or_default();
                self.bytes(&path.display().to_string(), &bytes, secrets);
            } else if kind.is_block_device() || kind.is_char_device() {
                self.add(format!("{}: a device", path.display()));
            }
        }
    }

    /// Nor does an object of a repository, which is compressed.
    pub fn objects(&mut self, repository: &Path, secrets: &Secrets) {
        let mut git = Command::new("/usr/bin/git");
        git.env_clear().env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
        git.arg(format!("--git-dir={}", repository.display()));
        git.args(["cat-file", "--batch", "--batch-all-objects"]);
        git.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory");
        git.env("GIT_CONFIG_VALUE_0", "*");
        let said = run(&mut git, b"");
        self.bytes("an object", &said.stdout, secrets);
    }
}

/// What there is, by its name: kind and mode, and its bytes.
pub type Listing = BTreeMap<String, (String, Vec<u8>)>;

/// Names, kinds, sizes and contents beneath a directory, that nothing may change.
pub fn listing(directory: &Path) -> Listing {
    let mut all = Listing::new();
    list(directory, directory, &mut all);
    all
}

fn list(base: &Path, directory: &Path, all: &mut Listing) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(data) = fs::symlink_metadata(&path) else { continue };
        let name = path.strip_prefix(base).unwrap_or(&path).display().to_string();
        let kind = data.file_type();
        let mut bytes = Vec::new();
        if kind.is_dir() {
            list(base, &path, all);
        } else if kind.is_file() {
            bytes = fs::read(&path).unwrap_or_default();
        }
        all.insert(name, (format!("{kind:?} {:o}", data.mode()), bytes));
    }
}

/// What must not come out, in every form in which it may be written.
#[derive(Clone, Debug)]
pub struct Secrets(Vec<(String, String)>);

impl Secrets {
    pub fn new(all: &[(&str, &str)]) -> Secrets {
        let mut wanted = Vec::new();
        for (name, secret) in all {
            let each = forms(secret).into_iter();
            wanted.extend(each.map(|(form, text)| (format!("{name} {form}"), text)));
        }
        Secrets(wanted)
    }
}

/// As it is, in base64 (wherever it begins), in hexadecimal.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![("itself", secret.to_owned()), ("in hexadecimal", hex)];
    for skip in 0..3 {
        let padded = format!("{}{secret}", "x".repeat(skip));
        let mut base64 = Command::new("base64");
        let said = run(base64.arg("-w0"), padded.as_bytes()).out();
        // What its neighbours change is left out.
        let end = said.trim_end_matches('=').len() - 1;
        forms.push(("in base64", said[4 * usize::from(skip > 0)..end].to_owned()));
    }
    forms
}
