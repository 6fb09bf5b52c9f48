//! What confinement or a limit took away from a call that failed: a path that it named
//! and that lies outside, memory.
//!
//! Owns: that one sentence. About a path it goes by names alone and asks nothing of what lies
//! there, so that it says the same whether or not anything does. Must not: be asked
//! about calls that went well; it costs nothing there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tool_policy::Subject;

use super::workspace::beneath;
use crate::exec::{Outcome, Plan, Report};
use crate::os::limit::Limit;
use crate::os::process::Exit;
use crate::registry::{DEVICES, SYSTEM, Tool};

/// Names of what the caller has passed: `cmp <(one) <(other)`.
const PASSED: [&str; 4] = ["/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// So many words that may be paths are looked at: a request has room for more than a
/// hundred thousand, and everybody waits meanwhile.
const MOST: usize = 64;

/// What to tell a caller whose call failed, and what to do.
pub(super) fn hint(tool: &Tool, plan: &Plan, report: &Report) -> Option<(String, String)> {
    if report.ran_out && report.outcome != Outcome::Exited(Exit::Code(0)) {
        return Some(without_memory(tool, plan));
    }
    let failed = matches!(report.outcome, Outcome::Exited(Exit::Code(1..)));
    if !failed || plan.confinement.is_none() {
        return None;
    }
    let mut names = plan.args().into_iter().filter_map(named).take(MOST);
    let path = names.find_map(|name| outside(name, tool, plan))?;
    let mut roots: Vec<String> =
        plan.roots.iter().map(|root| root.escape_ascii().to_string()).collect();
    roots.dedup();
    let path = path.as_os_str().as_bytes().escape_ascii();
    let error = format!("{} is confined and reaches nothing at {path}", tool.name);
    let (roots, file) = (roots.join(" or "), tool.origin.file.display());
    Some((error, format!("put it beneath {roots}, or list it in [sandbox] read of {file}")))
}

/// That its processes had no more memory, which no exit status tells.
fn without_memory(tool: &Tool, plan: &Plan) -> (String, String) {
    let most = Limit::value(&plan.limits, "memory_bytes").unwrap_or_default();
    let error = format!(
        "{} was ended by the memory limit of its definition: its processes had {most} bytes in all",
        tool.name
    );
    (error, format!("raise memory_bytes in [limits] of {}", tool.origin.file.display()))
}

/// The path in a word, if there is one.
fn named(word: &[u8]) -> Option<&[u8]> {
    let value = match word {
        // --option=VALUE, NAME=VALUE
        _ if !is_path(word) && word.contains(&b'=') => {
            word.splitn(2, |byte| *byte == b'=').nth(1)?
        }
        // -oVALUE
        [b'-', letter, rest @ ..] if *letter != b'-' => rest,
        // @VALUE, as curl has it
        [b'@', rest @ ..] => rest,
        whole => whole,
    };
    // Rather a program's text than a name.
    let text = value.iter().any(|byte| byte.is_ascii_control() || b"'\"`;|&<>$()".contains(byte));
    (is_path(value) && !text).then_some(value)
}

/// That path, if its tool cannot reach it.
fn outside(value: &[u8], tool: &Tool, plan: &Plan) -> Option<PathBuf> {
    let place = Path::new(OsStr::from_bytes(&plan.place));
    let path = plain(&place.join(OsStr::from_bytes(value)))?;
    // Of what begins with a slash not all is a path.
    let top: PathBuf = path.components().take(2).collect();
    let home = plan.environment.iter().find_map(|line| line.as_bytes().strip_prefix(b"HOME="));
    let roots = plan.roots.iter().map(Vec::as_slice).chain(home);
    let known = SYSTEM.iter().chain(&DEVICES).chain(&PASSED).map(|path| path.as_bytes());
    let sandbox = tool.sandbox.read.iter().chain(&tool.sandbox.write).chain([&tool.binary]);
    let mut all = roots.chain(known).chain(sandbox.map(|path| path.as_os_str().as_bytes()));
    let name = path.as_os_str().as_bytes();
    (top.is_dir() && !all.any(|inside| beneath(name, inside).is_some())).then_some(path)
}

fn is_path(word: &[u8]) -> bool {
    let absolute = matches!(word, [b'/', second, ..] if *second != b'/');
    absolute || word == b".." || word.starts_with(b"../")
}

/// Without `.` and `..`, as the name reads; none is the top itself.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain.parent().is_some().then_some(plain)
}
