//! A row on a terminal: the steps of `tests/twins/*.sessions`, and one run of
//! them.
//!
//! ```text
//! $ COMMAND      run by bash on the terminal; an interactive bash where there is none
//! < TEXT         waits until the screen shows it, behind what was waited for before
//! > TEXT         types it, and Return
//! . TEXT         types it without Return
//! ^C             types that key; also ^Z ^D ^\ ^U ^Q ^S
//! size 30 100    makes the terminal 30 rows high and 100 columns wide
//! signal TERM    to the process that leads the foreground group
//! reads NAME     waits until a process of that name, working in the row's directory,
//!                sits in read(2): whatever had to be done before it reads is done
//! sleeps NAME    the same of one that sleeps for a time
//! file NAME      waits for a file
//! touch NAME     makes a file
//! modes          waits until the terminal's modes are those at the beginning
//! hangup         closes the terminal
//! ```
//!
//! `\e`, `\n`, `\r`, `\t` and `\xHH` in texts are those bytes. What is compared is
//! every byte that came to the screen, numbers of processes and terminals
//! replaced, with how the command ended, the terminal's modes then, and files.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::Termios;
use nix::unistd::Pid;

use super::compare::{self, Run};
use super::{Row, Stage, Way, caller, table};
use crate::terminal::OnTerminal;
use crate::{Outcome, process};

/// Runs the steps of a row one way in `dir`, which is made anew.
///
/// # Errors
///
/// The step that cannot be done, or that it does not end.
pub fn run(stage: &Stage, row: &Row, way: &Way, dir: &Path) -> Result<Run, String> {
    caller::empty(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut steps =
        row.script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    let mut command = stage.caller("/bin/bash", way, dir);
    command.env("TERM", "xterm").env("HISTFILE", "").env("PS1", "$ ").env("PS2", "> ");
    command.env("INPUTRC", table::directory().join("helpers/inputrc"));
    command.args(["--norc", "--noprofile"]);
    match steps.next_if(|line| line.starts_with("$ ")) {
        Some(line) => command.args(["-c", &format!("{}{}", caller::PRELUDE, &line[2..])]),
        None => command.arg("-i"),
    };
    crate::sys::only_standard(&mut command);
    let mut terminal = OnTerminal::start(command);
    let modes = terminal.begun.clone();
    let done = steps.enumerate().try_for_each(|(number, line)| {
        step(&mut terminal, line, &modes, dir)
            .map_err(|why| format!("{}: step {} `{line}`: {why}", way.name, number + 1))
    });
    let ended =
        done.and_then(|()| end(&mut terminal).map_err(|why| format!("{}: {why}", way.name)));
    let left = terminal.modes().map_or("hung up".into(), |modes| described(&modes));
    drop(terminal);
    caller::clear(dir);
    Ok(Run { outcome: Outcome { stderr: left.into_bytes(), ..ended? }, files: compare::files(dir) })
}

fn end(terminal: &mut OnTerminal) -> Result<Outcome, String> {
    let status = until("it ends", || terminal.child.try_wait().ok().flatten())
        .map_err(|why| format!("{why}; the screen:\n{}", terminal.screen()))?;
    until("the terminal is closed by all", || terminal.is_over().then_some(()))?;
    Ok(Outcome { status, stdout: settled(&terminal.bytes()), stderr: Vec::new() })
}

fn step(at: &mut OnTerminal, line: &str, begun: &Termios, dir: &Path) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "<" => return at.next(&unescaped(rest), table::patience()),
        ">" => at.type_bytes(&[&unescaped(rest)[..], b"\r"].concat()),
        "." => at.type_bytes(&unescaped(rest)),
        "size" => {
            let numbers: Vec<u16> = rest.split(' ').filter_map(|n| n.parse().ok()).collect();
            let [rows, columns] = numbers[..] else { return Err("two numbers".into()) };
            at.resize(rows, columns);
        }
        "signal" => {
            let signal: Signal = format!("SIG{rest}").parse().map_err(|_| "no such signal")?;
            let leader = at.foreground().ok_or("no foreground group")?;
            kill(Pid::from_raw(leader), signal).map_err(|error| error.to_string())?;
        }
        "reads" => {
            return until("it reads", || sits(rest, dir, &[libc::SYS_read]).then_some(()));
        }
        "sleeps" => {
            let calls = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
            return until("it sleeps", || sits(rest, dir, &calls).then_some(()));
        }
        "file" => return until("the file", || dir.join(rest).exists().then_some(())),
        "modes" => {
            let same = || at.modes().filter(|now| described(now) == described(begun)).map(|_| ());
            return until("the modes of the beginning", same).map_err(|why| {
                let now = at.modes().map(|modes| described(&modes)).unwrap_or_default();
                format!("{why}: they were {}, are {now}", described(begun))
            });
        }
        "touch" => drop(fs::File::create(dir.join(rest)).map_err(|error| error.to_string())?),
        "hangup" => at.hang_up(),
        _ => match word.strip_prefix('^').map(str::as_bytes) {
            Some([key @ b'@'..=b'_']) => at.type_bytes(&[key & 0x1f]),
            _ => return Err("no such step".into()),
        },
    }
    Ok(())
}

fn until<T>(what: &str, mut test: impl FnMut() -> Option<T>) -> Result<T, String> {
    let start = Instant::now();
    loop {
        match test() {
            Some(found) => return Ok(found),
            None if start.elapsed() > table::patience() => {
                return Err(format!("waits for: {what}"));
            }
            None => thread::sleep(Duration::from_millis(3)),
        }
    }
}

/// Whether a process of this name that works in this directory waits in such a
/// system call.
fn sits(name: &str, dir: &Path, calls: &[libc::c_long]) -> bool {
    let of = |pid: i32, what: &str| fs::read_to_string(format!("/proc/{pid}/{what}"));
    process::all().iter().any(|process| {
        process.state == 'S'
            && of(process.pid, "comm").is_ok_and(|comm| comm.trim_end() == name)
            && fs::read_link(format!("/proc/{}/cwd", process.pid))
                .is_ok_and(|cwd| cwd.starts_with(dir))
            && of(process.pid, "syscall").is_ok_and(|call| {
                let number = call.split(' ').next().and_then(|number| number.parse().ok());
                number.is_some_and(|number| calls.contains(&number))
            })
    })
}

/// Modes as text, to compare and to show.
fn described(modes: &Termios) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?}",
        modes.input_flags,
        modes.output_flags,
        modes.control_flags,
        modes.local_flags,
        modes.control_chars
    )
}

/// `\e`, `\n`, `\r`, `\t` and `\xHH` as bytes.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let hex = after.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, length) = match (after.as_bytes().first(), hex) {
            (Some(b'e'), _) => (0x1b, 1),
            (Some(b'n'), _) => (b'\n', 1),
            (Some(b'r'), _) => (b'\r', 1),
            (Some(b't'), _) => (b'\t', 1),
            (Some(b'x'), Some(byte)) => (byte, 3),
            _ => (b'\\', 0),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// The screen with the numbers taken out that differ from run to run: of
/// processes (`[1] 1234`) and of terminals (`/dev/pts/7`).
fn settled(screen: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in screen {
        let of_pts = || out.ends_with(b"/dev/pts/N");
        let of_job = || out.ends_with(b"] N") && out.len() > 4 && out[out.len() - 5] == b'[';
        match byte {
            b'0'..=b'9' if of_pts() || of_job() => {}
            b'0'..=b'9' if out.ends_with(b"/dev/pts/") => out.push(b'N'),
            b'0'..=b'9' if out.ends_with(b"] ") && out.len() > 3 && out[out.len() - 4] == b'[' => {
                out.push(b'N');
            }
            _ => out.push(*byte),
        }
    }
    out
}
