//! One folder of tools.d becomes a tool.
//!
//! Owns: bringing a folder's files together, and every default that a
//! definition leaves open. Must not: remember anything; `state` does.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool_policy::definition::{self, Definition, NamePattern, Place, SyntaxError};

use super::binary;
use super::builtin::is_builtin;
use super::error::LoadError;
use super::fingerprint::Fingerprint;
use super::reach;
use super::site::{Site, inside};
use super::stamp::{GRAMMAR, SETUP, Stamp};
use super::tool::{EnvRules, Origin, Tool};
use super::trust::{MAX_DEFINITION, MAX_GRAMMAR, Trust};
use super::wrapper::{self, Ranked};
use crate::os::limit::Limit;
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
    if is_builtin(name) {
        return Err(LoadError::Builtin { path: folder }.into());
    }
    check_folder(site, name, &folder).map_err(suspect)?;
    let mut print = Fingerprint::default();
    let (rank, wrapper) = wrapper::find(site, name, stamp, &mut print).map_err(suspect)?;
    let file = stamp.definition();
    if stamp.has(GRAMMAR) && file != Some("tool.toml") {
        return Err(LoadError::GrammarAlone { path: folder.join(GRAMMAR) }.into());
    }
    let said = file.map(|file| read(site, name, file, stamp, &mut print)).transpose()?;
    let setup = if stamp.has(SETUP) {
        let relative = inside(name, SETUP);
        let (file, _) = site.trust.open(&site.tools, &relative)?;
        let path = site.tools.path().join(relative);
        print.file(&path, file.as_fd())?;
        Some(path)
    } else {
        None
    };
    let place = file.map_or(folder.clone(), |file| folder.join(file));
    let parts = Parts { said, ranked: (rank, wrapper), setup, hash: print.finish() };
    Ok(assemble(site, name, place, parts)?)
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
    print: &mut Fingerprint,
) -> Result<Definition, LoadError> {
    let mut take = |file: &str, most| {
        let relative = inside(name, file);
        let text = site.trust.read(&site.tools, &relative, most)?;
        let path = site.tools.path().join(relative);
        print.text(&path, &text);
        Ok((path, text))
    };
    let (path, text) = take(file, MAX_DEFINITION)?;
    if file == "tool.json" {
        let syntax = |SyntaxError { line, message, .. }| LoadError::Syntax { path, line, message };
        return Definition::from_json(&text).map_err(syntax);
    }
    let beside = stamp.has(GRAMMAR).then(|| take(GRAMMAR, MAX_GRAMMAR)).transpose()?;
    let grammar = beside.as_ref().map(|(_, text)| text.as_str());
    let mut said = Definition::from_toml(name, &text, grammar).map_err(|error| {
        let beside = beside.as_ref().filter(|_| error.place == Place::Grammar);
        let path = beside.map_or(&path, |(path, _)| path).clone();
        LoadError::Syntax { path, line: error.line, message: error.message }
    })?;
    if stamp.has("tool.json") {
        said.warnings.push("tool.json is not read: tool.toml beside it is".to_owned());
    }
    Ok(said)
}

/// All that a folder has.
struct Parts {
    said: Option<Definition>,
    ranked: Ranked,
    setup: Option<PathBuf>,
    hash: String,
}

fn assemble(
    site: &Site<'_>,
    name: &str,
    place: PathBuf,
    parts: Parts,
) -> Result<Loaded, LoadError> {
    let Parts { said, ranked: (rank, wrapper), setup, hash } = parts;
    let options = site.options;
    let defined = said.is_some();
    let said = said.unwrap_or_default();
    let looked_up = said.binary.is_none();
    let binary = match said.binary {
        Some(binary) => binary,
        None => look_up(site, name, defined, &place)?,
    };
    let mut policy = said.policy;
    if options.require_rules && policy.is_unrestricted() && wrapper.is_none() {
        return Err(LoadError::RulesRequired { path: place });
    }
    reach::check(&said.sandbox, options).map_err(|(line, message)| LoadError::Syntax {
        path: place.clone(),
        line,
        message,
    })?;
    let mut warnings = said.warnings;
    if let Some(root) = workspace_above(&site.trust, &binary) {
        let (binary, root) = (binary.display(), root.display());
        warnings
            .push(format!("{binary} lies beneath the workspace {root}: the agent can change it"));
    }
    let missing = wrapper.as_ref().is_some_and(|wrapper| wrapper.missing().is_some());
    let (_, line, _) = policy.unmatched();
    if options.observe {
        policy = policy.observing();
    }
    let tool = Tool {
        name: name.to_owned(),
        binary,
        any: false,
        wrapper,
        timeout: said.timeout.unwrap_or(options.default_timeout),
        timeout_set: said.timeout.is_some(),
        policy: Arc::new(policy),
        hash,
        origin: Origin { file: place, line },
        env: env(said.env, options.env_inherit.as_slice()),
        concurrent: said.concurrent,
        rate: said.rate,
        limits: said.limits.iter().filter_map(|(name, most)| Limit::named(name, *most)).collect(),
        stream: said.stream,
        sandbox: said.sandbox,
        sandbox_said: said.sandbox_said,
        gates: said.gates.into(),
        signing: said.signing,
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

pub(super) fn env(said: Option<definition::Env>, inherit: &[NamePattern]) -> EnvRules {
    let usual = || FORWARD.iter().filter_map(|name| NamePattern::parse(name)).collect();
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
