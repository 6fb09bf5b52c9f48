//! The chain as it is written: the file that is current, room in it, rotation.
//!
//! Owns: that a line is whole or not there, that room which was promised is
//! there, and that each line names the digest of the one before it. Must not:
//! know what is in a line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::files::{self, CURRENT, NEW};
use super::json;
use super::read::{Hash, hash};

/// Room is taken in such steps; where that is not to be had, in smaller ones.
const STEP: u64 = 256 * 1024;
const SMALL_STEP: u64 = 4096;

/// Beyond a line's own members: its number, its digest.
const AROUND: usize = 128;

/// The end of the chain.
#[derive(Debug)]
pub(super) struct Trail {
    directory: PathBuf,
    file: Arc<File>,
    /// Where the next line goes.
    pub(super) length: u64,
    /// Up to here there is room on the disk.
    room: u64,
    /// Whether the file system can give room ahead.
    pub(super) reserves: bool,
    /// The number of the file's first line.
    first: u64,
    /// The number of the last line of all.
    pub(super) seq: u64,
    /// The digest of that line.
    pub(super) head: Hash,
    line: Vec<u8>,
}

/// How much room a line of that many bytes takes at most.
pub(super) fn line_room(text: usize) -> u64 {
    u64::try_from(text.saturating_add(AROUND)).unwrap_or(u64::MAX)
}

impl Trail {
    /// Goes on behind line `seq` in a file whose first line has the number `first`.
    pub(super) fn new(
        directory: PathBuf,
        file: File,
        length: u64,
        first: u64,
        (seq, head): (u64, Hash),
    ) -> Trail {
        let file = Arc::new(file);
        let (room, reserves, line) = (length, true, Vec::new());
        Trail { directory, file, length, room, reserves, first, seq, head, line }
    }

    /// The file that is current.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Whether it is sure that so many bytes can be written, or never is.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.length.saturating_add(bytes) <= self.room || !self.reserves
    }

    /// Makes sure that so many bytes can be written.
    pub(super) fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if self.has_room(bytes) {
            return Ok(());
        }
        let wanted = self.length.saturating_add(bytes);
        match allocate(&self.file, self.room, wanted, STEP) {
            Ok(Some(room)) => self.room = room,
            Ok(None) => {
                self.reserves = false;
                tracing::warn!(
                    directory = %self.directory.display(),
                    "the file system keeps no room for the audit: what does not fit is kept in memory"
                );
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Writes one line. `text` is its members, each with a comma before it. Gives
    /// back the whole of it, with its end.
    pub(super) fn append(&mut self, text: &[u8]) -> io::Result<&[u8]> {
        let seq = self.seq.saturating_add(1);
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        // One long line is no reason to hold so much memory.
        line.shrink_to(8 * 1024);
        line.extend_from_slice(b"{\"seq\":");
        json::digits(&mut line, seq, 1);
        line.extend_from_slice(text);
        json::text(&mut line, "prev", Some(&self.head));
        line.push(b'}');
        let head = hash(&line);
        line.push(b'\n');
        let written = write_whole(&self.file, &line, self.length);
        if written.is_ok() {
            self.length = self.length.saturating_add(u64::try_from(line.len()).unwrap_or(0));
            (self.seq, self.head) = (seq, head);
        }
        self.line = line;
        written.map(|()| self.line.as_slice())
    }

    /// Whether a line of so many bytes belongs into another file.
    pub(super) fn is_full(&self, bytes: u64, most: u64) -> bool {
        self.length > 0 && self.length.saturating_add(bytes) > most
    }

    /// Goes on in another file, in which there is room for so many bytes. Gives
    /// back the one that is complete. Where this fails, nothing has changed.
    pub(super) fn rotate(&mut self, bytes: u64) -> io::Result<Arc<File>> {
        let (current, new) =
            (self.directory.join(CURRENT), self.directory.join(format!("{CURRENT}{NEW}")));
        let file = files::make(&new)?;
        let room = match allocate(&file, 0, bytes, STEP) {
            Ok(room) => room,
            Err(errno) => {
                std::fs::remove_file(&new).ok();
                return Err(errno.into());
            }
        };
        let complete = self.directory.join(files::rotated(self.first));
        // That it is not there: it got its other name, and the next step failed.
        match rename_anew(&current, &complete) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                std::fs::remove_file(&new).ok();
                return Err(error);
            }
            _ => {}
        }
        if let Err(error) = std::fs::rename(&new, &current) {
            std::fs::rename(&complete, &current).ok();
            return Err(error);
        }
        // Room that was kept and is not needed.
        self.file.set_len(self.length).ok();
        let old = std::mem::replace(&mut self.file, Arc::new(file));
        (self.length, self.first) = (0, self.seq.saturating_add(1));
        (self.room, self.reserves) = (room.unwrap_or(0), room.is_some());
        Ok(old)
    }

    /// Whether the file is where whoever reads the audit looks for it.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        let own = files::identity(&self.file)?;
        Ok(files::identity_of(&self.directory.join(CURRENT))? == Some(own))
    }

    /// Puts it back there: somebody has removed it, or has put another file in its
    /// place, which is kept beside. All of it is still open here.
    pub(super) fn put_back(&mut self) -> io::Result<()> {
        let path = self.directory.join(CURRENT);
        let new = self.directory.join(format!("{CURRENT}{NEW}"));
        let file = files::make(&new)?;
        let mut at = 0;
        let mut block = vec![0; 64 * 1024];
        while at < self.length {
            let length = usize::try_from(self.length - at).unwrap_or(usize::MAX).min(block.len());
            let piece = block.get_mut(..length).unwrap_or_default();
            self.file.read_exact_at(piece, at)?;
            file.write_all_at(piece, at)?;
            at = at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        }
        match std::fs::rename(&path, self.directory.join(format!("{CURRENT}.foreign"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::rename(&new, &path)?;
        self.file = Arc::new(file);
        self.room = self.length;
        Ok(())
    }

    /// Gives back the room that was kept.
    pub(super) fn release(&mut self) {
        if self.file.set_len(self.length).is_ok() {
            self.room = self.length;
        }
    }
}

/// Writes a part of a file once more, and makes it last: after an error the
/// kernel may take pages for written that are not.
pub(super) fn write_again(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    let mut block = vec![0; 64 * 1024];
    while at < to {
        let length = usize::try_from(to - at).unwrap_or(usize::MAX).min(block.len());
        let piece = block.get_mut(..length).unwrap_or_default();
        file.read_exact_at(piece, at)?;
        file.write_all_at(piece, at)?;
        at = at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
    file.sync_data()
}

/// No name is taken from another file.
fn rename_anew(from: &Path, to: &Path) -> io::Result<()> {
    if to.try_exists()? && from.try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    std::fs::rename(from, to)
}

/// All of it, or nothing.
pub(super) fn write_whole(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let outcome = match file.write_at(bytes, at) {
        Ok(count) if count == bytes.len() => return Ok(()),
        // The rest tells why.
        Ok(count) => {
            let rest = bytes.get(count..).unwrap_or_default();
            file.write_all_at(rest, at.saturating_add(u64::try_from(count).unwrap_or(0)))
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => file.write_all_at(bytes, at),
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        // What got there is taken back; if not, the next line is written over it.
        file.set_len(at).ok();
    }
    outcome
}

/// Takes room for a file from `from` to `to`, and up to a whole step where there
/// is; up to where, is given back. `None`: the file system cannot.
pub(super) fn allocate(file: &File, from: u64, to: u64, step: u64) -> Result<Option<u64>, Errno> {
    use Errno::{EINTR, EINVAL, ENODEV, ENOSYS, EOPNOTSUPP, EPERM};
    let mut last = Errno::ENOSPC;
    for step in [step, SMALL_STEP] {
        let end = to.div_ceil(step).saturating_mul(step);
        let (offset, length) = (i64::try_from(from), i64::try_from(end.saturating_sub(from)));
        let (Ok(offset), Ok(length)) = (offset, length) else { return Err(Errno::EFBIG) };
        loop {
            match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset, length.max(1)) {
                Ok(()) => return Ok(Some(end)),
                Err(EINTR) => {}
                Err(EOPNOTSUPP | ENOSYS | EPERM | EINVAL | ENODEV) => return Ok(None),
                Err(errno) => {
                    last = errno;
                    break;
                }
            }
        }
    }
    Err(last)
}
