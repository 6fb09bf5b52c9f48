//! tools.d as a cluster's node mounts it: a directory that anybody may write to
//! (the mount is read-only), in it `..data`, a symlink to a directory of a date,
//! which is swapped for another one in one step.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, is_root, run, skipped, still_works};

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("chmod");
}

/// What kubelet keeps beneath a pod's volume.
struct Volume {
    path: PathBuf,
    generation: u32,
}

impl Volume {
    /// Root's, as kubelet makes it: 0777 with the group of the pod's volumes, and
    /// for each key a symlink through `..data`.
    fn new(setup: &mut Setup) -> Volume {
        let path = setup.path("volume");
        fs::create_dir(&path).expect("volume");
        mode(&path, 0o2777);
        setup.env("TOOLS_DIR", path.join("..data"));
        let mut volume = Volume { path, generation: 0 };
        let sh = "{\"binary\":\"/bin/sh\"}";
        volume.swap(&[("sh/tool.json", sh), ("t/tool.toml", &tool("one"))]);
        for name in ["sh", "t"] {
            symlink(format!("..data/{name}"), volume.path.join(name)).expect("symlink");
        }
        volume
    }

    /// As kubelet's writer does it: a new directory, `..data_tmp`, a rename, and
    /// the old directory is removed.
    fn swap(&mut self, files: &[(&str, &str)]) {
        let old = fs::read_link(self.path.join("..data")).ok();
        self.generation += 1;
        let new = self.path.join(format!("..2026_11_22_18_00_{:02}.{}", self.generation, 4711));
        fs::create_dir(&new).expect("generation");
        for (name, text) in files {
            let file = new.join(name);
            let folder = file.parent().expect("a folder");
            fs::create_dir_all(folder).expect("folder");
            mode(folder, 0o2755);
            fs::write(&file, text).expect("write");
            mode(&file, if name.ends_with(".sh") { 0o555 } else { 0o644 });
        }
        mode(&new, 0o2755);
        symlink(new.file_name().expect("a name"), self.path.join("..data_tmp")).expect("symlink");
        fs::rename(self.path.join("..data_tmp"), self.path.join("..data")).expect("rename");
        if let Some(old) = old {
            fs::remove_dir_all(self.path.join(old)).expect("rm");
        }
    }
}

fn tool(says: &str) -> String {
    format!("binary = \"/bin/sh\"\n[env]\nset = {{ WHAT = \"{says}\" }}\n")
}

fn said(server: &Server) -> String {
    run(server.client("t").args(["-c", "echo $WHAT"]), b"").out()
}

fn start(prepare: impl FnOnce(&mut Setup)) -> (Server, Volume) {
    let mut setup = Setup::new();
    let volume = Volume::new(&mut setup);
    prepare(&mut setup);
    (Server::start_in(setup), volume)
}

#[test]
fn a_config_map_is_tools_d_and_a_swap_is_in_force_within_200_ms() {
    let (server, mut volume) = start(|_| ());
    assert_eq!(said(&server), "one\n");
    assert_eq!(run(&mut server.verb(&["check"]), b"").code(), Some(0));
    // Past the time in which the registry looks again at what is young.
    thread::sleep(Duration::from_millis(2_600));
    // A machine that is busy with something else may sleep through any of them.
    let (mut number, mut quick) = (0, 0);
    eventually("two swaps are in force that soon", || {
        number += 1;
        let what = format!("number{number}");
        let sh = "{\"binary\":\"/bin/sh\"}";
        volume.swap(&[("sh/tool.json", sh), ("t/tool.toml", &tool(&what))]);
        let swapped = Instant::now();
        eventually(&what, || said(&server) == format!("{what}\n"));
        quick += usize::from(swapped.elapsed() < Duration::from_millis(200));
        quick >= 2
    });
    still_works(&server);
}

#[test]
fn a_swap_alone_is_seen_also_where_the_old_directory_stays() {
    let (server, volume) = start(|s| s.env("TOOL_REGISTRY_RESCAN_SECONDS", "600"));
    assert_eq!(said(&server), "one\n");
    thread::sleep(Duration::from_millis(2_600));
    let new = volume.path.join("..new");
    fs::create_dir_all(new.join("t")).expect("new");
    mode(&new, 0o755);
    mode(&new.join("t"), 0o755);
    fs::write(new.join("t/tool.toml"), tool("two")).expect("write");
    mode(&new.join("t/tool.toml"), 0o644);
    symlink("..new", volume.path.join("..data_tmp")).expect("symlink");
    fs::rename(volume.path.join("..data_tmp"), volume.path.join("..data")).expect("rename");
    eventually("two", || said(&server) == "two\n");
}

#[test]
fn a_config_map_that_is_wrong_leaves_the_last_good_tool_in_force() {
    let (server, mut volume) = start(|_| ());
    assert_eq!(said(&server), "one\n");
    let sh = "{\"binary\":\"/bin/sh\"}";
    volume.swap(&[("sh/tool.json", sh), ("t/tool.toml", "binary = \"/bin/sh\"\ntimeout = -1\n")]);
    eventually("status says where", || server.status().to_string().contains("t/tool.toml:2"));
    assert_eq!(said(&server), "one\n");
    volume.swap(&[("sh/tool.json", sh), ("t/tool.toml", &tool("mended"))]);
    eventually("mended", || said(&server) == "mended\n");
    volume.swap(&[("sh/tool.json", sh)]);
    eventually("gone", || run(&mut server.client("t"), b"").code() == Some(127));
}

#[test]
fn calls_under_way_and_calls_during_swaps_are_not_disturbed() {
    let (server, mut volume) = start(|_| ());
    let sh = "{\"binary\":\"/bin/sh\"}";
    let swaps = AtomicUsize::new(0);
    thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let mut called = 0;
            while called < 150 || swaps.load(Ordering::Relaxed) < 4 {
                called += 1;
                let args = json!(["-c", "echo $WHAT"]);
                let request = json!({"tool":"t","args":args,"cwd":server.ws()});
                let reply: Value = server.connect().call(&request);
                assert_eq!(reply["exit_code"], 0, "{reply}");
                let out = reply["stdout"].as_str().expect("text");
                assert!(["one\n", "a\n", "b\n"].contains(&out), "{out:?}");
            }
        });
        while !calls.is_finished() {
            let text = tool(["a", "b"][swaps.load(Ordering::Relaxed) % 2]);
            volume.swap(&[("sh/tool.json", sh), ("t/tool.toml", &text)]);
            swaps.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn a_server_that_is_nobody_takes_a_config_map_of_roots_with_wrappers_and_setups() {
    if !is_root() {
        return skipped(
            "a_server_that_is_nobody_takes_a_config_map_of_roots_with_wrappers_and_setups",
            "only root can start a server as somebody else",
        );
    }
    let mut setup = Setup::new();
    let mut volume = Volume::new(&mut setup);
    setup.uid(65_532);
    let server = Server::start_in(setup);
    assert_eq!(said(&server), "one\n");
    let again = "#!/bin/sh\necho wrapped \"$(cat \"$HOME/there\")\"\n";
    volume.swap(&[
        ("sh/tool.json", "{\"binary\":\"/bin/sh\"}"),
        ("t/tool.toml", &tool("two")),
        ("new/tool.toml", &tool("three")),
        ("new/setup.sh", "#!/bin/sh\necho ready >\"$HOME/there\"\n"),
        ("new/restricted.sh", again),
    ]);
    eventually("two", || said(&server) == "two\n");
    assert_eq!(run(&mut server.client("new"), b"").success(), "wrapped ready\n");
    // What its group could change is refused, as everywhere.
    let setup = server.stop(Signal::SIGTERM);
    let data = fs::canonicalize(volume.path.join("..data")).expect("..data");
    mode(&data.join("t/tool.toml"), 0o664);
    let said = run(&mut setup.verb(&["check"]), b"");
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.out().contains("chmod g-w") || said.err().contains("chmod g-w"), "{said:?}");
}
