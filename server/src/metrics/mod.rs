//! What is counted, and how it is told.
//!
//! Owns: every figure, its name and its labels, whose values are bounded
//! whatever callers send. Counting is a few atomic additions; what a figure is
//! at this moment only (calls under way, problems) is handed in when it is
//! asked for. Must not: know what a call does, or keep anything on disk.
//!
//! - `labels`     the bounded values of labels
//! - `tool`       the figures of one tool
//! - `histogram`  how long things took
//! - `collector`  the figures of all tools as text

mod collector;
mod histogram;
mod labels;
mod tool;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tool_protocol::Code;

use self::collector::{Outcomes, Tools};
pub(crate) use self::labels::{Approval, Decided, Exit, Limit, Reload, Wire};
pub(crate) use self::tool::ToolFigures;

/// What `Metrics::text` gives, for HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All figures.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// One scrape at a time: the gauges are set for it.
    registry: Mutex<Registry>,
    tools: Arc<Tools>,
    bad_requests: Arc<Outcomes>,
    rate_limited: Arc<Outcomes>,
    reloads: Arc<Outcomes>,
    approvals: Arc<Outcomes>,
    gate_requests: Arc<Outcomes>,
    audit_failures: Counter,
    audit_not_on_stdout: Counter,
    unclean_restarts: Counter,
    connections: Gauge,
    now: Gauges,
}

/// Set when they are asked for.
#[derive(Debug, Default)]
struct Gauges {
    running: Gauge,
    waiting: Gauge,
    tools: Gauge,
    problems: Gauge,
}

/// What is so at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Calls that have a place.
    pub(crate) running: usize,
    /// Calls that wait for one.
    pub(crate) waiting: usize,
    /// Tools in the registry.
    pub(crate) tools: usize,
    /// Problems in the registry.
    pub(crate) problems: usize,
}

/// An open connection; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Connection(Gauge);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// All at 0.
    pub(crate) fn new() -> Metrics {
        let metrics = Metrics {
            registry: Mutex::new(Registry::with_prefix("tool_server")),
            tools: Arc::default(),
            bad_requests: Outcomes::new(
                "bad_requests",
                "Messages that were refused before they were a call, by code",
                ["code"],
                labels::codes(),
            ),
            rate_limited: Outcomes::new(
                "rate_limited_calls",
                "Calls refused because they came too fast, by whose rate it was",
                ["limit"],
                Limit::NAMES,
            ),
            reloads: Outcomes::new(
                "reloads",
                "Looks at tools.d that were asked for or found a change, by what they found",
                ["outcome"],
                Reload::NAMES,
            ),
            approvals: Outcomes::new(
                "approvals",
                "Calls held for an approval (asked), and how each was decided",
                ["outcome"],
                Approval::NAMES,
            ),
            gate_requests: Outcomes::new(
                "gate_requests",
                "Requests that calls made at their gates, by what became of them",
                ["outcome"],
                Wire::NAMES,
            ),
            audit_failures: Counter::default(),
            audit_not_on_stdout: Counter::default(),
            unclean_restarts: Counter::default(),
            connections: Gauge::default(),
            now: Gauges::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This program", build);
        let started = Gauge::<i64>::default();
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        started.set(i64::try_from(since).unwrap_or(i64::MAX));
        let help = "When this server was started, since 1970";
        registry.register_with_unit("start_time", help, Unit::Seconds, started);
        let help = "Starts of this state directory's server after one that had not been stopped";
        registry.register("unclean_restarts", help, self.unclean_restarts.clone());
        let gauges = [
            (
                "calls_running",
                "Calls that have a place, the tool started or about to be",
                &self.now.running,
            ),
            ("calls_waiting", "Calls that wait for a place", &self.now.waiting),
            ("connections", "Open connections of callers", &self.connections),
            ("tools", "Tools that can be called", &self.now.tools),
            ("registry_problems", "Problems in tools.d, as status shows them", &self.now.problems),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        let help = "How often the audit could not be written";
        registry.register("audit_failures", help, self.audit_failures.clone());
        let help = "Lines of the audit that were to be on stdout too and are in the file alone";
        registry.register("audit_stdout_dropped_lines", help, self.audit_not_on_stdout.clone());
        let outcomes = [
            &self.bad_requests,
            &self.rate_limited,
            &self.reloads,
            &self.approvals,
            &self.gate_requests,
        ];
        for outcomes in outcomes {
            registry.register_collector(Box::new(Arc::clone(outcomes)));
        }
        registry.register_collector(Box::new(Arc::clone(&self.tools)));
    }

    /// The figures of a tool. A name that is not known so far counts as unknown
    /// unless `exists` says that there is such a tool.
    pub(crate) fn tool(&self, name: &str, exists: impl FnOnce() -> bool) -> Arc<ToolFigures> {
        self.tools.get(name, exists)
    }

    /// A message that became no call.
    pub(crate) fn bad_request(&self, code: Code) {
        self.bad_requests.add(labels::place(code));
    }

    /// A call that came too fast.
    pub(crate) fn rate_limited(&self, by: Limit) {
        self.rate_limited.add(by as usize);
    }

    /// A look at tools.d.
    pub(crate) fn reloaded(&self, outcome: Reload) {
        self.reloads.add(outcome as usize);
    }

    /// A step of an approval.
    pub(crate) fn approval(&self, outcome: Approval) {
        self.approvals.add(outcome as usize);
    }

    /// A request at a gate.
    pub(crate) fn wire(&self, outcome: Wire) {
        self.gate_requests.add(outcome as usize);
    }

    /// So many servers were not stopped in order before this one.
    pub(crate) fn unclean_restarts(&self, count: u64) {
        self.unclean_restarts.inc_by(count);
    }

    /// How many it was told of.
    pub(crate) fn unclean_restarts_so_far(&self) -> u64 {
        self.unclean_restarts.get()
    }

    /// So many times the audit could not be written so far.
    pub(crate) fn audit_failures(&self, count: u64) {
        self.audit_failures.inner().fetch_max(count, Ordering::Relaxed);
    }

    /// So many of its lines did not get to stdout so far.
    pub(crate) fn audit_not_on_stdout(&self, count: u64) {
        self.audit_not_on_stdout.inner().fetch_max(count, Ordering::Relaxed);
    }

    /// Counts an open connection.
    pub(crate) fn connected(&self) -> Connection {
        self.connections.inc();
        Connection(self.connections.clone())
    }

    /// Everything in the OpenMetrics text format.
    pub(crate) fn text(&self, now: &Now) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let gauges = [
            (&self.now.running, now.running),
            (&self.now.waiting, now.waiting),
            (&self.now.tools, now.tools),
            (&self.now.problems, now.problems),
        ];
        for (gauge, value) in gauges {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        // Writing to a String does not fail.
        text::encode(&mut text, &registry).ok();
        text
    }
}

#[cfg(test)]
mod tests;
