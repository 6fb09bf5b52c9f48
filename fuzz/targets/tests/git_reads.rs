//! That the second implementation of git's configuration files is git's: the
//! target `git_config` is worth as much as that.

use std::fs;
use std::process::Command;

use tool_broker_fuzz_targets::git::{Member, read};
use tool_broker_fuzz_targets::mutate::{Random, mutate};
use tool_broker_fuzz_targets::smoke;

/// `section.sub.key`, and the value; blanks alike, for versions of git differ in
/// which they keep.
type Listed = (Vec<u8>, Option<Vec<u8>>);

fn blanks_alike(value: &[u8]) -> Vec<u8> {
    value.iter().map(|byte| if byte.is_ascii_whitespace() { b' ' } else { *byte }).collect()
}

/// What git lists, where it can read the file.
fn listed(file: &std::path::Path) -> Option<Vec<Listed>> {
    let mut command = Command::new("git");
    let output = command.args(["config", "--no-includes", "--null", "--list", "--file"]).arg(file);
    let output = output.output().expect("git");
    let entry = |entry: &[u8]| match entry.iter().position(|byte| *byte == b'\n') {
        Some(at) => (entry[..at].to_vec(), Some(blanks_alike(&entry[at + 1..]))),
        None => (entry.to_vec(), None),
    };
    let entries = output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    output.status.success().then(|| entries.map(entry).collect())
}

#[test]
fn the_second_reader_of_configurations_reads_what_git_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let target = tool_broker_fuzz_targets::ALL.iter().find(|target| target.name == "git_config");
    let plan = smoke::Plan::of(*target.expect("a target"), dir.path(), 0);
    let mut random = Random::new(7);
    let mutations = (0..150).map(|_| mutate(&mut random, &plan.corpus, &plan.words));
    let (mut both, mut members) = (0, 0);
    for text in plan.corpus.iter().cloned().chain(mutations) {
        // A NUL ends a value for git; a name with a new line is cut in its list.
        if text.contains(&0) {
            continue;
        }
        fs::write(&file, &text).expect("a file");
        let (Some(ours), Some(gits)) = (read(&text), listed(&file)) else { continue };
        let of = |member: &Member| (member.full(), member.value.as_deref().map(blanks_alike));
        let ours: Vec<Listed> = ours.iter().map(of).collect();
        assert_eq!(ours, gits, "{}", text.escape_ascii());
        both += 1;
        members += gits.len();
    }
    assert!(both > 20 && members > 30, "only {both} files with {members} members were compared");
}
