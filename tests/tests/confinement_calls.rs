//! Which system calls a confined tool can make, and who it is when it makes them.

mod confinement_help;

use confinement_help::{As, attempt, refused, start};

#[test]
fn what_reaches_beyond_files_is_refused() {
    for who in As::all() {
        let server = start(who);
        refused(&attempt(&server, &["calls"]), &["pair"]);
    }
}

#[test]
fn nobody_else_can_be_become_or_made() {
    for who in As::all() {
        let server = start(who);
        let own = server.path("ws/own");
        let mut got = attempt(&server, &["user", own.to_str().unwrap()]);
        let mut told = |name: &str| got.remove(name).unwrap_or_else(|| panic!("{name}"));
        let uid = who.tool_uid().to_string();
        assert_eq!(told("Uid"), [&uid[..]; 4].join(" "), "{who:?}");
        assert_eq!(told("Gid").split(' ').next(), Some(&uid[..]), "{who:?}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(told(set), "0000000000000000", "{who:?}");
        }
        assert_eq!((told("NoNewPrivs"), told("Seccomp")), ("1".into(), "2".into()));
        // 3 is the directory that it lists them from.
        assert_eq!(told("descriptors"), "0 1 2 3", "{who:?}");
        got.remove("Groups");
        refused(&got, &[]);
        for entry in std::fs::read_dir(own).unwrap() {
            use std::os::unix::fs::PermissionsExt;
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o4000, 0, "{mode:o}");
        }
    }
}
