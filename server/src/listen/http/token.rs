//! Who may ask: the file of tokens.
//!
//! Owns: its form, and who may read it. Must not: keep a token; of each there is a digest.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::libc::O_NONBLOCK;
use sha2::{Digest as _, Sha256};

use super::HttpError;

/// The most bytes of the file.
const MOST: u64 = 1024 * 1024;
/// Fewer characters are guessed.
const LEAST: usize = 16;

/// One who may ask, as the file has it.
#[derive(Debug)]
pub(super) struct Line {
    /// None: it is called by a number.
    pub(super) name: Option<String>,
    pub(super) digest: [u8; 32],
}

/// Opens the file; does not wait for what is none.
pub(super) fn open(path: &Path) -> Result<(File, Metadata), HttpError> {
    let failed = |source| HttpError::Read { path: path.to_owned(), source };
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    Ok((file, about))
}

/// Reads it.
pub(super) fn read(path: &Path, (file, about): (File, Metadata)) -> Result<Vec<Line>, HttpError> {
    let failed = |source| HttpError::Read { path: path.to_owned(), source };
    let wrong = |line, wrong| HttpError::Tokens { path: path.to_owned(), line, wrong };
    if !about.is_file() {
        return Err(wrong(None, "is no file; name one, with a token in each line"));
    }
    if about.mode() & 0o026 != 0 {
        let message = "everybody can read it, or others can write it: chmod 600, or 640";
        return Err(wrong(None, message));
    }
    let mut text = String::new();
    file.take(MOST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST {
        return Err(wrong(None, "has more than 1 MiB: this is no file of tokens"));
    }
    parse(&text).map_err(|(line, message)| wrong(line, message))
}

/// By which a token is known.
pub(super) fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

type Wrong = (Option<usize>, &'static str);

fn parse(text: &str) -> Result<Vec<Line>, Wrong> {
    let mut clients: Vec<Line> = Vec::new();
    let mut names = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |message| Err((Some(number), message));
        let (name, token) = match line.split_once(':') {
            Some((name, token)) => (Some(name), token),
            None => (None, line),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_some_and(|name| !(1..=64).contains(&name.len()) || !name.chars().all(plain)) {
            return wrong("a name has 1 to 64 letters, digits, dots, - or _");
        }
        if token.len() < LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "a token has at least 16 characters, none of them a space: as by \
                           `openssl rand -hex 32`";
            return wrong(message);
        }
        let digest = digest(token.as_bytes());
        let twice = name.is_some_and(|name| !names.insert(name));
        if twice || clients.iter().any(|known| known.digest == digest) {
            return wrong("this name or this token is there twice: each client has its own");
        }
        clients.push(Line { name: name.map(str::to_owned), digest });
    }
    if clients.is_empty() {
        return Err((None, "there is no token in it; write one in a line, as NAME:TOKEN"));
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_token_with_or_without_a_name() {
        let text = "# of this project\n\nalice:0123456789abcdef\n  0123456789abcdeg=\n";
        let lines = parse(text).unwrap();
        let names: Vec<_> = lines.iter().map(|line| line.name.as_deref()).collect();
        assert_eq!(names, [Some("alice"), None]);
        assert_eq!(lines[1].digest, digest(b"0123456789abcdeg="));
    }

    #[test]
    fn what_is_no_token_is_named_with_its_line() {
        let line = |text: &str| parse(text).unwrap_err().0;
        assert_eq!(line(""), None);
        assert_eq!(line("# none\n"), None);
        assert_eq!(line("\nshort\n"), Some(2));
        assert_eq!(line("a b:0123456789abcdef"), Some(1));
        assert_eq!(line(":0123456789abcdef"), Some(1));
        assert_eq!(line("a:0123456789 abcdef"), Some(1));
        assert_eq!(line("a:0123456789abcdef\na:0123456789abcdeg"), Some(2));
        assert_eq!(line("a:0123456789abcdef\nb:0123456789abcdef"), Some(2));
    }
}
