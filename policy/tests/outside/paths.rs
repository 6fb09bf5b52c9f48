//! `beneath`: every way to write a path, and what is known of where it leads.

use crate::support::known;

/// Seen from `/base/sub`; the first matcher is `/base`, the second `.`, the third
/// `@roots` (`/base` and `/other`).
const PATHS: &[(&str, &str, &str, &str)] = &[
    // The directory itself, and what is in it.
    (".", "yes", "yes", "yes"),
    ("./", "yes", "yes", "yes"),
    ("./.", "yes", "yes", "yes"),
    (".//.", "yes", "yes", "yes"),
    ("a", "yes", "yes", "yes"),
    ("a/", "yes", "yes", "yes"),
    ("a//b", "yes", "yes", "yes"),
    ("a/./b", "yes", "yes", "yes"),
    ("./a", "yes", "yes", "yes"),
    ("a/b/c/d/e/f/g", "yes", "yes", "yes"),
    ("...", "yes", "yes", "yes"),
    ("..a", "yes", "yes", "yes"),
    ("a..", "yes", "yes", "yes"),
    (".../x", "yes", "yes", "yes"),
    (".git", "yes", "yes", "yes"),
    ("-", "yes", "yes", "yes"),
    ("-x", "yes", "yes", "yes"),
    ("--", "yes", "yes", "yes"),
    ("~", "yes", "yes", "yes"),
    ("~/x", "yes", "yes", "yes"),
    ("~root/x", "yes", "yes", "yes"),
    ("$HOME/x", "yes", "yes", "yes"),
    ("*", "yes", "yes", "yes"),
    (" ", "yes", "yes", "yes"),
    (" /etc", "yes", "yes", "yes"),
    ("a b", "yes", "yes", "yes"),
    ("a\nb", "yes", "yes", "yes"),
    ("a\\b", "yes", "yes", "yes"),
    ("\\etc", "yes", "yes", "yes"),
    ("C:\\x", "yes", "yes", "yes"),
    ("%2e%2e/x", "yes", "yes", "yes"),
    ("file:///etc/passwd", "yes", "yes", "yes"),
    ("base", "yes", "yes", "yes"),
    ("etc/passwd", "yes", "yes", "yes"),
    ("proc/self/root", "yes", "yes", "yes"),
    // Upwards: the directory is resolved, so its own `..` lead where they say.
    ("..", "yes", "no", "yes"),
    ("../", "yes", "no", "yes"),
    ("../.", "yes", "no", "yes"),
    (".././", "yes", "no", "yes"),
    ("./..", "yes", "no", "yes"),
    ("..//", "yes", "no", "yes"),
    ("../a", "yes", "no", "yes"),
    ("../sub", "yes", "yes", "yes"),
    ("../sub/a", "yes", "yes", "yes"),
    ("../sub2", "yes", "no", "yes"),
    ("../su", "yes", "no", "yes"),
    ("../Sub", "yes", "no", "yes"),
    ("../..", "no", "no", "no"),
    ("../../", "no", "no", "no"),
    ("../../..", "no", "no", "no"),
    ("../../../../../..", "no", "no", "no"),
    ("../../base", "yes", "no", "yes"),
    ("../../base/sub", "yes", "yes", "yes"),
    ("../../base/sub/a", "yes", "yes", "yes"),
    ("../../base-evil", "no", "no", "no"),
    ("../../baseer/x", "no", "no", "no"),
    ("../../wor", "no", "no", "no"),
    ("../../other", "no", "no", "yes"),
    ("../../other/x", "no", "no", "yes"),
    ("../../other2", "no", "no", "no"),
    ("../../etc/passwd", "no", "no", "no"),
    ("../../../etc/passwd", "no", "no", "no"),
    ("../../../../../base/sub/a", "yes", "yes", "yes"),
    (".//..//..//etc", "no", "no", "no"),
    ("././../a", "yes", "no", "yes"),
    // Behind a name `..` leads wherever a symlink led.
    ("a/..", "unknown", "unknown", "unknown"),
    ("a/../", "unknown", "unknown", "unknown"),
    ("a/../b", "unknown", "unknown", "unknown"),
    ("a/./../b", "unknown", "unknown", "unknown"),
    ("a//../b", "unknown", "unknown", "unknown"),
    ("a/../../..", "unknown", "unknown", "unknown"),
    ("a/../../../etc/passwd", "unknown", "unknown", "unknown"),
    ("../a/../b", "unknown", "unknown", "unknown"),
    ("../../base/../etc", "unknown", "unknown", "unknown"),
    (".../..", "unknown", "unknown", "unknown"),
    (" /../x", "unknown", "unknown", "unknown"),
    // Absolute.
    ("/", "no", "no", "no"),
    ("//", "no", "no", "no"),
    ("/.", "no", "no", "no"),
    ("/base", "yes", "no", "yes"),
    ("/base/", "yes", "no", "yes"),
    ("/base//", "yes", "no", "yes"),
    ("//base", "yes", "no", "yes"),
    ("///base///a", "yes", "no", "yes"),
    ("/./base/./a", "yes", "no", "yes"),
    ("/base/.", "yes", "no", "yes"),
    ("/base/sub", "yes", "yes", "yes"),
    ("/base/sub/", "yes", "yes", "yes"),
    ("/base//sub/./a", "yes", "yes", "yes"),
    ("/base/sub2", "yes", "no", "yes"),
    ("/base/su", "yes", "no", "yes"),
    ("/base-evil", "no", "no", "no"),
    ("/base-evil/sub", "no", "no", "no"),
    ("/base.", "no", "no", "no"),
    ("/base ", "no", "no", "no"),
    ("/basex", "no", "no", "no"),
    ("/wor", "no", "no", "no"),
    ("/WORK", "no", "no", "no"),
    ("/Work/sub", "no", "no", "no"),
    ("/other", "no", "no", "yes"),
    ("/other/a", "no", "no", "yes"),
    ("/others", "no", "no", "no"),
    ("/etc", "no", "no", "no"),
    ("/etc/passwd", "no", "no", "no"),
    ("/etc/base", "no", "no", "no"),
    ("/home/base/sub", "no", "no", "no"),
    ("/..", "no", "no", "no"),
    ("/../..", "no", "no", "no"),
    ("/../base", "yes", "no", "yes"),
    ("/../base/sub", "yes", "yes", "yes"),
    ("/../etc", "no", "no", "no"),
    ("/base/..", "unknown", "unknown", "unknown"),
    ("/base/../etc", "unknown", "unknown", "unknown"),
    ("/base/sub/..", "unknown", "unknown", "unknown"),
    ("/base/sub/../../etc", "unknown", "unknown", "unknown"),
    ("/etc/../base", "unknown", "unknown", "unknown"),
    ("/base/a/../../base-evil", "unknown", "unknown", "unknown"),
    // The kernel's own links.
    ("/proc", "no", "no", "no"),
    ("/proc/self/root", "unknown", "unknown", "unknown"),
    ("/proc/self/root/base/sub", "unknown", "unknown", "unknown"),
    ("/proc/self/cwd/a", "unknown", "unknown", "unknown"),
    ("/proc/1/root/etc/passwd", "unknown", "unknown", "unknown"),
    ("//proc//self/fd/3", "unknown", "unknown", "unknown"),
    ("../../proc/self/root/base", "unknown", "unknown", "unknown"),
    ("/dev/fd/3", "unknown", "unknown", "unknown"),
    ("/dev/fd", "unknown", "unknown", "unknown"),
    ("/dev/null", "no", "no", "no"),
    ("/dev/stdin", "no", "no", "no"),
    // Nobody knows what an empty word means to a tool.
    ("", "unknown", "unknown", "unknown"),
];

#[test]
fn a_path_is_beneath_a_root_by_its_components_and_by_nothing_else() {
    assert!(PATHS.len() >= 120, "{}", PATHS.len());
    for (path, root, here, roots) in PATHS {
        let word = path.as_bytes();
        assert_eq!(known("{ beneath = \"/base\" }", word), *root, "/base: {path:?}");
        assert_eq!(known("{ beneath = \"/base/\" }", word), *root, "/base/: {path:?}");
        assert_eq!(known("{ beneath = \".\" }", word), *here, ".: {path:?}");
        assert_eq!(known("{ beneath = \"@roots\" }", word), *roots, "@roots: {path:?}");
        let opposite = match *root {
            "yes" => "no",
            "no" => "yes",
            other => other,
        };
        assert_eq!(known("{ not = { beneath = \"/base\" } }", word), opposite, "not: {path:?}");
    }
}

#[test]
fn paths_are_bytes() {
    for (path, wanted) in [
        (&b"/base/\xff"[..], "yes"),
        (b"\xff\xfe", "yes"),
        (b"/base\xff", "no"),
        (b"/wor\xc3\xab", "no"),
        (b"../\xff/../x", "unknown"),
    ] {
        assert_eq!(known("{ beneath = \"/base\" }", path), wanted, "{}", path.escape_ascii());
    }
    let long = [b"a/".repeat(60_000), b"b".to_vec()].concat();
    assert_eq!(known("{ beneath = \"/base\" }", &long), "yes");
    assert_eq!(known("{ beneath = \"/\" }", b"/anything"), "yes");
}
