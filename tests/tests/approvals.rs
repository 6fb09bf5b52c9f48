//! Calls that wait for an operator: asked, answered, timed out, forged, flooded.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use tool_broker_tests::binaries::binaries;
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{
    Outcome, Running, Server, Setup, eventually, eventually_some, is_root, run, skipped, spawn,
};

/// A tool that says what it was given, and is asked about.
const ASKED: &str = "binary = \"/bin/echo\"\ndefault = \"ask\"\n";

/// One of which two rules ask: of what stands about one the other knows nothing.
const RULED: &str = r#"binary = "/bin/echo"
default = "allow"
[[rule]]
id = "words"
decision = "ask"
operands = "x*"
reason = "words are asked about"
[[rule]]
id = "long"
decision = "ask"
operands = "*long"
reason = "long ones too"
"#;

fn asking(prepare: impl FnOnce(&mut Setup)) -> Server {
    Server::start(|setup| {
        setup.tool("say", ASKED);
        setup.tool("ruled", RULED);
        setup.tool("read", "binary = \"/bin/sh\"\ndefault = \"ask\"\n");
        setup.tool("sh", "binary = \"/bin/sh\"\ndefault = \"allow\"\n[env]\nforward = [\"*\"]\n");
        prepare(setup);
    })
}

fn call(server: &Server, words: &[&str]) -> Running {
    spawn(server.client("say").args(words))
}

fn verb(server: &Server, words: &[&str]) -> Outcome {
    run(&mut server.verb(words), b"")
}

fn waiting(server: &Server) -> Vec<Value> {
    let answer = server.control().call(&json!({ "op": "approvals" }));
    answer["waiting"].as_array().expect("a list").clone()
}

/// The id of the only question.
fn asked(server: &Server) -> String {
    eventually_some("a question waits", || {
        let waiting = waiting(server);
        let live = waiting.iter().find(|asked| asked["waits"] == json!(true))?;
        Some(live["id"].as_str().expect("an id").to_owned())
    })
}

/// Waits until a question's caller is gone.
fn left(server: &Server) {
    eventually("the caller has left", || {
        waiting(server).iter().all(|asked| asked["waits"] == json!(false))
    });
}

#[test]
fn a_call_that_is_approved_runs_and_its_caller_is_told_that_it_waits() {
    let server = asking(|_| {});
    let caller = call(&server, &["a b", "c"]);
    let id = asked(&server);
    let listed = verb(&server, &["approvals"]).success();
    for part in [&id, "rule:       default", "\"a b\"", "/bin/echo", "directory:"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert_eq!(verb(&server, &["approve", &id]).success(), format!("approved {id}\n"));
    let outcome = caller.wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(0), "a b c\n"));
    let told = outcome.err();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains(&format!("request {id} waits up to")), "{told}");
    assert!(waiting(&server).is_empty());
    // It was for one call.
    let again = call(&server, &["a b", "c"]);
    assert_ne!(asked(&server), id);
    drop(again);
}

#[test]
fn a_call_that_is_denied_is_refused_in_the_operators_words() {
    let server = asking(|_| {});
    let caller = call(&server, &["x"]);
    let id = asked(&server);
    verb(&server, &["deny", &id, "--reason", "not on a Friday"]).success();
    let outcome = caller.wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(126), ""));
    let last = outcome.err().lines().last().expect("a line").to_owned();
    assert!(
        last.contains(&format!("a person denied request {id}: not on a Friday [rule default, ")),
        "{last}"
    );
}

#[test]
fn who_answers_twice_is_told_of_the_first_answer() {
    let server = asking(|_| {});
    let caller = call(&server, &["x"]);
    let id = asked(&server);
    verb(&server, &["approve", &id]).success();
    for second in [&["approve", &id][..], &["deny", &id], &["approve", &id, "--for", "1h"]] {
        let outcome = verb(&server, second);
        assert_eq!(outcome.code(), Some(1));
        assert!(outcome.err().contains(&format!("answered already: approved {id}")), "{outcome:?}");
    }
    assert_eq!(caller.wait().code(), Some(0));
    let unknown = verb(&server, &["approve", "nosuch"]);
    assert!(unknown.err().contains("nothing waits as nosuch"), "{unknown:?}");
    assert_eq!(verb(&server, &["approve", &id, "--for", "soon"]).code(), Some(2));
}

#[test]
fn nobody_answers_and_it_is_refused_and_a_later_answer_holds_for_the_same_call_once() {
    let server = asking(|setup| setup.config("[approvals]\ntimeout = 0.3\n"));
    let outcome = call(&server, &["late"]).wait();
    assert_eq!(outcome.code(), Some(126));
    let last = outcome.err().lines().last().expect("a line").to_owned();
    assert!(last.contains("not run: nobody answered request"), "{last}");
    assert!(last.contains("within ten minutes of that"), "{last}");
    left(&server);
    let id = waiting(&server)[0]["id"].as_str().expect("an id").to_owned();
    let told = verb(&server, &["approve", &id]).success();
    assert!(told.contains("stays good for the same call for ten minutes"), "{told}");
    // Another call is another question.
    assert_eq!(call(&server, &["later"]).wait().code(), Some(126));
    let outcome = call(&server, &["late"]).wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(0), "late\n"));
    assert_eq!(outcome.err(), "", "it did not wait");
    assert_eq!(call(&server, &["late"]).wait().code(), Some(126), "it was good once");
}

#[test]
fn a_caller_that_dies_leaves_a_question_and_the_same_call_takes_it_up() {
    let server = asking(|_| {});
    let first = call(&server, &["again"]);
    let id = asked(&server);
    first.signal(Signal::SIGKILL);
    left(&server);
    let second = call(&server, &["again"]);
    assert_eq!(asked(&server), id, "the same question");
    verb(&server, &["approve", &id]).success();
    assert_eq!(second.wait().out(), "again\n");
    // One that has left, and is denied: its next try is told so.
    let third = call(&server, &["again"]);
    let id = asked(&server);
    third.signal(Signal::SIGKILL);
    left(&server);
    verb(&server, &["deny", &id, "--reason", "no"]).success();
    let outcome = call(&server, &["again"]).wait();
    assert_eq!(outcome.code(), Some(126));
    assert!(outcome.err().contains(": no [rule default"), "{outcome:?}");
}

/// The operator was shown who asks.
#[test]
fn an_answer_is_for_the_caller_who_was_shown_and_for_no_other() {
    if !is_root() {
        let test = "an_answer_is_for_the_caller_who_was_shown_and_for_no_other";
        return skipped(test, "only root may become others");
    }
    let server = asking(|setup| {
        setup.env("TOOL_SOCKET_MODE", "0666");
        setup.config("[approvals]\ntimeout = 0.3\n");
    });
    let client = server.reachable(&binaries().client);
    let call = |uid: u32, tool: &str| {
        let mut command = Command::new(&client);
        command.env_clear().env("TOOL_SOCKET", server.socket()).uid(uid).gid(uid);
        run(command.args([tool, "x"]).current_dir(server.ws()), b"").code()
    };
    let question_of = |uid: u32, tool: &str| {
        let of = |asked: &&Value| {
            let caller = asked["peer"].as_str().expect("a caller");
            caller.starts_with(&format!("uid {uid}, ")) && asked["tool"] == json!(tool)
        };
        let waiting = waiting(&server);
        let ids: Vec<&str> =
            waiting.iter().filter(of).map(|asked| asked["id"].as_str().expect("an id")).collect();
        assert_eq!(ids.len(), 1, "{waiting:?}");
        ids[0].to_owned()
    };
    let (one, other) = (4_242, 4_243);
    // A question that its caller left is nobody else's.
    assert_eq!((call(one, "say"), call(other, "say")), (Some(126), Some(126)));
    let asked = question_of(one, "say");
    assert_ne!(asked, question_of(other, "say"));
    // Nor is a late answer, which is used up by its own caller.
    verb(&server, &["approve", &asked]).success();
    assert_eq!(call(other, "say"), Some(126));
    assert_eq!((call(one, "say"), call(one, "say")), (Some(0), Some(126)));
    // Nor one that stands.
    assert_eq!(call(one, "ruled"), Some(126));
    let asked = question_of(one, "ruled");
    let told = verb(&server, &["approve", &asked, "--for", "1h"]).success();
    let whose = format!("for uid {one}, gid {one} at {}", server.socket().display());
    assert!(told.contains(&whose), "{told}");
    assert_eq!(call(other, "ruled"), Some(126));
    assert_eq!((call(one, "ruled"), call(one, "ruled")), (Some(0), Some(0)));
    let listed = verb(&server, &["approvals"]).success();
    assert!(listed.contains(&whose), "{listed}");
}

#[test]
fn a_signal_ends_the_waiting_as_it_would_end_the_tool() {
    let server = asking(|_| {});
    let caller = call(&server, &["x"]);
    asked(&server);
    caller.signal(Signal::SIGINT);
    assert_eq!(caller.wait().signal(), Some(Signal::SIGINT as i32));
    left(&server);
}

#[test]
fn an_approval_for_a_while_holds_for_its_rule_in_its_repository_and_over_a_restart() {
    let server = asking(|setup| {
        for repository in ["one", "two"] {
            fs::create_dir_all(setup.ws().join(repository).join(".git")).expect("a directory");
            fs::create_dir_all(setup.ws().join(repository).join("deep")).expect("a directory");
        }
        setup.config("[approvals]\ntimeout = 0.3\n");
    });
    let within = |server: &Server, directory: &str| {
        let mut client = server.client("ruled");
        spawn(client.arg("x").current_dir(server.ws().join(directory)))
    };
    let outcome = within(&server, "one/deep").wait();
    assert_eq!(outcome.code(), Some(126));
    let id = waiting(&server)[0]["id"].as_str().expect("an id").to_owned();
    let told = verb(&server, &["approve", &id, "--for", "1h"]).success();
    assert!(told.contains("rule words of ruled in") && told.contains("for 3600 s"), "{told}");
    // The one word that came late, then the standing one.
    for _ in 0..3 {
        assert_eq!(within(&server, "one").wait().out(), "x\n");
    }
    assert_eq!(within(&server, "two").wait().code(), Some(126));
    let kept = fs::metadata(server.path("state/approvals.json")).expect("it is kept");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&kept.permissions()) & 0o777, 0o600);
    let server = Server::start_in(server.stop(Signal::SIGKILL));
    assert_eq!(within(&server, "one/deep").wait().out(), "x\n");
    let listed = verb(&server, &["approvals"]).success();
    assert!(listed.contains(&format!("standing {id}: rule words of ruled in ")), "{listed}");
    verb(&server, &["revoke", &id]).success();
    // The late word may still be there for the first directory.
    eventually("nothing stands any more", || within(&server, "one").wait().code() == Some(126));
    assert_eq!(verb(&server, &["revoke", &id]).code(), Some(1));
}

#[test]
fn a_standing_approval_ends_when_the_definition_changes() {
    let server = asking(|setup| setup.config("[approvals]\ntimeout = 0.3\n"));
    let ruled = |word: &str| run(server.client("ruled").arg(word), b"").code();
    assert_eq!(ruled("x"), Some(126));
    let id = waiting(&server)[0]["id"].as_str().expect("an id").to_owned();
    verb(&server, &["approve", &id, "--for", "1h"]).success();
    assert_eq!(ruled("xy"), Some(0));
    server.tool("ruled", &format!("timeout = 77\n{RULED}"));
    verb(&server, &["reload"]).success();
    assert_eq!(ruled("xy"), Some(126));
}

#[test]
fn an_approval_for_a_while_is_for_every_rule_that_asked_and_for_no_other() {
    let server = asking(|setup| setup.config("[approvals]\ntimeout = 0.3\n"));
    let ruled = |word: &str| run(server.client("ruled").arg(word), b"").code();
    assert_eq!(ruled("x"), Some(126));
    let id = waiting(&server)[0]["id"].as_str().expect("an id").to_owned();
    verb(&server, &["approve", &id, "--for", "1h"]).success();
    assert_eq!(ruled("xyz"), Some(0));
    // The other rule asks about this one as well, and nobody has answered that.
    assert_eq!(ruled("x-long"), Some(126));
    let asked = waiting(&server);
    let question = asked.iter().find(|asked| asked["argv"][1] == json!("x-long")).expect("it");
    assert_eq!((&question["rule"], &question["also"]), (&json!("words"), &json!(["long"])));
    let id = question["id"].as_str().expect("an id").to_owned();
    let told = verb(&server, &["approve", &id, "--for", "1h"]).success();
    assert!(told.contains("rule words, long of ruled in"), "{told}");
    assert_eq!((ruled("x-long"), ruled("x-very-long")), (Some(0), Some(0)));
    // Where no rule asked, there is nothing that it could stand for.
    assert_eq!(call(&server, &["any"]).wait().code(), Some(126));
    let id = waiting(&server)[0]["id"].as_str().expect("an id").to_owned();
    let outcome = verb(&server, &["approve", &id, "--for", "1h"]);
    assert_eq!(outcome.code(), Some(1));
    assert!(outcome.err().contains("approve it alone"), "{outcome:?}");
    verb(&server, &["approve", &id]).success();
}

/// A repository with two branches, and a definition that asks about each push.
fn pushing(server: &Server) -> (Running, String) {
    let ws = server.ws();
    for words in [&["init", "-q", "-b", "main"][..], &["checkout", "-q", "-b", "feature"]] {
        let mut git = std::process::Command::new("/usr/bin/git");
        run(git.args(words).current_dir(&ws).env("HOME", server.path("home")), b"").success();
    }
    server.tool(
        "git",
        "binary = \"/bin/echo\"\nfacts = \"git\"\n[grammar]\nsubcommands = \"required\"\n[grammar.commands.push]\n\
         [[rule]]\nid = \"push\"\ndecision = \"ask\"\nsubcommand = \"push\"\nreason = \"it is asked about\"\n",
    );
    verb(server, &["reload"]).success();
    let caller = spawn(server.client("git").arg("push"));
    (caller, asked(server))
}

#[test]
fn what_was_approved_is_not_run_where_it_would_now_do_something_else() {
    let server = asking(|_| {});
    let (caller, id) = pushing(&server);
    let listed = verb(&server, &["approvals"]).success();
    assert!(listed.contains("ref=feature"), "{listed}");
    fs::write(server.ws().join(".git/HEAD"), "ref: refs/heads/main\n").expect("HEAD");
    verb(&server, &["approve", &id]).success();
    let outcome = caller.wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(126), ""));
    assert!(outcome.err().contains("branch or configuration has changed"), "{outcome:?}");
    // What is answered late is for the branch that was asked about, too.
    let caller = spawn(server.client("git").arg("push"));
    let id = asked(&server);
    caller.signal(Signal::SIGKILL);
    left(&server);
    verb(&server, &["approve", &id]).success();
    fs::write(server.ws().join(".git/HEAD"), "ref: refs/heads/feature\n").expect("HEAD");
    let other = spawn(server.client("git").arg("push"));
    let id = asked(&server);
    // Nor is it run by rules that are not in force any more.
    server.tool("git", "binary = \"/bin/echo\"\ndefault = \"deny\"\n");
    verb(&server, &["reload"]).success();
    verb(&server, &["approve", &id]).success();
    let outcome = other.wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(126), ""));
    assert!(outcome.err().contains("the tool's rules have changed"), "{outcome:?}");
}

/// A kernel before 6.5, as far as the control socket is concerned.
const OLD_KERNEL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
int getsockopt(int fd, int level, int name, void *value, socklen_t *length) {
    static int (*real)(int, int, int, void *, socklen_t *);
    if (level == SOL_SOCKET && name == 77) { errno = ENOPROTOOPT; return -1; }
    if (!real) real = dlsym(RTLD_NEXT, "getsockopt");
    return real(fd, level, name, value, length);
}
"#;

/// Connects in a child that ends, and speaks itself.
const BY_A_CHILD: &str = r#"
import os, socket, struct, sys
message = b'{"op":"approvals"}'
told = set()
for _ in range(60):
    s = socket.socket(socket.AF_UNIX)
    child = os.fork()
    if child == 0:
        s.connect(sys.argv[1])
        os._exit(0)
    os.waitpid(child, 0)
    try:
        s.sendall(struct.pack('>I', len(message)) + message)
        size = struct.unpack('>I', s.recv(4))[0]
        told.add('heard' if b'waiting' in s.recv(size) else 'refused')
    except (OSError, struct.error):
        told.add('refused')
print(*sorted(told))
"#;

#[test]
fn a_tool_that_connects_by_a_child_which_ends_is_not_heard_on_older_kernels_either() {
    let control = |server: &Server| server.control_socket().display().to_string();
    for old in [false, true] {
        let server = asking(|setup| {
            // What confines tools is not what keeps them out here.
            setup.tool("sh", "binary = \"/bin/sh\"\n[sandbox]\nmode = \"off\"\n");
            if old {
                let source = setup.file("old.c", OLD_KERNEL, 0o644);
                let shim = setup.path("old.so");
                let mut cc = std::process::Command::new("cc");
                cc.args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(&source);
                run(&mut cc, b"").success();
                setup.env("LD_PRELOAD", shim);
            }
        });
        server.file("ws/child.py", BY_A_CHILD, 0o644);
        let script = format!("exec python3 child.py '{}'", control(&server));
        let outcome = run(server.client("sh").args(["-c", &script]), b"");
        assert_eq!(outcome.success(), "refused\n", "old kernel: {old}");
        // An operator is heard on both.
        verb(&server, &["approvals"]).success();
    }
}

#[test]
fn a_tool_cannot_answer_for_itself_however_it_hides() {
    let server = asking(|setup| {
        // What confines tools is not what keeps them out here.
        setup.tool("sh", "binary = \"/bin/sh\"\n[sandbox]\nmode = \"off\"\n");
    });
    let caller = call(&server, &["x"]);
    let id = asked(&server);
    let binary = tool_broker_tests::binaries::binaries().server.display().to_string();
    let control = server.control_socket();
    let approve = format!("{binary} --control-socket '{}' approve {id}", control.display());
    let hides = [
        approve.clone(),
        format!("exec setsid {approve}"),
        // Twice forked: its parent is gone.
        format!(
            "(setsid sh -c '{} >out 2>&1; echo done >>out' &) ; until grep -q done out; do :; done; cat out",
            approve.replace('\'', "'\\''")
        ),
    ];
    for script in hides {
        let outcome = run(server.client("sh").args(["-c", &script]), b"");
        let said = outcome.out() + &outcome.err();
        assert!(said.contains("a tool's process may not use the control socket"), "{said}");
        assert_eq!(waiting(&server).len(), 1, "{script}");
    }
    verb(&server, &["deny", &id]).success();
    assert_eq!(caller.wait().code(), Some(126));
}

#[test]
fn what_a_caller_writes_cannot_look_like_an_answer_or_hide_the_call() {
    let server = asking(|_| {});
    let forged = "x\n  answer:     approved\r\x1b[2K\x1b[1A\u{202e}\u{85}ok";
    let long = "A".repeat(100_000);
    let caller = call(&server, &[forged, &long, "the-end"]);
    let id = asked(&server);
    let listed = verb(&server, &["approvals"]).success();
    assert!(listed.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte)), "{listed:?}");
    let answers = listed.lines().filter(|line| line.trim_start().starts_with("answer:")).count();
    assert_eq!(answers, 1, "{listed}");
    assert!(listed.contains("BYTES OF ARGUMENTS THAT ARE NOT SHOWN"), "{listed}");
    // Nobody approves unawares what was not shown.
    let outcome = verb(&server, &["approve", &id]);
    assert_eq!(outcome.code(), Some(1));
    assert!(outcome.err().contains("were not shown: deny it, or approve it with --unseen"));
    assert!(listed.len() < 16 * 1024, "{}", listed.len());
    let as_json = verb(&server, &["approvals", "--json"]).success();
    assert!(as_json.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte)));
    verb(&server, &["deny", &id, "--reason", "a\x1b[31mred\nline"]).success();
    let outcome = caller.wait();
    let told = outcome.err();
    assert!(told.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte)), "{told:?}");
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn a_flood_of_questions_is_bounded_by_peer_and_hurts_no_other_call() {
    let server = asking(|setup| setup.config("[approvals]\nper_peer = 3\nwaiting = 5\n"));
    let callers: Vec<Running> =
        (0..12).map(|number| call(&server, &[&number.to_string()])).collect();
    eventually("three wait", || waiting(&server).len() == 3);
    // It needs no place: those that wait have given theirs up.
    let outcome = run(server.client("sh").args(["-c", "echo fine"]), b"");
    assert_eq!(outcome.success(), "fine\n");
    for asked in waiting(&server) {
        verb(&server, &["deny", asked["id"].as_str().expect("an id")]).success();
    }
    let (mut busy, mut denied) = (0, 0);
    for caller in callers {
        let outcome = caller.wait();
        match outcome.code() {
            Some(125) if outcome.err().contains("too many calls wait for an approval") => busy += 1,
            Some(126) => denied += 1,
            _ => panic!("{outcome:?}"),
        }
    }
    assert_eq!((busy, denied), (9, 3));
}

#[test]
fn a_call_that_waits_holds_no_place_of_its_tool() {
    let server = asking(|setup| {
        setup.tool("say", &format!("{ASKED}[limits]\nconcurrent = 1\n"));
    });
    let (first, second) = (call(&server, &["1"]), call(&server, &["2"]));
    eventually("both wait for an answer", || waiting(&server).len() == 2);
    for asked in waiting(&server) {
        verb(&server, &["approve", asked["id"].as_str().expect("an id")]).success();
    }
    assert_eq!((first.wait().code(), second.wait().code()), (Some(0), Some(0)));
}

#[test]
fn the_operators_command_is_run_for_each_question_and_may_answer_it() {
    let server = asking(|setup| {
        let binary = tool_broker_tests::binaries::binaries().server.display().to_string();
        let control = setup.control_socket().display().to_string();
        let said = setup.path("said").display().to_string();
        let command = format!(
            "cat >{said}; test \\\"$TOOL_APPROVAL_TOOL\\\" = say && {binary} --control-socket {control} approve $TOOL_APPROVAL_ID"
        );
        setup.config(&format!("[approvals]\nnotify = \"{command}\"\n"));
    });
    // Nothing of it is part of the command.
    let outcome = call(&server, &["$(touch forged)", "`touch forged`", "; touch forged"]).wait();
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    assert!(!server.ws().join("forged").exists());
    let said = fs::read(server.path("said")).expect("the question");
    let question: Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!(question["argv"][1], json!("$(touch forged)"));
    assert_eq!(question["tool"], json!("say"));
}

#[test]
fn a_stop_refuses_what_waits() {
    let mut server = asking(|_| {});
    let caller = call(&server, &["x"]);
    asked(&server);
    server.signal(Signal::SIGTERM);
    let outcome = caller.wait();
    assert_eq!(outcome.code(), Some(125), "{outcome:?}");
    assert!(outcome.err().contains("the server is stopping"), "{outcome:?}");
    assert!(server.wait().success());
}

#[test]
fn a_caller_and_an_operator_each_at_a_terminal() {
    let server = asking(|_| {});
    let mut operator = OnTerminal::start(server.verb(&["approvals", "--watch"]));
    // Typed while it waits: it is the tool's, once there is one.
    let mut caller = OnTerminal::start({
        let mut command = server.client("read");
        command.args(["-c", "read word; echo got $word"]);
        command
    });
    let id = asked(&server);
    caller.shows(&format!("request {id} waits up to"));
    operator.shows(&format!("tool-server approve {id}"));
    caller.type_text("early\n");
    // A line that looks like an answer is no answer, on neither terminal.
    operator.type_text(&format!("tool-server approve {id}\ny\nyes\n"));
    caller.type_text("yes\n");
    assert_eq!(waiting(&server).len(), 1);
    let mut answer = OnTerminal::start(server.verb(&["approve", &id]));
    answer.shows(&format!("approved {id}"));
    assert!(answer.wait().success());
    caller.shows("got early");
    assert_eq!(caller.wait().code(), Some(0));
    // And one that is interrupted at the keyboard.
    let mut caller = OnTerminal::start({
        let mut command = server.client("read");
        command.args(["-c", "echo ran"]);
        command
    });
    let id = asked(&server);
    caller.shows(&format!("request {id} waits up to"));
    caller.type_bytes(b"\x03");
    assert_eq!(caller.wait().signal(), Some(Signal::SIGINT as i32));
    assert!(!caller.screen().contains("ran\r"), "{}", caller.screen());
    left(&server);
}

#[test]
fn watching_shows_each_question_once_as_it_comes() {
    let server = asking(|_| {});
    let mut watch = spawn(&mut server.verb(&["approvals", "--watch", "--json"]));
    let (first, second) = (call(&server, &["1"]), call(&server, &["2"]));
    eventually("both wait", || waiting(&server).len() == 2);
    for asked in waiting(&server) {
        verb(&server, &["approve", asked["id"].as_str().expect("an id")]).success();
    }
    assert_eq!((first.wait().code(), second.wait().code()), (Some(0), Some(0)));
    // It has seen the last answer when it asks again: nothing waits any more.
    let third = call(&server, &["3"]);
    asked(&server);
    watch.signal(Signal::SIGINT);
    watch.wait_status();
    let (out, _) = watch.output().expect("its output");
    let seen: Vec<Value> = String::from_utf8(out)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(seen.len() >= 2, "{seen:?}");
    drop(third);
}
