//! A confined tool reaches no process but its own: not by signals, not by /proc, not
//! by debugging, not by limits or priorities.

mod confinement_help;

use std::process::{Command, Stdio};

use confinement_help::{As, attempt, refused, start};
use serde_json::json;
use std::os::unix::process::CommandExt;
use tool_broker_tests::{Server, eventually};

fn against(server: &Server, victim: i32) {
    refused(&attempt(server, &["others", &victim.to_string()]), &[]);
}

#[test]
fn other_processes_of_its_user_are_out_of_reach() {
    for who in As::all() {
        let server = start(who);
        let mut command = Command::new("sleep");
        command.arg("60").stdout(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            command.uid(who.tool_uid()).gid(who.tool_uid());
        }
        let mut victim = command.spawn().expect("sleep");
        against(&server, i32::try_from(victim.id()).unwrap());
        assert_eq!(victim.try_wait().unwrap(), None, "{who:?}");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
}

#[test]
fn the_server_is_out_of_reach() {
    for who in As::all() {
        let mut server = start(who);
        let victim = server.pid();
        against(&server, victim);
        assert!(server.is_running(), "{who:?}");
    }
}

#[test]
fn another_call_is_out_of_reach() {
    for who in As::all() {
        let server = start(who);
        let mut other = server.connect();
        let script = "echo $$ > pid.new; mv pid.new pid; exec sleep 60";
        other.send_json(&json!({"tool":"other","args":["-c",script],"cwd":server.ws()}));
        let pid = server.ws().join("pid");
        eventually("the other call runs", || pid.exists());
        let victim: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        against(&server, victim);
        assert!(std::path::Path::new(&format!("/proc/{victim}")).exists(), "{who:?}");
    }
}
