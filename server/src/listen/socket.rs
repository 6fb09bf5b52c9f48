//! A listening socket: made with its final mode, taken from a dead server,
//! taken over from systemd, removed at the end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt,
};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Group, chown};

/// Where to listen.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The socket's file.
    pub(crate) path: PathBuf,
    /// Its mode.
    pub(crate) mode: u32,
    /// Its group, by name or number; the server's own where unset.
    pub(crate) group: Option<String>,
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file that is ours to remove.
    ours: Option<(u64, u64)>,
}

/// Why there is no socket. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// Another server answers there.
    #[error("another server is listening at {0}: stop it, or choose another TOOL_SOCKET")]
    Live(PathBuf),
    /// Something else is there.
    #[error("{0} is there and is not a socket: move it away, or choose another TOOL_SOCKET")]
    Occupied(PathBuf),
    /// The kernel's words.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No such group.
    #[error("there is no group {0}: create it, or change the socket's group")]
    NoGroup(String),
}

fn io_error<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> SocketError {
    let path = path.to_owned();
    move |source| SocketError::Io { what, path, source: source.into() }
}

impl Listening {
    /// Whether another server answers at that place: an error then. For a word
    /// before anything is taken; `bind` looks again.
    pub(crate) fn check(place: &Place) -> Result<(), SocketError> {
        find(&place.path).map(|_nothing_or_dead| ())
    }

    /// Binds. Only for the start: it changes this process's umask for a moment.
    pub(crate) fn bind(place: &Place) -> Result<Listening, SocketError> {
        let path = &place.path;
        let directory = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory).map_err(io_error("create", directory))?;
        remove_dead(path)?;
        let group = place.group.as_deref().map(find_group).transpose()?;
        // The mode is right from the first moment; with another group, nobody
        // but the owner may connect before the group is set.
        let mode = if group.is_some() { 0o600 } else { place.mode };
        let old = umask(Mode::from_bits_truncate(0o777 & !mode));
        let bound = UnixListener::bind(path);
        umask(old);
        let listener = bound.map_err(io_error("listen at", path))?;
        if group.is_some() {
            chown(path, None, group).map_err(io_error("set the group of", path))?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(place.mode);
            std::fs::set_permissions(path, mode).map_err(io_error("set the mode of", path))?;
        }
        let found = std::fs::symlink_metadata(path).map_err(io_error("look at", path))?;
        Self::new(listener, path.clone(), Some((found.dev(), found.ino())))
    }

    /// Takes over a socket that listens already (socket activation).
    pub(crate) fn passed(descriptor: OwnedFd) -> Result<Listening, SocketError> {
        let listens = getsockopt(&descriptor, sockopt::AcceptConn).unwrap_or(false);
        let listener = UnixListener::from(descriptor);
        let unknown = Path::new("the socket from the service manager");
        let address = listener.local_addr().map_err(io_error("use", unknown))?;
        if !listens {
            return Err(io_error("listen at", unknown)(Errno::EINVAL));
        }
        let path = address.as_pathname().unwrap_or(unknown).to_owned();
        Self::new(listener, path, None)
    }

    fn new(
        listener: UnixListener,
        path: PathBuf,
        ours: Option<(u64, u64)>,
    ) -> Result<Listening, SocketError> {
        listener.set_nonblocking(true).map_err(io_error("use", &path))?;
        Ok(Listening { listener, path, ours })
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// To take connections from; it does not block.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Listening {
    /// Removes the file, if it still is the one that was made here.
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path).ok();
        if self.ours.is_some() && found.map(|found| (found.dev(), found.ino())) == self.ours {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

enum Found {
    Nothing,
    Dead,
}

/// What is at a path where a socket is to be. Never waits: what listens there
/// may be anybody's.
fn find(path: &Path) -> Result<Found, SocketError> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        other => other.map_err(io_error("look at", path))?,
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::Occupied(path.to_owned()));
    }
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let connected = UnixAddr::new(path).and_then(|address| {
        let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(probe.as_raw_fd(), &address)
    });
    match connected {
        Err(Errno::ECONNREFUSED) => Ok(Found::Dead),
        // EAGAIN: a full backlog is a server too.
        Ok(()) | Err(Errno::EAGAIN) => Err(SocketError::Live(path.to_owned())),
        Err(errno) => Err(io_error("look at", path)(errno)),
    }
}

fn remove_dead(path: &Path) -> Result<(), SocketError> {
    match find(path)? {
        Found::Nothing => Ok(()),
        Found::Dead => std::fs::remove_file(path).map_err(io_error("remove the dead socket", path)),
    }
}

fn find_group(name: &str) -> Result<Gid, SocketError> {
    if let Ok(number) = name.parse::<u32>() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => Err(SocketError::NoGroup(name.to_owned())),
    }
}
