//! What a caller is told of how its call went.
//!
//! Owns: the words and codes for what the broker itself has to say. Must not:
//! decide anything.

use nix::errno::Errno;
use tool_policy::Verdict;
use tool_protocol::control::signal_name;
use tool_protocol::{Code, Output, Refusal, Reply};
use tracing::warn;

use crate::exec::{Outcome, Plan, Report, RunError};
use crate::os::process::Exit;
use crate::registry::{Origin, Tool};

/// The reply to a call that ended so, or was refused.
pub(super) fn answer(ended: Result<Report, Refusal>, buffered: bool, seed_only: bool) -> Reply {
    let mut reply = match ended {
        Err(refusal) => Reply::refused(refusal),
        Ok(mut report) => {
            // A client of the seed's protocol knows nothing of it.
            let hint = report.hint.take().filter(|_| !seed_only);
            let reply = outcome(&report);
            let reply = match hint {
                Some((error, hint)) => reply.told(&error, &hint),
                None => reply,
            };
            with_output(reply, report, buffered, seed_only)
        }
    };
    if buffered {
        reply.stdout.get_or_insert_with(|| Output::Exact(Vec::new()));
        reply.stderr.get_or_insert_with(|| Output::Exact(Vec::new()));
    }
    reply
}

fn outcome(report: &Report) -> Reply {
    match report.outcome {
        Outcome::Exited(Exit::Code(code)) => Reply { exit_code: code, ..Reply::default() },
        Outcome::Exited(Exit::Signal(number)) => Reply {
            exit_code: u8::try_from(128 + number).unwrap_or(255),
            signal: signal_name(number).map(str::to_owned),
            ..Reply::default()
        },
        Outcome::TimedOut => Reply::refused(Refusal::new(
            Code::TimedOut,
            "the tool ran longer than its timeout and was ended: raise `timeout` in its definition if it needs more",
        )),
        Outcome::CallerGone => Reply::refused(gone()),
        Outcome::Interrupted => Reply::refused(Refusal::new(
            Code::Interrupted,
            "the server stopped and ended the tool: try again when it is back",
        )),
        Outcome::OutputTooLarge(seen) => Reply::output_too_large(seen),
    }
}

/// What was captured, but where the reply says that it does not fit.
fn with_output(mut reply: Reply, report: Report, buffered: bool, seed_only: bool) -> Reply {
    if buffered && reply.stdout.is_none() {
        let wrap = if seed_only { Output::Lossy } else { Output::Exact };
        reply.stdout = Some(wrap(report.stdout));
        reply.stderr = Some(wrap(report.stderr));
    }
    reply
}

/// A rule's no: why, by which rule, and what to do instead.
pub(super) fn denied(tool: &Tool, verdict: &Verdict) -> Refusal {
    let (rule, at) = (verdict.rule.as_str(), tool.at(verdict.line));
    let reason = verdict.reason.as_deref().unwrap_or_default();
    let refusal = Refusal::new(Code::Denied, format!("refused: {reason} [rule {rule}, {at}]"));
    match &verdict.instead {
        Some(instead) => refusal.by(rule).hint(format!("instead: {instead}")),
        None => refusal.by(rule),
    }
}

/// A call that runs although its rules say otherwise: loudly.
pub(super) fn tell_observed(tool: &Tool, call_id: &str, verdict: &Verdict) {
    let Some(would) = verdict.would else { return };
    let (rule, at) = (verdict.rule.as_str(), tool.at(verdict.line));
    let reason = verdict.reason.as_deref().unwrap_or_default();
    warn!(
        call_id,
        tool = tool.name,
        rule,
        would = would.as_str(),
        "observed, not enforced: {reason} [rule {rule}, {at}]"
    );
}

/// Nobody is left to be told.
pub(super) fn gone() -> Refusal {
    Refusal::new(Code::Interrupted, "the caller went away")
}

/// No new call is taken.
pub(super) fn draining() -> Refusal {
    Refusal::new(Code::Draining, "the server is stopping: try again later")
}

/// Why nothing runs, told by what the kernel said.
pub(super) fn not_started(error: &RunError, origin: &Origin, plan: &Plan) -> Refusal {
    let program = plan.program.as_bytes().escape_ascii();
    match error {
        RunError::Resources(errno) => Refusal::new(
            Code::SpawnFailed,
            format!("cannot start {program}: {} (at this moment): try again later", errno.desc()),
        ),
        RunError::Forbidden(errno) => Refusal::new(
            Code::Internal,
            format!(
                "cannot start {program}: {}: the server's container may not allow it",
                errno.desc()
            ),
        ),
        RunError::Unconfined(errno) => Refusal::new(
            Code::ConfinementUnavailable,
            format!("cannot confine {program}: {}: see confinement in `status`", errno.desc()),
        ),
        RunError::Terminal(errno) => Refusal::new(
            Code::Internal,
            format!(
                "cannot make a terminal for the tool: {}: mount devpts at /dev/pts where the server runs",
                errno.desc()
            ),
        ),
        RunError::Directory(errno) => Refusal::new(
            Code::CwdNotFound,
            format!("the directory cannot be entered: {}", errno.desc()),
        ),
        RunError::Exec(Errno::E2BIG) => Refusal::new(
            Code::RequestTooLarge,
            "the arguments and environment are too long for the kernel",
        ),
        RunError::Exec(Errno::ENOENT | Errno::ENOTDIR) => Refusal::new(
            Code::NotInstalled,
            format!(
                "{program} is not there, or its interpreter is not: install it beside the server, or mend {origin}"
            ),
        ),
        RunError::Exec(errno) => Refusal::new(
            Code::NotInstalled,
            format!(
                "{program} cannot be executed: {}: make it executable by the server, or mend {origin}",
                errno.desc(),
            ),
        ),
    }
}
