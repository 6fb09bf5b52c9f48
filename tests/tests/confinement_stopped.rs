//! Before it executes, a child is the owner's already, who can stop it: and the
//! server waits for it then, but not for long.

use std::time::{Duration, Instant};

use serde_json::json;
use tool_broker_tests::attacks::stopper::{attacker, server};

/// Nobody's but this test's: every process of it is stopped over and over.
const STOPPED: u32 = 64_321;

#[test]
fn an_owner_who_stops_children_does_not_stop_the_server() {
    if !nix::unistd::geteuid().is_root() {
        return; // it cannot be somebody else
    }
    let server = server(STOPPED, |_| {});
    let mut attacker = attacker(STOPPED);
    let mut longest = Duration::ZERO;
    while attacker.try_wait().expect("wait").is_none() {
        // Not waited for: their tools are stopped too, which is their owner's affair.
        let mut call = server.connect();
        call.send_json(&json!({"tool":"true","cwd":server.ws()}));
        let began = Instant::now();
        server.status();
        longest = longest.max(began.elapsed());
    }
    // A child is let go on ten times in a fifth of a second, and then ended; on a busy
    // machine one after the other may take longer, but none takes for ever.
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    // At once where there is nobody to stop it.
    let reply = server.connect().call(&json!({"tool":"true","cwd":server.ws()}));
    assert_eq!(reply["exit_code"], json!(0), "{reply}");
}
