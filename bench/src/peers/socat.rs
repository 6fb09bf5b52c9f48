//! socat: a listener for each work, which forks and executes it; the client
//! copies. There is no exit code, and no argument from the caller.

use std::sync::Arc;

use super::{SOCAT, program};
use crate::site::{Site, Work};
use crate::way::{Running, Way};

const WORKS: [Work; 5] = [Work::True, Work::Version, Work::Status, Work::Where, Work::Bulk];

pub fn start(site: &Arc<Site>) -> Result<Way, String> {
    let socat = program("socat")?;
    let mut running = Vec::new();
    for work in WORKS {
        let socket = socket(site, work);
        let mut command = site.plain(&socat);
        command.arg(format!("UNIX-LISTEN:{socket},fork,backlog=1024"));
        command.arg(format!("EXEC:{}", work.words().join(" ")));
        let mut listener = Running::start(&mut command)?;
        listener.wait_for(std::path::Path::new(&socket))?;
        running.push(listener);
    }
    let how = "`socat - UNIX-CONNECT:…` to `socat UNIX-LISTEN:…,fork EXEC:…`; no exit code";
    let at = site.clone();
    let mut way = Way::new(SOCAT, how, running, move |work| {
        let mut command = at.plain(&socat);
        command.args(["-", &format!("UNIX-CONNECT:{}", socket(&at, work))]);
        command
    });
    way.exit_code = false;
    Ok(way)
}

fn socket(site: &Site, work: Work) -> String {
    site.text(&format!("socat-{work:?}"))
}
