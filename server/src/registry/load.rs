//! One folder of tools.d becomes a tool.
//!
//! Owns: bringing a folder's files together, and every default that a
//! definition leaves open. Must not: remember anything; `state` does.

use std::path::{Path, PathBuf};

use super::binary;
use super::definition::{self, Definition, SyntaxError};
use super::error::LoadError;
use super::site::{Site, inside};
use super::stamp::{SETUP, Stamp};
use super::tool::{Decision, EnvRules, Origin, Pattern, Tool};
use super::trust::Trust;
use super::wrapper::{self, Ranked};
use crate::os::root::Root;

/// What a tool gets from its caller where its definition does not say.
const FORWARD: [&str; 2] = ["LANG", "TERM"];

/// A tool and what the registry has to remember about how it was found.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) tool: Tool,
    /// Its wrapper's place in the order: a greater one is weaker.
    pub(super) rank: usize,
    /// Depends on files that the stamp does not cover: load it at every look.
    pub(super) volatile: bool,
}

/// Why there is no tool.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: LoadError,
    /// Somebody may have put other files in the wrapper's place: what is run
    /// from this folder must not be run any more.
    pub(super) suspect: bool,
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        Failure { error, suspect: false }
    }
}

/// Loads a folder. The wrapper comes first: whatever else is wrong, it must be
/// known whether it is still what the last good tool ran.
pub(super) fn load(site: &Site<'_>, name: &str, stamp: &Stamp) -> Result<Loaded, Failure> {
    let suspect = |error: LoadError| Failure { suspect: error.is_trust(), error };
    let folder = site.tools.path().join(name);
    check_folder(site, name, &folder).map_err(suspect)?;
    let (rank, wrapper) = wrapper::find(site, name, stamp).map_err(suspect)?;
    let file = stamp.definition();
    let said = file.map(|file| read(site, name, file, stamp)).transpose()?;
    let setup = if stamp.has(SETUP) {
        let relative = inside(name, SETUP);
        site.trust.open(&site.tools, &relative)?;
        Some(site.tools.path().join(relative))
    } else {
        None
    };
    let place = file.map_or(folder.clone(), |file| folder.join(file));
    Ok(assemble(site, name, place, said, (rank, wrapper), setup)?)
}

fn check_folder(site: &Site<'_>, name: &str, path: &Path) -> Result<(), LoadError> {
    let failed = |source| LoadError::io("open", path.to_owned(), site.tools.path(), source);
    let folder = site.tools.directory(name.as_ref()).map_err(failed)?;
    let found = nix::sys::stat::fstat(&folder).map_err(failed)?;
    site.trust.check(path, &found)?;
    // Only a mount can make a folder of tools.d a workspace root.
    match site.trust.root_above(&folder).map_err(failed)? {
        Some(root) => Err(LoadError::InWorkspace { path: path.to_owned(), root }),
        None => Ok(()),
    }
}

fn read(
    site: &Site<'_>,
    name: &str,
    file: &'static str,
    stamp: &Stamp,
) -> Result<Definition, LoadError> {
    let relative = inside(name, file);
    let text = site.trust.read(&site.tools, &relative)?;
    let path = site.tools.path().join(relative);
    let syntax = |SyntaxError { line, message }| LoadError::Syntax { path, line, message };
    if file == "tool.json" {
        return definition::parse_json(&text).map_err(syntax);
    }
    let mut said = definition::parse_toml(&text).map_err(syntax)?;
    if stamp.has("tool.json") {
        said.warnings.push("tool.json is not read: tool.toml beside it is".to_owned());
    }
    Ok(said)
}

fn assemble(
    site: &Site<'_>,
    name: &str,
    place: PathBuf,
    said: Option<Definition>,
    (rank, wrapper): Ranked,
    setup: Option<PathBuf>,
) -> Result<Loaded, LoadError> {
    let options = site.options;
    let defined = said.is_some();
    let said = said.unwrap_or_default();
    let looked_up = said.binary.is_none();
    let binary = match said.binary {
        Some(binary) => binary,
        None => look_up(site, name, defined, &place)?,
    };
    if options.require_rules && said.default.is_none() && wrapper.is_none() {
        return Err(LoadError::RulesRequired { path: place });
    }
    let mut warnings = said.warnings;
    if let Some(root) = workspace_above(&site.trust, &binary) {
        let (binary, root) = (binary.display(), root.display());
        warnings
            .push(format!("{binary} lies beneath the workspace {root}: the agent can change it"));
    }
    let missing = wrapper.as_ref().is_some_and(|wrapper| wrapper.missing().is_some());
    let (default, line) = said.default.unwrap_or((Decision::Allow, 1));
    let tool = Tool {
        name: name.to_owned(),
        binary,
        wrapper,
        timeout: said.timeout.unwrap_or(options.default_timeout),
        timeout_set: said.timeout.is_some(),
        default,
        default_set: said.default.is_some(),
        origin: Origin { file: place, line },
        env: env(said.env, options.env_inherit.as_slice()),
        concurrent: said.concurrent,
        limits: said.limits,
        stream: said.stream,
        facts: said.facts,
        setup,
        description: said.description,
        warnings,
    };
    Ok(Loaded { tool, rank, volatile: looked_up || missing })
}

/// The binary of a tool whose definition does not name one.
fn look_up(site: &Site<'_>, name: &str, defined: bool, place: &Path) -> Result<PathBuf, LoadError> {
    let directories = || site.options.binary_dirs.iter().map(PathBuf::as_path);
    let found = binary::find(directories(), name);
    match (found, directories().next()) {
        (Some(found), _) => Ok(found),
        // With a definition it is a tool that is not installed, and says so.
        (None, Some(first)) if defined => Ok(first.join(name)),
        (None, _) => {
            let looked = directories().map(|path| path.display().to_string()).collect::<Vec<_>>();
            let looked = looked.join(", ");
            Err(LoadError::NoBinary { path: place.to_owned(), name: name.to_owned(), looked })
        }
    }
}

fn env(said: Option<definition::Env>, inherit: &[Pattern]) -> EnvRules {
    let usual = || FORWARD.iter().filter_map(|name| Pattern::parse(name)).collect();
    match said {
        None => EnvRules { forward: usual(), inherit: inherit.to_vec(), set: Vec::new() },
        Some(env) => EnvRules {
            forward: env.forward.unwrap_or_else(usual),
            inherit: env.inherit,
            set: env.set,
        },
    }
}

/// The workspace root that a program lies beneath, by its name or by what its
/// name leads to. Only a warning hangs on it.
fn workspace_above(trust: &Trust, binary: &Path) -> Option<PathBuf> {
    let real = std::fs::canonicalize(binary).ok();
    [Some(binary), real.as_deref()].into_iter().flatten().find_map(|path| {
        let directory = Root::open(path.parent()?).ok()?;
        trust.root_above(directory.as_fd()).ok().flatten()
    })
}
