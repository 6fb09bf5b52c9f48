//! What stands for the original project: a client and a server in Python with
//! its protocol (one length-prefixed JSON message each way, output collected).

use std::sync::Arc;

use super::{PYTHON, program};
use crate::site::Site;
use crate::way::{Running, Way};

pub fn start(site: &Arc<Site>) -> Result<Way, String> {
    // Not by PATH: a version manager's shim there costs many times the rest.
    let python = program("python3")?;
    site.write("seed_server.py", include_str!("../../peers/seed_server.py"));
    site.write("seed_client.py", include_str!("../../../tests/python/seed_client.py"));
    let socket = site.text("python.socket");
    let mut command = site.plain(&python);
    command.args([&site.text("seed_server.py"), &socket]);
    // Else Python sets LC_CTYPE for itself and all that it starts, and git there
    // would load a locale that it does not load elsewhere.
    command.env("PYTHONCOERCECLOCALE", "0");
    let mut server = Running::start(&mut command)?;
    server.wait_for(&site.path("python.socket"))?;
    let how = "`python3 seed_client.py …` to a threaded server with `subprocess.run`, \
               both started as a user would, without -S, -E or -I";
    let at = site.clone();
    let mut way = Way::new(PYTHON, how, vec![server], move |work| {
        let mut command = at.plain(&python);
        command.arg(at.path("seed_client.py")).args(work.words()).env("TOOL_SOCKET", &socket);
        command
    });
    way.no_bulk = Some("it collects output whole, in one JSON message");
    Ok(way)
}
