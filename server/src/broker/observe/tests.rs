//! What is found in repositories of many forms, and what is not known.

use std::fs;
use std::os::unix::fs::symlink;

use super::repository::DEEP;
use super::*;
use crate::os::root::count::{self, lease};

fn files(workspace: &Workspace, directory: &Path) -> Option<(String, String)> {
    let files = git_files(workspace, directory.as_os_str().as_bytes(), &[])?;
    Some((String::from_utf8(files.head).unwrap(), String::from_utf8(files.config).unwrap()))
}

#[test]
fn a_repository_is_found_as_git_finds_it_and_never_outside_of_the_roots() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let root = base.join("root");
    let make = |name: &str, text: &str| {
        fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
        fs::write(base.join(name), text).unwrap();
    };
    let whole = |name: &str| {
        for part in ["objects", "refs/heads"] {
            fs::create_dir_all(base.join(name).join(part)).unwrap();
        }
    };
    whole("root/app/.git");
    whole("outside/.git");
    make("root/app/.git/HEAD", "ref: refs/heads/one\n");
    make("root/app/.git/config", "[a]\n");
    make("root/app/src/deep/file", "");
    make("root/app/.git/worktrees/tree/HEAD", "ref: refs/heads/two\n");
    make("root/app/.git/worktrees/tree/commondir", "../..\n");
    make("root/tree/.git", &format!("gitdir: {}/app/.git/worktrees/tree\n", root.display()));
    make("outside/.git/HEAD", "ref: refs/heads/secret\n");
    make("outside/.git/config", "");
    make("root/file-out/.git", &format!("gitdir: {}/outside/.git\n", base.display()));
    fs::create_dir_all(root.join("link-out")).unwrap();
    symlink(base.join("outside/.git"), root.join("link-out/.git")).unwrap();
    fs::create_dir_all(root.join("none")).unwrap();
    let workspace = Workspace::open(std::slice::from_ref(&root), []).unwrap();
    let head = |name: &str| files(&workspace, &root.join(name)).map(|(head, _)| head);
    assert_eq!(head("app").as_deref(), Some("ref: refs/heads/one\n"));
    assert_eq!(head("app/src/deep").as_deref(), Some("ref: refs/heads/one\n"));
    assert_eq!(head("tree").as_deref(), Some("ref: refs/heads/two\n"));
    assert!(files(&workspace, &root.join("tree")).unwrap().1.ends_with("[a]\n\n"));
    assert_eq!(head("file-out"), None);
    assert_eq!(head("link-out"), None);
    assert_eq!(head("none"), None);
    assert_eq!(files(&workspace, &base.join("outside")), None);
    let elsewhere = [c"GIT_DIR=/x".to_owned()];
    let app = root.join("app");
    assert!(git_files(&workspace, app.as_os_str().as_bytes(), &elsewhere).is_none());
    fs::write(root.join("app/.git/config"), vec![b'#'; 300_000]).unwrap();
    assert_eq!(head("app"), None, "too long to be looked at");
}

/// A root with a whole repository in it, on the branch `one`.
fn root_with_repository() -> (tempfile::TempDir, Workspace) {
    let base = tempfile::tempdir().unwrap();
    let git = base.path().join(".git");
    for part in ["objects", "refs/heads", "refs/tags"] {
        fs::create_dir_all(git.join(part)).unwrap();
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/one\n").unwrap();
    fs::write(git.join("config"), "[remote \"origin\"]\nurl = /x\n").unwrap();
    let workspace = Workspace::open(&[base.path().to_owned()], []).unwrap();
    (base, workspace)
}

#[test]
fn what_git_takes_for_another_repository_is_not_known() {
    let (base, workspace) = root_with_repository();
    let base = base.path();
    let known = |name: &str| files(&workspace, &base.join(name)).is_some();
    let make = |name: &str| fs::create_dir_all(base.join(name)).unwrap();
    make("sub/deep");
    assert!(known("sub/deep"));
    // One that git passes over.
    make("sub/.git");
    fs::write(base.join("sub/.git/HEAD"), "ref: refs/heads/two\n").unwrap();
    fs::write(base.join("sub/.git/config"), "").unwrap();
    assert!(!known("sub") && !known("sub/deep"));
    make("sub/.git/objects");
    make("sub/.git/refs");
    assert!(known("sub/deep"));
    fs::write(base.join("sub/.git/HEAD"), "else\n").unwrap();
    assert!(!known("sub/deep"));
    // One without a working tree, and a directory in it.
    make("bare.git/objects");
    make("bare.git/refs/heads");
    assert!(known("bare.git"));
    fs::write(base.join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert!(!known("bare.git") && !known("bare.git/refs/heads"));
    assert!(!known(".git/refs"));
    // Remotes in their older forms.
    make(".git/branches");
    make(".git/remotes");
    assert!(known(""));
    fs::write(base.join(".git/branches/old"), "/x#main\n").unwrap();
    assert!(!known(""));
    fs::remove_file(base.join(".git/branches/old")).unwrap();
    fs::write(base.join(".git/remotes/old"), "URL: /x\n").unwrap();
    assert!(!known(""));
}

#[test]
fn a_ref_that_stands_for_another_is_found() {
    let (base, workspace) = root_with_repository();
    let git = base.path().join(".git");
    let look = |name: &str| {
        let refs = vec![name.as_bytes().to_vec()];
        let wants = Wants::Repository { path: Vec::new(), refs };
        let seen = observe(&workspace, base.path().as_os_str().as_bytes(), &wants, &[]);
        (seen.head.is_some(), seen.symbolic)
    };
    fs::write(git.join("refs/heads/one"), "0".repeat(40)).unwrap();
    fs::write(git.join("refs/heads/alias"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("refs/tags/alias"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("MINE"), "ref: refs/heads/main\n").unwrap();
    symlink("refs/heads/main", git.join("refs/heads/older")).unwrap();
    for (name, symbolic) in [
        ("refs/heads/one", false),
        ("refs/heads/none", false),
        ("refs/heads", false),
        ("refs/heads/one/more", false),
        ("refs/heads/alias", true),
        ("refs/tags/alias", true),
        ("refs/heads/older", true),
        ("MINE", true),
        ("refs/heads/../heads/one", true),
        ("main-worktree/HEAD", true),
    ] {
        assert_eq!(look(name), (true, symbolic), "{name}");
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/alias\n").unwrap();
    assert_eq!(look("refs/heads/one"), (false, false));
}

/// The server reads it, whatever the tool may read.
#[test]
fn what_a_tool_leaves_in_its_home_leads_nowhere_and_is_not_waited_for() {
    let (base, workspace) = root_with_repository();
    let home = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "[push]\nfollowTags = true\n").unwrap();
    let variable = std::ffi::CString::new(format!("HOME={}", home.path().display())).unwrap();
    let config = || {
        let place = base.path().as_os_str().as_bytes();
        let files = git_files(&workspace, place, std::slice::from_ref(&variable))?;
        Some(String::from_utf8(files.config).unwrap())
    };
    let own = home.path().join(".gitconfig");
    assert!(config().is_some());
    fs::write(&own, "[own]\n").unwrap();
    assert!(config().unwrap().contains("[own]"));
    fs::rename(&own, home.path().join("elsewhere")).unwrap();
    symlink("elsewhere", &own).unwrap();
    assert_eq!(config(), None, "a link within");
    fs::remove_file(&own).unwrap();
    symlink(outside.path().join("secret"), &own).unwrap();
    assert_eq!(config(), None, "a link that leads out");
    fs::remove_file(&own).unwrap();
    nix::unistd::mkfifo(&own, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(config(), None, "what would be waited for");
    fs::remove_file(&own).unwrap();
    symlink(outside.path(), home.path().join(".config")).unwrap();
    assert_eq!(config(), None, "a directory that leads out");
}

/// All callers wait for what is looked up: a directory that takes long to look up is, once.
#[test]
fn how_much_is_looked_up_does_not_depend_on_what_a_repository_is_made_of() {
    let (base, workspace) = root_with_repository();
    let git = base.path().join(".git");
    fs::create_dir(git.join("d")).unwrap();
    for link in 0..38 {
        symlink("d/../".repeat(80), git.join(format!("s{link}"))).unwrap();
    }
    let long: String = (0..38).map(|link| format!("s{link}/")).collect();
    fs::write(git.join("commondir"), format!("{long}.\n")).unwrap();
    let place = |below: &str| base.path().join(below).into_os_string().into_encoded_bytes();
    let look = |below: &str, names: usize| {
        let refs = (0..names).map(|name| format!("refs/heads/b{name}").into_bytes()).collect();
        let wants = Wants::Repository { path: Vec::new(), refs };
        count::FOLLOWING.set(0);
        count::PLAIN.set(0);
        let seen = observe(&workspace, &place(below), &wants, &[]);
        let counted = (count::FOLLOWING.get(), count::PLAIN.get());
        assert!(counted.0 <= 4 && counted.1 <= 2 * NAMES + 4 * DEEP, "{counted:?}");
        (seen.head.is_some(), seen.symbolic)
    };
    // Some tens of branches, and as many as are looked at.
    assert_eq!(look("", 6 * 40), (true, false));
    assert_eq!(look("", NAMES), (true, false));
    assert!(count::PLAIN.get() > 2 * NAMES, "they are looked at in both places");
    assert_eq!(look("", NAMES + 1), (true, true));
    assert_eq!(look("", 6 * 1023), (true, true));
    assert!(count::PLAIN.get() < 30, "{}", count::PLAIN.get());
    // Directories, too many of them.
    let deep = "a/".repeat(DEEP);
    fs::create_dir_all(base.path().join(&deep).join("b")).unwrap();
    assert_eq!(look(deep.trim_end_matches('/'), 1), (true, false));
    assert_eq!(look(&format!("{deep}b"), 1), (false, false));
    // A directory of refs that is a symlink.
    symlink("heads", git.join("refs/linked")).unwrap();
    let refs = vec![b"refs/linked/one".to_vec()];
    let wants = Wants::Repository { path: Vec::new(), refs };
    assert!(observe(&workspace, &place(""), &wants, &[]).symbolic);
}

/// The caller's files are read, never what only looks like one.
#[test]
fn what_is_no_regular_file_of_a_repository_is_not_read() {
    let pipe = |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["HEAD", "config", "commondir"] {
        let (base, workspace) = root_with_repository();
        let known = || files(&workspace, base.path()).is_some();
        let file = base.path().join(".git").join(name);
        if name == "commondir" {
            fs::write(&file, ".\n").unwrap();
        }
        assert!(known(), "{name}");
        let aside = base.path().join("aside");
        fs::rename(&file, &aside).unwrap();
        pipe(&file);
        assert!(!known(), "{name}, a pipe");
        fs::remove_file(&file).unwrap();
        symlink(&aside, &file).unwrap();
        assert!(!known(), "{name}, a link");
        fs::remove_file(&file).unwrap();
        fs::write(&file, vec![b'#'; 300_000]).unwrap();
        assert!(!known(), "{name}, too long");
    }
    let (base, workspace) = root_with_repository();
    pipe(&base.path().join(".git/refs/heads/one"));
    let wants = Wants::Repository { path: Vec::new(), refs: Vec::new() };
    let place = base.path().as_os_str().as_bytes();
    assert_eq!(observe(&workspace, place, &wants, &[]).head, None);
}

/// It is shown, and an approval stands for it; each question of each caller costs it.
#[test]
fn the_repository_of_a_question_costs_its_depth_once_and_no_link_is_followed() {
    let (base, workspace) = root_with_repository();
    let base = fs::canonicalize(base.path()).unwrap();
    let make = |below: &str| fs::create_dir_all(base.join(below)).unwrap();
    let of = |below: &str| {
        let place = base.join(below).into_os_string().into_encoded_bytes();
        let found = repository_of(&workspace, &place);
        let found = String::from_utf8(found).unwrap();
        let beneath = Path::new(&found).strip_prefix(&base).unwrap();
        beneath.to_str().unwrap().to_owned()
    };
    make("sub/deep");
    make("other/.git");
    make("other/deep");
    assert_eq!((of("sub/deep"), of("other/deep"), of("")), ("".into(), "other".into(), "".into()));
    fs::write(base.join("sub/.git"), "gitdir: nowhere\n").unwrap();
    assert_eq!(of("sub/deep"), "sub");
    // Put there since the directory was entered.
    symlink("other", base.join("link")).unwrap();
    assert_eq!(of("link/deep"), "link/deep");
    // As deep as names may be.
    let deep = "d/".repeat(DEEP);
    make(&deep);
    count::FOLLOWING.set(0);
    count::PLAIN.set(0);
    assert_eq!(of(deep.trim_end_matches('/')), "");
    let counted = (count::FOLLOWING.get(), count::PLAIN.get());
    assert!(counted.0 <= 1 && counted.1 <= 2 * DEEP + 4, "{counted:?}");
    let deeper = format!("{deep}{}", "d/".repeat(500));
    count::PLAIN.set(0);
    assert_eq!(of(deeper.trim_end_matches('/')), deeper.trim_end_matches('/'));
    assert!(count::PLAIN.get() <= 2);
    // Above the root it is no business of a caller's.
    let inner = Workspace::open(&[base.join("sub/deep")], []).unwrap();
    let place = base.join("sub/deep").into_os_string().into_encoded_bytes();
    assert_eq!(repository_of(&inner, &place), place);
}

/// All callers wait while a call's own repository is looked at.
#[test]
fn a_lease_and_links_before_gits_files_make_no_call_long() {
    let (base, workspace) = root_with_repository();
    let home = tempfile::tempdir().unwrap();
    let variable = std::ffi::CString::new(format!("HOME={}", home.path().display())).unwrap();
    let place = base.path().as_os_str().as_bytes();
    let look = || {
        count::FOLLOWING.set(0);
        let found = git_files(&workspace, place, std::slice::from_ref(&variable)).is_some();
        (found, count::FOLLOWING.get())
    };
    assert!(look().0);
    fs::rename(base.path().join(".git"), base.path().join("git")).unwrap();
    symlink("git", base.path().join(".git")).unwrap();
    assert!(look().0, "a link to the directory");
    // To a file, by a long way.
    fs::remove_file(base.path().join(".git")).unwrap();
    fs::write(base.path().join("file"), "gitdir: git\n").unwrap();
    symlink("file", base.path().join("s38")).unwrap();
    for link in 0..38 {
        let to = format!("{}s{}", "git/../".repeat(80), link + 1);
        symlink(to, base.path().join(format!("s{link}"))).unwrap();
    }
    symlink("s0", base.path().join(".git")).unwrap();
    let (found, times) = look();
    assert!(!found && times <= 4, "{times}");
    fs::remove_file(base.path().join(".git")).unwrap();
    fs::rename(base.path().join("file"), base.path().join(".git")).unwrap();
    assert!(look().0, "a file");
    let leased = fs::File::options().write(true).open(base.path().join(".git")).unwrap();
    lease(&leased);
    let (found, times) = look();
    assert!(!found && times <= 4, "{times}");
    drop(leased);
    assert!(look().0, "it was given back");
    let own = fs::File::create(home.path().join(".gitconfig")).unwrap();
    assert!(look().0);
    lease(&own);
    let (found, times) = look();
    assert!(!found && times <= 4, "{times}");
}
