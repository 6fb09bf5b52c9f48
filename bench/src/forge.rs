//! A forge on loopback for `git fetch`: `git http-backend` behind basic
//! authentication, over one bare repository in the scratch directory. The same
//! server for every way to reach it.
//!
//! Owns: serving it, and what is new there. Must not: measure.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::site::Site;

/// `x-access-token:canary-of-the-bench`, and what is behind the colon.
const BASIC: &str = "Basic eC1hY2Nlc3MtdG9rZW46Y2FuYXJ5LW9mLXRoZS1iZW5jaA==";
const TOKEN: &str = "canary-of-the-bench";

/// How many commits its repository begins with, ten files each.
const COMMITS: usize = 50;

/// A running forge; its threads end with the bench.
pub struct Forge {
    port: u16,
    /// The file that the gate takes the password from.
    pub token: PathBuf,
    site: Arc<Site>,
}

impl Forge {
    pub fn start(site: &Arc<Site>) -> Result<Forge, String> {
        let failed = |error: std::io::Error| format!("a forge on loopback: {error}");
        let backend = backend(site)?;
        site.write("token", &format!("{TOKEN}\n"));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(site.path("token"), private).map_err(failed)?;
        let forge = {
            let tcp = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
            let port = tcp.local_addr().map_err(failed)?.port();
            std::thread::spawn(move || {
                for connection in tcp.incoming().flatten() {
                    let backend = backend.clone();
                    std::thread::spawn(move || serve(&connection, &backend));
                }
            });
            Forge { port, token: site.path("token"), site: Arc::clone(site) }
        };
        forge.git(&format!(
            "/usr/bin/git init -q --bare -b main ../forge/o/r.git; cd ../forge/o/r.git; i=0; \
             while [ $i -lt {COMMITS} ]; do i=$((i+1)); echo 'commit refs/heads/main'; \
             echo \"committer b <b@b> $((1700000000+i)) +0000\"; printf 'data 4\\none\\n'; \
             j=0; while [ $j -lt 10 ]; do j=$((j+1)); \
             echo \"M 644 inline f$i-$j\"; printf 'data 12\\nline %06d\\n' $i; done; done | \
             /usr/bin/git fast-import --quiet"
        ))?;
        Ok(forge)
    }

    /// Its address, as an `upstream`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a client that asks it directly sends with each request.
    pub fn header() -> String {
        format!("http.extraHeader=Authorization: {BASIC}")
    }

    /// A commit more, with a file of its own.
    pub fn grow(&self) -> Result<(), String> {
        self.git(
            "cd ../forge/o/r.git; export GIT_AUTHOR_NAME=b GIT_AUTHOR_EMAIL=b@b \
             GIT_COMMITTER_NAME=b GIT_COMMITTER_EMAIL=b@b; \
             old=$(/usr/bin/git rev-parse main); \
             one=$(echo $old | /usr/bin/git hash-object -w --stdin); \
             tree=$(printf '100644 blob %s\\tnew\\n' $one | /usr/bin/git mktree); \
             new=$(/usr/bin/git commit-tree -p $old -m more $tree); \
             /usr/bin/git update-ref refs/heads/main $new $old",
        )
    }

    fn git(&self, script: &str) -> Result<(), String> {
        let done = self.site.plain("/bin/sh").args(["-ec", script]).output();
        let done = done.map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(()),
            false => {
                Err(format!("the forge's git: {}", String::from_utf8_lossy(&done.stderr).trim()))
            }
        }
    }
}

/// The backend's command, but for what a request says.
#[derive(Clone)]
struct Backend {
    program: PathBuf,
    root: PathBuf,
    home: PathBuf,
}

/// Itself, not by way of `git`: what serves is to take as little as it can.
fn backend(site: &Site) -> Result<Backend, String> {
    let said = site.plain("/usr/bin/git").arg("--exec-path").output();
    let said = said.map_err(|error| format!("git --exec-path: {error}"))?;
    let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let program = path.join("git-http-backend");
    if !program.is_file() {
        return Err("git http-backend is not installed".to_owned());
    }
    Ok(Backend { program, root: site.path("forge"), home: site.path("home") })
}

/// The requests of one connection.
fn serve(stream: &TcpStream, backend: &Backend) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut from, mut to) = (BufReader::new(stream), stream);
    loop {
        let mut first = String::new();
        if from.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let mut headers = Vec::new();
        loop {
            let mut header = String::new();
            from.read_line(&mut header).ok()?;
            match header.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        let value = |name: &str| {
            let found = headers.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        let body = body(&mut from, value("content-length"), value("transfer-encoding"))?;
        let reply = if value("authorization").as_deref() == Some(BASIC) {
            backend.reply(first.rsplit_once(' ')?.0, &value, &body)?
        } else {
            let head = "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=\"forge\"\r\nContent-Length: 0\r\n\r\n";
            head.as_bytes().to_vec()
        };
        to.write_all(&reply).ok()?;
    }
}

impl Backend {
    /// As a CGI program has it.
    fn reply(
        &self,
        line: &str,
        value: &dyn Fn(&str) -> Option<String>,
        body: &[u8],
    ) -> Option<Vec<u8>> {
        let (method, target) = line.split_once(' ')?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", crate::site::PATH).env("HOME", &self.home);
        command.env("GIT_PROJECT_ROOT", &self.root).env("GIT_HTTP_EXPORT_ALL", "1");
        command.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
        command.env("REMOTE_USER", "bench").env("REMOTE_ADDR", "127.0.0.1");
        command.env("CONTENT_LENGTH", body.len().to_string());
        for (name, header) in [
            ("CONTENT_TYPE", "content-type"),
            ("HTTP_CONTENT_ENCODING", "content-encoding"),
            ("GIT_PROTOCOL", "git-protocol"),
        ] {
            if let Some(value) = value(header) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        // What fetches ask fits into a pipe.
        child.stdin.take()?.write_all(body).ok()?;
        let mut said = Vec::new();
        child.stdout.take()?.read_to_end(&mut said).ok()?;
        child.wait().ok()?;
        let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, content) = (String::from_utf8_lossy(said.get(..end)?), said.get(end + 4..)?);
        let mut status = "200 OK";
        let mut others = String::new();
        for header in head.lines() {
            match header.strip_prefix("Status: ") {
                Some(other) => status = other,
                None => others.extend([header, "\r\n"]),
            }
        }
        let length = content.len();
        let head = format!("HTTP/1.1 {status}\r\n{others}Content-Length: {length}\r\n\r\n");
        Some([head.as_bytes(), content].concat())
    }
}

fn body(
    from: &mut impl BufRead,
    length: Option<String>,
    coding: Option<String>,
) -> Option<Vec<u8>> {
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    from.read_exact(&mut body).ok()?;
    let mut chunked = coding.is_some_and(|coding| coding.contains("chunked"));
    while chunked {
        let mut size = String::new();
        from.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        from.read_exact(&mut chunk).ok()?;
        body.extend_from_slice(chunk.get(..size)?);
        chunked = size > 0;
    }
    Some(body)
}
