//! Splits what is secret by who needs it: tools' credentials into files that the
//! server's container alone has, the agent's own keys for the client's, everything
//! else for nobody but the server.
//!
//! Owns: which name goes where. Must not: print or log a value.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::keys::{self, Key};
use super::{HostError, Ids, failed, refused};

/// Names that stand for one credential, under the name of its file.
const KNOWN: [(&str, &str); 4] = [
    ("GITHUB_TOKEN", "github_token"),
    ("GH_TOKEN", "github_token"),
    ("NPM_TOKEN", "npm_token"),
    ("NODE_AUTH_TOKEN", "npm_token"),
];

/// What is taken from the caller's environment as well, before the file's.
const OFFERED: [&str; 6] = [
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "NPM_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// What compose.yaml hands to the agent's container.
const PASSED: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// Beside the directory: which of its files came from `.env`. They go when their key goes.
const LIST: &str = "list";

/// The longest name of a file: with `.new` behind it the kernel takes it too.
const LONGEST: usize = 128;

/// What went where; names alone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    /// Files for the server, and the names that they came from.
    pub(crate) server: BTreeMap<String, String>,
    /// What the client gets.
    pub(crate) client: Vec<String>,
    /// Files whose key is no more.
    pub(crate) removed: Vec<String>,
    /// Whether any file is another than before.
    pub(crate) changed: bool,
    /// For people.
    pub(crate) notes: Vec<String>,
}

/// Whether a key is the agent's own: its login at the model.
fn is_agents(name: &str) -> bool {
    name.starts_with("ANTHROPIC_") || name == "CLAUDE_CODE_OAUTH_TOKEN"
}

/// Writes the files of `to`, and the client's environment to `client`.
pub(crate) fn split(
    env: &Path,
    offered: &dyn Fn(&str) -> Option<String>,
    to: &Path,
    client: &Path,
    owner: Option<Ids>,
) -> Result<Split, HostError> {
    let mut all: Vec<(Key, bool)> = keys::read(env)?.into_iter().map(|key| (key, true)).collect();
    for name in OFFERED {
        let Some(value) = offered(name).filter(|value| !value.is_empty()) else { continue };
        let value = Zeroizing::new(value);
        if value.chars().any(char::is_control) {
            return Err(refused(
                env,
                format!("cannot be used: {name} of your environment is not one line of text"),
            ));
        }
        all.retain(|(key, _)| key.name != name);
        all.push((Key { name: name.to_owned(), value }, false));
    }
    all.retain(|(key, _)| !key.value.is_empty());
    let mut split = Split::default();
    let mut lines = Zeroizing::new(String::new());
    let (agents, tools): (Vec<_>, Vec<_>) = all.iter().partition(|(key, _)| is_agents(&key.name));
    for (key, _) in agents {
        lines.push_str(&format!("{}={}\n", key.name, key.value.as_str()));
        split.client.push(key.name.clone());
        if !PASSED.contains(&key.name.as_str()) {
            split.notes.push(format!(
                "{}: compose.yaml does not hand it to the agent: write it into \"env\" of \
                 config/claude/settings.json",
                key.name
            ));
        }
    }
    let mut files: BTreeMap<String, (&Key, bool)> = BTreeMap::new();
    for (key, in_file) in tools {
        let known = KNOWN.iter().find(|(name, _)| *name == key.name).map(|(_, file)| *file);
        let file = known.map_or_else(|| key.name.to_ascii_lowercase(), str::to_owned);
        if file.len() > LONGEST {
            return Err(refused(env, format!("has a name of more than {LONGEST} letters")));
        }
        if let Some((other, other_in_file)) = files.get(&file) {
            let both =
                if *in_file && *other_in_file { "has both" } else { "and your environment have" };
            return Err(refused(
                env,
                format!("{both} {} and {}, for {file}: leave one of the two", other.name, key.name),
            ));
        }
        files.insert(file, (key, *in_file));
    }
    // From here on it may end anywhere: what it has written is on the list before, and
    // goes with its key.
    let list = to.with_extension(LIST);
    let before = listed(&list)?;
    let from_env = || files.iter().filter(|(_, (_, in_file))| *in_file).map(|(file, _)| file);
    let all: BTreeSet<&String> = before.iter().chain(from_env()).collect();
    write(&list, &lines_of(&all), None)?;
    for (file, (key, in_file)) in &files {
        let path = to.join(file);
        split.changed |= write(&path, &key.value, owner)?;
        if !in_file {
            split.notes.push(format!(
                "{}: from your environment; it stays in {} until you remove it",
                key.name,
                path.display()
            ));
        }
        split.server.insert(file.clone(), key.name.clone());
    }
    for name in &before {
        let path = to.join(name);
        if !files.contains_key(name) && path.exists() {
            fs::remove_file(&path).map_err(failed("remove", &path))?;
            split.removed.push(name.clone());
            split.changed = true;
        }
    }
    write(&list, &lines_of(&from_env().collect()), None)?;
    write(client, &lines, None)?;
    Ok(split)
}

fn lines_of(names: &BTreeSet<&String>) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join("\n")
}

/// Names that were written here before; nothing that could lead elsewhere.
fn listed(path: &Path) -> Result<Vec<String>, HostError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    Ok(text.lines().filter(|name| !name.is_empty()).filter(plain).map(str::to_owned).collect())
}

/// Writes a file that its owner alone can read, whole or not at all; whether it is
/// another than before.
fn write(path: &Path, text: &str, owner: Option<Ids>) -> Result<bool, HostError> {
    use std::os::unix::fs::MetadataExt;
    let is_file = fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file);
    let right = is_file.is_some_and(|about| {
        about.mode() & 0o777 == 0o600 && owner.is_none_or(|ids| ids.uid == about.uid())
    });
    let same = fs::read(path).map(Zeroizing::new).is_ok_and(|bytes| *bytes == text.as_bytes());
    if right && same {
        return Ok(false);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    drop(fs::remove_file(&new));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .map_err(failed("create", &new))?;
    let mut put = || -> Result<(), HostError> {
        file.write_all(text.as_bytes()).map_err(failed("write", &new))?;
        if let Some(ids) = owner {
            lchown(&new, Some(ids.uid), Some(ids.gid))
                .map_err(failed("change the owner of", &new))?;
        }
        fs::rename(&new, path).map_err(failed("replace", path))
    };
    // What could not be put in its place does not lie beside it.
    put().inspect_err(|_error| drop(fs::remove_file(&new)))?;
    Ok(!same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    struct Stand {
        dir: tempfile::TempDir,
    }

    impl Stand {
        fn new() -> Stand {
            let dir = tempfile::tempdir().expect("a directory");
            fs::create_dir(dir.path().join("secrets")).expect("made");
            Stand { dir }
        }

        fn split(&self, env: &str, offered: &[(&str, &str)]) -> Result<Split, HostError> {
            fs::write(self.dir.path().join(".env"), env).expect("written");
            let find = |name: &str| {
                let found = offered.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let path = |name| self.dir.path().join(name);
            split(&path(".env"), &find, &path("secrets"), &path("client.env"), None)
        }

        fn file(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.dir.path().join(name)).ok()
        }
    }

    #[test]
    fn each_key_goes_to_the_service_that_needs_it_and_nowhere_else() {
        let stand = Stand::new();
        let env = "GITHUB_TOKEN=g-1\nANTHROPIC_API_KEY=a-1\nNPM_TOKEN='n-1'\nSENTRY_DSN=s-1\n\
                   CLAUDE_CODE_OAUTH_TOKEN=o-1\nEMPTY=\n";
        let split = stand.split(env, &[]).expect("split");
        assert_eq!(split.client, ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"]);
        let files: Vec<&String> = split.server.keys().collect();
        assert_eq!(files, ["github_token", "npm_token", "sentry_dsn"]);
        assert_eq!(stand.file("secrets/github_token").expect("there"), "g-1");
        assert_eq!(stand.file("secrets/sentry_dsn").expect("there"), "s-1");
        let client = stand.file("client.env").expect("there");
        assert_eq!(client, "ANTHROPIC_API_KEY=a-1\nCLAUDE_CODE_OAUTH_TOKEN=o-1\n");
        for name in ["secrets/github_token", "secrets/npm_token", "client.env"] {
            let about = fs::metadata(stand.dir.path().join(name)).expect("there");
            assert_eq!(about.mode() & 0o777, 0o600, "{name}");
        }
        let told = format!("{split:?}");
        for value in ["g-1", "a-1", "n-1", "s-1", "o-1"] {
            assert!(!told.contains(value), "{told}");
        }
        assert!(split.changed);
        assert!(!stand.split(env, &[]).expect("split").changed);
    }

    #[test]
    fn what_goes_from_the_file_goes_from_the_server_and_what_a_person_put_there_stays() {
        let stand = Stand::new();
        stand.split("GITHUB_TOKEN=g-1\nOTHER=o\n", &[]).expect("split");
        fs::write(stand.dir.path().join("secrets/own"), "mine").expect("written");
        let split = stand.split("OTHER=o\n", &[]).expect("split");
        assert_eq!(split.removed, ["github_token"]);
        assert_eq!(stand.file("secrets/github_token"), None);
        assert!(stand.file("secrets/own").is_some() && stand.file("secrets/other").is_some());
    }

    #[test]
    fn the_environment_comes_before_the_file_and_stays_until_it_is_removed() {
        let stand = Stand::new();
        let split = stand.split("GITHUB_TOKEN=g-1\n", &[("GITHUB_TOKEN", "g-2")]).expect("split");
        assert_eq!(stand.file("secrets/github_token").expect("there"), "g-2");
        assert!(split.notes.concat().contains("until you remove it"), "{:?}", split.notes);
        assert!(!split.notes.concat().contains("g-2"));
        stand.split("", &[]).expect("split");
        assert!(stand.file("secrets/github_token").is_some());
        let error = stand.split("GH_TOKEN=g-1\n", &[("GITHUB_TOKEN", "g-2")]).expect_err("two");
        assert!(error.to_string().contains("leave one of the two"), "{error}");
    }

    #[test]
    fn what_fails_leaves_no_secret_that_would_stay() {
        let stand = Stand::new();
        let error = stand.split("A_TOKEN=1\na_token=2\n", &[]).expect_err("two").to_string();
        assert!(error.contains(".env has both A_TOKEN and a_token, for a_token"), "{error}");
        assert_eq!(stand.file("secrets/a_token"), None);
        let long = format!("B=1\n{}=2\n", "A".repeat(200));
        stand.split(&long, &[]).expect_err("too long");
        assert_eq!(stand.file("secrets/b"), None);
        // One that cannot be written: what was is removed with its key.
        fs::create_dir(stand.dir.path().join("secrets/b_token")).expect("made");
        stand.split("A_TOKEN=1\nB_TOKEN=2\n", &[]).expect_err("a directory");
        assert!(stand.file("secrets/a_token").is_some());
        assert_eq!(stand.file("secrets/b_token.new"), None);
        fs::remove_dir(stand.dir.path().join("secrets/b_token")).expect("removed");
        let split = stand.split("", &[]).expect("split");
        assert_eq!(split.removed, ["a_token"]);
        assert_eq!(stand.file("secrets/a_token"), None);
    }

    #[test]
    fn a_file_that_others_could_read_is_made_anew() {
        use std::os::unix::fs::PermissionsExt;
        let stand = Stand::new();
        stand.split("A_TOKEN=a\n", &[]).expect("split");
        let path = stand.dir.path().join("secrets/a_token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        stand.split("A_TOKEN=a\n", &[]).expect("split");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
    }
}
