//! `tool-server check`: what a server would say of tools.d, without a server.
//!
//! Owns: sorting what a look at the disk tells into errors and warnings.
//! Must not: check anything that loading does not.

use std::sync::Arc;

use super::snapshot::Problem;
use super::tool::Tool;
use super::{Registry, RegistryOptions};

/// The outcome of a check.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) tools: Vec<Arc<Tool>>,
    /// The broker's own that are served, each with its rules in words.
    pub(crate) own: Vec<(Arc<Tool>, String)>,
    /// Not in force as it stands.
    pub(crate) errors: Vec<Problem>,
    /// In force, but worth a look.
    pub(crate) warnings: Vec<Problem>,
}

/// Loads everything once, as `serve` does at its start.
pub(crate) fn check(options: RegistryOptions) -> Report {
    let registry = Registry::open(options);
    let snapshot = registry.snapshot();
    let tools: Vec<Arc<Tool>> = snapshot.tools.values().cloned().collect();
    let own: Vec<Arc<Tool>> = snapshot.own(registry.options()).cloned().collect();
    let warnings = tools.iter().chain(&own).flat_map(|tool| warnings(tool)).collect();
    let own = own.into_iter().map(|tool| (Arc::clone(&tool), snapshot.rules_in_words(&tool)));
    Report { tools, own: own.collect(), errors: snapshot.problems.clone(), warnings }
}

fn warnings(tool: &Tool) -> Vec<Problem> {
    let unrestricted = tool.unrestricted().then(|| {
        "unrestricted: it has neither rules nor `default`, every call is allowed".to_owned()
    });
    let unconfined = (!tool.is_confined()).then(|| {
        "sandbox: off: it is not confined, and reaches all that its user reaches".to_owned()
    });
    let messages = tool.warnings.iter().cloned().chain(tool.missing()).chain(unrestricted);
    let messages = messages.chain(unconfined);
    let warning = |message| Problem {
        tool: Some(tool.name.clone()),
        file: tool.origin.file.clone(),
        line: Some(tool.origin.line),
        message,
        missing: false,
    };
    messages.map(warning).collect()
}
