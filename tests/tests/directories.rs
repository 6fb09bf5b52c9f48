//! A call runs beneath a workspace root, in the directory that was opened, or
//! not at all.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use tool_broker_tests::{Server, eventually, run, still_works};

fn call(server: &Server, cwd: impl AsRef<Path>, script: &str) -> Value {
    server.connect().call(&json!({"tool":"sh","args":["-c",script],"cwd":cwd.as_ref()}))
}

#[track_caller]
fn refuses(server: &Server, cwd: impl AsRef<Path>, code: &str) {
    let cwd = cwd.as_ref();
    let reply = call(server, cwd, "touch ran; pwd -P");
    assert_eq!(reply["code"], json!(code), "{}: {reply}", cwd.display());
    assert_eq!(reply["exit_code"], json!(125), "{}: {reply}", cwd.display());
    assert!(
        !server.ws().join("ran").exists() && !cwd.join("ran").exists(),
        "it ran: {}",
        cwd.display()
    );
}

#[test]
fn a_directory_that_is_not_there_is_an_error_never_the_root() {
    let server = Server::start(|_| ());
    fs::write(server.ws().join("file"), "").expect("write");
    symlink("nowhere", server.ws().join("dangling")).expect("symlink");
    symlink("loop", server.ws().join("loop")).expect("symlink");
    for name in ["missing", "missing/deeper", "file", "file/deeper", "dangling", "loop"] {
        refuses(&server, server.ws().join(name), "cwd_not_found");
    }
    let long = server.ws().join("x".repeat(300));
    refuses(&server, long, "cwd_not_found");
    still_works(&server);
}

#[test]
fn a_directory_outside_the_roots_is_refused() {
    let server = Server::start(|s| {
        fs::create_dir(s.path("ws-evil")).expect("mkdir");
        fs::create_dir(s.path("w")).expect("mkdir");
    });
    let ws = server.ws();
    for path in [
        "/".into(),
        "/tmp".into(),
        "/proc/self/root".into(),
        "/no/such/directory".into(),
        server.dir().to_path_buf(),
        server.path("ws-evil"),
        server.path("w"),
        server.path("state"),
        ws.join(".."),
        ws.join("../ws-evil"),
        ws.join("../../../../../.."),
        format!("/proc/self/root{}", ws.display()).into(),
        "/proc/self/cwd".into(),
        format!("{}-evil", ws.display()).into(),
    ] {
        refuses(&server, path, "cwd_outside");
    }
}

#[test]
fn a_link_out_of_the_roots_is_refused_and_one_within_is_not() {
    let server = Server::start(|s| {
        fs::create_dir_all(s.path("outside/deep")).expect("mkdir");
        fs::create_dir_all(s.path("ws/real/deep")).expect("mkdir");
    });
    let ws = server.ws();
    symlink("../outside", ws.join("relative")).expect("symlink");
    symlink(server.path("outside"), ws.join("absolute")).expect("symlink");
    symlink("/", ws.join("root")).expect("symlink");
    symlink("/proc/self/root", ws.join("magic")).expect("symlink");
    symlink("relative", ws.join("chain")).expect("symlink");
    symlink("real", ws.join("within")).expect("symlink");
    symlink("../real/../real/deep", ws.join("real/back")).expect("symlink");
    for name in [
        "relative",
        "absolute",
        "root",
        "magic",
        "chain",
        "relative/deep",
        "absolute/deep",
        "root/tmp",
        "chain/deep",
    ] {
        refuses(&server, ws.join(name), "cwd_outside");
    }
    let canonical = fs::canonicalize(&ws).expect("ws");
    for (name, wanted) in [
        ("within", "real"),
        ("within/deep", "real/deep"),
        ("real/back", "real/deep"),
        ("real/../real", "real"),
    ] {
        let reply = call(&server, ws.join(name), "pwd -P");
        let wanted = format!("{}\n", canonical.join(wanted).display());
        assert_eq!(reply["stdout"], json!(wanted), "{name}: {reply}");
    }
}

#[test]
fn spelling_does_not_matter_only_where_it_leads() {
    let server = Server::start(|s| fs::create_dir_all(s.path("ws/a/b")).expect("mkdir"));
    let ws = server.ws().display().to_string();
    let canonical = fs::canonicalize(server.ws()).expect("ws").display().to_string();
    for (spelling, wanted) in [
        (format!("{ws}/"), ""),
        (format!("{ws}//a"), "/a"),
        (format!("{ws}/./a/"), "/a"),
        (format!("{ws}/a/b/.."), "/a"),
        (format!("{ws}/a/b/."), "/a/b"),
        (format!("//{}", ws.trim_start_matches('/')), ""),
    ] {
        let reply = call(&server, &spelling, "pwd -P");
        assert_eq!(reply["stdout"], json!(format!("{canonical}{wanted}\n")), "{spelling}: {reply}");
    }
}

#[test]
fn a_client_in_a_wrong_directory_says_so_in_one_line() {
    let server = Server::start(|_| ());
    let line =
        run(server.client("sh").args(["-c", "touch ran"]).current_dir("/"), b"").refused(125);
    assert!(line.contains("workspace"), "says not where one may be: {line}");
    let gone = server.ws().join("gone");
    fs::create_dir(&gone).expect("mkdir");
    let mut outer = std::process::Command::new("/bin/sh");
    outer.arg("-c").arg("rmdir ../gone; exec \"$TOOL\" -c 'touch ran'").current_dir(&gone);
    drop(server.client("sh"));
    outer.env("TOOL", server.path("bin/sh")).env("TOOL_SOCKET", server.socket());
    run(&mut outer, b"").refused(125);
}

#[test]
fn a_directory_that_is_swapped_during_the_call_stays_the_one_that_was_opened() {
    let server = Server::start(|s| {
        fs::create_dir(s.path("outside")).expect("mkdir");
        fs::create_dir(s.path("ws/d")).expect("mkdir");
    });
    let mut wire = server.connect();
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; touch here; pwd -P";
    wire.send_json(&json!({"tool":"sh","args":["-c",script],"cwd":server.ws().join("d")}));
    eventually("it runs", || server.ws().join("d/up").exists());
    fs::rename(server.ws().join("d"), server.ws().join("e")).expect("rename");
    symlink(server.path("outside"), server.ws().join("d")).expect("symlink");
    fs::write(server.ws().join("e/go"), "").expect("go");
    assert_eq!(wire.recv_json()["exit_code"], json!(0));
    assert!(server.ws().join("e/here").exists());
    assert_eq!(fs::read_dir(server.path("outside")).expect("outside").count(), 0);
}

#[test]
fn no_race_between_a_directory_and_a_link_leads_out() {
    let server = Server::start(|s| {
        fs::create_dir(s.path("outside")).expect("mkdir");
        fs::create_dir(s.path("ws/d")).expect("mkdir");
        symlink(s.path("outside"), s.path("ws/link")).expect("symlink");
    });
    let stop = Arc::new(AtomicBool::new(false));
    let (ws, stopped) = (server.ws(), Arc::clone(&stop));
    let attacker = thread::spawn(move || {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        let mut swaps = 0_u64;
        while !stopped.load(Ordering::Relaxed) {
            let (one, two) = (ws.join("d"), ws.join("link"));
            renameat2(AT_FDCWD, &one, AT_FDCWD, &two, RenameFlags::RENAME_EXCHANGE)
                .expect("exchange");
            swaps += 1;
        }
        swaps
    });
    let (mut inside, mut refused) = (0, 0);
    for n in 0..300 {
        let reply = call(&server, server.ws().join("d"), &format!("touch here{n}"));
        match reply["code"].as_str() {
            None => inside += 1,
            Some("cwd_outside" | "cwd_not_found") => refused += 1,
            Some(_) => panic!("{reply}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = attacker.join().expect("the attacker");
    assert!(swaps > 0 && inside + refused == 300, "{inside} in, {refused} refused, {swaps} swaps");
    assert_eq!(fs::read_dir(server.path("outside")).expect("outside").count(), 0, "it led out");
    still_works(&server);
}

#[test]
fn a_directory_that_may_not_be_entered_is_an_error() {
    if !tool_broker_tests::is_root() {
        let server = Server::start(|s| fs::create_dir(s.path("ws/closed")).expect("mkdir"));
        tool_broker_tests::setup::mode(&server.ws().join("closed"), 0);
        return refuses(&server, server.ws().join("closed"), "cwd_not_found");
    }
    let server = Server::start(|s| {
        fs::create_dir(s.path("ws/closed")).expect("mkdir");
        tool_broker_tests::setup::mode(&s.path("ws/closed"), 0);
        s.uid(54_321);
    });
    refuses(&server, server.ws().join("closed"), "cwd_not_found");
}
