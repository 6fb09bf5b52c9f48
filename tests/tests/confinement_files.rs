//! A confined tool reads the system and its own, writes its own alone, and nothing
//! that it is told in arguments, links or descriptors changes that.

mod confinement_help;

use std::fs;

use confinement_help::{As, attempt, is_whole, prepare, refused, start};
use serde_json::json;

#[test]
fn nothing_outside_is_read_or_written() {
    for who in As::all() {
        let server = start(who);
        let own = server.path("ws/own");
        // Beside the workspace, in HOMEs of others, in the server's own state.
        for outside in ["outside", "state/outside", "state/home/other"] {
            let outside = server.path(outside);
            prepare(&outside, who.tool_uid());
            let words = ["files", outside.to_str().unwrap(), own.to_str().unwrap()];
            refused(&attempt(&server, &words), &[]);
            assert!(is_whole(&outside), "{who:?} {outside:?}");
            for name in fs::read_dir(&own).unwrap() {
                fs::remove_file(name.unwrap().path()).unwrap();
            }
        }
    }
}

#[test]
fn secrets_and_sockets_are_out_of_sight() {
    for who in As::all() {
        let server = start(who);
        let secret = server.path("run/secret");
        fs::write(&secret, "canary").unwrap();
        let paths =
            ["/etc/shadow", "/etc/sudoers", "/root", "/etc/ssh", "/var/log", "/tmp", "/", "/home"];
        let own = ["run", "run/secret", "state", "tools.d", "tools.d/sh/tool.json", "server.log"];
        let own = own.map(|name| server.path(name).to_str().unwrap().to_owned());
        let script = "for f in \"$@\"; do cat \"$f\" || ls \"$f/\"; done 2>/dev/null";
        let mut args = vec!["-c", script, "sh"];
        args.extend(paths.into_iter().chain(own.iter().map(String::as_str)));
        let reply = server.connect().call(&json!({"tool":"other","args":args,"cwd":server.ws()}));
        assert_eq!(reply["stdout"], json!(""), "{who:?} {reply}");
    }
}

#[test]
fn what_is_ordinary_goes_on() {
    for who in As::all() {
        let server = start(who);
        let own = server.path("ws/own");
        let got = attempt(&server, &["ordinary", own.to_str().unwrap()]);
        for (name, what) in &got {
            assert!(what.starts_with("done"), "{who:?} {name}: {what}");
        }
        assert!(got.len() >= 9, "{got:?}");
    }
}
