//! The program that is run instead of a tool's binary.
//!
//! Owns: which wrapper is a tool's, whether it may be run, and with what.
//! Must not: run it; and never pass over one that is there but not right.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::sys::stat::FileStat;

use super::binary;
use super::error::LoadError;
use super::fingerprint::Fingerprint;
use super::site::{Site, inside};
use super::stamp::{ENDINGS, Stamp, WRAPPERS};
use super::tool::{Interpreter, Wrapper};
use super::trust::quoted;
use crate::os::root::Root;

/// How much of a file is looked at for its `#!` line: the kernel's own limit.
const SHEBANG: u64 = 256;

/// A wrapper and its place in the order; `RANK_NONE` and no wrapper.
pub(super) type Ranked = (usize, Option<Wrapper>);

/// The rank of a tool without a wrapper: weaker than every other.
pub(super) const RANK_NONE: usize = WRAPPERS.len() + ENDINGS.len();

/// Finds a tool's wrapper: the first of the folder's three, then the first of
/// RESTRICTED_DIR's three.
pub(super) fn find(
    site: &Site<'_>,
    name: &str,
    stamp: &Stamp,
    print: &mut Fingerprint,
) -> Result<Ranked, LoadError> {
    let own = WRAPPERS.into_iter().enumerate().find(|(_, file)| stamp.has(file));
    if let Some((rank, file)) = own {
        let relative = inside(name, file);
        let ending = ENDINGS.get(rank);
        return Ok((rank, Some(open(site, &site.tools, &relative, ending, print)?)));
    }
    let Some(global) = site.global.as_ref().map_err(Clone::clone)? else {
        return Ok((RANK_NONE, None));
    };
    for (rank, ending) in ENDINGS.iter().enumerate() {
        let file = format!("{name}{ending}");
        if stamp.has_global(&file) {
            site.trust.check(global.root.path(), &global.found)?;
            site.trust.check_place(&global.root)?;
            let wrapper = open(site, &global.root, Path::new(&file), Some(ending), print)?;
            return Ok((WRAPPERS.len() + rank, Some(wrapper)));
        }
    }
    Ok((RANK_NONE, None))
}

fn open(
    site: &Site<'_>,
    root: &Root,
    relative: &Path,
    ending: Option<&&str>,
    print: &mut Fingerprint,
) -> Result<Wrapper, LoadError> {
    let (file, found) = site.trust.open(root, relative)?;
    let path = root.path().join(relative);
    print.file(&path, file.as_fd())?;
    let interpreter = match ending.copied().unwrap_or_default() {
        ".py" => Some(interpreter(site, "python3")),
        ".sh" => Some(interpreter(site, "bash")),
        _ => plain(site, file, &found, &path)?,
    };
    Ok(Wrapper { path, interpreter })
}

fn interpreter(site: &Site<'_>, program: &str) -> Interpreter {
    let path = binary::on_path(&site.options.env_path, program);
    Interpreter { program: program.to_owned(), path }
}

/// A wrapper without an ending is run as it is. Only where its `#!` line names
/// something that is not there does it get an interpreter, a missing one: the
/// kernel's own answer would be a bare "no such file".
fn plain(
    site: &Site<'_>,
    file: OwnedFd,
    found: &FileStat,
    path: &Path,
) -> Result<Option<Interpreter>, LoadError> {
    if found.st_mode & 0o111 == 0 {
        return Err(LoadError::NotExecutable { path: path.to_owned(), fix: quoted(path) });
    }
    let mut first = Vec::new();
    let read = File::from(file).take(SHEBANG).read_to_end(&mut first);
    let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!").filter(|_| read.is_ok()) else { return Ok(None) };
    let Ok(line) = std::str::from_utf8(line) else { return Ok(None) };
    let mut words = line.split_ascii_whitespace();
    let Some(program) = words.next() else { return Ok(None) };
    let missing = |program: &str| Some(Interpreter { program: program.to_owned(), path: None });
    if !binary::is_executable(Path::new(program)) {
        return Ok(missing(program));
    }
    // `#!/usr/bin/env python3`: env itself is there, what it looks for is not.
    let by_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    let wanted =
        words.next().filter(|word| by_env && !word.starts_with('-') && !word.contains('='));
    Ok(wanted.filter(|name| !is_found(site, name)).and_then(missing))
}

fn is_found(site: &Site<'_>, name: &str) -> bool {
    binary::on_path(&site.options.env_path, name).is_some()
}
