//! Tests of the registry on real directories.
//!
//! Owns: the site that they share. Must not: assert on speed.

mod keeping;
mod loading;
mod watching;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::state::SETTLE;
use super::{Change, Registry, RegistryOptions, Tool};
use tool_policy::NamePattern;

/// A tools.d, a RESTRICTED_DIR and programs, in a directory of their own.
struct Site {
    base: tempfile::TempDir,
    options: RegistryOptions,
}

impl Site {
    fn new() -> Site {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["tools.d", "restricted", "bin", "workspace"] {
            std::fs::create_dir(at(name)).unwrap();
            set_mode(&at(name), 0o755);
        }
        let options = RegistryOptions {
            tools_dir: at("tools.d"),
            restricted_dir: at("restricted"),
            owner: None,
            workspace: vec![at("workspace"), at("no-workspace")],
            default_timeout: Duration::from_secs(300),
            require_rules: false,
            observe: false,
            env_path: at("bin").display().to_string(),
            env_inherit: vec![NamePattern::parse("PROXY_*").unwrap()],
            binary_dirs: vec![at("no-bin"), at("bin")],
            hidden: vec![("state", at("state")), ("socket", at("run"))],
            proxy: None,
            builtin_dir: None,
            served: Vec::new(),
        };
        let site = Site { base, options };
        for program in ["python3", "bash", "git"] {
            site.program(program);
        }
        site
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Writes a file and its directories, whatever the umask.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        self.folder(Path::new(name).parent().unwrap());
        std::fs::write(&path, text).unwrap();
        set_mode(&path, 0o644);
        path
    }

    fn folder(&self, name: &Path) {
        let path = self.base.path().join(name);
        if !path.exists() {
            self.folder(name.parent().unwrap());
            std::fs::create_dir(&path).unwrap();
            set_mode(&path, 0o755);
        }
    }

    fn program(&self, name: &str) {
        set_mode(&self.write(&format!("bin/{name}"), "#!/bin/sh\n"), 0o755);
    }

    fn open(&self) -> Registry {
        Registry::open(self.options.clone())
    }

    /// The one problem that a fresh look finds.
    fn problem(&self) -> String {
        let snapshot = self.open().snapshot();
        assert_eq!(snapshot.problems.len(), 1, "{:?}", snapshot.problems);
        assert!(snapshot.tools.is_empty(), "{:?}", snapshot.tools);
        snapshot.problems[0].to_string()
    }

    /// The tool that a fresh look finds.
    fn tool(&self, name: &str) -> Tool {
        let snapshot = self.open().snapshot();
        assert_eq!(snapshot.problems, [], "no problem");
        Tool::clone(&snapshot.tools[name])
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// A look as it would be once everything settled.
fn later(registry: &Registry) -> Change {
    registry.rescan_at(Instant::now() + SETTLE)
}

fn problems(registry: &Registry) -> Vec<String> {
    registry.snapshot().problems.iter().map(ToString::to_string).collect()
}
