//! Files that are left to be written out: which, when, and by whom.

use std::os::unix::fs::MetadataExt;

use nix::sys::stat::fstat;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tool_files::write::WriteFile;
use tool_files::{Operation, Root, Roots, Stop, Target};

use super::*;

const LONG: Duration = Duration::from_secs(3600);
const SOMEBODY: Whose = (0, 1, 1);

/// By the clock of the runtime that this is called in.
fn crew(wait: Duration, write_out: fn(&OwnedFd)) -> Arc<Crew> {
    let (state, later) = (Mutex::default(), Later::with(wait, write_out));
    Arc::new(Crew { most: 4, of_one: 2, cores: 1, identity: None, domain: None, state, later })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(future)
}

/// A workspace with empty files, called 0 and so on.
fn workspace(files: usize) -> TempDir {
    let workspace = tempfile::tempdir().unwrap();
    for name in 0..files {
        std::fs::write(workspace.path().join(name.to_string()), "").unwrap();
    }
    workspace
}

async fn write(crew: &Arc<Crew>, whose: Whose, workspace: &TempDir, name: usize) {
    let root = Root::open(workspace.path()).unwrap();
    let work = move || {
        let input = json!({"path": name.to_string(), "content": "text"});
        let input = serde_json::from_value(input).unwrap();
        let found = WriteFile::find(&Roots::new(vec![root]), input).unwrap();
        found.run(&Stop::new(None), None).unwrap();
    };
    crew.run(whose, work).await.unwrap();
}

/// The numbers of its files, as they are now.
fn numbers(workspace: &TempDir) -> Vec<u64> {
    let entries = std::fs::read_dir(workspace.path()).unwrap();
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().metadata().unwrap().ino()).collect();
    all.sort_unstable();
    all
}

type Seen = Mutex<Vec<u64>>;

fn see(seen: &Seen, file: &OwnedFd) {
    seen.lock().unwrap().push(fstat(file).unwrap().st_ino);
}

fn sorted(seen: &Seen) -> Vec<u64> {
    let mut all = seen.lock().unwrap().clone();
    all.sort_unstable();
    all
}

#[test]
fn what_is_replaced_again_before_it_is_written_out_is_never_written() {
    static SEEN: Seen = Mutex::new(Vec::new());
    let workspace = workspace(2);
    block_on(async {
        let crew = crew(LONG, |file| see(&SEEN, file));
        for round in 0..100 {
            write(&crew, SOMEBODY, &workspace, round % 2).await;
            // Two that look at the same time may find it too much.
            while !crew.lock().done_for.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        assert!(sorted(&SEEN).is_empty(), "it is gathered, however many there are");
        crew.later.all().await;
    });
    assert_eq!(sorted(&SEEN), numbers(&workspace), "each once, and as it is now");
}

#[test]
fn what_is_too_much_to_be_gathered_is_written_out_at_once() {
    static SEEN: Seen = Mutex::new(Vec::new());
    let workspace = workspace(40);
    block_on(async {
        let crew = crew(LONG, |file| see(&SEEN, file));
        for name in 0..40 {
            write(&crew, SOMEBODY, &workspace, name).await;
        }
        // An answer comes a moment before.
        while SEEN.lock().unwrap().len() < 40 - after::MANY {
            tokio::task::yield_now().await;
        }
        crew.later.all().await;
    });
    assert_eq!(sorted(&SEEN), numbers(&workspace));
}

#[test]
fn what_was_replaced_is_closed_with_what_is_written_out() {
    let workspace = workspace(1);
    let at = workspace.path().display().to_string();
    let open = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let names = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        let names = names.map(|name| name.display().to_string());
        // What it was called last.
        let last = format!("{at}/.tool-");
        names.filter(|name| name.starts_with(&last) && name.ends_with("(deleted)")).count()
    };
    block_on(async {
        let crew = crew(LONG, |_| {});
        write(&crew, SOMEBODY, &workspace, 0).await;
        while !crew.lock().done_for.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(open(), 1, "it is kept");
        crew.later.all().await;
    });
    assert_eq!(open(), 0);
}

#[test]
fn what_is_left_is_written_out_when_nothing_comes_after_it() {
    static SEEN: Seen = Mutex::new(Vec::new());
    let workspace = workspace(1);
    block_on(async {
        let crew = crew(Duration::ZERO, |file| see(&SEEN, file));
        for _ in 0..3 {
            write(&crew, SOMEBODY, &workspace, 0).await;
            // Nobody comes or stops.
            while sorted(&SEEN).last() != numbers(&workspace).last() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            SEEN.lock().unwrap().clear();
        }
    });
}

#[test]
fn who_writes_out_to_what_does_not_answer_keeps_no_other_waiting() {
    static STUCK: Mutex<()> = Mutex::new(());
    let gate = STUCK.lock().unwrap();
    block_on(async {
        let crew = crew(Duration::ZERO, |_| drop(STUCK.lock()));
        let workspace = Arc::new(workspace(40));
        let mut all = JoinSet::new();
        for name in 0..40 {
            let (crew, workspace) = (Arc::clone(&crew), Arc::clone(&workspace));
            all.spawn(async move { write(&crew, SOMEBODY, &workspace, name).await });
        }
        // Both of those that one caller may have.
        while crew.lock().work.is_empty() || crew.lock().done_for.get(&SOMEBODY) != Some(&2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for number in 0..20 {
            assert_eq!(crew.run((1, 1, 1), move || number).await.unwrap(), number);
        }
        drop(gate);
        all.join_all().await;
        crew.later.all().await;
    });
}
