//! What the files about reliability share: processes found by a mark in their
//! arguments, whoever their parents are; a server whose cgroups go with it;
//! calls over the raw wire.

#![allow(dead_code, reason = "each test binary uses some of it")]

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tool_broker_tests::process::{self, Process};
use tool_broker_tests::{PATIENCE, Server, Setup, eventually};

/// Living processes that have an argument which begins with `mark`: found
/// without their parents, sessions, environments or limits, which a tool may
/// change. A shell whose script only mentions the mark is none.
pub fn marked(mark: &str) -> Vec<Process> {
    let has = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument.starts_with(mark.as_bytes()))
    };
    process::all().into_iter().filter(|p| !matches!(p.state, 'Z' | 'X') && has(p.pid)).collect()
}

/// A mark that no other test has, as the fraction of a number of seconds:
/// `sleep 98765.MARK` is a process that carries it and lives long enough. When
/// it is dropped, whatever still carries it is killed.
pub struct Mark(String);

impl Mark {
    pub fn new() -> Mark {
        Mark(format!("98765.{}{:09}", std::process::id(), random() % 1_000_000_000))
    }

    /// What to give to `sleep`; calls are told apart by a number.
    pub fn of(&self, call: impl std::fmt::Display) -> String {
        format!("{}{:0>4}", self.0, call.to_string())
    }

    pub fn alive(&self) -> Vec<Process> {
        marked(&self.0)
    }

    /// Living processes of one call.
    pub fn alive_of(&self, call: impl std::fmt::Display) -> Vec<Process> {
        marked(&self.of(call))
    }

    #[track_caller]
    pub fn all_gone(&self) {
        eventually(&format!("no process carries {}", self.0), || self.alive().is_empty());
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for _ in 0..100 {
            let left = marked(&self.0);
            if left.is_empty() {
                return;
            }
            left.iter().for_each(process::kill);
        }
    }
}

/// A number that is another one each time.
pub fn random() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let mut x = u64::from(now.subsec_nanos()) << 20 ^ now.as_secs() ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..3 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// Up to so many milliseconds, at random: the moment at which something dies.
pub fn a_moment(up_to: u64) {
    std::thread::sleep(Duration::from_micros(random() % (up_to * 1000)));
}

/// A server, and then its cgroups: killed (as a dropped one is), it leaves them.
pub struct Tidy {
    server: Option<Server>,
    cgroups: Vec<PathBuf>,
}

/// Starts a server; see [`Server::start`].
#[track_caller]
pub fn start(prepare: impl FnOnce(&mut Setup)) -> Tidy {
    Tidy::of(Server::start(prepare))
}

impl Tidy {
    pub fn of(server: Server) -> Tidy {
        let tree = server.status()["tree"].as_str().unwrap_or_default().to_owned();
        let cgroup = tree.split_once("cgroup.kill beneath ").map(|(_, path)| PathBuf::from(path));
        Tidy { server: Some(server), cgroups: cgroup.into_iter().collect() }
    }

    /// The directory in which calls get their cgroups, where they do.
    pub fn cgroup(&self) -> Option<&PathBuf> {
        self.cgroups.first()
    }

    /// Ends it, and keeps its directories for [`Tidy::start_again`].
    #[track_caller]
    pub fn stop(&mut self, signal: nix::sys::signal::Signal) -> Setup {
        self.server.take().expect("a server").stop(signal)
    }

    /// Starts another one in the same directories.
    #[track_caller]
    pub fn start_again(&mut self, setup: Setup) {
        let mut next = Tidy::of(Server::start_in(setup));
        self.server = next.server.take();
        self.cgroups.append(&mut next.cgroups);
    }
}

impl Deref for Tidy {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server.as_ref().expect("a server")
    }
}

impl DerefMut for Tidy {
    fn deref_mut(&mut self) -> &mut Server {
        self.server.as_mut().expect("a server")
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        drop(self.server.take());
        let start = Instant::now();
        for path in &self.cgroups {
            // A killed process takes a moment to leave its cgroup.
            while path.exists() && start.elapsed() < Duration::from_secs(5) {
                for inner in fs::read_dir(path).into_iter().flatten().flatten() {
                    let _ = fs::remove_dir(inner.path());
                }
                let _ = fs::remove_dir(path);
            }
        }
    }
}

/// A request to run a script by `sh`.
pub fn script(server: &Server, stdio: &str, text: &str) -> Value {
    json!({"tool":"sh","args":["-c",text],"cwd":server.ws(),"stdio":stdio})
}

/// How many calls run, as `status` tells.
pub fn running(server: &Server) -> u64 {
    server.status()["calls"]["running"].as_u64().expect("a number of running calls")
}

/// Waits until a file of the workspace is there.
#[track_caller]
pub fn file_appears(server: &Server, name: &str) {
    eventually(&format!("the tool makes {name}"), || server.ws().join(name).exists());
}

/// Memory that is a process's own, in KiB: no pages of files. Those of a program
/// that was built a moment ago count as dirty, and as private or shared by who
/// else runs it just then.
pub fn private_memory(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps_rollup");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("KiB")
}

/// Clock ticks of CPU time that a process has used.
pub fn cpu_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let rest = stat.rsplit_once(')').expect("a name").1;
    let field = |n: usize| -> u64 {
        rest.split_whitespace().nth(n).and_then(|ticks| ticks.parse().ok()).expect("ticks")
    };
    field(11) + field(12)
}

/// An idle server uses next to no CPU: at most 20 ticks (0.2 s) in two seconds.
#[track_caller]
pub fn does_not_spin(server: &Server) {
    let before = cpu_ticks(server.pid());
    std::thread::sleep(Duration::from_secs(2));
    let used = cpu_ticks(server.pid()) - before;
    assert!(used <= 20, "an idle server used {used} ticks of CPU time in two seconds");
}

/// What a request gets whose answer may only say `busy`, `spawn_failed` and the
/// like for now: tried again until it is served, as a client would.
#[track_caller]
pub fn served_in_the_end(server: &Server, request: &Value) -> Value {
    let start = Instant::now();
    loop {
        let reply = server.connect().call(request);
        if reply["code"].is_null() {
            return reply;
        }
        assert!(start.elapsed() < PATIENCE, "still refused: {reply}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
