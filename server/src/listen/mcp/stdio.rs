//! A session on standard input and output, for a client that starts this program.
//!
//! Owns: the runtime of that process. Must not: be a second server: every call goes to the
//! one that runs, over its socket.

use std::io;
use std::path::{Path, PathBuf};

use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;

use super::remote::{Connect, Remote};
use super::service::Service;

/// Bytes of one message of the client's.
const LINE: usize = 32 * 1024 * 1024;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StdioError {
    /// Nobody is at the socket.
    #[error("no server answers at {path}: {source}; start `tool-server serve`, or set TOOL_SOCKET", path = .path.display())]
    NoServer {
        /// The socket.
        path: PathBuf,
        /// What was said.
        source: io::Error,
    },
    /// No runtime.
    #[error("cannot begin: {0}")]
    Runtime(#[from] io::Error),
}

/// Until the client closes its end.
pub(crate) fn serve_stdio(socket: &Path, connect: Connect) -> Result<(), StdioError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let ended = runtime.block_on(serve(socket, connect));
    // A read that is under way does not hold up the end.
    runtime.shutdown_background();
    ended
}

async fn serve(socket: &Path, connect: Connect) -> Result<(), StdioError> {
    let failed = |source| StdioError::NoServer { path: socket.to_path_buf(), source };
    let remote = Remote::open(socket.to_path_buf(), connect).await.map_err(failed)?;
    let (input, output) = stdio_pipes();
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LINE);
    // A client that leaves before it has said anything is no failure.
    if let Ok(running) = rmcp::serve_server(Service::new(remote), transport).await {
        running.waiting().await.ok();
    }
    Ok(())
}
