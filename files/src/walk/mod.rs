//! A tree, in parallel, by descriptors.
//!
//! Owns: going down a tree. Each directory is opened in one that is open, never through a
//! symlink, so the walk stays beneath where it began whatever is renamed meanwhile; what is
//! mounted beneath belongs to it. What cannot be read is counted and left out. Descriptors
//! are bounded, and so is what waits: a directory with many entries is read a piece at a
//! time, and what is in a piece comes before the next. Must not: read a file (but for those
//! that [`crate::ignored`] asks for), decide what is wanted, or outlive its call.

mod entry;
mod node;
mod queue;
mod start;

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};
use rustix::fs::{FileType, RawDir};

use crate::ignored::{Account, Has, Rules};
use crate::own::errno;
use crate::{FileError, Stop};
use entry::{Entry, order};
use node::{Node, Open};
use queue::Queue;

pub use start::{Start, What};

/// The most threads of one walk.
const THREADS: usize = 4;
/// What the kernel gives at once of a directory, in bytes.
const AT_ONCE: usize = 32 * 1024;
/// As many entries as most directories have.
const USUAL: usize = 128;
/// After how many entries it is asked whether to stop.
const OFTEN: usize = 64;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink, whatever it leads to.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry of a directory that is open.
#[derive(Debug)]
pub struct Found<'a> {
    /// Where it is.
    pub directory: BorrowedFd<'a>,
    /// Its name there.
    pub name: &'a CStr,
    /// As it was when the directory was read.
    pub kind: Kind,
    /// Its path from the root on.
    pub path: &'a [u8],
}

/// Who is told, one for each thread.
pub trait Visit: Send {
    /// Whether anything in a directory, by its path from the root on, may be wanted.
    fn enter(&mut self, path: &[u8]) -> bool;

    /// All files of a directory, where nothing else waits: they are told of next, each once and in
    /// that order. Each with its NUL.
    fn files(&mut self, _names: &mut dyn ExactSizeIterator<Item = &[u8]>) {}

    /// An entry. Break: nothing more is wanted, of nobody.
    fn found(&mut self, found: &Found<'_>) -> ControlFlow<()>;
}

/// What to walk, and how.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Where to begin; it is read from where it stands, so by one walk.
    pub start: BorrowedFd<'a>,
    /// The start's path from the root on; ends with a slash where it is not empty.
    pub lead: &'a [u8],
    /// Names that begin with a dot too.
    pub hidden: bool,
    /// Without what .gitignore and its like leave out, and without .git: what counts above.
    pub rules: Option<Option<Arc<Rules>>>,
    /// Of those files.
    pub account: Arc<Account>,
    /// How deep: 1 is the start's own entries.
    pub depth: usize,
    /// How many files of one directory a thread takes at a time.
    pub share: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct Walked<V> {
    /// Those who were told.
    pub visits: Vec<V>,
    /// How many directories could not be read.
    pub unreadable: u64,
    /// Why it ended before the end, where it was not a visit's wish.
    pub ended: Option<FileError>,
}

/// Walks it. `visit` makes one for each thread.
pub fn walk<V: Visit>(plan: &Plan<'_>, stop: &Stop, mut visit: impl FnMut() -> V) -> Walked<V> {
    let node = Node::start();
    let rules = plan.rules.clone().flatten();
    let walk = Walk {
        plan,
        stop,
        queue: Queue::new(Work::Directory { node, above: None, rules }),
        open: Arc::default(),
        unreadable: AtomicU64::new(0),
        over: AtomicBool::new(false),
        ended: Mutex::new(None),
    };
    let mut visits = Vec::new();
    std::thread::scope(|scope| {
        let mut own = visit();
        let mut thread = Thread::new(&walk, &mut own);
        thread.one();
        let mut others = Vec::new();
        // A tree that is one directory is not worth a thread.
        if !walk.queue.is_empty() {
            for _ in 1..threads() {
                let mut other = visit();
                let walk = &walk;
                let begin = move || {
                    Thread::new(walk, &mut other).all();
                    other
                };
                let builder = std::thread::Builder::new().name("walk".to_owned());
                others.extend(builder.spawn_scoped(scope, begin));
            }
        }
        thread.all();
        drop(thread);
        visits.push(own);
        for other in others {
            match other.join() {
                Ok(visit) => visits.push(visit),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let ended = walk.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    Walked { visits, unreadable: walk.unreadable.into_inner(), ended }
}

/// As many as there are cores, without a look at files that tell of them.
fn threads() -> usize {
    let cores = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    usize::try_from(cores).unwrap_or(1).clamp(1, THREADS)
}

/// What waits.
#[derive(Debug)]
enum Work<'a> {
    /// A directory.
    Directory { node: Arc<Node>, above: Option<Arc<Open<'a>>>, rules: Option<Arc<Rules>> },
    /// What was not yet read of one.
    Rest { node: Arc<Node>, open: Arc<Open<'a>>, rules: Option<Arc<Rules>> },
    /// Files of one, each name with its NUL.
    Files { node: Arc<Node>, open: Arc<Open<'a>>, names: Vec<u8> },
}

struct Walk<'a> {
    plan: &'a Plan<'a>,
    stop: &'a Stop,
    queue: Queue<Work<'a>>,
    open: Arc<AtomicUsize>,
    unreadable: AtomicU64,
    over: AtomicBool,
    ended: Mutex<Option<FileError>>,
}

impl Walk<'_> {
    fn end(&self, why: Option<FileError>) {
        if let Some(why) = why {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.get_or_insert(why);
        }
        self.over.store(true, Ordering::Relaxed);
        self.queue.close();
    }

    /// Break, where it is time.
    fn check(&self) -> ControlFlow<()> {
        if self.over.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        match self.stop.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                self.end(Some(why));
                ControlFlow::Break(())
            }
        }
    }

    fn unreadable(&self, errno: Errno) {
        if errno != Errno::ENOENT {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A thread, and what it uses again and again.
struct Thread<'w, 'a, V> {
    walk: &'w Walk<'a>,
    visit: &'w mut V,
    path: Vec<u8>,
    names: Vec<u8>,
    entries: Vec<Entry>,
    files: Vec<Entry>,
    work: Vec<Work<'a>>,
    matches: Vec<usize>,
}

impl<'w, 'a, V: Visit> Thread<'w, 'a, V> {
    fn new(walk: &'w Walk<'a>, visit: &'w mut V) -> Thread<'w, 'a, V> {
        Thread {
            walk,
            visit,
            path: walk.plan.lead.to_vec(),
            names: Vec::with_capacity(USUAL * 32),
            entries: Vec::with_capacity(USUAL),
            files: Vec::new(),
            work: Vec::new(),
            matches: Vec::new(),
        }
    }

    fn all(&mut self) {
        while self.one() {}
    }

    fn one(&mut self) -> bool {
        let Some(work) = self.walk.queue.take() else {
            return false;
        };
        if self.walk.check().is_continue() && self.work(work).is_break() {
            self.walk.end(None);
        }
        self.walk.queue.done();
        true
    }

    fn work(&mut self, work: Work<'a>) -> ControlFlow<()> {
        let lead = self.walk.plan.lead.len();
        match work {
            Work::Directory { node, above, rules } => {
                node.path(lead, &mut self.path);
                if !self.visit.enter(&self.path) {
                    return ControlFlow::Continue(());
                }
                let from_start = self.path.get(lead..).unwrap_or_default();
                let start = self.walk.plan.start;
                match Open::of(start, above.as_deref(), &node, from_start, &self.walk.open) {
                    Ok(open) => self.list(&node, Arc::new(open), rules, true),
                    Err(errno) => {
                        self.walk.unreadable(errno);
                        ControlFlow::Continue(())
                    }
                }
            }
            Work::Rest { node, open, rules } => {
                node.path(lead, &mut self.path);
                match self.visit.enter(&self.path) {
                    true => self.list(&node, open, rules, false),
                    false => ControlFlow::Continue(()),
                }
            }
            Work::Files { node, open, names } => {
                node.path(lead, &mut self.path);
                let base = self.base(&node);
                for name in names.split_inclusive(|byte| *byte == 0) {
                    self.walk.check()?;
                    tell(self.visit, &mut self.path, &open, base, name)?;
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// A slash behind the path, where one belongs; its length then.
    fn base(&mut self, node: &Node) -> usize {
        if node.depth > 0 {
            self.path.push(b'/');
        }
        self.path.len()
    }

    /// Reads a directory, from the beginning or where it was left.
    fn list(
        &mut self,
        node: &Arc<Node>,
        open: Arc<Open<'a>>,
        mut rules: Option<Arc<Rules>>,
        mut begins: bool,
    ) -> ControlFlow<()> {
        let base = self.base(node);
        loop {
            self.walk.check()?;
            let ended = self.read(&open);
            let whole = begins && ended;
            if std::mem::take(&mut begins) && self.walk.plan.rules.is_some() {
                let has = self.has(&open, ended);
                rules = Rules::of(rules, &*open, has, base, &self.walk.plan.account);
            }
            let stays = open.may_stay();
            if !ended && stays {
                let (node, open) = (Arc::clone(node), Arc::clone(&open));
                self.work.push(Work::Rest { node, open, rules: rules.clone() });
            }
            self.sort(node, &open, rules.as_ref(), base, stays)?;
            let free = self.files.is_empty() && (ended || stays);
            if whole && self.work.is_empty() {
                let names = &self.names;
                let name = |file: &Entry| names.get(file.begin..=file.end).unwrap_or_default();
                self.visit.files(&mut self.files.iter().map(name));
            }
            self.walk.queue.add(&mut self.work, free);
            for index in 0..self.files.len() {
                let Some(file) = self.files.get(index).copied() else { break };
                if index % OFTEN == 0 {
                    self.walk.check()?;
                }
                let name = self.names.get(file.begin..=file.end).unwrap_or_default();
                tell(self.visit, &mut self.path, &open, base, name)?;
            }
            if ended || stays {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Takes what the kernel gives in two calls; whether that was the end.
    fn read(&mut self, open: &Open<'_>) -> bool {
        self.names.clear();
        self.entries.clear();
        // On the thread's own stack: threads share few heaps.
        let mut room = [const { MaybeUninit::<u8>::uninit() }; AT_ONCE];
        for _ in 0..2 {
            let mut directory = RawDir::new(open.as_fd(), &mut room);
            loop {
                match directory.next() {
                    None => return true,
                    Some(Err(error)) => {
                        self.walk.unreadable(errno(error));
                        return true;
                    }
                    Some(Ok(entry)) => {
                        let name = entry.file_name().to_bytes_with_nul();
                        if !matches!(name, b".\0" | b"..\0") {
                            let begin = self.names.len();
                            self.names.extend_from_slice(name);
                            let end = self.names.len() - 1;
                            let kind = entry.file_type();
                            self.entries.push(Entry::new(begin, end, kind));
                        }
                    }
                }
                if directory.is_buffer_empty() {
                    break;
                }
            }
        }
        false
    }

    /// Which files that say what is left out a directory has: by its entries, where they
    /// are all read.
    fn has(&self, open: &Open<'_>, ended: bool) -> Has {
        if !ended {
            return Has::look(open);
        }
        let mut has = Has::default();
        for entry in &self.entries {
            let name = self.names.get(entry.begin..=entry.end).unwrap_or_default();
            if name.first() == Some(&b'.') {
                let name = CStr::from_bytes_with_nul(name).unwrap_or_default();
                match kind(open, name, entry.kind) {
                    Kind::File => has.note(name, true, false),
                    Kind::Directory => has.note(name, false, true),
                    _ => {}
                }
            }
        }
        has
    }

    /// What is wanted of the entries that were read: files to `files`, what can wait to
    /// `work`, the rest is told.
    fn sort(
        &mut self,
        node: &Arc<Node>,
        open: &Arc<Open<'a>>,
        rules: Option<&Arc<Rules>>,
        base: usize,
        stays: bool,
    ) -> ControlFlow<()> {
        let plan = self.walk.plan;
        let names = &self.names;
        order(&mut self.entries, names);
        self.files.clear();
        let first = self.work.len();
        let mut shared: Vec<u8> = Vec::new();
        let mut count = 0;
        for entry in &self.entries {
            let with_nul = self.names.get(entry.begin..=entry.end).unwrap_or_default();
            let Ok(name) = CStr::from_bytes_with_nul(with_nul) else { continue };
            let bytes = name.to_bytes();
            let dot = bytes.first() == Some(&b'.');
            if dot && (!plan.hidden || (plan.rules.is_some() && bytes == b".git")) {
                continue;
            }
            let kind = kind(open, name, entry.kind);
            // Of most files nothing else has to be known yet.
            if kind != Kind::File || rules.is_some() {
                self.path.truncate(base);
                self.path.extend_from_slice(bytes);
            }
            let directory = kind == Kind::Directory;
            if rules.is_some_and(|rules| rules.ignore(&self.path, directory, &mut self.matches)) {
                continue;
            }
            if kind == Kind::File {
                if self.files.len() < plan.share || !stays {
                    self.files.push(*entry);
                    continue;
                }
                shared.extend_from_slice(with_nul);
                count += 1;
                if count == plan.share {
                    let (node, open) = (Arc::clone(node), Arc::clone(open));
                    let names = std::mem::take(&mut shared);
                    self.work.push(Work::Files { node, open, names });
                    count = 0;
                }
                continue;
            }
            self.visit.found(&Found { directory: open.as_fd(), name, kind, path: &self.path })?;
            if directory && node.depth + 1 < plan.depth && self.visit.enter(&self.path) {
                let node = Node::child(node, bytes);
                let above = stays.then(|| Arc::clone(open));
                self.work.push(Work::Directory { node, above, rules: rules.cloned() });
            }
        }
        if !shared.is_empty() {
            let (node, open) = (Arc::clone(node), Arc::clone(open));
            self.work.push(Work::Files { node, open, names: shared });
        }
        // What comes first in the order of paths is taken first.
        self.work.get_mut(first..).unwrap_or_default().reverse();
        ControlFlow::Continue(())
    }
}

/// Tells of a file, by its name with its NUL.
fn tell<V: Visit>(
    visit: &mut V,
    path: &mut Vec<u8>,
    open: &Open<'_>,
    base: usize,
    name: &[u8],
) -> ControlFlow<()> {
    let Ok(name) = CStr::from_bytes_with_nul(name) else {
        return ControlFlow::Continue(());
    };
    path.truncate(base);
    path.extend_from_slice(name.to_bytes());
    visit.found(&Found { directory: open.as_fd(), name, kind: Kind::File, path })
}

/// What an entry is, where the directory itself does not say.
fn kind(open: &Open<'_>, name: &CStr, told: FileType) -> Kind {
    match told {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Unknown => {
            let stat = fstatat(open.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW);
            stat.map_or(Kind::Other, |stat| Kind::of(stat.st_mode))
        }
        _ => Kind::Other,
    }
}

impl Kind {
    /// By the mode that stat gives.
    pub fn of(mode: u32) -> Kind {
        match SFlag::from_bits_truncate(mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Directory,
            SFlag::S_IFLNK => Kind::Symlink,
            _ => Kind::Other,
        }
    }
}
