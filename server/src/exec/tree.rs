//! The processes of a call, wherever they went, and their end.
//!
//! Owns: TERM, the grace, KILL, and what a killed server left. Must not: wait
//! for (reap) a process.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::census::{Census, Counter, ancestors};
use super::hunt::Hunt;
use crate::os::cgroup::Group;
use crate::os::mark::{Found, Marks};
use crate::os::process::{self, Handle, Process};

/// Counts processes, and ends them.
#[derive(Debug)]
pub(crate) struct Trees {
    marks: Option<Marks>,
    /// The first process of each call under way: whatever it does to its own
    /// mark, the server knows whose it is.
    leaders: std::sync::Mutex<HashMap<Pid, u32>>,
    counter: Counter,
    hunt: Arc<Hunt>,
    /// The last census and when it began: many calls that end at once share it.
    last: Mutex<Option<(Instant, Arc<Census>)>>,
}

/// Whose processes are to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The call.
    pub(crate) call: u32,
    /// Its first process.
    pub(crate) leader: Pid,
    /// That is not the tool, but leads it, and may adopt what its processes leave.
    pub(crate) led: bool,
    /// Its cgroup, where it has one.
    pub(crate) group: Option<&'a Group>,
}

/// How often the killing pass is repeated against something that forks as fast
/// as it is killed, and the pause between two.
const KILL_PASSES: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(10);

impl Trees {
    /// With `None` for marks, a call's processes are known by ancestry alone.
    pub(crate) fn new(marks: Option<Marks>) -> std::io::Result<Trees> {
        let counter = Counter::start(marks)?;
        Ok(Trees {
            marks,
            leaders: std::sync::Mutex::default(),
            counter,
            hunt: Arc::new(Hunt::new(marks)),
            last: Mutex::new(None),
        })
    }

    /// The marks of calls, where there are any.
    pub(crate) fn marks(&self) -> Option<Marks> {
        self.marks
    }

    /// What the reaper tells of orphans.
    pub(crate) fn hunt(&self) -> Arc<Hunt> {
        Arc::clone(&self.hunt)
    }

    /// Notes the first process of a call.
    pub(crate) fn leads(&self, pid: Pid, call: u32) {
        self.leaders().insert(pid, call);
    }

    /// Forgets it: its number may become another process's.
    pub(crate) fn ended(&self, pid: Pid) {
        self.leaders().remove(&pid);
    }

    fn leaders(&self) -> MutexGuard<'_, HashMap<Pid, u32>> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A census that began after now. Reads /proc beside the server's thread.
    pub(crate) async fn census(&self) -> Arc<Census> {
        let wanted = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began, census)) = &*last
            && *began >= wanted
        {
            return Arc::clone(census);
        }
        let began = Instant::now();
        let leaders = self.leaders().clone();
        let census = self.counter.count(leaders).await;
        let census = Arc::new(census);
        *last = Some((began, Arc::clone(&census)));
        census
    }

    /// Which call a process belongs to, also one that has ended; `Some(None)` where
    /// it broke its mark, or is not known.
    pub(crate) async fn call_of(&self, pid: Pid) -> Option<Option<u32>> {
        let census = self.census().await;
        let known = census.calls.iter().find(|(_, members)| members.contains(&pid));
        if let Some((call, _)) = known {
            return Some(Some(*call));
        }
        let stray = census.nobodys.contains(&pid)
            || (self.marks.is_none() && descendants(Pid::this()).contains(&pid));
        stray.then_some(None)
    }

    /// Ends the tree of one call: TERM, the grace, KILL. Returns when none of
    /// its processes lives, or when they cannot be killed (says how many).
    pub(crate) async fn end(&self, target: Target<'_>, grace: Duration) -> usize {
        let adopts = target.led.then_some(target.leader);
        self.end_where(grace, Some(target.call), target.group, adopts, |census| {
            let mut pids = census.calls.get(&target.call).cloned().unwrap_or_default();
            if self.marks.is_none() {
                pids.extend(descendants(target.leader));
            }
            pids.extend(&census.nobodys);
            pids.extend(target.group.map(Group::members).unwrap_or_default());
            pids
        })
        .await
    }

    /// Ends whatever any call has left.
    pub(crate) async fn end_all(&self, grace: Duration) -> usize {
        let without_marks = self.marks.is_none();
        self.end_where(grace, None, None, None, |census| {
            let mut pids: Vec<Pid> = census.calls.values().flatten().copied().collect();
            pids.extend(&census.nobodys);
            if without_marks {
                pids.extend(descendants(Pid::this()));
            }
            pids
        })
        .await
    }

    async fn end_where(
        &self,
        grace: Duration,
        call: Option<u32>,
        group: Option<&Group>,
        adopts: Option<Pid>,
        members: impl Fn(&Census) -> Vec<Pid>,
    ) -> usize {
        let _counting = self.hunt.begin();
        let begun = Instant::now();
        let deadline = begun + grace;
        // Who, and at which look.
        let mut told: HashMap<Pid, u32> = HashMap::new();
        let mut pause = Duration::from_millis(2);
        for look in 0.. {
            let (living, fleeting) = self.look(call, &members).await;
            if living.is_empty() && !fleeting && group.is_none_or(Group::is_empty) {
                return 0;
            }
            if Instant::now() >= deadline {
                break;
            }
            // What is started beneath somebody who was told before is how they clean up. Where
            // it takes long it is told too: it may be older than that, and what they wait for.
            let spares = begun.elapsed() < grace / 2;
            let knows = |told: &HashMap<Pid, u32>, who| told.get(&who).is_some_and(|at| *at < look);
            let parents: HashMap<Pid, Pid> =
                living.iter().map(|process| (process.pid, process.parent)).collect();
            for Process { pid, .. } in living {
                let mut above = ancestors(&parents, pid).take_while(|who| adopts != Some(*who));
                if told.contains_key(&pid) || spares && above.any(|who| knows(&told, who)) {
                    continue;
                }
                // A stopped process would not hear TERM before it goes on.
                self.signal(pid, &[Signal::SIGTERM, Signal::SIGCONT]);
                told.insert(pid, look);
            }
            sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        let mut left = 0;
        for _ in 0..KILL_PASSES {
            if let Some(group) = group {
                group.kill();
            }
            let (living, fleeting) = self.look(call, &members).await;
            left = living.len().max(usize::from(fleeting));
            if living.is_empty() && !fleeting && group.is_none_or(Group::is_empty) {
                break;
            }
            for process in living {
                self.signal(process.pid, &[Signal::SIGKILL]);
            }
            if fleeting {
                let leaders = self.leaders().clone();
                self.counter.chase(call, leaders).await;
            } else {
                sleep(PAUSE).await;
            }
        }
        left
    }

    /// The living members, and whether some came and went meanwhile.
    async fn look(
        &self,
        call: Option<u32>,
        members: &impl Fn(&Census) -> Vec<Pid>,
    ) -> (Vec<Process>, bool) {
        let before = self.hunt.passed(call);
        let census = self.census().await;
        let seen = members(&census);
        let living = alive(seen.clone());
        // One that has ended since may have left another one, and its end has not
        // come by the reaper yet: both run on this thread.
        let ended = seen.iter().any(|pid| !living.iter().any(|process| process.pid == *pid));
        let waiting = match call {
            Some(call) => census.ended.contains(&Some(call)) || census.ended.contains(&None),
            None => !census.ended.is_empty(),
        };
        (living, ended || waiting || self.hunt.passed(call) != before)
    }

    /// Signals a process if, now that its number cannot go to another one, it
    /// still is one of ours.
    fn signal(&self, pid: Pid, signals: &[Signal]) {
        let Ok(handle) = Handle::open(pid) else { return };
        let ours = match self.marks {
            Some(marks) => !matches!(marks.read(pid), Ok(Found::Unmarked)),
            None => process::exists(pid),
        };
        if ours {
            for signal in signals {
                // It may have ended, or be a set-uid program's: then the next
                // census shows it again, and the caller counts it.
                handle.signal(*signal).ok();
            }
        }
    }
}

fn alive(mut pids: Vec<Pid>) -> Vec<Process> {
    pids.sort_unstable();
    pids.dedup();
    let processes = pids.into_iter().filter_map(process::read);
    processes.filter(|process| !process.zombie).collect()
}

fn descendants(leader: Pid) -> Vec<Pid> {
    let table = process::table();
    let parents: HashMap<Pid, Pid> = table.iter().map(|p| (p.pid, p.parent)).collect();
    table
        .iter()
        .filter(|process| process.pid != Pid::this())
        .filter(|process| {
            ancestors(&parents, process.pid).chain([process.pid]).any(|pid| pid == leader)
        })
        .map(|process| process.pid)
        .collect()
}

/// Kills what an earlier server of the same number left when it was killed
/// itself; says how many processes.
pub(crate) fn sweep_leftovers(marks: Marks) -> usize {
    let mut killed = 0;
    for _ in 0..KILL_PASSES {
        let left: Vec<_> = process::table()
            .into_iter()
            .filter(|p| !p.zombie && matches!(marks.read(p.pid), Ok(Found::Call(_))))
            .collect();
        let mut now = 0;
        for process in left {
            if let Ok(handle) = Handle::open(process.pid)
                && matches!(marks.read(process.pid), Ok(Found::Call(_)))
                && handle.signal(Signal::SIGKILL).is_ok()
            {
                now += 1;
                handle.wait_end(100);
            }
        }
        if now == 0 {
            break;
        }
        killed += now;
    }
    killed
}
