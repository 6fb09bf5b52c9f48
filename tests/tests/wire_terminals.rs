//! Terminals, signals and descriptors as docs/protocol.md says them, spoken by
//! hand: what another client than ours may rely on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use serde_json::{Value, json};
use tool_broker_tests::wire::{Wire, frame};
use tool_broker_tests::{Server, eventually, still_works};

/// A call by passed descriptors, with what `more` adds.
fn call(server: &Server, script: &str, more: Value) -> Value {
    let mut request =
        json!({"tool":"sh","args":["-c",script],"cwd":server.ws(),"stdio":"fds","fds":[]});
    let members = request.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    request
}

/// The next message, with the descriptors that came along.
fn next(wire: &mut Wire) -> (Value, Vec<OwnedFd>) {
    let (bytes, fds) = wire.recv_with_fds();
    let length = u32::from_be_bytes(bytes[..4].try_into().expect("a prefix")) as usize;
    assert_eq!(bytes.len(), 4 + length, "one message at once: {}", bytes.escape_ascii());
    (serde_json::from_slice(&bytes[4..]).expect("JSON"), fds)
}

/// Waits for output that ends so: a terminal may give a line and its end apart.
#[track_caller]
fn shows(wire: &mut Wire, text: &[u8]) {
    let mut seen = Vec::new();
    while !seen.ends_with(text) {
        let frame = wire.recv_frame().expect("a chunk");
        assert_eq!(frame.first(), Some(&1), "{}", frame.escape_ascii());
        seen.extend_from_slice(&frame[1..]);
    }
}

/// The end of a terminal that relays.
struct Screen {
    master: File,
    seen: String,
}

impl Screen {
    fn new(master: OwnedFd) -> Screen {
        Screen { master: File::from(master), seen: String::new() }
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        // EAGAIN while there is nothing, EIO once the last slave is closed.
        while let Ok(some @ 1..) = self.master.read(&mut bytes) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..some]));
        }
    }

    #[track_caller]
    fn shows(&mut self, text: &str) {
        eventually(&format!("the screen shows {text:?}"), || {
            self.read();
            self.seen.contains(text)
        });
    }

    fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the master");
    }
}

/// Begins a call that gets one terminal.
fn begin(server: &Server, script: &str, tty: Value) -> (Wire, Screen) {
    let mut wire = server.connect();
    wire.send_json(&call(server, script, json!({"tty":tty})));
    let (message, mut masters) = next(&mut wire);
    assert_eq!((&message, masters.len()), (&json!({"pty":true}), 1));
    (wire, Screen::new(masters.remove(0)))
}

#[test]
fn a_tool_gets_a_terminal_of_its_own_and_the_client_its_other_end() {
    let server = Server::start(|_| ());
    let script = "tty; stty size; stty -a | tr ' ;' '\\n\\n' | grep -x -e '-echo' -e '^X'; \
                  ls -l /proc/$$/fd/7; read x </dev/tty; echo \"<$x>\"; exit 3";
    // -echo, and ^X to erase with; the rest as Linux has it.
    let mut chars = vec![3, 28, 24, 21, 4];
    chars.resize(19, 0);
    let modes = [0o26400, 5, 0o277, 0o105_063];
    let tty = json!({"fds":[0,1,2,7],"rows":33,"cols":77,"modes":modes,"chars":chars});
    let (mut wire, mut screen) = begin(&server, script, tty);
    screen.shows("/dev/pts/");
    screen.shows("33 77");
    screen.shows("-echo");
    screen.shows("7 -> /dev/pts/");
    screen.types("typed\n");
    screen.shows("<typed>");
    assert_eq!(wire.recv_json()["exit_code"], json!(3));
    still_works(&server);
}

#[test]
fn what_is_done_to_a_terminal_reaches_the_tool() {
    let server = Server::start(|_| ());
    let script = "trap 'echo size $(stty size)' WINCH; trap 'echo int' INT; echo ready; \
                  while :; do sleep 0.05; done";
    let (mut wire, mut screen) = begin(&server, script, json!({"fds":[0,1,2]}));
    screen.shows("ready");
    wire.send_json(&json!({"resize":{"rows":9,"cols":99}}));
    screen.shows("size 9 99");
    screen.types("\u{3}");
    screen.shows("int");
    wire.send_json(&json!({"query":"started"}));
    assert_eq!(wire.recv_json(), json!({"started":true}));
    wire.send_json(&json!({"signal":"TERM"}));
    let last = wire.recv_json();
    assert_eq!((&last["signal"], &last["exit_code"]), (&json!("TERM"), &json!(143)), "{last}");
}

#[test]
fn a_stop_is_reported_and_a_tool_in_the_background_asks_for_the_terminal() {
    let server = Server::start(|_| ());
    let script = "echo ready; read x; echo \"<$x>\"; exec sleep 60";
    let tty = json!({"fds":[0,1,2],"foreground":false});
    let (mut wire, mut screen) = begin(&server, script, tty);
    assert_eq!(wire.recv_json(), json!({"stopped":"TTIN"}));
    wire.send_json(&json!({"foreground":true}));
    wire.send_json(&json!({"signal":"CONT"}));
    screen.types("word\n");
    screen.shows("<word>");
    // A shell that has just begun a child does not stop before that runs.
    eventually("it sleeps", || {
        let comm = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        server.descendants().iter().any(|process| comm(process.pid) == "sleep\n")
    });
    screen.types("\u{1a}");
    assert_eq!(wire.recv_json(), json!({"stopped":"TSTP"}));
    wire.send_json(&json!({"signal":"CONT"}));
    wire.send_json(&json!({"signal":"INT"}));
    assert_eq!(wire.recv_json()["signal"], json!("INT"));
}

#[test]
fn several_terminals_stay_apart_and_each_can_be_hung_up() {
    let server = Server::start(|_| ());
    let script = "tty <&0; tty <&1; (exec 3</dev/tty) 2>/dev/null && echo has one; \
                  echo out; echo err >&2; cat; echo end; exit 4";
    let terminals = [0, 1, 2].map(|fd| json!({"fds":[fd],"controlling":false}));
    let mut wire = server.connect();
    wire.send_json(&call(&server, script, json!({"tty":terminals})));
    let (message, masters) = next(&mut wire);
    assert_eq!((&message, masters.len()), (&json!({"pty":true}), 3));
    let [input, output, errors] = <[OwnedFd; 3]>::try_from(masters).expect("three");
    let (mut output, mut errors) = (Screen::new(output), Screen::new(errors));
    output.shows("out");
    errors.shows("err");
    assert!(!errors.seen.contains("out") && !output.seen.contains("err"), "{}", output.seen);
    assert!(!output.seen.contains("has one"), "a controlling terminal: {}", output.seen);
    // Its keyboard is gone: cat's input ends.
    drop(input);
    output.shows("end");
    assert_eq!(wire.recv_json()["exit_code"], json!(4));
}

#[test]
fn a_terminal_whose_other_end_is_closed_is_hung_up() {
    let server = Server::start(|_| ());
    let script = "echo ready; exec sleep 60";
    let (mut wire, mut screen) = begin(&server, script, json!({"fds":[0,1,2]}));
    screen.shows("ready");
    drop(screen);
    let last = wire.recv_json();
    assert_eq!(last["signal"], json!("HUP"), "{last}");
}

#[test]
fn a_stream_with_a_terminal_is_relayed_by_the_server() {
    let server = Server::start(|_| ());
    let stream = |script: &str, fds: Value, wire: &mut Wire| {
        let more = json!({"stdio":"stream","tty":{"fds":fds}});
        let mut request = call(&server, script, more);
        request.as_object_mut().expect("an object").remove("fds");
        wire.send_json(&request);
    };
    // All three: keys as stdin, the screen as stdout.
    let mut wire = server.connect();
    stream(
        "stty -echo; echo ready; read x; echo \"<$x>\" >&2; exit 5",
        json!([0, 1, 2]),
        &mut wire,
    );
    shows(&mut wire, b"ready\r\n");
    wire.send_input(b"key\n");
    let got = wire.recv_stream();
    assert_eq!((&got.stdout[..], got.last["exit_code"].clone()), (&b"<key>\r\n"[..], json!(5)));
    assert_eq!(got.ended, (true, true));
    // Only stderr: it is the screen; input and output are pipes, keys come apart.
    let mut wire = server.connect();
    let script = "stty -echo </dev/tty; echo ready; cat; read x </dev/tty; echo \"<$x>\" >&2";
    stream(script, json!([2]), &mut wire);
    assert_eq!(wire.recv_frame().as_deref(), Some(&b"\x01ready\n"[..]));
    wire.send_json(&json!({"terminal":"key\n"}));
    wire.send_input(b"\x00bytes\r");
    wire.send_input(b"");
    let got = wire.recv_stream();
    assert_eq!((&got.stdout[..], &got.stderr[..]), (&b"\x00bytes\r"[..], &b"<key>\r\n"[..]));
    // Only stdin: what the terminal shows has no chunk.
    let mut wire = server.connect();
    stream("stty -echo; echo shown >/dev/tty; echo out", json!([0]), &mut wire);
    let mut shown = String::new();
    loop {
        let payload = wire.recv_frame().expect("a last message");
        if payload.first() != Some(&b'{') {
            continue;
        }
        let message: Value = serde_json::from_slice(&payload).expect("JSON");
        if message.get("exit_code").is_some() {
            break;
        }
        shown.push_str(message["terminal"].as_str().expect("what the terminal shows"));
    }
    assert_eq!(shown, "shown\r\n");
}

#[test]
fn a_signal_passes_input_that_nobody_takes_where_the_client_counts() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    wire.send_json(&json!({
        "tool":"sh","args":["-c","echo ready; exec sleep 60"],"cwd":server.ws(),
        "stdio":"stream","window":true,
    }));
    assert_eq!(wire.recv_frame().as_deref(), Some(&b"\x01ready\n"[..]));
    // As much as may be under way; the pipe takes it, so that all is given back,
    // and once more, until nothing comes back.
    let mut credit = 32_768;
    while credit > 0 {
        wire.send_input(&vec![b'x'; credit]);
        credit = 0;
        wire.send_json(&json!({"query":"started"}));
        loop {
            let message = wire.recv_json();
            match message["window"].as_u64() {
                Some(n) => credit += usize::try_from(n).expect("small"),
                None => {
                    assert_eq!(message, json!({"started":true}));
                    break;
                }
            }
        }
    }
    wire.send_json(&json!({"signal":"TERM"}));
    let got = wire.recv_stream();
    assert_eq!(got.last["signal"], json!("TERM"), "{}", got.last);
}

#[test]
fn a_signal_ends_a_call_that_waits_in_line() {
    let server = Server::start(|s| {
        s.tool("one", "binary = \"/bin/sh\"\n[limits]\nconcurrent = 1\n");
    });
    let request = |script: &str| json!({"tool":"one","args":["-c",script],"cwd":server.ws(),"stdio":"fds","fds":[]});
    let mut first = server.connect();
    first.send_json(&request("touch up; sleep 60"));
    eventually("the first runs", || server.ws().join("up").exists());
    let mut second = server.connect();
    second.send_json(&request("touch never"));
    // Those that end no program that does nothing about them do not end a call.
    for signal in ["WINCH", "CONT", "TSTP"] {
        second.send_json(&json!({"signal":signal}));
    }
    second.send_json(&json!({"signal":"INT"}));
    let last = second.recv_json();
    assert_eq!((&last["signal"], &last["exit_code"]), (&json!("INT"), &json!(130)), "{last}");
    first.send_json(&json!({"signal":"TERM"}));
    assert_eq!(first.recv_json()["signal"], json!("TERM"));
    assert!(!server.ws().join("never").exists());
}

#[test]
fn a_tool_without_a_terminal_that_is_stopped_is_reported() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    let script = "echo $$ > pid; kill -STOP $$; echo on > on; exec sleep 60";
    wire.send_json(&call(&server, script, json!({})));
    assert_eq!(wire.recv_json(), json!({"stopped":"STOP"}));
    wire.send_json(&json!({"signal":"CONT"}));
    eventually("it goes on", || server.ws().join("on").exists());
    wire.send_json(&json!({"signal":"TSTP"}));
    assert_eq!(wire.recv_json(), json!({"stopped":"TSTP"}));
    wire.send_json(&json!({"signal":"CONT"}));
    wire.send_json(&json!({"signal":"HUP"}));
    assert_eq!(wire.recv_json()["signal"], json!("HUP"));
}

#[test]
fn once_closes_the_connection_with_the_reply_but_not_before_a_repetition() {
    let server = Server::start(|s| s.tool("piped", "binary = \"/bin/sh\"\nstdio = \"stream\"\n"));
    let mut wire = server.connect();
    wire.send_json(&call(&server, "exit 6", json!({"once":true})));
    assert_eq!(wire.recv_json()["exit_code"], json!(6));
    assert_eq!(wire.recv_frame(), None);
    let mut wire = server.connect();
    wire.send_json(&call(&server, "exit 7", json!({"tool":"piped","once":true})));
    assert_eq!(wire.recv_json()["code"], json!("use_stream"));
    let mut again = call(&server, "exit 7", json!({"tool":"piped","stdio":"stream","once":true}));
    again.as_object_mut().expect("an object").remove("fds");
    wire.send_json(&again);
    assert_eq!(wire.recv_stream().last["exit_code"], json!(7));
}

#[test]
fn what_leads_to_files_by_names_does_not_pass_and_the_call_goes_on() {
    let server = Server::start(|_| ());
    let directory = File::open(server.ws()).expect("a directory");
    let place = {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = File::options();
        options.read(true).custom_flags(0o10_000_000); // O_PATH
        options.open("/etc/hostname").or_else(|_| options.open("/etc/passwd")).expect("O_PATH")
    };
    let (out, null) =
        (tempfile::tempfile().expect("a file"), File::open("/dev/null").expect("null"));
    let script = "for n in 0 1 3 4 5; do [ -e /proc/$$/fd/$n ] && echo $n; done; exit 8";
    let mut wire = server.connect();
    let request = call(&server, script, json!({"fds":[1,3,4,5]}));
    wire.send_with_fds(&request, &[out.as_fd(), directory.as_fd(), place.as_fd(), null.as_fd()]);
    assert_eq!(wire.recv_json()["exit_code"], json!(8));
    let mut said = String::new();
    std::io::Seek::rewind(&mut &out).expect("seek");
    (&out).read_to_string(&mut said).expect("read");
    assert_eq!(said, "1\n5\n");
}

#[test]
fn a_definition_limits_the_resources_of_its_tool() {
    let server = Server::start(|s| {
        let limits = "[limits]\nopen_files = 64\ncore_bytes = 0\nfile_bytes = 4096\n\
                      cpu_seconds = 100\nprocesses = 5000\nstack_bytes = 1048576\nmemory_bytes = 4000000000\n";
        s.tool("bound", &format!("binary = \"/bin/bash\"\n{limits}"));
    });
    let script = "ulimit -n; ulimit -c; ulimit -t; ulimit -u; ulimit -s; ulimit -v; \
                  head -c 5000 /dev/zero > big";
    let tty = json!({"fds":[0,1,2]});
    for more in [json!({"stdio":"buffered"}), json!({"stdio":"stream","tty":tty})] {
        let mut request = call(&server, script, more);
        request["tool"] = json!("bound");
        request.as_object_mut().expect("an object").remove("fds");
        let mut wire = server.connect();
        wire.send(&frame(request.to_string().as_bytes()));
        let (said, last) = if request["stdio"] == "buffered" {
            let last = wire.recv_json();
            (last["stdout"].as_str().expect("output").to_owned(), last)
        } else {
            let got = wire.recv_stream();
            (String::from_utf8_lossy(&got.stdout).replace('\r', ""), got.last)
        };
        assert!(said.starts_with("64\n0\n100\n5000\n1024\n3906250\n"), "{said}");
        assert_eq!(last["exit_code"], json!(128 + 25), "SIGXFSZ: {last}");
        assert_eq!(server.ws().join("big").metadata().expect("big").len(), 4096);
    }
}

#[test]
fn a_caller_without_a_variable_may_say_so() {
    let server = Server::start(|s| {
        s.tool("all", "binary = \"/bin/sh\"\n[env]\nforward = [\"*\"]\n");
        s.tool("some", "binary = \"/bin/sh\"\n[env]\nforward = [\"A\"]\n");
    });
    let ask = |tool: &str, env: Value| {
        let script = "echo \"${HOME-none} ${A-none}\"";
        let request = json!({"tool":tool,"args":["-c",script],"cwd":server.ws(),"env":env,"stdio":"buffered"});
        server.connect().call(&request)["stdout"].as_str().expect("output").to_owned()
    };
    assert_eq!(ask("all", json!(["HOME", "A=1", "A=2"])), "none 1\n");
    assert_eq!(ask("all", json!({"HOME":null,"A":""})), "none \n");
    let home = server.path("state/home/some");
    assert_eq!(ask("some", json!(["HOME", "A"])), format!("{} none\n", home.display()));
}
