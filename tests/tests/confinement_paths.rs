//! What a tool puts where the server looks, its HOME and paths of its definition,
//! leads the server to nothing that the tool could not reach before.

mod confinement_help;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use confinement_help::ORDINARY;
use serde_json::{Value, json};
use tool_broker_tests::{Server, skipped};

fn say(server: &Server, tool: &str, script: &str) -> String {
    let request = json!({"tool":tool,"args":["-c",script],"cwd":server.ws()});
    let reply = server.connect().call(&request);
    reply["stdout"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn what_a_tool_moves_into_its_home_stays_whose_it_is() {
    const NAME: &str = "what_a_tool_moves_into_its_home_stays_whose_it_is";
    if !nix::unistd::geteuid().is_root() {
        return skipped(NAME, "files of two users cannot be made");
    }
    let server = Server::start(|s| {
        chown(s.ws(), Some(ORDINARY), Some(ORDINARY)).expect("chown");
        s.file("ws/secret", "canary", 0o600);
    });
    let level: Value = server.status()["confinement"]["uid"].clone();
    if level != json!("owner") {
        return skipped(NAME, "uids cannot be switched here");
    }
    let moved = "mv secret $HOME/secret && rm -r $HOME/tmp && ln -s . $HOME/tmp && echo moved";
    assert_eq!(say(&server, "sh", moved), "moved\n");
    assert_eq!(say(&server, "sh", "cat $HOME/secret 2>/dev/null; :"), "");
    assert_eq!(fs::metadata(server.path("state/home/sh/secret")).expect("secret").uid(), 0);
    // A TMPDIR that is gone is made again, and is the tool's.
    let script = "rm $HOME/tmp; echo gone";
    assert_eq!(say(&server, "sh", script), "gone\n");
    assert_eq!(say(&server, "sh", "echo x > $TMPDIR/x && cat $TMPDIR/x"), "x\n");
    let made = fs::metadata(server.path("state/home/sh/tmp")).expect("tmp");
    assert_eq!((made.uid(), made.permissions().mode() & 0o777), (ORDINARY, 0o700));
}

#[test]
fn a_path_of_a_definition_that_a_tool_can_replace_leads_nowhere() {
    let server = Server::start(|s| {
        let path = |name: &str| s.path(name).display().to_string();
        let read = format!("[{:?}, {:?}]", path("ws/cache"), path("shared/link"));
        let write = format!("[{:?}, {:?}]", path("shared"), path("shared/deep"));
        let definition =
            format!("binary = \"/bin/sh\"\n[sandbox]\nread = {read}\nwrite = {write}\n");
        s.tool("reads", &definition);
        s.file("outside/secret", "canary", 0o644);
        s.file("shared/own", "own", 0o644);
    });
    let outside = server.path("outside").display().to_string();
    let shared = server.path("shared").display().to_string();
    let look = format!("cat {outside}/secret 2>/dev/null; cat {shared}/own");
    assert_eq!(say(&server, "reads", &look), "own");
    for name in ["cache", &format!("{shared}/link"), &format!("{shared}/deep")] {
        for target in ["/", &outside] {
            assert_eq!(
                say(&server, "reads", &format!("ln -sfn {target} {name} && echo made")),
                "made\n"
            );
            assert_eq!(say(&server, "reads", &look), "own", "{name} {target}");
        }
    }
}

#[test]
fn a_path_that_another_tool_can_replace_leads_nowhere_either() {
    let server = Server::start(|s| {
        let path = |name: &str| s.path(name).display().to_string();
        let sh = "binary = \"/bin/sh\"\n";
        // What one may write, and its HOME; the other one names what lies in it.
        s.tool("writes", &format!("{sh}[sandbox]\nwrite = [{:?}]\n", path("shared")));
        let named = format!("{:?}, {:?}", path("shared/link"), path("shared/deep"));
        let whole = path("shared");
        s.tool("reads", &format!("{sh}[sandbox]\nread = [{named}, {whole:?}]\n"));
        s.tool("writes2", &format!("{sh}[sandbox]\nwrite = [{named}]\n"));
        s.file("outside/secret", "canary", 0o644);
        s.file("shared/own", "own", 0o666);
        s.file("shared/deep/own", "", 0o666);
        for name in ["shared", "shared/deep", "outside"] {
            fs::set_permissions(s.path(name), fs::Permissions::from_mode(0o777)).expect("chmod");
        }
        // A directory of PATH in a HOME: every tool would read what it leads to.
        let bin = path("state/home/writes/bin");
        s.env("TOOL_ENV_PATH", format!("/usr/bin:/bin:{bin}"));
    });
    let at = |name: &str| server.path(name).display().to_string();
    let (outside, shared) = (at("outside"), at("shared"));
    let look = format!("cat {outside}/secret; echo x > {outside}/made; :");
    let plant = format!(
        "rm -rf {shared}/deep; for name in {shared}/link {shared}/deep $HOME/bin; \
         do ln -sfn {outside} $name || exit; done; echo made"
    );
    assert_eq!(say(&server, "writes", &plant), "made\n");
    for tool in ["reads", "writes2", "sh"] {
        assert_eq!(say(&server, tool, &look), "", "{tool}");
    }
    assert!(!server.path("outside/made").exists());
    // What is named itself is reached, and what is left out is told of.
    assert_eq!(say(&server, "reads", &format!("cat {shared}/own")), "own");
    let told = server.status()["attention"].to_string();
    let line = |tool: &str| format!("{tool}: {shared}/deep is out of its reach");
    assert!(told.contains(&line("reads")) && told.contains(&line("writes2")), "{told}");
    // What was writable once may hold such a link still.
    let alone = format!("binary = \"/bin/sh\"\n[sandbox]\nread = [{:?}]\n", at("shared/link"));
    fs::remove_dir_all(server.path("tools.d/writes")).expect("rm");
    server.tool("later", &alone);
    assert_eq!(say(&server, "later", &look), "");
}

#[test]
fn who_moves_a_directory_or_its_root_is_nobody_else_by_that() {
    const NAME: &str = "who_moves_a_directory_or_its_root_is_nobody_else_by_that";
    if !nix::unistd::geteuid().is_root() {
        return skipped(NAME, "there is one user alone");
    }
    let server = Server::start(|s| chown(s.ws(), Some(ORDINARY), Some(ORDINARY)).expect("chown"));
    if server.status()["confinement"]["uid"] != json!("owner") {
        return skipped(NAME, "uids cannot be switched here");
    }
    let own = format!("{ORDINARY}\n");
    assert_eq!(say(&server, "sh", "id -u"), own);
    let request = json!({"tool":"sh","args":["-c","id -u"],"cwd":server.ws()});
    fs::rename(server.ws(), server.path("moved")).expect("rename");
    let reply = server.connect().call(&request);
    assert_eq!(reply["code"], json!("cwd_outside"), "{reply}");
    fs::rename(server.path("moved"), server.ws()).expect("rename");
    assert_eq!(say(&server, "sh", "id -u"), own);
}

#[test]
fn what_a_tool_of_the_servers_user_lays_open_is_told_of() {
    let server = Server::start(|s| {
        if nix::unistd::geteuid().is_root() {
            s.uid(ORDINARY);
        }
    });
    assert_eq!(server.status()["confinement"]["uid"], json!("shared"));
    let missing = server.status()["confinement"]["missing"].to_string();
    assert!(missing.contains("mode and times") && missing.contains("CAP_SETUID"), "{missing}");
    let audit = server.path("state/audit/audit.jsonl").display().to_string();
    let told = || server.status()["attention"].to_string();
    assert!(!told().contains("open to others"), "{}", told());
    // Nothing holds that; its bytes are held.
    let said = say(&server, "sh", &format!("chmod 666 {audit} && echo done; cat {audit}; :"));
    assert_eq!(said, "done\n");
    assert!(told().contains(&format!("{audit} is open to others (mode 0666)")), "{}", told());
}
