//! A call that talks to the gate: alone in namespaces of its own, where the machine
//! has them, and without them. It behaves as any call does.

mod reliability_help;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::thread;

use nix::sys::signal::Signal;
use reliability_help::Mark;
use serde_json::{Value, json};
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{Server, Setup, Wire, eventually, run, spawn, sys};

/// A shell every call of which gets the gate.
fn gated(more: &str) -> String {
    format!(
        "binary = \"/bin/sh\"\ndefault = \"allow\"\n{more}\n[sandbox]\nnetwork = \"always\"\n\
         [[gate]]\nadapter = \"http\"\nhosts = [\"example.org\"]\n\
         [[gate]]\nadapter = \"github\"\nhosts = [\"example.com\"]\n"
    )
}

fn prepare(setup: &mut Setup) {
    setup.tool("net", &gated(""));
    setup.tool("brief", &gated("timeout = 1"));
}

/// With namespaces; `None` where this machine has none.
fn with_spaces() -> Option<Server> {
    let server = Server::start(prepare);
    let level = server.status()["confinement"]["level"].clone();
    if level == json!("namespaces") {
        return Some(server);
    }
    eprintln!("not shown here: this machine has no namespaces: {level}");
    None
}

fn without_spaces() -> Server {
    let server = Server::start(|s| {
        prepare(s);
        s.env("TOOL_SANDBOX_LEVEL", "landlock");
    });
    assert_eq!(server.status()["confinement"]["level"], json!("landlock"));
    server
}

fn say(server: &Server, script: &str) -> String {
    run(server.client("net").args(["-c", script]), b"").success()
}

fn python(server: &Server, script: &str) -> String {
    python_of(server, "net", script)
}

fn python_of(server: &Server, tool: &str, script: &str) -> String {
    let outcome = run(server.client(tool).args(["-c", "exec python3 -c \"$0\"", script]), b"");
    outcome.success().trim().to_owned()
}

fn request(server: &Server, script: &str, more: Value) -> Value {
    let mut request =
        json!({"tool":"net","args":["-c",script],"cwd":server.ws(),"stdio":"fds","fds":[]});
    let members = request.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    request
}

/// The next message that is no output.
fn told(wire: &mut Wire) -> Value {
    loop {
        let payload = wire.recv_frame().expect("a message, not the end");
        if payload.first() == Some(&b'{') {
            return serde_json::from_slice(&payload).expect("JSON");
        }
    }
}

/// What the call's own listener answers to a request without the call's secret.
const ASK: &str = "import os, socket, urllib.parse
at = urllib.parse.urlsplit(os.environ['http_proxy'])
s = socket.create_connection((at.hostname, at.port), 10)
s.sendall(b'GET http://example.org/ HTTP/1.1\\r\\nHost: example.org\\r\\nConnection: close\\r\\n\\r\\n')
print(s.recv(12))";

/// How connecting to a port of the machine's loopback goes.
fn connects(port: u16) -> String {
    format!(
        "import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 5); print('connected')\n\
         except OSError as error: print(error.errno)"
    )
}

/// Connects to the listener's port elsewhere, and tries to begin anew.
const ELSEWHERE: &str = "import os, socket, time, urllib.parse
port = urllib.parse.urlsplit(os.environ['http_proxy']).port
with open('WS/told', 'w') as told: told.write(str(port))
os.rename('WS/told', 'WS/port')
while not os.path.exists('WS/go'): time.sleep(0.01)
s = socket.socket()
s.connect(('127.0.0.9', port))
s.sendall(b'out')
print(s.getpeername()[0], end=' ')
try: s.listen()
except OSError as error: print(error.errno)";

/// Opens sockets until one waits for its connection, has it disconnected, and listens by it.
const ANEW: &str = "import socket
kept = []
def state(s): return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
while not kept or (state(kept[-1]) == 1 and len(kept) < 500):
    kept.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
s = kept[-1]
s.shutdown(socket.SHUT_RDWR)
print(state(s), end=' ')
try: print(s.listen(), s.getsockname())
except OSError as error: print(error.errno)";

/// Listens without a bind(2), by sockets that the call makes itself.
const PLAINLY: &str = "import os, socket
def attempt(family, name=None):
    try:
        s = socket.socket(family)
        if name: s.bind(name)
        s.listen()
        return 'listens'
    except OSError as error: return error.errno
print(attempt(socket.AF_INET), attempt(socket.AF_INET6), attempt(socket.AF_UNIX, 'socket'))
os.unlink('socket')";

const UNIX: &str = "import socket
def attempt(*kind):
    try: return socket.socket(*kind)
    except OSError as error: return error.errno
one = attempt(socket.AF_UNIX, socket.SOCK_STREAM)
print(attempt(socket.AF_UNIX, socket.SOCK_DGRAM), attempt(socket.AF_INET, socket.SOCK_DGRAM), end=' ')
try: one.connect('/nonexistent/gate.sock')
except OSError as error: print(error.errno, end=' ')
print(one.getpeername() == '', socket.socketpair() is not None)";

#[test]
fn a_call_with_the_gate_sees_no_process_but_its_own() {
    let Some(server) = with_spaces() else { return };
    let pids = say(&server, "for n in /proc/[0-9]*; do echo ${n#/proc/}; done");
    let pids: Vec<u32> = pids.lines().map(|pid| pid.parse().expect("a pid")).collect();
    assert!(pids.contains(&1) && pids.len() <= 3 && pids.iter().all(|pid| *pid < 50), "{pids:?}");
    let leader = say(&server, "tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/environ || :");
    assert_eq!(leader.trim_end(), "tool-server lead-session 3");
    // Each kind is one of its own, and the machine's IPC is not seen.
    let ours = |kind: &str| fs::read_link(Path::new("/proc/self/ns").join(kind)).expect(kind);
    for kind in ["user", "pid", "net", "mnt", "ipc", "uts"] {
        let theirs = say(&server, &format!("readlink /proc/self/ns/{kind}"));
        assert_ne!(theirs.trim_end(), ours(kind).to_string_lossy(), "{kind}");
    }
    let made = run(std::process::Command::new("ipcmk").args(["-M", "16"]), b"").success();
    let id = made.rsplit(' ').next().expect("an id").trim().to_owned();
    let seen = say(&server, "cat /proc/sysvipc/shm");
    run(std::process::Command::new("ipcrm").args(["-m", &id]), b"").success();
    assert_eq!(seen.lines().count(), 1, "{seen}");
}

#[test]
fn a_call_with_the_gate_reaches_its_own_listener_and_nothing_of_the_machines_network() {
    let Some(server) = with_spaces() else { return };
    let devices = say(&server, "cat /proc/net/dev");
    let names: Vec<&str> = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    assert_eq!(names, ["lo"]);
    let machine = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = machine.local_addr().expect("an address").port();
    let refused = libc::ECONNREFUSED.to_string();
    assert_eq!(python(&server, &connects(port)), refused);
    assert_eq!(python(&server, ASK), "b'HTTP/1.1 407'");
    let (denied, missing) = (libc::EACCES, libc::EISCONN);
    assert_eq!(python(&server, UNIX), format!("{denied} {denied} {missing} True True"));
}

#[test]
fn without_namespaces_a_call_reaches_its_own_listener_alone() {
    let server = without_spaces();
    let machine = TcpListener::bind("127.0.0.1:0").expect("bind");
    machine.set_nonblocking(true).expect("not waiting");
    let port = machine.local_addr().expect("an address").port();
    let denied = libc::EACCES;
    // Whatever it connects to, it is connected to the gate.
    assert_eq!(python(&server, &connects(port)), "connected");
    assert!(machine.accept().is_err());
    assert_eq!(python(&server, ASK), "b'HTTP/1.1 407'");
    let is = libc::EISCONN;
    assert_eq!(python(&server, UNIX), format!("{denied} {denied} {is} True True"));
    let confinement = server.status()["confinement"].clone();
    assert_eq!(confinement["argv"], json!("visible"), "{confinement}");
    // It is one of the machine's processes, and cannot do anything to the others.
    let me = std::process::id();
    let said = say(
        &server,
        &format!(
            "kill -0 {me} 2>/dev/null && echo signalled; cat /proc/{me}/environ 2>/dev/null; readlink /proc/{me}/fd/0 /proc/{me}/cwd; :"
        ),
    );
    assert_eq!(said, "");
}

#[test]
fn without_namespaces_the_listeners_port_leads_nowhere_else() {
    let server = without_spaces();
    // The same port of another address: of another machine, say.
    let told = ELSEWHERE.replace("WS", &server.ws().display().to_string());
    let outcome = thread::scope(|scope| {
        let call = scope.spawn(|| python(&server, &told));
        let port = server.ws().join("port");
        let read = || fs::read_to_string(&port).ok().and_then(|port| port.trim().parse().ok());
        eventually("the port is told", || read().is_some());
        let other = TcpListener::bind(("127.0.0.9", read().expect("a port"))).expect("bind");
        other.set_nonblocking(true).expect("not waiting");
        fs::write(server.ws().join("go"), "").expect("go");
        let said = call.join().expect("the call");
        (said, other.accept().is_err())
    });
    assert_eq!(outcome, ("127.0.0.1 13".to_owned(), true));
}

#[test]
fn without_namespaces_nothing_of_a_call_with_the_gate_listens() {
    let own =
        gated("").replace("network = \"always\"", "network = \"always\"\nsockets = [\"unix\"]");
    let prepare = |setup: &mut Setup| {
        prepare(setup);
        setup.tool("own", &own);
        setup.tool("local", "binary = \"/bin/sh\"\nsandbox.sockets = [\"unix\"]\n");
    };
    let server = Server::start(|setup| {
        prepare(setup);
        setup.env("TOOL_SANDBOX_LEVEL", "landlock");
    });
    let denied = libc::EACCES;
    // 7: it is disconnected.
    assert_eq!(python(&server, ANEW), format!("7 {denied}"));
    assert_eq!(python_of(&server, "own", PLAINLY), format!("{denied} {denied} {denied}"));
    // Without the gate there is no TCP socket, and what the definition lists may listen.
    assert_eq!(python_of(&server, "local", PLAINLY), format!("{denied} {denied} listens"));
    // In a network of its own a call may do as it likes.
    if with_spaces().is_some() {
        let spaces = Server::start(prepare);
        assert_eq!(python_of(&spaces, "own", PLAINLY), "listens listens listens");
    }
}

#[test]
fn a_call_on_a_terminal_has_its_way_out_with_namespaces_and_without() {
    for server in [with_spaces(), Some(without_spaces())].into_iter().flatten() {
        for (script, wanted) in [(ASK, "HTTP/1.1 407"), (UNIX, "True")] {
            let mut client = server.client("net");
            client.args(["-c", "exec python3 -c \"$0\"", script]);
            let mut terminal = OnTerminal::start(client);
            assert!(terminal.wait().success(), "{}", terminal.screen());
            assert!(terminal.screen().contains(wanted), "{}", terminal.screen());
        }
    }
}

#[test]
fn where_user_namespaces_are_refused_the_server_says_so_and_does_without() {
    let mut setup = Setup::new();
    prepare(&mut setup);
    let mut command = setup.serve();
    sys::refuse_user_namespaces(&mut command);
    let server = Server::start_command(setup, command);
    let confinement = server.status()["confinement"].clone();
    assert_eq!(confinement["level"], json!("landlock"), "{confinement}");
    assert!(confinement["missing"].to_string().contains("namespaces"), "{confinement}");
    assert_eq!(python(&server, ASK), "b'HTTP/1.1 407'");
}

#[test]
fn a_call_in_namespaces_ends_as_its_tool_ends() {
    let Some(server) = with_spaces() else { return };
    for status in [0, 1, 3, 125, 126, 127, 128, 130, 255] {
        let outcome = run(server.client("net").args(["-c", &format!("exit {status}")]), b"");
        assert_eq!(outcome.code(), Some(status));
    }
    for (name, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15), ("SEGV", 11)] {
        let script = format!("ulimit -c 0; kill -{name} $$");
        let outcome = run(server.client("net").args(["-c", &script]), b"");
        assert_eq!(outcome.signal(), Some(number), "{name}: {outcome:?}");
    }
    let outcome = run(server.client("net").args(["-c", "cat; echo err >&2; exit 4"]), b"input");
    assert_eq!(
        (outcome.code(), outcome.out(), outcome.err()),
        (Some(4), "input".into(), "err\n".into())
    );
}

#[test]
fn a_call_in_namespaces_is_signalled_stopped_and_goes_on() {
    let Some(server) = with_spaces() else { return };
    for stream in [false, true] {
        let more = if stream { json!({"stdio":"stream"}) } else { json!({}) };
        let script = "trap 'echo on > on' USR1; kill -STOP $$; while [ ! -e on ]; do sleep 0.01; done; exec sleep 60";
        let mut request = request(&server, script, more);
        if stream {
            request.as_object_mut().expect("an object").remove("fds");
        }
        let mut wire = server.connect();
        wire.send_json(&request);
        assert_eq!(told(&mut wire), json!({"stopped":"STOP"}));
        wire.send_json(&json!({"signal":"CONT"}));
        wire.send_json(&json!({"signal":"USR1"}));
        eventually("it goes on", || server.ws().join("on").exists());
        eventually("and sleeps", || {
            server.descendants().iter().any(|process| {
                let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
                line == b"sleep\x0060\0"
            })
        });
        wire.send_json(&json!({"signal":"TSTP"}));
        assert_eq!(told(&mut wire), json!({"stopped":"TSTP"}));
        wire.send_json(&json!({"signal":"CONT"}));
        wire.send_json(&json!({"signal":"HUP"}));
        let last = told(&mut wire);
        assert_eq!(last["signal"], json!("HUP"), "{last}");
        fs::remove_file(server.ws().join("on")).expect("on");
    }
}

#[test]
fn a_call_in_namespaces_that_takes_too_long_ends_with_all_its_processes() {
    let Some(server) = with_spaces() else { return };
    let mark = Mark::new();
    let script = format!("trap '' TERM; (setsid sleep {} &); sleep {}", mark.of(1), mark.of(2));
    let outcome = run(server.client("brief").args(["-c", &script]), b"");
    assert_eq!(outcome.code(), Some(124), "{outcome:?}");
    mark.all_gone();
}

#[test]
fn a_call_in_namespaces_ends_with_its_caller_and_with_the_server() {
    let Some(mut server) = with_spaces() else { return };
    let mark = Mark::new();
    // What ignores signals, has a session of its own, and has lost its parent.
    let script = format!(
        "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep {} & sleep {}' &); sleep {}",
        mark.of(1),
        mark.of(2),
        mark.of(3)
    );
    let before = server.settled();
    for _ in 0..10 {
        let running = spawn(server.client("net").args(["-c", &script]));
        eventually("all of it runs", || mark.alive().len() == 3);
        running.signal(Signal::SIGKILL);
        drop(running);
        mark.all_gone();
        server.nothing_left(before);
    }
    let running = spawn(server.client("net").args(["-c", &script]));
    eventually("all of it runs", || mark.alive().len() == 3);
    server.signal(Signal::SIGKILL);
    server.wait();
    mark.all_gone();
    drop(running);
}

#[test]
fn a_daemon_of_a_call_in_namespaces_ends_with_the_call() {
    let Some(server) = with_spaces() else { return };
    let mark = Mark::new();
    let script = format!("(setsid sleep {} > /dev/null 2>&1 &); echo done", mark.of(1));
    assert_eq!(say(&server, &script), "done\n");
    mark.all_gone();
}

#[test]
fn many_calls_in_namespaces_at_once_each_have_their_own() {
    let Some(server) = with_spaces() else { return };
    let before = server.settled();
    thread::scope(|scope| {
        for caller in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for call in 0..5 {
                    let script = format!("echo {caller}-{call}; ls -d /proc/[0-9]* | wc -l");
                    let said = say(server, &script);
                    let (first, processes) = said.split_once('\n').expect("two lines");
                    assert_eq!(first, format!("{caller}-{call}"));
                    let processes: u32 = processes.trim().parse().expect("a number");
                    assert!(processes <= 4, "{said}");
                }
            });
        }
    });
    server.nothing_left(before);
}

#[test]
fn a_call_in_namespaces_is_the_owner_of_its_root() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not shown here: needs root");
        return;
    }
    for level in ["auto", "landlock"] {
        let server = Server::start(|s| {
            prepare(s);
            s.env("TOOL_SANDBOX_LEVEL", level);
            chown(s.ws(), Some(4321), Some(4322)).expect("chown");
        });
        let said = say(
            &server,
            "id -u; id -g; id -G; umask 022; echo > made; grep -c '^Groups:.[0-9]' /proc/self/status; :",
        );
        assert_eq!(said, "4321\n4322\n4322\n0\n", "{level}");
        // Signals reach it, whoever it is.
        let script = "trap 'echo heard; exit 5' USR1; touch ready; while :; do sleep 0.02; done";
        let running = spawn(server.client("net").args(["-c", script]));
        eventually("it is ready", || server.ws().join("ready").exists());
        running.signal(Signal::SIGUSR1);
        let outcome = running.wait();
        assert_eq!((outcome.code(), outcome.out()), (Some(5), "heard\n".into()), "{level}");
        let made = fs::metadata(server.ws().join("made")).expect("made");
        assert_eq!((made.uid(), made.gid()), (4321, 4322), "{level}");
    }
}

#[test]
fn a_server_of_an_ordinary_user_gives_calls_namespaces_too() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("shown by every other test");
        return;
    }
    let server = Server::start(|s| {
        prepare(s);
        s.uid(1717);
    });
    if server.status()["confinement"]["level"] != json!("namespaces") {
        eprintln!("not shown here: {}", server.status()["confinement"]);
        return;
    }
    // Often: what belongs to a process in /proc is root's while it executes a program.
    for _ in 0..30 {
        assert_eq!(say(&server, "id -u; id -g"), "1717\n1717\n");
    }
    assert_eq!(python(&server, ASK), "b'HTTP/1.1 407'");
    let mark = Mark::new();
    let running =
        spawn(server.client("net").args(["-c", &format!("trap '' TERM; sleep {}; :", mark.of(1))]));
    eventually("it runs", || mark.alive().len() == 1);
    running.signal(Signal::SIGKILL);
    mark.all_gone();
}
