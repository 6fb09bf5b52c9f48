//! What operators are told of paths: what tools reach and should not, what they do not
//! reach although a definition says so, what lies open.
//!
//! Must not: change what anybody reaches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::loose::Loose;
use super::{Confines, own};
use crate::broker::Workspace;
use crate::registry::{Snapshot, Tool, holds};

impl Confines {
    /// What tools reach although it is the server's own: a root holds it.
    pub(crate) fn exposed(&self, workspace: &Workspace) -> Vec<String> {
        let both = |root: &Path| {
            let hidden = self.hidden.iter().find(|hidden| holds(root, hidden))?;
            let (root, hidden) = (root.display(), hidden.display());
            Some(format!(
                "confinement: every tool reaches {hidden}, which is the server's own, because the \
                 workspace root {root} holds it: move one of them"
            ))
        };
        workspace.paths().filter_map(both).collect()
    }

    /// What definitions name and their tools do not reach, since another tool could put
    /// something else there.
    pub(crate) fn left_out(&self, workspace: &Workspace, snapshot: &Snapshot) -> Vec<String> {
        let of = |tool: &Arc<Tool>| {
            let all = Loose::of(workspace, &self.written, &tool.sandbox);
            let own = Loose::of_one(workspace, &tool.sandbox);
            let named = tool.sandbox.read.iter().chain(&tool.sandbox.write).chain([&tool.binary]);
            let lost = named.filter(|path| own.settles(path) && !all.settles(path));
            let line = |path: &PathBuf| {
                let (name, path) = (&tool.name, path.display());
                format!(
                    "{name}: {path} is out of its reach: it lies in a directory that another \
                     tool may write, and replace; list that directory, or move it"
                )
            };
            lost.map(line).collect::<Vec<_>>()
        };
        snapshot.tools.values().filter(|tool| tool.is_confined()).flat_map(of).collect()
    }

    /// Where tools are the server's own user: what of its files is open to others now.
    pub(crate) fn laid_open(&self) -> Vec<String> {
        own::laid_open(&self.state)
    }
}
