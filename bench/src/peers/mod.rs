//! The peers: other ways to have a program run elsewhere. Each file sets one up
//! in the scratch directory, as its manual says, or says why it cannot be had.
//!
//! Owns: the list. Must not: measure, or leave one out silently.

mod python;
mod s6;
mod socat;
mod ssh;
mod sudo;

use std::sync::Arc;

use crate::site::Site;
use crate::way::Way;

pub const S6: &str = "s6-sudo";
pub const SUDO: &str = "sudo -n";
pub const SOCAT: &str = "socat";
pub const SSH: &str = "ssh, ControlMaster";
pub const PYTHON: &str = "Python, seed protocol";

/// A peer's name, or why it is left out.
pub type Started = (&'static str, Result<Way, String>);

/// All of them, in the order of the tables.
pub fn start(site: &Arc<Site>) -> Vec<Started> {
    vec![
        (S6, s6::start(site)),
        (SUDO, sudo::start(site)),
        (SOCAT, socat::start(site)),
        (SSH, ssh::start(site)),
        (PYTHON, python::start(site)),
    ]
}

/// Where a program is, or that it is not installed.
pub fn program(name: &str) -> Result<String, String> {
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]
        .iter()
        .map(|directory| format!("{directory}/{name}"))
        .find(|path| std::path::Path::new(path).is_file())
        .ok_or_else(|| format!("{name} is not installed"))
}
