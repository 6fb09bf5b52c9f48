//! The project's own setup, `.claude-container/config.json`: run only after the operator
//! has approved it, as it was shown, confined, and with nothing of the server's.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tool_broker_tests::{Outcome, Server, Setup, alive, eventually, run, still_works};

const CONFIG: &str = r#"{"setup": {"server": "scripts/setup.sh"}}"#;

fn config(setup: &Setup, text: &str) {
    setup.file("ws/.claude-container/config.json", text, 0o644);
}

/// A project with that script.
fn script(setup: &Setup, text: &str) {
    config(setup, CONFIG);
    setup.file("ws/scripts/setup.sh", text, 0o644);
}

fn project(server: &Setup, words: &[&str]) -> Outcome {
    run(&mut server.verb(&[&["project"], words].concat()), b"")
}

fn said(outcome: &Outcome) -> String {
    let (out, err) = (&outcome.stdout, &outcome.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Its hash, as it is shown; who asks has seen it.
fn shown(server: &Setup) -> String {
    let answer: Value =
        serde_json::from_str(&project(server, &["show", "--json"]).success()).expect("JSON");
    assert!(answer["text"].as_str().is_some_and(|text| text.starts_with("     1 ")), "{answer}");
    answer["hash"].as_str().expect("a hash").to_owned()
}

fn state(server: &Server) -> String {
    server.status()["project"]["state"].as_str().expect("a state").to_owned()
}

/// Approves what is there, and waits for its end.
fn approve(server: &Server) -> String {
    let hash = shown(server);
    project(server, &["approve", &hash[..12]]).success();
    eventually("it is over", || !["running", "approved"].contains(&state(server).as_str()));
    hash
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn audited(server: &Setup) -> Vec<Value> {
    let said = run(&mut server.verb(&["audit", "--json", "--tool", ".project"]), b"").success();
    said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn attention(server: &Server) -> String {
    server.status()["attention"].to_string()
}

#[test]
fn a_projects_script_is_run_only_after_it_was_approved_and_then_at_each_start() {
    let server = Server::start(|s| {
        script(s, "echo \"$PWD $HOME $0\" >> ran\necho told\nenv > environment\n");
        s.env("SECRET", "canary");
        s.env("TOOL_ENV_INHERIT", "SECRET");
    });
    eventually("the log says that it waits", || server.log().contains("until it is approved"));
    assert_eq!(state(&server), "waiting");
    assert!(attention(&server).contains("tool-server project show"), "{}", attention(&server));
    let refused = project(&server, &["run"]);
    assert_eq!(refused.code(), Some(1));
    assert!(said(&refused).contains("is not approved as it is now"), "{}", said(&refused));
    let text = project(&server, &["show"]).success();
    assert!(text.contains("script: scripts/setup.sh\n     1 | echo \"$PWD"), "{text}");
    assert!(text.contains("what it reads and runs of the workspace may change"), "{text}");
    assert!(text.contains("\nstate:  waiting\nanswer: tool-server project approve "), "{text}");
    assert!(!server.ws().join("ran").exists());

    let hash = approve(&server);
    assert_eq!(state(&server), "done");
    let home = server.path("state/home/.project");
    let copy = server.path("state/project").join(&hash);
    let line = format!("{} {} {}\n", server.ws().display(), home.display(), copy.display());
    assert_eq!(read(server.ws().join("ran")), line);
    server.logs("setup: told");
    let environment = read(server.ws().join("environment"));
    assert!(!environment.contains("canary") && environment.contains("WORKSPACE="), "{environment}");
    let told = run(&mut server.verb(&["status"]), b"").success();
    assert!(
        told.contains(&format!("\nproject: scripts/setup.sh {}: done\n", &hash[..12])),
        "{told}"
    );
    let lines = audited(&server);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(line["definition"], json!(hash));
    assert_eq!(line["argv"], json!([".project", "scripts/setup.sh"]));
    assert_eq!((&line["ended"], &line["exit_code"]), (&json!("exited"), &json!(0)));
    assert_eq!(line["approval"]["id"], json!(hash));
    assert!(line["confined"] == "landlock" || line["confined"] == "namespaces", "{line}");

    let mode = |name: &str| server.path(name).metadata().expect(name).mode() & 0o777;
    assert_eq!(mode("state/project.json"), 0o600);
    let setup = server.stop(Signal::SIGTERM);
    let server = Server::start_in(setup);
    eventually("it is run again", || state(&server) == "done");
    assert_eq!(read(server.ws().join("ran")).lines().count(), 2);
    project(&server, &["run"]).success();
    eventually("and once more", || read(server.ws().join("ran")).lines().count() == 3);
    let setup = server.stop(Signal::SIGKILL);
    // A change is another script.
    setup.file("ws/scripts/setup.sh", "echo changed >> ran\n", 0o644);
    let server = Server::start_in(setup);
    eventually("it waits", || server.log().matches("until it is approved").count() == 2);
    assert_eq!(state(&server), "waiting");
    assert_eq!(project(&server, &["run"]).code(), Some(1));
    assert!(!read(server.ws().join("ran")).contains("changed"));
}

#[test]
fn what_was_swapped_since_it_was_shown_is_not_approved() {
    let server = Server::start(|s| script(s, "echo good > ran\n"));
    let good = shown(&server);
    server.file("ws/scripts/setup.sh", "echo bad > ran\n", 0o644);
    for named in [&good[..12], &good] {
        let outcome = project(&server, &["approve", named]);
        assert_eq!(outcome.code(), Some(1));
        assert!(said(&outcome).contains("scripts/setup.sh is now "), "{}", said(&outcome));
    }
    // What is named by its beginning was shown before; whole, it need not.
    let bad = project_hash(&server);
    let outcome = project(&server, &["approve", &bad[..12]]);
    assert!(said(&outcome).contains("nobody was shown"), "{}", said(&outcome));
    for wrong in ["", "0123456789a", &good[..11], "0123456789AB", &good[..12].to_uppercase()] {
        assert_eq!(project(&server, &["approve", wrong]).code(), Some(1), "{wrong}");
    }
    assert_eq!(state(&server), "waiting");
    assert!(!server.ws().join("ran").exists() && audited(&server).is_empty());
    // The other path, interpreter and text are other scripts too.
    for (config_text, name, text) in [
        (CONFIG.replace("setup.sh", "other.sh"), "other.sh", "echo good > ran\n"),
        (CONFIG.to_owned(), "setup.sh", "#!/bin/sh\necho good > ran\n"),
    ] {
        config(&server, &config_text);
        server.file(format!("ws/scripts/{name}"), text, 0o644);
        assert_eq!(project(&server, &["approve", &good]).code(), Some(1), "{name}");
    }
    script(&server, "echo good > ran\n");
    project(&server, &["approve", &good]).success();
    eventually("it is done", || state(&server) == "done");
    assert_eq!(read(server.ws().join("ran")), "good\n");
    assert_eq!(project(&server, &["approve", &bad]).code(), Some(1));
}

/// Its hash as `status` tells it, which shows nothing.
fn project_hash(server: &Server) -> String {
    server.status()["project"]["hash"].as_str().expect("a hash").to_owned()
}

#[test]
fn what_was_approved_is_what_is_run_whatever_becomes_of_the_file() {
    let server = Server::start(|s| {
        let wait = "while [ ! -e go ]; do sleep 0.02; done\n";
        script(s, &format!("echo begun > begun\n{wait}echo first > ran\n"));
    });
    let hash = shown(&server);
    project(&server, &["approve", &hash]).success();
    eventually("it runs", || server.ws().join("begun").exists());
    assert_eq!(state(&server), "running");
    // In place: a shell reads on in the same file.
    fs::write(server.ws().join("scripts/setup.sh"), "#".repeat(20) + "\necho evil > ran\n")
        .expect("write");
    let copy = server.path("state/project").join(&hash);
    let copied = copy.metadata().expect("the copy");
    assert_eq!((copied.mode() & 0o777, copied.uid()), (0o444, 0));
    fs::write(server.ws().join("go"), "").expect("go");
    // That one is what lies there, and the one that ran has ended.
    eventually("the other one waits", || {
        state(&server) == "waiting" && !audited(&server).is_empty()
    });
    assert_eq!(read(server.ws().join("ran")), "first\n");
}

#[test]
fn a_project_whose_files_are_not_plain_is_told_in_one_line_and_nothing_is_waited_for() {
    let server = Server::start(|s| {
        s.file("outside", "echo outside > ran\n", 0o644);
        fs::create_dir(s.ws().join("scripts")).expect("mkdir");
        fs::create_dir(s.ws().join(".claude-container")).expect("mkdir");
    });
    let (setup, file) = (server.ws().join("scripts/setup.sh"), ".claude-container/config.json");
    let configured = server.ws().join(file);
    let clear = |path: &Path| match path.is_dir() && !path.is_symlink() {
        true => fs::remove_dir(path).expect("rmdir"),
        false => drop(fs::remove_file(path)),
    };
    let expect = |what: &str, part: &str| {
        assert_eq!(state(&server), "bad", "{what}");
        let why = server.status()["project"]["why"].as_str().expect("why").to_owned();
        assert!(why.contains(part) && !why.contains('\n') && why.is_ascii(), "{what}: {why}");
        for words in [&["show"][..], &["run"], &["approve", &"0".repeat(64)]] {
            let outcome = project(&server, words);
            assert_eq!((outcome.code(), said(&outcome).lines().count()), (Some(1), 1), "{what}");
            assert!(said(&outcome).contains(part), "{what}: {}", said(&outcome));
        }
    };
    assert_eq!(state(&server), "none");
    type Make<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);
    let makes: [Make<'_>; 6] = [
        ("a link out", &|path| symlink(server.path("outside"), path).expect("link"), "symlink"),
        ("a link within", &|path| symlink("../plain", path).expect("link"), "symlink"),
        ("a magic link", &|path| symlink("/proc/self/environ", path).expect("link"), "symlink"),
        ("a FIFO", &|path| mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("fifo"), "regular"),
        ("a directory", &|path| fs::create_dir(path).expect("mkdir"), "regular"),
        ("too long", &|path| fs::write(path, vec![b' '; 300_000]).expect("write"), "longer than"),
    ];
    fs::write(server.ws().join("plain"), "echo plain > ran\n").expect("plain");
    for (what, make, part) in makes {
        make(&configured);
        expect(&format!("{what} as the configuration"), part);
        clear(&configured);
        config(&server, CONFIG);
        make(&setup);
        expect(&format!("{what} as the script"), part);
        clear(&setup);
        clear(&configured);
    }
    config(&server, CONFIG);
    expect("no script", "No such file");
    fs::write(&setup, "a\0b").expect("write");
    expect("no text", "NUL");
    fs::write(&setup, "#!/workspace/evil\n").expect("write");
    expect("an interpreter of the agent's", "interpreter");
    for (text, part) in [
        ("{", "EOF"),
        (r#"{"setup":{"server":"../outside"}}"#, ".."),
        (r#"{"setup":{"server":"/etc/passwd"}}"#, "relative"),
        (r#"{"setup":{"server":["sh","-c","x"]}}"#, "expected a string"),
        (r#"{"setup":{"sever":"x"}}"#, "unknown field"),
        (r#"{"\u001b[2J":{}}"#, "\\u{1b}[2J"),
        (r#"{"setup":{"server":"a","server":"b"}}"#, "duplicate"),
    ] {
        config(&server, text);
        expect(text, part);
    }
    // A directory on the way that is a link.
    config(&server, CONFIG);
    fs::remove_file(&setup).expect("rm");
    fs::remove_dir(server.ws().join("scripts")).expect("rmdir");
    symlink(server.dir(), server.ws().join("scripts")).expect("link");
    expect("a link on the way", "symlink");
    assert!(!server.ws().join("ran").exists() && audited(&server).is_empty());
    still_works(&server);
}

#[test]
fn only_the_first_roots_configuration_counts() {
    let server = Server::start(|s| {
        s.file("other/.claude-container/config.json", CONFIG, 0o644);
        s.file("other/scripts/setup.sh", "echo x > ran\n", 0o644);
        s.env("WORKSPACE", format!("{}:{}", s.ws().display(), s.path("other").display()));
    });
    assert_eq!(state(&server), "none");
    assert!(project(&server, &["show"]).success().starts_with("the project has no setup.server"));
    // Its script is told the roots in their order: the project's own first, however long.
    server.file("ws/.claude-container/config.json", CONFIG, 0o644);
    server.file("ws/scripts/setup.sh", "printf %s \"$WORKSPACE\" > roots\n", 0o644);
    approve(&server);
    let roots = format!("{}:{}", server.ws().display(), server.path("other").display());
    assert_eq!(read(server.ws().join("roots")), roots);
}

#[test]
fn nothing_in_a_script_acts_on_the_operators_terminal() {
    let server = Server::start(|s| {
        script(s, "true\n\u{1b}[2J\u{1b}[1;1Hecho good\r\nrm \u{202e}x \u{7}\necho '\\x1b'\n");
    });
    let text = project(&server, &["show"]).success();
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')), "{text:?}");
    assert!(text.contains("\n     2 ! \\x1b[2J\\x1b[1;1Hecho good\\r\n"), "{text}");
    assert!(
        text.contains("\n     3 ! rm \\xe2\\x80\\xaex \\x07\n     4 | echo '\\x1b'\n"),
        "{text}"
    );
    server.file("ws/scripts/setup.sh", "printf '\\033[2Jx\\ny'\nyes | head -c 1000000\n", 0o644);
    approve(&server);
    // The last that is said of it.
    server.logs("bytes more, which are not in the log");
    let log = server.log();
    assert!(log.contains("[2Jx") && !log.contains('\u{1b}'), "escaped");
    assert!(log.len() < 2_000_000 && state(&server) == "done", "{}", log.len());
}

#[test]
fn a_projects_script_is_confined_as_a_tool_without_a_gate() {
    let probe = "exec > report 2>&1\n\
        id -u; id -G\n\
        cat SECRET CONTROL STATE/project.json STATE/audit/current TOOLS/sh/tool.json /etc/shadow\n\
        ls STATE; cat /proc/PARENT/environ\n\
        echo x > STATE/project.json; echo x > $0; echo x > OUTSIDE; echo x > /tmp/project-hook\n\
        rm -f $0; chmod 777 $0; mv $0 moved\n\
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"CONTROL\")'\n\
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"CALLS\")'\n\
        python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'\n\
        kill -9 SERVER\n\
        ls /proc/self/fd\n\
        echo kept > $HOME/kept && echo $TMPDIR > $TMPDIR/kept\n";
    let server = Server::start(|s| {
        if tool_broker_tests::is_root() {
            chown(s.ws(), Some(4_242), Some(4_243)).expect("chown");
        }
        let secret = s.file("secret", "canary-of-a-file\n", 0o644);
        s.file("outside", "", 0o666);
        fs::set_permissions(s.path("outside"), Permissions::from_mode(0o666)).expect("chmod");
        s.env("TOKEN", "canary-of-the-environment");
        let gate = format!(
            "binary = \"/bin/sh\"\ndefault = \"allow\"\n[[gate]]\nadapter = \"http\"\n\
             hosts = [\"a.example\"]\ncredential = \"file:{}\"\n",
            secret.display()
        );
        s.tool("net", &gate);
    });
    let path = |name: &str| server.path(name).display().to_string();
    let text = probe
        .replace("SECRET", &path("secret"))
        .replace("CONTROL", &path("run/control.sock"))
        .replace("CALLS", &path("run/tool.sock"))
        .replace("STATE", &path("state"))
        .replace("TOOLS", &path("tools.d"))
        .replace("OUTSIDE", &path("outside"))
        .replace("SERVER", &server.pid().to_string())
        .replace("PARENT", &server.pid().to_string());
    script(&server, &text);
    if tool_broker_tests::is_root() {
        for name in ["ws/scripts", "ws/scripts/setup.sh"] {
            chown(server.path(name), Some(4_242), Some(4_243)).expect("chown");
        }
    }
    let hash = approve(&server);
    let report = read(server.ws().join("report"));
    assert_eq!(state(&server), "done", "{report}");
    if server.status()["confinement"]["uid"] == json!("owner") {
        assert!(report.starts_with("4242\n4243\n"), "{report}");
    }
    for never in ["canary", "approved\"", "/bin/sh\",", "root:", "control.sock: No such"] {
        assert!(!report.contains(never), "{never}: {report}");
    }
    assert_eq!(report.matches("PermissionError").count(), 3, "{report}");
    assert_eq!(read(server.path("outside")), "");
    assert!(!Path::new("/tmp/project-hook").exists());
    let copy = server.path("state/project").join(&hash);
    assert_eq!(read(&copy), text);
    assert_eq!(copy.metadata().expect("the copy").mode() & 0o777, 0o444, "{report}");
    assert!(read(server.path("state/project.json")).contains(&hash));
    let home = server.path("state/home/.project");
    assert_eq!(read(home.join("kept")), "kept\n");
    assert_eq!(read(home.join("tmp/kept")).trim_end(), home.join("tmp").display().to_string());
    assert_eq!(home.metadata().expect("HOME").mode() & 0o777, 0o700);
    still_works(&server);
}

#[test]
fn no_caller_and_no_tool_approves_a_script() {
    let server = Server::start(|s| {
        script(s, "echo x > ran\n");
        let off = "binary = \"/bin/sh\"\ndefault = \"allow\"\n[sandbox]\nmode = \"off\"\n";
        s.tool("bare", off);
    });
    let hash = shown(&server);
    let op = json!({"op": "project", "do": "approve", "hash": hash});
    assert_eq!(server.connect().call(&op)["code"], json!("unknown_op"));
    // Not confined, and still told apart.
    let reach = server.reachable(&tool_broker_tests::binaries::binaries().server);
    let script = format!(
        "TOOL_CONTROL_SOCKET={} STATE_DIR={} {} project approve {hash} 2>&1",
        server.control_socket().display(),
        server.path("state").display(),
        reach.display(),
    );
    let outcome = run(server.client("bare").args(["-c", &script]), b"");
    assert!(said(&outcome).contains("a tool's process may not"), "{}", said(&outcome));
    // A tool whose name could be taken for it.
    let call = json!({"tool": ".project", "args": ["x"], "cwd": server.ws(), "stdio": "buffered"});
    assert_eq!(server.connect().call(&call)["code"], json!("unknown_tool"));
    assert_eq!(state(&server), "waiting");
    assert!(!server.ws().join("ran").exists());
    let lines = audited(&server);
    assert!(lines.iter().all(|line| line["ended"] == "refused"), "{lines:?}");
}

/// One that does not end, and does not heed what asks it to.
const STUBBORN: &str = "trap '' TERM\necho $$ > pid\nsleep 1000 &\nwait; sleep 1000\n";

#[test]
fn it_never_runs_twice_at_once() {
    let server = Server::start(|s| script(s, STUBBORN));
    let hash = shown(&server);
    project(&server, &["approve", &hash]).success();
    eventually("it runs", || read(server.ws().join("pid")).ends_with('\n'));
    assert_eq!(server.status()["left_behind"], json!([]), "it is not left behind, it runs");
    for words in [&["run"][..], &["approve", &hash]] {
        let outcome = project(&server, words);
        assert_eq!(outcome.code(), Some(1));
        assert!(said(&outcome).contains("under way"), "{}", said(&outcome));
    }
    assert_eq!(run(server.client("sh").args(["-c", "echo y"]), b"").success(), "y\n");
    assert_eq!(state(&server), "running");
    project(&server, &["deny", &hash]).success();
    eventually("it is ended", || audited(&server).len() == 1);
}

#[test]
fn one_that_waits_for_ever_is_ended() {
    let server = Server::start(|s| {
        script(s, STUBBORN);
        s.env("TOOL_TIMEOUTS_SETUP", "2");
    });
    let hash = shown(&server);
    project(&server, &["approve", &hash]).success();
    eventually("it is given up", || state(&server) == "failed");
    assert!(attention(&server).contains("took longer than 2 s"), "{}", attention(&server));
    assert_eq!(audited(&server).len(), 1);
    assert_eq!(audited(&server)[0]["ended"], json!("timed_out"));
    assert_eq!(server.status()["left_behind"], json!([]));
    // A failure is no failure of the server's, and it may be tried again.
    script(&server, "exit 3\n");
    approve(&server);
    assert!(attention(&server).contains("scripts/setup.sh failed: exit status 3"));
    assert_eq!(audited(&server)[1]["exit_code"], json!(3));
    still_works(&server);
}

#[test]
fn what_it_leaves_running_ends_with_the_server_and_is_listed_until_then() {
    let mut server = Server::start(|s| {
        script(s, "setsid sleep 4711 > /dev/null 2>&1 &\necho $! > pid\n");
    });
    approve(&server);
    assert_eq!(state(&server), "done");
    let pid: i32 = read(server.ws().join("pid")).trim().parse().expect("a pid");
    // In a pid namespace of its own it has ended already.
    // And it has another command line until it executes.
    eventually("it is listed, or has ended", || {
        let listed = server.status()["left_behind"].clone();
        listed == json!([]) || listed.to_string().contains("\"sleep 4711")
    });
    server.signal(Signal::SIGTERM);
    server.wait();
    eventually("it has ended", || !alive(pid));
}

#[test]
fn what_is_denied_is_ended_and_not_asked_about_again() {
    let server = Server::start(|s| script(s, "echo x >> ran\nsleep 1000\n"));
    let hash = shown(&server);
    project(&server, &["deny", &hash[..12]]).success();
    assert_eq!(
        (state(&server).as_str(), attention(&server).as_str()),
        ("denied", "[\"sh: unrestricted: neither rules nor a default\"]")
    );
    project(&server, &["approve", &hash[..12]]).success();
    eventually("it runs", || read(server.ws().join("ran")) == "x\n");
    project(&server, &["deny", &hash[..12]]).success();
    eventually("it is ended", || audited(&server).len() == 1);
    assert_eq!(audited(&server)[0]["ended"], json!("caller_gone"));
    let setup = server.stop(Signal::SIGTERM);
    let server = Server::start_in(setup);
    assert_eq!(state(&server), "denied");
    assert_eq!(project(&server, &["run"]).code(), Some(1));
    // What was approved is taken back whatever lies there now.
    let approved = shown(&server);
    server.file("ws/scripts/setup.sh", "true\n", 0o644);
    let other = approve(&server);
    script(&server, "echo third\n");
    project(&server, &["deny", &other]).success();
    script(&server, "true\n");
    assert_eq!(state(&server), "denied");
    assert_eq!(project(&server, &["deny", &approved]).code(), Some(1), "it is neither");
    assert_eq!(read(server.ws().join("ran")), "x\n");
}

#[test]
fn a_server_that_stops_or_is_killed_ends_it_and_the_audit_says_so() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let server = Server::start(|s| script(s, "echo $$ > pid\nsleep 1000\n"));
        let hash = shown(&server);
        project(&server, &["approve", &hash]).success();
        eventually("it runs", || read(server.ws().join("pid")).ends_with('\n'));
        let setup = server.stop(signal);
        fs::write(setup.ws().join("scripts/setup.sh"), "true\n").expect("write");
        let server = Server::start_in(setup);
        let lines = audited(&server);
        assert_eq!(lines.len(), 1, "{signal}: {lines:?}");
        assert_eq!(
            (&lines[0]["ended"], &lines[0]["definition"]),
            (&json!("interrupted"), &json!(hash))
        );
        assert_eq!(server.status()["left_behind"], json!([]), "{signal}");
    }
}

#[test]
fn without_a_server_it_is_shown_and_nothing_is_approved() {
    let setup = Setup::new();
    script(&setup, "echo x\n");
    let outcome = project(&setup, &["show"]);
    assert_eq!(outcome.code(), Some(0));
    let text = said(&outcome);
    assert!(text.contains("     1 | echo x\n") && text.contains("\nstate:  waiting\n"), "{text}");
    assert!(text.contains("no server answers at "), "{text}");
    let outcome = project(&setup, &["approve", &"0".repeat(64)]);
    assert!(said(&outcome).contains("no server answers at "), "{}", said(&outcome));
    assert_eq!((outcome.code(), said(&outcome).lines().count()), (Some(1), 1));
    assert!(!setup.path("state/project.json").exists());
}

#[test]
fn the_clients_script_is_told_without_a_server_or_settings() {
    let setup = Setup::new();
    let server = tool_broker_tests::binaries::binaries().server.clone();
    let ask = |directory: &Path| {
        let mut command = Command::new(&server);
        command.env_clear().args(["project", "setup-client"]).arg(directory);
        run(&mut command, b"")
    };
    assert_eq!(ask(&setup.ws()).success(), "");
    config(&setup, CONFIG);
    assert_eq!(ask(&setup.ws()).success(), "");
    config(&setup, r#"{"setup": {"client": "scripts/client.sh"}}"#);
    let bad = |part: &str| {
        let outcome = ask(&setup.ws());
        assert_eq!((outcome.code(), outcome.out().as_str()), (Some(1), ""));
        assert_eq!(said(&outcome).lines().count(), 1, "{}", said(&outcome));
        assert!(said(&outcome).contains(part), "{}", said(&outcome));
    };
    bad("No such file");
    setup.file("ws/scripts/client.sh", "true\n", 0o755);
    assert_eq!(ask(&setup.ws()).success(), "scripts/client.sh\n");
    for (path, part) in [
        ("../x", ".."),
        ("/etc/passwd", "relative"),
        ("a\\nb", "control character"),
        ("-x", "dash"),
        ("scripts", "regular file"),
    ] {
        config(&setup, &format!(r#"{{"setup": {{"client": "{path}"}}}}"#));
        bad(part);
    }
    symlink("client.sh", setup.ws().join("scripts/link.sh")).expect("link");
    config(&setup, r#"{"setup": {"client": "scripts/link.sh"}}"#);
    bad("symlink");
    assert_eq!(ask(&setup.path("missing")).code(), Some(1));
}
