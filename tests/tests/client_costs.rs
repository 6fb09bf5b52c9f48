//! What a call costs on the caller's side: the size of the client, its system
//! calls, the pages that it touches. Budgets, not measurements: those are in bench/.

use std::fs;
use std::path::Path;
use std::process::Command;

use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Server, run, skipped};

/// The release build; the debug build has no optimization across crates.
const SIZE: u64 = if cfg!(debug_assertions) { 40 * 1024 } else { 32 * 1024 };

/// From execve to exit_group, both counted.
const SYSTEM_CALLS: usize = 16;

const PAGE_FAULTS: u64 = 6;

/// A machine that is busy with other tests may take the client's first 20 ms
/// away; then it does more. The best of these counts.
const TRIES: usize = 20;

fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// A plain call, its client started by `wrapper`.
fn plain(server: &Server, wrapper: &[&str]) -> Command {
    let client = server.client("true");
    let (program, arguments) = wrapper.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(arguments).arg(client.get_program()).current_dir(server.ws());
    for (name, value) in client.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn server() -> Server {
    Server::start(|s| s.tool("true", "binary = \"/bin/true\"\ndefault = \"allow\"\n"))
}

#[test]
fn the_client_is_small() {
    let size = fs::metadata(&binaries().client).expect("the client").len();
    assert!(size <= SIZE, "{size} bytes of {SIZE}");
}

#[test]
fn a_plain_call_makes_few_system_calls() {
    let test = "a_plain_call_makes_few_system_calls";
    if !installed("strace") {
        return skipped(test, "strace is not installed");
    }
    let server = server();
    let trace = server.path("trace");
    let wrapper = ["strace", "-qq", "-o", trace.to_str().expect("UTF-8")];
    let mut best = (usize::MAX, String::new());
    for _ in 0..TRIES {
        let outcome = run(&mut plain(&server, &wrapper), b"");
        if outcome.code() != Some(0) {
            return skipped(test, &format!("strace does not work here: {}", outcome.err()));
        }
        let text = fs::read_to_string(&trace).expect("the trace");
        let calls = text.lines().filter(|line| !line.starts_with(['+', '-']) && !is_extra(line));
        let calls = calls.count();
        if calls < best.0 {
            best = (calls, text);
        }
        if best.0 <= SYSTEM_CALLS {
            break;
        }
    }
    assert!(best.0 > 5, "a trace of nothing:\n{}", best.1);
    assert!(best.0 <= SYSTEM_CALLS, "{} system calls:\n{}", best.0, best.1);
}

/// Each descriptor is asked whether it is a terminal. Those over 2 are whatever
/// the tests were started with.
fn is_extra(line: &str) -> bool {
    let asked = line.strip_prefix("ioctl(").and_then(|rest| rest.split(',').next());
    asked.and_then(|fd| fd.parse::<u32>().ok()).is_some_and(|fd| fd > 2)
}

#[test]
fn a_plain_call_touches_few_pages() {
    let test = "a_plain_call_touches_few_pages";
    if !installed("perf") {
        return skipped(test, "perf is not installed");
    }
    let server = server();
    let counts = server.path("counts");
    let file = counts.to_str().expect("UTF-8");
    let wrapper = ["perf", "stat", "-x", ",", "-e", "page-faults:u", "-o", file];
    let mut best = u64::MAX;
    for _ in 0..TRIES {
        let outcome = run(&mut plain(&server, &wrapper), b"");
        let Some(count) = page_faults(&counts).filter(|_| outcome.code() == Some(0)) else {
            return skipped(test, &format!("perf does not work here: {}", outcome.err()));
        };
        best = best.min(count);
        if best <= PAGE_FAULTS {
            break;
        }
    }
    assert!(best > 0 && best <= PAGE_FAULTS, "{best} page faults");
}

/// What perf wrote: `count,,page-faults:u,…`.
fn page_faults(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find(|line| line.contains("page-faults"))?.split(',').next()?.parse().ok()
}
