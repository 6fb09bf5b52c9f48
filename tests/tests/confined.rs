//! What definitions and settings say of confinement, seen from outside: what a
//! tool reaches, what is refused, what operators are told.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, run, sys};

const SH: &str = "binary = \"/bin/sh\"\ndefault = \"allow\"\n";

/// What `sh -c SCRIPT` prints on both, and its status.
fn sh(server: &Server, tool: &str, script: &str) -> (String, u8) {
    let script = format!("exec 2>&1; {script}");
    let outcome = run(server.client(tool).args(["-c", &script]), b"");
    let status = outcome.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255);
    (String::from_utf8_lossy(&outcome.stdout).into_owned(), status)
}

fn tool<'a>(status: &'a Value, name: &str) -> &'a Value {
    let tools = status["tools"].as_array().expect("tools");
    tools.iter().find(|tool| tool["name"] == json!(name)).expect("the tool")
}

fn audited(server: &Server, tool: &str) -> Vec<Value> {
    let said = run(&mut server.verb(&["audit", "--json", "--tool", tool]), b"").success();
    said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_tool_without_a_sandbox_is_confined_and_has_no_network() {
    let server = Server::start(|s| {
        s.tool("toml", SH);
        s.tool("json", "{\"binary\":\"/bin/sh\"}");
        s.file("secret", "seen", 0o644);
        s.file("ws/own", "mine", 0o666);
    });
    let secret = server.path("secret").display().to_string();
    for tool in ["toml", "json"] {
        let script = format!(
            "cat own; echo new > made && cat made; cat {secret}; echo x > {secret}; cat /etc/shadow; \
             cat {}; ls {}; ls /usr/bin/env",
            server.path("tools.d/toml/tool.toml").display(),
            server.path("state").display()
        );
        let (said, _) = sh(&server, tool, &script);
        assert!(said.starts_with("minenew\n") && said.ends_with("/usr/bin/env\n"), "{said}");
        assert_eq!(said.matches("ermission denied").count(), 5, "{said}");
        assert!(!said.contains("seen") && !said.contains("binary"), "{said}");
        let (said, status) = sh(&server, tool, "exec python3 -c 'import socket; socket.socket()'");
        assert!(status != 0 && said.contains("PermissionError"), "{said}");
        fs::remove_file(server.ws().join("made")).expect("made");
    }
    assert_eq!(fs::read_to_string(server.path("secret")).expect("secret"), "seen");
    let status = server.status();
    assert_eq!(tool(&status, "toml")["sandbox"], json!("confined, no network: no [[gate]]"));
    let check = run(&mut server.verb(&["check"]), b"").success();
    assert!(check.contains("ok: json (/bin/sh, unrestricted), confined, no network"), "{check}");
}

#[test]
fn a_definition_opens_further_paths_to_read_and_to_write() {
    let server = Server::start(|s| {
        for name in ["for/read", "for/write", "for/neither"] {
            s.file(format!("{name}/file"), "there\n", 0o666);
            fs::set_permissions(s.path(name), PermissionsExt::from_mode(0o777)).expect("chmod");
        }
        let at = |name: &str| s.path(name).display().to_string();
        let text = format!(
            "{SH}[sandbox]\nread = [{:?}]\nwrite = [{:?}]\n",
            at("for/read"),
            at("for/write")
        );
        s.tool("sh2", &text);
    });
    let at = |name: &str| server.path("for").join(name).display().to_string();
    let said = |script: &str| sh(&server, "sh2", script);
    assert_eq!(said(&format!("cat {}", at("read/file"))).0, "there\n");
    assert_ne!(said(&format!("echo x > {}", at("read/file"))).1, 0);
    assert_eq!(said(&format!("echo x > {}; cat {0}", at("write/file"))), ("x\n".into(), 0));
    assert_ne!(said(&format!("cat {}", at("neither/file"))).1, 0);
    // What is replaced is reached under its old name.
    fs::rename(server.path("for/read"), server.path("for/gone")).expect("rename");
    fs::create_dir(server.path("for/read")).expect("mkdir");
    fs::write(server.path("for/read/file"), "new\n").expect("write");
    assert_eq!(said(&format!("cat {}", at("read/file"))).0, "new\n");
}

#[test]
fn a_tool_has_a_tmpdir_of_its_own_and_no_other() {
    let server = Server::start(|_| {});
    let (said, status) = sh(&server, "sh", "echo $TMPDIR; echo x > $TMPDIR/f && cat $TMPDIR/f");
    let tmp = server.path("state/home/sh/tmp").display().to_string();
    assert_eq!((said, status), (format!("{tmp}\nx\n"), 0));
    assert_ne!(sh(&server, "sh", "echo x > /tmp/$$").1, 0);
    // Another tool's is out of reach.
    assert_ne!(sh(&server, "sh2", &format!("cat {tmp}/f")).1, 0);
}

#[test]
fn a_tool_that_is_not_confined_is_said_so_loudly_everywhere() {
    let server = Server::start(|s| {
        s.tool("bare", &format!("{SH}[sandbox]\nmode = \"off\"\n"));
        s.file("outside", "seen\n", 0o644);
    });
    let outside = server.path("outside").display().to_string();
    assert_eq!(sh(&server, "bare", &format!("cat {outside}")), ("seen\n".into(), 0));
    let loud = "sandbox: off";
    let check = run(&mut server.verb(&["check"]), b"").success();
    assert!(check.contains("warning: ") && check.contains(loud), "{check}");
    let told = run(&mut server.verb(&["status"]), b"").success();
    assert!(told.contains("  bare: sandbox: off: it is not confined"), "{told}");
    let tools = run(&mut server.verb(&["tools"]), b"").success();
    let line = tools.lines().find(|line| line.starts_with("bare ")).expect("bare");
    assert!(line.contains(loud) && tools.matches(loud).count() == 1, "{tools}");
    assert!(server.log().contains("sandbox: off: it is not confined"), "{}", server.log());
    let explained = run(&mut server.verb(&["explain", "bare", "x"]), b"").success();
    assert!(explained.contains(loud), "{explained}");
}

#[test]
fn a_tool_that_is_not_confined_is_refused_while_there_are_credentials() {
    let server = Server::start(|s| {
        // Root's own: there is nobody else to be.
        chown(s.ws(), Some(0), Some(0)).expect("chown");
        s.tool("bare", &format!("{SH}[sandbox]\nmode = \"off\"\n"));
    });
    assert_eq!(sh(&server, "bare", "echo ran"), ("ran\n".into(), 0));
    let gate =
        "[[gate]]\nadapter = \"http\"\nhosts = [\"a.example\"]\ncredential = \"env:TOKEN\"\n";
    server.tool("net", &format!("{SH}{gate}"));
    eventually("it is refused", || sh(&server, "bare", "echo ran").1 == 125);
    let outcome = run(server.client("bare").args(["-c", "echo ran"]), b"");
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(said.contains("mode = \"off\"") && said.lines().count() == 1, "{said}");
    let request =
        json!({"tool":"bare","args":["-c","echo ran"],"cwd":server.ws(),"stdio":"buffered"});
    let reply = server.connect().call(&request);
    assert_eq!(reply["code"], json!("confinement_unavailable"), "{reply}");
}

#[test]
fn where_the_kernel_cannot_confine_nothing_runs_that_is_to_be_confined() {
    for (call, what) in
        [(libc::SYS_landlock_create_ruleset, "landlock"), (libc::SYS_seccomp, "seccomp")]
    {
        let setup = Setup::new();
        setup.tool("conf", SH);
        setup.tool("bare", &format!("{SH}[sandbox]\nmode = \"off\"\n"));
        let mut command = setup.serve();
        sys::refuse_call(&mut command, call);
        let server = Server::start_command(setup, command);
        let confinement = server.status()["confinement"].clone();
        assert_eq!(confinement["level"], json!("none"), "{what}: {confinement}");
        assert_ne!(confinement["missing"], json!([]), "{what}: {confinement}");
        let outcome = run(server.client("conf").args(["-c", "echo ran"]), b"");
        assert_eq!(
            (outcome.code(), outcome.out().as_str()),
            (Some(125), ""),
            "{what}: {outcome:?}"
        );
        let request =
            json!({"tool":"conf","args":["-c","echo ran"],"cwd":server.ws(),"stdio":"buffered"});
        let reply = server.connect().call(&request);
        assert_eq!(reply["code"], json!("confinement_unavailable"), "{what}: {reply}");
        // It is the operator's word that it runs all the same.
        assert_eq!(sh(&server, "bare", "echo ran"), ("ran\n".into(), 0), "{what}");
    }
}

#[test]
fn a_tool_that_is_not_confined_is_somebody_else_while_there_are_credentials() {
    let server = Server::start(|s| {
        chown(s.ws(), Some(4_242), Some(4_243)).expect("chown");
        let gate =
            "[[gate]]\nadapter = \"http\"\nhosts = [\"a.example\"]\ncredential = \"env:TOKEN\"\n";
        s.tool("net", &format!("{SH}{gate}"));
        s.tool("bare", &format!("{SH}[sandbox]\nmode = \"off\"\n"));
        s.file("private", "private", 0o600);
        s.file("public", "public\n", 0o644);
    });
    if server.status()["confinement"]["uid"] != json!("owner") {
        let name = "a_tool_that_is_not_confined_is_somebody_else_while_there_are_credentials";
        tool_broker_tests::skipped(name, "uids cannot be switched here");
        return;
    }
    let at = |name: &str| server.path(name).display().to_string();
    let script = format!("id -u; cat {}; cat {}", at("public"), at("private"));
    let (said, status) = sh(&server, "bare", &script);
    assert!(said.starts_with("4242\npublic\n") && status != 0, "{said}");
    assert!(!said.contains("private\n"), "{said}");
    assert_eq!(audited(&server, "bare")[0]["confined"], json!("off"));
}

#[test]
fn no_tool_has_a_group_of_the_servers() {
    const NAME: &str = "no_tool_has_a_group_of_the_servers";
    if !tool_broker_tests::is_root() {
        return tool_broker_tests::skipped(NAME, "uids cannot be switched here");
    }
    for (uid, own, wanted) in [
        // The root's group is one by which the server reads its credential.
        (4_242, &[4_243][..], "4242"),
        // So is the one that has the owner's number.
        (4_242, &[4_243, 4_242], "65534"),
        (4_242, &[7], "4243"),
    ] {
        let setup = Setup::new();
        chown(setup.ws(), Some(uid), Some(4_243)).expect("chown");
        let secret = setup.file("secret", "canary", 0o640);
        chown(&secret, Some(0), Some(4_243)).expect("chown");
        let gate = format!(
            "[[gate]]\nadapter = \"http\"\nhosts = [\"a.example\"]\ncredential = \"file:{}\"\n",
            secret.display()
        );
        setup.tool("net", &format!("{SH}{gate}"));
        setup.tool("bare", &format!("{SH}[sandbox]\nmode = \"off\"\n"));
        let mut command = setup.serve();
        sys::groups(&mut command, own);
        let server = Server::start_command(setup, command);
        for tool in ["sh", "bare", "net"] {
            assert_eq!(sh(&server, tool, "id -G").0, format!("{wanted}\n"), "{tool} {own:?}");
        }
        // Nothing else holds this one.
        let (said, status) = sh(&server, "bare", &format!("cat {}", secret.display()));
        let shared = own.contains(&4_243);
        assert_eq!((status != 0, said.contains("canary")), (shared, !shared), "{said}");
    }
}

#[test]
fn status_says_what_confines_and_the_level_can_be_held_back() {
    let server = Server::start(|s| s.env("TOOL_SANDBOX_LEVEL", "landlock"));
    let active = server.status()["confinement"].clone();
    assert_eq!((&active["level"], &active["namespaces"]), (&json!("landlock"), &json!(false)));
    assert!(active["landlock_abi"].as_u64() > Some(1) && active["seccomp"] == json!(true));
    assert!(["owner", "shared"].contains(&active["uid"].as_str().expect("uid")));
    assert_eq!(active["argv"], json!("visible"));
    assert!(active["missing"].is_array() && active["cgroups"].is_array(), "{active}");
    let told = run(&mut server.verb(&["status"]), b"").success();
    let line = told.lines().find(|line| line.starts_with("confinement: ")).expect("a line");
    assert!(line.starts_with("confinement: landlock, Landlock "), "{line}");
    let config = run(&mut server.verb(&["config"]), b"").success();
    let line = config.lines().find(|line| line.starts_with("sandbox.level")).expect("a line");
    assert!(line.contains("\"landlock\"") && line.ends_with("env TOOL_SANDBOX_LEVEL"), "{line}");
    assert_eq!(sh(&server, "sh", "echo ran"), ("ran\n".into(), 0));
}

#[test]
fn each_line_says_how_its_call_was_confined() {
    let server = Server::start(|s| {
        s.tool("bare", &format!("{SH}[sandbox]\nmode = \"off\"\n"));
        s.tool("no", "binary = \"/bin/sh\"\ndefault = \"deny\"\n");
    });
    for tool in ["sh", "bare", "no"] {
        sh(&server, tool, "true");
    }
    let confined = |tool: &str| audited(&server, tool)[0]["confined"].clone();
    assert!(["landlock", "namespaces"].contains(&confined("sh").as_str().expect("a level")));
    assert_eq!(confined("bare"), json!("off"));
    assert_ne!(confined("no"), json!(null), "it was planned, and then refused");
}

#[test]
fn a_tool_runs_as_the_owner_of_the_root() {
    let server = Server::start(|s| {
        chown(s.ws(), Some(4_242), Some(4_243)).expect("chown");
    });
    let status = server.status();
    if status["confinement"]["uid"] != json!("owner") {
        tool_broker_tests::skipped(
            "a_tool_runs_as_the_owner_of_the_root",
            "uids cannot be switched here",
        );
        return;
    }
    assert_eq!(sh(&server, "sh", "id -u; id -g; id -G").0, "4242\n4243\n4243\n");
    assert_eq!(sh(&server, "sh", "echo x > $HOME/a && echo y > made; echo z > $TMPDIR/b").1, 0);
    let owner = |path: &Path| fs::metadata(path).map(|found| found.uid()).expect("there");
    let home = server.path("state/home/sh");
    for path in [home.clone(), home.join("a"), home.join("tmp/b"), server.ws().join("made")] {
        assert_eq!(owner(&path), 4_242, "{}", path.display());
    }
    let mode = |path: &Path| fs::metadata(path).map(|found| found.mode() & 0o777).expect("there");
    assert_eq!((mode(&server.path("state")), mode(&home)), (0o711, 0o700));
}

#[test]
fn roots_of_different_owners_have_homes_of_their_own() {
    let server = Server::start(|s| {
        chown(s.ws(), Some(4_242), Some(4_242)).expect("chown");
        s.file("other/x", "", 0o644);
        chown(s.path("other"), Some(5_353), Some(5_353)).expect("chown");
        s.env("WORKSPACE", format!("{}:{}", s.ws().display(), s.path("other").display()));
        s.tool("kept", SH);
        s.file("tools.d/kept/setup.sh", "id -u > $HOME/who\n", 0o755);
    });
    if server.status()["confinement"]["uid"] != json!("owner") {
        let name = "roots_of_different_owners_have_homes_of_their_own";
        tool_broker_tests::skipped(name, "uids cannot be switched here");
        return;
    }
    let who = |directory: &Path| {
        let mut client = server.client("kept");
        client.args(["-c", "id -u; echo $HOME; cat $HOME/who"]).current_dir(directory);
        run(&mut client, b"").success()
    };
    let home = |name: &str| server.path("state/home").join(name).display().to_string();
    assert_eq!(who(&server.ws()), format!("4242\n{}\n4242\n", home("kept")));
    assert_eq!(who(&server.path("other")), format!("5353\n{}\n5353\n", home("kept@5353")));
}

#[test]
fn a_home_that_was_somebody_elses_changes_hands() {
    let server = Server::start(|s| {
        chown(s.ws(), Some(4_242), Some(4_243)).expect("chown");
        s.file("state/home/sh/deep/file", "kept\n", 0o600);
        s.file("target", "", 0o600);
        std::os::unix::fs::symlink(s.path("target"), s.path("state/home/sh/link")).expect("link");
        fs::hard_link(s.path("target"), s.path("state/home/sh/hard")).expect("link");
    });
    if server.status()["confinement"]["uid"] != json!("owner") {
        tool_broker_tests::skipped(
            "a_home_that_was_somebody_elses_changes_hands",
            "uids cannot be switched here",
        );
        return;
    }
    assert_eq!(sh(&server, "sh", "cat $HOME/deep/file").0, "kept\n");
    assert_eq!(fs::metadata(server.path("target")).expect("target").uid(), 0);
}

#[test]
fn a_failed_call_is_told_which_of_its_paths_lie_outside() {
    let server = Server::start(|s| {
        s.tool("cat", "binary = \"/bin/cat\"\ndefault = \"allow\"\n");
        s.tool("bare", "binary = \"/bin/cat\"\ndefault = \"allow\"\n[sandbox]\nmode = \"off\"\n");
        s.file("outside/there", "x", 0o644);
    });
    let said = |tool: &str, args: &[&str]| {
        let outcome = run(server.client(tool).args(args), b"");
        String::from_utf8_lossy(&outcome.stderr).into_owned()
    };
    let hint = |said: &str| said.lines().filter(|line| line.contains("is confined")).count();
    let path = |name: &str| server.path("outside").join(name).display().to_string();
    let (there, missing) = (said("cat", &[&path("there")]), said("cat", &[&path("missing")]));
    assert_eq!((hint(&there), there.lines().count()), (1, 2), "{there}");
    let last = |said: &str| said.lines().last().map(str::to_owned).expect("a line");
    let same = last(&missing).replace("missing", "there");
    assert_eq!(last(&there), same, "the same whether or not it is there");
    for part in [&server.ws().display().to_string(), "[sandbox]", "cat/tool.toml"] {
        assert!(last(&there).contains(part), "{there}");
    }
    assert_eq!(hint(&said("cat", &["../outside/there"])), 1);
    assert_eq!(hint(&said("cat", &["--no-such=/home/x"])), 1);
    // Nothing is said of what lies within, of words that are no paths, or where
    // nothing went wrong.
    for args in [&["missing"][..], &["/usr/missing"], &["/^regex$/"], &["//x/y"], &["./../ws/no"]] {
        let said = said("cat", args);
        assert_eq!((hint(&said), said.lines().count()), (0, 1), "{args:?}: {said}");
    }
    assert_eq!(hint(&said("bare", &[&path("missing")])), 0);
    assert_eq!(said("cat", &[]), "");
    // Nor is much looked at: words that may be paths are, up to the 64th.
    let there = path("there");
    for (before, hints) in [(63, 1), (64, 0)] {
        let args = [vec!["/usr/missing"; before], vec!["word"; 99], vec![&there]].concat();
        assert_eq!(hint(&said("cat", &args)), hints, "after {before}");
    }
    let mut request = json!({"tool":"cat","args":[path("there")],"cwd":server.ws()});
    let reply = server.connect().call(&request);
    assert!(reply["error"].is_null(), "the seed's protocol knows nothing of it: {reply}");
    request["stdio"] = json!("buffered");
    let reply = server.connect().call(&request);
    assert!(reply["error"].is_string() && reply["hint"].is_string(), "{reply}");
    assert_eq!((&reply["code"], &reply["exit_code"]), (&Value::Null, &json!(1)), "{reply}");
}

#[test]
fn a_setup_runs_as_confined_as_its_tool() {
    let server = Server::start(|s| {
        s.tool("kept", SH);
        let script = "cat beside > $HOME/read\necho $TMPDIR > $HOME/tmpdir\n\
                      cat ../../secret > $HOME/secret\nexit 0\n";
        s.file("tools.d/kept/setup.sh", script, 0o755);
        s.file("tools.d/kept/beside", "beside\n", 0o644);
        s.file("secret", "secret\n", 0o644);
    });
    let home = server.path("state/home/kept");
    let read = |name: &str| fs::read_to_string(home.join(name)).unwrap_or_default();
    eventually("the setup is over", || home.join("secret").exists());
    assert_eq!((read("read").as_str(), read("secret").as_str()), ("beside\n", ""));
    assert_eq!(read("tmpdir").trim_end(), home.join("tmp").display().to_string());
}

#[test]
fn explain_says_what_a_call_reaches() {
    let server = Server::start(|s| {
        let gate = "[[gate]]\nadapter = \"git\"\nhosts = [\"forge.example\"]\n\
                    credential = \"file:/run/secrets/token\"\n";
        let text =
            "binary = \"/usr/bin/git\"\ndefault = \"allow\"\n[sandbox]\nread = [\"/opt/x\"]\n";
        s.tool("git", &format!("{text}{gate}"));
        let grammar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools.d/git/grammar.toml");
        s.file("tools.d/git/grammar.toml", fs::read_to_string(grammar).expect("grammar"), 0o644);
    });
    let explain = |words: &[&str]| {
        run(&mut server.verb(&[&["explain", "git"], words].concat()), b"").success()
    };
    let local = explain(&["status"]);
    assert!(local.contains("sandbox: confined, 1 gate; reads /opt/x\n"), "{local}");
    assert!(local.contains("network: none: this call is local\n"), "{local}");
    let fetch = explain(&["fetch", "origin"]);
    assert!(
        fetch.contains("network: the gate:\n  git forge.example, with file:/run/secrets/token\n"),
        "{fetch}"
    );
    assert!(!fetch.contains("may push") && explain(&["push"]).contains("may push"), "{fetch}");
    let plain = run(&mut server.verb(&["explain", "sh", "-c", "x"]), b"").success();
    assert!(plain.contains("sandbox: confined, no network: no [[gate]]\n"), "{plain}");
}

#[test]
fn a_root_that_holds_the_servers_own_is_told_of() {
    let server = Server::start(|s| {
        fs::create_dir(s.path("ws/inner")).expect("mkdir");
        s.env("STATE_DIR", s.path("ws/inner"));
    });
    let told = run(&mut server.verb(&["status"]), b"").success();
    assert!(told.contains("  confinement: every tool reaches "), "{told}");
    assert!(server.log().contains("every tool reaches "), "{}", server.log());
}
