//! git through its gate: the real client, the real server, and a forge on loopback
//! that wants a password which no tool has.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tool_broker_tests::forge::Forge;
use tool_broker_tests::{Outcome, Running, Server, Setup, eventually, eventually_some, run, spawn};

const PASSWORD: &str = "canary-of-the-forge";

/// A server whose git has a gate to a forge with the repository `o/r`.
struct Stand {
    server: Server,
    forge: Forge,
}

fn stand(rules: &str) -> Stand {
    stand_with(rules, |_| {})
}

fn stand_with(rules: &str, prepare: impl FnOnce(&mut Setup)) -> Stand {
    let mut started = None;
    let server = Server::start(|setup| {
        let forge = Forge::start(&setup.path("forge"), PASSWORD);
        forge.repository("o/r");
        let secret = setup.file("run/forge_token", format!("{PASSWORD}\n"), 0o600);
        let grammar = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
        let grammar = fs::read(grammar.join("tools.d/git/grammar.toml")).expect("a grammar");
        setup.file("tools.d/git/grammar.toml", grammar, 0o644);
        setup.tool("git", &definition(&forge, &secret, rules));
        prepare(setup);
        started = Some(forge);
    });
    Stand { server, forge: started.expect("started") }
}

fn definition(forge: &Forge, secret: &Path, rules: &str) -> String {
    format!(
        "binary = \"/usr/bin/git\"\ndefault = \"allow\"\nunread = \"allow\"\nprotected = [\"main\"]\n{rules}\n\
         [env]\nforward = [\"GIT_AUTHOR_*\", \"GIT_COMMITTER_*\"]\n\
         [[gate]]\nadapter = \"git\"\nhosts = [\"forge.test\"]\nupstream = \"{}\"\n\
         credential = \"file:{}\"\n",
        forge.url(),
        secret.display()
    )
}

impl Stand {
    fn spawn(&self, directory: &str, words: &[&str]) -> Running {
        let mut git = self.server.client("git");
        git.args(words).current_dir(self.server.ws().join(directory));
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "A")
                .env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        spawn(&mut git)
    }

    fn git(&self, directory: &str, words: &[&str]) -> Outcome {
        self.spawn(directory, words).wait()
    }

    /// A clone in `ws/r`, with a commit of its own on the branch `topic`.
    fn cloned(&self) {
        self.git("", &["clone", "-q", "https://forge.test/o/r"]).success();
        self.git("r", &["checkout", "-q", "-b", "topic"]).success();
        self.git("r", &["commit", "-q", "--allow-empty", "-m", "mine"]).success();
    }

    /// The audit's lines of that kind.
    fn audited(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.server.path("state/audit/audit.jsonl")).expect("audit");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.filter(|line: &Value| line["kind"] == json!(kind)).collect()
    }

    fn asked(&self) -> Value {
        eventually_some("a question waits", || {
            let answer = self.server.control().call(&json!({ "op": "approvals" }));
            let waiting = answer["waiting"].as_array()?.clone();
            waiting.into_iter().find(|asked| asked["waits"] == json!(true))
        })
    }

    fn verb(&self, words: &[&str]) -> Outcome {
        run(&mut self.server.verb(words), b"")
    }

    /// Whether the forge has that ref.
    fn has(&self, name: &str) -> bool {
        self.forge.refs("o/r").lines().any(|line| line.starts_with(&format!("{name} ")))
    }
}

const PROTECTED: &str = "[[rule]]\nid = \"protected\"\ndecision = \"ask\"\nsubcommand = \"push\"\n\
    facts = { ref = \"@protected\" }\nreason = \"others build on {value}\"\n\
    instead = \"push a branch of your own\"\n\
    [[rule]]\nid = \"no-release\"\ndecision = \"deny\"\nsubcommand = \"push\"\n\
    facts = { ref = \"release/*\" }\nreason = \"releases are made elsewhere\"\n";

#[test]
fn a_days_work_goes_through_the_gate_and_the_credential_stays_behind_it() {
    let stand = stand("");
    stand.cloned();
    let pushed = stand.git("r", &["push", "-q", "-u", "origin", "topic"]);
    assert_eq!(pushed.code(), Some(0), "{pushed:?}");
    assert!(stand.has("refs/heads/topic"));
    stand.git("r", &["fetch", "-q", "--prune"]).success();
    stand.git("r", &["pull", "-q", "--rebase"]).success();
    let listed = stand.git("r", &["ls-remote", "origin"]).success();
    assert!(listed.contains("refs/heads/topic"), "{listed}");
    let url = stand.git("r", &["config", "remote.origin.url"]).success();
    assert_eq!(url, "https://forge.test/o/r\n");
    assert!(stand.forge.take().iter().all(|asked| asked.known));
    // It is nowhere that a tool could look.
    let found = run(
        std::process::Command::new("grep").args(["-r", "-l", PASSWORD]).args([
            stand.server.ws(),
            stand.server.path("state"),
            stand.server.path("server.log"),
        ]),
        b"",
    );
    assert_eq!(found.out(), "");
    let changed: Vec<Value> =
        stand.audited("wire").into_iter().filter(|line| line["changes"] == json!(true)).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    let line = &changed[0];
    assert_eq!(line["adapter"], json!("git"));
    assert_eq!(line["host"], json!("forge.test"));
    assert_eq!(line["decision"], json!("allow"));
    assert_eq!(line["passed"], json!(true));
    assert_eq!(line["facts"]["ref"], json!(["topic"]));
    assert!(line["credential"].as_str().expect("a name").starts_with("file:"), "{line}");
    let call = line["call_id"].as_str().expect("a call");
    let shown = stand.verb(&["audit", "--call", call]).success();
    assert!(shown.contains("wire passed") && shown.contains("exit 0"), "{shown}");
    assert!(stand.verb(&["audit", "--verify"]).code() == Some(0));
    let figures = stand.verb(&["metrics"]).success();
    let passed = figures
        .lines()
        .find_map(|line| line.strip_prefix("tool_server_gate_requests_total{outcome=\"passed\"} "));
    assert!(passed.is_some_and(|count| count != "0"), "{figures}");
}

#[test]
fn a_rule_that_asks_is_asked_about_what_is_on_the_wire() {
    let stand = stand(PROTECTED);
    stand.cloned();
    let push = stand.spawn("r", &["push", "-q", "origin", "topic:main"]);
    let asked = stand.asked();
    let id = asked["id"].as_str().expect("an id").to_owned();
    assert_eq!(asked["rule"], json!("protected"));
    assert_eq!(asked["repository"], json!("forge.test/o/r"));
    let request = asked["wire"].to_string();
    for part in ["forge.test", "with the credential file:", "refs/heads/main"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let listed = stand.verb(&["approvals"]).success();
    assert!(listed.contains("  request:    "), "{listed}");
    let main = stand.forge.refs("o/r");
    stand.verb(&["approve", &id]).success();
    let pushed = push.wait();
    assert_eq!(pushed.code(), Some(0), "{pushed:?}");
    assert!(pushed.err().contains("held, nothing has been sent"), "{pushed:?}");
    assert_ne!(stand.forge.refs("o/r"), main);
    let line = stand.audited("wire").pop().expect("a line");
    assert_eq!(line["approval"]["id"], json!(id));
    assert_eq!(line["approval"]["granted"], json!(true));
}

#[test]
fn who_says_no_is_quoted_and_nothing_is_sent() {
    let stand = stand(PROTECTED);
    stand.cloned();
    let push = stand.spawn("r", &["push", "origin", "topic:main"]);
    let id = stand.asked()["id"].as_str().expect("an id").to_owned();
    let main = stand.forge.refs("o/r");
    stand.verb(&["deny", &id, "--reason", "not today"]).success();
    let pushed = push.wait();
    assert_eq!(pushed.code(), Some(1), "{pushed:?}");
    assert!(pushed.err().contains("not today"), "{pushed:?}");
    assert!(pushed.err().contains("[remote rejected]"), "{pushed:?}");
    assert_eq!(stand.forge.refs("o/r"), main);
}

#[test]
fn an_approval_may_stand_for_the_rule_and_the_repository() {
    let stand = stand(PROTECTED);
    stand.cloned();
    let push = stand.spawn("r", &["push", "-q", "origin", "topic:main"]);
    let id = stand.asked()["id"].as_str().expect("an id").to_owned();
    let told = stand.verb(&["approve", &id, "--for", "1h"]).success();
    assert!(told.contains("rule protected of git in forge.test/o/r"), "{told}");
    assert_eq!(push.wait().code(), Some(0));
    stand.git("r", &["commit", "-q", "--allow-empty", "-m", "more"]).success();
    stand.git("r", &["push", "-q", "origin", "topic:main"]).success();
}

#[test]
fn an_answer_that_comes_late_is_for_the_same_request() {
    let stand = stand_with(PROTECTED, |setup| setup.env("TOOL_APPROVALS_TIMEOUT", "0.3"));
    stand.cloned();
    let push = stand.git("r", &["push", "-q", "origin", "topic:main"]);
    assert_eq!(push.code(), Some(1), "{push:?}");
    assert!(push.err().contains("nobody answered request"), "{push:?}");
    let answer = stand.server.control().call(&json!({ "op": "approvals" }));
    let id = answer["waiting"][0]["id"].as_str().expect("an id").to_owned();
    stand.verb(&["approve", &id]).success();
    // Another request is not what was approved.
    stand.git("r", &["commit", "-q", "--allow-empty", "-m", "more"]).success();
    assert_eq!(stand.git("r", &["push", "-q", "origin", "topic:main"]).code(), Some(1));
    stand.git("r", &["reset", "-q", "--hard", "HEAD~1"]).success();
    stand.git("r", &["push", "-q", "origin", "topic:main"]).success();
}

#[test]
fn a_hook_that_uses_the_way_out_of_an_honest_push_meets_the_same_rules() {
    let stand = stand(PROTECTED);
    stand.cloned();
    let hook = "#!/bin/sh\nenv > env-of-the-hook\n\
        git push --no-verify origin HEAD:refs/heads/release/1 >hook-said 2>&1\nexit 0\n";
    stand.server.file("ws/r/.git/hooks/pre-push", hook, 0o755);
    let pushed = stand.git("r", &["push", "-q", "origin", "topic"]);
    assert_eq!(pushed.code(), Some(0), "{pushed:?}");
    let said = fs::read_to_string(stand.server.ws().join("r/hook-said")).expect("it ran");
    assert!(said.contains("releases are made elsewhere"), "{said}");
    assert!(stand.has("refs/heads/topic") && !stand.has("refs/heads/release/1"));
    let env = fs::read_to_string(stand.server.ws().join("r/env-of-the-hook")).expect("it ran");
    assert!(!env.contains(PASSWORD), "{env}");
}

#[test]
fn a_call_that_only_fetches_cannot_push_and_a_local_one_reaches_nothing() {
    let stand = stand("");
    stand.cloned();
    let before = stand.forge.refs("o/r");
    let hook = "#!/bin/sh\ngit push origin HEAD:refs/heads/evil >hook-said 2>&1\nexit 0\n";
    stand.server.file("ws/r/.git/hooks/post-checkout", hook, 0o755);
    let pushed = stand.git("r", &["checkout", "-q", "main"]);
    assert_eq!(pushed.code(), Some(0), "{pushed:?}");
    let alias = "!git push origin HEAD:refs/heads/evil";
    let by_alias = stand.git("r", &["-c", &format!("alias.x={alias}"), "x"]);
    assert_ne!(by_alias.code(), Some(0), "{by_alias:?}");
    assert_eq!(stand.forge.refs("o/r"), before);
    assert!(fs::read_to_string(stand.server.ws().join("r/hook-said")).is_ok(), "it ran");
}

#[test]
fn who_observes_lets_requests_pass_and_says_what_it_would_have_done() {
    let stand = stand(&format!("mode = \"observe\"\n{PROTECTED}"));
    stand.cloned();
    stand.git("r", &["push", "-q", "origin", "topic:main"]).success();
    let line = stand.audited("wire").pop().expect("a line");
    assert_eq!((&line["decision"], &line["would"]), (&json!("allow"), &json!("ask")));
    assert!(stand.server.log().contains("observed on the wire, not enforced"));
}

#[test]
fn a_partial_clone_fetches_what_it_lacks() {
    let stand = stand("");
    stand.cloned();
    fs::write(stand.server.ws().join("r/file"), "content\n").expect("write");
    stand.git("r", &["add", "file"]).success();
    stand.git("r", &["commit", "-q", "-m", "file"]).success();
    stand.git("r", &["push", "-q", "origin", "topic:main"]).success();
    let words =
        ["clone", "-q", "--filter=blob:none", "--no-checkout", "https://forge.test/o/r", "p"];
    stand.git("", &words).success();
    assert_eq!(stand.git("p", &["show", "HEAD:file"]).success(), "content\n");
}

#[test]
fn the_time_that_a_person_takes_is_not_the_calls_own() {
    let stand = stand(&format!("timeout = 10\n{PROTECTED}"));
    stand.cloned();
    let push = stand.spawn("r", &["push", "-q", "origin", "topic:main"]);
    let id = stand.asked()["id"].as_str().expect("an id").to_owned();
    // Longer than the call itself may take, which is enough for a push on a busy machine.
    std::thread::sleep(std::time::Duration::from_secs(11));
    stand.verb(&["approve", &id]).success();
    assert_eq!(push.wait().code(), Some(0));
}

#[test]
fn a_question_ends_with_the_call_that_asked() {
    let stand = stand(PROTECTED);
    stand.cloned();
    let mut push = stand.spawn("r", &["push", "-q", "origin", "topic:main"]);
    stand.asked();
    let main = stand.forge.refs("o/r");
    push.child.kill().expect("kill");
    eventually("the question is left", || {
        let answer = stand.server.control().call(&json!({ "op": "approvals" }));
        answer["waiting"].as_array().expect("a list").iter().all(|it| it["waits"] == json!(false))
    });
    let figures = stand.verb(&["metrics"]).success();
    assert!(figures.contains("approvals_total{outcome=\"gone\"} 1"), "{figures}");
    assert_eq!(stand.forge.refs("o/r"), main);
}

#[test]
fn a_tool_that_asks_without_end_fills_no_audit() {
    let stand = stand_with("", |setup| {
        let gate = "[[gate]]\nadapter = \"http\"\nhosts = [\"x.test\"]\n";
        setup.tool("ask", &format!("binary = \"/bin/sh\"\ndefault = \"allow\"\n{gate}"));
    });
    let script =
        "for n in $(seq 100); do git ls-remote http://other.test/o/r 2>/dev/null; done; true";
    run(stand.server.client("ask").args(["-c", script]), b"").success();
    let lines = stand.audited("wire");
    assert_eq!(lines.len(), 64, "{lines:?}");
    assert!(lines.iter().all(|line| line["passed"] == json!(false)));
    let more = stand.audited("wire_more");
    // git asks twice.
    assert_eq!(more.len(), 1);
    assert!(more[0]["refused"].as_u64().is_some_and(|count| count >= 36), "{more:?}");
}

/// Neither in what the rules refuse, nor in what they only observe.
#[test]
fn a_tool_that_is_refused_without_end_fills_no_log() {
    let gate = "[[gate]]\nadapter = \"http\"\nhosts = [\"x.test\"]\n";
    let rule = "[[rule]]\nid = \"no\"\ndecision = \"deny\"\non = \"wire\"\n\
        facts = { host = \"x.test\" }\nreason = \"it is not for here\"\n";
    for (mode, line, refused) in
        [("enforce", "not sent: GET", true), ("observe", "not enforced: GET", false)]
    {
        let stand = stand_with("", |setup| {
            let start = format!("binary = \"/bin/sh\"\ndefault = \"allow\"\nmode = \"{mode}\"\n");
            setup.tool("ask", &format!("{start}{rule}{gate}"));
        });
        let script =
            "for n in $(seq 100); do git ls-remote http://x.test/o/r 2>/dev/null; done; true";
        run(stand.server.client("ask").args(["-c", script]), b"").success();
        // The log is written by a thread of its own.
        let log = eventually_some("the line of the rest", || {
            let log = fs::read_to_string(stand.server.path("server.log")).expect("a log");
            log.contains("have no line here").then_some(log)
        });
        // Some of the 64 are about what git asks before it says its secret.
        assert!((16..=64).contains(&log.matches(line).count()), "{mode}: {log}");
        let rest: Vec<_> = log.lines().filter(|line| line.contains("have no line here")).collect();
        assert_eq!(rest.len(), 1, "{mode}: {rest:?}");
        assert_eq!(stand.audited("wire_more").len(), 1, "{mode}: the same as in the audit");
        let passed = |line: &Value| line["passed"] == json!(true);
        assert_eq!(stand.audited("wire").iter().any(passed), !refused, "{mode}");
    }
}

#[test]
fn hooks_that_are_switched_off_do_not_run_and_the_rest_is_as_it_was() {
    let stand = stand("[sandbox]\nhooks = \"off\"\n");
    stand.cloned();
    let hook = "#!/bin/sh\ntouch it-ran\n";
    for name in ["pre-commit", "pre-push"] {
        stand.server.file(format!("ws/r/.git/hooks/{name}"), hook, 0o755);
    }
    stand.git("r", &["commit", "-q", "--allow-empty", "-m", "more"]).success();
    stand.git("r", &["push", "-q", "origin", "topic"]).success();
    assert!(stand.has("refs/heads/topic"));
    assert!(!stand.server.ws().join("r/it-ran").exists());
}

#[test]
fn a_credential_that_is_not_there_is_told_to_git_and_once_in_the_log() {
    let stand = stand("");
    let secret = stand.server.path("run/forge_token");
    let told = || {
        let log = fs::read_to_string(stand.server.path("server.log")).expect("a log");
        log.matches("a host refuses requests that have no credential").count()
    };
    for times in 1..=2 {
        fs::remove_file(&secret).expect("removed");
        for _ in 0..2 {
            let outcome = stand.git("", &["ls-remote", "https://forge.test/o/r"]);
            assert_eq!(outcome.code(), Some(128), "{outcome:?}");
            let said = format!("the credential file:{} is not there", secret.display());
            assert!(outcome.err().contains(&said), "{outcome:?}");
        }
        assert_eq!(told(), times);
        // It was there in between.
        fs::write(&secret, PASSWORD).expect("written");
        stand.git("", &["ls-remote", "https://forge.test/o/r"]).success();
    }
}
