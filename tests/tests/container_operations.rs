//! What a container's tool server did beside files and commands: templates, npm install,
//! development servers.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, alive, eventually, eventually_some, skipped};

fn call(server: &Server, tool: &str, input: &Value) -> Value {
    server.connect().call(&json!({"tool": tool, "input": input, "id": 1}))
}

#[track_caller]
fn output(server: &Server, tool: &str, input: &Value) -> Value {
    let seen = call(server, tool, input);
    assert_eq!((&seen["success"], &seen["tool"]), (&json!(true), &json!(tool)), "{seen}");
    seen["output"].clone()
}

#[track_caller]
fn code(server: &Server, tool: &str, input: &Value) -> String {
    let seen = call(server, tool, input);
    assert_eq!(seen["success"], json!(false), "{seen}");
    seen["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// A definition of one of the broker's own tools, in force from the start.
fn defined(setup: &mut Setup, tool: &str, text: &str) {
    setup.file(format!("agent.d/{tool}.toml"), text, 0o644);
    setup.env("TOOL_AGENT_DEFINITIONS", setup.path("agent.d"));
}

/// The texts of its lines.
fn lines(of: &Value) -> Vec<&str> {
    let lines = of["lines"].as_array().expect("lines");
    lines.iter().map(|line| line["text"].as_str().expect("text")).collect()
}

/// Writes its number, then lines as files appear, until it is ended.
fn script(server: &Server, name: &str, text: &str) {
    fs::write(server.ws().join(name), text).expect("write");
}

const WAITS: &str = "echo $$ > pid\necho starting\n\
    while [ ! -e go ]; do sleep 0.02; done\necho 'ready in 1 ms'\nexec sleep 1000\n";

fn pid(server: &Server) -> i32 {
    let read = || fs::read_to_string(server.ws().join("pid")).ok()?.trim().parse().ok();
    eventually_some("it says its number", read)
}

#[test]
fn a_template_of_the_workspace_is_filled_in() {
    let server = Server::start(|_| {});
    let files = json!([
        {"path": "package.json", "content": "{\"name\": \"{{NAME}}\"}\n"},
        {"path": "src/{{NAME}}.js", "content": "console.log(1)\n"},
    ]);
    let mut input = json!({"files": files, "target": "apps/shop", "variables": {"NAME": "shop"}});
    let made = output(&server, "inject_template", &input);
    assert_eq!(
        made["files"][0],
        json!({"path": "apps/shop/package.json", "bytes": 17, "created": true})
    );
    assert_eq!(made["variables_used"], json!(["NAME"]));
    let file = server.ws().join("apps/shop/src/shop.js");
    assert_eq!(fs::read_to_string(file).expect("read"), "console.log(1)\n");
    assert_eq!(code(&server, "inject_template", &input), "ALREADY_EXISTS");
    input["overwrite"] = json!(true);
    input["variables"] = json!({});
    assert_eq!(code(&server, "inject_template", &input), "INVALID_INPUT");
    let from = json!({"template": "apps/shop", "target": "copy"});
    assert_eq!(
        output(&server, "inject_template", &from)["files"][1]["path"],
        json!("copy/src/shop.js")
    );
    for target in ["..", "/etc"] {
        let out = json!({"template": "apps", "target": target});
        assert_eq!(code(&server, "inject_template", &out), "PATH_OUTSIDE_WORKSPACE");
    }
}

#[test]
fn rules_see_every_file_that_a_template_writes_or_reads() {
    let server = Server::start(|s| {
        let at = |name: &str| s.ws().join(name).display().to_string();
        let rules = format!(
            "default = \"allow\"\n\
             [[rule]]\nid = \"workflows\"\ndecision = \"deny\"\noperands = {{ beneath = {:?} }}\nreason = \"it runs elsewhere\"\n\
             [[rule]]\nid = \"secrets\"\ndecision = \"deny\"\noperands = {{ beneath = {:?} }}\nreason = \"it is one\"\n",
            at(".github"),
            at("secrets"),
        );
        defined(s, "inject_template", &rules);
    });
    let files = json!([{"path": "ok", "content": ""}, {"path": "{{A}}/w.yml", "content": ""}]);
    let input = json!({"files": files, "target": ".", "variables": {"A": ".github"}});
    let seen = call(&server, "inject_template", &input);
    assert_eq!(seen["error"]["rule"], json!("workflows"), "{seen}");
    assert!(!server.ws().join("ok").exists() && !server.ws().join(".github").exists());
    fs::create_dir(server.ws().join("secrets")).expect("mkdir");
    fs::write(server.ws().join("secrets/key"), "canary").expect("write");
    let seen = call(&server, "inject_template", &json!({"template": "secrets", "target": "t"}));
    assert_eq!(seen["error"]["rule"], json!("secrets"), "{seen}");
    assert!(!server.ws().join("t").exists());
}

#[test]
fn npm_install_is_a_call_of_npm_by_its_rules() {
    let server = Server::start(|s| {
        let npm = s.file("npm.sh", "#!/bin/sh\npwd\nfor word; do echo \"[$word]\"; done\n", 0o755);
        let definition = format!(
            "binary = {npm:?}\ndefault = \"allow\"\n\
             [[rule]]\nid = \"no-evil\"\ndecision = \"deny\"\noperands = \"evil\"\n\
             reason = \"it is for all\"\ninstead = \"install it here\"\n"
        );
        s.tool("npm", &definition);
    });
    fs::create_dir(server.ws().join("app")).expect("mkdir");
    let input = json!({"cwd": "app", "packages": ["react", "@types/node@20"], "dev": true,
        "args": ["--no-audit"]});
    let ran = output(&server, "npm_install", &input);
    let app = server.ws().join("app").display().to_string();
    let expected =
        format!("{app}\n[install]\n[--save-dev]\n[--no-audit]\n[--]\n[react]\n[@types/node@20]\n");
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!(expected), &json!(0)));
    assert!(
        output(&server, "npm_install", &json!({}))["stdout"]
            .as_str()
            .unwrap_or("")
            .ends_with("[install]\n")
    );
    let evil = json!({"packages": ["evil"]});
    let seen = call(&server, "npm_install", &evil);
    assert_eq!(
        (&seen["error"]["code"], &seen["error"]["rule"]),
        (&json!("DENIED"), &json!("no-evil"))
    );
    for wrong in [
        json!({"packages": ["--global"]}),
        json!({"packages": [""]}),
        json!({"args": ["react"]}),
        json!({"args": ["--"]}),
        json!({"script": "x"}),
    ] {
        assert_eq!(code(&server, "npm_install", &wrong), "INVALID_INPUT", "{wrong}");
    }
}

#[test]
fn without_npm_npm_install_says_what_to_do() {
    let server = Server::start(|_| {});
    let seen = call(&server, "npm_install", &json!({}));
    assert_eq!(seen["error"]["code"], json!("NOT_INSTALLED"), "{seen}");
    assert!(seen["error"]["message"].as_str().unwrap_or("").contains("tools.d"), "{seen}");
}

#[test]
fn npm_install_has_no_rules_of_its_own() {
    let server = Server::start(|s| defined(s, "npm_install", "default = \"deny\"\n"));
    let said = server.status().to_string();
    assert!(said.contains("npm_install has the rules of the tool npm"), "{said}");
    assert_eq!(code(&server, "npm_install", &json!({})), "UNKNOWN_TOOL");
}

#[test]
fn npm_itself_installs_a_directory_without_a_network() {
    let test = "npm_itself_installs_a_directory_without_a_network";
    if !Path::new("/usr/bin/npm").exists() {
        return skipped(test, "no /usr/bin/npm (npm)");
    }
    let server = Server::start(|s| {
        s.tool("npm", "binary = \"/usr/bin/npm\"\ndefault = \"allow\"\ntimeout = 300\n");
    });
    let files = json!([
        {"path": "dep/package.json", "content": "{\"name\": \"dep\", \"version\": \"1.0.0\"}"},
        {"path": "app/package.json",
         "content": "{\"name\": \"app\", \"dependencies\": {\"dep\": \"file:../dep\"}}"},
    ]);
    output(&server, "inject_template", &json!({"files": files, "target": "."}));
    let input = json!({"cwd": "app", "args": ["--offline", "--no-audit", "--no-fund"]});
    let ran = output(&server, "npm_install", &input);
    assert_eq!(ran["exit_code"], json!(0), "{ran}");
    assert!(server.ws().join("app/node_modules/dep/package.json").exists(), "{ran}");
}

#[test]
fn a_development_server_is_started_asked_about_and_stopped() {
    let server = Server::start(|_| {});
    script(&server, "dev.sh", WAITS);
    let mut wire = server.connect();
    let input = json!({"argv": ["sh", "dev.sh"], "ready": "ready in"});
    wire.send_json(&json!({"tool": "dev_server_start", "input": input, "id": 1}));
    let number = pid(&server);
    let status = output(&server, "dev_server_status", &json!({}));
    let shown = &status["servers"][0];
    assert_eq!((&shown["name"], &shown["state"]), (&json!("dev"), &json!("running")), "{status}");
    assert_eq!(shown["ready"], json!(false), "{status}");
    fs::write(server.ws().join("go"), "").expect("write");
    let started = wire.recv_json();
    assert_eq!(started["success"], json!(true), "{started}");
    assert_eq!(started["output"]["ready"], json!(true), "{started}");
    assert_eq!(lines(&started["output"]), ["starting", "ready in 1 ms"]);
    // Whoever started it may go.
    drop(wire);
    let logs = output(&server, "dev_server_logs", &json!({"since": 1}));
    assert_eq!((lines(&logs), &logs["next"]), (vec!["ready in 1 ms"], &json!(2)));
    assert!(alive(number));
    assert_eq!(code(&server, "dev_server_start", &json!({"argv": ["true"]})), "ALREADY_EXISTS");
    let stopped = output(&server, "dev_server_stop", &json!({"name": "dev"}));
    assert_eq!((&stopped["was_running"], &stopped["state"]), (&json!(true), &json!("ended")));
    assert_eq!(stopped["reason"], json!("dev_server_stop ended it"), "{stopped}");
    assert_eq!(stopped.get("exit_code"), None, "it has none of its own: {stopped}");
    assert!(!alive(number));
    assert_eq!(server.children().len(), 0);
    let again = output(&server, "dev_server_stop", &json!({}));
    assert_eq!(again["was_running"], json!(false), "once more is no error");
    let logs = output(&server, "dev_server_logs", &json!({"lines": 1}));
    assert_eq!(lines(&logs), ["ready in 1 ms"], "what it wrote is kept");
    for tool in ["dev_server_stop", "dev_server_status", "dev_server_logs"] {
        assert_eq!(code(&server, tool, &json!({"name": "other"})), "NO_SUCH_SERVER");
    }
    // The name is free again.
    output(&server, "dev_server_start", &json!({"command": "sleep 1000"}));
}

#[test]
fn all_processes_of_a_development_server_end_those_that_ignore_it_too() {
    let server = Server::start(|_| {});
    script(
        &server,
        "dev.sh",
        "trap '' TERM\nsetsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1; done' &\n\
         while :; do sleep 1; done\n",
    );
    output(&server, "dev_server_start", &json!({"argv": ["sh", "dev.sh"]}));
    let number = pid(&server);
    output(&server, "dev_server_stop", &json!({}));
    assert!(!alive(number));
    eventually("nothing of it is left", || server.descendants().is_empty());
}

#[test]
fn one_that_ends_before_it_is_ready_says_what_it_wrote() {
    let server = Server::start(|_| {});
    script(&server, "dev.sh", "echo 'no port' >&2\nexit 3\n");
    let input = json!({"argv": ["sh", "dev.sh"], "ready": "listening"});
    let seen = call(&server, "dev_server_start", &input);
    assert_eq!(seen["error"]["code"], json!("EXECUTION_ERROR"), "{seen}");
    let output_ = &seen["output"];
    assert_eq!((&output_["exit_code"], &output_["state"]), (&json!(3), &json!("ended")));
    assert_eq!(lines(output_), ["no port"]);
    assert_eq!(output_["lines"][0]["stream"], json!("stderr"));
    // What never ran is not kept.
    assert_eq!(
        code(&server, "dev_server_start", &json!({"argv": ["/no/such"], "name": "a"})),
        "NOT_INSTALLED"
    );
    assert_eq!(
        code(&server, "dev_server_start", &json!({"argv": ["sudo", "x"], "name": "a"})),
        "DENIED"
    );
    assert_eq!(code(&server, "dev_server_status", &json!({"name": "a"})), "NO_SUCH_SERVER");
    for wrong in [
        json!({}),
        json!({"argv": ["a"], "command": "a"}),
        json!({"argv": ["a"], "name": "a/b"}),
        json!({"argv": ["a"], "ready": ""}),
        json!({"argv": ["a\u{0}"]}),
    ] {
        assert_eq!(code(&server, "dev_server_start", &wrong), "INVALID_INPUT", "{wrong}");
    }
}

#[test]
fn one_that_is_not_ready_in_time_goes_on_and_one_that_nobody_waits_for_ends() {
    let server = Server::start(|_| {});
    script(&server, "dev.sh", WAITS);
    let input = json!({"argv": ["sh", "dev.sh"], "ready": "ready in", "timeout_ms": 100});
    let started = output(&server, "dev_server_start", &input);
    assert_eq!((&started["ready"], &started["state"]), (&json!(false), &json!("running")));
    fs::write(server.ws().join("go"), "").expect("write");
    eventually("it is ready", || {
        output(&server, "dev_server_status", &json!({}))["servers"][0]["ready"] == json!(true)
    });
    output(&server, "dev_server_stop", &json!({}));
    fs::remove_file(server.ws().join("pid")).expect("remove");
    let mut wire = server.connect();
    script(&server, "dev.sh", "echo $$ > pid\nexec sleep 1000\n");
    let input = json!({"argv": ["sh", "dev.sh"], "ready": "x"});
    wire.send_json(&json!({"tool": "dev_server_start", "input": input, "id": 1}));
    let number = pid(&server);
    drop(wire);
    eventually("it ends", || !alive(number));
}

#[test]
fn another_callers_development_server_is_not_seen() {
    let server = Server::start(|s| {
        let path = s.path("run/other.sock");
        s.env("TOOL_LISTEN", format!("{}", path.display()));
    });
    output(&server, "dev_server_start", &json!({"argv": ["sleep", "1000"]}));
    let other = server.path("run/other.sock");
    let ask = |tool: &str, input: Value| {
        tool_broker_tests::Wire::connect(&other)
            .call(&json!({"tool": tool, "input": input, "id": 1}))
    };
    assert_eq!(ask("dev_server_status", json!({}))["output"]["servers"], json!([]));
    for tool in ["dev_server_stop", "dev_server_logs", "dev_server_status"] {
        assert_eq!(ask(tool, json!({"name": "dev"}))["error"]["code"], json!("NO_SUCH_SERVER"));
    }
    let own = ask("dev_server_start", json!({"argv": ["sleep", "1000"]}));
    assert_eq!(own["success"], json!(true), "its own name is free: {own}");
}

#[test]
fn so_many_run_at_once_and_no_more() {
    let server = Server::start(|_| {});
    for number in 0..4 {
        let input = json!({"argv": ["sleep", "1000"], "name": format!("s{number}")});
        output(&server, "dev_server_start", &input);
    }
    let more = json!({"argv": ["sleep", "1000"], "name": "more"});
    assert_eq!(code(&server, "dev_server_start", &more), "BUSY");
    output(&server, "dev_server_stop", &json!({"name": "s2"}));
    output(&server, "dev_server_start", &more);
}

#[test]
fn development_servers_end_with_the_broker_and_are_in_the_audit() {
    let server = Server::start(|_| {});
    script(&server, "dev.sh", WAITS);
    let started = call(&server, "dev_server_start", &json!({"argv": ["sh", "dev.sh"]}));
    let id = started["call_id"].as_str().expect("while it runs");
    let number = pid(&server);
    let setup = server.stop(Signal::SIGTERM);
    assert!(!alive(number));
    let mut lines = setup.verb(&["audit", "--json"]);
    let said = tool_broker_tests::run(&mut lines, b"").out();
    let line = said.lines().find(|line| line.contains(id)).expect("its line");
    assert!(line.contains("dev_server_start") && line.contains("dev.sh"), "{said}");
}

/// Listens where it is told; a line of python.
const LISTENS: &str = "import socket, sys, time\n\
    where = sys.argv[1]\n\
    kind = socket.AF_UNIX if '/' in where else socket.AF_INET\n\
    try:\n    s = socket.socket(kind); s.bind(where if '/' in where else ('127.0.0.1', int(where))); s.listen()\n\
    except OSError as error: print('refused:', error, flush=True); sys.exit(1)\n\
    print('listening', flush=True); time.sleep(1000)\n";

#[test]
fn what_a_development_server_may_listen_on() {
    let test = "what_a_development_server_may_listen_on";
    if !Path::new("/usr/bin/python3").exists() {
        return skipped(test, "no /usr/bin/python3 (python3)");
    }
    let listen = |server: &Server, at: &str, name: &str| {
        script(server, "listen.py", LISTENS);
        let argv = ["/usr/bin/python3", "listen.py", at];
        call(server, "dev_server_start", &json!({"argv": argv, "name": name, "ready": "listening"}))
    };
    // As it ships: on nothing.
    let server = Server::start(|_| {});
    let socket = server.ws().join("s").display().to_string();
    for at in ["0", socket.as_str()] {
        let seen = listen(&server, at, "dev");
        assert_eq!(seen["error"]["code"], json!("EXECUTION_ERROR"), "{seen}");
        assert!(lines(&seen["output"])[0].starts_with("refused:"), "{seen}");
    }
    drop(server);
    // By its definition: on a Unix socket in the workspace, and no port.
    let server = Server::start(|s| {
        let text = "default = \"allow\"\n[sandbox]\nsockets = [\"unix\"]\n";
        defined(s, "dev_server_start", text);
    });
    let socket = server.ws().join("s").display().to_string();
    let seen = listen(&server, "0", "port");
    assert_eq!(seen["error"]["code"], json!("EXECUTION_ERROR"), "{seen}");
    let seen = listen(&server, &socket, "unix");
    assert_eq!(seen["output"]["ready"], json!(true), "{seen}");
    UnixStream::connect(&socket).expect("it is reached");
    drop(server);
    // Not confined: on a port of the server's own network.
    let server = Server::start(|s| {
        defined(s, "dev_server_start", "default = \"allow\"\n[sandbox]\nmode = \"off\"\n");
    });
    let seen = listen(&server, "0", "open");
    assert_eq!(seen["output"]["ready"], json!(true), "{seen}");
}
