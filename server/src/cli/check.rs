//! `check`: is tools.d well, and what the broker serves of its own?

use std::path::Path;
use std::process::ExitCode;

use super::say;
use crate::broker::proxy_in_words;
use crate::config::Config;
use crate::registry::{self, RegistryOptions, define_proxy};

/// That the broker has tools of its own, and where they are chosen and ruled.
fn own_in_words(served: usize, definitions: Option<&Path>) -> String {
    let rules = match definitions {
        Some(path) => format!("rules of yours are in {}", path.display()),
        None => "rules of yours: agent.definitions".to_owned(),
    };
    match served {
        0 => "none of the broker's own tools is served: agent.tools chooses".to_owned(),
        served => format!(
            "{served} of the broker's own tools are served: agent.tools chooses, none for none; {rules}"
        ),
    }
}

/// Prints every error and warning, and exits 1 where there is an error.
pub(super) fn run(config: &Config) -> ExitCode {
    let options = crate::app::registry_options(config);
    let proxy = config.proxy_definition.as_ref().map(|path| (path, define_proxy(path, &options)));
    let proxys = proxy.as_ref().and_then(|(_, proxy)| proxy.clone().ok());
    let report = registry::check(RegistryOptions { proxy: proxys, ..options });
    for problem in &report.errors {
        say(&format!("error: {problem}"));
    }
    for problem in &report.warnings {
        say(&format!("warning: {problem}"));
    }
    for tool in &report.tools {
        let (rules, sandbox) = (tool.rules_in_words(), tool.sandbox_in_words());
        say(&format!("ok: {} ({}, {rules}), {sandbox}", tool.name, tool.runs_in_words()));
    }
    for (tool, rules) in &report.own {
        let mut line = format!(
            "ok: {} (the broker's own, {}; {rules})",
            tool.name,
            tool.definition_in_words()
        );
        if tool.any {
            line.push_str(&format!(", {}", tool.sandbox_in_words()));
        }
        say(&line);
    }
    let mut errors = report.errors.len();
    match &proxy {
        Some((path, Err(error))) => {
            errors += 1;
            let line = error.line().map(|line| format!(":{line}")).unwrap_or_default();
            say(&format!("error: {}{line}: {error}", path.display()));
        }
        Some((path, Ok(tool))) => {
            say(&format!("ok: the proxy ({}): {}", path.display(), proxy_in_words(tool)));
        }
        None => {}
    }
    say(&own_in_words(report.own.len(), config.agent.definitions.as_deref()));
    let tools = report.tools.len();
    let warnings = report.warnings.len();
    say(&format!("{tools} tools, {errors} errors, {warnings} warnings"));
    ExitCode::from(u8::from(errors > 0))
}
