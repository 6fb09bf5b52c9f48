//! Directories of a walk that wait: by name and parent, with what is open of them.
//!
//! Owns: how a directory that waits is opened again, beneath the start and without a
//! symlink on the way, and how many descriptors a walk holds. Must not: read one.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;

/// How many directories a walk keeps open for what waits in them, beside the one that each
/// thread reads. The others are opened again.
const KEPT: usize = 64;
/// What is resolved at once, in bytes: less than the kernel's bound of a path.
const AT_ONCE: usize = 4000;
/// How often a look-up is repeated that raced with a rename.
const RETRIES: usize = 128;

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A directory's place in the tree.
#[derive(Debug)]
pub(super) struct Node {
    parent: Option<Arc<Node>>,
    name: Box<[u8]>,
    /// Of the path from the start on.
    length: usize,
    pub(super) depth: usize,
}

impl Node {
    /// The start itself.
    pub(super) fn start() -> Arc<Node> {
        Arc::new(Node { parent: None, name: Box::default(), length: 0, depth: 0 })
    }

    /// A directory in this one.
    pub(super) fn child(parent: &Arc<Node>, name: &[u8]) -> Arc<Node> {
        let slash = usize::from(parent.length > 0);
        Arc::new(Node {
            length: parent.length + slash + name.len(),
            depth: parent.depth + 1,
            parent: Some(Arc::clone(parent)),
            name: name.into(),
        })
    }

    /// Sets `path` to `lead` bytes that it keeps, and the path from the start on.
    pub(super) fn path(&self, lead: usize, path: &mut Vec<u8>) {
        path.truncate(lead);
        path.resize(lead + self.length, b'/');
        let mut end = path.len();
        let mut node = Some(self);
        while let Some(here) = node {
            let begin = end.saturating_sub(here.name.len());
            if let Some(place) = path.get_mut(begin..end) {
                place.copy_from_slice(&here.name);
            }
            end = begin.saturating_sub(1);
            node = here.parent.as_deref();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One after another: they may be ten thousand deep.
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

/// A directory that is open, counted.
#[derive(Debug)]
pub(super) struct Open<'a> {
    start: BorrowedFd<'a>,
    /// None: it is the start.
    own: Option<OwnedFd>,
    count: Arc<AtomicUsize>,
}

impl<'a> Open<'a> {
    fn new(start: BorrowedFd<'a>, own: Option<OwnedFd>, count: &Arc<AtomicUsize>) -> Open<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Open { start, own, count: Arc::clone(count) }
    }

    /// Whether it may stay open for what waits in it.
    pub(super) fn may_stay(&self) -> bool {
        self.count.load(Ordering::Relaxed) < KEPT
    }

    /// The start; a directory in one that is open, or else by its path from the start on.
    pub(super) fn of(
        start: BorrowedFd<'a>,
        above: Option<&Open<'_>>,
        node: &Node,
        path: &[u8],
        count: &Arc<AtomicUsize>,
    ) -> Result<Open<'a>, Errno> {
        let own = match above {
            Some(above) => {
                let name = OsStr::from_bytes(&node.name);
                Some(openat(above.as_fd(), name, DIRECTORY, Mode::empty())?)
            }
            None if path.is_empty() => None,
            None => Some(again(start, path)?),
        };
        Ok(Open::new(start, own, count))
    }
}

impl AsFd for Open<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.as_ref().map_or(self.start, AsFd::as_fd)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens what is beneath `start` by a path of any length, without a symlink on the way.
fn again(start: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut rest = path;
    let mut here: Option<OwnedFd> = None;
    loop {
        let (now, then) = match rest.get(..AT_ONCE) {
            None => (rest, None),
            Some(most) => {
                let slash =
                    most.iter().rposition(|byte| *byte == b'/').ok_or(Errno::ENAMETOOLONG)?;
                (rest.get(..slash).unwrap_or_default(), rest.get(slash + 1..))
            }
        };
        let flags = if then.is_some() { DIRECTORY | OFlag::O_PATH } else { DIRECTORY };
        let from = here.as_ref().map_or(start, AsFd::as_fd);
        let opened = beneath(from, now, flags)?;
        match then {
            None => return Ok(opened),
            Some(then) => rest = then,
        }
        here = Some(opened);
    }
}

fn beneath(from: BorrowedFd<'_>, path: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    let mut tries = 0;
    loop {
        match openat2(from, OsStr::from_bytes(path), how) {
            Err(Errno::EAGAIN) if tries < RETRIES => tries += 1,
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_of_its_parents_names() {
        let start = Node::start();
        let node = Node::child(&Node::child(&start, b"a"), b"bc");
        let mut path = b"x/y/z".to_vec();
        node.path(2, &mut path);
        assert_eq!(path, b"x/a/bc");
        start.path(2, &mut path);
        assert_eq!(path, b"x/");
    }
}
