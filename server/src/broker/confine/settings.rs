//! Files that tell a tool of its gate, where variables cannot: gh's configuration.
//!
//! Beneath `STATE_DIR/gate/TOOL`, of the server's user. Tools read them and cannot
//! change them: what one call wrote there would be in force for the next.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tool_gate::door;
use tool_protocol::{Code, Refusal};

use crate::registry::Tool;

/// Where gh connects to. Nothing is there: the call's own connection is made for it
/// before it asks for the path.
const SOCKET: &str = "/nonexistent/gate.sock";

/// The files of all tools.
#[derive(Debug)]
pub(super) struct Settings {
    directory: PathBuf,
    writing: Mutex<()>,
}

impl Settings {
    /// Files beneath `state`.
    pub(super) fn new(state: &Path) -> Settings {
        Settings { directory: state.join("gate"), writing: Mutex::default() }
    }

    /// Where a tool's files are, whether or not it has any.
    pub(super) fn path(&self, tool: &Tool) -> PathBuf {
        self.directory.join(&tool.name)
    }

    /// GH_CONFIG_DIR of a tool whose gates are gh's, with what belongs in there.
    pub(super) fn gh(&self, tool: &Tool) -> Result<Option<PathBuf>, Refusal> {
        let Some(files) = door::gh(&tool.gates, SOCKET) else { return Ok(None) };
        let place = self.path(tool);
        let written = || {
            directory(&self.directory)?;
            directory(&place)?;
            files.iter().try_for_each(|(name, text)| file(&place.join(name), text))
        };
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: io::Error| {
            let message = format!("{} cannot be written: {error}", place.display());
            Refusal::new(Code::SpawnFailed, message)
                .hint("the state directory has to be writable, and must not be full")
        };
        written().map_err(failed)?;
        Ok(Some(place))
    }
}

/// For everybody to read, whatever the server's umask.
fn directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(0o755)),
    }
}

/// Replaced whole where it is not so already: a call may be reading it.
fn file(path: &Path, text: &str) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    let next = path.with_extension("next");
    let mut opened: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&next)?;
    opened.write_all(text.as_bytes())?;
    opened.set_permissions(Permissions::from_mode(0o644))?;
    std::fs::rename(&next, path)
}
