//! What the files about the audit share: its lines, its verb, and strace, which
//! makes system calls of a running server fail, or kills it at one.

#![allow(dead_code, reason = "each test binary uses some of it")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;
use tool_broker_tests::{Outcome, Setup, eventually_some, run};

/// The directory of the audit.
pub fn directory(setup: &Setup) -> PathBuf {
    setup.path("state/audit")
}

/// Its files, in their order.
pub fn files(setup: &Setup) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(setup)).expect("the audit's directory");
    let mut complete: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("audit-"))
        })
        .collect();
    complete.sort();
    complete.push(directory(setup).join("audit.jsonl"));
    complete
}

/// All lines as they are; a file that does not end with one is a failure.
#[track_caller]
pub fn raw_lines(setup: &Setup) -> Vec<String> {
    let mut lines = Vec::new();
    for file in files(setup) {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(matches!(bytes.last(), None | Some(b'\n')), "{} is torn", file.display());
        let plain = |byte: &u8| *byte == b'\n' || (0x20..=0x7e).contains(byte);
        assert!(bytes.iter().all(plain), "a raw byte in {}", file.display());
        lines.extend(String::from_utf8(bytes).expect("ASCII").lines().map(str::to_owned));
    }
    lines
}

/// All lines.
#[track_caller]
pub fn lines(setup: &Setup) -> Vec<Value> {
    let parse = |line: &String| {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value.is_object(), "{line}");
        value
    };
    raw_lines(setup).iter().map(parse).collect()
}

/// The one line of a call, once it is there.
#[track_caller]
pub fn line_of(setup: &Setup, call_id: &Value) -> Value {
    let mut of = eventually_some(&format!("the audit has a line of {call_id}"), || {
        let of: Vec<Value> =
            lines(setup).into_iter().filter(|line| line["call_id"] == *call_id).collect();
        (!of.is_empty()).then_some(of)
    });
    assert_eq!(of.len(), 1, "{of:?}");
    of.remove(0)
}

/// `tool-server audit …`.
pub fn verb(setup: &Setup, words: &[&str]) -> Outcome {
    run(&mut setup.verb(&[&["audit"], words].concat()), b"")
}

/// Asserts that the chain is whole, and gives the digest of its last line.
#[track_caller]
pub fn head(setup: &Setup) -> String {
    let said = verb(setup, &["--verify"]).success();
    let head = said.lines().find_map(|line| line.strip_prefix("head: "));
    head.unwrap_or_else(|| panic!("no head: {said}")).to_owned()
}

/// strace at some threads of a process, until it is dropped.
pub struct Strace(Child);

impl Strace {
    /// `inject` as strace(1) has it; `None`: there is no strace here, or it may not.
    pub fn of(pid: i32, threads: &[&str], inject: &str) -> Option<Strace> {
        let calls = inject.split(':').next().unwrap_or_default();
        let inject = format!("inject={inject}");
        Strace::attach(
            pid,
            threads,
            &["-e", &format!("trace={calls}"), "-e", &inject],
            Path::new("/dev/null"),
        )
    }

    /// Only writes down which calls of these there are.
    pub fn trace(pid: i32, threads: &[&str], calls: &str, to: &Path) -> Option<Strace> {
        Strace::attach(pid, threads, &["-e", &format!("trace={calls}")], to)
    }

    /// The same of all its threads, and of those that it starts, each with its number.
    pub fn follow(pid: i32, calls: &str, to: &Path) -> Option<Strace> {
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &pid.to_string(), "-e", &format!("trace={calls}")]);
        // Of all that are there it says so once.
        Strace::begin(command, 1, to)
    }

    fn attach(pid: i32, threads: &[&str], options: &[&str], to: &Path) -> Option<Strace> {
        let mut command = Command::new("strace");
        let mut attached = 0;
        for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if threads.contains(&name.trim()) {
                command.arg("-p").arg(task.file_name());
                attached += 1;
            }
        }
        assert!(attached >= threads.len(), "threads of {threads:?} are not there");
        command.args(options);
        Strace::begin(command, attached, to)
    }

    fn begin(mut command: Command, mut attached: usize, to: &Path) -> Option<Strace> {
        command.arg("-o").arg(to);
        tool_broker_tests::sys::die_with_parent(&mut command);
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.ok()?;
        let mut said = BufReader::new(child.stderr.take()?);
        let mut line = String::new();
        while attached > 0 {
            line.clear();
            if said.read_line(&mut line).ok()? == 0 {
                let _ = child.wait();
                return None;
            }
            attached -= usize::from(line.contains("attached"));
        }
        // It must not stop for want of a reader.
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        Some(Strace(child))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a pid"));
        // It lets go of what it is attached to.
        let _ = nix::sys::signal::kill(pid, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// What the journal holds: calls that have begun, of which some have ended.
pub fn journal(setup: &Setup) -> Vec<Value> {
    let bytes = fs::read(directory(setup).join("open.jsonl")).unwrap_or_default();
    let complete =
        bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    complete.map(|line| serde_json::from_slice(line).expect("an entry")).collect()
}

/// A file's mode.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::symlink_metadata(path).expect("metadata").permissions().mode() & 0o7777
}
