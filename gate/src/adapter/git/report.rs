//! The answer to a push that does not go on, as the host would give it.
//!
//! git shows `! [remote rejected]` for each ref, and `remote: …` for what is said
//! beside. Must not: decide, or send.

use super::commands::Push;
use super::line;

/// No reason is longer.
const LONGEST: usize = 500;

/// The body of the answer: for each command of the push, in its order, why not;
/// `said` is shown as lines of the host's. `None` where git did not ask for a report,
/// and would take any answer for a success.
pub fn refused(push: &Push, reasons: &[String], said: &[String]) -> Option<Vec<u8>> {
    if !push.can("report-status") && !push.can("report-status-v2") {
        return None;
    }
    let mut report = Vec::new();
    line::push(&mut report, b"unpack ok\n");
    let unnamed = "refused by the broker".to_owned();
    for (at, command) in push.commands.iter().enumerate() {
        let reason = plain(reasons.get(at).unwrap_or(&unnamed));
        line::push(&mut report, &[b"ng ", &*command.name, b" ", reason.as_bytes(), b"\n"].concat());
    }
    line::flush(&mut report);
    if !push.can("side-band-64k") {
        return Some(report);
    }
    let mut out = Vec::new();
    for text in said.iter().take(SAID) {
        line::band(&mut out, 2, format!("{}\n", plain(text)).as_bytes());
    }
    line::band(&mut out, 1, &report);
    line::flush(&mut out);
    Some(out)
}

/// So many lines are said beside a report.
const SAID: usize = 30;

/// One line, with nothing that a terminal would obey.
pub fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_control() { ' ' } else { c };
    let mut plain: String = text.chars().map(kept).take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        plain.push('…');
    }
    plain
}
