//! What a call costs: directly, through the broker and through its peers, the
//! same work in one run, in turn.
//!
//!     bench [quick] [--write DIRECTORY]
//!
//! Prints the results as Markdown; with --write makes DIRECTORY/RESULTS.md and
//! DIRECTORY/results.svg of them. scripts/bench.sh installs the peers first.
//!
//! Owns: what is measured, in which order, how often.

mod broker;
mod client;
mod forge;
mod gated;
mod machine;
mod memory;
mod peers;
mod picture;
mod report;
mod results;
mod rounds;
mod same;
mod site;
mod spawn;
mod stats;
mod storm;
mod targets;
mod trees;
mod way;

use broker::Stage;
use forge::Forge;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use results::{Column, Crowd, Results, Table};
use rounds::Bound;
use site::{Site, Work};
use way::{BROKER, DIRECT, Way};

/// How much of everything; the times hold the whole run below 25 minutes, a quick
/// one below 3, on a busy machine too.
struct Amount {
    singles: [(Work, Bound); 3],
    bulk: Bound,
    crowds: Bound,
    window: Duration,
    memory: usize,
    trees: Bound,
    gated: Bound,
}

const fn bound(rounds: usize, seconds: u64) -> Bound {
    Bound { rounds, time: Duration::from_secs(seconds) }
}

const FULL: Amount = Amount {
    singles: [
        (Work::True, bound(2_000, 160)),
        (Work::Version, bound(1_500, 160)),
        (Work::Status, bound(1_000, 160)),
    ],
    bulk: bound(21, 360),
    crowds: bound(5, 60),
    window: Duration::from_millis(1_000),
    memory: 10_000,
    trees: bound(2_000, 20),
    gated: bound(400, 60),
};

const QUICK: Amount = Amount {
    singles: [
        (Work::True, bound(300, 20)),
        (Work::Version, bound(200, 20)),
        (Work::Status, bound(150, 20)),
    ],
    bulk: bound(3, 25),
    crowds: bound(1, 10),
    window: Duration::from_millis(400),
    memory: 10_000,
    trees: bound(200, 5),
    gated: bound(100, 10),
};

const CGROUPS: &str = "tool broker, with cgroups";
/// The broker with rules in its definitions.
pub const RULES: &str = "tool broker, with rules";
/// The broker as it is meant to be: rules, and every tool confined.
pub const CONFINED: &str = "tool broker, confined";

fn main() {
    let (mut quick, mut write) = (false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "quick" => quick = true,
            "--write" => write = arguments.next().map(PathBuf::from),
            _ => {
                eprintln!("usage: bench [quick] [--write DIRECTORY]");
                std::process::exit(2);
            }
        }
    }
    let results = run(quick);
    match write {
        Some(directory) => save(&results, &directory),
        None => print!("{}", report::render(&results, "")),
    }
}

fn save(results: &Results, directory: &Path) {
    let path = directory.join("RESULTS.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, report::render(results, &old)).expect("RESULTS.md can be written");
    let picture = picture::render(results);
    std::fs::write(directory.join("results.svg"), picture).expect("results.svg can be written");
}

fn run(quick: bool) -> Results {
    let amount = if quick { QUICK } else { FULL };
    let progress = Progress(Instant::now());
    progress.say("how busy the machine is");
    let mut machine = machine::look();
    let site = Arc::new(Site::new());
    // While the bench has one thread.
    progress.say("the marks of a call, in a bare spawn");
    let trees = trees::measure(amount.trees);

    let forge = Forge::start(&site);
    let everything = forge.as_ref().map(Stage::Everything);

    let memory = {
        progress.say(&format!("the server's memory, {} calls", 2 * amount.memory));
        // Alone: what another server of the same program maps is not private.
        let stage = everything.unwrap_or(Stage::Rules);
        let fresh = broker::start(&site, BROKER, "fresh", "off", stage).expect("the server starts");
        memory::measure(&fresh, amount.memory)
    };
    progress.say("starting servers and peers");
    let everything = everything.map_err(Clone::clone);
    let (ways, columns, mut left_out) = start(&site, everything);
    let all: Vec<&Way> = ways.iter().collect();
    let plain: Vec<&Way> =
        all.iter().copied().filter(|way| ![CGROUPS, RULES, CONFINED].contains(&way.name)).collect();
    let two: Vec<&Way> =
        plain.iter().copied().filter(|way| [DIRECT, BROKER].contains(&way.name)).collect();
    let bulk: Vec<&Way> = plain.iter().copied().filter(|way| way.no_bulk.is_none()).collect();
    for way in &plain {
        left_out.extend(way.no_bulk.map(|why| (format!("{}, 1 GiB", way.name), why.to_owned())));
    }

    let mut singles = Vec::new();
    for (work, bound) in amount.singles {
        progress.say(&format!("{}, {} rounds, {} ways", work.name(), bound.rounds, all.len()));
        singles.push(Table { work, series: named(&all, rounds::rounds(&all, work, bound)) });
    }
    progress.say(&format!("1 GiB into a pipe, {} rounds, {} ways", amount.bulk.rounds, bulk.len()));
    let series = named(&bulk, rounds::rounds(&bulk, Work::Bulk, amount.bulk));
    singles.push(Table { work: Work::Bulk, series });

    let mut crowds = Vec::new();
    for (work, callers, who) in [
        (Work::True, 1, &plain),
        (Work::True, 8, &plain),
        (Work::True, 64, &plain),
        (Work::True, 256, &plain),
        (Work::Status, 8, &two),
        (Work::Status, 64, &two),
    ] {
        progress.say(&format!("{}, {callers} at once, {} ways", work.name(), who.len()));
        let storms = storm::storms(who, work, callers, amount.crowds, amount.window);
        crowds.push(Crowd { work, callers, storms: named(who, storms) });
    }

    let confined = all.iter().copied().find(|way| way.name == CONFINED);
    let mut gated = Vec::new();
    if let (Some(way), Ok(forge)) = (confined, &forge) {
        progress.say("calls that talk to a server");
        match gated::measure(&site, forge, way, amount.gated) {
            Ok(rows) => gated = rows,
            Err(why) => left_out.push(("calls that talk to a server".to_owned(), why)),
        }
    }

    progress.say("the client");
    let client =
        client::measure(&site, two.iter().find(|way| way.name == BROKER).expect("the broker"));
    drop(ways);
    machine.busy_after();
    progress.say("done");
    Results { quick, machine, columns, left_out, singles, crowds, client, memory, trees, gated }
}

type LeftOut = Vec<(String, String)>;

/// Everything that can be measured, what is to be said of it, and what cannot.
fn start(
    site: &Arc<Site>,
    everything: Result<Stage<'_>, String>,
) -> (Vec<Way>, Vec<Column>, LeftOut) {
    let direct = way::direct(site);
    let mut started = vec![(BROKER, broker::start(site, BROKER, "broker", "off", Stage::Bare))];
    let rules = broker::start(site, RULES, "rules", "off", Stage::Rules);
    started.push((RULES, rules));
    let confined =
        everything.and_then(|stage| broker::start(site, CONFINED, "confined", "off", stage));
    started.push((CONFINED, confined));
    let cgroups = broker::start(site, CGROUPS, "cgroups", "auto", Stage::Bare);
    started.push((CGROUPS, cgroups));
    started.extend(peers::start(site));

    let mut left_out = LeftOut::new();
    let mut ways = Vec::new();
    let mut columns = Vec::new();
    let column = |way: &Way, more| Column {
        name: way.name,
        how: way.how.clone(),
        exit_code: way.exit_code,
        more,
    };
    columns.push(column(&direct, Vec::new()));
    for (name, way) in started {
        match way.and_then(|way| Ok((same::look(site, &way, &direct)?, way))) {
            Ok((more, way)) => {
                columns.push(column(&way, more));
                ways.push(way);
            }
            Err(why) => {
                eprintln!("bench: left out: {name}: {why}");
                assert!(name != BROKER, "without the broker there is nothing to measure");
                left_out.push((name.to_owned(), why));
            }
        }
    }
    ways.insert(0, direct);
    (ways, columns, left_out)
}

fn named<T>(ways: &[&Way], found: Vec<T>) -> Vec<(&'static str, T)> {
    ways.iter().map(|way| way.name).zip(found).collect()
}

/// What is going on, for whoever waits.
struct Progress(Instant);

impl Progress {
    fn say(&self, what: &str) {
        eprintln!("bench: {:4} s  {what}", self.0.elapsed().as_secs());
    }
}
