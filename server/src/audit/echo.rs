//! The audit's lines once more, on stdout, for whoever collects what programs
//! print there. The file stays the truth.
//!
//! Owns: that nobody waits for a reader. Lines wait in a bounded buffer that a
//! thread of its own writes out; what finds no room there, or cannot be written,
//! is counted and not written. Must not: change a line, or write part of one
//! and then another.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// So many bytes wait for a reader; as many may be on their way to it.
const MOST: usize = 4 * 1024 * 1024;
/// Lines up to so many bytes go out together: a pipe takes them whole.
const TOGETHER: usize = 4096;
/// Buffers do not stay longer than that.
const KEPT: usize = 64 * 1024;
/// How long a server that stops waits for its reader.
const LAST: Duration = Duration::from_secs(1);

/// The way to stdout.
#[derive(Debug)]
pub(super) struct Echo {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    buffer: Mutex<Buffer>,
    more: Condvar,
    written: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Buffer {
    lines: Vec<u8>,
    /// The thread has lines that it has not written yet.
    busy: bool,
    stop: bool,
}

impl Echo {
    /// Starts the thread. It is never joined: a reader that stalls holds it.
    pub(super) fn start() -> io::Result<Echo> {
        Echo::to(io::stdout())
    }

    fn to(output: impl AsFd + Send + 'static) -> io::Result<Echo> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let run = move || write_out(&of_thread, &output);
        std::thread::Builder::new().name("audit-stdout".to_owned()).spawn(run)?;
        Ok(Echo { shared })
    }

    /// A line with its end, as it is in the file.
    pub(super) fn line(&self, line: &[u8]) {
        let mut buffer = self.shared.lock();
        if buffer.lines.len().saturating_add(line.len()) > MOST {
            drop(buffer);
            self.shared.dropped.fetch_add(1, Relaxed);
            return;
        }
        buffer.lines.extend_from_slice(line);
        let wake = !buffer.busy;
        drop(buffer);
        if wake {
            self.shared.more.notify_one();
        }
    }

    /// How many lines were not written, and never will be.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Relaxed)
    }

    /// Waits until everything is written, but not for long.
    pub(super) fn rest(&self) {
        let until = Instant::now() + LAST;
        let mut buffer = self.shared.lock();
        while buffer.busy || !buffer.lines.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.written.wait_timeout(buffer, left);
            buffer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.more.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until the other half is gone and all is written.
fn write_out(shared: &Shared, output: &impl AsFd) {
    let mut lines = Vec::new();
    let mut torn = false;
    while take(shared, &mut lines) {
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(piece(rest));
            rest = later;
            if let Err(left) = write_lines(output, piece, &mut torn) {
                shared.dropped.fetch_add(left, Relaxed);
            }
        }
    }
}

/// Waits for lines and takes them all; `false`: there will be none.
fn take(shared: &Shared, lines: &mut Vec<u8>) -> bool {
    lines.clear();
    lines.shrink_to(KEPT);
    let mut buffer = shared.lock();
    buffer.busy = false;
    shared.written.notify_all();
    while buffer.lines.is_empty() {
        if buffer.stop {
            return false;
        }
        buffer = shared.more.wait(buffer).unwrap_or_else(PoisonError::into_inner);
    }
    std::mem::swap(&mut buffer.lines, lines);
    buffer.busy = true;
    true
}

/// The length of the lines that go out together: whole ones, at least one.
fn piece(lines: &[u8]) -> usize {
    let ends =
        || lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let fitting = ends().take_while(|end| *end <= TOGETHER).last();
    fitting.or_else(|| ends().next()).unwrap_or(lines.len())
}

/// Writes whole lines, and waits for the reader. An error gives how many of them
/// are not out; what there is of a line that was begun is ended by the next one.
fn write_lines(output: &impl AsFd, lines: &[u8], torn: &mut bool) -> Result<(), u64> {
    if *torn {
        write_all(output, b"\n").map_err(|_written| count(lines))?;
        *torn = false;
    }
    write_all(output, lines).map_err(|written| {
        let (done, left) = lines.split_at(written.min(lines.len()));
        *torn = done.last().is_some_and(|byte| *byte != b'\n');
        count(left)
    })
}

fn count(lines: &[u8]) -> u64 {
    u64::try_from(lines.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u64::MAX)
}

/// An error gives how many bytes are out.
fn write_all(output: &impl AsFd, bytes: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match nix::unistd::write(output, rest) {
            Ok(count) => written = written.saturating_add(count),
            Err(Errno::EINTR) => {}
            // Whoever made it may have made it so.
            Err(Errno::EAGAIN) => {
                let mut ready = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut ready, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(_) => return Err(written),
                }
            }
            Err(_) => return Err(written),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    fn pipe() -> (File, File) {
        let (read, write) = nix::unistd::pipe().unwrap();
        (File::from(read), File::from(write))
    }

    #[test]
    fn lines_that_go_out_together_are_whole_and_no_longer_than_a_pipe_takes() {
        let long = [vec![b'x'; TOGETHER], b"\n".to_vec()].concat();
        assert_eq!(piece(b"a\nbc\n"), 5);
        assert_eq!(piece(&[b"a\n", long.as_slice()].concat()), 2);
        assert_eq!(piece(&[long.as_slice(), b"a\n"].concat()), long.len());
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_rest_comes_out_in_order() {
        let (mut read, write) = pipe();
        let echo = Echo::to(write).unwrap();
        let line = |number: u64| format!("{number:01023}\n");
        let all = 12 * 1024;
        for number in 0..all {
            echo.line(line(number).as_bytes());
        }
        let dropped = echo.dropped();
        assert!(dropped >= all - 8 * 1024 - 64, "{dropped}");
        drop(echo);
        let mut out = String::new();
        read.read_to_string(&mut out).unwrap();
        let numbers: Vec<u64> = out.lines().map(|line| line.parse().unwrap()).collect();
        assert!(numbers.is_sorted() && out.lines().all(|line| line.len() == 1023));
        assert_eq!(numbers.len() as u64 + dropped, all);
    }

    #[test]
    fn without_a_reader_every_line_is_counted() {
        let (read, write) = pipe();
        drop(read);
        let echo = Echo::to(write).unwrap();
        for _ in 0..10 {
            echo.line(b"x\n");
        }
        echo.rest();
        assert_eq!(echo.dropped(), 10);
    }
}
