//! Which projects are taken, and what a compose file is given for them.

use super::*;

const ME: Ids = Ids { uid: 1000, gid: 1000 };
const ROOT: Ids = Ids { uid: 0, gid: 0 };

fn asked<'a>(project: &'a str, owner: Ids, caller: Ids) -> Asked<'a> {
    Asked {
        project: Path::new(project),
        home: Path::new("/home/me/.config/claude-container"),
        engine: Engine::Podman,
        rootless: true,
        caller,
        owner: Some(owner),
        workspace: Workspace::At("/workspace".to_owned()),
        seccomp: None,
        systempaths: true,
    }
}

#[track_caller]
fn value(place: &Place, name: &str) -> String {
    let found = place.variables.iter().find(|(known, _)| *known == name);
    found.expect(name).1.clone()
}

#[track_caller]
fn refusal(asked: &Asked) -> String {
    place(asked).expect_err("refused").to_string()
}

#[test]
fn each_engine_gets_the_options_by_which_tools_are_confined() {
    let rootless = place(&asked("/p", ME, ME)).expect("placed");
    assert_eq!(value(&rootless, "USERNS_MODE"), "keep-id");
    assert_eq!(value(&rootless, "SERVER_PROC"), "unmask=/proc/*");
    let root = place(&Asked { rootless: false, ..asked("/p", ROOT, ROOT) }).expect("placed");
    assert_eq!(value(&root, "USERNS_MODE"), "host");
    assert_eq!(value(&root, "SERVER_SECCOMP"), "unconfined");
    let docker = Asked {
        engine: Engine::Docker,
        rootless: false,
        seccomp: Some("/src/deploy/seccomp.json"),
        ..asked("/p", ME, ME)
    };
    let docker = place(&docker).expect("placed");
    assert_eq!(value(&docker, "SERVER_PROC"), "systempaths=unconfined");
    assert_eq!(value(&docker, "SERVER_SECCOMP"), "/src/deploy/seccomp.json");
    assert_eq!(value(&docker, "HOST_UID"), "1000");
    let old = Asked { engine: Engine::Docker, systempaths: false, ..asked("/p", ME, ME) };
    assert_eq!(value(&place(&old).expect("placed"), "SERVER_PROC"), "no-new-privileges");
}

#[test]
fn containers_run_as_the_owner_of_the_project() {
    let other = Ids { uid: 1001, gid: 50 };
    let place_of = |owner, caller| place(&Asked { rootless: false, ..asked("/p", owner, caller) });
    let place = place_of(other, ROOT).expect("root may");
    assert_eq!(
        (value(&place, "HOST_UID"), value(&place, "HOST_GID")),
        ("1001".into(), "50".into())
    );
    assert!(place.notes.concat().contains("the containers run as 1001:50"), "{:?}", place.notes);
    let place = place_of(ROOT, ROOT).expect("root's own");
    assert!(
        place.notes.concat().contains("as root, without its capabilities"),
        "{:?}",
        place.notes
    );
    assert_eq!(place_of(ME, ME).expect("mine").notes, Vec::<String>::new());
    let error = refusal(&asked("/p", other, ME));
    assert!(
        error.contains("belongs to uid 1001, you are 1000") && error.contains("chown"),
        "{error}"
    );
}

#[test]
fn a_group_that_the_namespace_does_not_know_is_not_asked_for() {
    let place = place(&asked("/p", Ids { uid: 1000, gid: 50 }, ME)).expect("placed");
    assert_eq!(value(&place, "HOST_GID"), "1000");
}

#[test]
fn odd_names_are_taken_and_those_that_cannot_be_mounted_are_not() {
    for name in ["/a b", "/it's", "/\"q\"", "/ü/项目", "/$HOME", "/a,b", "/%s"] {
        let place = place(&asked(name, ME, ME)).expect(name);
        assert_eq!(value(&place, "PROJECT_DIR"), name);
    }
    for (name, why) in
        [("/a:b", "colon"), ("/a\nb", "control"), ("/", "must not reach"), ("a", "absolute")]
    {
        let error = refusal(&asked(name, ME, ME));
        assert!(error.contains(why), "{name}: {error}");
    }
}

#[test]
fn the_workspace_may_have_the_hosts_path_but_none_of_the_containers_own() {
    let same = |project| Asked { workspace: Workspace::Same, ..asked(project, ME, ME) };
    for project in ["/home/me/app", "/opt/app"] {
        let there = place(&same(project)).expect("placed");
        assert_eq!(value(&there, "WORKSPACE_PATH"), project);
    }
    for project in ["/usr/src/app", "/tmp/app", "/home/agent/x", "/opt", "/var/lib/extrausers"] {
        let error = refusal(&same(project));
        assert!(error.contains("for themselves"), "{error}");
    }
    let at = |path: &str| Asked { workspace: Workspace::At(path.into()), ..asked("/p", ME, ME) };
    for path in ["/src/../etc", "src", "/", ""] {
        place(&at(path)).expect_err(path);
    }
    place(&at("/src")).expect("placed");
}

#[test]
fn a_project_that_holds_the_keys_or_lies_among_them_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().join("project/.config/claude-container");
    fs::create_dir_all(home.join("state")).expect("made");
    fs::create_dir(dir.path().join("other")).expect("made");
    let own = nix::unistd::getuid().as_raw();
    let caller = Ids { uid: own, gid: own };
    let ask = |project: &Path| {
        let asked = Asked {
            project,
            home: &home,
            owner: None,
            rootless: false,
            ..asked("", caller, caller)
        };
        place(&asked).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(ask(&dir.path().join("project")).expect_err("holds").contains("must not reach"));
    assert!(ask(&home.join("state")).expect_err("within").contains("lies in"));
    assert!(ask(&dir.path().join("none")).expect_err("none").contains("cannot find"));
    ask(&dir.path().join("other")).expect("placed");
    // By another name.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("project"), &link).expect("linked");
    assert!(ask(&link).expect_err("holds").contains("must not reach"));
    fs::write(dir.path().join("file"), "").expect("written");
    assert!(ask(&dir.path().join("file")).expect_err("a file").contains("not a directory"));
}
