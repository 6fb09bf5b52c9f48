//! What the tests here share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests; not each uses all that they share"
)]

pub(crate) mod skipped;

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_files::{FileError, Operation, Root, Roots, Stop, Target};

/// A directory in memory, where that is possible: each write is on disk before it is done.
pub(crate) fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn roots(path: &Path) -> Roots {
    Roots::new(vec![Root::open(path).unwrap()])
}

/// Runs an operation as a caller's JSON asks, and gives its output as JSON.
pub(crate) fn call<O: Operation>(roots: &Roots, input: Value) -> Result<Value, FileError> {
    let input: O::Input = serde_json::from_value(input).unwrap();
    let output = O::find(roots, input)?.run(&Stop::new(None), None)?;
    Ok(serde_json::to_value(&output).unwrap())
}

/// Runs an operation, and gives its output as text.
pub(crate) fn run<O: Operation>(roots: &Roots, input: O::Input) -> Result<String, FileError> {
    let output = O::find(roots, input)?.run(&Stop::new(None), None)?;
    Ok(serde_json::to_string(&output).unwrap())
}

/// As [`call`], and what came on the way.
pub(crate) fn stream<O: Operation>(roots: &Roots, input: Value) -> (Value, Vec<Value>) {
    let input: O::Input = serde_json::from_value(input).unwrap();
    let mut pieces = Vec::new();
    let mut piece = |value| pieces.push(value);
    let target = O::find(roots, input).unwrap();
    let output = target.run(&Stop::new(None), Some(&mut piece)).unwrap();
    (serde_json::to_value(&output).unwrap(), pieces)
}

pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// The paths of an answer; those that are not UTF-8 as their JSON.
pub(crate) fn paths(list: &Value) -> Vec<String> {
    let path = |item: &Value| match &item["path"] {
        Value::String(path) => path.clone(),
        other => other.to_string(),
    };
    list.as_array().unwrap().iter().map(path).collect()
}

/// All files that a search by name finds.
pub(crate) fn files(roots: &Roots, more: Value) -> Vec<String> {
    let mut input = json!({"pattern": "*", "by": "name", "max_results": 10_000});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let output = call::<tool_files::search::SearchFiles>(roots, input).unwrap();
    assert_eq!(output["truncated"], json!(false));
    paths(&output["results"])
}

/// Numbers that are the same at every run (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(crate) fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
