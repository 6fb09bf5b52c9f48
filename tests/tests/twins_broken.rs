//! The twins can fail: a client that is broken on purpose, in one thing each,
//! is found out by a row, and by the difference that it makes.

use tool_broker_tests::Setup;
use tool_broker_tests::twins::{self, Row, Stage, Way, table};

/// What is broken (`twins/helpers/broken.c`), what the comparison has to say
/// about it, and the script that shows it.
const FAULTS: [(&str, &str, &str); 26] = [
    ("stdin", "stdout", "cat < $D/lines"),
    ("stdin", "stdout", "/bin/cat $D/lines | wc -l"),
    ("stdin-taken", "stdout", "(sh -c 'read a; echo $a'; /bin/cat) < $D/lines"),
    ("stdin-taken", "stdout", "/bin/cat $D/lines | (sh -c 'read a; echo $a'; /bin/cat)"),
    ("shared-position", "stdout", "(head -n 1; /bin/cat) < $D/lines"),
    ("stderr-merged", "stderr", "sh -c 'echo o; echo e >&2'"),
    ("outputs-crossed", "stdout", "sh -c 'echo o; echo e >&2'"),
    ("output-cut", "stdout", "cat $D/large | /usr/bin/cksum"),
    ("output-cut", "file \"out\"", "cat $D/lines $D/large > out"),
    ("output-collected", "stdout", "sh -c '[ -f /dev/stdout ] && echo a file >&1' > f; /bin/cat f"),
    ("closed-opened", "stderr", "sh -c 'echo x' >&-"),
    ("descriptors", "stdout", "cat <(echo a)"),
    ("descriptors", "file \"f\"", "sh -c 'echo x >&9' 9> f 2>/dev/null; :"),
    ("descriptor-leaked", "stdout", "fds"),
    ("argument-byte", "stdout", "printf '[%s]' abc"),
    ("argument-byte", "stdout", "printf '%s' $'\\xff\\xfe' | /usr/bin/od -tx1"),
    ("empty-argument", "stdout", "sh -c 'echo $#' '' ''"),
    ("umask", "file \"f\": natively 100600", "umask 077; sh -c ': > f'"),
    ("directory", "stdout", "/bin/mkdir d; cd d; sh -c 'pwd | tail -c 3'"),
    ("directory", "is missing here", "/bin/mkdir d; cd d; sh -c ': > f'"),
    ("environment", "stdout", "sh -c 'echo ${FWD_ONE-unset}'"),
    ("signal-becomes-128", "ended", "exec sh -c 'kill -TERM $$'"),
    ("signal-becomes-128", "stdout", "$L/ends sh -c 'kill -USR1 $$'"),
    ("signal-becomes-0", "stdout", "sh -c 'kill -TERM $$'; echo $?"),
    ("status-cut", "ended", "sh -c 'exit 200'"),
    // The tool ends by itself in the end, whoever dropped the signal.
    (
        "signals-dropped",
        "stdout",
        "$L/ends -w ready TERM sh -c 'trap \"exit 9\" TERM; : > ready; n=0; \
         while [ $n -lt 50 ]; do sleep 0.01; n=$((n+1)); done'",
    ),
];

fn row(number: usize, script: &str) -> Row {
    let mut rows = table::read("broken", &format!("== row\n{script}\n")).expect("a row");
    rows[0].number = number;
    rows.remove(0)
}

type Twin = fn(&Stage, &Row, &Way) -> Result<(), String>;

#[track_caller]
fn found_out(stage: &Stage, faults: &[(&str, &str, &str)], twin: Twin) {
    let mut wrong = Vec::new();
    for (number, (fault, says, script)) in faults.iter().enumerate() {
        let row = row(number, script);
        // The same row through the same stand-in that breaks nothing.
        if let Err(differs) = twin(stage, &row, &stage.broken("nothing")) {
            wrong.push(format!("{script}: differs without a fault: {differs}"));
        }
        match twin(stage, &row, &stage.broken(fault)) {
            Ok(()) => wrong.push(format!("{fault}: not noticed by {script}")),
            Err(differs) if !differs.contains(says) => {
                wrong.push(format!("{fault}: {script}: no {says:?} in\n{differs}"));
            }
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_client_that_is_broken_on_purpose_is_found_out() {
    let setup = Setup::new();
    let stage = Stage::new(&setup);
    found_out(&stage, &FAULTS, twins::twin);
}

/// The same on a terminal, in steps.
const ON_TERMINAL: [(&str, &str, &str); 8] = [
    ("keys", "stdout", "$ sh -c 'read x; echo \"<$x>\"'\n> abc"),
    ("raw", "stderr", "$ sh -c 'exit 3'; :"),
    ("raw", "stdout", "$ sh -c 'exit 3'; printf 'a\\nb\\n'"),
    ("output-collected", "stdout", "$ sh -c '[ -t 1 ]; echo $? >&2'"),
    ("stderr-merged", "file \"err\"", "$ sh -c 'echo e >&2' 2>err"),
    ("size", "stdout", "$ stty size"),
    ("terminal-lost", "stdout", "$ sh -c 'echo x >/dev/tty'"),
    ("signal-becomes-128", "stdout", "$ $L/ends sh -c 'kill -HUP $$'"),
];

#[test]
fn a_client_that_is_broken_on_a_terminal_is_found_out() {
    let setup = Setup::new();
    let stage = Stage::new(&setup);
    found_out(&stage, &ON_TERMINAL, twins::session_twin);
}

/// A mark in a table is a claim, too: what does not differ must not be marked.
#[test]
fn a_row_that_is_marked_as_different_must_differ() {
    let setup = Setup::new();
    let stage = Stage::new(&setup);
    let text = "== row\n@differs broken because of the fault\nsh -c 'exit 200'\n";
    let row = table::read("broken", text).expect("a row").remove(0);
    assert_eq!(twins::twin(&stage, &row, &stage.broken("status-cut")), Ok(()));
    let same = twins::twin(&stage, &row, &stage.broken("nothing"));
    assert_eq!(same, Err("does not differ, though the table says: because of the fault".into()));
}

#[test]
fn a_table_that_is_wrong_is_refused_with_its_line() {
    for (text, line) in [
        ("sh\n", "line 1"),
        ("== a\nsh\n== a\nsh\n", "line 3"),
        ("== a\n@differ stream x\nsh\n", "line 2"),
        ("== a\n@needs\nsh\n", "line 2"),
    ] {
        let error = table::read("kind", text).expect_err(text);
        assert!(error.starts_with(line), "{error}");
    }
    assert!(table::read("kind", "== a\n").is_err(), "a row without a script");
}

/// The tables say something: as many rows as there were, and each mark has its
/// reason.
#[test]
fn the_tables_are_full_and_every_mark_has_a_reason() {
    let rows = table::every_row("twins");
    assert!(rows.len() >= 290, "only {} rows", rows.len());
    for row in &rows {
        for way in ["client", "stream"] {
            let reason = row.differs(way).unwrap_or("a mark without a reason is refused");
            assert!(reason.split(' ').count() > 3, "{}: {way}: {reason:?}", row.title());
        }
    }
}
