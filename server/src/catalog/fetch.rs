//! A definition from a git repository, taken without a work tree.
//!
//! Owns: what git is asked, and with what it is let do nothing else: an empty
//! configuration, no templates, hooks, filters, submodules, log-ins; files are read as
//! blobs of one commit, so nothing is ever checked out. Must not: run anything that
//! came, or keep it beyond the fetch.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bundle::{Bundle, Kind, MAX_FILE, Taking};
use super::error::CatalogError;
use super::stage::Stage;
use crate::os::helper::{self, Helper, Ran, Stopped};
use crate::shown::harmless;

/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// The most bytes that a repository may become here.
const MAX_REPOSITORY: u64 = 64 * 1024 * 1024;

/// The most bytes of a listing.
const MAX_LISTING: usize = 1024 * 1024;

/// The variables that git gets of the caller's: how the network is reached.
const TAKEN: [&str; 9] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "https_proxy",
    "no_proxy",
];

/// Where from.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    pub(crate) url: String,
    /// A whole name; none: what HEAD is now.
    pub(crate) commit: Option<String>,
    /// The folder with the definition; none: the root, or the tool's name.
    pub(crate) folder: Option<String>,
}

/// What came.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) bundle: Bundle,
    pub(crate) commit: String,
    /// Empty: the root.
    pub(crate) folder: String,
}

fn wrong<T>(message: impl Into<String>) -> Result<T, CatalogError> {
    Err(CatalogError::Git { message: message.into() })
}

impl Repository {
    /// Checks what is written before git sees a word of it.
    pub(crate) fn check(&self) -> Result<(), CatalogError> {
        let url = &self.url;
        if url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
            return wrong(format!("{url:?} has blanks or control characters"));
        }
        let web = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let authority = web.map(|rest| rest.split('/').next().unwrap_or_default());
        if authority.is_some_and(|authority| authority.contains('@')) {
            return wrong(
                "an address with a name or password in it is not taken, since it is written down: clone that repository yourself and use --path",
            );
        }
        // user@host:path
        let copied = url.split_once(':').is_some_and(|(host, path)| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
            !path.starts_with("//")
                && host.contains('@')
                && !host.starts_with('-')
                && host.bytes().all(plain)
        });
        let known = ["ssh://", "file:///", "/"].iter().any(|begin| url.starts_with(begin));
        if web.is_none() && !known && !copied {
            return wrong(format!(
                "{url:?}: an address begins with https://, http://, ssh://, file:/// or a slash, or is USER@HOST:PATH"
            ));
        }
        if let Some(commit) = &self.commit {
            let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if ![40, 64].contains(&commit.len()) || !commit.bytes().all(digits) {
                return wrong(format!(
                    "--commit {commit:?}: a commit is written whole, as 40 of 0-9 a-f"
                ));
            }
        }
        if let Some(folder) = &self.folder {
            let plain = |part: &str| {
                let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
                !part.is_empty() && part != "." && part != ".." && part.bytes().all(letters)
            };
            if !folder.split('/').all(plain) || folder.starts_with('-') {
                return wrong(format!(
                    "--folder {folder:?}: a folder is written as a/b, from the root of the repository"
                ));
            }
        }
        Ok(())
    }
}

/// Fetches one commit and reads the definition's files.
pub(crate) fn fetch(name: &str, from: &Repository) -> Result<Fetched, CatalogError> {
    from.check()?;
    let stage = Stage::in_temporary()?;
    let git = Git { place: stage.path().to_owned() };
    let long = from.commit.as_ref().is_some_and(|commit| commit.len() == 64);
    let format = if long { "--object-format=sha256" } else { "--object-format=sha1" };
    git.must(&["init", "--quiet", "--bare", "--template=", format, "."], MAX_LISTING)?;
    let wanted = from.commit.as_deref().unwrap_or("HEAD");
    git.fetch(&from.url, wanted)?;
    let commit = git.line(&["rev-parse", "--verify", "--end-of-options", "refs/taken^{commit}"])?;
    if from.commit.as_ref().is_some_and(|wanted| *wanted != commit) {
        return wrong(format!("asked for {wanted}, {} sent {commit}", from.url));
    }
    let folders = match &from.folder {
        Some(folder) => vec![folder.as_str()],
        None => vec!["", name],
    };
    for folder in folders {
        let Some(listing) = git.list(&commit, folder)? else { continue };
        if from.folder.is_none() && !listing.iter().any(|entry| entry.is_definition()) {
            continue;
        }
        let place = format!("{} {commit} {folder}", from.url);
        let bundle = git.read(place.trim_end(), &listing)?;
        return Ok(Fetched { bundle, commit, folder: folder.to_owned() });
    }
    Err(CatalogError::NoDefinition {
        place: format!("{} at {commit}", from.url),
        hint: ", with --folder",
    })
}

/// One line of `ls-tree`.
#[derive(Debug)]
struct Listed {
    kind: Kind,
    object: String,
    size: usize,
    name: Vec<u8>,
}

impl Listed {
    fn is_definition(&self) -> bool {
        self.kind == Kind::File && [&b"tool.toml"[..], b"tool.json"].contains(&self.name.as_slice())
    }

    /// `MODE TYPE OBJECT SIZE<TAB>NAME`.
    fn parse(line: &[u8]) -> Option<Listed> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (head, name) = line.split_at_checked(tab)?;
        let mut words = std::str::from_utf8(head).ok()?.split_ascii_whitespace();
        let (mode, _, object, size) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let kind = match mode {
            "040000" => Kind::Folder,
            "120000" => Kind::Symlink,
            mode if mode.starts_with("100") => Kind::File,
            // A submodule, and what may come.
            _ => Kind::Other,
        };
        let size = if kind == Kind::File { size.parse().ok()? } else { 0 };
        let name = name.get(1..)?.to_vec();
        Some(Listed { kind, object: object.to_owned(), size, name })
    }
}

/// git in an empty repository of ours.
#[derive(Debug)]
struct Git {
    place: PathBuf,
}

impl Git {
    /// Fetches one commit into `refs/taken`; where a server gives out no commit by its
    /// name, all of its branches and tags.
    fn fetch(&self, url: &str, wanted: &str) -> Result<(), CatalogError> {
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"];
        let one = format!("+{wanted}:refs/taken");
        let words = [&quiet[..], &["--no-write-fetch-head", "--depth=1", "--", url, &one]].concat();
        let first = self.run(&words, MAX_LISTING)?;
        if first.ok {
            return Ok(());
        }
        if wanted == "HEAD" || first.stopped.is_some() {
            return wrong(complaint(&first));
        }
        let all =
            ["--no-write-fetch-head", "--", url, "+refs/heads/*:refs/h/*", "+refs/tags/*:refs/t/*"];
        self.must(&[&quiet[..], &all].concat(), MAX_LISTING)?;
        self.must(&["update-ref", "refs/taken", wanted], MAX_LISTING)?;
        Ok(())
    }

    /// What is in a folder of the commit; none where there is no such folder.
    fn list(&self, commit: &str, folder: &str) -> Result<Option<Vec<Listed>>, CatalogError> {
        let tree = format!("{commit}:{folder}");
        let ran = self.run(&["ls-tree", "-z", "--long", "--end-of-options", &tree], MAX_LISTING)?;
        if ran.stopped.is_some() {
            return wrong(complaint(&ran));
        }
        if !ran.ok {
            return Ok(None);
        }
        let lines = ran.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        match lines.map(Listed::parse).collect::<Option<Vec<_>>>() {
            Some(listed) => Ok(Some(listed)),
            None => wrong("the listing of the repository is not understood"),
        }
    }

    fn read(&self, place: &str, listing: &[Listed]) -> Result<Bundle, CatalogError> {
        let mut taking = Taking::new(place);
        for entry in listing {
            if !taking.wants(&entry.name, entry.kind)? {
                continue;
            }
            let name = entry.name.escape_ascii().to_string();
            taking.fits(&name, entry.size)?;
            // A blob as it is: no filter, no conversion of lines.
            let bytes = self.must(&["cat-file", "blob", &entry.object], MAX_FILE)?;
            if bytes.starts_with(b"version https://git-lfs.github.com/spec") {
                let what = format!("{name} is kept by git lfs, and is not here");
                return Err(CatalogError::Refused { place: place.to_owned(), what });
            }
            taking.take(name, bytes)?;
        }
        Ok(taking.done())
    }

    fn line(&self, words: &[&str]) -> Result<String, CatalogError> {
        let bytes = self.must(words, MAX_LISTING)?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(_) => wrong("its answer is not understood"),
        }
    }

    fn must(&self, words: &[&str], output: usize) -> Result<Vec<u8>, CatalogError> {
        let ran = self.run(words, output)?;
        if ran.ok { Ok(ran.stdout) } else { wrong(complaint(&ran)) }
    }

    fn run(&self, words: &[&str], output: usize) -> Result<Ran, CatalogError> {
        let settings = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "credential.helper=",
            "protocol.allow=never",
            "protocol.https.allow=always",
            "protocol.http.allow=always",
            "protocol.ssh.allow=always",
            "protocol.file.allow=always",
            "submodule.recurse=false",
            "transfer.fsckObjects=true",
            "gc.auto=0",
            "maintenance.auto=false",
            "init.defaultBranch=main",
            "core.askPass=",
        ];
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let args: Vec<&OsStr> = settings.chain(words.iter().copied()).map(OsStr::new).collect();
        let set = |name: &str, value: &OsStr| (name.to_owned(), value.to_owned());
        let path =
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut env: Vec<(String, OsString)> = vec![
            set("PATH", &path),
            set("HOME", self.place.as_os_str()),
            set("LC_ALL", "C".as_ref()),
            set("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            set("GIT_CONFIG_SYSTEM", "/dev/null".as_ref()),
            set("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            set("GIT_ATTR_NOSYSTEM", "1".as_ref()),
            set("GIT_TERMINAL_PROMPT", "0".as_ref()),
            set("GIT_ASKPASS", "".as_ref()),
            set("SSH_ASKPASS", "".as_ref()),
            set("GIT_SSH_COMMAND", "ssh -oBatchMode=yes".as_ref()),
            set("GIT_LFS_SKIP_SMUDGE", "1".as_ref()),
            set("GIT_DIR", self.place.as_os_str()),
        ];
        env.extend(
            TAKEN.iter().filter_map(|name| Some((String::from(*name), std::env::var_os(name)?))),
        );
        let helper = Helper {
            program: "git".as_ref(),
            args: &args,
            env: &env,
            directory: &self.place,
            timeout: PATIENCE,
            output,
        };
        let mut fits = || size(&self.place) <= MAX_REPOSITORY;
        helper::run(&helper, &mut fits).map_err(|error| {
            let message = match error.kind() {
                ErrorKind::NotFound => "is not installed here; with it --url works".to_owned(),
                _ => format!("cannot be run: {error}"),
            };
            CatalogError::Git { message }
        })
    }
}

/// What git said, in one line.
fn complaint(ran: &Ran) -> String {
    match ran.stopped {
        Some(Stopped::Late) => format!("took longer than {} s, and was ended", PATIENCE.as_secs()),
        Some(Stopped::Output) => "said more than is read".to_owned(),
        Some(Stopped::Unwanted) => format!(
            "the repository has more than {} MiB: a definition belongs into a small one",
            MAX_REPOSITORY / (1024 * 1024)
        ),
        None => {
            let text = match std::str::from_utf8(&ran.stderr) {
                Ok(text) => harmless(&text.split_whitespace().collect::<Vec<_>>().join(" ")),
                Err(_) => ran.stderr.escape_ascii().to_string(),
            };
            match text.as_str() {
                "" => "failed and did not say why".to_owned(),
                // What git advises does not count here.
                text if text.contains("dubious ownership") => {
                    "the repository belongs to somebody else, who could have git run a program: take it as its owner, or clone it as its owner and use --path".to_owned()
                }
                _ => text,
            }
        }
    }
}

/// How many bytes a directory has, with what is beneath it. What vanishes meanwhile
/// has none.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, commit: Option<&str>, folder: Option<&str>) -> Result<(), CatalogError> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Repository { url: url.to_owned(), commit: own(commit), folder: own(folder) }.check()
    }

    #[test]
    fn addresses_commits_and_folders_are_plain() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for url in [
            "https://example.com/a.git",
            "ssh://git@example.com/a",
            "git@example.com:a/b",
            "/srv/a",
            "file:///srv/a",
        ] {
            assert!(check(url, Some(commit), Some("tools/jq")).is_ok(), "{url}");
        }
        for url in [
            "",
            "-u",
            "--upload-pack=x",
            "ext::sh -c x",
            "ext::x",
            "a/b",
            "../a",
            "ftp://x/y",
            "file://host/x",
            "https://u:p@example.com/a",
            "-o@x:y",
            "/a\nb",
            "git://x/y",
        ] {
            assert!(check(url, None, None).is_err(), "{url:?}");
        }
        for commit in ["", "main", "0123456", "HEAD^{}", "-x"] {
            assert!(check("/a", Some(commit), None).is_err(), "{commit:?}");
        }
        for folder in ["", "/etc", "..", "a/../b", "a//b", "a/", "-a", "a b", "a\0"] {
            assert!(check("/a", None, Some(folder)).is_err(), "{folder:?}");
        }
    }
}
