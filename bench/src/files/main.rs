//! Files by calls with JSON, beside a Node server of the same tools and ripgrep: the same
//! work in one run, in turn.
//!
//!     files [quick] --node NODE_MODULES --at DIRECTORY [--write DIRECTORY]
//!           [--only TEXT] [--server PROGRAM]
//!
//! DIRECTORY gets a tree of 100,000 files, once. Prints the results as Markdown; with
//! --write puts them into DIRECTORY/RESULTS.md, between two markers, the rest of which
//! stays. scripts/bench.sh files installs the others first. --only: the rows of calls whose
//! name has that text, and no searches; --server: another program than the one that was
//! built beside.
//!
//! Owns: the measuring, and the section of RESULTS.md.
//!
//! - `floor`  the least that each work is, without a server
//! - `work`   what is compared, with what inputs
//! - `peers`  the servers
//! - `tree`   the files

mod floor;
mod peers;
mod tree;
mod work;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use peers::{Broker, Node, Peer};
use work::{ALL, SEARCHES, Work};

const BEGIN: &str = "<!-- scripts/bench.sh files writes from here -->";
const END: &str = "<!-- to here -->";
/// So many times as fast as the Node server it is to be.
const TARGET: f64 = 5.0;
/// How many calls are under way at once where throughput is measured.
const AT_ONCE: usize = 8;
/// Longer answers are those that were asked for.
const SHORT: usize = 4096;
/// How many calls one server has before it is the other's turn, one at a time.
const IN_TURN: usize = 16;
/// How often each is measured with calls at once, in turn, with as many calls as take the broker
/// so many seconds, roughly: that it begins, and has less to do at its end, is to be no part of it.
const TURNS: usize = 15;
const TURN: f64 = 0.05;
/// How many calls of the same work each does before it is measured, or as many as take about
/// that long: Node compiles what it does often.
const WARM: usize = 4000;
const WARM_WITHIN: Duration = Duration::from_secs(2);
/// Rounds of work that takes long: fewer than this are all that there is.
const FEW: usize = 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
type Call = fn(&Path, usize) -> (&'static str, Value);

fn main() {
    if let Err(error) = run() {
        eprintln!("bench files: {error}");
        std::process::exit(1);
    }
}

fn run() -> Outcome<()> {
    let (mut quick, mut given) = (false, HashMap::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "quick" => quick = true,
            "--node" | "--at" | "--write" | "--only" | "--server" => {
                let value = arguments.next().ok_or("a value is missing")?;
                given.insert(argument, PathBuf::from(value));
            }
            _ => return Err(format!("no such argument: {argument}").into()),
        }
    }
    let modules = given.get("--node").ok_or("--node NODE_MODULES is missing")?;
    let root = given.get("--at").ok_or("--at DIRECTORY is missing")?;
    tree::prepare(root)?;
    let root = fs::canonicalize(root)?;
    let server = match given.get("--server") {
        Some(server) => server.clone(),
        None => std::env::current_exe()?.with_file_name("tool-server"),
    };
    let mut broker = Broker::start(&server, &root)?;
    let mut node = Node::start(modules, &root)?;
    let mut text = String::new();
    let only = given.get("--only").map(|only| only.display().to_string());
    if only.is_none() {
        begin(&mut text, modules, quick)?;
    }
    let only = only.as_deref();
    let theirs =
        calls(&mut text, (&mut broker, &mut node), &root, quick, only.unwrap_or_default())?;
    drop(node);
    floors(&mut text, &theirs, &root, quick)?;
    if only.is_none() {
        searches(&mut text, &mut broker, &root, quick)?;
    }
    let Some(directory) = given.get("--write") else {
        print!("{text}");
        return Ok(());
    };
    let path = directory.join("RESULTS.md");
    let old = fs::read_to_string(&path)?;
    let (before, after) = match (old.split_once(BEGIN), old.split_once(END)) {
        (Some((before, _)), Some((_, after))) => (before.to_owned(), after),
        _ => (format!("{}\n\n", old.trim_end()), "\n"),
    };
    Ok(fs::write(path, format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))?)
}

fn begin(text: &mut String, modules: &Path, quick: bool) -> Outcome<()> {
    let quickly = if quick { " quick" } else { "" };
    writeln!(text, "## Files by calls with JSON\n\nWritten by `scripts/bench.sh files{quickly}`")?;
    let package = modules.join("@modelcontextprotocol/server-filesystem/package.json");
    let package: Value = serde_json::from_slice(&fs::read(package)?)?;
    writeln!(
        text,
        "on {}, {}; load before the run {}.\n",
        kernel()?,
        cores(),
        fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default()
    )?;
    writeln!(
        text,
        "`tool-server serve` over its socket, and `@modelcontextprotocol/server-filesystem` \
         {} on Node {} over its stdio; one connection each, in turn, when each has done {WARM} \
         calls of the same work, or as many as take about {} s. Medians of one call at a time, in \
         turns of {IN_TURN}; calls a second with {AT_ONCE} under way all the time, in turns of as many calls \
         as take the broker {} ms, and the median of the turns' ratios. What takes seconds is not \
         done before, and once with {AT_ONCE} under way. \
         The client makes its messages before and looks into the answers afterwards, of both. \
         Neither server waits for the disk (`agent.durable` is off, as it is by default).\n",
        package["version"].as_str().unwrap_or_default(),
        said("node", &["--version"])?,
        WARM_WITHIN.as_secs(),
        TURN * 1e3,
    )?;
    Ok(())
}

fn calls(
    text: &mut String,
    (broker, node): (&mut Broker, &mut Node),
    root: &Path,
    quick: bool,
    only: &str,
) -> Outcome<HashMap<&'static str, (f64, f64)>> {
    let mut of_node = HashMap::new();
    writeln!(
        text,
        "| work | broker | Node server | Node / broker | broker, calls/s | Node, calls/s | ratio \
         | {TARGET} times, one and {AT_ONCE} |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    )?;
    for Work { name, rounds, ours, theirs } in ALL.iter().filter(|work| work.name.contains(only)) {
        // Whole turns, so that each file is edited as often one way as the other.
        let whole = if quick { rounds.div_ceil(5) } else { *rounds };
        let some = if *rounds < FEW { *rounds } else { whole.next_multiple_of(2 * AT_ONCE) };
        let many = match *rounds < FEW {
            true => AT_ONCE,
            false => {
                warm(node, *theirs, root)?;
                // Each file is edited as often one way as the other.
                let many = (warm(broker, *ours, root)? * TURN) as usize;
                many.max(1).next_multiple_of(2 * AT_ONCE)
            }
        };
        let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
        let mut answer = Vec::new();
        // In turn, a few calls each: as a client makes them, one after the other.
        for calls in (0..some).collect::<Vec<_>>().chunks(IN_TURN) {
            for call in calls {
                our_times.push(one(broker, *ours, root, *call, &mut answer)?);
            }
            for call in calls {
                their_times.push(one(node, *theirs, root, *call, &mut answer)?);
            }
        }
        let (our_time, their_time) = (median(&mut our_times), median(&mut their_times));
        let turns = match *rounds < FEW {
            true => 1,
            false if quick => 5,
            false => TURNS,
        };
        let (mut our_rates, mut their_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..turns {
            let (our_rate, their_rate) =
                (rate(broker, *ours, root, many)?, rate(node, *theirs, root, many)?);
            our_rates.push(our_rate);
            their_rates.push(their_rate);
            ratios.push(our_rate / their_rate);
        }
        let (our_rate, their_rate) = (median(&mut our_rates), median(&mut their_rates));
        let ratio = median(&mut ratios);
        writeln!(
            text,
            "| {name} | {} | {} | {:.1} | {our_rate:.0} | {} | {ratio:.1} | {}, {} |",
            shown(our_time),
            shown(their_time),
            their_time / our_time,
            if their_rate < 10.0 { format!("{their_rate:.1}") } else { format!("{their_rate:.0}") },
            verdict(their_time / our_time),
            verdict(ratio)
        )?;
        of_node.insert(*name, (their_time, their_rate));
    }
    Ok(of_node)
}

/// What the same work takes without a server.
fn floors(
    text: &mut String,
    of_node: &HashMap<&str, (f64, f64)>,
    root: &Path,
    quick: bool,
) -> Outcome<()> {
    writeln!(
        text,
        "\nThe system calls of the same work alone, in one process, without a server: what is \
         {TARGET} times as fast as the Node server has to be above this, with its messages, \
         hand-overs and checks. The files are on {}. An edit by rename has the new file written \
         out before it takes the other's place, where ext4 is as it is by default.\n\n\
         | work | how | one | calls/s, {AT_ONCE} threads | Node server / one | calls/s / Node's |\n\
         | --- | --- | ---: | ---: | ---: | ---: |",
        file_system(root)?
    )?;
    for floor in floor::ALL {
        let Some((their_time, their_rate)) = of_node.get(floor.of) else { continue };
        let (one, rate) = floor.measure(root, if quick { 400 } else { 2000 })?;
        writeln!(
            text,
            "| {} | {} | {} | {rate:.0} | {:.1} | {:.1} |",
            floor.of,
            floor.how,
            shown(one),
            their_time / one,
            rate / their_rate
        )?;
    }
    Ok(())
}

/// What the files lie on, with its options.
fn file_system(root: &Path) -> Outcome<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let of = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.to_owned();
        let mut words = behind.split(' ');
        let (kind, _, options) = (words.next()?, words.next()?, words.next()?);
        Some((point, format!("{kind} ({options})")))
    };
    let above = mounts.lines().filter_map(of).filter(|(point, _)| root.starts_with(point));
    let nearest = above.max_by_key(|(point, _)| point.len());
    Ok(nearest.ok_or("no file system has the files")?.1)
}

fn verdict(ratio: f64) -> &'static str {
    if ratio >= TARGET { "met" } else { "**missed**" }
}

fn searches(text: &mut String, broker: &mut Broker, root: &Path, quick: bool) -> Outcome<()> {
    writeln!(
        text,
        "\nThe target was {TARGET} times as fast as the Node server in each row. Most of a short \
         call are its two hand-overs, from the client to a thread that reaches the workspace alone \
         and back; most of a long one are its SHA-256 and JSON. The broker's search leaves out what .gitignore does, the Node server's does not.\n\n\
         Searches of the tree of 100,000 files, beside {} as a process of its own (its start \
         is a part of its time, as a connection that is there is of the broker's); the target \
         was a ratio of 1.3:\n\n| search | rg | broker | broker / rg |\n| --- | ---: | ---: | ---: |",
        said("rg", &["--version"])?
    )?;
    let rounds = if quick { 3 } else { 11 };
    for (name, words, input) in SEARCHES {
        let mut input: Value = serde_json::from_str(input)?;
        input["path"] = json!(root.join("tree"));
        let message = broker.message(1, "search_files", &input)?;
        let (mut theirs, mut ours, mut answer) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let begun = Instant::now();
            let mut rg = Command::new("rg");
            rg.args(["--no-config", "--no-require-git"])
                .args(*words)
                .current_dir(root.join("tree"));
            rg.stdout(Stdio::null()).status()?;
            let their_time = begun.elapsed().as_secs_f64();
            let our_time = timed(broker, &message, &mut answer)?;
            // The first only warms the cache.
            if round > 0 {
                theirs.push(their_time);
                ours.push(our_time);
            }
        }
        let (theirs, ours) = (median(&mut theirs), median(&mut ours));
        writeln!(text, "| {name} | {} | {} | {:.2} |", shown(theirs), shown(ours), ours / theirs)?;
    }
    Ok(())
}

fn one(
    peer: &mut impl Peer,
    work: Call,
    root: &Path,
    call: usize,
    answer: &mut Vec<u8>,
) -> Outcome<f64> {
    let (tool, input) = work(root, call);
    let message = peer.message(1, tool, &input)?;
    timed(peer, &message, answer)
}

/// The answer goes where the one before was: the client's own new memory is not measured.
fn timed(peer: &mut impl Peer, message: &[u8], answer: &mut Vec<u8>) -> Outcome<f64> {
    answer.clear();
    let begun = Instant::now();
    peer.send(message)?;
    peer.answer(answer)?;
    let took = begun.elapsed().as_secs_f64();
    peer.check(answer)?;
    Ok(took)
}

/// Does the work until it is done as fast as it will be: how many calls a second that is.
fn warm(peer: &mut impl Peer, work: Call, root: &Path) -> Outcome<f64> {
    const SOME: usize = 25 * 2 * AT_ONCE;
    let (begun, mut done) = (Instant::now(), 0);
    loop {
        let rate = rate(peer, work, root, SOME)?;
        done += SOME;
        if done >= WARM || begun.elapsed() > WARM_WITHIN {
            return Ok(rate);
        }
    }
}

/// Calls a second, with so many under way: each answer is followed by the next call in its
/// place, and no file is in two places.
fn rate(peer: &mut impl Peer, work: Call, root: &Path, calls: usize) -> Outcome<f64> {
    let message = |call| {
        let (tool, input) = work(root, call);
        peer.message(u64::try_from(call % AT_ONCE)?, tool, &input)
    };
    let messages = (0..calls).map(message).collect::<Outcome<Vec<_>>>()?;
    let mut answers = vec![Vec::new(); AT_ONCE];
    let mut places = [0; AT_ONCE];
    let begun = Instant::now();
    for (place, message) in messages.iter().take(AT_ONCE).enumerate() {
        peer.send(message)?;
        places[place] = place;
    }
    let (mut answer, mut short) = (Vec::new(), Vec::new());
    for _ in 0..calls {
        answer.clear();
        let place = usize::try_from(peer.answer(&mut answer)?)?;
        places[place] += AT_ONCE;
        if let Some(message) = messages.get(places[place]) {
            peer.send(message)?;
        }
        // What says that something went wrong is short.
        if answer.len() < SHORT {
            short.push(answer.clone());
        }
        std::mem::swap(&mut answers[place], &mut answer);
    }
    let took = begun.elapsed().as_secs_f64();
    answers.iter().chain(&short).try_for_each(|answer| peer.check(answer))?;
    Ok(calls as f64 / took)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn shown(seconds: f64) -> String {
    match seconds {
        large if large >= 0.1 => format!("{:.0} ms", large * 1e3),
        middle if middle >= 0.001 => format!("{:.2} ms", middle * 1e3),
        small => format!("{:.0} µs", small * 1e6),
    }
}

fn said(program: &str, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program).args(arguments).output()?;
    Ok(String::from_utf8(output.stdout)?.lines().next().unwrap_or_default().to_owned())
}

fn kernel() -> Outcome<String> {
    Ok(format!("Linux {}", fs::read_to_string("/proc/sys/kernel/osrelease")?.trim()))
}

fn cores() -> String {
    std::thread::available_parallelism().map_or_else(|_| String::new(), |n| format!("{n} cores"))
}
