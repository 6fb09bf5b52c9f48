//! Which repository a path means, and what is asked of it.
//!
//! Owns: taking the paths of smart HTTP and LFS and no others, one way only. A path
//! that two programs could read differently is none. Must not: decide.

use tool_policy::definition::gate::Gate;

/// A repository, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// OWNER/NAME, or fewer or more parts; without `.git`.
    pub repository: String,
    /// What is asked.
    pub what: What,
}

/// What is asked of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// What there is, before a fetch or a push.
    Refs(Service),
    /// The fetch or push itself.
    Talk(Service),
    /// Large files, with what follows `/info/lfs/`.
    Lfs(String),
}

/// One half of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Reads.
    Upload,
    /// Writes.
    Receive,
}

impl Service {
    /// As it is called on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::Upload => "git-upload-pack",
            Service::Receive => "git-receive-pack",
        }
    }

    fn parse(text: &str) -> Option<Service> {
        [Service::Upload, Service::Receive].into_iter().find(|one| one.as_str() == text)
    }
}

/// Why a path is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// Two programs could read it differently.
    #[error(
        "the path of this repository is not plain: use the address that the host shows, without %, //, . and .."
    )]
    NotPlain,
    /// No fetch, push or LFS.
    #[error(
        "only git's smart HTTP goes this way (info/refs, git-upload-pack, git-receive-pack, info/lfs): use git fetch or push"
    )]
    NotGit,
}

/// No path is longer.
const LONGEST: usize = 1024;

/// Reads path and query.
pub fn read(path: &str, query: Option<&str>) -> Result<Place, NoPlace> {
    let rest = path.strip_prefix('/').ok_or(NoPlace::NotPlain)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
    if rest.len() > LONGEST || !rest.chars().all(plain) {
        return Err(NoPlace::NotPlain);
    }
    if rest.split('/').any(is_nowhere) {
        return Err(NoPlace::NotPlain);
    }
    let asked = |service: &str| query == Some(&format!("service={service}"));
    let (repository, what) = if let Some((before, after)) = rest.split_once("/info/lfs/") {
        (before, What::Lfs(after.to_owned()))
    } else if let Some(before) = rest.strip_suffix("/info/refs") {
        let services = [Service::Upload, Service::Receive];
        let service = services.into_iter().find(|one| asked(one.as_str()));
        (before, What::Refs(service.ok_or(NoPlace::NotGit)?))
    } else {
        let (before, last) = rest.rsplit_once('/').ok_or(NoPlace::NotGit)?;
        (before, What::Talk(Service::parse(last).ok_or(NoPlace::NotGit)?))
    };
    if query.is_some() && matches!(what, What::Talk(_)) {
        return Err(NoPlace::NotGit);
    }
    // `x.git/y` lies in a repository; a dumb host would look there.
    let inside = |part: &str| part.ends_with(".git");
    let repository = repository.strip_suffix(".git").unwrap_or(repository);
    // `...git` is `..` without its ending.
    if repository.split('/').any(|part| is_nowhere(part) || inside(part)) {
        return Err(NoPlace::NotPlain);
    }
    Ok(Place { repository: repository.to_owned(), what })
}

/// No name: nothing, or dots alone.
fn is_nowhere(part: &str) -> bool {
    part.chars().all(|c| c == '.')
}

/// Hosts where letters of both sizes name one repository.
const FOLDING: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/// Whether letters of both sizes are the same in names at this host.
pub fn folds(host: &str) -> bool {
    FOLDING.contains(&host) || host.ends_with(".ghe.com")
}

/// Whether the gate has this repository.
pub fn is_listed(gate: &Gate, host: &str, repository: &str) -> bool {
    let fits = |pattern: &tool_policy::pattern::Pattern| match folds(host) {
        true => pattern.matches_folded(repository.as_bytes()),
        false => pattern.matches(repository.as_bytes()),
    };
    gate.repositories.is_empty() || gate.repositories.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLOAD: Option<&str> = Some("service=git-upload-pack");

    #[track_caller]
    fn place(path: &str, query: Option<&str>) -> (String, What) {
        let Place { repository, what } = read(path, query).unwrap_or_else(|e| panic!("{path} {e}"));
        (repository, what)
    }

    #[test]
    fn a_path_names_a_repository_and_a_service() {
        for path in ["/o/r/info/refs", "/o/r.git/info/refs"] {
            assert_eq!(place(path, UPLOAD), ("o/r".into(), What::Refs(Service::Upload)));
        }
        let push = Some("service=git-receive-pack");
        assert_eq!(place("/o/r/info/refs", push).1, What::Refs(Service::Receive));
        assert_eq!(place("/a/b/c/git-upload-pack", None).0, "a/b/c");
        assert_eq!(place("/r.git/git-upload-pack", None).0, "r");
        assert_eq!(place("/~me/r/git-receive-pack", None).1, What::Talk(Service::Receive));
        let lfs = place("/o/r.git/info/lfs/objects/batch", None);
        assert_eq!(lfs, ("o/r".into(), What::Lfs("objects/batch".into())));
        assert_eq!(place("/o/.github/git-upload-pack", None).0, "o/.github");
    }

    #[test]
    fn whatever_could_be_read_twice_is_refused() {
        for path in [
            "",
            "/",
            "//",
            "o/r/git-upload-pack",
            "//o/r/git-upload-pack",
            "/o//r/git-upload-pack",
            "/o/r/../s/git-upload-pack",
            "/o/./r/git-upload-pack",
            "/o/.../r/git-upload-pack",
            "/o/%2e%2e/git-upload-pack",
            "/o/r%2fs/git-upload-pack",
            "/o/r\\s/git-upload-pack",
            "/o/r;x/git-upload-pack",
            "/o/r.git/x/git-upload-pack",
            "/o/r .git/git-upload-pack",
            "/o/.git/git-upload-pack",
            "/o/...git/git-upload-pack",
            "/o/..git/git-upload-pack",
            "/o/r.git.git/git-upload-pack",
            "/o/ä/git-upload-pack",
            "/o/r.git/info/lfs/x/git-upload-pack/..",
            "/o/r/git-upload-pack/",
            "/info/refs/x",
        ] {
            assert!(read(path, None).is_err(), "{path}");
        }
        for path in [
            "/o/r/HEAD",
            "/o/r/objects/info/packs",
            "/o/r/objects/00/11",
            "/o/r",
            "/o/r/info/refs",
            "/o/r/git-upload-archive",
            "/git-upload-pack",
            "/o/r/GIT-UPLOAD-PACK",
        ] {
            assert_eq!(read(path, None), Err(NoPlace::NotGit), "{path}");
        }
        for query in [
            "",
            "service=",
            "service=git-upload-archive",
            "service=git-upload-pack&x=1",
            "x=1&service=git-upload-pack",
            "service=git-upload-pack&service=git-receive-pack",
            "service=git%2dupload-pack",
            "Service=git-upload-pack",
        ] {
            assert_eq!(read("/o/r/info/refs", Some(query)), Err(NoPlace::NotGit), "{query}");
        }
        assert!(read("/o/r/git-upload-pack", Some("service=git-receive-pack")).is_err());
    }
}
