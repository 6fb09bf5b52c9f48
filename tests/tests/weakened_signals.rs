//! A kernel that does not hold signals: what runs there, and what does not.

use std::os::unix::fs::chown;

use serde_json::json;
use tool_broker_tests::binaries::weakened;
use tool_broker_tests::{Server, Setup, is_root, skipped};

/// Nobody's but this test's.
const NOBODYS: u32 = 64_323;

/// As on a kernel before Linux 6.12, whose Landlock knows nothing of signals.
fn without_scope(prepare: impl FnOnce(&mut Setup)) -> Server {
    Server::start(|setup| {
        setup.server(weakened());
        setup.env("TOOL_WEAKEN", "landlock-scope");
        setup.tool("sh", "binary = \"/bin/sh\"\ndefault = \"allow\"\n");
        prepare(setup);
    })
}

#[test]
fn where_signals_are_not_held_nothing_runs_as_the_servers_own_user() {
    let ordinary = |setup: &mut Setup| {
        if is_root() {
            setup.uid(NOBODYS);
        }
    };
    let ask = |server: &Server| {
        let script = format!("kill -0 {} && echo TOOK; echo ran", server.pid());
        let call = json!({"tool":"sh","args":["-c",script],"cwd":server.ws()});
        server.connect().call(&call)
    };
    let server = without_scope(|setup| {
        ordinary(setup);
        setup.env("TOOL_SANDBOX_LEVEL", "landlock");
    });
    let reply = ask(&server);
    assert_eq!(reply["code"], json!("confinement_unavailable"), "{reply}");
    let said = reply["error"].as_str().expect("a reason");
    assert!(said.contains("signals") && said.contains("6.12"), "{said}");
    let status = server.status();
    assert_eq!(status["confinement"]["level"], json!("none"), "{status}");
    assert!(status["attention"].to_string().contains("signals: a tool can"), "{status}");
    // Namespaces hold them.
    let server = without_scope(ordinary);
    if server.status()["confinement"]["level"] == json!("namespaces") {
        assert_eq!(ask(&server)["stdout"], json!("ran\n"));
        assert_eq!(server.status()["confinement"]["argv"], json!("hidden"));
    } else {
        skipped("namespaces", "this machine gives no user namespaces");
    }
    if !is_root() {
        return skipped("another user", "uids cannot be switched here");
    }
    // Another user reaches their own processes alone: allowed, and said.
    let server = without_scope(|setup| {
        chown(setup.ws(), Some(NOBODYS), Some(NOBODYS)).expect("chown");
        setup.env("TOOL_SANDBOX_LEVEL", "landlock");
    });
    assert_eq!(ask(&server)["stdout"], json!("ran\n"));
    let confinement = server.status()["confinement"].clone();
    assert_eq!(confinement["level"], json!("landlock"), "{confinement}");
    assert!(confinement["missing"].to_string().contains("signals: a tool can"), "{confinement}");
}
