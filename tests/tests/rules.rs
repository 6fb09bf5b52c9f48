//! Rules, from outside: what a caller sees of them, and what an operator does.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, run};

/// A tool that says what it got, with a small grammar.
const DEFINITION: &str = r#"binary = "/bin/echo"
default = "deny"

[grammar]
options = ["-C="]
clusters = true
[grammar.commands.push]
options = ["-f --force", "-n --dry-run"]
[grammar.commands.status]
options = ["-s"]

[[rule]]
id = "status"
decision = "allow"
reason = "it only looks"
subcommand = "status"

[[rule]]
id = "push"
decision = "allow"
reason = "to branches of your own"
subcommand = "push"

[[rule]]
id = "no-force"
decision = "deny"
reason = "a force push rewrites what others have"
instead = "push without --force"
subcommand = "push"
options = "--force"
without = "--dry-run"
"#;

fn line_of(text: &str, needle: &str) -> usize {
    let found = text.lines().position(|line| line.contains(needle));
    // Counted from 1, and the table begins in the line before.
    found.unwrap_or_else(|| panic!("no {needle}"))
}

/// The line of the `[[rule]]` that has this id.
fn rule_line(text: &str, id: &str) -> usize {
    line_of(text, &format!("id = \"{id}\""))
}

fn serve(definition: &str) -> Server {
    Server::start(|s| s.tool("t", definition))
}

fn said(server: &Server, words: &[&str]) -> (Option<i32>, String, String) {
    let outcome = run(server.client("t").args(words), b"");
    (outcome.code(), outcome.out(), outcome.err())
}

#[test]
fn a_refusal_says_why_by_which_rule_and_what_to_do_instead() {
    let server = serve(DEFINITION);
    let place = server.path("tools.d/t/tool.toml");
    let line = rule_line(DEFINITION, "no-force");
    let told = run(server.client("t").args(["push", "-f", "x"]), b"").refused(126);
    let wanted = format!(
        "t: refused: a force push rewrites what others have [rule no-force, {}:{line}] (instead: push without --force)\n",
        place.display()
    );
    assert_eq!(told, wanted);
    let reply = server
        .connect()
        .call(&json!({"tool":"t","args":["push","--force"],"cwd":server.ws(),"stdio":"buffered"}));
    assert_eq!((&reply["code"], &reply["rule"]), (&json!("denied"), &json!("no-force")), "{reply}");
    assert_eq!(reply["hint"], json!("instead: push without --force"), "{reply}");
    assert_eq!(reply["exit_code"], json!(126));
}

#[test]
fn what_a_rule_allows_runs_and_what_none_allows_is_the_defaults() {
    let server = serve(DEFINITION);
    assert_eq!(said(&server, &["push", "a b"]), (Some(0), "push a b\n".into(), String::new()));
    assert_eq!(said(&server, &["push", "-nf"]).0, Some(0), "nothing is pushed");
    assert_eq!(said(&server, &["status", "-s"]).0, Some(0));
    let told = run(server.client("t").args(["-C", "x", "status"]), b"").refused(126);
    assert!(told.contains("[rule default, ") && told.contains("tool.toml:2]"), "{told}");
    server.tool("t", &DEFINITION.replace("\"deny\"\n\n[grammar]", "\"allow\"\n\n[grammar]"));
    eventually("the new default is in force", || {
        said(&server, &["-C", "x", "status"]).0 == Some(0)
    });
}

#[test]
fn what_the_grammar_cannot_read_is_refused_unless_the_definition_says_otherwise() {
    let server = serve(DEFINITION);
    for (words, what) in [
        (&["fly"][..], "fly is no command of t known to these rules"),
        (&["push", "--fore"], "--fore is no option of t push known to these rules"),
        (&["push", "--x\u{1b}[2J"], "\\x1b[2J"),
    ] {
        let told = run(server.client("t").args(words), b"").refused(126);
        assert!(told.contains("the arguments are not understood: "), "{told}");
        assert!(told.contains(what) && told.contains("[rule unread, "), "{told}");
        assert!(!told.contains('\u{1b}'), "{told:?}");
    }
    let text = format!(
        "unread = \"allow\"\n{}",
        DEFINITION.replace("= \"deny\"\n\n[gr", "= \"allow\"\n\n[gr")
    );
    server.tool("t", &text);
    eventually("what is not understood runs", || said(&server, &["fly"]).0 == Some(0));
    let told = run(server.client("t").args(["push", "-f", "--fly"]), b"").refused(126);
    assert!(told.contains("[rule no-force, "), "what is understood still counts: {told}");
}

#[test]
fn observe_lets_all_pass_and_says_loudly_what_it_would_have_refused() {
    let observed = format!("mode = \"observe\"\n{DEFINITION}");
    let definition = || observed.clone();
    let by_tool = Server::start(|s| s.tool("t", &definition()));
    let by_server = Server::start(|s| {
        s.tool("t", DEFINITION);
        s.env("TOOL_MODE", "observe");
    });
    for server in [&by_tool, &by_server] {
        assert_eq!(said(server, &["push", "-f"]), (Some(0), "push -f\n".into(), String::new()));
        assert_eq!(said(server, &["fly"]).0, Some(0));
        eventually("the log tells of both", || {
            let log = server.log();
            let warned = |rule: &str| {
                log.lines().any(|line| {
                    line.contains("observed, not enforced")
                        && line.contains(rule)
                        && line.contains("deny")
                        && line.contains("call_id")
                        && line.contains("WARN")
                })
            };
            warned("no-force") && warned("unread")
        });
        assert!(server.status().to_string().contains("only observed"), "{}", server.status());
        let check = run(&mut server.verb(&["check"]), b"").success();
        assert!(check.contains("only observed"), "{check}");
    }
}

#[test]
fn a_definition_that_fails_its_examples_leaves_the_last_good_one_in_force() {
    let good = format!("{DEFINITION}\n[[example]]\ncall = \"push -f\"\nis = \"deny\"\n");
    let server = serve(&good);
    let worse = good.replace("options = \"--force\"\nwithout", "without");
    let worse = worse.replace("is = \"deny\"", "is = \"allow\"\nrule = \"push\"");
    assert_ne!(worse, good);
    server.tool("t", &worse);
    let place = format!("tools.d/t/tool.toml:{}", line_of(&worse, "call = \"push -f\""));
    eventually("status tells of it", || {
        let status = server.status().to_string();
        status.contains(&place) && status.contains("the last good definition stays in force")
    });
    assert_eq!(said(&server, &["push", "-f"]).0, Some(126));
    assert_eq!(said(&server, &["push"]).0, Some(0), "the last good one allows it");
    let check = run(&mut server.verb(&["check"]), b"");
    assert_eq!(check.code(), Some(1));
    let text = check.out();
    let wanted = "this example is to be allow by push, and is deny by no-force in line";
    assert!(text.contains(&place) && text.contains(wanted), "{text}");
    server.tool("t", &good.replace("it only looks", "it looks"));
    eventually("a good one is taken", || !server.status().to_string().contains(&place));
}

#[test]
fn a_grammar_beside_is_part_of_the_definition() {
    let (grammar, rest) = {
        let start = DEFINITION.find("[grammar]").expect("a grammar");
        let end = DEFINITION.find("[[rule]]").expect("a rule");
        let grammar = DEFINITION[start..end].replace("[grammar]\n", "").replace("[grammar.", "[");
        (grammar, format!("{}{}", &DEFINITION[..start], &DEFINITION[end..]))
    };
    let server = Server::start(|s| {
        s.file("tools.d/t/grammar.toml", &grammar, 0o644);
        s.tool("t", &rest);
    });
    assert_eq!(said(&server, &["push"]).0, Some(0));
    assert_eq!(said(&server, &["push", "-v"]).0, Some(126));
    server.file(
        "tools.d/t/grammar.toml",
        grammar.replace("\"-n --dry-run\"", "\"-n --dry-run\", \"-v\""),
        0o644,
    );
    eventually("a new option is known", || said(&server, &["push", "-v"]).0 == Some(0));
    server.file("tools.d/t/grammar.toml", "\noptions = 1\n", 0o644);
    let place = "tools.d/t/grammar.toml:2";
    eventually("its own line is told", || server.status().to_string().contains(place));
    assert_eq!(said(&server, &["push", "-v"]).0, Some(0), "the last good one");
    tool_broker_tests::setup::mode(&server.path("tools.d/t/grammar.toml"), 0o666);
    eventually("others may not change it", || server.status().to_string().contains("chmod go-w"));
    // Alone it is nothing.
    server.file("tools.d/alone/grammar.toml", &grammar, 0o644);
    eventually("it needs a tool.toml", || {
        server.status().to_string().contains("alone/grammar.toml: is read beside tool.toml")
    });
}

#[test]
fn require_rules_wants_rules_a_default_or_a_wrapper() {
    let server = Server::start(|s| {
        s.env("TOOL_REQUIRE_RULES", "true");
        s.tool("free", "binary = \"/bin/echo\"\n");
        s.tool("said", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
        let rule = "[[rule]]\nid = \"a\"\ndecision = \"deny\"\nreason = \"x\"\noperands = \"x\"\n";
        s.tool("ruled", &format!("binary = \"/bin/echo\"\n{rule}"));
        s.tool("wrapped", "binary = \"/bin/echo\"\n");
        s.file("tools.d/wrapped/restricted.sh", "exec \"$TOOL_BINARY\" \"$@\"\n", 0o644);
        // The harness's own has neither.
        s.tool("sh", "binary = \"/bin/sh\"\ndefault = \"allow\"\n");
    });
    for (tool, code) in [("free", 125), ("said", 0), ("ruled", 0), ("wrapped", 0)] {
        assert_eq!(run(server.client(tool).arg("a"), b"").code(), Some(code), "{tool}");
    }
    assert_eq!(run(server.client("ruled").arg("x"), b"").code(), Some(126));
    let status = server.status().to_string();
    assert!(status.contains("the server has require_rules: add rules to tool.toml"), "{status}");
}

#[test]
fn a_wrapper_runs_after_the_rules_and_gets_the_same_words() {
    let server = Server::start(|s| {
        s.tool("t", DEFINITION);
        s.file("tools.d/t/restricted.sh", "echo \"wrapped $#: $*\"; exit 3\n", 0o644);
    });
    assert_eq!(
        said(&server, &["push", "a b"]),
        (Some(3), "wrapped 2: push a b\n".into(), String::new())
    );
    assert_eq!(said(&server, &["push", "-f"]).0, Some(126));
}

/// A repository as far as rules look at one.
fn repository(at: &Path, branch: &str, config: &str) {
    fs::create_dir_all(at.join(".git/objects")).expect("mkdir");
    fs::create_dir_all(at.join(".git/refs/heads")).expect("mkdir");
    fs::write(at.join(".git/HEAD"), format!("ref: refs/heads/{branch}\n")).expect("HEAD");
    fs::write(at.join(".git/config"), config).expect("config");
}

#[test]
fn a_bare_push_is_judged_by_the_branch_that_is_checked_out() {
    let server = Server::start(|s| {
        let binary = s.file("opt/git", "#!/bin/sh\necho ran \"$@\"\n", 0o755);
        let grammar = "[grammar]\noptions = [\"-C=\", \"-c=\"]\n[grammar.commands.push]\noptions = [\"-f --force\"]\n";
        let rule = "[[rule]]\nid = \"protected\"\ndecision = \"deny\"\nreason = \"main is protected\"\nfacts = { ref = \"@protected\" }\n";
        s.tool(
            "t",
            &format!(
                "binary = \"{}\"\ndefault = \"allow\"\nprotected = \"main\"\n{grammar}{rule}",
                binary.display()
            ),
        );
        let origin = "[remote \"origin\"]\n\turl = /x\n";
        repository(&s.ws().join("on-main"), "main", origin);
        repository(&s.ws().join("on-topic"), "topic", origin);
        repository(&s.ws().join("odd"), "topic", "[include]\n\tpath = /x\n");
        fs::create_dir_all(s.ws().join("on-topic/deep")).expect("mkdir");
        fs::create_dir_all(s.ws().join("none")).expect("mkdir");
    });
    let call = |directory: &str, words: &[&str]| {
        run(server.client("t").args(words).current_dir(server.ws().join(directory)), b"").code()
    };
    for (directory, words, code) in [
        ("on-topic", &["push"][..], 0),
        ("on-topic/deep", &["push", "origin", "HEAD"], 0),
        ("on-main", &["push"], 126),
        ("on-main", &["push", "origin", "HEAD:topic"], 0),
        ("on-topic", &["push", "origin", "HEAD:main"], 126),
        ("on-topic", &["-C", "../on-main", "push"], 126),
        ("on-main", &["-C", "../on-topic", "push"], 0),
        ("on-topic", &["-c", "push.default=matching", "push"], 126),
        ("odd", &["push"], 126),
        ("none", &["push"], 126),
        ("on-main", &["push", "origin", "topic"], 0),
        // Git would go by a configuration that is not known.
        ("odd", &["push", "origin", "topic"], 126),
        ("none", &["push", "origin", "topic"], 126),
        ("none", &["push", "origin", "topic:topic"], 0),
    ] {
        assert_eq!(call(directory, words), Some(code), "{directory} {words:?}");
    }
}

#[test]
fn a_push_that_git_takes_for_another_branch_is_not_known() {
    let server = Server::start(|s| {
        let binary = s.file("opt/git", "#!/bin/sh\necho ran \"$@\"\n", 0o755);
        let grammar = "[grammar]\n[grammar.commands.push]\noptions = [\"-f --force\"]\n";
        let rule = "[[rule]]\nid = \"protected\"\ndecision = \"deny\"\nreason = \"main is protected\"\nfacts = { ref = \"@protected\" }\n";
        s.tool(
            "t",
            &format!(
                "binary = \"{}\"\ndefault = \"allow\"\nprotected = \"main\"\n{grammar}{rule}",
                binary.display()
            ),
        );
        let origin = "[remote \"origin\"]\n\turl = /x\n";
        let whole = |name: &str, branch: &str, config: &str| {
            repository(&s.ws().join(name), branch, &format!("{origin}{config}"));
            let alias = s.ws().join(name).join(".git/refs/heads/alias");
            fs::write(alias, "ref: refs/heads/main\n").expect("a ref");
        };
        whole("topic", "topic", "");
        whole("alias", "alias", "");
        whole("invalid", ".invalid", "");
        whole("reftable", "topic", "[extensions]\n\trefStorage = reftable\n");
        whole("recurses", "topic", "[push]\n\trecurseSubmodules = on-demand\n");
        whole("old", "topic", "");
        fs::create_dir_all(s.ws().join("old/.git/remotes")).expect("mkdir");
        fs::write(s.ws().join("old/.git/remotes/old"), "URL: /x\n").expect("a remote");
        // Git passes over it, and takes the one above.
        fs::create_dir_all(s.ws().join("topic/sub/.git")).expect("mkdir");
        fs::write(s.ws().join("topic/sub/.git/HEAD"), "ref: refs/heads/x\n").expect("HEAD");
        fs::write(s.ws().join("topic/sub/.git/config"), "").expect("config");
        for part in ["objects", "refs"] {
            fs::create_dir_all(s.ws().join("topic/bare.git").join(part)).expect("mkdir");
        }
        fs::write(s.ws().join("topic/bare.git/HEAD"), "ref: refs/heads/main\n").expect("HEAD");
    });
    let call = |directory: &str, words: &[&str]| {
        run(server.client("t").args(words).current_dir(server.ws().join(directory)), b"").code()
    };
    for (directory, words, code) in [
        ("topic", &["push"][..], 0),
        ("topic", &["push", "origin", "topic"], 0),
        ("topic", &["push", "origin", "alias"], 126),
        ("topic", &["push", "--force", "origin", "+alias"], 126),
        ("topic", &["push", "origin", "heads/alias"], 126),
        ("topic", &["push", "origin", "alias:topic"], 0),
        ("topic", &["push", "old"], 126),
        ("topic/sub", &["push"], 126),
        ("topic/bare.git", &["push"], 126),
        ("alias", &["push"], 126),
        ("alias", &["push", "origin", "HEAD"], 126),
        ("alias", &["push", "origin", "topic"], 0),
        ("invalid", &["push"], 126),
        ("reftable", &["push", "origin", "HEAD"], 126),
        ("recurses", &["push", "origin", "topic"], 126),
        ("old", &["push", "origin", "topic"], 126),
    ] {
        assert_eq!(call(directory, words), Some(code), "{directory} {words:?}");
    }
}

#[test]
fn explain_shows_the_decision_the_reading_and_the_plan() {
    let setup = Setup::new();
    setup.tool("t", DEFINITION);
    fs::remove_dir(setup.ws()).expect("explain needs no workspace");
    let explain =
        |words: &[&str]| run(&mut setup.verb(&[&["explain", "t"], words].concat()), b"").success();
    let place = |id: &str| {
        format!("{}:{}", setup.path("tools.d/t/tool.toml").display(), rule_line(DEFINITION, id))
    };
    let text = explain(&["push", "-f", "a\u{1b}b"]);
    let wanted = format!("deny no-force {}\n", place("no-force"));
    assert!(text.starts_with(&wanted), "{text}");
    for line in [
        "reason: a force push rewrites what others have",
        "instead: push without --force",
        "subcommand: push",
        "option: --force",
        "operand: a\\x1bb",
        "runs: /bin/echo",
        "environment, were this shell the caller:",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
    assert!(explain(&["push"]).starts_with(&format!("allow push {}\n", place("push"))));
    let unread = explain(&["fly"]);
    assert!(unread.starts_with("deny unread "), "{unread}");
    assert!(
        unread.contains("\nnot understood: fly is no command of t known to these rules\n"),
        "{unread}"
    );
    let other = explain(&["-C", "x", "status"]);
    assert!(other.starts_with("deny default ") && other.contains("option: -C = x"), "{other}");
    setup.tool("t", &format!("mode = \"observe\"\n{DEFINITION}"));
    let observed = explain(&["push", "-f"]);
    assert!(observed.starts_with("deny no-force "), "{observed}");
    assert!(observed.contains("\nobserved: it runs; "), "{observed}");
}

#[test]
fn status_and_check_say_how_many_rules_decide() {
    let server = serve(DEFINITION);
    let tool = |status: &Value| {
        let tools = status["tools"].as_array().expect("tools").clone();
        tools.into_iter().find(|tool| tool["name"] == json!("t")).expect("t")
    };
    assert_eq!(tool(&server.status())["default"], json!("deny, 3 rules"));
    let check = run(&mut server.verb(&["check"]), b"").success();
    assert!(check.contains("ok: t (/bin/echo, deny, 3 rules)"), "{check}");
    assert!(check.contains("unrestricted: it has neither rules nor `default`"), "{check}");
}
