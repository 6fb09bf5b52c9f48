//! The project's script as it is on the disk at this moment.
//!
//! Owns: reading it beneath the project's root, and its hash: of what would be run and
//! how. The workspace is the agent's: no symlink is followed, nothing is waited for,
//! nothing long is read. Must not: run it, or open it twice.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use sha2::{Digest, Sha256};

use super::config::{self, CONFIG, Project, plain};
use super::error::ProjectError;
use crate::os::foreign::Found;
use crate::os::root::{Plain, Root};

/// The longest `config.json`.
const MOST_CONFIG: u64 = 16 * 1024;
/// The longest script: a person has to read it.
const MOST_SCRIPT: u64 = 256 * 1024;
/// The longest `#!` line.
const MOST_LINE: usize = 255;
/// What runs a script without a `#!` line.
const SHELL: &str = "/bin/bash";
/// Where interpreters lie: no tool can put one there.
const INTERPRETERS: [&str; 3] = ["/bin/", "/usr/bin/", "/usr/local/bin/"];

/// A script, read: these bytes are shown, approved and run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// Beneath the project's root.
    pub(crate) path: String,
    /// The program and its argument, before the file.
    pub(crate) interpreter: Vec<String>,
    /// All of it.
    pub(crate) bytes: Vec<u8>,
    /// Of path, interpreter and bytes: sha256 in hexadecimal.
    pub(crate) hash: String,
}

impl Script {
    fn new(path: String, bytes: Vec<u8>) -> Result<Script, ProjectError> {
        let name = shown(&path);
        let bad = |why: String| ProjectError::Script { name: name.clone(), why };
        if bytes.contains(&0) {
            return Err(bad("is no text: it holds a NUL".to_owned()));
        }
        let interpreter = interpreter(&bytes).map_err(|why| bad(why.to_owned()))?;
        let mut digest = Sha256::new();
        let line = interpreter.join(" ");
        for part in [b"project setup 1".as_slice(), path.as_bytes(), line.as_bytes(), &bytes] {
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(part);
        }
        let hash = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Script { path, interpreter, bytes, hash })
    }

    /// Its path, for a line of text.
    pub(crate) fn name(&self) -> String {
        shown(&self.path)
    }
}

/// A path, for a line of text.
pub(super) fn shown(path: &str) -> String {
    path.chars().flat_map(plain).collect()
}

/// What the project's configuration says; `None`: it has none.
pub(super) fn project(root: &Root) -> Result<Option<Project>, ProjectError> {
    match read(root, CONFIG, MOST_CONFIG) {
        Ok(bytes) => config::parse(&bytes).map(Some),
        Err(ProjectError::Open { errno: Errno::ENOENT, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The server's script; `None`: the project has none.
pub(super) fn script(root: &Root) -> Result<Option<Script>, ProjectError> {
    let Some(path) = project(root)?.and_then(|project| project.setup.server) else {
        return Ok(None);
    };
    let bytes = read(root, &path, MOST_SCRIPT)?;
    Script::new(path, bytes).map(Some)
}

/// The client's script of the project in that directory, as its path beneath it; a file
/// that is there. Needs no server.
pub(crate) fn client(directory: &Path) -> Result<Option<String>, ProjectError> {
    let root = |errno| ProjectError::Root { path: directory.to_owned(), errno };
    let root = Root::open(directory).map_err(root)?;
    let Some(path) = project(&root)?.and_then(|project| project.setup.client) else {
        return Ok(None);
    };
    open(&root, &path)?;
    Ok(Some(path))
}

fn open(root: &Root, name: &str) -> Result<Found, ProjectError> {
    let failed = |errno| ProjectError::Open { name: shown(name), errno };
    let top = Plain::open(root, OsStr::new("")).map_err(failed)?;
    let file = top.look(OsStr::new(name), OFlag::O_RDONLY).map_err(failed)?;
    match file.kind() == Some(SFlag::S_IFREG) {
        true => Ok(file),
        false => Err(ProjectError::NotRegular { name: shown(name) }),
    }
}

fn read(root: &Root, name: &str, most: u64) -> Result<Vec<u8>, ProjectError> {
    let file = open(root, name)?;
    let mut bytes = Vec::new();
    let failed = |source| ProjectError::Read { name: shown(name), source };
    let length = file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    match u64::try_from(length).is_ok_and(|length| length <= most) {
        true => Ok(bytes),
        false => Err(ProjectError::TooLong { name: shown(name), most }),
    }
}

/// As the kernel reads it: a program, and all that follows as one argument.
fn interpreter(bytes: &[u8]) -> Result<Vec<String>, &'static str> {
    let Some(rest) = bytes.strip_prefix(b"#!") else { return Ok(vec![SHELL.to_owned()]) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.len() > MOST_LINE {
        return Err("has a #! line of more than 255 bytes");
    }
    let line = std::str::from_utf8(line).map_err(|_bytes| "has a #! line that is no text");
    let line = line?.trim_matches([' ', '\t']);
    if line.chars().any(|character| !matches!(character, ' '..='~' | '\t')) {
        return Err("has a #! line with other characters than ASCII's (a return, perhaps)");
    }
    let (program, argument) = match line.split_once([' ', '\t']) {
        Some((program, argument)) => (program, Some(argument.trim_matches([' ', '\t']))),
        None => (line, None),
    };
    let is_systems = |place: &str| {
        let name = program.strip_prefix(place);
        name.is_some_and(|name| !matches!(name, "" | "." | "..") && !name.contains('/'))
    };
    if !INTERPRETERS.iter().any(|place| is_systems(place)) {
        return Err("has an interpreter outside of /bin, /usr/bin and /usr/local/bin");
    }
    Ok(std::iter::once(program).chain(argument).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_run_as_its_first_line_says_by_a_program_of_the_systems() {
        let read = |text: &str| interpreter(text.as_bytes());
        let words = |words: &[&str]| Ok(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(read("echo x\n"), words(&["/bin/bash"]));
        assert_eq!(read(""), words(&["/bin/bash"]));
        assert_eq!(read("#!/bin/sh\nx"), words(&["/bin/sh"]));
        assert_eq!(read("#! /usr/bin/env bash"), words(&["/usr/bin/env", "bash"]));
        assert_eq!(read("#!/usr/bin/env -S a b \n"), words(&["/usr/bin/env", "-S a b"]));
        for bad in [
            "#!\n",
            "#!sh\n",
            "#!./evil\n",
            "#!/workspace/sh\n",
            "#!/usr/bin/../../w/sh\n",
            "#!/bin/\n",
            "#!/bin/..\n",
            "#!/bin/sh\r\n",
            "#!/bin/sh \u{202e}x\n",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(interpreter(&[b"#!/bin/".as_slice(), &[b'x'; 300]].concat()).is_err());
        assert!(interpreter(b"#!/bin/\xff\n").is_err());
    }

    #[test]
    fn a_hash_is_of_the_path_the_interpreter_and_every_byte() {
        let hash = |path: &str, text: &str| {
            Script::new(path.to_owned(), text.as_bytes().to_vec()).unwrap().hash
        };
        let first = hash("a.sh", "x");
        assert_eq!((first.len(), hash("a.sh", "x")), (64, first.clone()));
        for (path, text) in
            [("b.sh", "x"), ("a.sh", "x\n"), ("a.sh", "#!/bin/sh\nx"), ("a.s", "hx")]
        {
            assert_ne!(hash(path, text), first, "{path} {text:?}");
        }
        assert!(Script::new("a".to_owned(), b"a\0b".to_vec()).is_err());
    }
}
