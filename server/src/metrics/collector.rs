//! Figures that exist in many copies: by tool, by outcome.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Unit;

use super::labels::{Decided, exits};
use super::tool::ToolFigures;

/// Tools that have figures of their own. Beyond it their calls are counted as
/// of an unknown one: whoever makes folders without end is not to fill the memory.
const MOST_TOOLS: usize = 4_096;
/// The label of tools that there are not; a tool of that name is one of them.
const UNKNOWN: &str = "unknown";

/// The figures of all tools.
#[derive(Debug, Default)]
pub(super) struct Tools {
    known: RwLock<HashMap<String, Arc<ToolFigures>>>,
    unknown: Arc<ToolFigures>,
}

impl Tools {
    /// Of one; of the unknown one where there is no such tool.
    pub(super) fn get(&self, name: &str, exists: impl FnOnce() -> bool) -> Arc<ToolFigures> {
        if let Some(figures) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(figures);
        }
        if name == UNKNOWN || !exists() {
            return Arc::clone(&self.unknown);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_TOOLS && !known.contains_key(name) {
            return Arc::clone(&self.unknown);
        }
        Arc::clone(known.entry(name.to_owned()).or_default())
    }
}

impl Collector for Tools {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(&str, Arc<ToolFigures>)> =
            known.iter().map(|(name, figures)| (name.as_str(), Arc::clone(figures))).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.push((UNKNOWN, Arc::clone(&self.unknown)));
        let help = "Calls that are over, by tool, decision and exit";
        let mut counter = encoder.encode_descriptor("calls", help, None, MetricType::Counter)?;
        let exits: Vec<&str> = exits().collect();
        for (tool, figures) in &all {
            for (decided, exit, count) in figures.calls() {
                let decision = Decided::NAMES.get(decided).copied().unwrap_or_default();
                let exit = exits.get(exit).copied().unwrap_or_default();
                let labels = [("tool", *tool), ("decision", decision), ("exit", exit)];
                ConstCounter::new(count).encode(counter.encode_family(&labels)?)?;
            }
        }
        let (kind, unit) = (MetricType::Histogram, Some(&Unit::Seconds));
        let help = "From a call's request to its end";
        let mut whole = encoder.encode_descriptor("call_duration", help, unit, kind)?;
        for (tool, figures) in &all {
            figures.whole().encode(&mut whole, &[("tool", *tool)])?;
        }
        let help = "From a call's request to its tool's start, what it waited for included";
        let mut before = encoder.encode_descriptor("call_start", help, unit, kind)?;
        for (tool, figures) in &all {
            figures.before().encode(&mut before, &[("tool", *tool)])?;
        }
        Ok(())
    }
}

/// A counter for each of a fixed list of outcomes, all there from the start.
#[derive(Debug)]
pub(super) struct Outcomes {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    counts: Vec<(&'static str, AtomicU64)>,
}

impl Outcomes {
    /// By that label.
    pub(super) fn new(
        name: &'static str,
        help: &'static str,
        [label]: [&'static str; 1],
        outcomes: impl IntoIterator<Item = &'static str>,
    ) -> Arc<Outcomes> {
        let counts = outcomes.into_iter().map(|outcome| (outcome, AtomicU64::new(0))).collect();
        Arc::new(Outcomes { name, help, label, counts })
    }

    /// One more of the outcome at that place of the list.
    pub(super) fn add(&self, index: usize) {
        if let Some((_, count)) = self.counts.get(index) {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl Collector for Outcomes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut counter = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for (outcome, count) in &self.counts {
            let labels = [(self.label, *outcome)];
            ConstCounter::new(count.load(Relaxed)).encode(counter.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
