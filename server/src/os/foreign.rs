//! Descriptors that a caller made: what they are is the caller's choice, and so
//! is how long closing one of them takes. A TCP socket with SO_LINGER holds
//! whoever closes it last for as long as the caller has set; a file without a name,
//! until its blocks are freed; a file system in user space, for as long as it likes,
//! each time; and closing a connection closes every descriptor that lies unread in it.
//!
//! Owns: which of them are closed elsewhere (`closer`). Must not: guess who closes a
//! descriptor last: whoever else has it may close it at any moment, a tool too.

use std::io::Read;
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::timeout;

use super::closer::{close, close_elsewhere, put};
use super::descriptors::readable_now;
use super::hurry::Hurry;

/// Threads beside those that close, for what has no place and would only pile up there.
const MOST_BESIDE: usize = 16;
static BESIDE: AtomicUsize = AtomicUsize::new(0);

/// Closes all that one message brought and nobody wants: not before what has a place,
/// for as long as there are threads for that.
pub(crate) fn close_beside(mut unwanted: Vec<Foreign>) {
    if !unwanted.iter().any(Foreign::is_slow) {
        return;
    }
    if BESIDE.fetch_add(1, Ordering::Relaxed) >= MOST_BESIDE {
        BESIDE.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let close = move || {
        let hurry = Hurry::here();
        for one in &mut unwanted {
            if let Some(descriptor) = one.descriptor.take() {
                hurry.with(|| close((descriptor, None, None)));
            }
        }
        drop(unwanted);
        BESIDE.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().name("closer".to_owned()).spawn(close).is_err() {
        BESIDE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Closes what may have descriptors in its queue that nobody has read.
pub(crate) fn close_queue(socket: OwnedFd) {
    close_elsewhere(socket, None);
}

/// What the server has found by a name that somebody else chose, and may remove meanwhile.
#[derive(Debug)]
pub(crate) struct Found(ManuallyDrop<OwnedFd>);

impl Found {
    /// Takes it over.
    pub(crate) fn new(descriptor: OwnedFd) -> Found {
        Found(ManuallyDrop::new(descriptor))
    }

    /// What it is.
    pub(crate) fn kind(&self) -> Option<SFlag> {
        let stat = fstat(self).ok()?;
        Some(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT)
    }
}

impl AsFd for Found {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Found {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        nix::unistd::read(self.as_fd(), buffer).map_err(std::io::Error::from)
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: nobody has it after this.
        let descriptor = unsafe { ManuallyDrop::take(&mut self.0) };
        // A name that is there is most often there a moment later, and then nothing is freed.
        if fstat(&descriptor).map_or(true, |stat| stat.st_nlink == 0) {
            close_elsewhere(descriptor, None);
        }
    }
}

/// Descriptors beyond the few that every call may pass: there are only so many
/// at once, for all callers.
#[derive(Clone, Debug)]
pub(crate) struct Spare(Arc<AtomicUsize>);

impl Spare {
    /// With room for so many.
    pub(crate) fn new(room: usize) -> Spare {
        Spare(Arc::new(AtomicUsize::new(room)))
    }

    /// Takes the place of one, to be given back when it is dropped.
    pub(crate) fn take(&self) -> Option<Place> {
        let less = |room: usize| room.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Place(self.clone()))
    }
}

/// The place of one descriptor.
#[derive(Debug)]
pub(crate) struct Place(Spare);

impl Drop for Place {
    fn drop(&mut self) {
        let Place(Spare(room)) = self;
        room.fetch_add(1, Ordering::Relaxed);
    }
}

/// A descriptor that a caller passed.
#[derive(Debug)]
pub(crate) struct Foreign {
    descriptor: Option<OwnedFd>,
    kind: Option<SFlag>,
    _place: Option<Place>,
}

impl Foreign {
    /// Takes one over.
    pub(crate) fn new(descriptor: OwnedFd) -> Foreign {
        let kind = kind(descriptor.as_fd());
        Foreign { descriptor: Some(descriptor), kind, _place: None }
    }

    /// Notes the place that it has.
    pub(crate) fn set_place(&mut self, place: Place) {
        self._place = Some(place);
    }

    /// Whether it is a terminal: what the broker never hands to a tool. One that has
    /// been hung up is none any more, for as long as it is open: it is at its end.
    pub(crate) fn is_terminal(&self) -> bool {
        let Some(descriptor) = &self.descriptor else { return false };
        self.kind == Some(SFlag::S_IFCHR)
            && match nix::unistd::isatty(descriptor) {
                Ok(is) => is,
                Err(Errno::EIO) => !is_hung_up(descriptor.as_fd()),
                Err(_) => true,
            }
    }

    /// Whether it is a Unix socket, of whatever kind. One that cannot be asked counts as one.
    pub(crate) fn is_unix_socket(&self) -> bool {
        let socket = self.descriptor.as_ref().filter(|_| self.kind == Some(SFlag::S_IFSOCK));
        socket.is_some_and(|socket| domain(socket.as_fd()).is_none_or(|it| it == libc::AF_UNIX))
    }

    /// Whether a tool may have it: what is a stream of bytes or a device. A
    /// directory, or a descriptor that stands for a place only, leads to files of
    /// the caller's side by names.
    pub(crate) fn may_pass(&self) -> bool {
        let kinds =
            [SFlag::S_IFIFO, SFlag::S_IFREG, SFlag::S_IFSOCK, SFlag::S_IFCHR, SFlag::S_IFBLK];
        let Some(descriptor) = &self.descriptor else { return false };
        self.kind.is_some_and(|kind| kinds.contains(&kind))
            && fcntl(descriptor, FcntlArg::F_GETFL).is_ok_and(|flags| flags & libc::O_PATH == 0)
    }

    /// The descriptor of somebody who can be trusted with what it is.
    pub(crate) fn into_inner(mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// The descriptor itself.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Pipes and devices close at once; a socket may not, and a file may be without a
    /// name by the time that it is closed, and nobody else have it.
    fn is_slow(&self) -> bool {
        let quick = [SFlag::S_IFIFO, SFlag::S_IFCHR];
        self.kind.is_none_or(|kind| !quick.contains(&kind))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if self.is_slow()
            && let Some(descriptor) = self.descriptor.take()
        {
            close_elsewhere(descriptor, self._place.take());
        }
    }
}

/// Files that a tool was given, until they are closed here: as long as they are open, what
/// was written cannot be executed, and a lock holds.
#[derive(Debug, Default)]
pub(crate) struct HandedOn(Option<oneshot::Receiver<()>>);

/// The end of a call is told without, where its files take longer to close.
const LATEST: Duration = Duration::from_secs(1);

impl HandedOn {
    /// Drops what a tool has by now.
    pub(crate) fn close(descriptors: impl Iterator<Item = Foreign>) -> HandedOn {
        let mut told = None;
        for mut foreign in descriptors {
            if foreign.kind == Some(SFlag::S_IFREG)
                && let Some(descriptor) = foreign.descriptor.take()
            {
                let (token, _) = told.get_or_insert_with(|| {
                    let (sender, receiver) = oneshot::channel();
                    (Arc::new(sender), receiver)
                });
                put((descriptor, foreign._place.take(), Some(Arc::clone(token))));
            }
        }
        HandedOn(told.map(|(_, receiver)| receiver))
    }

    /// Whether all are.
    pub(crate) fn is_closed(&mut self) -> bool {
        let open = |told: &mut oneshot::Receiver<()>| told.try_recv() == Err(TryRecvError::Empty);
        !self.0.as_mut().is_some_and(open)
    }

    /// Waits for that, for a while.
    pub(crate) async fn closed(self) {
        if let Some(told) = self.0 {
            drop(timeout(LATEST, told).await);
        }
    }
}

/// Closes a connection, and with it whatever lies unread in it. Where that happens
/// elsewhere, and so later, `unwatch` is called first.
pub(crate) fn close_connection(connection: UnixStream, unwatch: impl FnOnce(BorrowedFd<'_>)) {
    // After this nothing can come any more: what is there is all there is.
    connection.shutdown(Shutdown::Read).ok();
    if readable_now(connection.as_fd()) > 0 {
        unwatch(connection.as_fd());
        close_elsewhere(connection.into(), None);
    }
}

/// Whether it is a terminal that has been hung up: no other has an error and everything
/// else at once.
fn is_hung_up(terminal: BorrowedFd<'_>) -> bool {
    let mut polls = [PollFd::new(terminal, PollFlags::POLLIN | PollFlags::POLLOUT)];
    let all = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLIN | PollFlags::POLLOUT;
    poll(&mut polls, PollTimeout::ZERO).is_ok()
        && polls.iter().all(|poll| poll.revents().is_some_and(|found| found.contains(all)))
}

/// The domain of a socket.
fn domain(socket: BorrowedFd<'_>) -> Option<libc::c_int> {
    let (mut domain, option): (libc::c_int, _) = (-1, libc::SO_DOMAIN);
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    let (level, number) = (libc::SOL_SOCKET, socket.as_raw_fd());
    // SAFETY: the kernel writes one int, for which there is room.
    let asked = unsafe {
        libc::getsockopt(number, level, option, (&raw mut domain).cast(), &raw mut length)
    };
    (asked == 0).then_some(domain)
}

/// What a descriptor is, without asking whoever serves it: a file system in user
/// space may never answer.
fn kind(descriptor: BorrowedFd<'_>) -> Option<SFlag> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: all-zero bytes are a valid statx; the kernel writes within it.
    let (result, found) = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let (number, mask) = (descriptor.as_raw_fd(), libc::STATX_TYPE);
        (libc::statx(number, c"".as_ptr(), flags, mask, &raw mut found), found)
    };
    (result == 0).then(|| SFlag::from_bits_truncate(u32::from(found.stx_mode)) & SFlag::S_IFMT)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::net::UnixStream;

    use super::super::closer::kept;
    use super::*;

    /// How many of these are closed elsewhere when they are dropped here.
    fn elsewhere<T>(these: Vec<T>) -> usize {
        kept::begin();
        drop(these);
        kept::end()
    }

    /// Whatever was last looked at: a file may lose its name, and its last other
    /// descriptor, until it is closed here.
    #[test]
    fn no_file_that_somebody_passed_is_closed_by_who_drops_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = || OwnedFd::from(File::create(&path).unwrap());
        let named = Foreign::new(file());
        let unnamed = Foreign::new(file());
        fs::remove_file(&path).unwrap();
        let directory = Foreign::new(File::open(dir.path()).unwrap().into());
        let (socket, _other) = UnixStream::pair().unwrap();
        assert_eq!(elsewhere(vec![named, unnamed, directory, Foreign::new(socket.into())]), 4);
        let (pipe, _write) = nix::unistd::pipe().unwrap();
        let null = File::open("/dev/null").unwrap();
        assert_eq!(elsewhere(vec![Foreign::new(pipe), Foreign::new(null.into())]), 0);
    }

    #[test]
    fn the_files_of_a_call_are_told_to_be_closed_when_they_are() {
        let file = || Foreign::new(tempfile::tempfile().unwrap().into());
        let (pipe, _write) = nix::unistd::pipe().unwrap();
        assert!(HandedOn::close([Foreign::new(pipe)].into_iter()).is_closed());
        kept::begin();
        let mut handed = HandedOn::close([file(), file()].into_iter());
        assert!(!handed.is_closed());
        assert_eq!(kept::end(), 2);
        assert!(handed.is_closed());
    }

    #[test]
    fn what_has_lost_its_name_is_not_closed_by_who_found_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, place) = (dir.path().join("file"), dir.path().join("place"));
        fs::write(&file, "here").unwrap();
        fs::create_dir(&place).unwrap();
        let find = |path| Found::new(File::open(path).unwrap().into());
        let mut said = String::new();
        (&find(&file)).read_to_string(&mut said).unwrap();
        assert_eq!(said, "here");
        assert_eq!(elsewhere(vec![find(&file), find(&place)]), 0);
        let both = vec![find(&file), find(&place)];
        fs::remove_file(&file).unwrap();
        fs::remove_dir(&place).unwrap();
        assert_eq!(elsewhere(both), 2);
    }
}
