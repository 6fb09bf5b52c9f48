//! What the project wants to cost, line by line, and whether a run met it. This
//! is said, never asserted: a busy machine is not a fault of the code.

use crate::gated::What;
use crate::peers::{PYTHON, S6, SUDO};
use crate::results::Results;
use crate::site::Work;
use crate::stats::median;
use crate::way::{BROKER, DIRECT};
use crate::{CONFINED, RULES};

pub struct Line {
    pub what: String,
    pub target: String,
    pub stretch: String,
    pub measured: String,
    pub verdict: &'static str,
}

#[derive(Clone, Copy)]
enum Want {
    AtMost(f64, f64),
    AtLeast(f64, f64),
}

pub fn lines(results: &Results) -> Vec<Line> {
    let mut lines = vec![single(results, Work::True, 1.5, 1.3)];
    let ruled = results.ratio(Work::True, RULES, DIRECT);
    lines.push(line(
        "`/bin/true`, of direct, with rules and audit".into(),
        Want::AtMost(1.6, 1.35),
        ruled.map(|ratio| (ratio.value, ratio.to_string())),
    ));
    for (work, target, stretch) in [(Work::True, 1.9, 1.5), (Work::Status, 1.25, 1.10)] {
        let confined = results.ratio(work, CONFINED, DIRECT);
        lines.push(line(
            format!("`{}`, of direct, with rules, audit and the sandbox", work.name()),
            Want::AtMost(target, stretch),
            confined.map(|ratio| (ratio.value, ratio.to_string())),
        ));
    }
    for what in [What::Fetch, What::FetchNew] {
        lines.push(line(
            format!("{}, through the gate, of direct", what.name()),
            Want::AtMost(1.5, 1.5),
            results.gated(what).map(|ratio| (ratio.value, ratio.to_string())),
        ));
    }
    lines.push(single(results, Work::Version, 1.15, 1.08));
    lines.push(single(results, Work::Status, 1.10, 1.06));
    for (peer, target, stretch) in [(S6, 4.0, 5.0), (SUDO, 6.0, 8.0), (PYTHON, 20.0, 26.0)] {
        let ratio = results.ratio(Work::True, peer, BROKER);
        lines.push(line(
            format!("`/bin/true`, times as fast as {peer}"),
            Want::AtLeast(target, stretch),
            ratio.map(|ratio| (ratio.value, ratio.to_string())),
        ));
    }
    let bulk = results.ratio(Work::Bulk, DIRECT, BROKER);
    lines.push(line(
        "bulk output into a pipe, of direct: lower bound of the interval".into(),
        Want::AtLeast(0.85, 0.95),
        bulk.map(|ratio| (ratio.low, ratio.to_string())),
    ));
    lines.extend(crowds(results));
    lines.extend(sizes(results));
    lines
}

fn single(results: &Results, work: Work, target: f64, stretch: f64) -> Line {
    let ratio = results.ratio(work, BROKER, DIRECT);
    line(
        format!("`{}`, of direct", work.name()),
        Want::AtMost(target, stretch),
        ratio.map(|ratio| (ratio.value, ratio.to_string())),
    )
}

fn crowds(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for (work, target, stretch) in [(Work::True, 0.65, 0.72), (Work::Status, 0.90, 0.95)] {
        for callers in [8, 64] {
            let share = results.share(work, callers);
            lines.push(line(
                format!("calls a second, {callers} callers, `{}`, of direct", work.name()),
                Want::AtLeast(target, stretch),
                share.map(|share| (share, format!("{share:.2}"))),
            ));
        }
    }
    let rate = |callers| Some(median(&results.storm(Work::True, callers, BROKER)?.rates));
    let share = rate(256).zip(rate(8)).map(|(many, few)| many / few);
    lines.push(line(
        "calls a second, 256 callers, of those with 8".into(),
        Want::AtLeast(0.95, 1.0),
        share.map(|share| (share, format!("{share:.2}"))),
    ));
    let lost = results.lost();
    lines.push(line(
        "calls lost, all of these".into(),
        Want::AtMost(0.0, 0.0),
        Some((lost as f64, lost.to_string())),
    ));
    lines
}

fn sizes(results: &Results) -> Vec<Line> {
    let (client, memory) = (&results.client, &results.memory);
    let kib = client.bytes as f64 / 1024.0;
    let number = |value: f64| Some((value, format!("{value:.0}")));
    let idle = memory.idle.map(|kib| kib as f64 / 1024.0);
    let growth = memory.growth();
    vec![
        line("client, KiB".into(), Want::AtMost(32.0, 12.0), Some((kib, format!("{kib:.1}")))),
        line("client, page faults".into(), Want::AtMost(10.0, 6.0), number(client.faults)),
        line(
            "client, system calls".into(),
            Want::AtMost(16.0, 12.0),
            client.calls.as_ref().ok().and_then(|calls| number(*calls as f64)),
        ),
        line(
            "server idle, private MiB".into(),
            Want::AtMost(6.0, 4.0),
            idle.map(|mib| (mib, format!("{mib:.1}"))),
        ),
        line(
            "server, growth from 10,000 to 20,000 calls, KiB".into(),
            Want::AtMost(64.0, 0.0),
            growth.map(|kib| (kib as f64, kib.to_string())),
        ),
    ]
}

fn line(what: String, want: Want, measured: Option<(f64, String)>) -> Line {
    let (sign, target, stretch) = match want {
        Want::AtMost(target, stretch) => ('≤', target, stretch),
        Want::AtLeast(target, stretch) => ('≥', target, stretch),
    };
    let verdict = match (&measured, want) {
        (None, _) => "not measured",
        (Some((value, _)), Want::AtMost(target, stretch)) => verdict(-value, -target, -stretch),
        (Some((value, _)), Want::AtLeast(target, stretch)) => verdict(*value, target, stretch),
    };
    let measured = measured.map_or_else(|| "–".to_owned(), |(_, text)| text);
    let (target, stretch) = (format!("{sign} {target}"), format!("{sign} {stretch}"));
    Line { what, target, stretch, measured, verdict }
}

fn verdict(value: f64, target: f64, stretch: f64) -> &'static str {
    if value >= stretch {
        "met, and the stretch"
    } else if value >= target {
        "met"
    } else {
        "**missed**"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_met() {
        let of = |value| line(String::new(), Want::AtMost(1.5, 1.3), Some((value, String::new())));
        assert_eq!(of(1.2).verdict, "met, and the stretch");
        assert_eq!(of(1.5).verdict, "met");
        assert_eq!(of(1.6).verdict, "**missed**");
        let least = line(String::new(), Want::AtLeast(0.85, 0.95), Some((0.9, String::new())));
        assert_eq!(least.verdict, "met");
        assert_eq!(line(String::new(), Want::AtLeast(1.0, 2.0), None).verdict, "not measured");
    }
}
