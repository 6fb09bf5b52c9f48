//! Processes, read from /proc.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// One process as /proc/PID/stat tells it.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// With the pid, who it is: pids are used again.
    pub started: u64,
}

/// The same process, whatever it does just now.
impl PartialEq for Process {
    fn eq(&self, other: &Process) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

impl Eq for Process {}

/// Reads one process; `None` where it is gone. A zombie is still there.
pub fn process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = String::from_utf8(stat.get(end + 2..)?.to_vec()).ok()?;
    let field: Vec<&str> = rest.split(' ').collect();
    Some(Process {
        pid,
        state: field.first()?.chars().next()?,
        parent: field.get(1)?.parse().ok()?,
        group: field.get(2)?.parse().ok()?,
        session: field.get(3)?.parse().ok()?,
        started: field.get(19)?.parse().ok()?,
    })
}

/// Whether a process runs: a zombie or a reused pid of another is the caller's
/// to tell apart with [`process`].
pub fn alive(pid: i32) -> bool {
    process(pid).is_some_and(|process| process.state != 'Z' && process.state != 'X')
}

/// Every process of the machine that we can see.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(process).collect()
}

/// The children of a process, zombies among them.
pub fn children(pid: i32) -> Vec<Process> {
    all().into_iter().filter(|process| process.parent == pid).collect()
}

/// The children, their children, and so on.
pub fn descendants(pid: i32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut of = vec![pid];
    while let Some(parent) = of.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            of.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// Kills a process that was seen before, if it still is that one.
pub fn kill(seen: &Process) {
    if process(seen.pid).is_some_and(|now| now.started == seen.started) {
        let pid = nix::unistd::Pid::from_raw(seen.pid);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
}

/// What the open descriptors of a process lead to. The directories of cgroups
/// that a server keeps for its next calls are left out: how many there are
/// depends on how many calls happened to run at once, up to a bound. So are the
/// rulesets that it keeps for its tools.
pub fn descriptors(pid: i32) -> Vec<String> {
    let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries,
        Err(error) => {
            // A server hides them from its own user; only root sees them then.
            static ONCE: std::sync::Once = std::sync::Once::new();
            if error.kind() == std::io::ErrorKind::PermissionDenied {
                ONCE.call_once(|| {
                    crate::skipped("the count of a server's descriptors", "only root sees it");
                });
            }
            return Vec::new();
        }
    };
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links = links.filter(|link| !link.starts_with("/sys/fs/cgroup"));
    let links = links.map(|link| link.display().to_string());
    links.filter(|link| link != "anon_inode:[landlock-ruleset]").collect()
}

/// One number of /proc/PID/status, such as `VmRSS` (in KiB) or `Threads`.
pub fn status_number(pid: i32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Polls until `test` holds; panics with `what` after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    eventually_some(what, || test().then_some(()));
}

/// Polls until `test` gives something, and gives that.
#[track_caller]
pub fn eventually_some<T>(what: &str, mut test: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = test() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
