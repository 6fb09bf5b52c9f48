//! A registry of packages on loopback: verdaccio, from npm.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::stage::skipped::skipped;

/// What it calls itself in the addresses of archives.
pub(crate) const PUBLIC: &str = "https://registry.npmjs.org/";

const PACKAGE: &str = r#"{
  "name": "registry", "version": "1.0.0", "private": true,
  "dependencies": { "verdaccio": "6.7.4" }, "overrides": { "node-fetch": "2.7.0" }
}"#;

const CONFIG: &str = r"
storage: ./storage
auth: { htpasswd: { file: ./htpasswd, max_users: 10 } }
uplinks: {}
packages:
  '@*/*': { access: $authenticated, publish: $authenticated, unpublish: $authenticated }
  '**': { access: $all, publish: $authenticated, unpublish: $authenticated }
middlewares: { audit: { enabled: false } }
log: { type: stdout, format: pretty, level: error }
";

/// A registry that runs, and the token of its one user.
pub(crate) struct Registry {
    child: Child,
    pub(crate) url: String,
    pub(crate) token: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program, installed once for all runs; the error says why it is not there.
fn installed() -> Result<PathBuf, String> {
    static ONCE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let install = || {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verdaccio-6.7.4");
        let program = dir.join("node_modules/.bin/verdaccio");
        if dir.join("whole").exists() {
            return Ok(program);
        }
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("package.json"), PACKAGE).unwrap();
        let mut npm = Command::new("npm");
        npm.current_dir(&dir).args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
        let output = npm.stdin(Stdio::null()).output().map_err(|error| format!("npm: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8(output.stderr).unwrap_or_default());
        }
        std::fs::write(dir.join("whole"), "").unwrap();
        Ok(program)
    };
    ONCE.get_or_init(install).clone()
}

impl Registry {
    /// `None`, and why, where it cannot be installed.
    pub(crate) fn start(dir: &Path) -> Option<Registry> {
        let program = match installed() {
            Ok(program) => program,
            Err(why) => {
                skipped(
                    "npm against a real registry",
                    &format!("verdaccio cannot be installed: {why}"),
                );
                return None;
            }
        };
        std::fs::write(dir.join("verdaccio.yaml"), CONFIG).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("node");
        command.arg(program).args(["-c", "verdaccio.yaml", "-l", &format!("127.0.0.1:{port}")]);
        command.current_dir(dir).env("VERDACCIO_PUBLIC_URL", PUBLIC).env("HOME", dir);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let mut registry = Registry { child, url, token: String::new() };
        let begun = Instant::now();
        while registry.curl(&["-f", &format!("{}/-/ping", registry.url)]).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "verdaccio does not begin");
            std::thread::sleep(Duration::from_millis(100));
        }
        let user = format!("{}/-/user/org.couchdb.user:me", registry.url);
        let body = r#"{"_id":"org.couchdb.user:me","name":"me","password":"a-long-password","type":"user","roles":[]}"#;
        let json = "content-type: application/json";
        let answer = registry.curl(&["-X", "PUT", "-H", json, "-d", body, &user]);
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        registry.token = answer["token"].as_str().unwrap().to_owned();
        Some(registry)
    }

    fn curl(&self, args: &[&str]) -> Vec<u8> {
        Command::new("curl")
            .args(["-q", "-s", "--noproxy", "*"])
            .args(args)
            .output()
            .unwrap()
            .stdout
    }
}
