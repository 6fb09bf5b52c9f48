//! `explain TOOL ARGS…`: what a call would be, without making it.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use tool_protocol::Text;

use super::check::runs;
use super::{complain, say, snapshot};
use crate::broker::{Homes, Of, program};
use crate::config::Config;

/// First line `allow|ask|deny RULE FILE:LINE`; then the definition, what runs,
/// and the environment, taking this process's own as the caller's.
pub(super) fn run(config: &Config, words: &[OsString]) -> ExitCode {
    let Some((name, args)) = words.split_first() else { return ExitCode::from(2) };
    let snapshot = snapshot(config);
    let Some(tool) = name.to_str().and_then(|name| snapshot.tools.get(name)) else {
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
    let home = Homes::new(&config.state_dir).path(&tool.name);
    let cwd = std::env::current_dir().unwrap_or_default();
    let of = Of {
        tool,
        home: home.as_os_str().as_bytes(),
        offered: &offered,
        cwd: cwd.as_os_str().as_bytes(),
        args: &args,
    };
    let rule = if tool.unrestricted() { "unrestricted" } else { "default" };
    say(&format!("{} {rule} {}", tool.default, tool.origin));
    say(&format!("runs: {}", runs(tool)));
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
    say("environment, were this shell the caller:");
    for line in crate::app::environment(config).build(&of) {
        say(&format!("  {}", line.as_bytes().escape_ascii()));
    }
    ExitCode::SUCCESS
}
