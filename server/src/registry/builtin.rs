//! The broker's own tools: their rules and limits, as definitions of the same form.
//!
//! Owns: the names that no folder of tools.d may have, the definitions that ship, and the
//! operator's, each of which stands in place of one that ships. Must not: know what these
//! tools do; `agent` does.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::stat::fstat;
use tool_policy::definition::{Definition, SyntaxError};

use super::RegistryOptions;
use super::error::LoadError;
use super::fingerprint::Fingerprint;
use super::load::env;
use super::reach;
use super::site::list;
use super::snapshot::Problem;
use super::tool::{NO_PROGRAM, Origin, Tool};
use super::trust::{MAX_DEFINITION, Trust};
use crate::os::limit::Limit;
use crate::os::root::Root;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Each with its definition.
        const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("builtin/", $name, ".toml")))),*];
    };
}

shipped!(
    "dev_server_logs",
    "dev_server_start",
    "dev_server_status",
    "dev_server_stop",
    "edit_file",
    "inject_template",
    "list_directory",
    "npm_install",
    "read_file",
    "run_command",
    "run_shell",
    "search_files",
    "write_file",
);

/// Those whose first word is the program that runs.
const PROGRAMS: [&str; 3] = ["dev_server_start", "run_command", "run_shell"];

/// Those that are calls of a tool of tools.d, whose rules are that tool's.
const CALLS: [(&str, &str); 1] = [("npm_install", "npm")];

/// Whether no folder of tools.d may have this name.
pub(super) fn is_builtin(name: &str) -> bool {
    SHIPPED.iter().any(|(own, _)| *own == name)
}

/// Where what ships says that it lies.
const OWN: &str = "builtin";

impl Tool {
    /// Whether its definition is one that ships, and not the operator's.
    pub(crate) fn ships(&self) -> bool {
        self.origin.file.parent() == Some(Path::new(OWN))
    }

    /// Where the definition of one of the broker's own comes from, for people.
    pub(crate) fn definition_in_words(&self) -> String {
        if self.ships() { "as shipped".to_owned() } else { self.origin.file.display().to_string() }
    }
}

/// The tool of tools.d whose rules one of these has, where it has none of its own.
pub(super) fn is_a_call_of(name: &str) -> Option<&'static str> {
    CALLS.iter().find(|(own, _)| *own == name).map(|(_, tool)| *tool)
}

/// That the operator's definition, which is in force, is not there any more.
pub(super) fn gone(tool: &Tool) -> LoadError {
    let path = tool.origin.file.clone();
    LoadError::Io { operation: "find", path, source: Errno::ENOENT }
}

/// All of them, by name.
pub(super) type Builtins = BTreeMap<&'static str, Arc<Tool>>;

/// All of them; and what is wrong with the operator's, in whose place none is served.
pub(super) fn load(options: &RegistryOptions) -> (Builtins, Vec<Problem>) {
    let (mut found, mut problems) = (Builtins::new(), Vec::new());
    let directory = match options.builtin_dir.as_deref().map(|path| open(path, options)) {
        None => None,
        Some(Ok(directory)) => Some(directory),
        Some(Err(error)) => {
            problems.push(Problem::new(None, &error));
            return (found, problems);
        }
    };
    if let Some((root, _)) = &directory {
        problems.extend(strangers(root).iter().map(|error| Problem::new(None, error)));
    }
    for (name, shipped) in SHIPPED {
        let file = format!("{name}.toml");
        let said = match &directory {
            None => Ok(None),
            Some((root, trust)) => read(root, trust, &file),
        };
        let own = Path::new(OWN).join(&file);
        let (path, text) = match said {
            Ok(None) => (own, (*shipped).to_owned()),
            Ok(Some((path, _))) if let Some(tool) = is_a_call_of(name) => {
                let message = format!("{name} has the rules of the tool {tool}: write them there");
                problems
                    .push(Problem::new(Some(name), &LoadError::Syntax { path, line: 1, message }));
                continue;
            }
            Ok(Some(said)) => said,
            Err(error) => {
                problems.push(Problem::new(Some(name), &error));
                continue;
            }
        };
        match define(name, &path, &text, options) {
            Ok(tool) => drop(found.insert(name, Arc::new(tool))),
            Err(error) => problems.push(Problem::new(Some(name), &error)),
        }
    }
    (found, problems)
}

fn open(path: &Path, options: &RegistryOptions) -> Result<(Root, Trust), LoadError> {
    let failed = |source| LoadError::Io { operation: "open", path: path.to_owned(), source };
    let trust = Trust::new(options.owner, &options.workspace);
    let root = Root::open(path).map_err(failed)?;
    trust.check(path, &fstat(root.as_fd()).map_err(failed)?)?;
    trust.check_place(&root)?;
    Ok((root, trust))
}

/// Definitions by a name that none of these tools has: nothing would come of their rules,
/// and what ships may allow more.
fn strangers(root: &Root) -> Vec<LoadError> {
    let listed = match list(root) {
        Ok(listed) => listed,
        Err(source) => {
            let path = root.path().to_owned();
            return vec![LoadError::Io { operation: "list", path, source }];
        }
    };
    let stranger = |name: &OsStr| {
        let stem = name.as_encoded_bytes().strip_suffix(b".toml")?;
        let known = SHIPPED.iter().any(|(own, _)| own.as_bytes() == stem);
        let hidden = stem.is_empty() || stem.starts_with(b".");
        (!known && !hidden).then(|| LoadError::NoBuiltin { path: root.path().join(name) })
    };
    listed.iter().filter_map(|(name, _)| stranger(name)).collect()
}

fn read(root: &Root, trust: &Trust, file: &str) -> Result<Option<(PathBuf, String)>, LoadError> {
    match trust.read(root, Path::new(file), MAX_DEFINITION) {
        Ok(text) => Ok(Some((root.path().join(file), text))),
        Err(LoadError::Io { source: Errno::ENOENT, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn define(
    name: &str,
    path: &Path,
    text: &str,
    options: &RegistryOptions,
) -> Result<Tool, LoadError> {
    let wrong = |line, message| LoadError::Syntax { path: path.to_owned(), line, message };
    let said = Definition::from_toml(name, text, None)
        .map_err(|SyntaxError { line, message, .. }| wrong(line, message))?;
    let shipped = SHIPPED.iter().find(|(own, _)| *own == name);
    let described = || Definition::from_toml(name, shipped?.1, None).ok()?.description;
    let runs = PROGRAMS.contains(&name);
    let processes = [
        ("[env]", said.env.is_some()),
        ("[sandbox]", said.sandbox_said),
        ("[[gate]]", !said.gates.is_empty()),
    ];
    let without_effect = [
        ("binary", said.binary.is_some()),
        ("stdio", said.stream),
        ("[signing]", said.signing.is_some()),
    ];
    let none = without_effect.iter().chain(processes.iter().filter(|_| !runs));
    if let Some((member, _)) = none.clone().find(|(_, there)| *there) {
        return Err(wrong(1, format!("{member} has no effect for {name}: take it out")));
    }
    reach::check(&said.sandbox, options).map_err(|(line, message)| wrong(line, message))?;
    let mut print = Fingerprint::default();
    print.text(path, text);
    let mut policy = said.policy;
    let (_, line, _) = policy.unmatched();
    if options.observe {
        policy = policy.observing();
    }
    Ok(Tool {
        name: name.to_owned(),
        binary: PathBuf::from(NO_PROGRAM),
        any: runs,
        wrapper: None,
        timeout: said.timeout.unwrap_or(options.default_timeout),
        timeout_set: true,
        policy: Arc::new(policy),
        hash: print.finish(),
        origin: Origin { file: path.to_owned(), line },
        env: env(said.env, options.env_inherit.as_slice()),
        concurrent: said.concurrent,
        rate: said.rate,
        limits: said.limits.iter().filter_map(|(name, most)| Limit::named(name, *most)).collect(),
        stream: false,
        sandbox: said.sandbox,
        sandbox_said: said.sandbox_said,
        gates: said.gates.into(),
        signing: None,
        setup: None,
        description: said.description.or_else(described),
        warnings: said.warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_can_be_read_and_comes_out_as_its_examples_say() {
        for (name, text) in SHIPPED {
            if let Err(error) = Definition::from_toml(name, text, None) {
                panic!("{name}.toml:{}: {error}", error.line);
            }
        }
    }

    #[test]
    fn what_goes_on_has_the_rules_of_a_line_of_shell() {
        let rules = |name| {
            let (_, text) = SHIPPED.iter().find(|(own, _)| *own == name).unwrap();
            text.split_once("[[rule]]").unwrap().1
        };
        assert!(rules("dev_server_start") == rules("run_shell"), "copy them over");
    }
}
