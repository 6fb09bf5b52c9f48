//! Settings that change what a call gets or where it may run.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::{Server, Setup, is_root, run, skipped, still_works};

#[test]
fn there_may_be_several_workspace_roots() {
    let server = Server::start(|s| {
        fs::create_dir_all(s.path("second/sub")).expect("mkdir");
        let roots = format!("{}:{}", s.ws().display(), s.path("second").display());
        s.env("WORKSPACE", roots);
    });
    still_works(&server);
    let mut client = server.client("sh");
    let outcome = run(client.args(["-c", "pwd -P"]).current_dir(server.path("second/sub")), b"");
    let wanted = fs::canonicalize(server.path("second/sub")).expect("sub");
    assert_eq!(outcome.success().trim_end(), wanted.display().to_string());
    run(server.client("sh").args(["-c", "true"]).current_dir(server.dir()), b"").refused(125);
}

#[test]
fn clients_may_know_the_workspace_by_another_name() {
    let server = Server::start(|s| {
        fs::create_dir_all(s.path("ws/sub")).expect("mkdir");
        fs::create_dir_all(s.path("outside")).expect("mkdir");
        s.env("TOOL_PATH_MAP", format!("/project={}", s.ws().display()));
    });
    let ws = fs::canonicalize(server.ws()).expect("ws").display().to_string();
    let call =
        |cwd: &str| server.connect().call(&json!({"tool":"sh","args":["-c","pwd -P"],"cwd":cwd}));
    assert_eq!(call("/project")["stdout"], json!(format!("{ws}\n")));
    assert_eq!(call("/project/sub")["stdout"], json!(format!("{ws}/sub\n")));
    // A name that only begins alike, a way out, a place that is none.
    for cwd in [
        "/project-evil",
        "/projects",
        "/project/../outside",
        "/project/../../etc",
        "/project/sub/../../outside",
    ] {
        assert_eq!(call(cwd)["code"], json!("cwd_outside"), "{cwd}");
    }
    assert_eq!(call("/project/missing")["code"], json!("cwd_not_found"));
    still_works(&server);
}

#[test]
fn tools_without_an_env_section_get_what_the_setting_names() {
    let server = Server::start(|s| {
        s.env("GITHUB_TOKEN", "token");
        s.env("OTHER", "no");
        s.env("MY_ONE", "1");
        s.config("[env]\ninherit = [\"GITHUB_TOKEN\", \"MY_*\"]\n");
        s.tool("own", "binary = \"/bin/sh\"\n[env]\nset = { A = \"1\" }\n");
    });
    let env = |tool: &str| run(server.client(tool).args(["-c", "env"]), b"").success();
    let said = env("sh");
    assert!(said.contains("GITHUB_TOKEN=token\n") && said.contains("MY_ONE=1\n"), "{said}");
    assert!(!said.contains("OTHER"), "{said}");
    let said = env("own");
    assert!(!said.contains("GITHUB_TOKEN") && said.contains("A=1\n"), "{said}");
}

#[test]
fn rules_may_be_required() {
    let server = Server::start(|s| {
        s.tool("sh", "binary = \"/bin/sh\"\ndefault = \"allow\"\n");
        s.tool("free", r#"{"binary":"/bin/echo"}"#);
        s.tool("wrapped", r#"{"binary":"/bin/echo"}"#);
        s.file("tools.d/wrapped/restricted.sh", "#!/bin/sh\necho wrapped\n", 0o755);
        s.flag("--require-rules");
    });
    still_works(&server);
    let line = run(server.client("free").arg("x"), b"").refused(125);
    assert!(line.contains("free"), "{line}");
    assert_eq!(run(&mut server.client("wrapped"), b"").success(), "wrapped\n");
}

#[test]
fn a_server_of_an_ordinary_user_works() {
    if !is_root() {
        // Then every other test of this suite shows it.
        return skipped(
            "a_server_of_an_ordinary_user_works",
            "not root: all tests run as an ordinary user",
        );
    }
    let server = Server::start(|s| s.uid(54_321));
    still_works(&server);
    let said = run(
        server.client("sh").args(["-c", "id -u; id -g; id -G; grep CapEff /proc/self/status"]),
        b"",
    );
    assert_eq!(said.success(), "54321\n54321\n54321\nCapEff:\t0000000000000000\n");
    let before = server.settled();
    let mut running = tool_broker_tests::spawn(server.client("sh").args([
        "-c",
        "trap '' TERM; touch up; (setsid sleep 300 &) ; while :; do sleep 0.1; done",
    ]));
    tool_broker_tests::eventually("it runs", || server.ws().join("up").exists());
    running.child.kill().expect("kill");
    drop(running);
    server.nothing_left(before);
}

#[test]
fn the_state_directory_is_for_the_server_alone_and_made_where_it_is_missing() {
    let setup = Setup::new();
    fs::remove_dir_all(setup.path("state")).expect("rm");
    let server = Server::start_in(setup);
    still_works(&server);
    let mode =
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(server.path("state")).expect("state"));
    // Others may pass through to HOMEs of theirs, and see nothing.
    assert_eq!(mode & 0o066, 0, "others may look into the state directory: {mode:o}");
}

#[test]
fn a_server_that_cannot_start_says_why_in_one_line_and_leaves_nothing() {
    type Break = fn(&mut Setup);
    let broken: [(&str, Break); 4] = [
        ("ws", |s| fs::remove_dir(s.ws()).expect("rmdir")),
        ("state", |s| {
            fs::remove_dir_all(s.path("state")).expect("rm");
            fs::write(s.path("state"), "a file").expect("write");
        }),
        ("/proc/no/such", |s| s.env("TOOL_SOCKET", "/proc/no/such/tool.sock")),
        ("server.toml", |s| s.config("[limits]\ncalls = \"many\"\n")),
    ];
    for (word, break_it) in broken {
        let mut setup = Setup::new();
        break_it(&mut setup);
        let outcome = run(&mut setup.serve(), b"");
        assert!(outcome.code().is_some_and(|code| code != 0), "{word}: {outcome:?}");
        let said = outcome.err() + &outcome.out();
        assert!(said.contains(word), "does not name {word}: {said}");
        assert!(
            !setup.socket().exists() && !setup.control_socket().exists(),
            "{word}: a socket is left"
        );
    }
}

#[test]
fn a_server_without_tools_d_starts_and_says_so() {
    let setup = Setup::new();
    fs::rename(setup.path("tools.d"), setup.path("later")).expect("rename");
    let server = Server::start_in(setup);
    run(server.client("sh").args(["-c", "true"]), b"").refused(127);
    assert!(server.status().to_string().contains("tools.d"), "{}", server.status());
    fs::rename(server.path("later"), server.path("tools.d")).expect("rename");
    still_works(&server);
    let setup = server.stop(Signal::SIGTERM);
    assert!(!setup.socket().exists());
}
