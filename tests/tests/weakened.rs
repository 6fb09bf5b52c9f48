//! Each measure matters: where it is taken away the attacks that it stops work, and
//! with it they do not. The server is one that can be weakened, which no release is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use tool_broker_tests::attacks::definitions::{GIT, NET, REPOSITORY, SH};
use tool_broker_tests::attacks::{Mode, Row, Table, World, stopper};
use tool_broker_tests::binaries::{binaries, weakened};
use tool_broker_tests::lingering::holds_closers;
use tool_broker_tests::{is_root, project, run, skipped};

/// Tools run as the owner of the workspace, the server is root.
const OWNER: Mode = Mode { owner: true, level: "auto" };
/// Tools and the server are one user.
const SHARED: Mode = Mode { owner: false, level: "auto" };
/// The same without namespaces.
const LANDLOCK: Mode = Mode { owner: false, level: "landlock" };

/// A measure, and what works without it.
struct Measure {
    name: &'static str,
    mode: Mode,
    /// Other measures that would stop it too, and are away in both cases.
    also: &'static [&'static str],
    attacks: &'static [Attack],
}

/// A row of `tests/attacks/TABLE.toml`, or one of its own.
enum Attack {
    Row(&'static str, &'static str, &'static str),
    Own(&'static str, &'static str),
    /// One with a server of its own, which lacks these; whether it worked. Where it has to
    /// work it may try for long.
    Alone(fn(&str, bool) -> bool),
}
use Attack::{Alone, Own, Row as Of};

/// What a row has to show is the last word: it is in the harm that was done.
const MEASURES: &[Measure] = &[
    Measure {
        name: "landlock-fs",
        mode: OWNER,
        also: &["trial"],
        attacks: &[
            Of("programs", "local-read-outside", "the secret outside"),
            Of("programs", "local-read-token", "the token"),
            Of("programs", "local-write-outside", "target.txt is new or another"),
            Of("git", "write-diff-output", "target.txt is new or another"),
            Of("git", "read-no-index", "the secret outside"),
            Of("git", "hook-post-commit", "the token"),
        ],
    },
    // The server itself sees that what it confines is not held.
    Measure {
        name: "trial",
        mode: OWNER,
        also: &["landlock-fs", "no-new-privs"],
        attacks: &[Of("programs", "local-read-outside", "the secret outside")],
    },
    Measure {
        name: "landlock-net",
        mode: LANDLOCK,
        also: &[],
        attacks: &[Of("programs", "net-tcp", "GOT! tcp")],
    },
    Measure {
        name: "landlock-scope",
        mode: SHARED,
        // Where it is seen that signals are not held, nothing runs as the server's user.
        also: &["trial"],
        attacks: &[Of("programs", "local-signal-others", "TOOK signal")],
    },
    Measure {
        name: "seccomp",
        mode: SHARED,
        also: &["trial"],
        attacks: &[
            Of("programs", "local-unix", "GOT! unix"),
            Of("programs", "local-udp", "GOT! udp"),
            Of("programs", "tty-tiocsti-high", "TOOK ioctl"),
            Of("programs", "local-limits-of-others", "TOOK prlimit"),
        ],
    },
    // Without namespaces the machine's network is there to listen in.
    Measure {
        name: "seccomp",
        mode: LANDLOCK,
        also: &["trial"],
        attacks: &[Of("programs", "net-listen-anew", "TOOK a listening socket")],
    },
    Measure {
        name: "no-new-privs",
        mode: OWNER,
        also: &["trial"],
        attacks: &[Of("programs", "local-gain-by-sudo", "TOOK new privileges")],
    },
    Measure {
        name: "uid",
        mode: OWNER,
        also: &[],
        attacks: &[Own("sh -c '{p} chmod_others'", "protected: token is new or another")],
    },
    Measure {
        name: "capabilities",
        mode: OWNER,
        also: &["uid", "trial"],
        attacks: &[Of("programs", "local-capabilities", "TOOK Cap")],
    },
    Measure {
        name: "descriptors",
        mode: OWNER,
        also: &[],
        attacks: &[Of("programs", "local-read-by-descriptors", "TOOK descriptor")],
    },
    Measure {
        name: "unix-sockets",
        mode: OWNER,
        also: &[],
        attacks: &[Of("programs", "inherit-socket", "TOOK a Unix socket")],
    },
    Measure {
        name: "namespaces",
        mode: OWNER,
        also: &[],
        attacks: &[Own("net -c '{p} argv_of_others'", "TOOK argv")],
    },
    Measure {
        name: "env",
        mode: OWNER,
        also: &[],
        attacks: &[Of("programs", "inherit-variable", "TOOK the caller")],
    },
    Measure {
        name: "credential-env",
        mode: OWNER,
        also: &[],
        attacks: &[
            Of("programs", "local-read-state", "the token"),
            Of("git", "hook-post-commit", "the token"),
        ],
    },
    Measure {
        name: "control-peer",
        mode: SHARED,
        also: &["seccomp", "trial"],
        attacks: &[Of("programs", "local-control", "TOOK status")],
    },
    Measure {
        name: "gate-secret",
        mode: OWNER,
        also: &[],
        attacks: &[Of("programs", "net-gate-without-secret", "TOOK the gate without its secret")],
    },
    Measure {
        name: "gate-refs",
        mode: OWNER,
        also: &[],
        attacks: &[
            Of("gate", "push-other-refs", "the forge has"),
            Of("gate", "push-commands-by-hand", "the forge has"),
            Of("gate", "led-by-refspec", "the forge has"),
        ],
    },
    Measure {
        name: "gate-repositories",
        mode: OWNER,
        also: &[],
        attacks: &[
            Of("gate", "push-another-repository", "the forge was asked"),
            Of("gate", "led-by-instead-of", "the forge was asked"),
        ],
    },
    Measure {
        name: "gate-grant",
        mode: OWNER,
        also: &[],
        attacks: &[Of("gate", "fetch-hook-pushes", "the forge has a ref stolen")],
    },
    Measure {
        name: "gate-headers",
        mode: OWNER,
        also: &[],
        attacks: &[Of("gate", "push-other-headers", "the forge was told")],
    },
    Measure {
        name: "gate-private",
        mode: OWNER,
        also: &[],
        attacks: &[Own("private -c '{p} gate_private'", "somebody called: tcp: GET / HTTP/1.1")],
    },
    Measure {
        name: "gate-sni",
        mode: OWNER,
        also: &[],
        attacks: &[Own("tunnel -c '{p} gate_plain_tunnel'", "TOOK")],
    },
    Measure {
        name: "gate-force",
        mode: OWNER,
        also: &[],
        attacks: &[Own(
            "forced -c 'git push -qf http://github.com/o/r.git topic:refs/heads/main'",
            "the forge has no more: refs/heads/main",
        )],
    },
    Measure {
        name: "gate-paths",
        mode: OWNER,
        also: &[],
        attacks: &[Own("paths -c '{p} gate_paths'", "the forge was asked: GET /")],
    },
    // The host takes another operation than the one that was looked at.
    Measure {
        name: "gate-graphql",
        mode: OWNER,
        also: &[],
        attacks: &[Own(
            "printf '%s' '{\"query\":\"query A { viewer { login } } mutation B { deleteRepository(input: {}) { clientMutationId } }\",\"operationName\":\"B\"}' | github api graphql --input -",
            "somebody called: tcp: POST /graphql",
        )],
    },
    // What was approved begins as what is sent then.
    Measure {
        name: "gate-body",
        mode: OWNER,
        also: &[],
        attacks: &[Own("asked -c '{p} gate_body'", "somebody called: tcp: POST /")],
    },
    Measure {
        name: "redact",
        mode: OWNER,
        also: &[],
        attacks: &[Own("redacted -c \"echo $(cat {token})\"", "stdout: the token")],
    },
    Measure {
        name: "gate-redirects",
        mode: OWNER,
        also: &[],
        attacks: &[
            Own("moved -c '{p} gate_link'", "TOOK a link"),
            Own("shop -c '{p} gate_link'", "the token"),
        ],
    },
    Measure {
        name: "gate-elsewhere",
        mode: OWNER,
        also: &[],
        attacks: &[Own("shop -c '{p} gate_followed'", "somebody called: tcp: GET /")],
    },
    Measure {
        name: "gate-links",
        mode: OWNER,
        also: &[],
        attacks: &[Own("large -c '{p} gate_large'", "the token")],
    },
    Measure {
        name: "gate-registry",
        mode: OWNER,
        also: &[],
        attacks: &[Own("shop -c '{p} gate_token'", "the token")],
    },
    Measure {
        name: "signing-rules",
        mode: OWNER,
        also: &[],
        attacks: &[Own(
            "signed commit -q -S --allow-empty -m x; signed cat-file commit HEAD | grep -q gpgsig && echo TOOK a signature",
            "TOOK a signature",
        )],
    },
    Measure { name: "nudge", mode: OWNER, also: &[], attacks: &[Alone(nudge)] },
    Measure { name: "hurry", mode: OWNER, also: &[], attacks: &[Alone(hurry)] },
];

/// Stops the server's children before they execute.
fn nudge(away: &str, works: bool) -> bool {
    // It has to meet a child between two system calls.
    stopper::stops_a_server(STOPPED, if works { 30 } else { 1 }, |setup| {
        setup.server(weakened());
        setup.env("TOOL_WEAKEN", away);
    })
}

/// Holds its threads that close.
fn hurry(away: &str, _works: bool) -> bool {
    holds_closers(|setup| {
        setup.server(weakened());
        setup.env("TOOL_WEAKEN", away);
    })
}

/// Nobody's but this test's.
const STOPPED: u32 = 64_322;

/// A gate to a name of this machine, whose network is not listed.
const PRIVATE: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "http"
hosts = ["localhost"]
ports = [{port}]
default = "allow"
"#;

/// Tunnels to it.
const TUNNEL: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "http"
hosts = ["localhost"]
ports = [{port}]
private = ["127.0.0.0/8", "::1/128"]
default = "allow"
"#;

/// Nobody may rewrite what the forge has.
const FORCED: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "git"
hosts = ["github.com"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
[[rule]]
id = "force"
decision = "deny"
on = "wire"
subcommand = "push"
facts.force = true
reason = "others build on it"
"#;

/// A few paths of a host.
const PATHS: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "http"
hosts = ["api.example"]
paths = ["/o/**"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
"#;

/// A host that may send its callers elsewhere.
const MOVED: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "http"
hosts = ["api.example"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8", "::1/128"]
default = "allow"
"#;

/// A registry.
const SHOP: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "npm"
hosts = ["registry.npmjs.org"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8", "::1/128"]
"#;

/// A forge with large files.
const LARGE: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "git"
hosts = ["github.com"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
lfs = true
"#;

/// Nothing is signed.
const SIGNED: &str = r#"
binary = "/usr/bin/git"
default = "allow"
facts = "none"
[env]
forward = ["GIT_AUTHOR_*", "GIT_COMMITTER_*"]
[signing]
key = "file:{base}/key"
default = "deny"
"#;

/// gh, that may change nothing.
const GITHUB: &str = r#"
binary = "/usr/bin/gh"
default = "allow"
facts = "none"
[[gate]]
adapter = "github"
hosts = ["github.com"]
upstream = "http://127.0.0.1:{port}"
private = ["127.0.0.0/8"]
default = "deny"
"#;

/// A person is asked about each change.
const ASKED: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "http"
hosts = ["api.example"]
upstream = "http://127.0.0.1:{port}"
private = ["127.0.0.0/8"]
default = "ask"
"#;

/// It may print what it likes.
const REDACTED: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[sandbox]
redact = true
[[gate]]
adapter = "http"
hosts = ["api.example"]
credential = "file:{token}"
"#;

/// A person who takes a while, and agrees to the first thing alone.
const APPROVES: &str = "[ -e {base}/agreed ] && exit; : >{base}/agreed; sleep 1; \
    exec {server} --control-socket {base}/run/control.sock approve $TOOL_APPROVAL_ID --unseen";

const TOOLS: [(&str, &str); 14] = [
    ("sh", SH),
    ("net", NET),
    ("git", GIT),
    ("private", PRIVATE),
    ("tunnel", TUNNEL),
    ("forced", FORCED),
    ("paths", PATHS),
    ("moved", MOVED),
    ("shop", SHOP),
    ("large", LARGE),
    ("signed", SIGNED),
    ("github", GITHUB),
    ("asked", ASKED),
    ("redacted", REDACTED),
];

/// What of this goes wrong, if anything.
fn tried(measure: &Measure, away: bool) -> Vec<String> {
    let mut names = measure.also.to_vec();
    names.extend(away.then_some(measure.name));
    if let [Alone(attack)] = measure.attacks {
        let worked = attack(&names.join(","), away);
        let wrong = format!("without {names:?} {} {worked}", measure.name);
        return if worked == away { Vec::new() } else { vec![wrong] };
    }
    let mut world = World::with(Some(measure.mode), &TOOLS, |setup| {
        setup.server(weakened());
        setup.env("TOOL_WEAKEN", names.join(","));
        let base = setup.dir().display().to_string();
        let server = weakened().display().to_string();
        let approves = APPROVES.replace("{base}", &base).replace("{server}", &server);
        setup.config(&format!("[approvals]\nnotify = {approves:?}\n"));
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(setup.path("key"));
        run(&mut keygen, b"");
    });
    if measure.name == "namespaces" && !away && !world.has_namespaces() {
        skipped("namespaces", "this machine gives no user namespaces");
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for attack in measure.attacks {
        let (row, sign) = match attack {
            Of(table, id, sign) => (found(table, id), sign),
            Own(line, sign) => {
                (Row(measure.name.to_owned(), String::new(), (*line).to_owned()), sign)
            }
            Alone(_) => unreachable!("it is the only one of its measure"),
        };
        world.prepare(REPOSITORY);
        let (_, harm, outcome) = world.attack(&row, &TOOLS.map(|(name, _)| name));
        let worked = harm.0.iter().any(|one| one.contains(sign));
        if worked != away {
            wrong.push(format!(
                "without {names:?} {} {}: {:?}\n    {outcome:?}\n{}",
                row.id(),
                if worked { "works" } else { "does not work" },
                harm.0,
                world.loot()
            ));
        }
        if !harm.0.is_empty() {
            world.mend();
        }
    }
    wrong
}

fn found(table: &str, id: &str) -> Row {
    let mut rows = Table::of(table).group.into_iter().flat_map(|group| group.rows);
    rows.find(|row| row.id() == id).unwrap_or_else(|| panic!("{table} has no row {id}"))
}

/// The measures of this number modulo three.
fn each(part: usize) {
    let python = Path::new("/usr/bin/python3").exists();
    let mut wrong = Vec::new();
    for measure in MEASURES.iter().skip(part).step_by(3) {
        if measure.mode.owner && !is_root() || !python {
            skipped(measure.name, "it takes root and python3");
            continue;
        }
        if measure.name == "gate-graphql" && !Path::new("/usr/bin/gh").exists() {
            skipped(measure.name, "it takes gh (apt-get install gh)");
            continue;
        }
        wrong.extend(tried(measure, false));
        wrong.extend(tried(measure, true));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_attack_works_only_without_the_measure_against_it() {
    each(0);
}

#[test]
fn an_attack_works_only_without_the_measure_against_it_2() {
    each(1);
}

#[test]
fn an_attack_works_only_without_the_measure_against_it_3() {
    each(2);
}

/// The names in `weaken::is("NAME")`, beneath a directory.
fn names(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            names(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            for (at, opening) in text.match_indices("weaken::is(\"") {
                let name = text[at + opening.len()..].split('"').next().expect("an end");
                found.insert(name.to_owned());
            }
        }
    }
}

#[test]
fn every_measure_that_can_be_taken_away_is_tried() {
    let mut found = BTreeSet::new();
    for part in ["server/src", "gate/src", "policy/src"] {
        names(&project().join(part), &mut found);
    }
    let table: BTreeSet<String> = MEASURES.iter().map(|one| one.name.to_owned()).collect();
    assert!(found.len() > 10, "only {found:?}: does the reader still read?");
    assert_eq!(found, table);
    // One of them may matter in another way at another level.
    let rows: BTreeSet<_> =
        MEASURES.iter().map(|one| (one.name, one.mode.owner, one.mode.level)).collect();
    assert_eq!(rows.len(), MEASURES.len(), "a measure is there twice");
}

#[test]
fn only_a_server_that_was_built_so_can_be_weakened() {
    let version = |program: &Path| run(Command::new(program).arg("version"), b"").out();
    assert!(version(weakened()).contains("test-weaken"), "{}", version(weakened()));
    let ordinary = version(&binaries().server);
    assert!(!ordinary.contains("test-weaken"), "{ordinary}");
}
