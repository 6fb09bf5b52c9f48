//! An owner of the workspace who stops every process that becomes theirs, over and over:
//! children of the server too, in the moment before they execute.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::{Server, Setup};

/// A server whose `true` runs as that user, who is nobody else's.
pub fn server(uid: u32, prepare: impl FnOnce(&mut Setup)) -> Server {
    Server::start(|setup| {
        setup.tool("true", "binary = \"/bin/true\"\ntimeout = 1\n");
        chown(setup.ws(), Some(uid), Some(uid)).expect("chown");
        fs::set_permissions(setup.ws(), Permissions::from_mode(0o755)).expect("chmod");
        prepare(setup);
    })
}

/// That user, for two seconds.
pub fn attacker(uid: u32) -> Child {
    let script = "import os, signal, time\nend = time.time() + 2\n\
                  while time.time() < end:\n try: os.kill(-1, signal.SIGSTOP)\n except OSError: pass";
    let mut attacker = Command::new("python3");
    attacker.args(["-c", script]).uid(uid).gid(uid);
    crate::sys::die_with_parent(&mut attacker);
    attacker.spawn().expect("python3")
}

/// Whether the server answers nobody any more because of that, who tries so often at most.
pub fn stops_a_server(uid: u32, tries: usize, prepare: impl FnOnce(&mut Setup)) -> bool {
    let server = server(uid, prepare);
    (0..tries).any(|_| stopped(&server, uid))
}

fn stopped(server: &Server, uid: u32) -> bool {
    let mut attacker = attacker(uid);
    let mut answered = true;
    while answered && attacker.try_wait().expect("wait").is_none() {
        // Not waited for: their tools are stopped too, which is their owner's affair.
        let mut call = server.connect();
        call.send_json(&json!({"tool":"true","cwd":server.ws()}));
        answered = answers(server);
    }
    attacker.kill().ok();
    attacker.wait().expect("wait");
    // Nobody stops anything now.
    !answers(server)
}

fn answers(server: &Server) -> bool {
    let mut status = server.verb(&["status"]);
    let mut status = status.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("status");
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        if let Some(done) = status.try_wait().expect("wait") {
            return done.success();
        }
        if Instant::now() > deadline {
            status.kill().ok();
            status.wait().expect("wait");
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
