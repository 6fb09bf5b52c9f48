//! What is under way, and what was refused last: for `status` and the figures.
//!
//! Owns: both lists, in bounded memory, as the bytes that came. Must not: be
//! asked for a decision. What it shows is escaped.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tool_protocol::{Code, Reply};

use super::{Call, Peer, Watch};
use crate::metrics::Decided;

/// Refusals that are kept.
const REFUSALS: usize = 20;
/// Bytes that are kept of a command line, and shown of a message.
const SHOWN: usize = 160;

/// Both lists.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    calls: Mutex<HashMap<u32, UnderWay>>,
    refusals: Mutex<VecDeque<Refused>>,
}

/// A call that is not over.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub(super) tool: String,
    pub(super) peer: Peer,
    pub(super) since: Instant,
    pub(super) decided: Decided,
    /// From its request to its tool's start.
    pub(super) started: Option<Duration>,
    command: Vec<u8>,
    cut: bool,
}

/// A call that was not run.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) at: SystemTime,
    pub(super) call_id: String,
    pub(super) tool: String,
    pub(super) code: Code,
    pub(super) rule: Option<String>,
    pub(super) message: String,
    /// What to do instead.
    pub(super) hint: Option<String>,
    pub(super) peer: Peer,
}

impl Recent {
    /// A call has come.
    pub(super) fn came(&self, number: u32, call: &Call, since: Instant, watch: &Watch) {
        let words = call.request.args.iter().map(|word| word.as_bytes().len() + 1);
        let mut command = Vec::with_capacity(words.sum::<usize>().min(SHOWN));
        let mut cut = false;
        // Words are kept apart by the one byte that none of them has.
        for word in &call.request.args {
            let room = SHOWN.saturating_sub(command.len());
            cut |= word.as_bytes().len() >= room;
            command.extend(word.as_bytes().iter().chain(b"\0").take(room));
            if cut {
                break;
            }
        }
        let under_way = UnderWay {
            tool: call.tool.clone(),
            peer: call.peer,
            since,
            decided: Decided::None,
            started: None,
            command,
            cut,
        };
        watch.began(number, &under_way);
        self.calls().insert(number, under_way);
    }

    /// It was decided on.
    pub(super) fn decided(&self, number: u32, decided: Decided, watch: &Watch) {
        if let Some(call) = self.calls().get_mut(&number) {
            call.decided = decided;
            watch.changed(number, call);
        }
    }

    /// Its tool runs.
    pub(super) fn started(&self, number: u32, watch: &Watch) {
        if let Some(call) = self.calls().get_mut(&number) {
            call.started = Some(call.since.elapsed());
            watch.changed(number, call);
        }
    }

    /// It is over.
    pub(super) fn ended(&self, number: u32) -> Option<UnderWay> {
        self.calls().remove(&number)
    }

    /// Whether it is under way.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.calls().keys().copied().collect()
    }

    /// The calls under way, those first that have been so for the longest time.
    pub(super) fn under_way(&self) -> Vec<(u32, UnderWay)> {
        let mut calls: Vec<(u32, UnderWay)> =
            self.calls().iter().map(|(number, call)| (*number, call.clone())).collect();
        calls.sort_unstable_by_key(|(number, call)| (call.since, *number));
        calls
    }

    /// Keeps a call in mind that the broker did not run.
    pub(super) fn refused(
        &self,
        call_id: &str,
        tool: &str,
        peer: Peer,
        reply: &Reply,
        watch: &Watch,
    ) {
        let (Some(code), Some(message)) = (reply.code, &reply.error) else { return };
        let refused = Refused {
            at: SystemTime::now(),
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            code,
            rule: reply.rule.clone(),
            message: shown(message),
            hint: reply.hint.as_deref().map(shown),
            peer,
        };
        watch.refused(&refused);
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() == REFUSALS {
            refusals.pop_front();
        }
        refusals.push_back(refused);
    }

    /// The last refusals, the newest first.
    pub(super) fn refusals(&self) -> Vec<Refused> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.iter().rev().cloned().collect()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<u32, UnderWay>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// The tool and its arguments, escaped and shortened.
    pub(super) fn command(&self) -> String {
        let mut text = self.tool.clone();
        let words = self.command.strip_suffix(b"\0").unwrap_or(&self.command);
        if !self.command.is_empty() {
            for word in words.split(|byte| *byte == 0) {
                text.push(' ');
                text.push_str(&word_shown(word));
            }
        }
        if self.cut {
            text.push('…');
        }
        text
    }
}

/// One word: quoted where it would not read as one, ASCII only.
fn word_shown(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=@,+%^~".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return word.escape_ascii().to_string();
    }
    format!("\"{}\"", word.escape_ascii())
}

/// The beginning of a message; a refusal's has nothing in it that acts.
fn shown(message: &str) -> String {
    let mut text: String = message.chars().take(SHOWN).collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Io;
    use tool_protocol::{Refusal, Request, Text};

    fn command(words: &[&[u8]]) -> String {
        let recent = Recent::default();
        let args = words.iter().filter_map(|word| Text::new(*word)).collect();
        let request = Request { args, ..Request::default() };
        let peer = Peer { socket: 0, uid: 1, gid: 2 };
        let call = Call { peer, tool: "sh".into(), request, io: Io::Captured, known: None };
        recent.came(7, &call, Instant::now(), &Watch::default());
        recent.ended(7).unwrap().command()
    }

    #[test]
    fn a_command_line_is_shown_escaped_and_shortened() {
        assert_eq!(command(&[]), "sh");
        assert_eq!(command(&[b"-c", b"echo 'a'", b""]), "sh -c \"echo \\'a\\'\" \"\"");
        assert_eq!(command(&[b"\x1b[31m", b"\xff\n"]), r#"sh "\x1b[31m" "\xff\n""#);
        let long = command(&[&[b'x'; 100], &[b'\x07'; 100], b"never"]);
        assert!(long.ends_with("\\x07\"…") && long.len() < 600, "{long}");
        assert!(!command(&[&[b'x'; 99], &[b'y'; 59]]).ends_with('…'));
        assert!(command(&[&[b'x'; 100], &[b'y'; 59]]).ends_with("yyy…"));
    }

    #[test]
    fn the_last_refusals_are_kept_and_no_more() {
        let recent = Recent::default();
        for number in 0..50 {
            let message = format!("no {number} {}", "x".repeat(1_000));
            let reply = Reply::refused(Refusal::new(Code::Denied, message).by("r"));
            let peer = Peer { socket: 0, uid: 1, gid: 2 };
            recent.refused("id", "git", peer, &reply, &Watch::default());
        }
        let refusals = recent.refusals();
        assert_eq!(refusals.len(), REFUSALS);
        let first = refusals.first().unwrap();
        assert!(first.message.starts_with("no 49 x") && first.message.ends_with('…'));
        assert_eq!(first.message.chars().count(), SHOWN + 1);
        assert_eq!(first.rule.as_deref(), Some("r"));
    }
}
