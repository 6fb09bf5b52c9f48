//! By what a definition is known again: SHA-256 of all that it was loaded from.
//!
//! Owns: the digest, and the order and form in which files go into it: for each
//! its name, and its bytes or their own digest. Must not: judge them.

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::uio::pread;
use sha2::{Digest, Sha256};

use super::error::LoadError;

/// Bytes that are read at once.
const PIECE: usize = 16_384;

/// A digest under way.
#[derive(Debug, Default)]
pub(super) struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a file that was read already.
    pub(super) fn text(&mut self, path: &Path, text: &str) {
        self.name(path);
        self.part(text.as_bytes());
    }

    /// Adds an open file, and leaves its position as it is.
    pub(super) fn file(&mut self, path: &Path, file: BorrowedFd<'_>) -> Result<(), LoadError> {
        self.name(path);
        let failed = |source| LoadError::Io { operation: "read", path: path.to_owned(), source };
        let mut own = Sha256::new();
        let mut piece = [0; PIECE];
        let mut at = 0;
        loop {
            let count = match pread(file, &mut piece, at) {
                Err(Errno::EINTR) => continue,
                other => other.map_err(failed)?,
            };
            if count == 0 {
                // Its length is not known before its end: its own digest says both.
                self.part(&own.finalize());
                return Ok(());
            }
            own.update(piece.get(..count).unwrap_or_default());
            at = at.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// The digest, in hex.
    pub(super) fn finish(self) -> String {
        let digits = self.0.finalize();
        digits.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Not where it lies: the same files elsewhere say the same.
    fn name(&mut self, path: &Path) {
        self.part(path.file_name().unwrap_or_default().as_bytes());
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(bytes);
    }
}
