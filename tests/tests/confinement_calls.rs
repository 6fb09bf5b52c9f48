//! Which system calls a confined tool can make, and who it is when it makes them.

mod confinement_help;

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use confinement_help::{As, ORDINARY, attempt, refused, start};
use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Server, Setup, skipped};

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
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o4000, 0, "{mode:o}");
        }
    }
}

#[test]
fn without_a_power_that_it_takes_the_user_is_shared_and_calls_run() {
    if !nix::unistd::geteuid().is_root() {
        return skipped(
            "without_a_power_that_it_takes_the_user_is_shared_and_calls_run",
            "only root has powers to be without",
        );
    }
    for power in ["-chown", "-dac_override", "-kill"] {
        let setup = Setup::new();
        setup.tool("who", "binary = \"/usr/bin/id\"\n");
        chown(setup.ws(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        // It writes there, and a root without powers is the owner of nothing.
        std::fs::set_permissions(setup.ws(), Permissions::from_mode(0o777)).unwrap();
        let mut command = setup.command(Path::new("/usr/bin/setpriv"));
        command.args(["--bounding-set", power, "--"]).arg(&binaries().server).arg("serve");
        let server = Server::start_command(setup, command);
        assert_eq!(server.status()["confinement"]["uid"], "shared", "without {power}");
        let call = json!({"tool": "who", "args": ["-u"], "cwd": server.ws()});
        assert_eq!(server.connect().call(&call)["stdout"], "0\n", "without {power}");
    }
}
