//! What bounds the processes of a call as a whole: the controllers `pids` and `memory`.
//!
//! Owns: having them in the server's part of the tree, and writing one cgroup's bounds.
//! The kernel gives them to no cgroup that has processes of its own, so the server goes
//! into a leaf. Must not: move any other process, or claim what is not in force.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::read;

/// As much as all processes of a call may have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Processes and threads.
    pub(crate) processes: Option<u64>,
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
}

impl Bounds {
    /// Whether there are any.
    pub(crate) fn is_none(&self) -> bool {
        *self == Bounds::default()
    }
}

/// Those that are to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Controllers {
    pub(super) pids: bool,
    pub(super) memory: bool,
}

const PIDS: &str = "pids";
const MEMORY: &str = "memory";

/// The leaf in which the server is where calls lie beside it.
pub(super) const LEAF: &str = "server";

impl Controllers {
    fn named_in(words: &str) -> Controllers {
        let has = |name: &str| words.split_ascii_whitespace().any(|word| word == name);
        Controllers { pids: has(PIDS), memory: has(MEMORY) }
    }

    /// Those of these bounds that hold for a call as a whole.
    pub(super) fn of(self, bounds: Bounds) -> Bounds {
        Bounds {
            processes: bounds.processes.filter(|_| self.pids),
            memory: bounds.memory.filter(|_| self.memory),
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [(self.pids, PIDS), (self.memory, MEMORY)];
        all.into_iter().filter_map(|(has, name)| has.then_some(name))
    }

    fn others(self) -> Controllers {
        Controllers { pids: !self.pids, memory: !self.memory }
    }

    /// As they are switched on.
    fn order(self) -> String {
        self.names().map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ")
    }

    fn covers(self, other: Controllers) -> bool {
        (self.pids || !other.pids) && (self.memory || !other.memory)
    }
}

/// Has the controllers in `tree`, a directory of the server's in `parent`. `inside`: the
/// server is in `parent` itself. Also says, for people, what is missing.
pub(super) fn arrange(parent: &Path, tree: &Path, inside: bool) -> (Controllers, Option<String>) {
    let there = Controllers::named_in(&read(&parent.join("cgroup.controllers")));
    let mut why = None;
    if there != Controllers::default()
        && let Err(failed) = enable(parent, tree, there, inside)
    {
        why = Some(failed);
    }
    let has = Controllers::named_in(&read(&tree.join("cgroup.subtree_control")));
    let lacks: Vec<&str> = has.others().names().collect();
    let missing = (!lacks.is_empty()).then(|| {
        let why = why.unwrap_or_else(|| {
            let parent = parent.display();
            format!(
                "not in {parent}/cgroup.controllers: mount the controllers in version 2 and \
                 delegate them to the server's cgroup (systemd: Delegate=yes)"
            )
        });
        format!(
            "cgroups: no bound of {} for a call as a whole, each process and each user have \
             theirs: {why}",
            lacks.join(", ")
        )
    });
    (has, missing)
}

fn enable(parent: &Path, tree: &Path, wanted: Controllers, inside: bool) -> Result<(), String> {
    let shown = parent.display();
    let on = Controllers::named_in(&read(&parent.join("cgroup.subtree_control")));
    if !on.covers(wanted) {
        // The root of all may have both, processes and controllers; it has no type.
        if parent.join("cgroup.type").exists() {
            if inside {
                let leaf = tree.join(LEAF);
                let moved = fs::create_dir(&leaf).and_then(|()| put(&leaf, "cgroup.procs", "0"));
                moved.map_err(|error| {
                    fs::remove_dir(&leaf).ok();
                    format!("the server cannot go into {}: {error}", leaf.display())
                })?;
            }
            if !read(&parent.join("cgroup.procs")).trim().is_empty() {
                if inside {
                    leave(parent, tree);
                }
                return Err(format!(
                    "{shown} holds other processes: start the server in a cgroup of its own \
                     (systemd: Delegate=yes; in a container: as its first process), or name an \
                     empty one"
                ));
            }
        }
        put(parent, "cgroup.subtree_control", &wanted.order())
            .map_err(|error| format!("{shown}/cgroup.subtree_control: {error}"))?;
    }
    put(tree, "cgroup.subtree_control", &wanted.order())
        .map_err(|error| format!("{}/cgroup.subtree_control: {error}", tree.display()))
}

/// Back from the leaf, where nothing came of it or the server ends: as far as that goes.
pub(super) fn leave(parent: &Path, tree: &Path) {
    let leaf = tree.join(LEAF);
    if leaf.exists() && put(parent, "cgroup.procs", "0").is_ok() {
        fs::remove_dir(leaf).ok();
    }
}

/// Takes the controllers away again, so that processes may be where the server was.
pub(super) fn disable(parent: &Path, tree: &Path, had: Controllers) {
    for place in [tree, parent] {
        for name in had.names() {
            put(place, "cgroup.subtree_control", &format!("-{name}")).ok();
        }
    }
}

/// Bounds a cgroup that nothing has run in.
pub(super) fn bound(group: &Path, bounds: Bounds) -> io::Result<()> {
    if let Some(processes) = bounds.processes {
        put(group, "pids.max", &processes.to_string())?;
    }
    if let Some(memory) = bounds.memory {
        put(group, "memory.max", &memory.to_string())?;
        // Where there is no swap, or no such file yet, there is nothing to be bounded.
        for (name, value) in [("memory.swap.max", "0"), ("memory.oom.group", "1")] {
            match put(group, name, value) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether the kernel has ended a process of it because it had all that it may have: not
/// for want of memory elsewhere.
pub(super) fn ran_out(group: &Path) -> bool {
    let events = read(&group.join("memory.events"));
    let counts = |name: &str| {
        let of = |line: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        events.lines().find_map(of).is_some_and(|count| count > 0)
    };
    counts("oom ") && counts("oom_kill ")
}

/// Files of the kernel's are there or not: none is made.
fn put(directory: &Path, name: &str, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(directory.join(name))?;
    file.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory that stands for a cgroup, with these files.
    fn stand(path: &Path, files: &[(&str, &str)]) -> PathBuf {
        fs::create_dir_all(path).unwrap();
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
        path.to_owned()
    }

    fn both(controllers: &str, procs: &str, kind: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let files = [
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", procs),
        ];
        stand(base.path(), &files);
        stand(base.path(), kind);
        let tree = stand(&base.path().join("tree"), &[("cgroup.subtree_control", "")]);
        (base, tree)
    }

    const DOMAIN: &[(&str, &str)] = &[("cgroup.type", "domain\n")];

    fn said(path: &Path, name: &str) -> String {
        fs::read_to_string(path.join(name)).unwrap()
    }

    #[test]
    fn controllers_are_switched_on_from_above_and_what_lacks_is_said() {
        // The root of all has processes and may have controllers; nobody is moved.
        let (base, tree) = both("cpu memory pids hugetlb\n", "1\n2\n", &[]);
        arrange(base.path(), &tree, true);
        for place in [base.path(), &tree] {
            assert_eq!(said(place, "cgroup.subtree_control"), "+pids +memory");
        }
        assert!(!tree.join(LEAF).exists());
        // What the kernel says then is what counts.
        fs::write(tree.join("cgroup.subtree_control"), "memory pids\n").unwrap();
        let enabled = Controllers::named_in(&said(&tree, "cgroup.subtree_control"));
        assert_eq!(enabled, Controllers { pids: true, memory: true });
        let (base, tree) = both("hugetlb\n", "", DOMAIN);
        let (has, missing) = arrange(base.path(), &tree, true);
        let missing = missing.unwrap();
        assert_eq!(has, Controllers::default());
        assert!(missing.contains("pids, memory") && missing.contains("Delegate=yes"), "{missing}");
        assert_eq!(said(base.path(), "cgroup.subtree_control"), "", "nothing was tried");
    }

    #[test]
    fn nothing_is_switched_on_over_the_heads_of_others_and_nobody_else_is_moved() {
        let (base, tree) = both("memory pids\n", "4242\n", DOMAIN);
        let (has, missing) = arrange(base.path(), &tree, false);
        assert_eq!(has, Controllers::default());
        assert!(missing.unwrap().contains("other processes"));
        // No leaf of that kind can be had here.
        let (has, missing) = arrange(base.path(), &tree, true);
        assert_eq!(has, Controllers::default());
        assert!(missing.unwrap().contains("cannot go into"));
        assert!(!tree.join(LEAF).exists());
        assert_eq!(said(base.path(), "cgroup.subtree_control"), "");
        assert_eq!(said(base.path(), "cgroup.procs"), "4242\n", "nobody was moved");
    }

    #[test]
    fn a_cgroup_is_bounded_as_a_whole_and_an_end_for_memory_is_seen() {
        let base = tempfile::tempdir().unwrap();
        let files = [("pids.max", "max"), ("memory.max", "max"), ("memory.swap.max", "max")];
        let group = stand(&base.path().join("call-0"), &files);
        let bounds = Bounds { processes: Some(7), memory: Some(4096) };
        bound(&group, bounds).unwrap();
        assert_eq!(said(&group, "pids.max"), "7");
        assert_eq!(said(&group, "memory.max"), "4096");
        assert_eq!(said(&group, "memory.swap.max"), "0");
        assert!(!group.join("memory.oom.group").exists(), "an older kernel's has none");
        fs::write(group.join("memory.oom.group"), "0").unwrap();
        bound(&group, bounds).unwrap();
        assert_eq!(said(&group, "memory.oom.group"), "1");
        // One that cannot be bounded is an error, not a call without bounds.
        fs::remove_file(group.join("memory.max")).unwrap();
        assert!(bound(&group, bounds).is_err());
        assert!(!ran_out(&group));
        fs::write(group.join("memory.events"), "low 0\noom 3\noom_kill 0\n").unwrap();
        assert!(!ran_out(&group));
        fs::write(group.join("memory.events"), "low 0\noom 0\noom_kill 1\n").unwrap();
        assert!(!ran_out(&group), "the machine's own want");
        fs::write(group.join("memory.events"), "low 0\noom 3\noom_kill 2\n").unwrap();
        assert!(ran_out(&group));
    }
}
