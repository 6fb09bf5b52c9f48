//! git's shipped grammar reads what git reads.

use crate::support::{self, read, shipped};

/// Command lines and what they say. What git itself makes of most of them is in
/// the tests against git beside this file.
#[test]
fn command_lines_of_git_are_read() {
    let git = shipped("git");
    let cases = [
        ("push --force origin main", "push --force : origin main"),
        ("push -f origin +main", "push --force : origin +main"),
        (
            "push --forc",
            "unread: --forc of tool push is not written in full: it may be --force or --force-if-includes \
            or --force-with-lease",
        ),
        ("push --force-w=main", "push --force-with-lease=main :"),
        ("push --foo", "unread: --foo is no option of tool push known to these rules"),
        ("push -fu origin", "push --force --set-upstream : origin"),
        ("push -oci.skip x", "push --push-option=ci.skip : x"),
        ("push -o ci.skip x", "push --push-option=ci.skip : x"),
        ("push --no-verify", "push --no-verify :"),
        ("push --verify", "push !--no-verify :"),
        ("push --exec=x", "push --receive-pack=x :"),
        ("push origin -- main", "push : origin -- main"),
        ("push --end-of-options --force", "push : --force"),
        ("-C x --git-dir=y -c a=b status -s", "status -C=x --git-dir=y -c=a=b --short :"),
        ("-cfoo=bar status", "unread: -cfoo=bar is no option of tool known to these rules"),
        ("--git-d=x status", "unread: --git-d is no option of tool known to these rules"),
        ("log -5 -p --oneline main..x -- a", "log -<n>=5 --patch --oneline : main..x -- a"),
        ("log --onel", "unread: --onel is no option of tool log known to these rules"),
        ("log -n5", "log --max-count=5 :"),
        ("commit -am msg", "commit --all --message=msg :"),
        ("commit -Sabc -m x", "commit --gpg-sign=abc --message=x :"),
        ("commit --no-edit --amend", "commit !--edit --amend :"),
        ("stash", "stash :"),
        ("stash -p", "stash --patch :"),
        ("stash pop", "stash pop :"),
        ("stash -k pop", "stash --keep-index : pop"),
        ("stash -- pop", "stash : -- pop"),
        ("remote -v add x y", "remote add --verbose : x y"),
        ("remote rm x", "remote remove : x"),
        ("remote foo", "unread: foo is no command of tool remote known to these rules"),
        ("stage .", "add : ."),
        ("submodule foreach -q git x --y", "submodule foreach --quiet : git x --y"),
        ("bisect run make --foo", "bisect run : make --foo"),
        ("branch -D x", "branch -D : x"),
        ("branch --merged", "branch --merged :"),
        ("branch --merged main", "branch --merged=main :"),
        ("config user.name --unset", "config : user.name --unset"),
        ("config set --global a b", "config set --global : a b"),
        ("config --global set b", "config --global : set b"),
        ("psuh x", "unread: psuh is no command of tool known to these rules"),
        (
            "update-index --cacheinfo x",
            "unread: --cacheinfo is no option of tool update-index \
            known to these rules",
        ),
        ("commit -m", "unread: -m of tool commit needs a value"),
        ("commit --amend=x", "unread: --amend of tool commit: --amend takes no such value"),
        ("--version", "--version :"),
        ("-h", "--help :"),
    ];
    let wrong = |(words, expected): &(&str, &str)| {
        let found = read(&git, words);
        (found != *expected).then(|| format!("git {words}\n  {found}\n  {expected}\n"))
    };
    let wrong: String = cases.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(support::shown(&git.read(&[])), ":");
}
