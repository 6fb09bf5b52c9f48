//! The count of processes: who belongs to which call, at one moment.
//!
//! A process belongs to the call whose mark it carries (os::mark). One that
//! broke its mark belongs to the call of its nearest ancestor that is marked or
//! is known as a call's first process; where there is none left, to nobody.
//! Only descendants of the server are looked at: it is their reaper, so nothing
//! that a call started can leave them.
//!
//! Owns: the thread that reads /proc. Must not: decide whose tree is to end.

use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::sync::oneshot;

use crate::os::mark::{Found, Marks};
use crate::os::process::{self, Handle};

/// Who belongs to which call, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// Living processes by call.
    pub(crate) calls: HashMap<u32, Vec<Pid>>,
    /// Living processes that broke their mark and have no marked ancestor.
    pub(crate) nobodys: Vec<Pid>,
    /// Whose orphans have ended and are not reaped yet; `None` is nobody's.
    pub(crate) ended: Vec<Option<u32>>,
}

/// What the thread that counts is asked.
#[derive(Debug)]
enum Question {
    Count(HashMap<Pid, u32>, oneshot::Sender<Census>),
    Chase(Option<u32>, HashMap<Pid, u32>, oneshot::Sender<()>),
}

/// Questions that wait; each caller waits for its answer, so there are few.
const QUESTIONS: usize = 1024;

/// How long one chase lasts.
const CHASE: Duration = Duration::from_millis(20);

/// How many processes back from the newest one a chase looks.
const BEHIND: i32 = 96;

/// The thread that counts: reading /proc takes too long for the server's own,
/// and when it is needed no new one may be had.
#[derive(Debug)]
pub(super) struct Counter(SyncSender<Question>);

impl Counter {
    /// Starts the thread.
    pub(super) fn start(marks: Option<Marks>) -> std::io::Result<Counter> {
        let (counter, questions) = sync_channel(QUESTIONS);
        std::thread::Builder::new().name("census".to_owned()).spawn(move || {
            while let Ok(question) = questions.recv() {
                // Whoever asked may have gone.
                match question {
                    Question::Count(leaders, answer) => {
                        answer.send(count(marks, &leaders)).ok();
                    }
                    Question::Chase(call, leaders, answer) => {
                        chase(marks, call, &leaders);
                        answer.send(()).ok();
                    }
                }
            }
        })?;
        Ok(Counter(counter))
    }

    /// A census that begins after now.
    pub(super) async fn count(&self, leaders: HashMap<Pid, u32>) -> Census {
        self.ask(|answer| Question::Count(leaders, answer)).await
    }

    /// Chases, for a moment, what forks and exits faster than a census sees.
    pub(super) async fn chase(&self, call: Option<u32>, leaders: HashMap<Pid, u32>) {
        self.ask(|answer| Question::Chase(call, leaders, answer)).await;
    }

    async fn ask<T: Default>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> T {
        let (answer, answered) = oneshot::channel();
        match self.0.send(question(answer)) {
            Ok(()) => answered.await.unwrap_or_default(),
            Err(_) => T::default(),
        }
    }
}

/// Parents, from the nearest on. Bounded: a table read while processes die may
/// hold a circle.
pub(super) fn ancestors(parents: &HashMap<Pid, Pid>, pid: Pid) -> impl Iterator<Item = Pid> {
    std::iter::successors(parents.get(&pid).copied(), |pid| parents.get(pid).copied()).take(4096)
}

fn count(marks: Option<Marks>, leaders: &HashMap<Pid, u32>) -> Census {
    let mut census = Census::default();
    let Some(marks) = marks else { return census };
    let server = Pid::this();
    let table = process::table();
    let parents: HashMap<Pid, Pid> = table.iter().map(|p| (p.pid, p.parent)).collect();
    let ours = table.iter().filter(|process| {
        process.pid != server && ancestors(&parents, process.pid).any(|pid| pid == server)
    });
    let owner = |pid: &Pid| match marks.read(*pid) {
        Ok(Found::Call(call)) => Some(call),
        _ => leaders.get(pid).copied(),
    };
    for process in ours {
        if process.zombie {
            // A call's own first process is not an orphan: its end is told.
            if process.parent == server && !leaders.contains_key(&process.pid) {
                match marks.read(process.pid) {
                    Ok(Found::Call(call)) => census.ended.push(Some(call)),
                    Ok(Found::Broken) => census.ended.push(None),
                    Ok(Found::Unmarked) | Err(_) => {}
                }
            }
            continue;
        }
        match marks.read(process.pid) {
            Ok(Found::Call(call)) => census.calls.entry(call).or_default().push(process.pid),
            Ok(Found::Broken) => {
                let line = std::iter::once(process.pid).chain(ancestors(&parents, process.pid));
                match line.take_while(|pid| *pid != server).find_map(|pid| owner(&pid)) {
                    Some(call) => census.calls.entry(call).or_default().push(process.pid),
                    None => census.nobodys.push(process.pid),
                }
            }
            // Unmarked: between its clone and its mark. An error: it has gone.
            Ok(Found::Unmarked) | Err(_) => {}
        }
    }
    census
}

/// Kills what forks and exits faster than a census sees: for a moment, whatever
/// is newest is looked at as fast as can be. A process lives for as long as its
/// fork takes, which is many of these looks.
fn chase(marks: Option<Marks>, call: Option<u32>, leaders: &HashMap<Pid, u32>) {
    let Some(marks) = marks else { return };
    let wanted = |found: Result<Found, Errno>| match found {
        Ok(Found::Call(number)) => call.is_none_or(|call| call == number),
        Ok(Found::Broken) => true,
        Ok(Found::Unmarked) | Err(_) => false,
    };
    let until = Instant::now() + CHASE;
    while Instant::now() < until {
        let Some(newest) = process::newest() else { return };
        // Others start processes too: the one that is sought may be some behind.
        for pid in newest.saturating_sub(BEHIND)..=newest.saturating_add(4) {
            let pid = Pid::from_raw(pid);
            if wanted(marks.read(pid))
                && let Ok(handle) = Handle::open(pid)
                && wanted(marks.read(pid))
                && is_ours(pid, call, leaders)
            {
                handle.signal(Signal::SIGKILL).ok();
            }
        }
    }
}

/// Whether a process descends from this server, and not from the first process
/// of another call.
fn is_ours(pid: Pid, call: Option<u32>, leaders: &HashMap<Pid, u32>) -> bool {
    let parent = |pid: &Pid| process::read(*pid).map(|process| process.parent);
    let line: Vec<Pid> = std::iter::successors(Some(pid), parent).take(64).collect();
    let anothers = |pid: &Pid| match (leaders.get(pid), call) {
        (Some(leader), Some(call)) => *leader != call,
        _ => false,
    };
    line.contains(&Pid::this()) && !line.iter().any(anothers)
}
