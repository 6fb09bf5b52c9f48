//! A forge on loopback: `git http-backend` behind basic authentication, over
//! bare repositories in a directory of its own; and what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::run;

/// One request that it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `METHOD PATH?QUERY`.
    pub line: String,
    /// The header Authorization.
    pub authorization: Option<String>,
    /// It came with the password that the forge wants.
    pub known: bool,
    /// All header lines.
    pub headers: Vec<String>,
}

/// A running forge; it ends with the test.
#[derive(Clone, Debug)]
pub struct Forge {
    pub port: u16,
    root: PathBuf,
    password: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Forge {
    /// Serves the repositories beneath `root` to whoever has the password, as
    /// any user; to everybody where it is empty.
    pub fn start(root: &Path, password: &str) -> Forge {
        std::fs::create_dir_all(root).expect("the forge's directory");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let password = password.to_owned();
        let forge = Forge { port, root: root.to_owned(), password, asked: Arc::default() };
        let one = forge.clone();
        thread::spawn(move || {
            for connection in tcp.incoming().flatten() {
                let forge = one.clone();
                thread::spawn(move || while forge.serve(&connection).is_some() {});
            }
        });
        forge
    }

    /// Its address, as an `upstream`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A bare repository `OWNER/NAME` that takes pushes, with one commit on main.
    pub fn repository(&self, name: &str) -> PathBuf {
        let bare = self.root.join(format!("{name}.git"));
        let script = format!(
            "git init -q --bare -b main '{bare}' && git -C '{bare}' config http.receivepack true && \
             git -C '{bare}' config uploadpack.allowFilter true && \
             git -C '{bare}' config uploadpack.allowAnySHA1InWant true && \
             git -C '{bare}' config receive.advertisePushOptions true && \
             tree=$(printf '' | git -C '{bare}' mktree) && \
             one=$(git -C '{bare}' -c user.name=f -c user.email=f@example.org commit-tree -m one $tree) && \
             git -C '{bare}' update-ref refs/heads/main $one",
            bare = bare.display()
        );
        let mut sh = Command::new("/bin/sh");
        sh.args(["-ec", &script]).env("HOME", "/nonexistent");
        let outcome = run(&mut sh, b"");
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        bare
    }

    /// `REF OBJECT` lines of a repository.
    pub fn refs(&self, name: &str) -> String {
        let mut git = Command::new("git");
        let bare = self.root.join(format!("{name}.git"));
        git.arg("-C").arg(bare).args(["for-each-ref", "--format=%(refname) %(objectname)"]);
        run(&mut git, b"").out()
    }

    /// What it was asked since this was last called.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().expect("not poisoned"))
    }

    /// One request; `None` ends the connection.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut from = BufReader::new(stream);
        let mut first = String::new();
        if from.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let mut headers = Vec::new();
        loop {
            let mut header = String::new();
            from.read_line(&mut header).ok()?;
            let header = header.trim_end().to_owned();
            if header.is_empty() {
                break;
            }
            headers.push(header);
        }
        let value = |name: &str| {
            headers.iter().find_map(|header| {
                let (key, value) = header.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let mut to = stream;
        if value("expect").is_some() {
            to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        let body = body(&mut from, value("content-length"), value("transfer-encoding"))?;
        let authorization = value("authorization");
        let open = self.password.is_empty();
        let known = open || authorization.as_deref().is_some_and(|said| self.knows(said));
        let line = first.rsplit_once(' ')?.0.to_owned();
        let asked = Asked { line: line.clone(), authorization, known, headers: headers.clone() };
        self.asked.lock().ok()?.push(asked);
        if !known {
            let head = "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=\"forge\"\r\nContent-Length: 0\r\n\r\n";
            return to.write_all(head.as_bytes()).ok();
        }
        if let Some(said) = self.beside(&line) {
            return to.write_all(said.as_bytes()).ok();
        }
        let (head, reply) = self.backend(&line, &value, &body)?;
        to.write_all(&head).ok()?;
        to.write_all(&reply).ok()
    }

    /// What attacks ask of it beside git: a link elsewhere (`?to=URL`), a batch of large
    /// files, a registry's page that makes tokens. What is secret in each is the password.
    fn beside(&self, line: &str) -> Option<String> {
        let secret = &self.password;
        if let Some((_, to)) = line.split_once("?to=") {
            return Some(format!(
                "HTTP/1.1 302 Found\r\nLocation: {to}?signature={secret}\r\nContent-Length: 0\r\n\r\n"
            ));
        }
        let body = match line {
            "POST /-/npm/v1/tokens" => serde_json::json!({ "token": secret }),
            line if line.ends_with("/info/lfs/objects/batch") => {
                let href = format!("http://files.example/x?signature={secret}");
                let header = serde_json::json!({ "Authorization": format!("Bearer {secret}") });
                let download = serde_json::json!({ "href": href, "header": header });
                let object = serde_json::json!({ "oid": "ab".repeat(32), "size": 1,
                    "actions": { "download": download } });
                serde_json::json!({ "objects": [object] })
            }
            _ => return None,
        };
        let body = body.to_string();
        Some(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    }

    fn knows(&self, authorization: &str) -> bool {
        let Some((_, encoded)) = authorization.split_once(' ') else { return false };
        let mut base64 = Command::new("base64");
        let plain = run(base64.arg("-d"), encoded.as_bytes()).out();
        plain.split_once(':').is_some_and(|(_, password)| password == self.password)
            || encoded == self.password
    }

    /// Runs the backend as a CGI program.
    fn backend(
        &self,
        line: &str,
        value: &dyn Fn(&str) -> Option<String>,
        body: &[u8],
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let (method, target) = line.split_once(' ')?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut backend = Command::new("git");
        backend.arg("http-backend").env_clear();
        backend.env("PATH", std::env::var_os("PATH")?).env("HOME", "/nonexistent");
        backend.env("GIT_PROJECT_ROOT", &self.root).env("GIT_HTTP_EXPORT_ALL", "1");
        backend.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
        backend.env("REMOTE_USER", "forge").env("REMOTE_ADDR", "127.0.0.1");
        for (count, key) in ["safe.directory"].into_iter().enumerate() {
            backend.env("GIT_CONFIG_COUNT", (count + 1).to_string());
            backend.env(format!("GIT_CONFIG_KEY_{count}"), key);
            backend.env(format!("GIT_CONFIG_VALUE_{count}"), "*");
        }
        backend.env("CONTENT_LENGTH", body.len().to_string());
        for (name, header) in [
            ("CONTENT_TYPE", "content-type"),
            ("HTTP_CONTENT_ENCODING", "content-encoding"),
            ("HTTP_GIT_PROTOCOL", "git-protocol"),
            ("GIT_PROTOCOL", "git-protocol"),
        ] {
            if let Some(value) = value(header) {
                backend.env(name, value);
            }
        }
        backend.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = backend.spawn().ok()?;
        let mut input = child.stdin.take()?;
        let fed = body.to_vec();
        let feeder = thread::spawn(move || drop(input.write_all(&fed)));
        let mut said = Vec::new();
        child.stdout.take()?.read_to_end(&mut said).ok()?;
        child.wait().ok()?;
        feeder.join().ok()?;
        let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&said[..end]).into_owned();
        let reply = said[end + 4..].to_vec();
        let status = head
            .lines()
            .find_map(|line| line.strip_prefix("Status: "))
            .unwrap_or("200 OK")
            .to_owned();
        let others: String = head
            .lines()
            .filter(|line| !line.starts_with("Status: "))
            .map(|line| format!("{line}\r\n"))
            .collect();
        let head = format!("HTTP/1.1 {status}\r\n{others}Content-Length: {}\r\n\r\n", reply.len());
        Some((head.into_bytes(), reply))
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
        body.extend_from_slice(&chunk[..size]);
        chunked = size > 0;
    }
    Some(body)
}
