//! s6-sudo: the client passes its descriptors over a Unix socket; s6-ipcserver
//! accepts and starts an s6-sudod for each connection, which runs the program.

use std::sync::Arc;

use super::{S6, program};
use crate::site::Site;
use crate::way::{Running, Way};

pub fn start(site: &Arc<Site>) -> Result<Way, String> {
    let (server, sudod, client) =
        (program("s6-ipcserver")?, program("s6-sudod")?, program("s6-sudo")?);
    let socket = site.text("s6.socket");
    // As many at once as it can (1000), instead of 40.
    let mut command = site.plain(&server);
    command.args(["-c", "1000", "-b", "1024", &socket, &sudod]);
    let mut running = Running::start(&mut command)?;
    running.wait_for(&site.path("s6.socket"))?;
    let how = "`s6-sudo SOCKET …` to `s6-ipcserver -c 1000 SOCKET s6-sudod`";
    let at = site.clone();
    Ok(Way::new(S6, how, vec![running], move |work| {
        let mut command = at.plain(&client);
        command.arg(&socket).args(work.words());
        command
    }))
}
