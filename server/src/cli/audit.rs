//! `audit`: what was called, by whom, and how it ended; whether the record is
//! whole. Reads the files itself and needs no running server.
//!
//! - `filter`   which lines
//! - `table`    a line for people
//! - `follow`   lines as they come

mod filter;
mod follow;
mod table;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Arg, ArgAction, ArgMatches, Command};

use self::filter::Filter;
use super::{complain, fail, say};
use crate::audit::{self, Backward, End, Fault, Forward, Part, Piece};
use crate::config::Config;

/// How many lines people get where they do not say.
const FOR_PEOPLE: usize = 50;

/// The verb's arguments.
pub(super) fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let many = |argument: Arg| argument.action(ArgAction::Append).value_delimiter(',');
    Command::new("audit")
        .about("Show what was called and how it ended, or verify that the record is whole")
        .arg(flag("json", "Print the lines as they are; all of them unless -n says how many"))
        .arg(many(text("tool", "NAME", "Only calls of this tool")))
        .arg(many(
            text("decision", "DECISION", "Only these decisions")
                .value_parser(["allow", "ask", "deny"]),
        ))
        .arg(many(text("rule", "ID", "Only calls that this rule decided")))
        .arg(many(
            text("ended", "HOW", "Only calls that ended so")
                .value_parser(End::ALL.map(End::as_str).to_vec()),
        ))
        .arg(text("call", "ID", "Only the call with this call_id"))
        .arg(text(
            "since",
            "TIME",
            "Only calls from then on: 2026-11-22T08:00:00Z, or 90s, 30m, 1h, 2d ago",
        ))
        .arg(text("until", "TIME", "Only calls up to then"))
        .arg(
            Arg::new("lines")
                .short('n')
                .value_name("N")
                .value_parser(clap::value_parser!(usize))
                .help("The last N of them [default: 50, with --json all]"),
        )
        .arg(flag("follow", "Go on with calls as they end"))
        .arg(
            flag(
                "verify",
                "Check every line against the next; exit 1 and name the first that is wrong",
            )
            .conflicts_with_all([
                "json", "tool", "decision", "rule", "ended", "call", "since", "until", "lines",
                "follow",
            ]),
        )
        .arg(
            text(
                "head",
                "SHA256",
                "With --verify: a line with this digest, noted earlier, has to be there",
            )
            .requires("verify")
            .value_parser(digest),
        )
}

fn digest(text: &str) -> Result<String, String> {
    let hexadecimal = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal.then(|| text.to_ascii_lowercase()).ok_or_else(|| "64 hexadecimal digits".to_owned())
}

/// Does what the arguments say.
pub(super) fn run(config: &Config, arguments: &ArgMatches) -> ExitCode {
    let directory = audit::directory(&config.state_dir);
    if arguments.get_flag("verify") {
        return verify(&directory, arguments.get_one::<String>("head").map(String::as_str));
    }
    let filter = match Filter::new(arguments, SystemTime::now()) {
        Ok(filter) => filter,
        Err(wrong) => {
            complain(&wrong);
            return ExitCode::from(2);
        }
    };
    let json = arguments.get_flag("json");
    let lines = arguments.get_one::<usize>("lines").copied();
    let lines = lines.or_else(|| (!json).then_some(FOR_PEOPLE));
    let mut out = Out { to: BufWriter::new(io::stdout().lock()), json };
    match show(&directory, &filter, lines, arguments.get_flag("follow"), &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        // Who read it has seen enough.
        Err(Stop::Reader(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Stop::Reader(error)) => fail(&format!("cannot print: {error}")),
        Err(Stop::Audit(fault)) => fail(&fault),
    }
}

fn verify(directory: &Path, head: Option<&str>) -> ExitCode {
    let sound = match audit::verify(directory, head) {
        Ok(sound) => sound,
        Err(fault) => return fail(&fault),
    };
    say(&format!("ok: {} lines in {} files, the last is {}", sound.lines, sound.files, sound.last));
    say(&format!("head: {}", sound.head));
    if sound.first > 1 {
        say(&format!(
            "it begins with line {}: files before it are gone, as audit.keep says",
            sound.first
        ));
    }
    if sound.torn > 0 {
        say(&format!(
            "behind it are {} bytes of a line that is being written; or it was torn, and goes at the next start",
            sound.torn
        ));
    }
    ExitCode::SUCCESS
}

/// Why nothing more is shown.
enum Stop {
    /// Standard output.
    Reader(io::Error),
    /// The files.
    Audit(Fault),
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Stop + use<> {
    let path: PathBuf = path.to_owned();
    move |source| Stop::Audit(Fault::Unreadable { path: path.clone(), source })
}

/// Where lines are printed, and how.
struct Out<'a> {
    to: BufWriter<io::StdoutLock<'a>>,
    json: bool,
}

impl Out<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), Stop> {
        let text = if self.json { None } else { table::row(line) };
        let bytes = text.as_ref().map_or(line, |text| text.as_bytes());
        // A line that is none of ours is not for a terminal as it is.
        let shown = if self.json || text.is_some() {
            bytes.to_vec()
        } else {
            bytes.escape_ascii().collect()
        };
        self.to.write_all(&[&shown, &b"\n"[..]].concat()).map_err(Stop::Reader)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.to.flush().map_err(Stop::Reader)
    }
}

fn show(
    directory: &Path,
    filter: &Filter,
    lines: Option<usize>,
    follow: bool,
    out: &mut Out<'_>,
) -> Result<(), Stop> {
    let parts = audit::parts(directory).map_err(unreadable(directory))?;
    if !out.json {
        writeln!(out.to, "{}", table::HEADING).map_err(Stop::Reader)?;
    }
    let seen = match lines {
        Some(count) => last(parts, filter, count, out)?,
        None => all(parts, filter, out)?,
    };
    out.flush()?;
    if follow { follow::run(directory, seen, filter, out) } else { Ok(()) }
}

/// The file that is written, as far as it was read.
type Seen = Option<(std::fs::File, u64)>;

/// Every line, from the first.
fn all(parts: Vec<Part>, filter: &Filter, out: &mut Out<'_>) -> Result<Seen, Stop> {
    let mut seen = None;
    for mut part in parts {
        let unreadable = unreadable(&part.path);
        let Some(file) = part.open().map_err(&unreadable)? else { continue };
        let mut lines = Forward::new(file.try_clone().map_err(&unreadable)?);
        let mut at = 0u64;
        while let (Piece::Line, line) = lines.next().map_err(&unreadable)? {
            at = at.saturating_add(u64::try_from(line.len()).unwrap_or(0)).saturating_add(1);
            if filter.takes(line) {
                out.line(line)?;
            }
        }
        seen = Some((file, at));
    }
    Ok(seen)
}

/// The last ones, found from the end: only those are held.
fn last(parts: Vec<Part>, filter: &Filter, count: usize, out: &mut Out<'_>) -> Result<Seen, Stop> {
    let (mut found, mut seen) = (Vec::new(), None);
    for mut part in parts.into_iter().rev() {
        if found.len() >= count && seen.is_some() {
            break;
        }
        let unreadable = unreadable(&part.path);
        let Some(file) = part.open().map_err(&unreadable)? else { continue };
        let mut lines = Backward::new(&file).map_err(&unreadable)?;
        while let Some((_, line)) = lines.next().map_err(&unreadable)? {
            if found.len() >= count {
                break;
            }
            if filter.takes(&line) {
                found.push(line);
            }
        }
        let end = lines.end();
        seen.get_or_insert((file, end));
    }
    for line in found.into_iter().rev() {
        out.line(&line)?;
    }
    Ok(seen)
}
