//! As a watcher may see it, in JSON: an operator all of it; a caller every count, every
//! tool's state in a word, and of calls, refusals and questions its own alone.
//!
//! Owns: what is left out, and words for figures. Must not: show anything of a caller's as
//! it came: command lines are escaped, ASCII.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{BOUNDS, Over, Told, What};
use crate::audit::rfc3339;
use crate::broker::recent::{Refused, UnderWay};
use crate::broker::status::{State, ToolStatus, own_status, tool_status};
use crate::broker::{Broker, Peer};
use crate::metrics::Decided;

/// Calls under way that are listed; there may be more.
const LISTED: usize = 50;

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// Somebody who calls: sees its own.
    Caller(Peer),
    /// An operator: sees all.
    Operator,
}

impl Viewer {
    fn may_see(self, peer: Peer) -> bool {
        match self {
            Viewer::Caller(own) => own == peer,
            Viewer::Operator => true,
        }
    }

    fn is_operator(self) -> bool {
        self == Viewer::Operator
    }
}

impl Broker {
    /// All that there is to see at this moment.
    pub(crate) fn view(&self, viewer: Viewer) -> Value {
        let under_way = self.recent.under_way();
        let calls = under_way.iter().filter(|(_, call)| viewer.may_see(call.peer)).take(LISTED);
        let calls: Vec<Value> =
            calls.map(|(number, call)| self.call_seen(viewer, *number, call)).collect();
        let over = self.watch.opened.get().map(|opened| {
            let past = opened.past();
            let over = past.over.iter().rev().filter(|over| viewer.may_see(over.call.peer));
            over.map(|over| self.over_seen(viewer, over)).collect::<Vec<Value>>()
        });
        let refusals = self.recent.refusals();
        let refusals = refusals.iter().filter(|refused| viewer.may_see(refused.peer));
        let refusals: Vec<Value> =
            refusals.map(|refused| self.refusal_seen(viewer, refused)).collect();
        let mut view = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "at": clock(SystemTime::now()),
            "operator": viewer.is_operator(),
            "figures": self.figures_seen(),
            "tools": self.tools_seen(viewer),
            "under_way": calls,
            "recent": over.unwrap_or_default(),
            "refusals": refusals,
            "approvals": self.approvals_seen(viewer),
        });
        if let (true, Some(view)) = (viewer.is_operator(), view.as_object_mut()) {
            view.insert("attention".to_owned(), json!(self.needs_attention()));
        }
        view
    }

    /// Something that happened, by its event's name; none where it is not the viewer's to see.
    pub(crate) fn told_seen(&self, viewer: Viewer, told: &Told) -> Option<(&'static str, Value)> {
        viewer.may_see(told.peer).then(|| match &*told.what {
            What::Began(number, call) => ("began", self.call_seen(viewer, *number, call)),
            What::Changed(number, call) => ("changed", self.call_seen(viewer, *number, call)),
            What::Ended(over) => ("ended", self.over_seen(viewer, over)),
            What::Refused(refused) => ("refused", self.refusal_seen(viewer, refused)),
        })
    }

    /// How much of everything.
    pub(crate) fn figures_seen(&self) -> Value {
        let (running, waiting) = self.admission.load();
        let (asked, standing) = self.approvals.counts();
        let (calls, refused, durations) = match self.watch.opened.get() {
            Some(opened) => {
                let (calls, refused) = opened.seconds();
                (calls, refused, opened.past().durations.to_vec())
            }
            None => Default::default(),
        };
        json!({
            "at": clock(SystemTime::now()),
            "uptime": in_words(self.facts.started.elapsed()),
            "running": running,
            "waiting": waiting,
            "asked": asked,
            "standing": standing,
            "finished": self.finished.load(std::sync::atomic::Ordering::Relaxed),
            "calls": calls,
            "refused": refused,
            "half": share(&durations, 50),
            "most": share(&durations, 95),
            "durations": durations,
            "bounds": BOUNDS.map(|bound| in_words(Duration::from_micros(bound))),
        })
    }

    /// The tools and their states, the broker's own among them; why, for an operator.
    pub(crate) fn tools_seen(&self, viewer: Viewer) -> Value {
        let snapshot = self.registry.snapshot();
        let (mut tools, mut states) = tool_status(&snapshot, &self.setups.states());
        let (own, own_states) = own_status(&snapshot, self.registry.options());
        tools.extend(own);
        states.extend(own_states);
        let seen = |tool: &ToolStatus, state: &State| {
            let mut seen = json!({
                "name": tool.name,
                "state": tool.state,
                "rules": tool.default,
                "sandbox": if tool.sandbox.is_empty() { "–" } else { &tool.sandbox },
                "own": tool.definition.is_some(),
            });
            if let (true, Some(seen)) = (viewer.is_operator(), seen.as_object_mut()) {
                let why = tool.attention(state).into_iter().chain(tool.failed_setup());
                let why: Vec<String> = why.collect();
                seen.insert("runs".to_owned(), json!(tool.runs));
                seen.insert("why".to_owned(), json!(why.join("; ")));
            }
            seen
        };
        let mut all: Vec<_> = tools.iter().zip(&states).collect();
        all.sort_by_key(|(tool, _)| &tool.name);
        all.into_iter().map(|(tool, state)| seen(tool, state)).collect()
    }

    /// The questions that wait. A caller is shown of its own what it was told of them.
    pub(crate) fn approvals_seen(&self, viewer: Viewer) -> Value {
        match viewer {
            Viewer::Operator => serde_json::to_value(self.approvals.list()).unwrap_or_default(),
            Viewer::Caller(peer) => json!({ "waiting": self.approvals.of_caller(peer) }),
        }
    }

    fn call_seen(&self, viewer: Viewer, number: u32, call: &UnderWay) -> Value {
        let now = Instant::now();
        json!({
            "id": self.facts.call_id(number),
            "tool": call.tool.escape_default().to_string(),
            "command": call.command(),
            "who": self.who(viewer, call.peer),
            "decision": decision(call.decided),
            "state": match (call.started, call.decided) {
                (Some(_), _) => "running",
                (None, Decided::Ask) => "asked",
                (None, _) => "waiting",
            },
            "since_ms": u64::try_from(now.duration_since(call.since).as_millis()).unwrap_or(0),
            "took": in_words(now.duration_since(call.since)),
        })
    }

    fn over_seen(&self, viewer: Viewer, over: &Over) -> Value {
        let mut seen = self.call_seen(viewer, over.number, &over.call);
        let exit = match (over.code, &over.signal) {
            (Some(code), _) => code.as_str().to_owned(),
            (None, Some(signal)) => format!("SIG{signal}"),
            (None, None) => over.exit_code.to_string(),
        };
        let well = over.code.is_none() && over.signal.is_none() && over.exit_code == 0;
        if let Some(seen) = seen.as_object_mut() {
            let state = match (over.ran(), well) {
                (false, _) => "refused",
                (true, true) => "ok",
                (true, false) => "failed",
            };
            let again = over.code == Some(tool_protocol::Code::UseStream);
            for (name, value) in [
                ("state", json!(state)),
                ("at", json!(clock(over.at))),
                ("took", json!(in_words(over.took))),
                ("exit", json!(exit)),
                ("again", json!(again)),
            ] {
                seen.insert(name.to_owned(), value);
            }
        }
        seen
    }

    fn refusal_seen(&self, viewer: Viewer, refused: &Refused) -> Value {
        json!({
            "id": refused.call_id,
            "tool": refused.tool.escape_default().to_string(),
            "at": clock(refused.at),
            "code": refused.code.as_str(),
            "rule": refused.rule,
            "message": refused.message,
            "instead": refused.hint,
            "who": self.who(viewer, refused.peer),
        })
    }

    fn who(&self, viewer: Viewer, peer: Peer) -> String {
        if !viewer.is_operator() {
            return "you".to_owned();
        }
        // Of those who come by HTTP no kernel knows a uid: it is their tokens' name alone.
        let name = self.facts.callers.name(peer.socket).filter(|name| name.starts_with("http:"));
        name.map_or_else(|| self.facts.peer(peer), |name| name.to_string())
    }
}

fn decision(decided: Decided) -> &'static str {
    match decided {
        Decided::None => "–",
        Decided::Allow => "allowed",
        Decided::Ask => "asked",
        Decided::Deny => "denied",
    }
}

/// The bound below which so many of a hundred are.
fn share(durations: &[u64], percent: u64) -> String {
    let all: u64 = durations.iter().sum();
    let wanted = (all * percent).div_ceil(100);
    let mut so_far = 0;
    for (count, bound) in durations.iter().zip(BOUNDS) {
        so_far += count;
        if all > 0 && so_far >= wanted {
            return format!("≤ {}", in_words(Duration::from_micros(bound)));
        }
    }
    if all == 0 { "–".to_owned() } else { "> 30 s".to_owned() }
}

/// Whole numbers, one decimal where that is short.
fn in_words(took: Duration) -> String {
    let micros = took.as_micros();
    let tenths = |unit: u128, name: &str| {
        let tenths = micros * 10 / unit;
        let whole = tenths >= 100 || tenths.is_multiple_of(10);
        let (number, tenth) = (tenths / 10, tenths % 10);
        if whole { format!("{number} {name}") } else { format!("{number}.{tenth} {name}") }
    };
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => tenths(1_000, "ms"),
        1_000_000..60_000_000 => tenths(1_000_000, "s"),
        _ => {
            let seconds = took.as_secs();
            let (days, hours, minutes) =
                (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
            match (days, hours) {
                (0, 0) => format!("{minutes} min {} s", seconds % 60),
                (0, _) => format!("{hours} h {minutes} min"),
                _ => format!("{days} d {hours} h"),
            }
        }
    }
}

/// The time of the day, UTC.
fn clock(at: SystemTime) -> String {
    let at = if at < UNIX_EPOCH { UNIX_EPOCH } else { at };
    rfc3339(at).get(11..19).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_words() {
        let micros = |micros| in_words(Duration::from_micros(micros));
        assert_eq!(micros(0), "0 µs");
        assert_eq!(micros(1_000), "1 ms");
        assert_eq!(micros(2_540), "2.5 ms");
        assert_eq!(micros(25_900), "25 ms");
        assert_eq!(micros(1_500_000), "1.5 s");
        assert_eq!(micros(61_000_000), "1 min 1 s");
        assert_eq!(in_words(Duration::from_secs(90_000)), "1 d 1 h");
    }

    #[test]
    fn a_share_is_a_bound_of_the_buckets() {
        assert_eq!(share(&[], 50), "–");
        let mut durations = [0; BOUNDS.len() + 1];
        durations[0] = 90;
        durations[3] = 10;
        assert_eq!(
            (share(&durations, 50), share(&durations, 95)),
            ("≤ 100 µs".into(), "≤ 1 ms".into())
        );
        durations[BOUNDS.len()] = 1_000;
        assert_eq!(share(&durations, 95), "> 30 s");
    }
}
