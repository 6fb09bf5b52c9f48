//! A forge on loopback, `git http-backend` behind basic authentication, and a
//! workspace whose git reaches it through the gate alone.
#![allow(dead_code, clippy::disallowed_methods, reason = "not every test needs all of it")]

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request as Asked, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tool_gate::serve::Came;
use tool_gate::upstream::Upstream;
use tool_gate::{Answer, Request};
use tool_policy::definition::gate::{Adapter, Gate};

use crate::stage::{Stage, TOKEN, credential, gate};

/// The gits of this machine.
pub(crate) fn gits() -> Vec<&'static str> {
    let all = ["/usr/bin/git", "/usr/local/bin/git"];
    let found: Vec<_> = all.into_iter().filter(|path| Path::new(path).exists()).collect();
    assert!(!found.is_empty(), "there is no git");
    found
}

/// A forge that only answers who has the token.
pub(crate) struct Forge {
    pub(crate) address: SocketAddr,
    pub(crate) root: PathBuf,
    /// What it was asked: method, target, and `Git-Protocol`.
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    /// Where the large files lie; nowhere at first.
    pub(crate) storage: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forge {
    pub(crate) async fn start(git: &'static str, root: PathBuf) -> Forge {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, place) = (Arc::clone(&seen), root.clone());
        let storage = Arc::new(Mutex::new(String::new()));
        let files = Arc::clone(&storage);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (kept, place) = (Arc::clone(&kept), place.clone());
                let files = Arc::clone(&files);
                let service = service_fn(move |request| {
                    let (kept, place) = (Arc::clone(&kept), place.clone());
                    let files = files.lock().unwrap().clone();
                    async move { Ok::<_, Infallible>(answer(git, place, kept, files, request).await) }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Forge { address, root, seen, storage, task }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| seen.line.clone()).collect()
    }

    /// The requests whose line has this in it.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(part)).count()
    }

    /// What a ref of a repository is; empty where there is none.
    pub(crate) fn tip(&self, name: &str, reference: &str) -> String {
        let mut git = Command::new("/usr/bin/git");
        git.arg("-C").arg(self.root.join(format!("{name}.git")));
        git.args(["-c", "safe.directory=*", "rev-parse", "-q", "--verify", reference]);
        String::from_utf8(git.output().unwrap().stdout).unwrap().trim().to_owned()
    }
}

async fn answer(
    git: &'static str,
    root: PathBuf,
    kept: Arc<Mutex<Vec<Seen>>>,
    files: String,
    request: Asked<Incoming>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let line = format!("{} {}", head.method, head.uri);
    let seen = Seen { line, headers: head.headers.clone(), body: body.clone() };
    kept.lock().unwrap().push(seen);
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let wanted = format!("Basic {}", STANDARD.encode(format!("x-access-token:{TOKEN}")));
    if header("authorization") != Some(wanted.as_str()) {
        let answer = Response::builder().status(StatusCode::UNAUTHORIZED);
        let answer = answer.header("WWW-Authenticate", "Basic realm=\"forge\"");
        return answer.body(Full::new(Bytes::from_static(b"who?"))).unwrap();
    }
    if let Some((_, rest)) = head.uri.path().split_once("/info/lfs/") {
        let own = format!("http://{}", header("host").unwrap());
        return large(rest, &body, &files, &own);
    }
    let mut backend = Command::new(git);
    backend.arg("http-backend").env_clear().env("PATH", "/usr/bin:/bin");
    backend.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory");
    backend.env("GIT_CONFIG_VALUE_0", "*").env("REMOTE_USER", "forge");
    backend.env("REQUEST_METHOD", head.method.as_str()).env("PATH_INFO", head.uri.path());
    backend.env("QUERY_STRING", head.uri.query().unwrap_or_default());
    backend.env("CONTENT_LENGTH", body.len().to_string());
    for (name, value) in [
        ("CONTENT_TYPE", header("content-type")),
        ("HTTP_CONTENT_ENCODING", header("content-encoding")),
        ("GIT_PROTOCOL", header("git-protocol")),
    ] {
        if let Some(value) = value {
            backend.env(name, value);
        }
    }
    let output = tokio::task::spawn_blocking(move || fed(backend, &body)).await.unwrap();
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
    let (head, content) = output.split_at(end);
    let mut answer = Response::builder();
    for line in std::str::from_utf8(head).unwrap().split("\r\n") {
        match line.split_once(": ") {
            Some(("Status", status)) => answer = answer.status(&status[..3]),
            Some((name, value)) => answer = answer.header(name, value),
            None => {}
        }
    }
    let content = content.strip_prefix(b"\r\n\r\n").unwrap_or_default().to_vec();
    answer.body(Full::new(content.into())).unwrap()
}

/// What the storage wants to see.
pub(crate) const FILES_TOKEN: &str = "canary-files-9a31";

/// LFS: the files lie at another host, which wants another token; that they have come
/// is told here.
fn large(rest: &str, body: &[u8], files: &str, own: &str) -> Response<Full<Bytes>> {
    use serde_json::{Value, json};
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let reply = match rest {
        "objects/batch" => {
            let link = |object: &Value| {
                let oid = object["oid"].as_str().unwrap();
                let href = format!("{files}/{oid}?signature=canary-signature");
                let there = json!({ "href": href, "header": { "X-Files": FILES_TOKEN } });
                let verify = json!({ "href": format!("{own}/o/r.git/info/lfs/come") });
                let actions = match said["operation"].as_str() {
                    Some("upload") => json!({ "upload": there, "verify": verify }),
                    _ => json!({ "download": there }),
                };
                json!({ "oid": oid, "size": object["size"], "actions": actions })
            };
            let objects: Vec<Value> =
                said["objects"].as_array().unwrap().iter().map(link).collect();
            json!({ "transfer": "basic", "objects": objects })
        }
        "locks" => {
            json!({ "locks": [], "lock": { "id": "1", "path": said["path"], "locked_at": "2026-01-01T00:00:00Z" } })
        }
        "locks/verify" => json!({ "ours": [], "theirs": [] }),
        "come" => json!({}),
        other => panic!("{other}"),
    };
    let status = if rest == "locks" && !body.is_empty() { 201 } else { 200 };
    let answer = Response::builder().status(status);
    let answer = answer.header("Content-Type", "application/vnd.git-lfs+json");
    answer.body(Full::new(reply.to_string().into())).unwrap()
}

/// What a program says when it is told this.
fn fed(mut command: Command, input: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let mut said = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    child.wait().unwrap();
    writer.join().unwrap();
    said
}

/// What a program did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A forge, a gate before it, and a workspace.
pub(crate) struct Town {
    pub(crate) git: &'static str,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) forge: Forge,
    pub(crate) stage: Stage,
}

/// Who decides, in a test.
pub(crate) type Decide = Box<dyn Fn(&Request) -> Vec<Answer> + Send + Sync>;

/// Everything is allowed.
pub(crate) fn all() -> Decide {
    Box::new(|request| vec![Answer::Allowed; request.parts.len()])
}

/// What fits is refused, by the rule `test-rule`.
pub(crate) fn but(refused: fn(&tool_gate::Part) -> bool) -> Decide {
    Box::new(move |request| {
        let answer = |part: &tool_gate::Part| match refused(part) {
            true => Answer::Refused {
                rule: "test-rule".to_owned(),
                reason: "this branch is kept".to_owned(),
                instead: Some("push another one".to_owned()),
            },
            false => Answer::Allowed,
        };
        request.parts.iter().map(answer).collect()
    })
}

/// Whether the part is about this ref.
pub(crate) fn is_ref(part: &tool_gate::Part, name: &str) -> bool {
    match part.facts.get("ref") {
        tool_policy::facts::Value::Texts(texts) => {
            texts.iter().flat_map(|text| text.names()).any(|one| one == name.as_bytes())
        }
        _ => false,
    }
}

/// Whether the part says so of this fact.
pub(crate) fn is_so(part: &tool_gate::Part, fact: &str) -> bool {
    *part.facts.get(fact) == tool_policy::facts::Value::Flag(true)
}

impl Town {
    /// `o/r` with one commit on main, cloned to `work`; may push.
    pub(crate) async fn new(git: &'static str, decide: Decide) -> Town {
        Town::with(git, true, decide, |_| {}).await
    }

    pub(crate) async fn with(
        git: &'static str,
        push: bool,
        decide: Decide,
        change: impl FnOnce(&mut Gate),
    ) -> Town {
        Town::of(git, push, decide, |mut gate| {
            change(&mut gate);
            vec![gate]
        })
        .await
    }

    /// With these gates, made from the usual one.
    pub(crate) async fn of(
        git: &'static str,
        push: bool,
        decide: Decide,
        gates: impl FnOnce(Gate) -> Vec<Gate>,
    ) -> Town {
        let dir = tempfile::tempdir().unwrap();
        let forge = Forge::start(git, dir.path().join("forge")).await;
        let mut one = gate(Adapter::Git, &["github.com"]);
        one.upstream = Some(format!("http://{}", forge.address));
        one.credential = credential(&dir);
        let stage = Stage::of(gates(one), Upstream::default(), push, Came::Proxy, decide).await;
        let town = Town { git, dir, forge, stage };
        town.bare("o/r").await;
        town
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A bare repository of the forge, with one commit on main.
    pub(crate) async fn bare(&self, name: &str) {
        let path = self.forge.root.join(format!("{name}.git"));
        let seed = self.path("seed");
        if !seed.exists() {
            std::fs::create_dir(&seed).unwrap();
            self.good(&["init", "-q", "-b", "main"], "seed").await;
            self.commit("seed", "one", "one\n").await;
        }
        let path = path.to_str().unwrap();
        self.good(&["clone", "-q", "--bare", "seed", path], ".").await;
        for (key, value) in [
            ("http.receivepack", "true"),
            ("uploadpack.allowFilter", "true"),
            ("receive.advertisePushOptions", "true"),
            ("receive.certNonceSeed", "seed"),
        ] {
            self.good(&["-C", path, "config", key, value], ".").await;
        }
    }

    /// git in a directory of the workspace, by the gate.
    pub(crate) async fn run(&self, args: &[&str], place: &str) -> Outcome {
        self.run_with(args, place, &[]).await
    }

    pub(crate) async fn run_with(
        &self,
        args: &[&str],
        place: &str,
        set: &[(&str, &str)],
    ) -> Outcome {
        let mut command = Command::new(self.git);
        command.args(args).current_dir(self.path(place)).env_clear();
        self.surround(&mut command);
        command.envs(set.iter().copied());
        output(command).await
    }

    /// The variables that a call of git has.
    pub(crate) fn surround(&self, command: &mut Command) {
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.dir.path());
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
        for (name, value) in [
            ("GIT_AUTHOR_NAME", "a"),
            ("GIT_AUTHOR_EMAIL", "a@example.com"),
            ("GIT_COMMITTER_NAME", "c"),
            ("GIT_COMMITTER_EMAIL", "c@example.com"),
        ] {
            command.env(name, value);
        }
        let proxy = self.stage.proxy();
        let settings: [(&str, &str); 8] = [
            ("url.http://github.com/.insteadOf", "https://github.com/"),
            ("url.http://github.com/.insteadOf", "git@github.com:"),
            ("url.http://github.com/.insteadOf", "ssh://git@github.com/"),
            ("http.proxy", &proxy),
            ("http.proxyAuthMethod", "basic"),
            ("http.followRedirects", "false"),
            ("credential.helper", ""),
            ("protocol.file.allow", "always"),
        ];
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (at, (key, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{at}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
    }

    /// The same, which has to go well; what it printed.
    pub(crate) async fn good(&self, args: &[&str], place: &str) -> String {
        let outcome = self.run(args, place).await;
        assert_eq!(outcome.code, 0, "{} {args:?}: {outcome:?}", self.git);
        outcome.out.trim_end().to_owned()
    }

    /// Writes a file and commits it.
    pub(crate) async fn commit(&self, place: &str, file: &str, text: &str) -> String {
        std::fs::write(self.path(place).join(file), text).unwrap();
        self.good(&["add", "."], place).await;
        self.good(&["commit", "-qm", text.trim()], place).await;
        self.good(&["rev-parse", "HEAD"], place).await
    }

    /// `o/r` in `work`.
    pub(crate) async fn cloned(&self) {
        self.good(&["clone", "-q", "https://github.com/o/r.git", "work"], ".").await;
    }

    /// What the judge was asked about pushes: one line for each ref.
    pub(crate) fn pushed(&self) -> Vec<String> {
        let asked = self.stage.asked();
        let pushes = asked.iter().filter(|request| request.subcommand == ["push"]);
        pushes.flat_map(|request| &request.parts).map(|part| part.shown.clone()).collect()
    }
}

pub(crate) async fn output(mut command: Command) -> Outcome {
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Whether the token is anywhere beneath a directory, but in the file that it is from.
pub(crate) fn holds_token(dir: &Path) -> bool {
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if path.is_file() && path.file_name() != Some(OsStr::new("token")) {
                let text = std::fs::read(&path).unwrap();
                if text.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()) {
                    return true;
                }
            }
        }
    }
    false
}
