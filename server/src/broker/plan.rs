//! From a request, a definition and a directory to the one plan that is decided
//! on and run.
//!
//! Owns: which program runs with which arguments. Must not: run it.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tool_policy::{Approved, Judged, Policy, decide};
use tool_protocol::{Code, Refusal, Request, Text, limits};

use super::environment::{Environment, Of};
use super::observe::observe;
use super::workspace::Workspace;
use crate::exec::Plan;
use crate::os::descriptors::path_of;
use crate::registry::Tool;

/// The umask of a caller that does not tell its own.
const UMASK: u32 = 0o022;

/// What plans are made in.
pub(crate) struct Site<'a> {
    /// What environments are made from.
    pub(crate) environment: &'a Environment,
    /// The roots.
    pub(crate) workspace: &'a Workspace,
    /// The tool's HOME.
    pub(crate) home: &'a Path,
}

/// Builds the plan of a call; `on_terminal`: it has one, and a person at it may
/// take as long as it takes.
pub(crate) fn build(
    site: &Site<'_>,
    tool: &Tool,
    request: &Request,
    entered: OwnedFd,
    call: u32,
    on_terminal: bool,
) -> Result<Plan, Refusal> {
    let (program, mut arguments) = program(tool)?;
    // The name of the directory that is open, not the caller's spelling.
    let place = path_of(entered.as_fd()).unwrap_or_default();
    let own = arguments.len();
    arguments.extend(request.args.iter().filter_map(text));
    let of = Of {
        tool,
        home: site.home.as_os_str().as_bytes(),
        offered: &request.env,
        cwd: &place,
        args: &request.args,
    };
    let environment = site.environment.build(&of);
    let longest = arguments.iter().chain(&environment).map(|string| string.as_bytes().len()).max();
    if longest.is_some_and(|length| length > limits::MAX_STRING) {
        let message =
            format!("one argument or variable is longer than {} bytes", limits::MAX_STRING);
        return Err(Refusal::new(Code::RequestTooLarge, message));
    }
    let words: Vec<&[u8]> = arguments.iter().skip(own).map(|word| word.as_bytes()).collect();
    let observed = observe(site.workspace, &place, &tool.policy.wants(&words), &environment);
    Ok(Plan {
        program,
        arguments,
        own,
        environment,
        directory: entered,
        place,
        roots: site.workspace.names(),
        observed,
        umask: request.umask.unwrap_or(UMASK),
        timeout: (tool.timeout_set || !on_terminal).then_some(tool.timeout),
        limits: tool.limits.clone(),
        call,
    })
}

/// Something of the operator's own, a setup or a command of the settings: no rule
/// is about it.
pub(super) fn of_the_operator(plan: Plan) -> Option<Approved<Plan>> {
    match decide(&Policy::default(), plan) {
        Judged::Allowed(approved, _) => Some(approved),
        Judged::Asked(..) | Judged::Denied(..) => None,
    }
}

/// The file to execute and the beginning of argv: the tool's name before its
/// binary's arguments, as a shell gives it; an interpreter and its wrapper as
/// the original did.
pub(crate) fn program(tool: &Tool) -> Result<(CString, Vec<CString>), Refusal> {
    let Some(wrapper) = &tool.wrapper else {
        return Ok((path(&tool.binary)?, vec![string(tool.name.as_bytes())?]));
    };
    let Some((program, script)) = wrapper.command() else {
        let missing = wrapper.missing().unwrap_or_default();
        let message = format!("{missing}: install it beside the server");
        return Err(Refusal::new(Code::NotInstalled, message));
    };
    let program = path(&program)?;
    let mut arguments = vec![program.clone()];
    for argument in script {
        arguments.push(string(argument.as_bytes())?);
    }
    Ok((program, arguments))
}

fn text(text: &Text) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

fn path(path: &Path) -> Result<CString, Refusal> {
    string(path.as_os_str().as_bytes())
}

fn string(bytes: &[u8]) -> Result<CString, Refusal> {
    CString::new(bytes).map_err(|_nul| Refusal::new(Code::BadDefinition, "a path holds a NUL"))
}
