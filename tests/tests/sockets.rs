//! The sockets that a server listens on: modes, takers, peers, hand-over.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Server, Setup, Wire, eventually, is_root, run, skipped, still_works, sys};

#[test]
fn a_socket_is_for_its_owner_and_group_and_the_control_socket_for_its_owner() {
    let server = Server::start(|_| ());
    for (path, mode) in [(server.socket(), 0o660), (server.control_socket(), 0o600)] {
        let meta = fs::symlink_metadata(&path).expect("the socket");
        assert!(meta.file_type().is_socket());
        assert_eq!(meta.mode() & 0o7777, mode, "{}", path.display());
    }
    // Whatever the umask that the server was born with.
    for mask in [0, 0o077] {
        let setup = Setup::new();
        let mut serve = setup.serve();
        sys::umask(&mut serve, mask);
        let server = Server::start_command(setup, serve);
        assert_eq!(fs::metadata(server.socket()).expect("socket").mode() & 0o7777, 0o660);
        assert_eq!(fs::metadata(server.control_socket()).expect("socket").mode() & 0o7777, 0o600);
        still_works(&server);
    }
}

#[test]
fn calls_are_no_business_of_the_control_socket_nor_control_of_a_calls_socket() {
    let server = Server::start(|_| ());
    let reply =
        server.control().call(&json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws()}));
    assert_ne!(reply["exit_code"], json!(0), "{reply}");
    assert!(!server.ws().join("ran").exists());
    for op in ["status", "reload"] {
        assert_eq!(server.connect().call(&json!({"op":op}))["code"], json!("unknown_op"));
        assert!(server.control().call(&json!({"op":op})).get("code").is_none(), "{op}");
    }
}

#[test]
fn a_second_server_on_a_live_socket_is_an_error_and_the_first_goes_on() {
    let server = Server::start(|_| ());
    let inode = fs::metadata(server.socket()).expect("socket").ino();
    let second = run(&mut server.serve(), b"");
    assert!(second.code().is_some_and(|code| code != 0), "{second:?}");
    let said = second.err() + &second.out();
    assert!(said.contains(&server.socket().display().to_string()), "{said}");
    assert_eq!(fs::metadata(server.socket()).expect("socket").ino(), inode, "it was replaced");
    still_works(&server);
    // The same with a state directory of its own: the socket alone decides.
    let mut other = Setup::new();
    other.env("TOOL_SOCKET", server.socket());
    let second = run(&mut other.serve(), b"");
    assert!(second.code().is_some_and(|code| code != 0), "{second:?}");
    still_works(&server);
}

#[test]
fn a_dead_socket_is_replaced() {
    let setup = Server::start(|_| ()).stop(Signal::SIGKILL);
    assert!(setup.socket().exists() && setup.control_socket().exists(), "SIGKILL leaves them");
    let server = Server::start_in(setup);
    still_works(&server);
    let status = server.status();
    assert_eq!(status["pid"], json!(server.pid()), "{status}");
}

#[test]
fn something_that_is_no_socket_is_not_replaced() {
    let setup = Setup::new();
    fs::write(setup.socket(), "precious").expect("write");
    let outcome = run(&mut setup.serve(), b"");
    assert!(outcome.code().is_some_and(|code| code != 0), "{outcome:?}");
    assert_eq!(fs::read_to_string(setup.socket()).expect("still a file"), "precious");
}

#[test]
fn a_stopped_server_takes_its_sockets_along() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(|_| ());
        still_works(&server);
        server.signal(signal);
        let status = server.wait();
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        assert!(!server.socket().exists() && !server.control_socket().exists(), "{signal}");
    }
}

#[test]
fn a_stopping_server_lets_calls_finish_and_refuses_new_ones() {
    let mut server = Server::start(|_| ());
    let mut wire = server.connect();
    let mut idle = server.connect();
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; echo finished; exit 3";
    wire.send_json(&json!({"tool":"sh","args":["-c",script],"cwd":server.ws()}));
    eventually("it runs", || server.ws().join("up").exists());
    server.signal(Signal::SIGTERM);
    // New ones are told so, on a new connection or one from before.
    let refused = json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws()});
    eventually("new calls are refused", || {
        let reply =
            Wire::try_connect(&server.socket()).ok().and_then(|mut new| new.try_call(&refused));
        reply.is_none_or(|reply| reply["code"] == json!("draining"))
    });
    if let Some(reply) = idle.try_call(&refused) {
        assert_eq!(
            (&reply["code"], &reply["exit_code"]),
            (&json!("draining"), &json!(125)),
            "{reply}"
        );
    }
    let line = run(server.client("sh").args(["-c", "touch ran"]), b"").refused(125);
    assert!(line.contains("again") || line.contains("start"), "does not say what to do: {line}");
    let _ = fs::remove_file(server.ws().join("ran")); // by a call before the signal came
    fs::write(server.ws().join("go"), "").expect("go");
    let reply = wire.recv_json();
    assert_eq!(
        (&reply["exit_code"], &reply["stdout"]),
        (&json!(3), &json!("finished\n")),
        "{reply}"
    );
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.ws().join("ran").exists());
}

/// A server with a socket for everything, one for a category, one for a tool.
fn three() -> Server {
    Server::start(|s| {
        s.tools(&[("cat", "/bin/cat"), ("echo", "/bin/echo")]);
        let (some, one) = (s.path("run/some.sock"), s.path("run/echo.sock"));
        let text = format!(
            "[[listen]]\npath = {some:?}\nmode = \"0600\"\ntools = [\"echo\", \"cat\"]\n\
             [[listen]]\npath = {one:?}\nmode = \"0666\"\ntools = [\"echo\"]\n"
        );
        s.config(&text);
    })
}

#[test]
fn each_socket_serves_its_own_tools() {
    let server = three();
    let (some, one) = (server.path("run/some.sock"), server.path("run/echo.sock"));
    still_works(&server);
    let echo = json!({"tool":"echo","args":["x"],"cwd":server.ws()});
    let sh = json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws()});
    for path in [&some, &one] {
        assert_eq!(Wire::connect(path).call(&echo)["stdout"], json!("x\n"));
        let reply = Wire::connect(path).call(&sh);
        assert_eq!(
            (&reply["code"], &reply["exit_code"]),
            (&json!("unknown_tool"), &json!(127)),
            "{reply}"
        );
    }
    assert!(!server.ws().join("ran").exists());
    let tools = Wire::connect(&some).call(&json!({"op":"tools"}));
    let names = tools["tools"].as_array().expect("a list").iter().map(|tool| tool["name"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), [Some("cat"), Some("echo")], "{tools}");
    for (path, mode) in [(&some, 0o600), (&one, 0o666)] {
        assert_eq!(fs::metadata(path).expect("socket").mode() & 0o7777, mode, "{}", path.display());
    }
    let mut server = server;
    server.signal(Signal::SIGTERM);
    server.wait();
    assert!(!some.exists() && !one.exists(), "a socket is left");
}

#[test]
fn on_a_socket_of_one_tool_the_tool_need_not_be_named() {
    let server = three();
    let (some, one) = (server.path("run/some.sock"), server.path("run/echo.sock"));
    let request = json!({"args":["unnamed"],"cwd":server.ws()});
    assert_eq!(Wire::connect(&one).call(&request)["stdout"], json!("unnamed\n"));
    for path in [&some, &server.socket()] {
        let reply = Wire::connect(path).call(&request);
        assert_eq!(reply["code"], json!("bad_request"), "{reply}");
    }
}

#[test]
fn a_socket_may_belong_to_a_group() {
    if !is_root() {
        return skipped("a_socket_may_belong_to_a_group", "not root");
    }
    let server = Server::start(|s| {
        let path = s.path("run/other.sock");
        s.config(&format!(
            "socket_group = \"12345\"\n[[listen]]\npath = {path:?}\nmode = \"0620\"\ngroup = \"12346\"\n"
        ));
    });
    for (path, group, mode) in
        [(server.socket(), 12_345, 0o660), (server.path("run/other.sock"), 12_346, 0o620)]
    {
        let meta = fs::metadata(path).expect("socket");
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (group, mode));
    }
}

#[test]
fn a_peer_of_another_user_is_refused() {
    if !is_root() {
        return skipped("a_peer_of_another_user_is_refused", "not root");
    }
    let server = Server::start(|s| {
        s.config("socket_mode = \"0666\"\n[peers]\nuids = [0, 4242]\n");
    });
    tool_broker_tests::setup::mode(&server.ws(), 0o777);
    let client = server.reachable(&binaries().client);
    let call = |uid: u32| {
        let mut command = Command::new(&client);
        command.args(["sh", "-c", "id -u"]).uid(uid).gid(uid).current_dir(server.ws());
        command.env_clear().env("TOOL_SOCKET", server.socket());
        run(&mut command, b"")
    };
    assert_eq!(call(4242).success(), "0\n", "the tool runs as the server does");
    let line = call(4243).refused(125);
    assert!(line.contains("4243"), "does not say whom: {line}");
    // By hand: the code for programs.
    let mut python = Command::new("python3");
    let script = "import os,socket,struct,sys\n\
        os.setgid(4243); os.setuid(4243)\n\
        s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
        m=b'{\"op\":\"tools\"}'\n\
        try: s.sendall(struct.pack('>I',len(m))+m)\n\
        except OSError: pass\n\
        print(s.recv(65540)[4:].decode())\n";
    let outcome = run(python.args(["-c", script]).arg(server.socket()), b"");
    assert!(outcome.success().contains("\"peer_refused\""), "{outcome:?}");
    still_works(&server);
}

#[test]
fn a_socket_that_the_supervisor_made_is_taken_over() {
    let setup = Setup::new();
    let listener = UnixListener::bind(setup.socket()).expect("bind");
    // A client that comes before the server is there waits, and is served.
    let mut early = Wire::connect(&setup.socket());
    early.send_json(&json!({"op":"health"}));
    // LISTEN_PID is the server's own pid, which only a shell's exec can know.
    let mut command = setup.command(Path::new("/bin/sh"));
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh"]);
    command.arg(&binaries().server).arg("serve").env("LISTEN_FDS", "1");
    sys::pass(&mut command, listener.as_raw_fd(), 3);
    let mut server = Server::start_command(setup, command);
    assert_eq!(early.recv_json()["ok"], json!(true));
    still_works(&server);
    // No tool inherits it, nor learns of it.
    let said = run(server.client("sh").args(["-c", "ls /proc/$$/fd; env"]), b"").success();
    assert!(said.starts_with("0\n1\n2\n") && !said.contains("LISTEN_"), "{said}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.socket().exists(), "the socket is the supervisor's, not the server's to remove");
}

#[test]
fn a_promised_socket_that_is_not_there_is_an_error_not_a_crash() {
    let setup = Setup::new();
    let mut command = setup.command(Path::new("/bin/sh"));
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\" 3<&-", "sh"]);
    command.arg(&binaries().server).arg("serve").env("LISTEN_FDS", "1");
    let outcome = run(&mut command, b"");
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert_eq!(outcome.err().lines().count(), 1, "{outcome:?}");
}

#[test]
fn a_socket_that_was_passed_to_another_process_is_not_taken() {
    let setup = Setup::new();
    let mut command = setup.serve();
    // As a child of an activated service sees it: not its pid.
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    let server = Server::start_command(setup, command);
    still_works(&server);
}

#[test]
fn readiness_is_told_to_whom_it_may_concern() {
    let mut setup = Setup::new();
    let path = setup.path("run/notify");
    let notify = UnixDatagram::bind(&path).expect("bind");
    notify.set_read_timeout(Some(tool_broker_tests::PATIENCE)).expect("timeout");
    setup.env("NOTIFY_SOCKET", &path);
    let server = Server::start_in(setup);
    let mut said = String::new();
    let mut buffer = [0; 4096];
    while !said.contains("READY=1") {
        let length = notify.recv(&mut buffer).expect("READY=1");
        said += std::str::from_utf8(&buffer[..length]).expect("text");
        said += "\n";
    }
    // Not before it answers: the socket was there when READY=1 was sent.
    still_works(&server);
    // And no tool gets to tell it anything.
    assert!(!run(server.client("sh").args(["-c", "env"]), b"").success().contains("NOTIFY_SOCKET"));
    server.signal(Signal::SIGTERM);
    while !said.contains("STOPPING=1") {
        let length = notify.recv(&mut buffer).expect("STOPPING=1");
        said += std::str::from_utf8(&buffer[..length]).expect("text");
        said += "\n";
    }
}
