//! Pushes, packs and paths as they come to the gate.
//!
//! Owns: git's own way to read a push, once more and as lax as it is. What the gate
//! understands must be what git would do; everything else is refused.

use tool_gate::adapter::git::commands::{Push, Reader, Wrong};
use tool_gate::adapter::git::line;
use tool_gate::adapter::git::name::Format;
use tool_gate::adapter::git::pack::{Commits, Reading, parents};
use tool_gate::adapter::git::place;

/// The first byte says what the rest is: a push as bytes; a push whose lines are
/// parted by 0x1e, without their lengths; a pack; a commit; a path and its query.
pub fn git_wire(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    match kind {
        b'L' => push(&lines(data)),
        b'P' => pack(data),
        b'C' => commit(data),
        b'/' => path(data),
        _ => push(data),
    }
}

/// Lines with their lengths; nothing is a flush, `|` a delimiter.
fn lines(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in data.split(|byte| *byte == 0x1e) {
        match text {
            b"" => line::flush(&mut out),
            b"|" => line::delimiter(&mut out),
            text => line::push(&mut out, text),
        }
    }
    out
}

fn push(bytes: &[u8]) {
    let mut reader = Reader::default();
    let at = reader.read(bytes);
    in_pieces(bytes, &at);
    let Ok(Some(at)) = at else { return };
    let push = reader.into_push();
    let format = push.format().expect("a format");
    let mut names: Vec<_> = push.commands.iter().map(|one| one.name.clone()).collect();
    for command in &push.commands {
        assert!(command.name.starts_with(b"refs/"));
        let digits = format.length() * 2;
        assert!(command.old.digits().len() == digits && command.new.digits().len() == digits);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), push.commands.len(), "a ref twice");
    // A server that offers what the push takes reads the same.
    let read = Git { bytes, at: 0, format, commands: Vec::new(), options: false }.read();
    let (commands, options, end) = read.expect("git reads it too");
    assert_eq!(commands, plain(&push));
    assert_eq!(end, at, "the pack begins elsewhere");
    assert_eq!(options, push.options);
}

fn in_pieces(bytes: &[u8], whole: &Result<Option<usize>, Wrong>) {
    let mut reader = Reader::default();
    let step = bytes.len() / 64 + 1;
    let mut end = 0;
    let last = loop {
        let answer = reader.read(&bytes[..end]);
        if !matches!(answer, Ok(None)) || end == bytes.len() {
            break answer;
        }
        end = bytes.len().min(end + step);
    };
    assert_eq!(last, *whole);
}

type Plain = (Vec<u8>, Vec<u8>, Vec<u8>);

fn plain(push: &Push) -> Vec<Plain> {
    let digits = |id: &tool_gate::adapter::git::name::Id| id.digits().to_vec();
    let each = |one: &tool_gate::adapter::git::commands::Command| {
        (digits(&one.old), digits(&one.new), one.name.clone())
    };
    push.commands.iter().map(each).collect()
}

/// receive-pack of git, as it reads: lax.
struct Git<'a> {
    bytes: &'a [u8],
    at: usize,
    format: Format,
    commands: Vec<Plain>,
    options: bool,
}

enum Packet<'a> {
    Other,
    Flush,
    Data(&'a [u8]),
}

impl<'a> Git<'a> {
    fn packet(&mut self) -> Option<Packet<'a>> {
        let digits = std::str::from_utf8(self.bytes.get(self.at..self.at + 4)?).ok()?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let length = usize::from_str_radix(digits, 16).ok()?;
        let start = self.at + 4;
        self.at = start;
        match length {
            0 => Some(Packet::Flush),
            1 | 2 => Some(Packet::Other),
            3 => None,
            length => {
                let end = start + length - 4;
                self.at = end;
                Some(Packet::Data(self.bytes.get(start..end)?))
            }
        }
    }

    fn read(mut self) -> Option<(Vec<Plain>, Vec<Vec<u8>>, usize)> {
        let mut certificate = Vec::new();
        'all: while let Packet::Data(data) = self.packet()? {
            let data = data.strip_suffix(b"\n").unwrap_or(data);
            if data.starts_with(b"ERR ") {
                return None;
            }
            if data.len() > 8 && data.starts_with(b"shallow ") {
                continue;
            }
            let (line, words) = until_zero(data);
            if let Some(words) = words {
                self.options |= has(until_zero(words).0, b"push-options");
            }
            if line == b"push-cert" {
                loop {
                    match self.packet()? {
                        Packet::Flush => break 'all,
                        Packet::Other => return None,
                        Packet::Data(data) if until_zero(data).0 == b"push-cert-end\n" => break,
                        Packet::Data(data) => certificate.extend_from_slice(until_zero(data).0),
                    }
                }
                continue;
            }
            self.command(line)?;
        }
        if !certificate.is_empty() {
            self.certificate(&certificate)?;
        }
        let mut options = Vec::new();
        while self.options {
            let Packet::Data(data) = self.packet()? else { break };
            options.push(data.strip_suffix(b"\n").unwrap_or(data).to_vec());
        }
        Some((self.commands, options, self.at))
    }

    fn command(&mut self, line: &[u8]) -> Option<()> {
        let digits = self.format.length() * 2;
        let hex = |text: &[u8]| text.iter().all(u8::is_ascii_hexdigit);
        let (old, rest) = line.split_at_checked(digits)?;
        let (new, rest) = rest.strip_prefix(b" ")?.split_at_checked(digits)?;
        let name = rest.strip_prefix(b" ")?;
        (hex(old) && hex(new)).then_some(())?;
        self.commands.push((old.to_vec(), new.to_vec(), name.to_vec()));
        Some(())
    }

    /// From the first empty line to the last that begins a signature.
    fn certificate(&mut self, text: &[u8]) -> Option<()> {
        let start = text.windows(2).position(|two| two == b"\n\n")? + 2;
        let mut end = text.len();
        let mut at = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let kinds = ["PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE", "SSH SIGNATURE"];
            let begins =
                |kind: &&str| line.starts_with(format!("-----BEGIN {kind}-----").as_bytes());
            if kinds.iter().any(begins) {
                end = at;
            }
            at += line.len();
        }
        for line in text.get(start..end)?.split_inclusive(|byte| *byte == b'\n') {
            self.command(line.strip_suffix(b"\n").unwrap_or(line))?;
        }
        Some(())
    }
}

fn until_zero(data: &[u8]) -> (&[u8], Option<&[u8]>) {
    match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], Some(&data[at + 1..])),
        None => (data, None),
    }
}

/// Whether the words have this one, as git looks for it.
fn has(words: &[u8], wanted: &[u8]) -> bool {
    (0..words.len()).any(|at| {
        let space = |byte: Option<&u8>| byte.is_none_or(|byte| byte.is_ascii_whitespace());
        words[at..].starts_with(wanted)
            && (at == 0 || space(words.get(at - 1)))
            && space(words.get(at + wanted.len()))
    })
}

fn pack(data: &[u8]) {
    for format in [Format::Sha1, Format::Sha256] {
        let mut whole = Commits::new(format);
        let reading = whole.read(data);
        let mut pieces = Commits::new(format);
        let step = data.len() / 16 + 1;
        let mut last = Reading::More;
        for end in (0..data.len()).step_by(step).chain([data.len()]) {
            last = pieces.read(&data[..end]);
            if last == Reading::Over {
                break;
            }
        }
        assert_eq!(last, reading);
    }
}

/// Whatever is taken for a parent is one to git, in the same place.
fn commit(content: &[u8]) {
    for format in [Format::Sha1, Format::Sha256] {
        let found = parents(content, format);
        let Some(known) = git_parents(content, format.length() * 2) else { continue };
        assert!(found.len() <= known.len());
        for (one, other) in found.iter().zip(&known) {
            assert_eq!(one.digits(), other);
        }
    }
}

/// As `parse_commit_buffer` goes through it; `None` where git takes it for broken.
fn git_parents(content: &[u8], digits: usize) -> Option<Vec<Vec<u8>>> {
    let hex = |from: usize| {
        let id = content.get(from..from + digits)?;
        id.iter().all(u8::is_ascii_hexdigit).then(|| id.to_ascii_lowercase())
    };
    let (tree, parent) = (digits + 5, digits + 7);
    if content.len() <= tree || !content.starts_with(b"tree ") || content[tree] != b'\n' {
        return None;
    }
    hex(5)?;
    let mut at = tree + 1;
    let mut all = Vec::new();
    while at + parent < content.len() && content[at..].starts_with(b"parent ") {
        let id = hex(at + 7)?;
        if content[at + parent] != b'\n' {
            return None;
        }
        all.push(id);
        at += parent + 1;
    }
    Some(all)
}

fn path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let Ok(found) = place::read(path, query) else { return };
    // Whoever joins the parts as files or URLs are joined finds the same.
    let whole = url::Url::parse(&format!("http://host{text}")).expect("a URL");
    assert_eq!(whole.path(), path);
    let parts: Vec<&str> = found.repository.split('/').collect();
    assert!(parts.iter().all(|part| !matches!(*part, "" | "." | "..")));
    assert!(path[1..].starts_with(&found.repository));
    assert!(!found.repository.ends_with(".git"));
}
