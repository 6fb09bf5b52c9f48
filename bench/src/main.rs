//! What a call costs: each measurement beside the same work done directly, in
//! one run, interleaved, so that a noisy machine is noisy for both.
//!
//!     cargo build --release && target/release/bench [quick]
//!
//! Prints medians, ratios and the 95 % interval of the ratio (bootstrap).

mod broker;
mod trees;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use broker::Broker;

fn main() {
    let quick = std::env::args().nth(1).is_some_and(|word| word == "quick");
    let (rounds, bulk) = if quick { (200, 3) } else { (3_000, 21) };
    println!("| what | direct | through the broker | ratio of medians (95 %) |");
    println!("| --- | --- | --- | --- |");
    for (name, cgroup) in [("", "off"), (", with cgroups", "auto")] {
        let broker = Broker::start(cgroup);
        for (what, tool, args) in [
            ("/bin/true", "true", &[][..]),
            ("git --version", "git", &["--version"][..]),
            ("git status", "git", &["status", "--short"][..]),
        ] {
            let rounds = if tool == "true" { rounds } else { rounds / 3 };
            let pairs =
                pairs(rounds, || direct(&broker, tool, args), || called(&broker, tool, args));
            row(&format!("`{what}`{name}"), &pairs, "µs", 1e6);
        }
        if cgroup == "off" {
            let size = 1u64 << 30;
            let script = format!("head -c {size} /dev/zero");
            let pairs = pairs(
                bulk,
                || output(Command::new("/bin/sh").args(["-c", &script]), size),
                || output(broker.call("sh").args(["-c", &script]), size),
            );
            row("1 GiB of output into a pipe", &pairs, "ms", 1e3);
            for at_once in [8, 64] {
                let direct = storm(at_once, rounds, &|| broker.directly("true", &[]));
                let called = storm(at_once, rounds, &|| broker.call("true"));
                println!(
                    "| calls a second, {at_once} at once, `/bin/true` | {direct:.0} | {called:.0} | {:.2} |",
                    called / direct
                );
            }
            println!("| server, private memory | | {} KiB | |", broker.private_kib());
        }
    }
    trees::measure(rounds);
}

/// How long each of a pair took, in seconds.
type Pairs = Vec<(f64, f64)>;

fn pairs(
    rounds: usize,
    mut one: impl FnMut() -> Duration,
    mut other: impl FnMut() -> Duration,
) -> Pairs {
    for _ in 0..rounds.min(20) {
        one();
        other();
    }
    (0..rounds)
        .map(|round| {
            // Who goes first changes: neither always finds the other's cache.
            if round % 2 == 0 {
                let first = one().as_secs_f64();
                (first, other().as_secs_f64())
            } else {
                let second = other().as_secs_f64();
                (one().as_secs_f64(), second)
            }
        })
        .collect()
}

fn direct(broker: &Broker, tool: &str, args: &[&str]) -> Duration {
    timed(&mut broker.directly(tool, args))
}

fn called(broker: &Broker, tool: &str, args: &[&str]) -> Duration {
    timed(broker.call(tool).args(args))
}

fn timed(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the command starts");
    let took = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    took
}

fn output(command: &mut Command, size: u64) -> Duration {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut pipe = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 1 << 17];
    let mut seen = 0u64;
    loop {
        match pipe.read(&mut buffer).expect("reading") {
            0 => break,
            bytes => seen += bytes as u64,
        }
    }
    assert!(child.wait().expect("it ends").success());
    assert_eq!(seen, size);
    start.elapsed()
}

fn storm(at_once: usize, rounds: usize, make: &(dyn Fn() -> Command + Sync)) -> f64 {
    let each = (rounds * 2 / at_once).max(2);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                (0..each).for_each(|_| {
                    timed(&mut make());
                })
            });
        }
    });
    (each * at_once) as f64 / start.elapsed().as_secs_f64()
}

fn row(what: &str, pairs: &Pairs, unit: &str, scale: f64) {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (one, two) = (median(first), median(second));
    let (low, high) = interval(pairs);
    println!(
        "| {what} | {:.0} {unit} | {:.0} {unit} | {:.2} ({low:.2} to {high:.2}) |",
        one * scale,
        two * scale,
        two / one
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The 95 % interval of the ratio of medians, by resampling the pairs.
fn interval(pairs: &Pairs) -> (f64, f64) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut ratios: Vec<f64> = (0..400)
        .map(|_| {
            let sample: Pairs = (0..pairs.len()).map(|_| pairs[random(pairs.len())]).collect();
            let (first, second): (Vec<f64>, Vec<f64>) = sample.into_iter().unzip();
            median(second) / median(first)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[10], ratios[389])
}

/// The program of this workspace of that name, built for release.
fn built(name: &str) -> std::path::PathBuf {
    let own = std::env::current_exe().expect("a path");
    let path = own.parent().unwrap_or(Path::new(".")).join(name);
    assert!(path.is_file(), "{} is not built: run cargo build --release", path.display());
    path
}
