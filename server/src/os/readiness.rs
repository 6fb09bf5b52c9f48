//! Waiting for a descriptor in the runtime.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::signals::Signals;

/// What owns its descriptor, and the same one for as long as it lives.
pub(crate) trait Own: AsRawFd {}

impl Own for OwnedFd {}
impl Own for Signals {}
impl Own for Arc<UnixStream> {}

/// Watches a descriptor.
pub(crate) fn watch<T: Own>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `Own`: the descriptor stays open and the same while `inner` lives,
    // and AsyncFd keeps it until it has stopped watching.
    unsafe { AsyncFd::register_with_interest(inner, interest) }.map_err(io::Error::from)
}
