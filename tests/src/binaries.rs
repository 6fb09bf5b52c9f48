//! The binaries under test, built once per test process.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the two binaries are.
#[derive(Debug)]
pub struct Binaries {
    pub server: PathBuf,
    pub client: PathBuf,
}

/// The binaries: those in `TOOL_BIN_DIR` where it is set (a release to test
/// against, say), else built now, beside this very test binary. Cargo holds no
/// lock while it runs tests, and the second build of a run has nothing to do.
pub fn binaries() -> &'static Binaries {
    static BUILT: OnceLock<Binaries> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = match std::env::var_os("TOOL_BIN_DIR") {
            Some(dir) => std::path::absolute(dir).expect("TOOL_BIN_DIR"),
            None => build(),
        };
        let found = Binaries { server: dir.join("tool-server"), client: dir.join("tool-client") };
        for path in [&found.server, &found.client] {
            assert!(path.is_file(), "{} is not there", path.display());
        }
        found
    })
}

/// A server from which a test may take measures away by `TOOL_WEAKEN`: built once, with
/// the feature `test-weaken`, in the same target directory, so that nothing but the
/// server and its own crates is built anew. The ordinary one is put back in its place; one
/// test at a time does that.
pub fn weakened() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let place = profile_dir().join("weakened");
        std::fs::create_dir_all(&place).expect("a directory");
        let turn = File::create(place.join("lock")).expect("a lock");
        turn.lock().expect("its turn");
        let dir = build_with(&["--features", "tool-server/test-weaken"]);
        let weakened = place.join("tool-server");
        // By cp, and by rename: another test may be running it.
        let new = dir.join("weakened/tool-server.new");
        let cp = Command::new("cp").arg(dir.join("tool-server")).arg(&new).status();
        assert!(cp.expect("cp").success());
        std::fs::rename(new, &weakened).expect("rename");
        build();
        weakened
    })
}

fn build() -> PathBuf {
    build_with(&[])
}

fn build_with(more: &[&str]) -> PathBuf {
    let profile_dir = profile_dir();
    let target = profile_dir.parent().expect("a profile lies in the target directory");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::project()).arg("build").arg("--target-dir").arg(target);
    // As scripts/test.sh does: what is there of all of the workspace is not made again for
    // two of its packages, whose crates have fewer features.
    cargo.args(["--quiet", "--workspace", "--bin", "tool-server", "--bin", "tool-client"]);
    cargo.args(more);
    if profile_dir.file_name() == Some(OsStr::new("release")) {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "{cargo:?}: {status}");
    profile_dir
}

/// TARGET/PROFILE of TARGET/PROFILE/deps/this-test.
fn profile_dir() -> PathBuf {
    let me = std::env::current_exe().expect("a test knows its own path");
    me.parent().and_then(Path::parent).expect("tests lie in PROFILE/deps").to_path_buf()
}
