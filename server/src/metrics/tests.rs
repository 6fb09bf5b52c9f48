//! Tests of the figures.

use std::time::Duration;

use tool_protocol::Code;

use super::*;

const NOW: Now = Now { running: 1, waiting: 2, tools: 3, problems: 4 };

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|one| one == line), "no line {line:?} in\n{text}");
}

#[test]
fn every_figure_has_its_value() {
    let metrics = Metrics::new();
    metrics.unclean_restarts(5);
    let (took, before) = (Duration::from_millis(30), Some(Duration::from_micros(400)));
    let git = metrics.tool("git", || true);
    git.ended(Decided::Allow, Exit::Status(0), took, before);
    git.ended(Decided::Allow, Exit::Status(7), took, before);
    git.ended(Decided::Deny, Exit::Code(Code::Denied), took, None);
    git.ended(Decided::Allow, Exit::Signal, Duration::from_secs(4_000), before);
    metrics.tool("git", || false).ended(Decided::Allow, Exit::Status(0), took, before);
    metrics.tool("x\"\n", || false).ended(Decided::None, Exit::Code(Code::UnknownTool), took, None);
    metrics.bad_request(Code::BadJson);
    metrics.rate_limited(Limit::Peer);
    metrics.reloaded(Reload::Problem);
    metrics.approval(Approval::TimedOut);
    metrics.audit_failures(1);
    let connection = metrics.connected();
    drop(metrics.connected());
    let text = metrics.text(&NOW);
    drop(connection);
    let calls = "tool_server_calls_total";
    has(&text, &format!("{calls}{{tool=\"git\",decision=\"allow\",exit=\"0\"}} 2"));
    has(&text, &format!("{calls}{{tool=\"git\",decision=\"allow\",exit=\"other\"}} 1"));
    has(&text, &format!("{calls}{{tool=\"git\",decision=\"allow\",exit=\"signal\"}} 1"));
    has(&text, &format!("{calls}{{tool=\"git\",decision=\"deny\",exit=\"denied\"}} 1"));
    has(&text, &format!("{calls}{{tool=\"unknown\",decision=\"none\",exit=\"unknown_tool\"}} 1"));
    let whole = "tool_server_call_duration_seconds";
    has(&text, &format!("{whole}_bucket{{le=\"0.025\",tool=\"git\"}} 0"));
    has(&text, &format!("{whole}_bucket{{le=\"0.05\",tool=\"git\"}} 4"));
    has(&text, &format!("{whole}_bucket{{le=\"300.0\",tool=\"git\"}} 4"));
    has(&text, &format!("{whole}_bucket{{le=\"+Inf\",tool=\"git\"}} 5"));
    has(&text, &format!("{whole}_count{{tool=\"git\"}} 5"));
    has(&text, &format!("{whole}_sum{{tool=\"git\"}} 4000.12"));
    has(&text, "tool_server_call_start_seconds_count{tool=\"git\"} 4");
    has(&text, "tool_server_call_start_seconds_bucket{le=\"0.0005\",tool=\"git\"} 4");
    has(&text, "tool_server_bad_requests_total{code=\"bad_json\"} 1");
    has(&text, "tool_server_rate_limited_calls_total{limit=\"peer\"} 1");
    has(&text, "tool_server_rate_limited_calls_total{limit=\"tool\"} 0");
    has(&text, "tool_server_reloads_total{outcome=\"problem\"} 1");
    has(&text, "tool_server_approvals_total{outcome=\"timed_out\"} 1");
    has(&text, "tool_server_approvals_total{outcome=\"gone\"} 0");
    has(&text, "tool_server_audit_failures_total 1");
    has(&text, "tool_server_unclean_restarts_total 5");
    has(&text, "tool_server_connections 1");
    has(&text, "tool_server_calls_running 1");
    has(&text, "tool_server_calls_waiting 2");
    has(&text, "tool_server_tools 3");
    has(&text, "tool_server_registry_problems 4");
    let version = env!("CARGO_PKG_VERSION");
    has(&text, &format!("tool_server_build_info{{version=\"{version}\"}} 1"));
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn names_without_end_do_not_fill_the_memory() {
    let metrics = Metrics::new();
    for number in 0..10_000 {
        let figures = metrics.tool(&format!("t{number}"), || true);
        figures.ended(Decided::Allow, Exit::Status(0), Duration::ZERO, None);
    }
    let text = metrics.text(&NOW);
    let series = text.lines().filter(|line| line.starts_with("tool_server_calls_total{")).count();
    assert_eq!(series, 4_096 + 1);
    has(&text, "tool_server_calls_total{tool=\"unknown\",decision=\"allow\",exit=\"0\"} 5904");
}
