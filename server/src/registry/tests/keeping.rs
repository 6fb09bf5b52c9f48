//! What stays in force while files change.

use std::path::Path;
use std::time::Duration;

use super::{Site, later, problems, set_mode};
use crate::registry::ToolName;

fn timeout(registry: &crate::registry::Registry) -> Option<u64> {
    registry.find("git").map(|tool| tool.timeout.as_secs())
}

#[test]
fn a_half_written_definition_keeps_the_last_good_one() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    let registry = site.open();
    let full = r#"{"timeout": 77}"#;
    for length in 0..full.len() {
        site.write("tools.d/git/tool.json", full.get(..length).unwrap());
        let change = registry.rescan();
        assert!(change.changed.is_empty() && change.removed.is_empty(), "{change:?}");
        assert_eq!(timeout(&registry), Some(5), "{length}");
        let problem = &problems(&registry)[0];
        assert!(problem.ends_with("; the last good definition stays in force"), "{problem}");
    }
    site.write("tools.d/git/tool.json", full);
    let change = registry.rescan();
    assert_eq!((change.changed.len(), change.solved), (1, 1));
    assert_eq!((timeout(&registry), problems(&registry).len()), (Some(77), 0));
}

#[test]
fn a_definition_that_others_may_have_changed_is_not_read() {
    let site = Site::new();
    let path = site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    let registry = site.open();
    std::fs::write(&path, r#"{"timeout": 6}"#).unwrap();
    set_mode(&path, 0o664);
    registry.rescan();
    assert_eq!(timeout(&registry), Some(5));
    assert!(problems(&registry)[0].contains("chmod g-w"));
    set_mode(&path, 0o644);
    registry.rescan();
    assert_eq!(timeout(&registry), Some(6));
}

#[test]
fn a_definition_that_vanishes_stays_until_its_folder_goes() {
    let site = Site::new();
    let path = site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    let registry = site.open();
    std::fs::remove_file(&path).unwrap();
    registry.rescan();
    later(&registry);
    assert_eq!(timeout(&registry), Some(5));
    assert!(problems(&registry)[0].contains("its definition is gone; the last good"));
    std::fs::remove_dir(site.at("tools.d/git")).unwrap();
    assert_eq!(registry.rescan().removed, ["git"]);
    assert!(problems(&registry).is_empty());
}

#[test]
fn a_folder_that_had_a_definition_never_becomes_a_tool_without_one() {
    let site = Site::new();
    let path = site.write("tools.d/git/tool.json", "{");
    let registry = site.open();
    std::fs::remove_file(&path).unwrap();
    later(&registry);
    assert_eq!(timeout(&registry), None);
    assert!(problems(&registry)[0].contains("its definition is gone"));
}

#[test]
fn a_folder_that_is_copied_anew_is_not_unrestricted_in_between() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    let registry = site.open();
    std::fs::remove_dir_all(site.at("tools.d/git")).unwrap();
    registry.rescan();
    site.folder(Path::new("tools.d/git"));
    assert!(registry.look(&ToolName::parse("git").unwrap()).is_none());
    registry.rescan();
    assert_eq!(timeout(&registry), None);
    assert!(registry.settles().is_some());
    // Nothing more came: then it is a folder without a definition.
    later(&registry);
    assert_eq!((timeout(&registry), problems(&registry).len()), (Some(300), 0));
}

#[test]
fn a_wrapper_that_vanishes_may_come_back_for_a_while() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    let path = site.write("tools.d/git/restricted.sh", "");
    let registry = site.open();
    let wrapper = || registry.find("git").unwrap().wrapper.clone().map(|wrapper| wrapper.path);
    std::fs::remove_file(&path).unwrap();
    registry.rescan();
    registry.rescan();
    assert_eq!(wrapper(), Some(path.clone()));
    assert!(registry.settles().is_some());
    assert!(problems(&registry)[0].contains("restricted.sh is gone; the last good"));
    site.write("tools.d/git/restricted.sh", "");
    assert_eq!(registry.rescan().solved, 1);
    assert!(problems(&registry).is_empty() && registry.settles().is_none());
    std::fs::remove_file(&path).unwrap();
    registry.rescan();
    assert_eq!(later(&registry).changed.len(), 1);
    assert_eq!(wrapper(), None);
    let notice = problems(&registry);
    assert!(notice[0].contains("is gone: calls run the binary itself"), "{notice:?}");
    registry.rescan();
    assert_eq!(problems(&registry), notice, "it stands until something changes");
    site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    registry.rescan();
    assert!(problems(&registry).is_empty());
}

#[test]
fn a_wrapper_that_others_may_have_changed_is_not_run() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    let path = site.write("tools.d/git/restricted.sh", "");
    let registry = site.open();
    set_mode(&path, 0o666);
    assert_eq!(registry.rescan().removed, ["git"]);
    assert!(registry.snapshot().problem("git").unwrap().message.contains("chmod go-w"));
    // Deleting it does not make the tool unrestricted at once either.
    std::fs::remove_file(&path).unwrap();
    registry.rescan();
    assert!(registry.find("git").is_none());
    site.write("tools.d/git/restricted.sh", "");
    registry.rescan();
    assert!(registry.find("git").unwrap().wrapper.is_some());
}

#[test]
fn global_wrappers_that_vanish_with_their_directory_stay_in_force() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    site.write("restricted/git.sh", "");
    let registry = site.open();
    std::fs::rename(site.at("restricted"), site.at("away")).unwrap();
    registry.rescan();
    later(&registry);
    assert!(registry.find("git").unwrap().wrapper.is_some());
    assert!(problems(&registry)[0].contains("restricted: cannot open it: ENOENT"));
    std::fs::rename(site.at("away"), site.at("restricted")).unwrap();
    registry.rescan();
    assert!(problems(&registry).is_empty());
}

#[test]
fn tools_dir_may_go_and_come_back() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    let registry = site.open();
    std::fs::rename(site.at("tools.d"), site.at("away")).unwrap();
    registry.rescan();
    assert_eq!(timeout(&registry), Some(5));
    assert!(problems(&registry)[0].ends_with("waiting for it to come back"));
    assert_eq!(later(&registry).removed, ["git"]);
    site.write("tools.d/git/tool.json", r#"{"timeout": 6}"#);
    assert_eq!(registry.rescan().added.len(), 1);
    assert_eq!((timeout(&registry), problems(&registry).len()), (Some(6), 0));
    set_mode(&site.at("tools.d"), 0o777);
    registry.rescan();
    assert_eq!(timeout(&registry), Some(6));
    assert!(problems(&registry)[0].contains("tools.d: anybody can change it"));
}

#[test]
fn calls_keep_the_tool_that_they_began_with() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", r#"{"timeout": 5}"#);
    let registry = site.open();
    let call = registry.find("git").unwrap();
    site.write("tools.d/git/tool.json", r#"{"timeout": 6}"#);
    registry.rescan();
    assert_eq!(call.timeout, Duration::from_secs(5));
    assert_eq!(timeout(&registry), Some(6));
}

#[test]
fn a_thousand_unchanged_tools_are_not_read_again() {
    let site = Site::new();
    for number in 0..1_000 {
        site.write(&format!("tools.d/tool-{number}/tool.json"), r#"{"binary": "/bin/true"}"#);
    }
    let registry = site.open();
    let first = registry.snapshot();
    assert_eq!((first.tools.len(), first.problems.len()), (1_000, 0));
    for _ in 0..3 {
        assert!(registry.rescan().is_empty());
    }
    assert_eq!(registry.snapshot().generation, first.generation);
    site.write("tools.d/tool-500/tool.json", r#"{"binary": "/bin/false"}"#);
    let change = registry.rescan();
    assert_eq!(change.changed.len(), 1);
    assert_eq!(change.changed[0].binary, Path::new("/bin/false"));
}
