//! What a line says of a call, written as the call goes on: first who asked for
//! what, then what was decided, in the end how it ended.
//!
//! Owns: the members of a line and their bounds. Must not: do I/O.

use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::{json, time};

/// Arguments are recorded whole up to so many bytes together.
const MAX_WORDS: usize = 64 * 1024;
/// Beyond that: so much of the first ones, and so much of the last.
const FIRST_WORDS: usize = 48 * 1024;
const LAST_WORDS: usize = 16 * 1024;
/// And of a single long one its beginning.
const LONG_WORD: usize = 1024;
/// A name, or a directory, as a whole.
pub(super) const LONG_NAME: usize = 4096;
/// Bytes of the facts' texts.
const MAX_FACTS: usize = 16 * 1024;
/// Room for what is added at the end of a call.
pub(super) const END: usize = 640;

/// Who called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer<'a> {
    /// The socket's path.
    pub(crate) socket: &'a str,
    /// As the kernel tells.
    pub(crate) uid: u32,
    /// As the kernel tells.
    pub(crate) gid: u32,
}

/// What is known of every call from its first moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// As in the reply and the log.
    pub(crate) call_id: &'a str,
    /// The name that was asked for, whatever it is.
    pub(crate) tool: &'a [u8],
    /// The directory as the caller named it.
    pub(crate) cwd: Option<&'a [u8]>,
    /// Who asked.
    pub(crate) peer: Peer<'a>,
    /// When.
    pub(crate) received: SystemTime,
}

/// What a tool's module found in the arguments.
#[derive(Clone, Debug)]
pub(crate) enum Fact<'a> {
    /// Yes or no.
    Flag(bool),
    /// The values.
    Texts(Vec<&'a [u8]>),
    /// It cannot be known.
    Unknown,
}

/// In place of a uid: an operator who answered by HTTP. Nobody has this uid.
pub(crate) const BY_HTTP: u32 = u32::MAX;

/// Who answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Approval<'a> {
    /// The question's id.
    pub(crate) id: &'a str,
    /// Who answered.
    pub(crate) by_uid: u32,
    /// When.
    pub(crate) at: SystemTime,
    /// Until when it holds, where it holds for more than one call.
    pub(crate) until: Option<SystemTime>,
    /// Yes, or no.
    pub(crate) granted: bool,
}

/// What was found and decided; what a call did not get to is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decided<'a> {
    /// The directory that was entered, by its own name.
    pub(crate) directory: Option<&'a [u8]>,
    /// sha256 of the definition's files, in hexadecimal.
    pub(crate) definition: Option<&'a str>,
    /// allow, ask or deny.
    pub(crate) decision: Option<&'a str>,
    /// Which rule.
    pub(crate) rule: Option<&'a str>,
    /// Where it stands: file and line.
    pub(crate) at: Option<(&'a [u8], usize)>,
    /// enforce or observe.
    pub(crate) mode: Option<&'a str>,
    /// What would have been decided, where it was only observed.
    pub(crate) would: Option<&'a str>,
    /// With what it was confined: namespaces, landlock, off.
    pub(crate) confined: Option<&'a str>,
    /// By name.
    pub(crate) facts: &'a [(&'a str, Fact<'a>)],
    /// Where the rule asks.
    pub(crate) approval: Option<Approval<'a>>,
    /// From its receipt until it was run or refused.
    pub(crate) waited: Option<Duration>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The tool ended by itself.
    Exited,
    /// A signal ended it.
    Signaled,
    /// It was never run.
    Refused,
    /// It ran too long.
    TimedOut,
    /// Its caller went away.
    CallerGone,
    /// The server stopped, or was killed.
    Interrupted,
    /// It was to be run and could not be.
    NotStarted,
    /// Its output did not fit.
    OutputTooLarge,
}

impl End {
    /// Every one, for the command line.
    pub(crate) const ALL: [End; 8] = [
        End::Exited,
        End::Signaled,
        End::Refused,
        End::TimedOut,
        End::CallerGone,
        End::Interrupted,
        End::NotStarted,
        End::OutputTooLarge,
    ];

    /// As a line says it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            End::Exited => "exited",
            End::Signaled => "signaled",
            End::Refused => "refused",
            End::TimedOut => "timed_out",
            End::CallerGone => "caller_gone",
            End::Interrupted => "interrupted",
            End::NotStarted => "not_started",
            End::OutputTooLarge => "output_too_large",
        }
    }
}

/// Bytes that passed; `None` where they did not pass here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) stdin: Option<u64>,
    pub(crate) stdout: Option<u64>,
    pub(crate) stderr: Option<u64>,
}

/// The end of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) end: End,
    /// What the caller got.
    pub(crate) exit_code: Option<u8>,
    pub(crate) signal: Option<&'a str>,
    /// The broker's own word, where it ended the call.
    pub(crate) code: Option<&'a str>,
    /// How long the tool ran; `None` where it did not, or nobody saw it end.
    pub(crate) duration: Option<Duration>,
    pub(crate) bytes: Passed,
}

impl Ended<'_> {
    /// Of a call whose server was killed.
    pub(super) const INTERRUPTED: Ended<'static> = Ended {
        end: End::Interrupted,
        exit_code: None,
        signal: None,
        code: None,
        duration: None,
        bytes: Passed { stdin: None, stdout: None, stderr: None },
    };

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        json::millis(out, "duration_ms", self.duration);
        json::number(out, "stdin_bytes", self.bytes.stdin);
        json::number(out, "stdout_bytes", self.bytes.stdout);
        json::number(out, "stderr_bytes", self.bytes.stderr);
        json::text(out, "ended", Some(self.end.as_str().as_bytes()));
        json::number(out, "exit_code", self.exit_code.map(u64::from));
        json::text(out, "signal", self.signal.map(str::as_bytes));
        json::text(out, "code", self.code.map(str::as_bytes));
    }
}

/// The beginning of a call's line: its members, each with a comma before it.
#[derive(Clone, Debug)]
#[must_use = "a call without a line is not recorded"]
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    /// Begins the line of a call; `args` without the tool's name.
    pub(crate) fn new<'a>(
        asked: &Asked<'a>,
        args: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) -> Draft {
        let mut out = Vec::with_capacity(1024);
        json::member(&mut out, "time");
        time::write(&mut out, asked.received);
        json::text(&mut out, "call_id", Some(asked.call_id.as_bytes()));
        json::member(&mut out, "tool");
        shortened(&mut out, asked.tool, LONG_NAME);
        words(&mut out, asked.tool, args);
        json::member(&mut out, "cwd");
        match asked.cwd {
            Some(cwd) => shortened(&mut out, cwd, LONG_NAME),
            None => out.extend_from_slice(b"null"),
        }
        json::member(&mut out, "peer");
        out.extend_from_slice(b"{\"socket\":");
        json::string(&mut out, asked.peer.socket.as_bytes());
        json::number(&mut out, "uid", Some(asked.peer.uid.into()));
        json::number(&mut out, "gid", Some(asked.peer.gid.into()));
        out.push(b'}');
        Draft(out)
    }

    /// Adds what was decided.
    pub(super) fn decided(self, decided: &Decided<'_>) -> Vec<u8> {
        let Draft(mut out) = self;
        json::text(&mut out, "directory", decided.directory);
        json::text(&mut out, "definition", decided.definition.map(str::as_bytes));
        json::text(&mut out, "decision", decided.decision.map(str::as_bytes));
        json::text(&mut out, "rule", decided.rule.map(str::as_bytes));
        at(&mut out, decided.at);
        json::text(&mut out, "mode", decided.mode.map(str::as_bytes));
        json::text(&mut out, "would", decided.would.map(str::as_bytes));
        json::text(&mut out, "confined", decided.confined.map(str::as_bytes));
        facts(&mut out, decided.facts);
        approval(&mut out, decided.approval.as_ref());
        json::millis(&mut out, "waited_ms", decided.waited);
        out
    }
}

pub(super) fn at(out: &mut Vec<u8>, place: Option<(&[u8], usize)>) {
    let place = place.map(|(file, line)| [file, b":", line.to_string().as_bytes()].concat());
    json::text(out, "at", place.as_deref());
}

/// The words of the call, the tool's name first. Beyond the bound the first and
/// the last of them, a digest of all, and how much is left out between them.
fn words<'a>(
    out: &mut Vec<u8>,
    tool: &'a [u8],
    args: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) {
    json::member(out, "argv");
    out.push(b'[');
    shortened(out, tool, LONG_NAME);
    let size: usize = args.clone().map(<[u8]>::len).sum();
    // An empty word takes room too.
    if size.saturating_add(args.len()) <= MAX_WORDS {
        for word in args {
            out.push(b',');
            json::string(out, word);
        }
        out.push(b']');
        return;
    }
    let all: Vec<&[u8]> = args.collect();
    let (first, last) = (fitting(all.iter(), FIRST_WORDS), fitting(all.iter().rev(), LAST_WORDS));
    let last = last.min(all.len().saturating_sub(first));
    let end = all.len().saturating_sub(last);
    for (index, word) in all.iter().enumerate().filter(|(index, _)| *index < first || *index >= end)
    {
        if index == end && first < end {
            out.extend_from_slice(b",{\"omitted\":true}");
        }
        out.push(b',');
        shortened(out, word, LONG_WORD);
    }
    out.push(b']');
    let between = all.get(first..end).unwrap_or_default();
    json::member(out, "argv_omitted");
    out.extend_from_slice(b"{\"words\":");
    json::digits(out, u64::try_from(between.len()).unwrap_or(u64::MAX), 1);
    let bytes: usize = between.iter().map(|word| word.len()).sum();
    json::number(out, "bytes", u64::try_from(bytes).ok());
    out.push(b'}');
    let mut digest = Sha256::new_with_prefix(tool);
    for word in all {
        digest.update([0]);
        digest.update(word);
    }
    json::member(out, "argv_sha256");
    out.push(b'"');
    json::hex(out, &digest.finalize());
    out.push(b'"');
}

/// How many of these fit into so many bytes.
fn fitting<'a>(words: impl Iterator<Item = &'a &'a [u8]>, bytes: usize) -> usize {
    let sizes = words.scan(0usize, |sum, word| {
        *sum = sum.saturating_add(word.len().min(LONG_WORD)).saturating_add(1);
        Some(*sum)
    });
    sizes.take_while(|sum| *sum <= bytes).count()
}

/// A long word as its beginning and its length.
pub(super) fn shortened(out: &mut Vec<u8>, word: &[u8], longest: usize) {
    let Some(mut beginning) = word.get(..longest).filter(|_| word.len() > longest) else {
        return json::string(out, word);
    };
    // Not in the middle of a character, where it is text.
    if std::str::from_utf8(word).is_ok()
        && let Some(chunk) = beginning.utf8_chunks().next()
    {
        beginning = chunk.valid().as_bytes();
    }
    out.extend_from_slice(b"{\"begins\":");
    json::string(out, beginning);
    json::number(out, "bytes", u64::try_from(word.len()).ok());
    out.push(b'}');
}

/// An object: flags, lists of texts, null where nothing can be known. Texts
/// beyond the bound are left out, and their bytes told.
pub(super) fn facts(out: &mut Vec<u8>, facts: &[(&str, Fact<'_>)]) {
    json::member(out, "facts");
    let (mut room, mut omitted) = (MAX_FACTS, 0usize);
    out.push(b'{');
    for (index, (name, fact)) in facts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::string(out, name.as_bytes());
        out.push(b':');
        match fact {
            Fact::Flag(true) => out.extend_from_slice(b"true"),
            Fact::Flag(false) => out.extend_from_slice(b"false"),
            Fact::Unknown => out.extend_from_slice(b"null"),
            Fact::Texts(texts) => {
                let mut before = b'[';
                for text in texts {
                    match room.checked_sub(text.len().saturating_add(1)) {
                        Some(left) => {
                            room = left;
                            out.push(before);
                            json::string(out, text);
                            before = b',';
                        }
                        None => omitted = omitted.saturating_add(text.len()),
                    }
                }
                out.extend_from_slice(if before == b'[' { b"[]" } else { b"]" });
            }
        }
    }
    out.push(b'}');
    if omitted > 0 {
        json::number(out, "facts_omitted_bytes", u64::try_from(omitted).ok());
    }
}

pub(super) fn approval(out: &mut Vec<u8>, approval: Option<&Approval<'_>>) {
    json::member(out, "approval");
    let Some(approval) = approval else { return out.extend_from_slice(b"null") };
    out.extend_from_slice(b"{\"id\":");
    json::string(out, approval.id.as_bytes());
    let by_uid = Some(approval.by_uid).filter(|uid| *uid != BY_HTTP);
    json::number(out, "by_uid", by_uid.map(u64::from));
    if by_uid.is_none() {
        out.extend_from_slice(b",\"by\":\"http\"");
    }
    json::member(out, "granted");
    out.extend_from_slice(if approval.granted { b"true" } else { b"false" });
    json::member(out, "at");
    time::write(out, approval.at);
    json::member(out, "until");
    match approval.until {
        Some(until) => time::write(out, until),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}
