//! From a request, a definition and a directory to the one plan that is decided
//! on and run.
//!
//! Owns: which program runs with which arguments. Must not: run it.

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use tool_policy::definition::sandbox::Hooks;
use tool_policy::{Approved, Judged, Needs, Policy, Scene, decide};
use tool_protocol::{Code, Refusal, Request, Text, limits};

use super::Homes;
use super::confine::{Confines, Way};
use super::environment::{Environment, Of};
use super::observe::observe;
use super::workspace::Workspace;
use crate::exec::{Ground, Plan};
use crate::os::descriptors::path_of;
use crate::os::foreign::Found;
use crate::registry::{Tool, is_executable};

/// The umask of a caller that does not tell its own.
const UMASK: u32 = 0o022;

/// What plans are made in.
pub(crate) struct Site<'a> {
    /// What environments are made from.
    pub(crate) environment: &'a Environment,
    /// The roots.
    pub(crate) workspace: &'a Workspace,
    /// Where tools keep things.
    pub(crate) homes: &'a Homes,
    /// What holds them.
    pub(crate) confines: &'a Confines,
    /// What there is to hold them with.
    pub(crate) ground: &'a Ground,
    /// The server has credentials.
    pub(crate) guards: bool,
}

/// A plan, and what belongs to its call beside.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// Of a call that gets the gate; whoever serves the gate keeps it.
    pub(crate) way: Option<Way>,
    /// The program is not there: the plan is decided on, and never run.
    pub(crate) missing: Option<Refusal>,
}

/// Builds the plan of a call; `on_terminal`: it has one, and a person at it may
/// take as long as it takes.
pub(crate) fn build(
    site: &Site<'_>,
    tool: &Tool,
    request: &Request,
    entered: Found,
    call: u32,
    on_terminal: bool,
) -> Result<Planned, Refusal> {
    let (program, mut arguments, missing) = match tool.any {
        true => {
            let (program, missing) = named(site.environment, request)?;
            (program, Vec::new(), missing)
        }
        false => {
            let (program, arguments) = program(tool)?;
            (program, arguments, None)
        }
    };
    // The name of the directory that is open, not the caller's spelling.
    let place = path_of(entered.as_fd()).unwrap_or_default();
    let own = arguments.len();
    let Site { workspace, confines, ground, .. } = *site;
    let footing = confines.footing(ground, workspace, site.homes, tool, &place, site.guards)?;
    let home = footing.home.as_os_str().as_bytes();
    let temporary = [home, b"/tmp"].concat();
    arguments.extend(request.args.iter().filter_map(text));
    let of = Of {
        tool,
        home,
        temporary: tool.is_confined().then_some(temporary.as_slice()),
        offered: &request.env,
        cwd: &place,
        args: &request.args,
    };
    let mut environment = site.environment.build(&of);
    let longest = arguments.iter().chain(&environment).map(|string| string.as_bytes().len()).max();
    if longest.is_some_and(|length| length > limits::MAX_STRING) {
        let message =
            format!("one argument or variable is longer than {} bytes", limits::MAX_STRING);
        return Err(Refusal::new(Code::RequestTooLarge, message));
    }
    let words: Vec<&[u8]> = arguments.iter().skip(own).map(|word| word.as_bytes()).collect();
    let observed = observe(workspace, &place, &tool.policy.wants(&words), &environment);
    let roots = workspace.names();
    let scene = Scene { directory: &place, roots: &roots, observed: &observed };
    let (mut way, mut outlet, mut fresh) = (None, None, 0);
    if let Needs::Gate { push } = tool.policy.needs(&words, &scene, tool.sandbox.network)
        && tool.is_confined()
    {
        let (made, out) = confines.way(ground, tool, push)?;
        fresh = made.tell(tool, &mut environment);
        (way, outlet) = (Some(made), Some(out));
    }
    if tool.sandbox.hooks == Hooks::Off {
        fresh = without_hooks(&mut environment, fresh);
    }
    let confinement = match tool.is_confined() {
        true => Some(confines.confine(ground, workspace, tool, &footing, outlet, false)?),
        false if site.guards => Some(confines.release(ground, tool, &footing)?),
        false => None,
    };
    let plan = Plan {
        program,
        arguments,
        own,
        environment,
        fresh,
        directory: entered,
        place,
        roots,
        observed,
        umask: request.umask.unwrap_or(UMASK),
        timeout: timeout(tool, request, on_terminal),
        limits: tool.limits.clone(),
        redact: None,
        bell: None,
        confinement,
        call,
    };
    Ok(Planned { plan, way, missing })
}

/// As long as the definition says, or the caller, if that is less.
fn timeout(tool: &Tool, request: &Request, on_terminal: bool) -> Option<Duration> {
    let own = (tool.timeout_set || !on_terminal).then_some(tool.timeout);
    own.into_iter().chain(request.timeout).min()
}

/// The program that a call's first word names, as a shell finds it: by the PATH of tools,
/// or where the word has a slash, from the call's directory. One that is not there is told
/// after the rules have been asked: whoever may not run it is not told to install it.
fn named(
    environment: &Environment,
    request: &Request,
) -> Result<(CString, Option<Refusal>), Refusal> {
    let word = request.args.first().map(Text::as_bytes).unwrap_or_default();
    if word.is_empty() {
        return Err(Refusal::new(Code::BadRequest, "no program is named: give it as first word"));
    }
    if word.contains(&b'/') {
        return Ok((string(word)?, None));
    }
    let name = Path::new(OsStr::from_bytes(word));
    let mut places = std::env::split_paths(&environment.path).map(|place| place.join(name));
    let found = places.find(|place| place.is_absolute() && is_executable(place));
    if let Some(found) = found {
        return Ok((path(&found)?, None));
    }
    let shown = word.escape_ascii();
    let message = format!("{shown} is not installed where tools run: install it there");
    Ok((string(word)?, Some(Refusal::new(Code::NotInstalled, message))))
}

/// Pins the directory of hooks, behind what is pinned already; they are among the last
/// so many variables.
fn without_hooks(environment: &mut Vec<CString>, fresh: usize) -> usize {
    const COUNT: &[u8] = b"GIT_CONFIG_COUNT=";
    let before = environment.len();
    let said = environment.iter().position(|line| line.as_bytes().starts_with(COUNT));
    let said = said.map(|place| environment.remove(place));
    let count = said.as_ref().and_then(|line| {
        std::str::from_utf8(line.as_bytes().get(COUNT.len()..)?).ok()?.parse::<usize>().ok()
    });
    let count = count.unwrap_or(0);
    let lines = [
        format!("GIT_CONFIG_COUNT={}", count + 1),
        format!("GIT_CONFIG_KEY_{count}=core.hooksPath"),
        format!("GIT_CONFIG_VALUE_{count}=/dev/null"),
    ];
    environment.extend(lines.into_iter().filter_map(|line| CString::new(line).ok()));
    fresh.saturating_add(environment.len().saturating_sub(before))
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
