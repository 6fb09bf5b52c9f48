//! A file that another process holds a lease of: whoever opens it waits 45 seconds, or
//! does not.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "here a panic is how a test fails, and another program is part of it"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::skipped::skipped;
use tool_files::edit::{EditFile, EditInput};
use tool_files::read::{ReadFile, ReadInput};
use tool_files::{Operation, Root, Roots, Stop, Target};
use tool_protocol::Fault;

/// Takes the lease, says so, and keeps it until its input ends, whoever wants it.
const HOLDER: &str = "
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], 'r+')
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";

#[test]
fn a_file_that_is_leased_to_another_is_not_waited_for() {
    let workspace = tempfile::tempdir().unwrap();
    let path = workspace.path().join("f");
    fs::write(&path, "text").unwrap();
    let roots = Roots::new(vec![Root::open(workspace.path()).unwrap()]);
    let read = || {
        let input = ReadInput { path: "f".into(), ..ReadInput::default() };
        ReadFile::find(&roots, input)?.run(&Stop::new(None), None)
    };
    let edit = || {
        let (old_text, new_text) = (Some("text".into()), Some("new".into()));
        let path = "f".into();
        let input = EditInput { path, old_text, new_text, ..EditInput::default() };
        EditFile::find(&roots, input)?.run(&Stop::new(None), None)
    };
    let mut holder = Command::new("python3");
    holder.args(["-c", HOLDER]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if said != "held\n" {
        holder.wait().unwrap();
        return skipped(
            "a_file_that_is_leased_to_another_is_not_waited_for",
            "no lease to be had here",
        );
    }
    // Had they waited, the kernel would have broken the lease, and both would succeed.
    assert_eq!(edit().unwrap_err().fault(), Fault::WriteError);
    let error = read().unwrap_err();
    assert_eq!(error.fault(), Fault::ReadError);
    assert!(error.to_string().ends_with("try again"), "{error}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(edit().unwrap().replacements, 1);
    assert_eq!(read().unwrap().content.as_deref(), Some("new"));
}
