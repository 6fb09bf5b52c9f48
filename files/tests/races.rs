//! Names that change what they mean while they are looked up.
//!
//! In each race an attacker makes a name mean a file of the workspace in one moment and a
//! file outside in the next, as fast as it can, while files are read, written and edited by
//! that name. Nothing of what is outside may ever be told or changed. That the attack is
//! real is shown by a resolver as many have it, which asks for the real path, compares it
//! with the root, and then opens it: the same attacker makes it read what is outside.
//!
//! `FILES_RACES` says how many look-ups there are in each race.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "here a panic is how a test fails, and the figures are told"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::skipped::skipped;
use common::{memory, run};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;
use tool_files::edit::{EditFile, EditInput};
use tool_files::read::{ReadFile, ReadInput};
use tool_files::write::{WriteFile, WriteInput};
use tool_files::{FileError, Root, Roots};

const CANARY: &str = "canary";
/// One of so many is a write, and one an edit.
const CHANGES: u64 = 64;
/// As often the naive resolver tries at least.
const NAIVE: u64 = 5_000;
/// What it has to fall into the trap.
const PATIENCE: Duration = Duration::from_secs(120);

struct Arena {
    base: TempDir,
    root: PathBuf,
    roots: Roots,
}

impl Arena {
    /// `root/good/f` is inside, `outside/f` is not.
    fn new() -> Arena {
        let base = memory();
        let root = base.path().join("root");
        for directory in [&root, &base.path().join("outside")] {
            fs::create_dir_all(directory.join("sub")).unwrap();
        }
        fs::write(base.path().join("outside/f"), CANARY).unwrap();
        let roots = Roots::new(vec![Root::open(&root).unwrap()]);
        Arena { base, root, roots }
    }

    fn outside(&self) -> PathBuf {
        self.base.path().join("outside")
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::write(path.join("f"), "inside").unwrap();
        path
    }

    /// Reads, now and then writes or edits.
    fn operate(&self, number: u64, path: &str) -> Result<String, FileError> {
        let path = path.to_owned();
        match number % CHANGES {
            0 => {
                let content = "inside".into();
                let input = WriteInput { path, content, ..WriteInput::default() };
                run::<WriteFile>(&self.roots, input)
            }
            1 => {
                let (old_text, new_text) = (Some("inside".into()), Some("inside too".into()));
                let all = Some(true);
                let input = EditInput { path, old_text, new_text, all, ..EditInput::default() };
                run::<EditFile>(&self.roots, input)
            }
            _ => run::<ReadFile>(&self.roots, ReadInput { path, ..ReadInput::default() }),
        }
    }

    /// The real path is asked for, compared, and then opened.
    fn naive(&self, path: &str) -> Option<String> {
        let real = fs::canonicalize(self.root.join(path)).ok()?;
        let root = fs::canonicalize(&self.root).ok()?;
        let inside = real.to_str()?.strip_prefix(root.to_str()?)?;
        if !inside.is_empty() && !inside.starts_with('/') {
            return None;
        }
        fs::read_to_string(real).ok()
    }

    fn all_outside(&self) -> BTreeMap<PathBuf, String> {
        let entries = [self.outside(), self.outside().join("sub"), self.base.path().to_owned()];
        let entries = entries.into_iter().flat_map(|at| fs::read_dir(at).unwrap());
        let state = |path: &Path| {
            let content = fs::read_to_string(path).unwrap_or_default();
            let state = fs::symlink_metadata(path).unwrap();
            format!("{:?} {content}", state.is_file().then(|| state.modified().unwrap()))
        };
        entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), state(&path)))
            .collect()
    }

    /// The race: `attack` is one turn of the attacker, `paths` are looked up meanwhile.
    fn race(&self, kind: &str, paths: &[&str], attack: impl Fn() + Sync) {
        let wanted = std::env::var("FILES_RACES").ok().map(|number| number.parse().unwrap());
        let wanted: u64 = wanted.unwrap_or(50_000);
        let before = self.all_outside();
        let (over, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut given, mut escapes) = (0_u64, 0_u64);
        let mut faults: BTreeMap<String, u64> = BTreeMap::new();
        let (mut tries, mut naive) = (0_u64, 0_u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    attack();
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            for (number, path) in (0..wanted).zip(paths.iter().cycle()) {
                match self.operate(number / 3, path) {
                    Ok(said) if said.contains(CANARY) => escapes += 1,
                    Ok(_) => given += 1,
                    Err(error) => {
                        escapes += u64::from(error.to_string().contains(CANARY));
                        *faults.entry(error.fault().to_string()).or_default() += 1;
                    }
                }
            }
            let deadline = Instant::now() + PATIENCE;
            while naive == 0 && Instant::now() < deadline || tries < NAIVE {
                let path = paths[usize::try_from(tries).unwrap() % paths.len()];
                naive += u64::from(self.naive(path).is_some_and(|said| said.contains(CANARY)));
                tries += 1;
            }
            over.store(true, Ordering::Relaxed);
        });
        let turns = turns.into_inner();
        eprintln!(
            "{kind}: {wanted} look-ups, {given} inside, {faults:?}, {escapes} escapes; {turns} turns \
             of the attacker; the naive resolver escaped {naive} times in {tries}"
        );
        assert_eq!(escapes, 0, "{kind}");
        assert_eq!(self.all_outside(), before, "{kind}: what is outside changed");
        assert!(given > 0 && faults.contains_key("PATH_OUTSIDE_WORKSPACE"), "{kind}: no race");
        assert!(naive > 0, "{kind}: the attack is none");
    }
}

#[test]
fn no_look_up_escapes_while_a_directory_and_a_symlink_out_are_exchanged() {
    let arena = Arena::new();
    let (directory, link) = (arena.directory("d"), arena.root.join("x"));
    symlink(arena.outside(), &link).unwrap();
    symlink(&directory, arena.root.join("via")).unwrap();
    let exchange = || {
        renameat2(AT_FDCWD, &directory, AT_FDCWD, &link, RenameFlags::RENAME_EXCHANGE).unwrap();
    };
    arena.race("exchange", &["d/f", "via/f", "d/sub/../f"], exchange);
}

#[test]
fn no_look_up_escapes_while_the_last_name_becomes_a_symlink_out() {
    let arena = Arena::new();
    fs::write(arena.root.join("f"), "inside").unwrap();
    symlink(arena.root.join("f"), arena.root.join("via")).unwrap();
    let swap = || {
        let (link, file) = (arena.root.join("link"), arena.root.join("file"));
        symlink(arena.outside().join("f"), &link).unwrap();
        fs::rename(&link, arena.root.join("f")).unwrap();
        fs::write(&file, "inside").unwrap();
        fs::rename(&file, arena.root.join("f")).unwrap();
    };
    arena.race("last name", &["f", "via", "sub/../f"], swap);
}

#[test]
fn no_look_up_escapes_while_a_directory_is_replaced_by_a_symlink_out() {
    let arena = Arena::new();
    let (directory, away) = (arena.directory("d"), arena.root.join("away"));
    symlink(&directory, arena.root.join("via")).unwrap();
    let replace = || {
        // A write may have made the directory while it was away.
        if fs::rename(&directory, &away).is_err() {
            fs::remove_dir_all(&directory).unwrap_or_default();
        }
        if symlink(arena.outside(), &directory).is_ok() {
            fs::remove_file(&directory).unwrap();
        }
        if fs::rename(&away, &directory).is_err() {
            fs::remove_dir_all(&directory).unwrap_or_default();
            fs::rename(&away, &directory).unwrap_or_default();
        }
    };
    arena.race("replaced", &["d/f", "via/f", "d/sub/../f"], replace);
}

/// Where it says that this process has mounts of its own.
const OWN_MOUNTS: &str = "FILES_RACES_OWN_MOUNTS";

#[test]
#[expect(clippy::disallowed_methods, reason = "a test in namespaces of its own")]
fn no_look_up_escapes_while_mounts_come_and_go() {
    use std::process::Command;
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return mounts();
    }
    let name = "no_look_up_escapes_while_mounts_come_and_go";
    let own = ["--user", "--map-root-user", "--mount", "--propagation", "private"];
    let able = Command::new("unshare").args(own).arg("true").output();
    if !able.as_ref().is_ok_and(|able| able.status.success()) {
        return skipped(name, &format!("no namespaces of its own: {able:?}"));
    }
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(own).arg(this).args(["--exact", name, "--nocapture"]).env(OWN_MOUNTS, "1");
    let output = command.output().unwrap();
    eprintln!("{}", String::from_utf8(output.stderr).unwrap());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Beneath the mount `f` is a symlink out; what is mounted over it has a file there.
fn mounts() {
    let arena = Arena::new();
    let (good, place) = (arena.directory("good"), arena.root.join("m"));
    fs::create_dir_all(place.join("sub")).unwrap();
    symlink(arena.outside().join("f"), place.join("f")).unwrap();
    symlink(&place, arena.root.join("via")).unwrap();
    let none = None::<&str>;
    let come_and_go = || {
        mount(Some(&good), &place, none, MsFlags::MS_BIND, none).unwrap();
        // Going takes the kernel much longer than coming.
        for _ in 0..20_000 {
            std::hint::spin_loop();
        }
        umount2(&place, MntFlags::MNT_DETACH).unwrap();
    };
    arena.race("mounts", &["m/f", "via/f", "m/sub/../f"], come_and_go);
}
