//! The definition of the proxy: gates and rules, and no tool.
//!
//! Owns: reading it as definitions of tools are read, from whom they are taken, and
//! refusing what would have no effect there. Must not: serve it.

use std::path::Path;
use std::sync::Arc;

use nix::sys::stat::fstat;
use tool_policy::Decision;
use tool_policy::definition::gate::Adapter;
use tool_policy::definition::{Definition, SyntaxError};

use super::RegistryOptions;
use super::error::LoadError;
use super::fingerprint::Fingerprint;
use super::reach::lies_open;
use super::tool::{EnvRules, NO_PROGRAM, Origin, Tool};
use super::trust::{MAX_DEFINITION, Trust};
use crate::os::root::Root;

/// What the proxy is called in the audit. No tool's name begins with a dot.
pub(crate) const PROXY: &str = ".proxy";

/// Reads it, and gives it the form of a tool, which its rules and gates are written for.
pub(crate) fn define(path: &Path, options: &RegistryOptions) -> Result<Arc<Tool>, LoadError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let failed = |source| LoadError::Io { operation: "open", path: path.to_owned(), source };
    let trust = Trust::new(options.owner, &options.workspace);
    let root = Root::open(directory).map_err(failed)?;
    trust.check(directory, &fstat(root.as_fd()).map_err(failed)?)?;
    trust.check_place(&root)?;
    let text =
        trust.read(&root, Path::new(path.file_name().unwrap_or_default()), MAX_DEFINITION)?;
    let wrong = |line, message| LoadError::Syntax { path: path.to_owned(), line, message };
    let said = Definition::from_toml("proxy", &text, None)
        .map_err(|SyntaxError { line, message, .. }| wrong(line, message))?;
    if let Some((line, message)) = without_effect(&said) {
        return Err(wrong(line, message));
    }
    let mut print = Fingerprint::default();
    print.text(path, &text);
    let tool = Tool {
        name: PROXY.to_owned(),
        binary: Path::new(NO_PROGRAM).to_owned(),
        any: false,
        wrapper: None,
        timeout: options.default_timeout,
        timeout_set: false,
        policy: Arc::new(said.policy),
        hash: print.finish(),
        origin: Origin { file: path.to_owned(), line: 1 },
        env: EnvRules { forward: Vec::new(), inherit: Vec::new(), set: Vec::new() },
        concurrent: None,
        rate: None,
        limits: Vec::new(),
        stream: false,
        sandbox: said.sandbox,
        sandbox_said: false,
        gates: said.gates.into(),
        signing: None,
        setup: None,
        description: said.description,
        warnings: said.warnings,
    };
    match lies_open(&tool, options) {
        Some((line, message)) => Err(wrong(line, message)),
        None => Ok(Arc::new(tool)),
    }
}

/// A line, and what is wrong there.
fn without_effect(said: &Definition) -> Option<(usize, String)> {
    let members = [
        ("binary", said.binary.is_some()),
        ("timeout", said.timeout.is_some()),
        ("[env]", said.env.is_some()),
        ("[limits]", said.concurrent.is_some() || said.rate.is_some() || !said.limits.is_empty()),
        ("stdio", said.stream),
        ("[sandbox]", said.sandbox_said),
        ("[signing]", said.signing.is_some()),
    ];
    if let Some((name, _)) = members.iter().find(|(_, there)| *there) {
        return Some((1, format!("{name} has no effect in the proxy's definition: take it out")));
    }
    let Some(first) = said.gates.first() else {
        return Some((1, "the proxy's definition needs a [[gate]]".to_owned()));
    };
    if first.hosts.first().is_none_or(|host| host.as_str().contains('*')) {
        let message = "the first host of the first gate is where requests go that name none: \
                       it has to be one name, without *";
        return Some((first.line, message.to_owned()));
    }
    said.gates.iter().find_map(|gate| match (gate.adapter, gate.default) {
        (Adapter::Http, Decision::Allow | Decision::Deny) => None,
        (Adapter::Http, Decision::Ask) => {
            let message = "nobody is asked about a proxy's requests: write default = \"deny\" or \
                           \"allow\" in the gate";
            Some((gate.line, message.to_owned()))
        }
        _ => Some((gate.line, "a gate of the proxy has adapter = \"http\"".to_owned())),
    })
}
