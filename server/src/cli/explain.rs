//! `explain TOOL ARGS…`: what a call would be, without making it.
//!
//! Owns: what is shown, and in which order. What the caller wrote is shown
//! escaped. Must not: run anything, or need a server or a workspace.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use tool_policy::facts::{Observed, Value};
use tool_policy::{Asks, Decision, Needs, Scene, Verdict, told_by};
use tool_protocol::Text;

use super::{complain, say, snapshot};
use crate::broker::{Homes, Of, Workspace, observe, program};
use crate::config::Config;
use crate::registry::Tool;

/// First line `allow|ask|deny RULE FILE:LINE`; then why, how the arguments are
/// read, what runs, and the environment, taking this process's own as the
/// caller's.
pub(super) fn run(config: &Config, words: &[OsString]) -> ExitCode {
    let Some((name, args)) = words.split_first() else { return ExitCode::from(2) };
    let snapshot = snapshot(config);
    let own = |name: &str| snapshot.tools.get(name).or_else(|| snapshot.builtins.get(name));
    let Some(tool) = name.to_str().and_then(own) else {
        let name = name.as_encoded_bytes().escape_ascii();
        let about = snapshot
            .problems
            .iter()
            .find(|problem| problem.tool.as_deref() == Some(&name.to_string()));
        match about {
            Some(problem) => complain(&format!("{name} cannot be used: {problem}")),
            None => complain(&format!(
                "no such tool: {name}; add it as a folder in {}",
                config.tools_dir.display()
            )),
        }
        return ExitCode::from(1);
    };
    let texts = |words: &mut dyn Iterator<Item = Vec<u8>>| -> Vec<Text> {
        words.filter_map(Text::new).collect()
    };
    let args = texts(&mut args.iter().map(|word| word.as_bytes().to_vec()));
    let offered = texts(
        &mut std::env::vars_os()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()),
    );
    let home = Homes::new(&config.state_dir).path(&tool.name, None, None);
    let temporary = home.join("tmp");
    let cwd = std::env::current_dir().unwrap_or_default();
    let of = Of {
        tool,
        home: home.as_os_str().as_bytes(),
        temporary: tool.is_confined().then_some(temporary.as_os_str().as_bytes()),
        offered: &offered,
        cwd: cwd.as_os_str().as_bytes(),
        args: &args,
    };
    let environment = crate::app::environment(config).build(&of);
    let words: Vec<&[u8]> = args.iter().map(Text::as_bytes).collect();
    let roots: Vec<Vec<u8>> =
        config.workspace.iter().map(|root| root.as_os_str().as_bytes().to_vec()).collect();
    let observed = look(config, tool, &words, of.cwd, &environment);
    let scene = Scene { directory: of.cwd, roots: &roots, observed: &observed };
    say_verdict(tool, &tool.policy.judge(&words, &scene));
    say_reading(tool, &words);
    say_plan(tool, &args);
    say_sandbox(tool, tool.policy.needs(&words, &scene, tool.sandbox.network));
    say("environment, were this shell the caller:");
    for line in environment {
        say(&format!("  {}", line.as_bytes().escape_ascii()));
    }
    ExitCode::SUCCESS
}

/// What the broker would have looked at; nothing where there is no workspace.
fn look(
    config: &Config,
    tool: &Tool,
    words: &[&[u8]],
    place: &[u8],
    environment: &[CString],
) -> Observed {
    let wants = tool.policy.wants(words);
    match Workspace::open(&config.workspace, []) {
        Ok(workspace) => observe(&workspace, place, &wants, environment),
        Err(_) => Observed::default(),
    }
}

fn say_verdict(tool: &Tool, verdict: &Verdict) {
    say(&format!("{} {} {}", verdict.meant(), verdict.rule.as_str(), tool.at(verdict.line)));
    if let Some(would) = verdict.would {
        let what = if would == Decision::Ask { "asked about" } else { "refused" };
        say(&format!("observed: it runs; with mode = \"enforce\" it were {what}"));
    }
    if verdict.asked == Asks::Wire {
        say("asked: on the wire; the call starts, and what it asks its gate for is asked about");
    }
    if let Some(reason) = &verdict.reason {
        say(&format!("reason: {reason}"));
    }
    if let Some(instead) = &verdict.instead {
        say(&format!("instead: {instead}"));
    }
    for (name, value) in verdict.facts.iter().filter(|(_, value)| !value.is_nothing()) {
        match value {
            Value::Texts(texts) => {
                for text in texts {
                    say(&format!("fact: {name} = {}", text.bytes().escape_ascii()));
                }
            }
            other => say(&format!("fact: {name} = {}", other.to_bytes().escape_ascii())),
        }
    }
}

fn say_reading(tool: &Tool, words: &[&[u8]]) {
    let line = tool.policy.read(words);
    if tool.policy.grammar().is_none() {
        return;
    }
    if let Some(why) = line.why_unread(&tool.name) {
        say(&format!("not understood: {why}"));
    }
    if !line.subcommand.is_empty() {
        say(&format!("subcommand: {}", line.subcommand.join(" ")));
    }
    for given in &line.options {
        let not = if given.negated { " (negated)" } else { "" };
        let value = given.value.map(|value| format!(" = {}", value.escape_ascii()));
        say(&format!("option: {}{not}{}", given.option.name(), value.unwrap_or_default()));
    }
    for operand in &line.operands {
        say(&format!("operand: {}", operand.escape_ascii()));
    }
    if words.is_empty() {
        for fact in tool.policy.module().list() {
            say(&format!("rules may ask for: {}: {}", fact.name, fact.about));
        }
        for gate in tool.gates.iter() {
            for fact in told_by(gate.adapter) {
                let adapter = gate.adapter.as_str();
                say(&format!("rules on the wire ({adapter}): {}: {}", fact.name, fact.about));
            }
        }
    }
}

fn say_sandbox(tool: &Tool, needs: Needs) {
    let mut line = match tool.is_confined() {
        true => format!("sandbox: {}", tool.sandbox_in_words()),
        false => tool.sandbox_in_words(),
    };
    let (read, write) = (tool.sandbox.read.iter(), tool.sandbox.write.iter());
    let read = read.map(|path| format!("; reads {}", path.display()));
    line.extend(read.chain(write.map(|path| format!("; writes {}", path.display()))));
    let sockets = tool.sandbox.sockets;
    let sockets = [("unix", sockets.unix), ("udp", sockets.udp), ("raw", sockets.raw)];
    let sockets = sockets.iter().filter(|(_, made)| *made);
    line.extend(sockets.map(|(name, _)| format!("; makes {name} sockets")));
    say(&line);
    if !tool.is_confined() || tool.gates.is_empty() {
        return;
    }
    let Needs::Gate { push } = needs else { return say("network: none: this call is local") };
    say(if push { "network: the gate, which it may push through:" } else { "network: the gate:" });
    for gate in tool.gates.iter() {
        let hosts: Vec<&str> = gate.hosts.iter().map(|host| host.as_str()).collect();
        let mut line = format!("  {} {}", gate.adapter.as_str(), hosts.join(" "));
        if let Some(credential) = &gate.credential {
            line.push_str(&format!(", with {}", credential.name()));
        }
        say(&line);
    }
}

fn say_plan(tool: &Tool, args: &[Text]) {
    say(&format!("runs: {}", tool.runs_in_words()));
    if tool.runs_nothing() {
        return say_bounds(tool);
    }
    if tool.any {
        say("program: the first word");
        return say_bounds(tool);
    }
    match program(tool) {
        Ok((program, mut argv)) => {
            argv.extend(args.iter().filter_map(|text| CString::new(text.as_bytes()).ok()));
            say(&format!("program: {}", program.as_bytes().escape_ascii()));
            let argv: Vec<String> =
                argv.iter().map(|word| word.as_bytes().escape_ascii().to_string()).collect();
            say(&format!("argv: {}", serde_json::to_string(&argv).unwrap_or_default()));
        }
        Err(refusal) => say(&format!("cannot run: {refusal}")),
    }
    if let Some(missing) = tool.missing() {
        say(&format!("warning: {missing}"));
    }
    say_bounds(tool);
}

fn say_bounds(tool: &Tool) {
    let seconds = tool.timeout.as_secs_f64();
    let but = if tool.timeout_set { "" } else { ", none while a terminal is attached" };
    say(&format!("timeout: {seconds} s{but}"));
    if tool.stream {
        say("stdio: stream");
    }
    for (name, value) in tool.limits.iter().filter_map(|limit| limit.describe()) {
        say(&format!("limit: {name} = {value}"));
    }
    if let Some(concurrent) = tool.concurrent {
        say(&format!("at once: {concurrent}"));
    }
}
