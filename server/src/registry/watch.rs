//! Noticing that tools.d changed.
//!
//! Owns: when the registry looks at the disk again: on inotify where that sees
//! every change, by polling where it does not, and every so often anyway, for a
//! queue that overflowed. Must not: decide what a change means.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::stat::{FileStat, fstat};
use nix::sys::statfs::{self, FsType, fstatfs};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::snapshot::Change;
use super::{Registry, site};
use crate::os::root::Root;

/// Under events without an end, a look is taken after this long all the same:
/// together with the look itself well within 200 ms.
const LONGEST: Duration = Duration::from_millis(120);

/// Which directory a watch was set on. With the time of its last change: one
/// that is removed and made again at once often gets the same inode number,
/// while the watch went with the old one.
type Identity = (u64, u64, i64, i64);

/// How changes are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// inotify, but where it sees nothing: polling.
    Auto,
    /// inotify even there.
    Inotify,
    Poll,
}

/// When the disk is looked at.
#[derive(Debug, Clone)]
pub(crate) struct WatchSettings {
    pub(crate) mode: Mode,
    /// How long it must be quiet after an event.
    pub(crate) debounce: Duration,
    /// Between two looks where nothing tells.
    pub(crate) poll: Duration,
    /// Between two looks where inotify tells.
    pub(crate) rescan: Duration,
}

/// Keeps the registry up to date and never returns. `on_change` is called
/// after every swap of the snapshot.
pub(crate) async fn watch(
    registry: Arc<Registry>,
    settings: WatchSettings,
    mut on_change: impl FnMut(Change),
) {
    let woken = Arc::new(Notify::new());
    let mut watcher: Option<Watches> = None;
    loop {
        // First the watches, then the look: what is written in between is seen
        // by the one or the other.
        let seen = follow(&registry, &settings, &mut watcher, &woken);
        let change = registry.rescan();
        if !change.is_empty() {
            on_change(change);
        }
        let pause = if seen { settings.rescan } else { settings.poll };
        let due = Instant::now() + pause;
        let settles = registry.settles().map(Instant::from_std);
        tokio::select! {
            () = woken.notified() => quiet(&woken, settings.debounce.min(LONGEST)).await,
            () = sleep_until(settles.map_or(due, |settles| settles.min(due))) => {}
        }
    }
}

/// Waits until no event came for a while, but not for ever.
async fn quiet(woken: &Notify, debounce: Duration) {
    let last = sleep(LONGEST);
    tokio::pin!(last);
    loop {
        tokio::select! {
            () = &mut last => return,
            event = timeout(debounce, woken.notified()) => if event.is_err() { return },
        }
    }
}

/// The inotify watches, each with the directory that it was set on.
struct Watches {
    watcher: RecommendedWatcher,
    set: BTreeMap<PathBuf, Identity>,
}

/// Brings the watches up to date. `false`: changes are not seen, poll.
fn follow(
    registry: &Registry,
    settings: &WatchSettings,
    watches: &mut Option<Watches>,
    woken: &Arc<Notify>,
) -> bool {
    let wanted = wanted(registry, settings.mode).unwrap_or_default();
    if wanted.is_empty() {
        *watches = None;
        return false;
    }
    if watches.is_none() {
        *watches = watcher(woken).ok().map(|watcher| Watches { watcher, set: BTreeMap::new() });
    }
    let Some(kept) = watches else { return false };
    let done = kept.update(wanted);
    if done.is_err() {
        // No more watches to be had: with half of them changes would be missed.
        *watches = None;
    }
    done.is_ok()
}

impl Watches {
    fn update(&mut self, wanted: BTreeMap<PathBuf, Identity>) -> Result<(), notify::Error> {
        for (path, identity) in &self.set {
            if wanted.get(path) != Some(identity) {
                // Fails where the directory is gone, and its watch with it.
                drop(self.watcher.unwatch(path));
            }
        }
        for (path, identity) in &wanted {
            if self.set.get(path) != Some(identity) {
                match self.watcher.watch(path, RecursiveMode::NonRecursive) {
                    Err(error) if !matches!(error.kind, notify::ErrorKind::PathNotFound) => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        }
        self.set = wanted;
        Ok(())
    }
}

fn watcher(woken: &Arc<Notify>) -> Result<RecommendedWatcher, notify::Error> {
    let woken = Arc::clone(woken);
    notify::recommended_watcher(move |event: Result<Event, notify::Error>| {
        // Looking itself opens directories: that is no change. An error may
        // stand for an event that was lost.
        let opened = |event: Event| match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            _ => false,
        };
        if !event.is_ok_and(opened) {
            woken.notify_one();
        }
    })
}

/// Every directory whose changes matter; `None` where they have to be polled.
fn wanted(registry: &Registry, mode: Mode) -> Option<BTreeMap<PathBuf, Identity>> {
    let options = registry.options();
    let tools = Root::open(&options.tools_dir).ok()?;
    let mut roots = vec![tools];
    // Hidden ones too: symlinks of tools may lead into them.
    roots.extend(Root::open(&options.restricted_dir).ok());
    roots.extend(options.builtin_dir.as_ref().and_then(|path| Root::open(path).ok()));
    let polled = |root: &Root| mode == Mode::Poll || (mode == Mode::Auto && is_silent(root));
    if roots.iter().any(polled) {
        return None;
    }
    let mut wanted = BTreeMap::new();
    for root in &roots {
        wanted.insert(root.path().to_owned(), identity(&fstat(root.as_fd()).ok()?));
        // A symlink that is swapped for another one (`..data` of a cluster's
        // volumes) is a change of the directory that it is in, and of no other.
        if let Some(parent) = root.path().parent()
            && root.path().is_symlink()
        {
            let found = Root::open(parent).ok()?;
            if polled(&found) {
                return None;
            }
            wanted.insert(parent.to_owned(), identity(&fstat(found.as_fd()).ok()?));
        }
    }
    let tools = roots.first()?;
    for (name, _) in site::list(tools).ok()? {
        let folder = tools.directory(&name).and_then(fstat);
        if let Ok(found) = folder {
            wanted.insert(tools.path().join(name), identity(&found));
        }
    }
    Some(wanted)
}

fn identity(found: &FileStat) -> Identity {
    (found.st_dev, found.st_ino, found.st_ctime, found.st_ctime_nsec)
}

/// File systems on which other machines' changes raise no event here.
fn is_silent(root: &Root) -> bool {
    const CIFS: FsType = FsType(0xff53_4d42);
    const SMB2: FsType = FsType(0xfe53_4d42);
    const V9FS: FsType = FsType(0x0102_1997);
    const CEPH: FsType = FsType(0x00c3_6400);
    const FUSE: FsType = FsType(0x6573_5546);
    let silent = [statfs::NFS_SUPER_MAGIC, statfs::SMB_SUPER_MAGIC, CIFS, SMB2, V9FS, CEPH, FUSE];
    fstatfs(root.as_fd()).is_ok_and(|found| silent.contains(&found.filesystem_type()))
}
