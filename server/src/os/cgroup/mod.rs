//! Cgroups of version 2, where this process may make some: one for a call, so
//! that its tree can be killed in one stroke, and bounded as a whole.
//!
//! Owns: making, listing, killing and removing them. A cgroup is used again
//! once it is empty: making one costs more than a process. One that was bounded is not:
//! what it was charged with would be the next call's.
//!
//! - `control`  the controllers, and the bounds of one cgroup

mod control;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::unistd::Pid;

pub(crate) use self::control::Bounds;
use self::control::Controllers;

/// The directory in which the server makes cgroups.
#[derive(Debug)]
pub(crate) struct Tree {
    parent: PathBuf,
    path: PathBuf,
    made: u32,
    /// What calls can be bounded by.
    controllers: Controllers,
    /// For people: what they cannot be, and what to do.
    missing: Option<String>,
    /// Empty ones, for later calls; by path, not open: descriptors are for calls.
    free: Vec<PathBuf>,
    /// Ones that are not empty yet, and whether they were killed or bounded.
    left: VecDeque<(PathBuf, bool)>,
}

/// A cgroup for one call.
#[derive(Debug)]
pub(crate) struct Group {
    directory: File,
    path: PathBuf,
    killed: AtomicBool,
    bounds: Bounds,
}

/// How many empty cgroups are kept for later calls.
const KEEP: usize = 64;

/// How many of those left are looked at again with each call.
const LOOK: usize = 2;

impl Tree {
    /// Where this process may make cgroups: beneath `wanted`, or beneath the
    /// one that it is in. `None` where it may not, or where there is no
    /// `cgroup.kill` (before Linux 5.14). What a server of the same number left
    /// there when it was killed ends here.
    pub(crate) fn find(wanted: Option<&Path>, instance: u32) -> Option<Tree> {
        let parent = match wanted {
            Some(path) => path.to_owned(),
            None => own_cgroup()?,
        };
        let path = parent.join(format!("tool-server-{instance:08x}"));
        if fs::create_dir(&path).is_err() {
            clear(&path)?;
        }
        let mut tree = Tree {
            parent,
            path,
            made: 0,
            controllers: Controllers::default(),
            missing: None,
            free: Vec::new(),
            left: VecDeque::new(),
        };
        // Creating is not enough: a process must be let in. The first call
        // would find out too late.
        let kill = fs::OpenOptions::new().write(true).open(tree.path.join("cgroup.kill"));
        let procs = fs::OpenOptions::new().write(true).open(tree.path.join("cgroup.procs"));
        if kill.is_err() || procs.is_err() {
            return None;
        }
        let same = |own: PathBuf| own.canonicalize().ok() == tree.parent.canonicalize().ok();
        let inside = own_cgroup().is_some_and(same);
        (tree.controllers, tree.missing) = control::arrange(&tree.parent, &tree.path, inside);
        Some(tree)
    }

    /// Those of a call's bounds that hold for all its processes together.
    pub(crate) fn hold(&self, bounds: Bounds) -> Bounds {
        self.controllers.of(bounds)
    }

    /// What calls have them for, in words.
    pub(crate) fn uses(&self) -> Vec<&'static str> {
        std::iter::once("kill").chain(self.controllers.names()).collect()
    }

    /// What they could be bounded by and are not, and what to do.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// A cgroup without a process in it, bounded so.
    pub(crate) fn take(&mut self, bounds: Bounds) -> Result<Group, Errno> {
        if bounds.is_none()
            && let Some(path) = self.free.pop()
        {
            return Group::open(path, bounds);
        }
        let group = Group::open(self.make()?, bounds)?;
        match control::bound(&group.path, bounds) {
            Ok(()) => Ok(group),
            Err(error) => {
                fs::remove_dir(&group.path).ok();
                Err(number(&error))
            }
        }
    }

    fn make(&mut self) -> Result<PathBuf, Errno> {
        // A name may still be taken by what a killed server left.
        loop {
            let path = self.path.join(format!("call-{}", self.made));
            self.made = self.made.wrapping_add(1);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(number(&error)),
            }
        }
    }

    /// Takes one back. One that still has processes (a call's daemons) is kept
    /// aside until they are gone.
    pub(crate) fn give_back(&mut self, group: Group) {
        let spent = group.killed.load(Ordering::Relaxed) || !group.bounds.is_none();
        self.settle(group.path, spent);
        for _ in 0..LOOK.min(self.left.len()) {
            if let Some((path, spent)) = self.left.pop_front() {
                self.settle(path, spent);
            }
        }
    }

    fn settle(&mut self, path: PathBuf, spent: bool) {
        if !is_empty(&path) {
            self.left.push_back((path, spent));
        } else if spent || self.free.len() >= KEEP {
            // One that was ever killed is not used again: a process that is
            // cloned into it from outside dies at birth (the kernel compares
            // the kill counts of the two cgroups; seen on Linux 6.18).
            if remove(&path).is_err() {
                self.left.push_back((path, true));
            }
        } else {
            self.free.push(path);
        }
    }

    /// For people.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What still has processes in it stays.
        for path in self.free.drain(..).chain(self.left.drain(..).map(|(path, _)| path)) {
            remove(&path).ok();
        }
        if self.path.join(control::LEAF).exists() {
            control::disable(&self.parent, &self.path, self.controllers);
            control::leave(&self.parent, &self.path);
        }
        remove(&self.path).ok();
    }
}

impl Group {
    fn open(path: PathBuf, bounds: Bounds) -> Result<Group, Errno> {
        let directory = File::open(&path).map_err(|error| number(&error))?;
        Ok(Group { directory, path, killed: AtomicBool::new(false), bounds })
    }

    /// Whether a process of it was ended for the memory that it may have.
    pub(crate) fn ran_out(&self) -> bool {
        self.bounds.memory.is_some() && control::ran_out(&self.path)
    }

    /// To start a process in.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Kills every process in it at once, forking ones included.
    pub(crate) fn kill(&self) -> bool {
        self.killed.store(true, Ordering::Relaxed);
        fs::OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.kill"))
            .and_then(|mut file| file.write_all(b"1"))
            .is_ok()
    }

    /// Whether no process is in it, or beneath it.
    pub(crate) fn is_empty(&self) -> bool {
        is_empty(&self.path)
    }

    /// The processes in it.
    pub(crate) fn members(&self) -> Vec<Pid> {
        read(&self.path.join("cgroup.procs"))
            .split_ascii_whitespace()
            .filter_map(|line| line.parse().ok())
            .map(Pid::from_raw)
            .collect()
    }
}

/// Whether nothing is in it, and nobody has frozen it: in a frozen one a process
/// would never come to run.
fn is_empty(path: &Path) -> bool {
    let events = read(&path.join("cgroup.events"));
    let says = |wanted: &str| events.lines().any(|line| line == wanted);
    says("populated 0") && !says("frozen 1")
}

/// Removes a cgroup and those that a tool made in it.
fn remove(path: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// Ends and removes what is left in a cgroup of ours. A killed process takes a
/// moment to leave.
fn clear(path: &Path) -> Option<()> {
    let kill = fs::OpenOptions::new().write(true).open(path.join("cgroup.kill"));
    kill.and_then(|mut file| file.write_all(b"1")).ok()?;
    for entry in fs::read_dir(path).ok()?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path()).ok();
        }
    }
    Some(())
}

fn number(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn read(path: &Path) -> String {
    let mut text = String::new();
    drop(File::open(path).and_then(|mut file| file.read_to_string(&mut text)));
    text
}

fn own_cgroup() -> Option<PathBuf> {
    let own = read(Path::new("/proc/self/cgroup"));
    let name = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = read(Path::new("/proc/self/mounts"))
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
            (kind == "cgroup2").then(|| at.to_owned())
        })
        .next()?;
    Some(Path::new(&mount).join(name))
}
