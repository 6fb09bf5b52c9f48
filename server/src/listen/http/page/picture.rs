//! Pictures of the figures, as SVG that a script may draw anew.
//!
//! Owns: their shapes. Must not: have a style of its own; the page's is.

use std::fmt::Write as _;

use serde_json::Value;

/// Of the picture of calls by second.
const RATE_HEIGHT: u64 = 60;
/// Of a second's bar, with what is between it and the next.
const SECOND: u64 = 4;
/// Of the picture of durations.
const BAR_HEIGHT: u64 = 70;
/// Of a duration's bar, with what is between it and the next.
const BAR: u64 = 20;
/// Beneath the bars.
const LABEL: u64 = 14;

/// Calls by second, and those of them that were refused.
pub(super) fn rate(figures: &Value) -> String {
    let calls = numbers(&figures["calls"]);
    let refused = numbers(&figures["refused"]);
    let most = calls.iter().copied().max().unwrap_or(0);
    format!(
        "<svg id=\"rate\" class=\"picture\" viewBox=\"0 0 {width} {RATE_HEIGHT}\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">\
         <path class=\"bar\" d=\"{calls}\"/><path class=\"bar refused\" d=\"{refused}\"/></svg>",
        width = 119 * SECOND,
        label = rate_label(&calls, &refused),
        calls = bars(&calls, most, SECOND, RATE_HEIGHT),
        refused = bars(&refused, most, SECOND, RATE_HEIGHT),
    )
}

fn rate_label(calls: &[u64], refused: &[u64]) -> String {
    let (all, refused): (u64, u64) = (calls.iter().sum(), refused.iter().sum());
    let most = calls.iter().copied().max().unwrap_or(0);
    format!("{all} calls in the last two minutes, {refused} refused, at most {most} in a second")
}

/// How many calls took how long.
pub(super) fn durations(figures: &Value) -> String {
    let counts = numbers(&figures["durations"]);
    let most = counts.iter().copied().max().unwrap_or(0);
    let bounds = figures["bounds"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut labels = String::new();
    for (index, bound) in (0u64..).zip(bounds).filter(|(index, _)| index % 3 == 0) {
        let (x, y) = ((index + 1) * BAR, BAR_HEIGHT + LABEL - 3);
        let bound = bound.as_str().unwrap_or_default();
        write!(labels, "<text x=\"{x}\" y=\"{y}\">{bound}</text>").ok();
    }
    format!(
        "<svg id=\"durations\" class=\"picture\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Half of all calls took {half}, nineteen of twenty {nearly}\">\
         <path class=\"bar\" d=\"{bars}\"/>{labels}</svg>",
        width = 16 * BAR,
        height = BAR_HEIGHT + LABEL,
        half = figures["half"].as_str().unwrap_or_default(),
        nearly = figures["most"].as_str().unwrap_or_default(),
        bars = bars(&counts, most, BAR, BAR_HEIGHT),
    )
}

/// A bar for each that is not 0, so high that the highest fills the picture.
fn bars(values: &[u64], most: u64, step: u64, height: u64) -> String {
    let mut path = String::new();
    for (index, value) in (0u64..).zip(values).filter(|(_, value)| **value > 0) {
        let high = (value * (height - 1) / most.max(1)).max(1);
        let (x, wide) = (index * step, step - 1);
        write!(path, "M{x} {height}v-{high}h{wide}v{high}z").ok();
    }
    path
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}
