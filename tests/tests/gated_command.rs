//! A credential that a command prints: run by the server as its own process, kept, and
//! never shown.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tool_broker_tests::forge::Forge;
use tool_broker_tests::{Outcome, Server, run};

const PASSWORD: &str = "canary-of-the-command";

fn stand(ttl: u32) -> (Server, Forge) {
    let mut started = None;
    let server = Server::start(|setup| {
        let forge = Forge::start(&setup.path("forge"), PASSWORD);
        forge.repository("o/r");
        let notes = setup.path("run/notes");
        let script = format!(
            "#!/bin/sh\n{{ echo run \"$@\"; env; }} >> {0}\n[ -e {0}.fail ] && {{ echo {PASSWORD}; echo {PASSWORD} >&2; exit 3; }}\necho {PASSWORD}\n",
            notes.display()
        );
        let program = setup.file("run/vault", script, 0o755);
        let grammar = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
        let grammar = fs::read(grammar.join("tools.d/git/grammar.toml")).expect("a grammar");
        setup.file("tools.d/git/grammar.toml", grammar, 0o644);
        let definition = format!(
            "binary = \"/usr/bin/git\"\ndefault = \"allow\"\nunread = \"allow\"\n\
             [[gate]]\nadapter = \"git\"\nhosts = [\"forge.test\"]\nupstream = \"{}\"\n\
             credential = \"command:{} read token\"\n\
             credential_ttl = {ttl}\n",
            forge.url(),
            program.display()
        );
        setup.tool("git", &definition);
        started = Some(forge);
    });
    (server, started.expect("started"))
}

fn git(server: &Server, words: &[&str]) -> Outcome {
    run(server.client("git").args(words).current_dir(server.ws()), b"")
}

#[test]
fn a_command_gives_a_credential_and_is_run_again_when_it_is_old() {
    // A machine that is busy may not do with it in time what is to be done.
    let in_time = |ttl: u32| {
        let (server, forge) = stand(ttl);
        let begun = Instant::now();
        for name in ["a", "b"] {
            git(&server, &["clone", "-q", "https://forge.test/o/r", name]).success();
        }
        let lasts = Duration::from_secs(ttl.into());
        (begun.elapsed() < lasts).then_some((server, forge, lasts))
    };
    let (server, _forge, lasts) =
        [2, 8, 30].into_iter().find_map(in_time).expect("two clones in half a minute");
    let notes = || fs::read_to_string(server.path("run/notes")).unwrap_or_default();
    let runs = || notes().lines().filter(|line| *line == "run read token").count();
    assert_eq!(runs(), 1, "{}", notes());
    // What the shell itself sets does not count.
    let own = ["PATH=", "PWD=", "_=", "SHLVL=", "OLDPWD="];
    let others = notes();
    let mut others = others.lines().filter(|line| !line.starts_with("run "));
    assert!(others.all(|line| own.iter().any(|name| line.starts_with(name))), "{}", notes());
    std::thread::sleep(lasts + Duration::from_millis(100));
    git(&server, &["clone", "-q", "https://forge.test/o/r", "c"]).success();
    assert_eq!(runs(), 2);
}

#[test]
fn a_command_that_fails_is_told_without_what_it_prints() {
    let (server, _forge) = stand(1);
    fs::write(server.path("run/notes.fail"), "").expect("a file");
    let outcome = git(&server, &["clone", "-q", "https://forge.test/o/r"]);
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(said.contains("ended with status 3"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
    for file in ["server.log", "state/audit/audit.jsonl"] {
        let text = fs::read_to_string(server.path(file)).unwrap_or_default();
        assert!(!text.contains(PASSWORD), "{file}");
    }
}
