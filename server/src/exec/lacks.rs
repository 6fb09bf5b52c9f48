//! Namespaces that cannot be had: why, and what to do about it, for people.
//!
//! Owns: the words. Must not: try anything.

use nix::errno::Errno;

use crate::os::identity::{is_bare_root, is_filtered};

/// Namespaces are there, but a /proc of their own cannot be mounted in them.
pub(super) const WITHOUT_PROC: &str = "a /proc of its own for calls with a gate: they see the \
    names of others' processes: the container masks parts of its /proc: podman --security-opt \
    'unmask=/proc/*', docker --security-opt systempaths=unconfined (compose.yaml: SERVER_PROC)";

/// What of the server's process decides on namespaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// It is root, and may not give a namespace that user.
    bare_root: bool,
    /// A seccomp filter holds it, as in a container.
    filtered: bool,
}

impl Place {
    pub(super) fn here() -> Place {
        Place { bare_root: is_bare_root(), filtered: is_filtered() }
    }
}

/// Why calls have no namespaces.
pub(super) fn without_namespaces(errno: Errno, place: Place) -> String {
    let mut options = Vec::new();
    if errno == Errno::ENOSPC {
        options.push("raise the machine's sysctl user.max_user_namespaces");
    } else {
        if place.bare_root {
            options.push(
                "as root the server needs the capability SETFCAP (deploy/compose.root.yaml; \
                 docker, podman: --cap-add SETFCAP), or let it run as the ordinary user who owns \
                 the workspace",
            );
        }
        if place.filtered {
            options.push(
                "let the container's seccomp profile allow clone, unshare and mount: \
                 --security-opt seccomp=deploy/seccomp.json (compose.yaml: SERVER_SECCOMP)",
            );
        }
        options.push(
            "let the machine make user namespaces for ordinary users (sysctls \
             user.max_user_namespaces, kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns)",
        );
    }
    format!("namespaces: {}: {}", errno.desc(), options.join("; or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEITHER: Place = Place { bare_root: false, filtered: false };

    #[test]
    fn what_lacks_for_namespaces_is_told_by_where_the_server_runs() {
        let of = |errno, place| without_namespaces(errno, place);
        let plain = of(Errno::EPERM, NEITHER);
        assert!(plain.starts_with("namespaces: Operation not permitted: let the machine make"));
        let root = of(Errno::EPERM, Place { bare_root: true, ..NEITHER });
        assert!(root.contains("SETFCAP") && !root.contains("seccomp"), "{root}");
        let filtered = of(Errno::EPERM, Place { filtered: true, ..NEITHER });
        assert!(filtered.contains("seccomp=deploy/seccomp.json"), "{filtered}");
        assert!(!filtered.contains("SETFCAP"), "{filtered}");
        let full = of(Errno::ENOSPC, Place { bare_root: true, filtered: true });
        assert_eq!(
            full,
            "namespaces: No space left on device: raise the machine's sysctl \
             user.max_user_namespaces"
        );
    }
}
