//! The results as one picture: how many times as long as directly, by each way.
//!
//! Owns: bench/results.svg. It brings its own background, follows a dark
//! setting, and says everything without colours: the broker's bars are full,
//! the others are hatched, and each has its figure beside it.

use std::fmt::Write as _;

use crate::results::Results;
use crate::site::Work;
use crate::way::{BROKER, DIRECT};

const WORKS: [Work; 3] = [Work::True, Work::Version, Work::Status];
const LEFT: f64 = 206.0;
const PANEL: f64 = 218.0;
const BAR: f64 = 158.0;
const TOP: f64 = 92.0;
const ROW: f64 = 30.0;

const STYLE: &str = "
  .ground { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  .head, .ours { font-weight: 700 }
  .small { font-size: 11px }
  .full { fill: #0a5cc2 }
  .hatched { fill: url(#lines); stroke: #57606a }
  .stripe { stroke: #57606a }
  .one { stroke: #1f2328; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .full { fill: #58a6ff }
    .hatched, .stripe { stroke: #9198a1 }
    .one { stroke: #e6edf3 }
  }
";

/// The picture as SVG.
pub fn render(results: &Results) -> String {
    let mut out = String::new();
    write(&mut out, results).expect("a string takes everything");
    out
}

fn write(out: &mut String, results: &Results) -> std::fmt::Result {
    let rows: Vec<(&str, Vec<Option<f64>>)> = results
        .columns
        .iter()
        .filter(|column| column.name != DIRECT)
        .map(|column| {
            let ratio = |work| results.ratio(work, column.name, DIRECT).map(|ratio| ratio.value);
            (column.name, WORKS.map(ratio).to_vec())
        })
        .collect();
    let longest = rows.iter().flat_map(|(_, row)| row).flatten().fold(1.0_f64, |a, b| a.max(*b));
    let bottom = TOP + ROW * rows.len() as f64;
    let (width, height) = (LEFT + PANEL * 3.0, bottom + 46.0);

    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">"
    )?;
    writeln!(
        out,
        "<title id=\"t\">Time of one call, as a multiple of the same work done directly</title>"
    )?;
    writeln!(out, "<desc id=\"d\">{}</desc>", in_words(&rows))?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(
        out,
        "<defs><pattern id=\"lines\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line class=\"stripe\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>"
    )?;
    writeln!(
        out,
        "<rect class=\"ground\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
        width - 1.0,
        height - 1.0
    )?;
    writeln!(
        out,
        "<text class=\"title\" x=\"16\" y=\"30\">Time of one call, as a multiple of the same work done directly</text>"
    )?;
    writeln!(
        out,
        "<text class=\"small\" x=\"16\" y=\"50\">Shorter is better. The broken line is 1: directly, with nothing between.</text>"
    )?;
    for (at, (name, _)) in rows.iter().enumerate() {
        let class = if name.starts_with(BROKER) { "ours" } else { "other" };
        writeln!(
            out,
            "<text class=\"{class}\" x=\"16\" y=\"{}\">{name}</text>",
            TOP + ROW * at as f64 + 19.0
        )?;
    }
    for (panel, work) in WORKS.iter().enumerate() {
        let x = LEFT + PANEL * panel as f64;
        writeln!(
            out,
            "<text class=\"head\" x=\"{x}\" y=\"{}\">{}</text>",
            TOP - 12.0,
            work.name()
        )?;
        for (at, (name, row)) in rows.iter().enumerate() {
            bar(out, x, TOP + ROW * at as f64, name.starts_with(BROKER), row[panel], longest)?;
        }
        let one = x + BAR / longest;
        writeln!(
            out,
            "<line class=\"one\" x1=\"{one:.1}\" y1=\"{}\" x2=\"{one:.1}\" y2=\"{bottom}\"/>",
            TOP - 4.0
        )?;
    }
    writeln!(
        out,
        "<text class=\"small\" x=\"16\" y=\"{}\">{}</text>\n</svg>",
        bottom + 26.0,
        foot(results)
    )
}

fn bar(
    out: &mut String,
    x: f64,
    y: f64,
    ours: bool,
    ratio: Option<f64>,
    longest: f64,
) -> std::fmt::Result {
    let Some(ratio) = ratio else {
        return writeln!(
            out,
            "<text class=\"small\" x=\"{x}\" y=\"{}\">not measured</text>",
            y + 19.0
        );
    };
    let (class, text) = if ours { ("full", "ours") } else { ("hatched", "other") };
    let length = BAR * ratio / longest;
    writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"{length:.1}\" height=\"20\"/>",
        y + 4.0
    )?;
    let digits = if ratio < 10.0 { 2 } else { 1 };
    writeln!(
        out,
        "<text class=\"{text}\" x=\"{:.1}\" y=\"{}\">{ratio:.digits$}</text>",
        x + length + 7.0,
        y + 19.0
    )
}

/// For those who do not see it.
fn in_words(rows: &[(&str, Vec<Option<f64>>)]) -> String {
    let row = |(name, row): &(&str, Vec<Option<f64>>)| {
        let figures: Vec<String> = WORKS
            .iter()
            .zip(row)
            .filter_map(|(work, ratio)| Some(format!("{} {:.2}", work.name(), (*ratio)?)))
            .collect();
        format!("{name}: {}.", figures.join(", "))
    };
    rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

fn foot(results: &Results) -> String {
    let find = |what| results.machine.lines.iter().find(|(name, _)| *name == what);
    let (machine, day) = (find("machine"), find("day"));
    let cores = machine.and_then(|(_, text)| text.split(',').next()).unwrap_or_default();
    let quick = if results.quick { "A quick run. " } else { "" };
    format!(
        "{quick}Ratios of medians, all ways in turn in one run; git status looks at 1,000 files. {cores}, {}.",
        day.map_or("", |(_, day)| day)
    )
}
