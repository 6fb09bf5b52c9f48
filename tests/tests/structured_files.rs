//! Files by calls with JSON: what they do, where they may, and by which rules.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread;

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use tool_broker_tests::lingering::{of, tasks};
use tool_broker_tests::{
    Server, Setup, eventually, eventually_some, is_root, skipped, still_works,
};

fn call(server: &Server, tool: &str, input: &Value) -> Value {
    server.connect().call(&json!({"tool": tool, "input": input, "id": 1}))
}

#[track_caller]
fn output(server: &Server, tool: &str, input: &Value) -> Value {
    let seen = call(server, tool, input);
    assert_eq!(seen["success"], json!(true), "{seen}");
    seen["output"].clone()
}

#[track_caller]
fn code(server: &Server, tool: &str, input: &Value) -> String {
    let seen = call(server, tool, input);
    assert_eq!((&seen["success"], &seen["output"]), (&json!(false), &Value::Null), "{seen}");
    seen["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// A definition of one of the broker's own tools, in force from the start.
fn defined(setup: &mut Setup, tool: &str, text: &str) {
    setup.file(format!("agent.d/{tool}.toml"), text, 0o644);
    setup.env("TOOL_AGENT_DEFINITIONS", setup.path("agent.d"));
}

/// What has been edited is written out a moment later, and nobody has it open for writing then.
#[test]
fn a_program_that_was_just_edited_can_be_run() {
    let server = Server::start(|_| {});
    let program = server.ws().join("program");
    fs::write(&program, "#!/bin/sh\necho 0\n").expect("write");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    for round in 0..20 {
        let next = round + 1;
        let edit = json!({"path": "program", "old_text": format!("echo {round}"),
            "new_text": format!("echo {next}")});
        output(&server, "edit_file", &edit);
        let run = output(&server, "run_command", &json!({"argv": ["./program"]}));
        assert_eq!(run["stdout"], json!(format!("{next}\n")), "{run}");
    }
}

#[test]
fn a_file_is_written_read_edited_listed_and_found() {
    let server = Server::start(|_| {});
    let path = "src/deep/main.rs";
    let text = "fn main() {\n    println!(\"hello\");\n}\n";
    let wrote = output(&server, "write_file", &json!({"path": path, "content": text}));
    assert_eq!((&wrote["created"], &wrote["bytes"]), (&json!(true), &json!(text.len())), "{wrote}");
    let read = output(&server, "read_file", &json!({"path": path}));
    assert_eq!((&read["content"], &read["lines"]), (&json!(text), &json!(3)), "{read}");
    assert_eq!(read["sha256"], wrote["sha256"]);
    let edit = json!({"path": path, "old_text": "hello", "new_text": "good bye", "if_match": read["sha256"]});
    let edited = output(&server, "edit_file", &edit);
    assert_eq!(edited["replacements"], json!(1), "{edited}");
    assert_eq!(code(&server, "edit_file", &edit), "FILE_CHANGED");
    let on_disk = fs::read_to_string(server.ws().join(path)).expect("read");
    assert_eq!(on_disk, text.replace("hello", "good bye"));
    let listed = output(&server, "list_directory", &json!({"path": "src", "depth": 3})).to_string();
    assert!(listed.contains("main.rs") && listed.contains("deep"), "{listed}");
    let found = output(&server, "search_files", &json!({"pattern": "good b.e"})).to_string();
    assert!(found.contains(path) && found.contains("println"), "{found}");
    let found = call(&server, "search", &json!({"pattern": "*.rs", "type": "glob"}));
    assert_eq!(found["tool"], json!("search_files"), "{found}");
    assert!(found["output"].to_string().contains(path), "{found}");
    assert_eq!(code(&server, "read_file", &json!({"path": "no"})), "FILE_NOT_FOUND");
    assert_eq!(code(&server, "read_file", &json!({"path": "src"})), "NOT_A_FILE");
    assert_eq!(code(&server, "read_file", &json!({"paht": "x"})), "INVALID_INPUT");
    assert_eq!(
        code(&server, "search_files", &json!({"pattern": "(", "type": "regex"})),
        "INVALID_PATTERN"
    );
}

/// By another thread, where one has nothing else to do, whoever looks at which.
#[test]
fn many_files_are_looked_at_by_two_threads_and_listed_as_they_are() {
    let server = Server::start(|_| {});
    let many = server.ws().join("many");
    fs::create_dir(&many).expect("mkdir");
    for number in 0..600 {
        fs::write(many.join(format!("{number:03}.txt")), "x".repeat(number)).expect("write");
    }
    let files = || {
        let is_one = |task: &std::path::PathBuf| of(task, "comm").trim_end() == "files";
        tasks(&server).into_iter().filter(is_one).collect::<Vec<_>>()
    };
    let mut wire = server.connect();
    let input = json!({"path": "many"});
    for _ in 0..200 {
        let seen = wire.call(&json!({"tool": "list_directory", "input": input, "id": 1}));
        let entries = seen["output"]["entries"].as_array().expect("entries");
        assert_eq!(entries.len(), 600, "{seen}");
        for (number, entry) in entries.iter().enumerate() {
            let path = format!("many/{number:03}.txt");
            assert_eq!((&entry["path"], &entry["size"]), (&json!(path), &json!(number)), "{entry}");
        }
    }
    if thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
        return skipped(
            "many_files_are_looked_at_by_two_threads_and_listed_as_they_are",
            "there is one core",
        );
    }
    // One call at a time is no reason for two; and neither reaches more than the other.
    let at_work = |status: &String| {
        let switches =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        switches.and_then(|count| count.trim().parse().ok()).is_some_and(|count: u64| count > 50)
    };
    let statuses: Vec<_> = files().iter().map(|task| of(task, "status")).collect();
    assert!(statuses.iter().filter(|status| at_work(status)).count() >= 2, "{statuses:?}");
    for status in statuses {
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        assert!(status.contains("\nCapEff:\t0000000000000000\n"), "{status}");
    }
}

#[test]
fn what_leads_out_of_the_workspace_is_refused_in_the_same_words_whether_or_not_it_is_there() {
    let server = Server::start(|_| {});
    fs::write(server.path("secret"), "canary").expect("write");
    symlink(server.path("secret"), server.ws().join("there")).expect("symlink");
    symlink(server.path("none"), server.ws().join("not-there")).expect("symlink");
    symlink("/proc/self/root/etc", server.ws().join("magic")).expect("symlink");
    let above = server.path("secret");
    let mut messages = Vec::new();
    for (tool, more) in [
        ("read_file", json!({})),
        ("write_file", json!({"content": "x"})),
        ("edit_file", json!({"old_text": "a", "new_text": "b"})),
    ] {
        for path in [
            "../secret",
            "../none",
            "there",
            "not-there",
            "/etc/passwd",
            "/etc/none",
            "magic/passwd",
            above.to_str().expect("UTF-8"),
        ] {
            let mut input = more.clone();
            input["path"] = json!(path);
            let seen = call(&server, tool, &input);
            assert_eq!(
                seen["error"]["code"],
                json!("PATH_OUTSIDE_WORKSPACE"),
                "{tool} {path}: {seen}"
            );
            let message = seen["error"]["message"].as_str().expect("text").to_owned();
            assert!(!seen.to_string().contains("canary"), "{seen}");
            messages.push(message.replace(path, "PATH"));
        }
    }
    messages.sort();
    messages.dedup();
    assert_eq!(messages.len(), 1, "the words tell whether it is there: {messages:?}");
    for tool in ["list_directory", "search_files"] {
        let input = json!({"path": "..", "pattern": "canary"});
        let input = if tool == "list_directory" { json!({"path": ".."}) } else { input };
        assert_eq!(code(&server, tool, &input), "PATH_OUTSIDE_WORKSPACE");
    }
    assert_eq!(fs::read(server.path("secret")).expect("read"), b"canary");
    assert!(!server.path("none").exists());
}

#[test]
fn what_is_no_file_is_refused_and_nobody_waits_for_it() {
    let server = Server::start(|_| {});
    nix::unistd::mkfifo(&server.ws().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    let _socket = std::os::unix::net::UnixListener::bind(server.ws().join("socket")).expect("bind");
    for path in ["fifo", "socket"] {
        assert_eq!(code(&server, "read_file", &json!({"path": path})), "NOT_A_FILE");
        assert_eq!(
            code(&server, "write_file", &json!({"path": path, "content": ""})),
            "NOT_A_FILE"
        );
    }
    let found = output(&server, "search_files", &json!({"pattern": "x"}));
    assert_eq!(found["results"], json!([]), "{found}");
    still_works(&server);
}

#[test]
fn an_operators_definition_stands_in_place_of_the_one_that_ships() {
    let server = Server::start(|s| {
        defined(
            s,
            "read_file",
            "default = \"allow\"\n[[rule]]\nid = \"env\"\ndecision = \"deny\"\noperands = \"*/.env\"\n\
             reason = \"it has secrets\"\ninstead = \"ask for what you need\"\n",
        );
    });
    fs::write(server.ws().join(".env"), "KEY=1").expect("write");
    fs::write(server.ws().join("a"), "a").expect("write");
    assert_eq!(output(&server, "read_file", &json!({"path": "a"}))["content"], json!("a"));
    let seen = call(&server, "read_file", &json!({"path": ".env"}));
    assert_eq!(seen["error"]["code"], json!("DENIED"), "{seen}");
    assert_eq!(seen["error"]["rule"], json!("env"), "{seen}");
    let explained = server.verb(&["explain", "read_file", "/x/.env"]).output().expect("explain");
    let text = String::from_utf8(explained.stdout).expect("UTF-8");
    assert!(text.starts_with("deny env "), "{text}");
    assert!(text.contains("runs: no program") && !text.contains("/nonexistent"), "{text}");
}

#[test]
fn rules_see_the_real_name_of_what_is_open() {
    let server = Server::start(|s| {
        let rule = "default = \"allow\"\n[[rule]]\nid = \"env\"\ndecision = \"deny\"\noperands = \"*/.env\"\n\
                    reason = \"it has secrets\"\n";
        defined(s, "read_file", rule);
        defined(s, "write_file", rule);
    });
    fs::write(server.ws().join(".env"), "KEY=1").expect("write");
    symlink(".env", server.ws().join("innocent")).expect("symlink");
    fs::create_dir(server.ws().join("d")).expect("mkdir");
    for path in ["innocent", "./d/../innocent", "d/../.env"] {
        assert_eq!(code(&server, "read_file", &json!({"path": path})), "DENIED", "{path}");
        let write = json!({"path": path, "content": "x"});
        assert_eq!(code(&server, "write_file", &write), "DENIED", "{path}");
    }
    assert_eq!(fs::read(server.ws().join(".env")).expect("read"), b"KEY=1");
    assert_eq!(code(&server, "write_file", &json!({"path": "d/.env", "content": "x"})), "DENIED");
    assert!(!server.ws().join("d/.env").exists());
}

#[test]
fn a_write_that_is_asked_about_waits_for_a_person() {
    let server = Server::start(|s| {
        defined(s, "write_file", "default = { decision = \"ask\", reason = \"a person looks\" }\n");
    });
    let mut wire = server.connect();
    let input = json!({"path": "new", "content": "what is written"});
    wire.send_json(&json!({"tool": "write_file", "input": input, "id": 1}));
    let notice = wire.recv_json();
    assert!(
        notice["notice"].as_str().is_some_and(|line| line.contains("a person looks")),
        "{notice}"
    );
    let waiting = eventually_some("a question", || {
        let answer = server.control().call(&json!({"op": "approvals"}));
        let list = answer["waiting"].as_array().cloned().unwrap_or_default();
        list.first().cloned()
    });
    assert!(waiting.to_string().contains("what is written"), "{waiting}");
    assert!(!server.ws().join("new").exists());
    let id = waiting["id"].clone();
    server.control().call(&json!({"op": "approve", "approval": id}));
    let reply = wire.recv_json();
    assert_eq!(reply["success"], json!(true), "{reply}");
    assert_eq!(fs::read(server.ws().join("new")).expect("read"), b"what is written");
}

#[test]
fn only_the_tools_of_the_settings_are_served() {
    let server = Server::start(|s| s.env("TOOL_AGENT_TOOLS", "read_file:list_*"));
    assert_eq!(code(&server, "read_file", &json!({"path": "no"})), "FILE_NOT_FOUND");
    output(&server, "list_directory", &json!({}));
    for tool in ["write_file", "run_command", "run_shell", "command"] {
        assert_eq!(code(&server, tool, &json!({"command": "x"})), "UNKNOWN_TOOL", "{tool}");
    }
    let none = Server::start(|s| s.env("TOOL_AGENT_TOOLS", "none"));
    assert_eq!(code(&none, "read_file", &json!({"path": "x"})), "UNKNOWN_TOOL");
}

#[test]
fn what_names_none_of_the_brokers_own_tools_is_told() {
    let mut setup = Setup::new();
    setup.env("TOOL_AGENT_TOOLS", "read_file:list_dirs");
    let command = setup.serve();
    let (_, log) = Server::try_start(setup, command).expect_err("it starts");
    assert!(log.contains("none of the broker's own tools is called list_dirs"), "{log}");
    // Rules that nobody would ask are told too, and take nothing away.
    let server = Server::start(|s| {
        s.file("agent.d/read-file.toml", "default = \"deny\"\n", 0o644);
        defined(s, "write_file", "default = \"deny\"\n");
    });
    let problems = server.status()["problems"].to_string();
    assert!(problems.contains("agent.d/read-file.toml"), "{problems}");
    assert!(problems.contains("none of the broker's own tools has this name"), "{problems}");
    let write = json!({"path": "a", "content": "x"});
    assert_eq!(code(&server, "write_file", &write), "DENIED");
    assert_eq!(code(&server, "read_file", &json!({"path": "no"})), "FILE_NOT_FOUND");
    // A directory that is not there is one problem, and none of these tools is served.
    let lost = Server::start(|s| s.env("TOOL_AGENT_DEFINITIONS", s.path("no/such")));
    let problems = lost.status()["problems"].as_array().expect("a list").len();
    assert_eq!(problems, 1, "{}", lost.status()["problems"]);
    assert_eq!(code(&lost, "read_file", &json!({"path": "no"})), "UNKNOWN_TOOL");
}

#[test]
fn no_tool_of_tools_d_has_the_name_of_one_of_the_brokers_own() {
    let server = Server::start(|s| {
        s.tool("read_file", "binary = \"/bin/cat\"\ndefault = \"allow\"\n");
        s.tool("read", "binary = \"/bin/cat\"\ndefault = \"allow\"\n");
    });
    let problems = server.status()["problems"].to_string();
    assert!(problems.contains("one of the broker's own tools"), "{problems}");
    // Another name of it is a tool's, if it has it.
    fs::write(server.ws().join("f"), "content").expect("write");
    let seen = call(&server, "read", &json!({"args": ["f"]}));
    assert_eq!(seen["output"]["stdout"], json!("content"), "{seen}");
}

#[test]
fn a_call_with_json_has_its_line_in_the_audit() {
    let server = Server::start(|_| {});
    fs::write(server.ws().join("f"), "content").expect("write");
    let read = call(&server, "read_file", &json!({"path": "f"}));
    let edit = json!({"path": "f", "old_text": "content", "new_text": "other"});
    let edited = call(&server, "edit_file", &edit);
    let search = json!({"path": ".", "by": "name", "pattern": "*.txt"});
    let sought = call(&server, "search_files", &search);
    let ran = call(&server, "run_command", &json!({"argv": ["echo", "hi"]}));
    let text = server.verb(&["audit", "--json"]).output().expect("audit");
    let lines: Vec<Value> = String::from_utf8(text.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let line = |id: &Value| {
        let found = lines.iter().find(|line| &line["call_id"] == id);
        found.unwrap_or_else(|| panic!("no line of {id}: {lines:?}")).clone()
    };
    // What each is about, and nothing of what was written.
    let about = |seen: &Value| line(&seen["call_id"])["argv"].clone();
    assert_eq!(about(&read), json!(["read_file", "f"]));
    assert_eq!(about(&edited), json!(["edit_file", "f"]));
    assert_eq!(about(&sought), json!(["search_files", "*.txt", "."]));
    let (read, ran) = (line(&read["call_id"]), line(&ran["call_id"]));
    assert_eq!(
        (&read["tool"], &read["decision"]),
        (&json!("read_file"), &json!("allow")),
        "{read}"
    );
    assert_eq!((&ran["tool"], &ran["exit_code"]), (&json!("run_command"), &json!(0)), "{ran}");
}

#[test]
fn what_is_written_belongs_to_the_workspaces_owner() {
    if !is_root() {
        return tool_broker_tests::skipped(
            "what_is_written_belongs_to_the_workspaces_owner",
            "root only",
        );
    }
    let server = Server::start(|s| {
        let ws = s.ws();
        nix::unistd::chown(&ws, Some(4321.into()), Some(4321.into())).expect("chown");
    });
    output(&server, "write_file", &json!({"path": "a/b", "content": "x"}));
    for path in ["a", "a/b"] {
        let found = fs::metadata(server.ws().join(path)).expect("stat");
        assert_eq!((found.uid(), found.gid()), (4321, 4321), "{path}");
    }
    // What is root's alone there, root does not read for anybody.
    let own = server.ws().join("roots");
    fs::write(&own, "canary").expect("write");
    fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
    assert_eq!(code(&server, "read_file", &json!({"path": "roots"})), "PERMISSION_DENIED");
}

/// One that is held by a call has another come, and that one is its owner's too.
#[test]
fn calls_at_once_are_each_done_as_the_workspaces_owner() {
    if !is_root() {
        return tool_broker_tests::skipped(
            "calls_at_once_are_each_done_as_the_workspaces_owner",
            "root only",
        );
    }
    let server = Server::start(|s| {
        let ws = s.ws();
        nix::unistd::chown(&ws, Some(4321.into()), Some(4321.into())).expect("chown");
    });
    let mut wire = server.connect();
    for round in 0..3 {
        let held: Vec<_> = (0..6)
            .map(|number| {
                let path = server.ws().join(format!("{round}-{number}"));
                fs::write(&path, "one").expect("write");
                nix::unistd::chown(&path, Some(4321.into()), Some(4321.into())).expect("chown");
                let file = fs::File::open(&path).expect("open");
                Flock::lock(file, FlockArg::LockExclusive).expect("lock")
            })
            .collect();
        for number in 0..6 {
            let path = format!("{round}-{number}");
            let input = json!({"path": path, "old_text": "one", "new_text": "two"});
            wire.send_json(&json!({"tool": "edit_file", "input": input, "id": number}));
        }
        eventually("all are under way", || server.status()["calls"]["running"] == json!(6));
        drop(held);
        for _ in 0..6 {
            let seen = wire.recv_json();
            assert_eq!(seen["success"], json!(true), "{seen}");
        }
    }
}
