//! `status` for people: what needs a look first, then what is going on.

use serde_json::Value;

use super::ask::{list, text};
use super::say;

/// Over the broker's own tools.
const OWN: &str = "the broker's own tools (agent.tools chooses, none for none):";

/// Prints the answer to `status`.
pub(super) fn print(answer: &Value) {
    for line in lines(answer) {
        say(&line);
    }
}

fn lines(answer: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "tool-server {}, pid {}, up {}",
        text(answer, "version"),
        number(answer, "pid"),
        span(number(answer, "uptime_seconds"))
    )];
    section(&mut lines, "look at:", list(answer, "attention").iter().map(own));
    calls(&mut lines, answer);
    section(&mut lines, "refused last:", list(answer, "refusals").iter().map(refusal));
    let tools = list(answer, "tools");
    section(&mut lines, "tools:", aligned(tools));
    section(&mut lines, OWN, aligned(list(answer, "own_tools")));
    lines.extend(answer.get("project").and_then(project));
    lines.extend(list(answer, "sockets").iter().map(|socket| format!("socket: {}", own(socket))));
    match text(answer, "metrics") {
        "" => {}
        address => lines.push(format!("figures: http://{address}/metrics")),
    }
    match text(answer, "http") {
        "" => {}
        address => lines.push(format!("tools by HTTP: http://{address}/")),
    }
    match text(answer, "operator") {
        "" => {}
        address => lines.push(format!("operators by HTTP: http://{address}/")),
    }
    match text(answer, "rate") {
        "" => {}
        rate => lines.push(format!("rate: {rate} for each peer")),
    }
    match text(answer, "proxy") {
        "" => {}
        to => lines.push(format!("proxy: {to}")),
    }
    lines.extend(answer.get("audit").map(audit));
    lines.push(format!("peers: told apart {}", text(answer, "peers")));
    lines.push(format!("process trees: ended {}", text(answer, "tree")));
    lines.extend(answer.get("confinement").map(confinement).into_iter().flatten());
    lines.push(format!("unclean restarts: {}", number(answer, "unclean_restarts")));
    lines.extend(list(answer, "left_behind").iter().map(daemon));
    if answer.get("truncated").is_some() {
        lines.push("(more than fits one answer: not all is shown)".to_owned());
    }
    lines
}

/// The project's own setup, where it has one.
fn project(project: &Value) -> Option<String> {
    let (state, script, why) =
        (text(project, "state"), text(project, "script"), text(project, "why"));
    let hash = text(project, "hash");
    let hash = hash.get(..12).unwrap_or(hash);
    match (state, why) {
        ("none" | "", _) => None,
        ("bad", why) => Some(format!("project: {why}")),
        (state, "") => Some(format!("project: {script} {hash}: {state}")),
        (state, why) => Some(format!("project: {script} {hash}: {state}: {why}")),
    }
}

fn audit(audit: &Value) -> String {
    let room = match audit.get("reserved").and_then(Value::as_bool) {
        Some(false) => "; no room can be kept for lines on this file system",
        _ => "",
    };
    format!("audit: {} lines, head {}{room}", number(audit, "lines"), text(audit, "head"))
}

fn confinement(active: &Value) -> Vec<String> {
    let is = |name: &str| active.get(name).and_then(Value::as_bool).unwrap_or(false);
    let mut line = format!("confinement: {}", text(active, "level"));
    match number(active, "landlock_abi") {
        0 => line.push_str(", no Landlock"),
        version => line.push_str(&format!(", Landlock {version}")),
    }
    line.push_str(if is("seccomp") { ", seccomp" } else { ", no seccomp" });
    line.push_str(&format!(", uid: {}, argv: {}", text(active, "uid"), text(active, "argv")));
    let words = |name| list(active, name).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    match words("cgroups").join(", ") {
        none if none.is_empty() => line.push_str(", cgroups: none"),
        uses => line.push_str(&format!(", cgroups: {uses}")),
    }
    let missing = list(active, "missing").iter();
    std::iter::once(line).chain(missing.map(|one| format!("  missing: {}", own(one)))).collect()
}

fn calls(lines: &mut Vec<String>, answer: &Value) {
    let calls = answer.get("calls").unwrap_or(&Value::Null);
    let (running, waiting) = (number(calls, "running"), number(calls, "waiting"));
    let finished = number(calls, "finished");
    lines.push(format!("calls: {running} running, {waiting} waiting, {finished} finished"));
    let listed = list(answer, "under_way");
    lines.extend(listed.iter().map(|call| format!("  {}", under_way(call))));
    let more = (running + waiting).saturating_sub(listed.len() as u64);
    if more > 0 && !listed.is_empty() {
        lines.push(format!("  and {more} more"));
    }
}

fn under_way(call: &Value) -> String {
    let state = text(call, "state");
    let since = span(number(call, "seconds"));
    let (id, command) = (text(call, "call_id"), text(call, "command"));
    format!("{id}  {state} {since}  {command}  ({})", text(call, "peer"))
}

fn refusal(refusal: &Value) -> String {
    let ago = span(number(refusal, "seconds_ago"));
    let (tool, code) = (text(refusal, "tool"), text(refusal, "code"));
    let rule = match text(refusal, "rule") {
        "" => String::new(),
        rule => format!(" by {rule}"),
    };
    format!("{ago} ago  {tool}  {code}{rule}: {}", text(refusal, "message"))
}

fn aligned(tools: &[Value]) -> impl Iterator<Item = String> {
    let width = tools.iter().map(|tool| text(tool, "name").len()).max().unwrap_or_default();
    tools.iter().flat_map(move |one| tool(one, width))
}

fn tool(tool: &Value, width: usize) -> Vec<String> {
    let (name, state) = (text(tool, "name"), text(tool, "state"));
    let mut line = format!("{name:width$}  {state}");
    match text(tool, "default") {
        "unrestricted" | "" => {}
        default => line.push_str(&format!(", {default}")),
    }
    match text(tool, "definition") {
        "" => line.push_str(&format!("  {}", text(tool, "runs"))),
        definition => line.push_str(&format!("  {definition}")),
    }
    for (what, said) in [("rate", text(tool, "rate")), ("setup", text(tool, "setup"))] {
        if !said.is_empty() {
            line.push_str(&format!(", {what} {said}"));
        }
    }
    match text(tool, "sandbox") {
        "" => {}
        sandbox => line.push_str(&format!(", {sandbox}")),
    }
    let warnings = list(tool, "warnings").iter();
    std::iter::once(line).chain(warnings.map(|one| format!("  warning: {}", own(one)))).collect()
}

fn daemon(daemon: &Value) -> String {
    let pid = daemon.get("pid").and_then(Value::as_i64).unwrap_or(0);
    format!("left by call {}: pid {pid}: {}", text(daemon, "call"), text(daemon, "command"))
}

/// A heading and what is beneath it; nothing where nothing is.
fn section(lines: &mut Vec<String>, heading: &str, beneath: impl Iterator<Item = String>) {
    let beneath: Vec<String> = beneath.map(|line| format!("  {line}")).collect();
    if !beneath.is_empty() {
        lines.push(heading.to_owned());
        lines.extend(beneath);
    }
}

fn own(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// A time in its two greatest units.
fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_told_in_their_two_greatest_units() {
        let spans = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 1_000_000].map(span);
        let wanted = ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "23 h 59 min"];
        assert_eq!(spans[..6], wanted);
        assert_eq!(spans[6..], ["1 d 0 h", "11 d 13 h"]);
    }

    #[test]
    fn what_needs_a_look_comes_first() {
        let answer = json!({
            "version": "1", "pid": 7, "uptime_seconds": 61, "attention": ["sh: unrestricted"],
            "calls": {"running": 3, "waiting": 1, "finished": 9},
            "under_way": [{"call_id": "a-1", "command": "sh x", "seconds": 5, "state": "running", "peer": "uid 1"}],
            "refusals": [{"seconds_ago": 4, "tool": "git", "code": "denied", "rule": "r", "message": "no"}],
            "tools": [
                {"name": "sh", "state": "unrestricted", "default": "unrestricted", "runs": "/bin/sh"},
                {"name": "longer", "state": "ok", "default": "deny", "runs": "/x", "rate": "1/hour",
                 "setup": "done", "sandbox": "sandbox: off", "warnings": ["w"]},
            ],
            "own_tools": [
                {"name": "read_file", "state": "ok", "default": "allow", "runs": "the broker", "sandbox": "",
                 "definition": "as shipped"},
                {"name": "run_shell", "state": "ok", "default": "deny, 2 rules", "runs": "a shell",
                 "sandbox": "confined", "definition": "/d/run_shell.toml"},
            ],
            "sockets": ["/s"], "metrics": "127.0.0.1:1", "rate": "5/second",
            "peers": "by uid", "tree": "by a mark",
            "confinement": {"level": "landlock", "landlock_abi": 4, "seccomp": true, "uid": "shared",
                            "argv": "visible", "cgroups": ["kill", "pids"], "missing": ["namespaces: m"]},
            "unclean_restarts": 2,
            "left_behind": [{"pid": 5, "call": "a-0", "command": "sleep"}],
        });
        let wanted = "tool-server 1, pid 7, up 1 min 1 s\n\
            look at:\n  sh: unrestricted\n\
            calls: 3 running, 1 waiting, 9 finished\n  a-1  running 5 s  sh x  (uid 1)\n  and 3 more\n\
            refused last:\n  4 s ago  git  denied by r: no\n\
            tools:\n  sh      unrestricted  /bin/sh\n  longer  ok, deny  /x, rate 1/hour, setup done, sandbox: off\n    warning: w\n\
            the broker's own tools (agent.tools chooses, none for none):\n  read_file  ok, allow  as shipped\n  run_shell  ok, deny, 2 rules  /d/run_shell.toml, confined\n\
            socket: /s\nfigures: http://127.0.0.1:1/metrics\nrate: 5/second for each peer\n\
            peers: told apart by uid\nprocess trees: ended by a mark\n\
            confinement: landlock, Landlock 4, seccomp, uid: shared, argv: visible, cgroups: kill, pids\n  missing: namespaces: m\n\
            unclean restarts: 2\n\
            left by call a-0: pid 5: sleep";
        assert_eq!(lines(&answer).join("\n"), wanted);
    }
}
