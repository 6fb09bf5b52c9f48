//! An ordinary day: each line of tests/rules/day is run by the shipped rules,
//! without them, and without a broker, and comes out the same.

use tool_broker_tests::rules::stand::Result;
use tool_broker_tests::rules::table::Line;
use tool_broker_tests::rules::{Day, Seen, Stand, Way};
use tool_broker_tests::skipped;

/// What was asked, sorted.
fn meant(result: &Result) -> Vec<(String, String)> {
    let mut all: Vec<_> = result.seen.iter().map(Seen::meant).collect();
    all.sort();
    all
}

/// What differs between two ways, by name and in words.
fn differences(
    line: &Line,
    compare: &[String],
    one: &Result,
    other: &Result,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for what in line.compare.as_deref().unwrap_or(compare) {
        let same = match what.as_str() {
            "exit" => one.outcome.status == other.outcome.status,
            "stdout" => one.outcome.stdout == other.outcome.stdout,
            "stderr" => one.outcome.stderr == other.outcome.stderr,
            "requests" => meant(one) == meant(other),
            "refs" | "remote" | "head" | "status" | "config" | "files" => {
                one.state.get(what.as_str()) == other.state.get(what.as_str())
            }
            other => panic!("nobody compares {other}"),
        };
        if !same {
            let show = |result: &Result| match what.as_str() {
                "exit" | "stdout" | "stderr" => format!("{:?}", result.outcome),
                "requests" => format!("{:?}", result.seen),
                what => format!("{:?}", result.state.get(what)),
            };
            found.push((what.clone(), format!("{}\n    and {}", show(one), show(other))));
        }
    }
    found
}

#[track_caller]
fn day(tool: &str, least: usize) {
    let day = Day::of(tool);
    assert!(day.line.len() >= least, "{} lines", day.line.len());
    let test = format!("an_ordinary_day_with_{tool}");
    let Some(mut stand) = Stand::start(tool, &test, &day.answer) else { return };
    let known = day.version.as_ref().is_none_or(|version| stand.version().starts_with(version));
    if !known {
        skipped(&test, &format!("exit statuses and requests: not {:?}", day.version));
    }
    let mut wrong = Vec::new();
    for line in &day.line {
        let mut ways = Vec::new();
        for way in [Way::Rules, Way::NoRules, Way::Native] {
            stand.prepare(&day.prepare, &line.state);
            ways.push(stand.run(way, &day.directory, &line.call));
        }
        let [ruled, free, native] = ways.as_slice() else { unreachable!() };
        let mut complain = |what: String| wrong.push(format!("{}: {what}", line.call));
        let mut same = line.differs.clone();
        for (other, way) in [(free, "without rules"), (native, "natively")] {
            for (name, what) in differences(line, &day.compare, ruled, other) {
                same.remove(&name);
                if !line.differs.contains_key(&name) {
                    complain(format!("{way}: {name}: {what}"));
                }
            }
        }
        for (name, why) in same {
            complain(format!("{name} does not differ: {why}"));
        }
        let said = ruled.outcome.out() + &ruled.outcome.err();
        if said.contains("[rule ") {
            complain(format!("a rule stood in its way: {said}"));
        }
        if !known {
            continue;
        }
        if ruled.outcome.code() != Some(line.exit) {
            complain(format!("is to exit {}: {:?}", line.exit, ruled.outcome));
        }
        if line.shows.as_ref().is_some_and(|part| !said.contains(part)) {
            complain(format!("is to show {:?}: {said}", line.shows));
        }
        for request in &line.asks {
            if !ruled.seen.iter().any(|seen| seen.line == *request) {
                complain(format!("is to ask {request}: {:?}", ruled.seen));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), day.line.len(), wrong.join("\n"));
}

#[test]
fn an_ordinary_day_with_git() {
    day("git", 60);
}

#[test]
fn an_ordinary_day_with_gh() {
    day("gh", 25);
}

#[test]
fn an_ordinary_day_with_npm() {
    day("npm", 15);
}

#[test]
fn an_ordinary_day_with_curl() {
    day("curl", 10);
}
