//! A corpus of ways to write a path, and what becomes of each, read, written and edited.
//!
//! Whatever is tried: nothing outside of the workspace changes, nothing of what lies there is
//! told, and whether it is there is not told either. The ways are in `corpus`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "here a panic is how a test fails, and the figures are told"
)]

mod common;
mod corpus;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use common::{memory, run};
use corpus::{CORPUS, Is, OUT, long};
use tempfile::TempDir;
use tool_files::edit::{EditFile, EditInput};
use tool_files::read::{ReadFile, ReadInput};
use tool_files::write::{WriteFile, WriteInput};
use tool_files::{FileError, Root, Roots};
use tool_protocol::Fault;
use tool_protocol::Fault::FileNotFound;

const CANARY: &str = "canary-content-that-nobody-may-see";

struct Workspace {
    base: TempDir,
    roots: Roots,
    /// Open outside, for names that go through /proc.
    leak: fs::File,
    _socket: UnixListener,
}

impl Workspace {
    fn new() -> Workspace {
        let base = memory();
        let at = |name: &str| base.path().join(name);
        for name in ["root/dir/deep", "other", "root-evil", "outside/sub"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["canary.txt", "outside/canary.txt", "outside/sub/canary.txt"] {
            fs::write(at(name), CANARY).unwrap();
        }
        fs::write(at("root-evil/canary.txt"), CANARY).unwrap();
        let inside = [
            "file.txt",
            "dir/nested.txt",
            "dir/deep/leaf.txt",
            "...",
            "..file",
            "~",
            "%2e%2e",
            "with space ",
            "new\nline",
            "back\\slash",
            "\u{e9}.txt",
            "e\u{301}.txt",
            "-rf",
            "\u{202e}txt.exe",
            "*",
            "$HOME",
            "C:",
        ];
        for name in inside {
            fs::write(at("root").join(name), "inside").unwrap();
        }
        fs::write(at("other/file.txt"), "inside").unwrap();
        let leak = fs::File::open(at("outside")).unwrap();
        let root = at("root").into_os_string().into_string().unwrap();
        let links = [
            ("rel-file", "file.txt"),
            ("rel-dot", "./dir/../file.txt"),
            ("abs-file", "{root}/file.txt"),
            ("abs-dir", "{root}/dir"),
            ("abs-root", "{root}"),
            ("abs-slashes", "//{root}//dir/./"),
            ("abs-other", "{base}/other/file.txt"),
            ("to-abs", "abs-file"),
            ("self", "."),
            ("dir/back", "../file.txt"),
            ("dangling-in", "none-in"),
            ("dangling-abs", "{root}/dir/none-in"),
            ("loop", "loop"),
            ("loop-a", "loop-b"),
            ("loop-b", "{root}/loop-a"),
            ("out-abs", "{base}/outside"),
            ("out-rel", "../outside"),
            ("out-file", "{base}/outside/canary.txt"),
            ("out-none", "{base}/outside/none.txt"),
            ("out-rel-file", "../outside/canary.txt"),
            ("out-rel-none", "../outside/none.txt"),
            ("out-chain", "out-chain-2"),
            ("out-chain-2", "dir/out-chain-3"),
            ("dir/out-chain-3", "../out-abs"),
            ("dir/up", "../.."),
            ("parent", ".."),
            ("in-and-out", "{root}/../outside"),
            ("in-and-out-rel", "dir/deep/../../../outside"),
            ("evil", "../root-evil"),
            ("evil-abs", "{root}-evil"),
            ("slash", "/"),
            ("via-proc", "/proc/self/root{base}/outside"),
            ("via-cwd", "/proc/self/cwd"),
            ("via-fd", "/proc/self/fd/{fd}"),
            ("via-dev", "/dev/fd/{fd}"),
            ("out-slash", "../outside/"),
        ];
        let fill = |text: &str| {
            let text = text.replace("{root}", &root);
            let text = text.replace("{base}", base.path().to_str().unwrap());
            text.replace("{fd}", &leak.as_raw_fd().to_string())
        };
        for (name, to) in links {
            symlink(fill(to), at("root").join(name)).unwrap();
        }
        for number in 0..41 {
            let to = if number == 0 { "file.txt".into() } else { format!("chain-{number}") };
            symlink(to, at("root").join(format!("chain-{}", number + 1))).unwrap();
        }
        nix::unistd::mkfifo(&at("root/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let socket = UnixListener::bind(at("root/socket")).unwrap();
        let open = |name: &str| Root::open(&at(name)).unwrap();
        let roots = Roots::new(vec![open("root"), open("other")]);
        Workspace { base, roots, leak, _socket: socket }
    }

    fn fill(&self, path: &str) -> String {
        let base = self.base.path().to_str().unwrap();
        let path = path.replace("{root}", &format!("{base}/root")).replace("{base}", base);
        let path = path.replace("{fd}", &self.leak.as_raw_fd().to_string());
        path.replace("{pid}", &std::process::id().to_string())
    }

    /// All that is not in a root: names, contents, and when they changed.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        fn gather(directory: &Path, into: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let state = fs::symlink_metadata(&path).unwrap();
                if state.is_dir() {
                    gather(&path, into);
                }
                let content = fs::read_to_string(&path).unwrap_or_default();
                into.insert(path, format!("{:?} {content}", state.modified()));
            }
        }
        let mut all = BTreeMap::new();
        for name in ["outside", "root-evil"] {
            gather(&self.base.path().join(name), &mut all);
        }
        for entry in fs::read_dir(self.base.path()).unwrap() {
            let path = entry.unwrap().path();
            let content = fs::read_to_string(&path).unwrap_or_default();
            all.entry(path).or_insert(content);
        }
        all
    }

    fn read(&self, path: &str) -> Result<String, FileError> {
        run::<ReadFile>(&self.roots, ReadInput { path: path.into(), ..ReadInput::default() })
    }

    fn write(&self, path: &str) -> Result<String, FileError> {
        let content = "written".into();
        run::<WriteFile>(
            &self.roots,
            WriteInput { path: path.into(), content, ..WriteInput::default() },
        )
    }

    fn edit(&self, path: &str) -> Result<String, FileError> {
        let (old_text, new_text) = (Some("inside".into()), Some("edited".into()));
        let input = EditInput { path: path.into(), old_text, new_text, ..EditInput::default() };
        run::<EditFile>(&self.roots, input)
    }
}

type Try = fn(&Workspace, &str) -> Result<String, FileError>;
const TRIES: [(&str, Try); 3] =
    [("read", Workspace::read), ("write", Workspace::write), ("edit", Workspace::edit)];

/// Tries it; the fault and the message, or none.
fn tried(workspace: &Workspace, name: &str, run: Try, form: &str) -> Result<(), (Fault, String)> {
    let path = workspace.fill(form);
    let before = workspace.outside();
    let outcome = run(workspace, &path);
    assert!(workspace.outside() == before, "{name} {form:?} changed what is outside");
    let base = workspace.base.path().to_str().unwrap();
    let said = match &outcome {
        Ok(said) => said.clone(),
        Err(error) => error.to_string(),
    };
    assert!(!said.contains(CANARY), "{name} {form:?} tells what is outside: {said}");
    if !path.contains(base) {
        assert!(!said.contains(base), "{name} {form:?} tells where the workspace is: {said}");
    }
    if outcome.is_ok() && name != "read" {
        let again = workspace.read(&path).unwrap();
        let now = if name == "write" { "written" } else { "edited" };
        assert!(again.contains(&format!("\"content\":\"{now}\"")), "{name} {form:?}: {again}");
    }
    if outcome.is_ok() && name == "read" {
        assert!(said.contains("\"content\":\"inside\""), "{form:?}: {said}");
    }
    outcome.map(drop).map_err(|error| (error.fault(), error.to_string()))
}

#[test]
fn every_path_of_the_corpus_is_what_it_is_for_every_operation() {
    let corpus = CORPUS.iter().map(|(path, is)| ((*path).to_owned(), *is)).chain(long());
    let (shared, mut wrong) = (Workspace::new(), Vec::new());
    for (form, is) in corpus {
        for (name, run) in TRIES {
            let expected = match is {
                Is::Inside => None,
                Is::New if name == "write" => None,
                Is::New => Some(FileNotFound),
                Is::Outside => Some(Fault::PathOutsideWorkspace),
                Is::All(fault) => Some(fault),
            };
            // Where something is to change, in a workspace of its own.
            let changes = name != "read" && expected.is_none();
            let own = changes.then(Workspace::new);
            let workspace = own.as_ref().unwrap_or(&shared);
            let outcome = tried(workspace, name, run, &form).err();
            if outcome.as_ref().map(|(fault, _)| *fault) != expected {
                let short: String = form.chars().take(60).collect();
                wrong.push(format!("{name} {short:?}: {outcome:?}, expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_leads_out_is_refused_in_the_same_words_whether_or_not_anything_is_there() {
    let (workspace, mut wrong) = (Workspace::new(), Vec::new());
    for form in OUT {
        for (name, run) in TRIES {
            let said = ["canary.txt", "none.txt"].map(|target| {
                let form = form.replace("{t}", target);
                let outcome = tried(&workspace, name, run, &form);
                let Err((fault, message)) = outcome else { return format!("{outcome:?}") };
                if fault != Fault::PathOutsideWorkspace {
                    wrong.push(format!("{name} {form:?}: {fault} {message}"));
                }
                // The workspace's own random name is in some of them.
                let tail = message.rsplit(target).next().unwrap_or_default();
                format!("{fault} {tail}")
            });
            assert_eq!(said[0], said[1], "{name} {form}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_corpus_is_as_large_as_is_said_of_it() {
    let all = CORPUS.len() + 2 * OUT.len() + long().len();
    assert!(all >= 120, "{all}");
    let mut forms: Vec<&str> =
        CORPUS.iter().map(|(form, _)| *form).chain(OUT.iter().copied()).collect();
    forms.sort_unstable();
    let count = forms.len();
    forms.dedup();
    assert_eq!(forms.len(), count, "no form is there twice");
    eprintln!("{all} paths, read, written and edited: {} tries", 3 * all);
}
