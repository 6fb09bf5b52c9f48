//! A tool beneath a terminal has a leader between itself and the server, and is
//! confined as any other; and the terminal is no way out.

mod confinement_help;

use std::fs;

use confinement_help::{As, attempt, parse, prepare, refused, start};
use tool_broker_tests::Server;
use tool_broker_tests::terminal::OnTerminal;

fn on_terminal(server: &Server, words: &str) -> std::collections::BTreeMap<String, String> {
    let mut command = server.client("other");
    command.args(["-c", &format!("python3 ../ws/attempt.py {words} > own/told; echo over: $?")]);
    let mut screen = OnTerminal::start(command);
    screen.shows("over: 0");
    assert_eq!(screen.wait().code(), Some(0));
    parse(&fs::read_to_string(server.path("ws/own/told")).expect("told"))
}

#[test]
fn it_is_confined_too() {
    for who in As::all() {
        let server = start(who);
        refused(&on_terminal(&server, "calls"), &["pair"]);
        let outside = server.path("outside");
        prepare(&outside, who.tool_uid());
        let own = server.path("ws/own");
        refused(
            &on_terminal(&server, &format!("files {} {}", outside.display(), own.display())),
            &[],
        );
        let beneath = on_terminal(&server, &format!("user {}", own.display()));
        let without = attempt(&server, &["user", own.to_str().unwrap()]);
        assert_eq!(beneath, without, "{who:?}");
    }
}
