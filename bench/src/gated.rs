//! Calls that talk to a server: what their namespaces cost, and `git fetch`
//! through the gate beside `git fetch` from the same forge.
//!
//! Owns: how these are measured. Each way has a clone of its own; in a round with
//! something new both fetch the same commit.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::forge::Forge;
use crate::rounds::{Bound, Series, call, interleaved};
use crate::site::{Site, Work};
use crate::way::Way;

/// The tool that is `/bin/true` with a gate.
pub const NET: &str = "net";
/// The host that the gate knows the forge by.
pub const HOST: &str = "forge.test";

/// What was measured, directly and through the broker.
pub struct Row {
    pub what: What,
    pub direct: Series,
    pub broker: Series,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Net,
    /// `git fetch`; nothing is new there.
    Fetch,
    /// One commit is.
    FetchNew,
}

impl What {
    pub fn name(self) -> &'static str {
        match self {
            What::Net => "`/bin/true`, with a gate",
            What::Fetch => "`git fetch`, nothing new",
            What::FetchNew => "`git fetch`, a new commit",
        }
    }
}

/// All of it, through a server that has the gate.
pub fn measure(site: &Site, forge: &Forge, way: &Way, bound: Bound) -> Result<Vec<Row>, String> {
    let directory = site.path("workspace").join("clones");
    std::fs::create_dir(&directory).map_err(|error| format!("clones: {error}"))?;
    clone(site.plain("/usr/bin/git"), &directory, "direct", &forge.url(), Some(&Forge::header()))?;
    clone(client(way, "git"), &directory, "gate", &format!("https://{HOST}"), None)?;
    let fetch = |at: usize| {
        let (mut git, own) = match at {
            0 => (site.plain("/usr/bin/git"), "direct"),
            _ => (client(way, "git"), "gate"),
        };
        git.args(["fetch", "-q"]).current_dir(directory.join(own));
        call(&mut git)
    };
    let mut rows = Vec::new();
    let nothing = |at: usize| match at {
        0 => call(&mut site.plain("/bin/true")),
        _ => call(client(way, NET).current_dir(site.path("workspace"))),
    };
    let pair = |what, series: Vec<Series>| {
        let [direct, broker] = <[Series; 2]>::try_from(series).expect("two ways");
        Row { what, direct, broker }
    };
    rows.push(pair(What::Net, interleaved(2, bound, nothing)));
    rows.push(pair(What::Fetch, interleaved(2, bound, fetch)));
    rows.push(pair(What::FetchNew, with_new(forge, bound, fetch)?));
    let heads = ["direct", "gate"].map(|own| head(site, &directory.join(own)));
    match heads {
        [Ok(one), Ok(other)] if one == other => Ok(rows),
        other => Err(format!("the clones did not fetch the same: {other:?}")),
    }
}

/// A commit before each round; who is first changes.
fn with_new(
    forge: &Forge,
    bound: Bound,
    fetch: impl Fn(usize) -> (f64, bool),
) -> Result<Vec<Series>, String> {
    let mut series = vec![Series::default(); 2];
    let start = Instant::now();
    for round in 0..bound.rounds {
        if round > 2 && start.elapsed() > bound.time {
            break;
        }
        forge.grow()?;
        for at in [round % 2, (round + 1) % 2] {
            let (took, well) = fetch(at);
            series[at].took.push(took);
            series[at].failed += usize::from(!well);
        }
    }
    Ok(series)
}

fn clone(
    mut git: Command,
    directory: &Path,
    own: &str,
    url: &str,
    configured: Option<&str>,
) -> Result<(), String> {
    git.current_dir(directory).args(["clone", "-q"]);
    if let Some(configured) = configured {
        git.args(["--config", configured]);
    }
    git.args([&format!("{url}/o/r.git"), own]).stdin(Stdio::null());
    let done = git.output().map_err(|error| error.to_string())?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("git clone {own}: {}", String::from_utf8_lossy(&done.stderr).trim())),
    }
}

fn head(site: &Site, clone: &Path) -> Result<String, String> {
    let mut git = site.plain("/usr/bin/git");
    git.args(["rev-parse", "origin/main"]).current_dir(clone);
    let done = git.output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// A command of that name, as the broker's others are.
fn client(way: &Way, name: &str) -> Command {
    let plain = way.command(Work::True);
    let mut command = Command::new(Path::new(plain.get_program()).with_file_name(name));
    command.env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}
