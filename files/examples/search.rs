//! One operation of this crate from a command line, for measuring and for looking.
//!
//!     cargo run --release -p tool-files --example search -- ROOT '{"pattern":"TODO"}'
//!
//! With `list` as a third argument the input is one of list_directory.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::io::Write;
use std::path::Path;

use tool_files::list::ListDirectory;
use tool_files::search::SearchFiles;
use tool_files::{Operation, Root, Roots, Stop, Target};

fn run<O: Operation>(root: &str, input: &str) -> Result<(), Box<dyn std::error::Error>> {
    let roots = Roots::new(vec![Root::open(Path::new(root))?]);
    let target = O::find(&roots, serde_json::from_str(input)?)?;
    let output = target.run(&Stop::new(None), None)?;
    serde_json::to_writer(std::io::stdout().lock(), &output)?;
    Ok(writeln!(std::io::stdout())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [root, input] => run::<SearchFiles>(root, input),
        [root, input, "list"] => run::<ListDirectory>(root, input),
        _ => Err("usage: search ROOT INPUT [list]".into()),
    }
}
