//! Where a client works: its roots.
//!
//! Owns: the one use that is made of them: the first that lies in the workspace is the
//! directory of calls that name none. Must not: let a root open anything: the broker opens
//! that directory as it opens any that a caller names.

use std::time::Duration;

use rmcp::model::Root;
use tokio::sync::watch;
use tokio::time::timeout;

use super::uri;

/// How long a call waits for the client to say where it works.
const WAIT: Duration = Duration::from_secs(1);

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nobody was asked.
    #[default]
    Nothing,
    /// The answer is under way.
    Asked,
    /// The directory.
    At(String),
}

/// Of one session.
#[derive(Debug, Default)]
pub(super) struct Roots(watch::Sender<Known>);

impl Roots {
    /// The client is asked.
    pub(super) fn ask(&self) {
        self.0.send_replace(Known::Asked);
    }

    /// What it said; nothing where it did not.
    pub(super) fn answer(&self, roots: &[Root], workspaces: &[String]) {
        let chosen = choose(roots.iter().map(|root| root.uri.as_str()), workspaces);
        self.0.send_replace(chosen.map_or(Known::Nothing, Known::At));
    }

    /// It was wrong.
    pub(super) fn forget(&self) {
        self.0.send_replace(Known::Nothing);
    }

    /// The directory for a call that names none.
    pub(super) async fn directory(&self) -> Option<String> {
        let mut known = self.0.subscribe();
        let known = timeout(WAIT, known.wait_for(|known| *known != Known::Asked)).await;
        match known {
            Ok(Ok(known)) => match &*known {
                Known::At(directory) => Some(directory.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The first root that is a directory beneath one of the workspace's, by name. Nothing is
/// decided by that: the broker opens it beneath the workspace, or refuses it.
fn choose<'a>(roots: impl Iterator<Item = &'a str>, workspaces: &[String]) -> Option<String> {
    let mut paths = roots.filter_map(uri::path);
    paths.find(|path| {
        let straight = path.split('/').all(|part| part != "..");
        straight
            && workspaces.iter().any(|workspace| {
                let workspace = workspace.trim_end_matches('/');
                let rest = path.strip_prefix(workspace);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_root_in_the_workspace_is_chosen_and_none_beside_it() {
        let workspaces = ["/workspace".to_owned()];
        let chosen = |roots: &[&str]| choose(roots.iter().copied(), &workspaces);
        assert_eq!(
            chosen(&["file:///home/me", "file:///workspace/app", "file:///workspace"]).as_deref(),
            Some("/workspace/app")
        );
        let none =
            ["file:///workspaces", "file:///workspace/../etc", "https://workspace/", "file:///"];
        for root in none {
            assert_eq!(chosen(&[root]), None, "{root}");
        }
        assert_eq!(chosen(&["file:///workspace"]).as_deref(), Some("/workspace"));
    }
}
