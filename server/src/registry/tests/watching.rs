//! That changes are noticed at all; how soon is a benchmark's business.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Site, set_mode};
use crate::registry::Snapshot;
use crate::registry::watch::{Mode, WatchSettings, watch};

/// Far more than any machine needs.
const GENEROUS: Duration = Duration::from_secs(60);

fn settings(mode: Mode) -> WatchSettings {
    // Without events nothing is looked at within the test, but for polling.
    let poll = if mode == Mode::Poll { 20 } else { 3_600_000 };
    WatchSettings {
        mode,
        debounce: Duration::from_millis(50),
        poll: Duration::from_millis(poll),
        rescan: Duration::from_secs(3_600),
    }
}

/// A change on disk and what the snapshot has to become.
type Step<'a> = (&'a dyn Fn(), &'a dyn Fn(&Snapshot) -> bool);

/// Runs the watch, and the steps beside it one after the other.
fn follow(site: &Site, mode: Mode, steps: &[Step<'_>]) {
    let registry = Arc::new(site.open());
    let seen = Arc::new(Mutex::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let count = Arc::clone(&seen);
    let watching = watch(Arc::clone(&registry), settings(mode), move |change| {
        assert!(!change.is_empty());
        *count.lock().unwrap() += 1;
    });
    let stepping = async {
        let mut snapshots = registry.subscribe();
        // Let the watch be set first: it is polled before the first sleep ends.
        tokio::time::sleep(Duration::from_millis(20)).await;
        for (change, expected) in steps {
            assert!(!expected(&registry.snapshot()), "not before the change");
            change();
            let reached = snapshots.wait_for(|snapshot| expected(snapshot));
            tokio::time::timeout(GENEROUS, reached).await.expect("in force in time").unwrap();
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = watching => {}
            () = stepping => {}
        }
    });
    assert!(*seen.lock().unwrap() >= steps.len());
}

fn has_timeout(snapshot: &Snapshot, seconds: u64) -> bool {
    snapshot.tools.get("git").is_some_and(|tool| tool.timeout.as_secs() == seconds)
}

fn steps(site: &Site, mode: Mode) {
    let json =
        |seconds: u64| site.write("tools.d/git/tool.json", &format!("{{\"timeout\": {seconds}}}"));
    let removed = || std::fs::remove_dir_all(site.at("tools.d/git")).unwrap();
    let renamed = || {
        let draft = site.write("tools.d/git/.draft", "{\"timeout\": 3}");
        std::fs::rename(draft, site.at("tools.d/git/tool.json")).unwrap();
    };
    let refused = || set_mode(&site.at("tools.d/git/tool.json"), 0o666);
    let remade = || {
        removed();
        drop(json(5));
    };
    let steps: [Step<'_>; 8] = [
        (&|| drop(json(1)), &|found| has_timeout(found, 1)),
        (&|| drop(json(2)), &|found| has_timeout(found, 2)),
        (&renamed, &|found| has_timeout(found, 3)),
        (&refused, &|found| found.problem("git").is_some()),
        (&removed, &|found| found.tools.is_empty()),
        (&|| drop(json(4)), &|found| has_timeout(found, 4)),
        (&remade, &|found| has_timeout(found, 5)),
        (&|| drop(json(6)), &|found| has_timeout(found, 6)),
    ];
    follow(site, mode, &steps);
}

#[test]
fn changes_are_noticed_by_inotify() {
    steps(&Site::new(), Mode::Inotify);
}

#[test]
fn changes_are_noticed_by_polling() {
    steps(&Site::new(), Mode::Poll);
}

#[test]
fn a_global_wrapper_is_noticed() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    let create = || drop(site.write("restricted/git.sh", ""));
    let wrapped = |found: &Snapshot| found.tools["git"].wrapper.is_some();
    follow(&site, Mode::Inotify, &[(&create, &wrapped)]);
}

#[test]
fn a_replaced_tools_dir_is_watched_anew() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{\"timeout\": 1}");
    site.write("next/git/tool.json", "{\"timeout\": 2}");
    let replace = || {
        std::fs::rename(site.at("tools.d"), site.at("old")).unwrap();
        std::fs::rename(site.at("next"), site.at("tools.d")).unwrap();
    };
    let change = || drop(site.write("tools.d/git/tool.json", "{\"timeout\": 3}"));
    let steps: [Step<'_>; 2] =
        [(&replace, &|found| has_timeout(found, 2)), (&change, &|found| has_timeout(found, 3))];
    follow(&site, Mode::Inotify, &steps);
}

#[test]
fn a_wrapper_that_stays_away_is_noticed_without_an_event() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    let wrapper = site.write("restricted/git.sh", "");
    let remove = || std::fs::remove_file(&wrapper).unwrap();
    let bare = |found: &Snapshot| found.tools["git"].wrapper.is_none();
    follow(&site, Mode::Inotify, &[(&remove, &bare)]);
}
