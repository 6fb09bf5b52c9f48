//! Where each tool keeps what it keeps: `STATE_DIR/home/TOOL`, its HOME.
//!
//! Made when it is first needed, mode 0700, and left there for the next start.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tool_protocol::{Code, Refusal};

/// The HOMEs of all tools.
#[derive(Debug)]
pub(crate) struct Homes {
    directory: PathBuf,
}

impl Homes {
    /// HOMEs beneath `state`.
    pub(crate) fn new(state: &Path) -> Homes {
        Homes { directory: state.join("home") }
    }

    /// The HOME of a tool, whether or not it is there.
    pub(crate) fn path(&self, tool: &str) -> PathBuf {
        self.directory.join(tool)
    }

    /// The HOME of a tool, there.
    pub(crate) fn ensure(&self, tool: &str) -> Result<PathBuf, Refusal> {
        let path = self.path(tool);
        if !path.is_dir() {
            make(&self.directory).and_then(|()| make(&path)).map_err(|error| {
                let message = format!("cannot make the tool's HOME {}: {error}", path.display());
                Refusal::new(Code::StateUnavailable, message)
            })?;
        }
        Ok(path)
    }
}

fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}
