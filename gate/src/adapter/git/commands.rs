//! What a push asks for: the lines before its pack.
//!
//! Owns: reading them whole, within bounds, before a byte goes on. Whatever a server
//! could read differently is refused. Must not: decide.

use std::collections::HashSet;

use super::certificate::Certificate;
use super::line::{self, Line, NoLine};
use super::name::{Format, Id, is_ref};

/// So many bytes are read before the pack, and no more.
pub const MOST_BYTES: usize = 4 << 20;

/// So many refs in one push.
const MOST_REFS: usize = 10_000;

/// So many roots of a shallow repository.
const MOST_ROOTS: usize = 10_000;

/// So many words of `push -o`, and bytes in all of them.
const MOST_OPTIONS: usize = 32;
const OPTION_BYTES: usize = 4 << 10;

/// Each ref is decided on, and written down, with all of them: so many bytes of options
/// for all refs together, each option with the length that stands before it.
const MOST_REPEATED: usize = 256 << 10;
const BEFORE: usize = 4;

/// Why a push is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// No pkt-line.
    #[error(transparent)]
    NoLine(#[from] NoLine),
    /// Bytes where there can be none.
    #[error("something follows the push that does not belong to it")]
    Behind,
    /// It ends too early.
    #[error("the push breaks off")]
    Ended,
    /// Too long.
    #[error("the push is too long: push fewer refs at once")]
    TooLong,
    /// A line that is no command.
    #[error("a line of the push is no command")]
    NoCommand,
    /// A name that git does not take either.
    #[error("a ref of the push has no valid name")]
    NoName,
    /// Twice the same.
    #[error("a ref is named twice in one push: name it once")]
    Twice,
    /// Capabilities that are not what git sends.
    #[error("the capabilities of the push are not plain")]
    Capabilities,
    /// More words than are looked at.
    #[error("the push has more options than are looked at, 32 and 4 KiB in all: leave some -o out")]
    Options,
    /// More words for all refs together.
    #[error(
        "the push has too many options for so many refs: push fewer refs at once, or leave some -o out"
    )]
    Repeated,
    /// A certificate that could be read differently.
    #[error("the certificate of the signed push is not plain: push without --signed")]
    Certificate,
}

/// One ref that is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What it is now; zero where it is to be made.
    pub old: Id,
    /// What it is to be; zero where it is to go.
    pub new: Id,
    /// Its full name.
    pub name: Vec<u8>,
}

/// All that stands before the pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Push {
    /// In the order of the push; none where git only asks whether it may.
    pub commands: Vec<Command>,
    /// Commits whose parents the host is told to forget: roots of a shallow repository.
    pub shallow: Vec<Id>,
    /// Words for the server, `push -o`.
    pub options: Vec<Vec<u8>>,
    /// The words after the first command.
    pub capabilities: Vec<String>,
    /// It carries a certificate.
    pub signed: bool,
}

impl Push {
    /// Whether git said this word.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|one| one == capability)
    }

    /// How its objects are named.
    pub fn format(&self) -> Option<Format> {
        format_of(&self.capabilities)
    }

    /// Whether a pack follows: not where refs are only deleted.
    pub fn has_pack(&self) -> bool {
        self.commands.iter().any(|command| !command.new.is_zero())
    }
}

fn format_of(capabilities: &[String]) -> Option<Format> {
    let mut said = capabilities.iter().filter_map(|one| one.strip_prefix("object-format="));
    match (said.next(), said.next()) {
        (None, _) => Some(Format::Sha1),
        (Some(format), None) => Format::parse(format.as_bytes()),
        (Some(_), Some(_)) => None,
    }
}

/// Reads what stands before a pack as it comes.
#[derive(Debug, Default)]
pub struct Reader {
    push: Push,
    names: HashSet<Vec<u8>>,
    at: usize,
    roots: usize,
    phase: Phase,
    /// The words of `push -o` that a certificate names.
    signed: Option<Vec<Vec<u8>>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Commands,
    Signed(Certificate),
    Closing,
    Options,
    Done,
}

impl Reader {
    /// Goes on in `bytes`, which begin where the body does and only grow. The number
    /// is where the pack begins; `None`: more is needed.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, Wrong> {
        while !matches!(self.phase, Phase::Done) {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let Some((line, length)) = line::next(rest)? else {
                return if bytes.len() > MOST_BYTES { Err(Wrong::TooLong) } else { Ok(None) };
            };
            self.at += length;
            if self.at > MOST_BYTES {
                return Err(Wrong::TooLong);
            }
            self.line(line)?;
        }
        let options: usize = self.push.options.iter().map(|option| option.len() + BEFORE).sum();
        if options.saturating_mul(self.push.commands.len()) > MOST_REPEATED {
            return Err(Wrong::Repeated);
        }
        // A server may go by either.
        if self.signed.as_ref().is_some_and(|signed| *signed != self.push.options) {
            return Err(Wrong::Certificate);
        }
        Ok(Some(self.at))
    }

    /// What was read, once `read` has given a number.
    pub fn into_push(self) -> Push {
        self.push
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Wrong> {
        match (&mut self.phase, line) {
            (Phase::Commands, Line::Data(data)) => return self.command(chomp(data)),
            (Phase::Signed(certificate), Line::Data(data)) => {
                if certificate.line(data)? {
                    let format = self.push.format().ok_or(Wrong::Capabilities)?;
                    let commands = certificate.commands(format)?;
                    self.signed = Some(std::mem::take(&mut certificate.options));
                    self.phase = Phase::Closing;
                    for command in commands {
                        self.add(command)?;
                    }
                }
            }
            (Phase::Commands | Phase::Closing, Line::Flush) => {
                self.phase = match self.push.can("push-options") {
                    true => Phase::Options,
                    false => Phase::Done,
                };
            }
            (Phase::Options, Line::Data(data)) => {
                let option = chomp(data);
                let options = &self.push.options;
                let length: usize = options.iter().map(Vec::len).sum();
                if options.len() == MOST_OPTIONS || length + option.len() > OPTION_BYTES {
                    return Err(Wrong::Options);
                }
                if option.iter().any(u8::is_ascii_control) {
                    return Err(Wrong::NoCommand);
                }
                self.push.options.push(option.to_vec());
            }
            (Phase::Options, Line::Flush) => self.phase = Phase::Done,
            _ => return Err(Wrong::NoCommand),
        }
        Ok(())
    }

    fn command(&mut self, line: &[u8]) -> Result<(), Wrong> {
        let first = self.push.capabilities.is_empty() && self.push.commands.is_empty();
        let (line, capabilities) = match line.iter().position(|byte| *byte == 0) {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..)),
            None => (line, None),
        };
        if let Some(id) = line.strip_prefix(b"shallow ") {
            let id = [Format::Sha1, Format::Sha256].iter().find_map(|one| Id::parse(id, *one));
            self.roots += 1;
            if self.roots > MOST_ROOTS {
                return Err(Wrong::TooLong);
            }
            // They come before the commands, and say nothing else.
            return match id.filter(|_| first && capabilities.is_none()) {
                Some(id) => {
                    self.push.shallow.push(id);
                    Ok(())
                }
                None => Err(Wrong::NoCommand),
            };
        }
        match capabilities {
            // A server would take them from any line; git sends them in the first.
            Some(_) if !first => return Err(Wrong::Capabilities),
            Some(words) => self.push.capabilities = plain_words(words)?,
            None => {}
        }
        let format = self.push.format().ok_or(Wrong::Capabilities)?;
        if line == b"push-cert" {
            if !self.push.commands.is_empty() {
                return Err(Wrong::Certificate);
            }
            self.push.signed = true;
            self.phase = Phase::Signed(Certificate::default());
            return Ok(());
        }
        self.add(command_of(line, format)?)
    }

    fn add(&mut self, command: Command) -> Result<(), Wrong> {
        if !self.names.insert(command.name.clone()) {
            return Err(Wrong::Twice);
        }
        if self.names.len() > MOST_REFS {
            return Err(Wrong::TooLong);
        }
        self.push.commands.push(command);
        Ok(())
    }
}

/// `OLD NEW REF`.
pub(super) fn command_of(line: &[u8], format: Format) -> Result<Command, Wrong> {
    let digits = format.length() * 2;
    let ids = line.get(..digits).zip(line.get(digits + 1..digits * 2 + 1));
    let (old, new) = ids.ok_or(Wrong::NoCommand)?;
    let blank = |at: usize| line.get(at) == Some(&b' ');
    let name = line.get(digits * 2 + 2..).ok_or(Wrong::NoCommand)?;
    if !blank(digits) || !blank(digits * 2 + 1) {
        return Err(Wrong::NoCommand);
    }
    if !is_ref(name) {
        return Err(Wrong::NoName);
    }
    let id = |digits| Id::parse(digits, format).ok_or(Wrong::NoCommand);
    Ok(Command { old: id(old)?, new: id(new)?, name: name.to_vec() })
}

/// Without the newline that a line may end in: one, as git does it.
fn chomp(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

// A server parts them at every white space, and takes names where it finds them.
fn plain_words(words: &[u8]) -> Result<Vec<String>, Wrong> {
    let text = std::str::from_utf8(words).map_err(|_not_text| Wrong::Capabilities)?;
    if !text.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return Err(Wrong::Capabilities);
    }
    Ok(text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    fn read(lines: &[&str]) -> Result<Option<(Push, usize)>, Wrong> {
        let mut bytes = Vec::new();
        for text in lines {
            match *text {
                "" => line::flush(&mut bytes),
                "|" => line::delimiter(&mut bytes),
                text => line::push(&mut bytes, text.as_bytes()),
            }
        }
        let mut whole = Reader::default();
        let at = whole.read(&bytes);
        // In pieces it is the same.
        let mut reader = Reader::default();
        let mut pieces = (0..=bytes.len()).map(|end| reader.read(&bytes[..end]));
        let last = pieces.find(|one| !matches!(one, Ok(None))).unwrap_or(Ok(None));
        assert_eq!(last, at);
        at.map(|at| at.map(|at| (whole.into_push(), at)))
    }

    #[track_caller]
    fn good(lines: &[&str]) -> Push {
        read(lines).expect("understood").expect("whole").0
    }

    #[test]
    fn the_commands_of_a_push_are_read() {
        let first = format!("{A} {B} refs/heads/main\0 report-status side-band-64k agent=git/2");
        let second = format!("{} {B} refs/tags/v1\n", "0".repeat(40));
        let push = good(&[&format!("shallow {A}"), &first, &second, ""]);
        let names: Vec<_> =
            push.commands.iter().map(|one| one.name.escape_ascii().to_string()).collect();
        assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
        assert!(push.commands[1].old.is_zero() && push.has_pack() && !push.signed);
        assert!(push.can("side-band-64k") && !push.can("side-band"));
        assert!(good(&[""]).commands.is_empty());
        let asked = format!("{A} {} refs/heads/x\0push-options", "0".repeat(40));
        let push = good(&[&asked, "", "ci.skip", "b", ""]);
        assert_eq!(push.options, [b"ci.skip".to_vec(), b"b".to_vec()]);
        assert!(!push.has_pack());
        let long = "x".repeat(OPTION_BYTES);
        let option = |words: &[&str]| {
            let mut lines = vec![asked.as_str(), ""];
            lines.extend(words);
            lines.push("");
            read(&lines).map(|push| push.map(|(push, _)| push.options.len()))
        };
        assert_eq!(option(&[&long]), Ok(Some(1)));
        assert_eq!(option(&["x"; MOST_OPTIONS]), Ok(Some(MOST_OPTIONS)));
        assert_eq!(option(&["x"; MOST_OPTIONS + 1]), Err(Wrong::Options));
        assert_eq!(option(&[&long, "x"]), Err(Wrong::Options));
        let (c, d) = ("3".repeat(64), "4".repeat(64));
        let push = good(&[&format!("{c} {d} refs/heads/x\0object-format=sha256"), ""]);
        assert_eq!(push.format(), Some(Format::Sha256));
    }

    #[test]
    fn many_refs_have_few_options() {
        let read = |refs: usize, options: usize| {
            let mut bytes = Vec::new();
            for number in 0..refs {
                let words = if number == 0 { "\0push-options" } else { "" };
                line::push(&mut bytes, format!("{A} {B} refs/heads/x{number}{words}").as_bytes());
            }
            line::flush(&mut bytes);
            (0..options).for_each(|_| line::push(&mut bytes, b"ci.skip"));
            line::flush(&mut bytes);
            Reader::default().read(&bytes).map(|at| at.is_some())
        };
        assert_eq!(read(MOST_REFS, 2), Ok(true), "220 KB");
        assert_eq!(read(MOST_REFS, 3), Err(Wrong::Repeated));
        assert_eq!(read(700, MOST_OPTIONS), Ok(true));
        assert_eq!(read(800, MOST_OPTIONS), Err(Wrong::Repeated));
    }

    #[test]
    fn what_a_server_could_read_differently_is_refused() {
        let one = |name: &str| format!("{A} {B} {name}");
        let main = one("refs/heads/main");
        for (lines, wrong) in [
            (vec![main.as_str(), &main, ""], Wrong::Twice),
            (vec![&main, &format!("{}\0atomic", one("refs/heads/x")), ""], Wrong::Capabilities),
            (vec![&format!("{main}\0a\tpush-options"), ""], Wrong::Capabilities),
            (vec![&format!("{main}\0a\0push-options"), ""], Wrong::Capabilities),
            (
                vec![&format!("{main}\0object-format=sha256 object-format=sha1"), ""],
                Wrong::Capabilities,
            ),
            (vec![&format!("{main}\0object-format=sha512"), ""], Wrong::Capabilities),
            (vec![&main, "|"], Wrong::NoCommand),
            (vec![&main, &format!("shallow {A}"), ""], Wrong::NoCommand),
            (vec![&format!("shallow {A}\0atomic"), &main, ""], Wrong::NoCommand),
            (vec!["shallow x", &main, ""], Wrong::NoCommand),
            (vec![&one("HEAD"), ""], Wrong::NoName),
            (vec![&one("refs/heads/a b"), ""], Wrong::NoName),
            (vec![&one(" refs/heads/a"), ""], Wrong::NoName),
            (vec![&one("refs/heads/a\n\n"), ""], Wrong::NoName),
            (vec![&one("refs/heads/../main"), ""], Wrong::NoName),
            (vec![&format!("{A}  {B} refs/heads/a"), ""], Wrong::NoCommand),
            (vec![&format!("{A}\t{B} refs/heads/a"), ""], Wrong::NoCommand),
            (vec!["x", ""], Wrong::NoCommand),
            (vec!["ERR no", ""], Wrong::NoCommand),
            (vec![&main, "push-cert", ""], Wrong::Certificate),
        ] {
            assert_eq!(read(&lines).err(), Some(wrong), "{lines:?}");
        }
        assert_eq!(read(&[&main]), Ok(None));
        let many: Vec<String> = (0..=MOST_REFS).map(|n| one(&format!("refs/heads/{n}"))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut bytes = Vec::new();
        many.iter().for_each(|text| line::push(&mut bytes, text.as_bytes()));
        assert_eq!(Reader::default().read(&bytes), Err(Wrong::TooLong));
    }

    #[test]
    fn a_certificate_says_what_is_pushed() {
        let cert = |commands: &[&str], rest: &[&str]| {
            let mut lines = vec!["push-cert\0report-status".to_owned()];
            lines.extend(["certificate version 0.1\n", "nonce 1\n", "\n"].map(str::to_owned));
            lines.extend(commands.iter().map(|one| format!("{one}\n")));
            lines.extend(rest.iter().map(|one| (*one).to_owned()));
            lines.push(String::new());
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            read(&lines)
        };
        let main = format!("{A} {B} refs/heads/main");
        let sign = "-----BEGIN SSH SIGNATURE-----\n";
        let push = cert(&[&main], &[sign, "x\n", "push-cert-end\n"]).unwrap().unwrap().0;
        assert!(push.signed && push.commands.len() == 1);
        for rest in [
            &["push-cert-end\n"][..],
            &[sign, "x\n"],
            &[sign, sign, "push-cert-end\n"],
            &["\n", sign, "push-cert-end\n"],
            &[sign, "x", "push-cert-end\n"],
            &[sign, "x\ny\n", "push-cert-end\n"],
            &[sign, "x\0\n", "push-cert-end\n"],
        ] {
            assert!(cert(&[&main], rest).is_err(), "{rest:?}");
        }
        // What it names beside has to be what goes with it.
        let with = |named: &[&str], options: &[&str]| {
            let mut lines = vec!["push-cert\0push-options", "certificate version 0.1\n"];
            let named: Vec<String> =
                named.iter().map(|one| format!("push-option {one}\n")).collect();
            let main = format!("{main}\n");
            lines.extend(named.iter().map(String::as_str));
            lines.extend(["\n", &main, sign, "push-cert-end\n", ""]);
            lines.extend(options);
            lines.push("");
            read(&lines).map(|push| push.map(|(push, _)| push.options.len()))
        };
        assert_eq!(with(&["a", "b"], &["a", "b"]), Ok(Some(2)));
        assert_eq!(with(&[], &[]), Ok(Some(0)));
        for (named, options) in [
            (&["merge"][..], &[][..]),
            (&[], &["merge"]),
            (&["a", "b"], &["b", "a"]),
            (&["a"], &["a", "a"]),
        ] {
            assert_eq!(with(named, options), Err(Wrong::Certificate), "{named:?} {options:?}");
        }
        let more = cert(&[&main], &[sign, "push-cert-end\n", &main]);
        assert_eq!(more, Err(Wrong::NoCommand));
        assert_eq!(cert(&[&main, &main], &[sign, "push-cert-end\n"]), Err(Wrong::Twice));
    }
}
