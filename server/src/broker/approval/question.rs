//! What an operator is asked: the plan, as it would run, or a request that a call
//! made at its gate.
//!
//! Owns: the words that are shown, and the digest by which a plan is known again.
//! Whatever comes from the caller is escaped and bounded, and what is left out is
//! said: nothing that a caller writes can look like the broker's own words.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::stat::fstat;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::broker::observe::repository_of;
use crate::broker::{Peer, Workspace};
use crate::exec::Plan;
use crate::registry::Tool;
use tool_policy::{RuleId, Verdict};

/// Bytes of one word that are shown.
const WORD: usize = 512;
/// Bytes of all words that are shown.
const WORDS: usize = 4096;

/// By which a plan is known again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Digest(pub(super) [u8; 32]);

/// Who asks for what, and by which rule.
#[derive(Debug)]
pub(crate) struct Question {
    /// Who calls.
    pub(super) peer: Peer,
    /// Of everything that runs.
    pub(super) digest: Digest,
    /// Where a standing approval would hold.
    pub(super) site: Site,
    /// Why an approval cannot stand there.
    pub(super) alone: Option<&'static str>,
    /// It cannot be known again: an answer is for whoever waits for it, or for nobody.
    pub(super) once: bool,
    /// What has not happened yet.
    nothing: &'static str,
    /// In words.
    pub(super) shown: Shown,
}

/// What a standing approval is for: one caller and rule, in one repository, by one gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The tool's name.
    pub(super) tool: String,
    /// The rule's id.
    pub(super) rule: String,
    /// The definition's digest: one that was changed is asked about again.
    pub(super) definition: String,
    /// The directory that holds the repository, or the call's own.
    pub(super) repository: Vec<u8>,
    /// Of a request: by which gate it goes on, and with which credential; else nothing.
    pub(super) by: String,
    /// Who calls, in words that are nobody else's: uid, gid and the socket's name.
    pub(super) caller: String,
}

/// The words of a question. Every string is printable ASCII.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    pub(super) tool: String,
    pub(super) rule: String,
    /// `FILE:LINE` of the rule.
    pub(super) at: String,
    pub(super) reason: String,
    /// What the caller could do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instead: Option<String>,
    pub(super) peer: String,
    pub(super) program: String,
    /// The resolved directory.
    pub(super) directory: String,
    pub(super) repository: String,
    /// argv as it would run, the name first.
    pub(super) argv: Vec<String>,
    /// Bytes of arguments that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) argv_omitted_bytes: usize,
    /// What it asked its gate for: where to, and what. Then nothing has been sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) wire: Vec<String>,
    /// What the tool's module makes of the arguments.
    pub(super) facts: Vec<String>,
    /// Bytes of facts that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) facts_omitted_bytes: usize,
    /// Other rules that ask about this call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<String>,
    /// The names of the tool's variables.
    pub(super) environment: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Why there is a question.
#[derive(Debug)]
pub(crate) struct Because {
    /// The tool's name.
    pub(crate) tool: String,
    /// The rule's id.
    pub(crate) rule: String,
    /// `FILE:LINE` of the rule.
    pub(crate) at: String,
    /// In the rule's words.
    pub(crate) reason: String,
    /// What to do instead, in the rule's words.
    pub(crate) instead: Option<String>,
    /// The definition's digest.
    pub(crate) definition: String,
    /// `name=value`, as the caller's bytes have them.
    pub(crate) facts: Vec<Vec<u8>>,
    /// Other rules that ask about this call.
    pub(crate) also: Vec<String>,
    /// Why an approval of it cannot stand.
    pub(crate) alone: Option<&'static str>,
}

impl Because {
    /// By this tool's rules.
    pub(in crate::broker) fn of(tool: &Tool, verdict: &Verdict) -> Because {
        let facts = verdict
            .facts
            .iter()
            .map(|(name, value)| [name.as_bytes(), b"=", &value.to_bytes()].concat());
        Because {
            tool: tool.name.clone(),
            rule: verdict.rule.as_str().to_owned(),
            at: tool.at(verdict.line).to_string(),
            reason: verdict.reason.as_deref().unwrap_or_default().to_owned(),
            instead: verdict.instead.as_deref().map(str::to_owned),
            definition: tool.hash.clone(),
            facts: facts.collect(),
            also: verdict.also.iter().map(ToString::to_string).collect(),
            alone: alone(verdict),
        }
    }
}

/// Why an approval of this call cannot stand for others.
fn alone(verdict: &Verdict) -> Option<&'static str> {
    if !matches!(verdict.rule, RuleId::Rule(_)) {
        return Some("no rule asked, so it would stand for every call that no rule is about");
    }
    elsewhere(verdict)
}

/// Why what is approved in a call does not stand for the directory that it was made in.
pub(in crate::broker) fn elsewhere(call: &Verdict) -> Option<&'static str> {
    // A fact that a module does not have is not known, and says nothing.
    let mut facts = call.facts.iter();
    let elsewhere = facts.any(|(name, value)| name == "directories" && !value.is_nothing());
    elsewhere.then_some("the call works in another directory than its own")
}

/// Who asks, and by which call: what questions about it have in common.
#[derive(Debug)]
pub(crate) struct Asker {
    peer: Peer,
    caller: String,
    program: String,
    directory: Vec<u8>,
    argv: Vec<String>,
    argv_omitted_bytes: usize,
    environment: Vec<String>,
    /// Of all that stays the same where the call is made again.
    digest: Digest,
}

/// A request that a call made at its gate.
#[derive(Debug)]
pub(crate) struct Requested {
    /// Where it goes, and with which credential.
    pub(crate) to: String,
    /// What it does, a line for each part.
    pub(crate) lines: Vec<String>,
    /// Where an approval of it may stand: HOST/REPOSITORY, or the host; `None` is where
    /// the call itself is.
    pub(crate) site: Option<Vec<u8>>,
    /// By which gate, with which credential: an approval stands for no other.
    pub(crate) by: String,
    /// All that is known of it, to know it again.
    pub(crate) known: Vec<u8>,
    /// Bytes of it that no line shows, though their digest is known.
    pub(crate) unseen: usize,
    /// There is more that nobody has read: it cannot be known again.
    pub(crate) once: bool,
    /// What has not happened to it: `been sent`.
    pub(crate) nothing: &'static str,
}

impl Asker {
    /// Of the call that this plan is.
    pub(crate) fn of(plan: &Plan, peer: Peer, caller: &str) -> Asker {
        let words = plan.arguments.iter().map(|word| word.as_bytes());
        let (argv, argv_omitted_bytes) = bounded(words);
        let name = |line: &[u8]| show(line.split(|byte| *byte == b'=').next().unwrap_or_default());
        Asker {
            peer,
            caller: show(caller.as_bytes()),
            program: show(plan.program.as_bytes()),
            directory: plan.place.clone(),
            argv,
            argv_omitted_bytes,
            environment: plan.environment.iter().map(|line| name(line.as_bytes())).collect(),
            digest: digest(plan, &plan.place),
        }
    }

    /// Of work on the workspace's files: what it is about, by its real names, and all of
    /// its input.
    pub(in crate::broker) fn of_operation<'a>(
        tool: &'a str,
        names: impl Iterator<Item = &'a [u8]> + Clone,
        input: &'a [u8],
        peer: Peer,
        caller: &str,
    ) -> Asker {
        let first = names.clone().next().unwrap_or_default().to_vec();
        let words = std::iter::once(tool.as_bytes()).chain(names.clone());
        // What is written where is shown, as far as a question has room.
        let (argv, argv_omitted_bytes) = bounded(words.chain(std::iter::once(input)));
        let mut pieces = Pieces::default();
        pieces.add(tool.as_bytes());
        names.for_each(|name| pieces.add(name));
        pieces.add(input);
        Asker {
            peer,
            caller: show(caller.as_bytes()),
            program: show(tool.as_bytes()),
            directory: first,
            argv,
            argv_omitted_bytes,
            environment: Vec::new(),
            digest: pieces.end(),
        }
    }

    pub(in crate::broker) fn question(
        &self,
        workspace: &Workspace,
        because: Because,
        requested: Option<Requested>,
    ) -> Question {
        let (facts, facts_omitted_bytes) = bounded(because.facts.iter().map(Vec::as_slice));
        let (mut wire, mut wire_omitted_bytes) = (Vec::new(), 0);
        let mut elsewhere = None;
        let (mut known, mut once, mut nothing) = (Vec::new(), false, "run");
        let mut by = String::new();
        if let Some(requested) = requested {
            let lines = std::iter::once(&requested.to).chain(&requested.lines);
            (wire, wire_omitted_bytes) = bounded(lines.map(|line| line.as_bytes()));
            wire_omitted_bytes = wire_omitted_bytes.saturating_add(requested.unseen);
            elsewhere = requested.site;
            by = requested.by;
            (known, once, nothing) = (requested.known, requested.once, requested.nothing);
        }
        let repository = elsewhere.unwrap_or_else(|| repository_of(workspace, &self.directory));
        let shown = Shown {
            tool: show(because.tool.as_bytes()),
            rule: show(because.rule.as_bytes()),
            at: show(because.at.as_bytes()),
            reason: prose(&because.reason),
            instead: because.instead.as_deref().map(prose),
            peer: self.caller.clone(),
            program: self.program.clone(),
            directory: show(&self.directory),
            repository: show(&repository),
            argv: self.argv.clone(),
            argv_omitted_bytes: self.argv_omitted_bytes,
            wire,
            facts,
            facts_omitted_bytes: facts_omitted_bytes.saturating_add(wire_omitted_bytes),
            also: because.also.iter().map(|rule| show(rule.as_bytes())).collect(),
            environment: self.environment.clone(),
        };
        let site = Site {
            tool: because.tool,
            rule: because.rule,
            definition: because.definition,
            repository,
            by,
            caller: self.caller.clone(),
        };
        let digest = all_of(&self.digest, &site, &known);
        Question { peer: self.peer, digest, site, alone: because.alone, once, nothing, shown }
    }

    /// The question of whether that request may go on.
    pub(in crate::broker) fn asks(
        &self,
        workspace: &Workspace,
        because: Because,
        requested: Requested,
    ) -> Question {
        self.question(workspace, because, Some(requested))
    }
}

impl Question {
    /// The question of whether this plan may run.
    pub(in crate::broker) fn new(
        workspace: &Workspace,
        plan: &Plan,
        peer: Peer,
        caller: &str,
        because: Because,
    ) -> Question {
        Asker::of(plan, peer, caller).question(workspace, because, None)
    }

    /// One line for the caller and the log. Whoever reads it may be a program that
    /// does what it is told: it says that nothing has run, and no command.
    pub(super) fn line(&self, id: &str, patience: Duration) -> String {
        let Shown { rule, at, reason, .. } = &self.shown;
        let (seconds, nothing) = (patience.as_secs_f64(), self.nothing);
        format!(
            "held, nothing has {nothing}: {reason} [rule {rule}, {at}]; request {id} waits up to {seconds} s for a person's approval"
        )
    }

    /// What the other rules that ask would stand for.
    pub(super) fn others(&self) -> Vec<Site> {
        let others = self.shown.also.iter();
        others.map(|rule| Site { rule: rule.clone(), ..self.site.clone() }).collect()
    }

    /// In which repository it would stand, and by what, in words.
    pub(super) fn place(&self) -> String {
        let Site { repository, by, .. } = &self.site;
        let by = if by.is_empty() { String::new() } else { format!(" ({})", show(by.as_bytes())) };
        format!("{}{by}", show(repository))
    }

    /// Whether an answer is for whoever waits, and for nobody later.
    pub(in crate::broker) fn is_once(&self) -> bool {
        self.once
    }

    /// What the caller could do instead.
    pub(in crate::broker) fn instead(&self) -> Option<String> {
        self.shown.instead.clone()
    }
}

/// Printable ASCII, whatever the bytes are.
pub(crate) fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The same for a definition's own sentence: its quotes are no caller's.
fn prose(text: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let each = |c: char| if plain(c) { c.to_string() } else { c.escape_default().to_string() };
    text.chars().map(each).collect()
}

/// As many words as are shown, and the bytes of what is left out.
fn bounded<'a>(words: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, usize) {
    let (mut shown, mut left, mut omitted) = (Vec::new(), WORDS, 0);
    for word in words {
        let room = left.min(WORD);
        let seen = word.get(..room).unwrap_or(word);
        omitted += word.len() - seen.len();
        left -= seen.len();
        if room > 0 {
            shown.push(show(seen));
        }
    }
    (shown, omitted)
}

/// A digest of pieces, each with its length: no two lists of pieces are one string.
#[derive(Default)]
struct Pieces(Sha256);

impl Pieces {
    fn add(&mut self, piece: &[u8]) {
        self.0.update(u64::try_from(piece.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(piece);
    }

    fn end(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// All that makes the call what it is; not its number, its descriptors, and what it
/// was given for its gate, which is another one each time.
fn digest(plan: &Plan, directory: &[u8]) -> Digest {
    let mut pieces = Pieces::default();
    pieces.add(directory);
    // A directory of the same name that was put in its place is another one.
    let place = fstat(plan.directory.as_fd()).map(|stat| (stat.st_dev, stat.st_ino));
    pieces
        .add(format!("{place:?} {:o} {:?} {:?}", plan.umask, plan.timeout, plan.limits).as_bytes());
    // Nor is the same call on another branch.
    pieces.add(format!("{:?}", plan.observed).as_bytes());
    pieces.add(plan.program.as_bytes());
    let lasting = plan.environment.len().saturating_sub(plan.fresh);
    for list in [plan.arguments.as_slice(), plan.environment.get(..lasting).unwrap_or_default()] {
        pieces.add(&list.len().to_le_bytes());
        for word in list {
            pieces.add(word.as_bytes());
        }
    }
    pieces.end()
}

/// The call, whose it is, by which rule it is asked about, and what it asked for.
fn all_of(call: &Digest, site: &Site, known: &[u8]) -> Digest {
    let mut pieces = Pieces::default();
    for piece in [site.tool.as_bytes(), site.rule.as_bytes(), site.definition.as_bytes()] {
        pieces.add(piece);
    }
    pieces.add(&site.repository);
    pieces.add(site.by.as_bytes());
    // An operator was shown who asks: nobody else is answered.
    pieces.add(site.caller.as_bytes());
    pieces.add(&call.0);
    pieces.add(known);
    pieces.end()
}
