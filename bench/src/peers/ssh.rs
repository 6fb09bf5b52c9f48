//! ssh over a connection that is already there (ControlMaster), on loopback: an
//! sshd of our own with its configuration and keys in the scratch directory.
//!
//! HOME is set by that sshd, to the same empty directory as everywhere: so the
//! login shell finds no profile that would slow it (a version manager there
//! costs half a second).

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{SSH, program};
use crate::site::{PATH, Site, Work};
use crate::way::{Running, Way};

pub fn start(site: &Arc<Site>) -> Result<Way, String> {
    let (sshd, ssh, keygen) = (program("sshd")?, program("ssh")?, program("ssh-keygen")?);
    for key in ["ssh-host-key", "ssh-key"] {
        let mut command = site.plain(&keygen);
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &site.text(key)]);
        quiet(&mut command)?;
    }
    std::fs::copy(site.path("ssh-key.pub"), site.path("ssh-authorized")).expect("a copy");
    let port = free_port()?;
    configure(site, port);
    // What the package's service makes at its start.
    let separation = Path::new("/run/sshd");
    // SAFETY: a plain question to the kernel.
    if unsafe { libc::geteuid() } == 0 && !separation.exists() {
        std::fs::create_dir(separation).map_err(|error| format!("/run/sshd: {error}"))?;
    }

    let mut command = site.plain(&sshd);
    command.args(["-D", "-f", &site.text("sshd.conf")]);
    let mut server = Running::start(&mut command)?;
    server.wait_until(&|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    let config = site.text("ssh.conf");
    let mut command = site.plain(&ssh);
    command.args(["-F", &config, "-N", "-o", "ControlMaster=yes", "bench"]);
    let log = std::fs::File::create(site.path("ssh.log")).expect("a file");
    let mut master = Running::with_log(&mut command, log.into())?;
    master.wait_for(&site.path("ssh.control")).map_err(|why| {
        let said = std::fs::read_to_string(site.path("ssh.log")).unwrap_or_default();
        format!("{why}: {}", said.trim().replace('\n', "; "))
    })?;

    let how = "`ssh` over a ControlMaster to an sshd on loopback, login shell without profile";
    let at = site.clone();
    // The master first: with it the session's process of sshd goes.
    Ok(Way::new(SSH, how, vec![master, server], move |work| {
        let mut command = at.plain(&ssh);
        command.args(["-F", &config, "bench", &remote(&at, work)]);
        command
    }))
}

/// What the login shell on the other side is given.
fn remote(site: &Site, work: Work) -> String {
    format!("cd {} && exec {}", site.text("workspace"), work.words().join(" "))
}

fn configure(site: &Site, port: u16) {
    let server = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\n\
         PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
         MaxSessions 1000\nLogLevel ERROR\nPrintMotd no\nSetEnv HOME={} PATH={PATH}\n",
        site.text("ssh-host-key"),
        site.text("ssh-authorized"),
        site.text("home"),
    );
    site.write("sshd.conf", &server);
    let user = Command::new("id").arg("-un").output().expect("id").stdout;
    let client = format!(
        "Host bench\nHostName 127.0.0.1\nPort {port}\nUser {}\nIdentityFile {}\n\
         IdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nLogLevel ERROR\nRequestTTY no\nControlPath {}\n",
        String::from_utf8_lossy(&user).trim(),
        site.text("ssh-key"),
        site.text("ssh.control"),
    );
    site.write("ssh.conf", &client);
}

/// One that nobody has at this moment.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

fn quiet(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{:?}: {}", command.get_program(), String::from_utf8_lossy(&done.stderr).trim()))
}
