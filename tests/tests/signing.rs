//! Commits and tags are signed by a key that no tool has.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Outcome, Server, Setup, eventually_some, is_root, project, run, spawn};

/// How tools are held: as well as this machine can, and without namespaces.
const LEVELS: [&str; 2] = ["auto", "landlock"];

const GIT: &str = "binary = \"/usr/bin/git\"\n\
    [env]\nforward = [\"GIT_AUTHOR_*\", \"GIT_COMMITTER_*\"]\n";
/// Who asks for what it likes.
const SHELL: &str = "binary = \"/bin/sh\"\n";

fn signing(setup: &Setup, more: &str) -> String {
    let key = setup.path("key");
    format!("[signing]\nkey = \"file:{}\"\n{more}\n", key.display())
}

/// A server whose git and sh may have things signed, and a repository.
fn server(level: &str, more: &str) -> Server {
    let mut setup = Setup::new();
    prepare(&mut setup, level, more);
    begun(Server::start_in(setup))
}

fn begun(server: Server) -> Server {
    git(&server, &["init", "-q", "-b", "main"]).success();
    server
}

fn prepare(setup: &mut Setup, level: &str, more: &str) {
    setup.env("TOOL_SANDBOX_LEVEL", level);
    let path = setup.path("key");
    let key = path.to_str().expect("a path");
    let args = ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key];
    assert_eq!(run(Command::new("ssh-keygen").args(args), b"").code(), Some(0));
    let public = fs::read_to_string(setup.path("key.pub")).expect("a public key");
    setup.file("allowed", format!("* {public}"), 0o644);
    let grammar = fs::read(project().join("tools.d/git/grammar.toml")).expect("a grammar");
    setup.file("tools.d/git/grammar.toml", grammar, 0o644);
    setup.tool("git", &format!("{GIT}{}", signing(setup, more)));
    setup.tool("sh", &format!("{SHELL}{}", signing(setup, "")));
}

fn whose(command: &mut Command) -> &mut Command {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Some One");
        command.env(format!("GIT_{who}_EMAIL"), "one@example.org");
    }
    command
}

fn git(server: &Server, args: &[&str]) -> Outcome {
    run(whose(&mut server.client("git")).args(args), b"")
}

fn sh(server: &Server, script: &str) -> Outcome {
    run(server.client("sh").args(["-c", script]), b"")
}

/// By git itself, outside of the broker.
fn verify(server: &Server, verb: &str, name: &str) -> Outcome {
    let allowed = server.path("allowed");
    let setting = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
    let mut command = Command::new("/usr/bin/git");
    command.current_dir(server.ws()).args(["-c", "safe.directory=*", "-c", &setting, verb, name]);
    run(&mut command, b"")
}

#[track_caller]
fn good(server: &Server, verb: &str, name: &str) {
    let outcome = verify(server, verb, name);
    assert!(
        outcome.code() == Some(0) && outcome.err().contains("Good \"git\" signature"),
        "{outcome:?}"
    );
}

#[test]
fn git_signs_commits_and_tags_without_having_a_key() {
    for level in LEVELS {
        let server = server(level, "");
        git(&server, &["commit", "-q", "-S", "--allow-empty", "-m", "first"]).success();
        good(&server, "verify-commit", "HEAD");
        git(&server, &["tag", "-s", "-m", "a tag", "v1"]).success();
        good(&server, "verify-tag", "v1");
        // Where nobody asks, nothing is signed.
        git(&server, &["commit", "-q", "--allow-empty", "-m", "second"]).success();
        assert_ne!(verify(&server, "verify-commit", "HEAD").code(), Some(0));
        // As a repository's own setting says; and what git does on the way.
        git(&server, &["config", "commit.gpgSign", "true"]).success();
        git(&server, &["commit", "-q", "--allow-empty", "--amend", "-m", "changed"]).success();
        good(&server, "verify-commit", "HEAD");
        git(&server, &["checkout", "-q", "-b", "other", "HEAD^"]).success();
        git(&server, &["commit", "-q", "--allow-empty", "-m", "other"]).success();
        git(&server, &["merge", "-q", "--no-ff", "-m", "merged", "main"]).success();
        good(&server, "verify-commit", "HEAD");
        git(&server, &["rebase", "-q", "-f", "HEAD~1"]).success();
        good(&server, "verify-commit", "HEAD");
        // And is checked through the broker, too.
        let allowed =
            server.file("ws/allowed", fs::read(server.path("allowed")).expect("read"), 0o644);
        let allowed = allowed.to_str().expect("a path");
        git(&server, &["config", "gpg.ssh.allowedSignersFile", allowed]).success();
        let log = git(&server, &["log", "-1", "--show-signature"]).success();
        assert!(log.contains("Good \"git\" signature"), "{log}");
    }
}

#[test]
fn rules_decide_about_each_signature() {
    for level in LEVELS {
        let rules = "[[rule]]\nid = \"no-releases\"\ndecision = \"deny\"\nsubcommand = \"sign\"\n\
        facts.object = \"tag\"\nfacts.tag = \"v*\"\nreason = \"people release\"\n\
        instead = \"ask for a release\"\n\
        [[rule]]\nid = \"own-commits\"\ndecision = \"deny\"\nsubcommand = \"sign\"\n\
        facts.committer = { not = \"*@example.org\" }\nreason = \"not yours\"\n";
        let server = server(level, rules);
        git(&server, &["commit", "-q", "-S", "--allow-empty", "-m", "first"]).success();
        git(&server, &["tag", "-s", "-m", "a tag", "test-1"]).success();
        let refused = git(&server, &["tag", "-s", "-m", "a tag", "v1"]);
        let line = "error: signing was refused: people release [rule no-releases, ";
        assert!(refused.err().contains(line), "{refused:?}");
        assert!(refused.err().contains("; ask for a release\n"), "{refused:?}");
        // Git before 2.45 goes on without a signature; that one is a tag of nobody's.
        assert_ne!(verify(&server, "verify-tag", "v1").code(), Some(0));
        assert_eq!(verify(&server, "verify-tag", "test-1").code(), Some(0));
        let mut command = server.client("git");
        whose(&mut command).env("GIT_COMMITTER_EMAIL", "boss@example.com");
        let refused = run(command.args(["commit", "-S", "--allow-empty", "-m", "x"]), b"");
        assert_eq!(refused.code(), Some(128), "{refused:?}");
        assert!(refused.err().contains("not yours [rule own-commits, "), "{refused:?}");
        assert_eq!(git(&server, &["rev-list", "--count", "HEAD"]).success(), "1\n");
    }
}

#[test]
fn a_default_holds_for_what_no_rule_is_about() {
    for level in LEVELS {
        let server = server(level, "default = \"deny\"");
        let refused = git(&server, &["commit", "-S", "--allow-empty", "-m", "x"]);
        assert_eq!(refused.code(), Some(128), "{refused:?}");
        let line = "error: signing was refused: nothing is signed that no rule allows";
        assert!(refused.err().contains(line), "{refused:?}");
        git(&server, &["commit", "-q", "--allow-empty", "-m", "x"]).success();
    }
}

const COMMIT: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
    author A <a@example.org> 1700000000 +0000\ncommitter A <a@example.org> 1700000000 +0000\n\n";

/// As git does it, but with what an attacker likes.
const ASK: &str = "ask() { \"$GIT_CONFIG_VALUE_1\" -Y sign -n \"$1\" -f /dev/null \"$2\"; }\n";

#[test]
fn nothing_but_a_commit_or_a_tag_is_signed_and_in_no_other_namespace() {
    for level in LEVELS {
        let server = server(level, "");
        server.file("ws/commit", format!("{COMMIT}one\n"), 0o644);
        server.file("ws/mail", "Subject: x\n\ny\n", 0o644);
        server.file("ws/nul", format!("{COMMIT}one\0two\n"), 0o644);
        server.file("ws/large", format!("{COMMIT}{}", "x".repeat(1 << 20)), 0o644);
        for (namespace, file, says) in [
            ("file", "commit", "the namespace file is not \"git\""),
            ("ssh-connection", "commit", "is not \"git\""),
            ("git\nfile", "commit", "neither a commit nor a tag"),
            ("git", "mail", "neither a commit nor a tag"),
            ("git", "nul", "a NUL byte"),
            ("git", "large", "larger than"),
            ("git", "/dev/null", "neither a commit nor a tag"),
            ("git", "absent", "cannot read absent"),
        ] {
            let outcome = sh(&server, &format!("{ASK}ask '{namespace}' {file}"));
            assert_eq!(outcome.code(), Some(255), "{outcome:?}");
            assert!(
                outcome.err().contains(says) && outcome.err().lines().count() == 1,
                "{outcome:?}"
            );
        }
        let signed: Vec<String> = fs::read_dir(server.ws())
            .expect("a workspace")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .filter(|name| name.ends_with(".sig"))
            .collect();
        assert!(signed.is_empty(), "{signed:?}");
        sh(&server, &format!("{ASK}ask git commit")).success();
        assert!(server.ws().join("commit.sig").exists());
    }
}

#[test]
fn processes_of_a_call_that_ask_at_once_get_each_its_own_answer() {
    for level in LEVELS {
        let server = server(level, "");
        for number in 0..12 {
            server.file(format!("ws/c{number}"), format!("{COMMIT}{number}\n"), 0o644);
        }
        let script =
            format!("{ASK}for i in 0 1 2 3 4 5 6 7 8 9 10 11; do ask git c$i & done; wait");
        sh(&server, &script).success();
        for number in 0..12 {
            let file =
                |name: &str| server.ws().join(name).into_os_string().into_string().expect("text");
            let mut check = Command::new("ssh-keygen");
            check.args([
                "-Y",
                "check-novalidate",
                "-n",
                "git",
                "-s",
                &file(&format!("c{number}.sig")),
            ]);
            run(&mut check, &fs::read(file(&format!("c{number}"))).expect("read")).success();
        }
    }
}

#[test]
fn what_a_call_leaves_behind_signs_nothing() {
    for level in LEVELS {
        let server = server(level, "");
        server.file("ws/commit", format!("{COMMIT}one\n"), 0o644);
        let script = format!(
            "{ASK}(until [ -e go ]; do sleep 0.02; done; ask git commit 2>said; echo $? >done) >/dev/null 2>&1 &"
        );
        sh(&server, &script).success();
        server.file("ws/go", "", 0o644);
        let said = tool_broker_tests::eventually_some("the end of what was left", || {
            fs::read_to_string(server.ws().join("done")).ok().filter(|text| text.ends_with('\n'))
        });
        assert_eq!(said, "255\n");
        let said = fs::read_to_string(server.ws().join("said")).expect("read");
        assert!(said.contains("the call that this belongs to is over"), "{said}");
        assert!(!server.ws().join("commit.sig").exists());
    }
}

#[test]
fn the_bell_takes_no_number_of_the_callers_and_is_there_in_every_way_to_call() {
    for level in LEVELS {
        let server = server(level, "");
        let show = "echo $TOOL_SIGN; test -S /proc/self/fd/$TOOL_SIGN && echo there";
        assert_eq!(sh(&server, show).success(), "1023\nthere\n");
        let mut wire = server.connect();
        wire.send_json(&json!({"tool": "sh", "args": ["-c", show], "cwd": server.ws()}));
        assert_eq!(wire.recv_json()["stdout"], json!("1023\nthere\n"));
        // Its highest number is the caller's.
        let client = server.client("sh");
        let program = Path::new(client.get_program()).display().to_string();
        let mut command = server.command(Path::new("/bin/bash"));
        command.current_dir(server.ws());
        command.args(["-c", &format!("exec 1023</dev/null; exec {program} -c '{show}'")]);
        assert_eq!(run(&mut command, b"").success(), "1022\nthere\n");
    }
}

#[test]
fn a_tool_without_signing_has_no_way_to_ask() {
    for level in LEVELS {
        let server = Server::start(|setup| {
            setup.env("TOOL_SANDBOX_LEVEL", level);
            setup.tool("git", GIT);
        });
        assert_eq!(
            sh(&server, "echo ${TOOL_SIGN-none}; ls /proc/self/fd | wc -l").success(),
            "none\n4\n"
        );
        let refused = git(&server, &["commit", "-S", "--allow-empty", "-m", "x"]);
        assert!(refused.code().is_some_and(|code| code > 0), "{refused:?}");
        // The program itself, where nobody holds it.
        let mut program = Command::new(&binaries().server);
        program.env_remove("TOOL_SIGN").args(["-Y", "sign", "-n", "git", "-f", "x", "/dev/null"]);
        let refused = run(&mut program, b"");
        assert_eq!(refused.code(), Some(255));
        assert!(refused.err().contains("the tool's definition has no [signing]"), "{refused:?}");
    }
}

#[test]
fn a_key_that_cannot_be_used_is_named_and_never_shown() {
    for level in LEVELS {
        let server = server(level, "");
        let key = fs::read_to_string(server.path("key")).expect("read");
        let commit = || git(&server, &["commit", "-S", "--allow-empty", "-m", "x"]);
        for (text, says) in [
            (None, "there is no signing key at file:"),
            (Some(""), "is not an OpenSSH private key"),
            (
                Some("-----BEGIN RSA PRIVATE KEY-----\nSECRETSECRET\n"),
                "is not an OpenSSH private key",
            ),
            (Some(&key[..key.len() / 2]), "is not an OpenSSH private key"),
        ] {
            match text {
                Some(text) => fs::write(server.path("key"), text).expect("write"),
                None => fs::remove_file(server.path("key")).expect("remove"),
            }
            let refused = commit();
            assert_eq!(refused.code(), Some(128));
            assert!(refused.err().contains(says), "{refused:?}");
            assert!(!refused.err().contains("SECRET"), "{refused:?}");
        }
        // Put back, it is read anew.
        fs::write(server.path("key"), &key).expect("write");
        commit().success();
        // Not in what a tool is given, nor in what is written down.
        let seen = sh(&server, "env; cat /proc/self/cmdline /proc/$PPID/cmdline").out();
        let log = fs::read_to_string(server.path("server.log")).unwrap_or_default();
        for line in key.lines().filter(|line| !line.starts_with('-')) {
            assert!(!seen.contains(line) && !log.contains(line));
        }
    }
}

#[test]
fn the_key_is_out_of_reach_of_whoever_may_have_something_signed() {
    for level in LEVELS {
        let mut setup = Setup::new();
        prepare(&mut setup, level, "");
        if is_root() {
            chown(setup.ws(), Some(4_242), Some(4_243)).expect("chown");
        }
        // The build directory may lie where only we can go.
        let mut command = setup.command(&setup.reachable(&binaries().server));
        let server = begun(Server::start_command(setup, {
            command.arg("serve");
            command
        }));
        git(&server, &["commit", "-q", "-S", "--allow-empty", "-m", "first"]).success();
        good(&server, "verify-commit", "HEAD");
        let key = server.path("key").display().to_string();
        let script = format!(
            "cat {key}; cp {key} .; ln {key} .; ln -s {key} link; cat link; cat <{key}; git hash-object {key}; \
         cat /proc/*/environ /proc/*/mem /proc/*/fd/* /proc/*/cmdline; cat $TOOL_SIGN <&$TOOL_SIGN; \
         timeout 5 grep -rs OPENSSH {}; \
         \"$GIT_CONFIG_VALUE_1\" -Y sign -n git -f {key} {key}; \
         \"$GIT_CONFIG_VALUE_1\" -Y verify -n git -f {key} -I x -s {key} <{key}; \
         git -c gpg.ssh.program=cat -c user.signingKey={key} commit -S --allow-empty -m x",
            server.dir().display()
        );
        let outcome = sh(&server, &format!("({script}) 2>&1 </dev/null"));
        let text = fs::read_to_string(server.path("key")).expect("read");
        for line in text.lines().filter(|line| !line.starts_with('-')) {
            assert!(!outcome.out().contains(line), "{}", outcome.out());
        }
        assert!(!server.ws().join("key").exists());
    }
}

#[test]
fn a_signature_that_is_asked_about_waits_for_a_person_and_is_in_the_audit() {
    for level in LEVELS {
        let server = server(level, "default = \"ask\"");
        for (answer, code) in [("approve", 0), ("deny", 128)] {
            let mut command = server.client("git");
            let words = ["commit", "-q", "-S", "--allow-empty", "-m", "a subject"];
            let caller = spawn(whose(&mut command).args(words));
            let id = eventually_some("a question waits", || {
                let answer = server.control().call(&json!({ "op": "approvals" }));
                let waiting = answer["waiting"].as_array().expect("a list");
                waiting.iter().find_map(|asked| asked["id"].as_str().map(str::to_owned))
            });
            let listed = run(&mut server.verb(&["approvals"]), b"").success();
            let print = run(Command::new("ssh-keygen").arg("-lf").arg(server.path("key.pub")), b"");
            let print =
                format!("by the key {}, sign a", print.out().split(' ').nth(1).expect("it"));
            for part in [
                "sign a commit ",
                "a subject",
                "by Some One <one@example.org>",
                ", tree 4b825dc642cb, ",
                ", SHA-256 of all but its times ",
                &print,
                "request:    a signature, with the key at file:",
                &format!("directory:  {}\n", server.ws().display()),
            ] {
                assert!(listed.contains(part), "{part}: {listed}");
            }
            // It would stand where it is asked for, and nowhere else.
            assert!(!listed.contains("repository:") && !listed.contains("signing:0"), "{listed}");
            run(&mut server.verb(&[answer, &id]), b"").success();
            let outcome = caller.wait();
            assert_eq!(outcome.code(), Some(code), "{outcome:?}");
            assert!(
                outcome.err().contains("waits up to 300 s for a person's approval"),
                "{outcome:?}"
            );
            assert!(outcome.err().contains("held, nothing has been signed: "), "{outcome:?}");
            assert_eq!(outcome.err().contains(&format!("a person denied request {id}")), code != 0);
            good(&server, "verify-commit", "HEAD");
        }
        assert_eq!(git(&server, &["rev-list", "--count", "HEAD"]).success(), "1\n");
        let audit = run(&mut server.verb(&["audit", "--json"]), b"").success();
        let signed = audit.lines().filter(|line| line.contains("sign a commit")).count();
        assert_eq!(signed, 2, "{audit}");
    }
}

/// An approval of a rule for a while is for one repository.
#[test]
fn an_approval_that_stands_signs_in_its_repository_alone() {
    for level in LEVELS {
        let rule = "[[rule]]\nid = \"signs\"\ndecision = \"ask\"\nsubcommand = \"sign\"\n\
        on = \"wire\"\nreason = \"a person looks\"\n";
        let server = server(level, rule);
        git(&server, &["init", "-q", "-b", "main", "other"]).success();
        let commit = |dir: &str| {
            let mut command = server.client("git");
            command.current_dir(server.ws().join(dir));
            spawn(whose(&mut command).args(["commit", "-q", "-S", "--allow-empty", "-m", "x"]))
        };
        let asked = || {
            eventually_some("a question waits", || {
                let answer = server.control().call(&json!({ "op": "approvals" }));
                let waiting = answer["waiting"].as_array().expect("a list");
                waiting.iter().find_map(|asked| asked["id"].as_str().map(str::to_owned))
            })
        };
        let first = commit(".");
        let id = asked();
        run(&mut server.verb(&["approve", &id, "--for", "1h"]), b"").success();
        first.wait().success();
        assert_eq!(commit(".").wait().code(), Some(0));
        // Nor by a call that only begins there.
        let mut command = server.client("git");
        let words = ["-C", "other", "commit", "-q", "-S", "--allow-empty", "-m", "x"];
        let led = spawn(whose(&mut command).args(words));
        let id = asked();
        let standing = run(&mut server.verb(&["approve", &id, "--for", "1h"]), b"");
        assert!(standing.err().contains("works in another directory"), "{standing:?}");
        run(&mut server.verb(&["deny", &id]), b"").success();
        assert_eq!(led.wait().code(), Some(128));
        let elsewhere = commit("other");
        run(&mut server.verb(&["deny", &asked()]), b"").success();
        assert_eq!(elsewhere.wait().code(), Some(128));
    }
}
