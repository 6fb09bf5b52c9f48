//! `check`: is tools.d well?

use std::process::ExitCode;

use super::say;
use crate::config::Config;
use crate::registry::{self, Tool};

/// Prints every error and warning, and exits 1 where there is an error.
pub(super) fn run(config: &Config) -> ExitCode {
    let report = registry::check(crate::app::registry_options(config));
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
    let (tools, errors) = (report.tools.len(), report.errors.len());
    let warnings = report.warnings.len();
    say(&format!("{tools} tools, {errors} errors, {warnings} warnings"));
    ExitCode::from(u8::from(!report.errors.is_empty()))
}

/// What a tool runs.
pub(super) fn runs(tool: &Tool) -> String {
    match &tool.wrapper {
        Some(wrapper) => format!("wrapper {}", wrapper.path.display()),
        None => tool.binary.display().to_string(),
    }
}
