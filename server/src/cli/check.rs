//! `check`: is tools.d well?

use std::process::ExitCode;

use super::say;
use crate::broker::proxy_in_words;
use crate::config::Config;
use crate::registry::{self, RegistryOptions, Tool, define_proxy};

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
        say(&format!("ok: {} ({}, {rules}), {sandbox}", tool.name, runs(tool)));
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
    let tools = report.tools.len();
    let warnings = report.warnings.len();
    say(&format!("{tools} tools, {errors} errors, {warnings} warnings"));
    ExitCode::from(u8::from(errors > 0))
}

/// What a tool runs.
pub(super) fn runs(tool: &Tool) -> String {
    match &tool.wrapper {
        Some(wrapper) => format!("wrapper {}", wrapper.path.display()),
        None => tool.binary.display().to_string(),
    }
}
