//! To a script, a tool through the broker is the tool: exit, output, input,
//! arguments, directory, umask.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::resource::{Resource, getrlimit};
use tool_broker_tests::twin::Twin;
use tool_broker_tests::{Server, run, spawn, sys};

/// A server with small tools, and their twins.
fn shell() -> Server {
    Server::start(|s| {
        s.tools(&[("cat", "/bin/cat"), ("true", "/bin/true"), ("false", "/bin/false")]);
        s.tools(&[("printf", "/usr/bin/printf"), ("yes", "/usr/bin/yes")]);
    })
}

fn sh(server: &Server) -> Twin<'_> {
    Twin::new(server, "sh", "/bin/sh")
}

fn script(command: &mut Command, text: &str) {
    command.arg("-c").arg(text);
}

#[test]
fn exit_statuses_are_the_tools_own() {
    let server = shell();
    for status in [0, 1, 2, 3, 64, 124, 125, 126, 127, 128, 130, 137, 254, 255] {
        let outcome = sh(&server).same(|c| script(c, &format!("exit {status}")));
        assert_eq!(outcome.code(), Some(status));
    }
    assert_eq!(Twin::new(&server, "true", "/bin/true").same(|_| ()).code(), Some(0));
    assert_eq!(Twin::new(&server, "false", "/bin/false").same(|_| ()).code(), Some(1));
}

#[test]
fn a_tool_that_a_signal_ends_takes_the_client_with_it_by_the_same_signal() {
    let server = shell();
    for (name, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("USR1", 10), ("USR2", 12)] {
        let outcome = sh(&server).same(|c| script(c, &format!("kill -{name} $$")));
        assert_eq!(outcome.signal(), Some(number), "{name}");
    }
    for (name, number) in [("PIPE", 13), ("ALRM", 14), ("TERM", 15), ("XCPU", 24), ("XFSZ", 25)] {
        let outcome = sh(&server).same(|c| script(c, &format!("echo before; kill -{name} $$")));
        assert_eq!(outcome.signal(), Some(number), "{name}");
        assert_eq!(outcome.out(), "before\n");
    }
}

#[test]
fn the_client_leaves_no_core_file_of_its_own() {
    let server = shell();
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).expect("getrlimit");
    for (name, number) in [("QUIT", 3), ("ILL", 4), ("ABRT", 6), ("FPE", 8), ("SEGV", 11)] {
        // The tool itself must leave none either, so that what we find is the client's.
        let mut command = server.client("sh");
        script(&mut command, &format!("ulimit -c 0; kill -{name} $$"));
        sys::limit(&mut command, Resource::RLIMIT_CORE, hard, hard);
        let outcome = run(&mut command, b"");
        assert_eq!(outcome.signal(), Some(number), "{name}: {outcome:?}");
        assert!(!outcome.status.core_dumped(), "{name}");
    }
    let left: Vec<_> = fs::read_dir(server.ws()).expect("ws").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn stdout_and_stderr_stay_apart() {
    let server = shell();
    let outcome = sh(&server).same(|c| script(c, "echo one; echo two >&2; echo three; exit 4"));
    assert_eq!((outcome.out(), outcome.err()), ("one\nthree\n".into(), "two\n".into()));
}

#[test]
fn the_tools_own_messages_are_the_same_its_name_in_them_too() {
    let server = shell();
    let outcome = sh(&server).same(|c| script(c, "no-such-command"));
    assert_eq!(outcome.code(), Some(127));
    let outcome = Twin::new(&server, "cat", "/bin/cat").same(|c| {
        c.arg("no such file");
    });
    assert_eq!(outcome.code(), Some(1));
}

#[test]
fn every_byte_value_passes_through_both_outputs() {
    let server = shell();
    let every: Vec<u8> = (0..=255).collect();
    let outcome = Twin::new(&server, "cat", "/bin/cat").same_with(&every, |_| ());
    assert_eq!(outcome.stdout, every);
    let outcome = sh(&server).same_with(&every, |c| script(c, "cat >&2"));
    assert_eq!((outcome.stdout.len(), outcome.stderr), (0, every));
}

#[test]
fn a_mebibyte_goes_in_and_comes_out_whole() {
    let server = shell();
    let large: Vec<u8> =
        (0..1u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let outcome = Twin::new(&server, "cat", "/bin/cat").same_with(&large, |_| ());
    assert!(outcome.stdout == large, "{} bytes of {}", outcome.stdout.len(), large.len());
    let outcome = sh(&server).same_with(&large, |c| script(c, "cksum; cat; wc -c >&2"));
    assert_eq!(outcome.err(), "0\n");
}

#[test]
fn an_empty_stdin_is_an_empty_stdin() {
    let server = shell();
    let mut command = server.client("cat");
    let outcome = spawn(command.stdin(Stdio::null())).wait();
    assert_eq!((outcome.code(), outcome.stdout.len()), (Some(0), 0), "{outcome:?}");
}

#[test]
fn closed_descriptors_are_closed_in_the_tool_never_the_clients_socket() {
    let server = shell();
    for closed in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 1, 2]] {
        let mut command = server.client("sh");
        // Builtins alone: a child's pipe would take a number that is free.
        let text = "for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && set -- \"$@\" $n; done; \
                    echo \"$@\" 9> seen >&9; exit 9";
        script(&mut command, text);
        closed.iter().for_each(|fd| sys::close(&mut command, *fd));
        let outcome = run(&mut command, b"in");
        assert_eq!(outcome.code(), Some(9), "closed {closed:?}: {outcome:?}");
        let seen = fs::read_to_string(server.ws().join("seen")).expect("seen");
        let open = (0..3).filter(|n| !closed.contains(n)).map(|n| n.to_string());
        assert_eq!(seen.trim_end(), open.collect::<Vec<_>>().join(" "), "closed {closed:?}");
        fs::remove_file(server.ws().join("seen")).expect("rm");
    }
}

#[test]
fn a_stdin_that_stays_open_does_not_hold_up_a_tool_that_ended() {
    let server = shell();
    let mut command = server.client("sh");
    script(&mut command, "echo early; exit 4");
    let mut running = spawn(command.stdin(Stdio::piped()));
    let stdin = running.child.stdin.take().expect("piped");
    let outcome = running.wait();
    drop(stdin);
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(4), "early\n"), "{outcome:?}");
}

#[test]
fn a_tool_takes_no_more_of_a_shared_stdin_than_it_reads() {
    let server = shell();
    let outcome = sh(&server).same_with(b"one\ntwo\nthree\n", |c| {
        script(c, "read a; echo \"first $a\"");
    });
    assert_eq!(outcome.out(), "first one\n");
    // The rest is still there for whoever has the same pipe.
    let mut outer = Command::new("/bin/sh");
    outer.arg("-c").arg("\"$TOOL\" -c 'read a; echo \"first $a\"'; cat");
    outer.env("TOOL", server.path("bin/sh")).env("TOOL_SOCKET", server.socket());
    outer.current_dir(server.ws());
    let outcome = run(&mut outer, b"one\ntwo\nthree\n");
    assert_eq!(outcome.success(), "first one\ntwo\nthree\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_tool_as_it_would_natively() {
    let server = shell();
    let mut native = Command::new("/usr/bin/yes");
    let mut broker = server.client("yes");
    for command in [&mut native, &mut broker] {
        sys::die_with_parent(command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("yes");
        let mut some = [0; 4];
        let mut stdout = child.stdout.take().expect("piped");
        std::io::Read::read_exact(&mut stdout, &mut some).expect("some output");
        assert_eq!(&some, b"y\ny\n");
        drop(stdout);
        let status =
            tool_broker_tests::eventually_some("yes ends", || child.try_wait().expect("wait"));
        assert_eq!(status.signal(), Some(13), "{command:?}");
    }
}

#[test]
fn arguments_arrive_as_they_are() {
    let server = shell();
    let printf = Twin::new(&server, "printf", "/usr/bin/printf");
    let every: Vec<u8> = (1..=255).collect();
    let hard: [&[u8]; 14] = [
        b"",
        b" ",
        b"a b",
        b"line\nbreak\n",
        b"'single' \"double\" `back` $(sub) $HOME \\",
        b"*",
        b"-",
        b"--",
        b"--version",
        b"--help",
        "ü 漢字 🦀".as_bytes(),
        b"\xff\xfe non-UTF-8",
        b"\xed\xa0\x80 a surrogate",
        &every,
    ];
    let outcome = printf.same(|c| {
        c.arg("[%s]\\0").args(hard.iter().map(|bytes| std::ffi::OsStr::from_bytes(bytes)));
    });
    let wanted: Vec<u8> = hard.iter().flat_map(|a| [b"[", *a, b"]\0"].concat()).collect();
    assert_eq!(outcome.stdout, wanted);
    // None at all, and flags that the client has of its own under its own name.
    assert_eq!(printf.same(|_| ()).code(), Some(1));
    let outcome = printf.same(|c| {
        c.arg("--version");
    });
    assert!(outcome.success().starts_with("printf (GNU coreutils)"));
}

#[test]
fn arguments_may_be_as_long_as_the_kernel_takes() {
    let server = shell();
    let printf = Twin::new(&server, "printf", "/usr/bin/printf");
    let longest = "x".repeat(131_071);
    assert_eq!(
        printf
            .same(|c| {
                c.args(["%s", &longest]);
            })
            .stdout
            .len(),
        131_071
    );
    // Not UTF-8: a third longer on the wire.
    let binary = OsString::from_vec(vec![0xff; 131_071]);
    assert_eq!(
        printf
            .same(|c| {
                c.arg("%s").arg(&binary);
            })
            .stdout,
        binary.as_bytes()
    );
    let eleven = vec![longest.clone(); 11];
    assert_eq!(
        printf
            .same(|c| {
                c.arg("%s").args(&eleven);
            })
            .stdout
            .len(),
        11 * 131_071
    );
    let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let outcome = printf.same(|c| {
        c.arg("%s\\n").args(&many);
    });
    assert_eq!(outcome.out().lines().count(), many.len());
    assert!(outcome.out().ends_with("\n99999\n"));
}

#[test]
fn the_umask_is_the_callers() {
    let server = shell();
    for mask in [0, 0o022, 0o027, 0o077, 0o177] {
        let outcome = sh(&server).same_in(
            |_| (),
            |c| {
                script(c, "umask; touch file; mkdir dir; stat -c %a file dir");
                sys::umask(c, mask);
            },
        );
        let wanted = format!("{mask:04o}\n{:o}\n{:o}\n", 0o666 & !mask, 0o777 & !mask);
        assert_eq!(outcome.success(), wanted);
    }
}

#[test]
fn the_directory_is_the_callers_whatever_its_name() {
    let server = shell();
    let names: [&[u8]; 7] = [
        b"sub/deeper",
        b"with space",
        b"new\nline",
        b"\xff\xfe",
        "ü漢🦀".as_bytes(),
        b"-n",
        b"%s'\"\\",
    ];
    for name in names {
        let dir: PathBuf = server.ws().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(&dir).expect("mkdir");
        let outcome = sh(&server).same(|c| {
            script(c, "pwd -P; /bin/pwd; readlink -n /proc/$$/cwd");
            c.current_dir(&dir);
        });
        let path = fs::canonicalize(&dir).expect("canonical");
        assert!(outcome.stdout.starts_with(path.as_os_str().as_bytes()), "{outcome:?}");
    }
}

#[test]
fn tool_client_with_a_tools_name_is_that_tool() {
    let server = shell();
    let outcome =
        run(server.client("tool-client").args(["sh", "-c", "echo $0 $1; exit 5", "a", "b"]), b"");
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(5), "a b\n"), "{outcome:?}");
    let health = run(server.client("tool-client").arg("--health"), b"");
    assert_eq!(health.code(), Some(0), "{health:?}");
    let version = run(server.client("tool-client").arg("--version"), b"").success();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let nothing = run(&mut server.client("tool-client"), b"");
    nothing.refused(125);
}
