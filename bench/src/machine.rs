//! What the figures were made on: machine, kernel, versions, day.

use std::process::Command;

pub struct Machine {
    pub lines: Vec<(&'static str, String)>,
}

impl Machine {
    /// To be called when nothing of the bench runs any more.
    pub fn busy_after(&mut self) {
        self.lines.push(("other work after the run", busy()));
    }
}

/// What others take of all cores, looked at for three seconds.
fn busy() -> String {
    let used_and_all = || {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let times: Vec<f64> =
            first.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
        let all: f64 = times.iter().sum();
        // Idle, and waiting for a disk.
        let idle: f64 = times.iter().skip(3).take(2).sum();
        (all - idle, all)
    };
    let before = used_and_all();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let after = used_and_all();
    let part = (after.0 - before.0) / (after.1 - before.1).max(1.0);
    let warning = if part > 0.1 { ": **not quiet, and so not to be trusted**" } else { "" };
    format!("{:.0} % of the cores{warning}", part * 100.0)
}

pub fn look() -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let system = read("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("");
    let autogroup = read("/proc/sys/kernel/sched_autogroup_enabled");
    Machine {
        lines: vec![
            ("day", said("date", &["-u", "+%Y-%m-%d"])),
            ("machine", format!("{cores} cores, {}, {processor}", said("uname", &["-m"]))),
            ("kernel", format!("{}, sched_autogroup_enabled={autogroup}", said("uname", &["-sr"]))),
            ("system", system.trim_matches('"').to_owned()),
            ("git", said("/usr/bin/git", &["--version"])),
            ("other work before the run", busy()),
        ],
    }
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| "?".into(), |done| String::from_utf8_lossy(&done.stdout).trim().into())
}
