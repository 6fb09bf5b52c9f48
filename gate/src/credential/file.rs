//! A credential in a file, read anew each time: whoever changes it is heard at once.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroizing;

use super::{CredentialError, LONGEST, Secret};

/// O_NONBLOCK: a pipe in the place of a file does not hold us.
const NONBLOCK: i32 = 0o4000;

/// Files that somebody was warned of already.
pub(super) type Warned = Mutex<HashSet<PathBuf>>;

/// The value; `None` where there is no such file.
pub(super) fn read(path: &Path, warned: &Warned) -> Result<Option<Secret>, CredentialError> {
    let error =
        |why: String| CredentialError::Unreadable { name: format!("file:{}", path.display()), why };
    let file = match OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path) {
        Ok(file) => file,
        Err(missing)
            if matches!(missing.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(other) => return Err(error(other.to_string())),
    };
    let about = file.metadata().map_err(|other| error(other.to_string()))?;
    if !about.is_file() {
        return Err(error("it is not a file".to_owned()));
    }
    let open = about.mode() & 0o006 != 0;
    if open && warned.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        tracing::warn!(path = %path.display(), "everybody on this machine may read or write this credential: chmod o= it");
    }
    // All the room at once: a vector that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 1));
    let bound = u64::try_from(LONGEST).unwrap_or(u64::MAX).saturating_add(1);
    file.take(bound).read_to_end(&mut bytes).map_err(|other| error(other.to_string()))?;
    match bytes.len() > LONGEST {
        true => Err(error(format!("it is longer than {LONGEST} bytes"))),
        false => Ok(Some(Secret::new(bytes))),
    }
}
