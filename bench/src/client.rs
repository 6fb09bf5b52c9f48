//! What the client itself is: its size, its page faults and its system calls in
//! a plain call.

use std::process::{Command, Stdio};

use crate::broker::built;
use crate::site::{Site, Work};
use crate::spawn::{Before, start, wait};
use crate::stats::median;
use crate::way::Way;

#[derive(Clone, Debug)]
pub struct Client {
    pub bytes: u64,
    pub faults: f64,
    /// From execve to exit_group, both counted; or why they are not.
    pub calls: Result<usize, String>,
}

pub fn measure(site: &Site, broker: &Way) -> Client {
    let bytes = std::fs::metadata(built("tool-client")).expect("the client").len();
    let plain = broker.command(Work::True);
    let program = plain.get_program().to_str().expect("a path in UTF-8").to_owned();
    let environment: Vec<String> = plain
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?)))
        .collect();
    // The client says where it is: that has to be in the workspace.
    let before = std::env::current_dir().expect("a directory");
    std::env::set_current_dir(site.path("workspace")).expect("the workspace");
    let faults: Vec<f64> = (0..200)
        .map(|_| {
            let (well, faults) = wait(start(&program, "true", &environment, Before::Nothing));
            assert!(well, "a plain call failed");
            faults as f64
        })
        .collect();
    std::env::set_current_dir(before).expect("where it was before");
    Client { bytes, faults: median(&faults), calls: system_calls(site, &plain) }
}

/// By strace, which writes a line for each.
fn system_calls(site: &Site, plain: &Command) -> Result<usize, String> {
    let lines = site.path("strace");
    let mut command = Command::new(crate::peers::program("strace")?);
    command.arg("-o").arg(&lines).arg(plain.get_program()).env_clear();
    command.current_dir(site.path("workspace"));
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("strace: {error}"))?;
    if !done.status.success() {
        return Err(format!("strace: {}", String::from_utf8_lossy(&done.stderr).trim()));
    }
    let text = std::fs::read_to_string(lines).map_err(|error| error.to_string())?;
    Ok(text.lines().filter(|line| !line.starts_with("+++") && !line.starts_with("---")).count())
}
