//! The figures of a server: its OpenMetrics text, read strictly.
//!
//! What a scraper would pass over or guess at is a failure here: a sample out of
//! its family, a label set that is there twice, buckets that do not add up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::Server;

/// A text that was read, and is right.
#[derive(Debug)]
pub struct Exposition {
    /// The type of each family, by its name.
    pub families: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

type Labels = BTreeMap<String, String>;

/// What one family's lines have said so far.
#[derive(Debug, Default)]
struct Family {
    name: String,
    kind: String,
    help: bool,
    unit: bool,
    samples: bool,
}

impl Exposition {
    /// What the server's control socket gives.
    #[track_caller]
    pub fn of(server: &Server) -> Exposition {
        let mut wire = server.control();
        wire.send_json(&json!({"op":"metrics"}));
        let (mut text, mut ended) = (Vec::new(), false);
        loop {
            let payload = wire.recv_frame().expect("an answer");
            match payload.split_first() {
                Some((1, chunk)) => {
                    assert!(!ended, "a chunk after the end");
                    ended = chunk.is_empty();
                    text.extend_from_slice(chunk);
                }
                _ => {
                    let last: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
                    assert_eq!(last, json!({"ok":true}));
                    assert!(ended, "the text has no end");
                    break;
                }
            }
        }
        Exposition::parse(&String::from_utf8(text).expect("UTF-8"))
    }

    /// Reads a whole text; panics where it is not right.
    #[track_caller]
    pub fn parse(text: &str) -> Exposition {
        let body = text.strip_suffix("# EOF\n").expect("the end mark, and nothing after it");
        let mut read = Exposition { families: BTreeMap::new(), samples: BTreeMap::new() };
        let mut family = Family::default();
        for line in body.lines() {
            match line.strip_prefix("# ") {
                Some(about) => read.descriptor(&mut family, about, line),
                None => read.sample(&mut family, line),
            }
        }
        read.check_histograms();
        read
    }

    /// A sample's value by its name and all of its labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.samples.get(&(name.to_owned(), labels.collect())).copied()
    }

    /// Every sample of that name: its labels and its value.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Labels, f64)> {
        let of = move |((sample, labels), value): (&'a (String, Labels), &f64)| {
            (sample == name).then_some((labels, *value))
        };
        self.samples.iter().filter_map(of)
    }

    fn descriptor(&mut self, family: &mut Family, about: &str, line: &str) {
        let mut words = about.splitn(3, ' ');
        let (what, name) = (words.next().expect("a word"), words.next().expect("a name"));
        let rest = words.next().unwrap_or_default();
        is_name(name, ":");
        if name != family.name {
            assert_eq!(what, "HELP", "a family begins with its help: {line}");
            *family = Family { name: name.to_owned(), ..Family::default() };
        }
        assert!(!family.samples, "after the family's samples: {line}");
        match what {
            "HELP" => {
                assert!(!family.help && !rest.is_empty(), "{line}");
                family.help = true;
            }
            "TYPE" => {
                let kinds = ["counter", "gauge", "histogram", "info"];
                assert!(family.kind.is_empty() && kinds.contains(&rest), "{line}");
                family.kind = rest.to_owned();
                let twice = self.families.insert(name.to_owned(), rest.to_owned());
                assert_eq!(twice, None, "twice: {line}");
            }
            "UNIT" => {
                assert!(!family.unit && name.ends_with(&format!("_{rest}")), "{line}");
                family.unit = true;
            }
            _ => panic!("not a kind of line: {line}"),
        }
    }

    fn sample(&mut self, family: &mut Family, line: &str) {
        family.samples = true;
        let at = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line:?}"));
        let (name, rest) = line.split_at(at);
        let suffix = name.strip_prefix(&family.name);
        let suffix = suffix.unwrap_or_else(|| panic!("not of {}: {line}", family.name));
        let suffixes: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        assert!(suffixes.contains(&suffix), "not of a {}: {line}", family.kind);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => read_labels(rest, line),
            None => (Labels::new(), rest),
        };
        let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("one blank: {line}"));
        let plain = value.bytes().all(|b| b.is_ascii_digit() || b".e-".contains(&b));
        assert!(plain, "not a plain number: {line}");
        let value: f64 = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value.is_finite() && (value >= 0.0 || family.kind == "gauge"), "{line}");
        let twice = self.samples.insert((name.to_owned(), labels), value);
        assert_eq!(twice, None, "twice: {line}");
    }

    fn check_histograms(&self) {
        let histograms = self.families.iter().filter(|(_, kind)| *kind == "histogram");
        for (name, _) in histograms {
            let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for (labels, count) in self.all(&format!("{name}_bucket")) {
                let mut labels = labels.clone();
                let bound = labels.remove("le").expect("a bound");
                let bound =
                    if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("le") };
                series.entry(labels).or_default().push((bound, count));
            }
            let count = format!("{name}_count");
            let counted: BTreeSet<&Labels> = self.all(&count).map(|(labels, _)| labels).collect();
            assert_eq!(series.keys().collect::<BTreeSet<_>>(), counted, "{name}");
            for (labels, mut buckets) in series {
                buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
                let grows = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
                assert!(grows, "{name} {labels:?}: {buckets:?}");
                let (last, all) = *buckets.last().expect("a bucket");
                let value = |what: &str| {
                    let key = (format!("{name}_{what}"), labels.clone());
                    *self.samples.get(&key).unwrap_or_else(|| panic!("no {key:?}"))
                };
                assert_eq!((last, all), (f64::INFINITY, value("count")), "{name} {labels:?}");
                assert!(value("sum") > 0.0 || all == 0.0, "{name} {labels:?}");
            }
        }
    }
}

#[track_caller]
fn is_name(name: &str, also: &str) {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
    let begins = name.starts_with(|c: char| good(c) && !c.is_ascii_digit());
    assert!(begins && name.chars().all(good), "not a name: {name:?}");
}

/// What stands between braces, and what comes after them.
#[track_caller]
fn read_labels<'a>(text: &'a str, line: &str) -> (Labels, &'a str) {
    let mut labels = Labels::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("a label: {line}"));
        is_name(name, "");
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('"' | '\\'))) => value.push(c),
                    _ => panic!("not an escape: {line}"),
                },
                Some((_, c)) => value.push(c),
                None => panic!("no end of a value: {line}"),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "twice: {line}");
        rest = &after[end + 1..];
        match (rest.strip_prefix(','), rest.strip_prefix('}')) {
            (Some(next), _) => rest = next,
            (_, Some(after)) => return (labels, after),
            _ => panic!("neither the next label nor the end: {line}"),
        }
    }
}
