//! A tree ten thousand levels deep, with few descriptors. Alone in its process: the limit
//! is the process's.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "here a panic is how a test fails"
)]

mod common;

use std::os::fd::OwnedFd;

use common::{call, roots};
use nix::fcntl::{OFlag, open, openat};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, mkdirat};
use serde_json::json;
use tool_files::list::ListDirectory;
use tool_files::search::SearchFiles;

const LEVELS: usize = 10_000;

fn touch(directory: &OwnedFd, name: &str) {
    drop(openat(directory, name, OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRWXU).unwrap());
}

#[test]
fn ten_thousand_levels_need_few_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut here: OwnedFd = open(directory.path(), flags, Mode::empty()).unwrap();
    let mut sides = 0;
    for level in 0..LEVELS {
        if level % 50 == 0 {
            // Waits while the walk goes down, and is opened again by a path of any length.
            mkdirat(&here, "z", Mode::S_IRWXU).unwrap();
            let side = openat(&here, "z", flags, Mode::empty()).unwrap();
            touch(&side, "f");
            touch(&here, ".gitignore");
            sides += 1;
        }
        mkdirat(&here, "dd", Mode::S_IRWXU).unwrap();
        here = openat(&here, "dd", flags, Mode::empty()).unwrap();
    }
    touch(&here, "f");
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 120, hard).unwrap();
    let roots = roots(directory.path());
    let input = json!({"pattern": "f", "type": "exact", "max_results": 10_000});
    let output = call::<SearchFiles>(&roots, input).unwrap();
    assert_eq!(output["total"], json!(sides + 1));
    assert_eq!(output["skipped"]["unreadable"], json!(0));
    let deepest = output["results"][0]["path"].as_str().unwrap();
    assert_eq!(deepest.len(), 3 * LEVELS + 1);
    let input = json!({"pattern": "x", "include": ["f"]});
    assert_eq!(call::<SearchFiles>(&roots, input).unwrap()["files_searched"], json!(sides + 1));
    let input = json!({"depth": 50_000, "limit": 3});
    let page = call::<ListDirectory>(&roots, input).unwrap();
    assert_eq!(page["has_more"], json!(true));
    assert_eq!(page["unreadable"], json!(0));
    setrlimit(Resource::RLIMIT_NOFILE, 1024.min(hard), hard).unwrap();
    // Removed as rm does it: the standard library holds a descriptor for each level.
    let path = directory.keep();
    assert!(std::process::Command::new("rm").arg("-rf").arg(path).status().unwrap().success());
}
