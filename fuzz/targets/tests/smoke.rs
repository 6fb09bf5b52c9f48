//! Every target, over its corpus and mutations of it: what continuous
//! integration runs of the fuzzing. CONTRIBUTING.md says how to run more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tool_broker_fuzz_targets::{ALL, Target, smoke};

/// Mutations of each target, where `FUZZ_CASES` does not say how many.
const CASES: usize = 4000;

/// Of one that reads a definition over and over for each input.
const SLOW_CASES: usize = 200;

fn run(name: &str) {
    let target = ALL.iter().find(|target| target.name == name).expect("a target");
    if let Some(file) = std::env::var_os("FUZZ_INPUT") {
        return smoke::run_file(*target, Path::new(&file));
    }
    let kept_in = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let cases = if name == "rules" { SLOW_CASES } else { CASES };
    let plan = smoke::Plan::of(*target, &kept_in, cases);
    match smoke::run(*target, &plan) {
        Ok(count) => println!("{name}: {count} inputs"),
        Err(failure) => panic!("{}", failure.report),
    }
}

macro_rules! smoke {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*

        /// The names above.
        const RUN: &[&str] = &[$(stringify!($name)),*];
    };
}

smoke! {
    frame
    base64
    json_reader
    json_writer
    incoming
    request
    reply
    definition_toml
    definition_json
    grammar
    shipped_grammar
    rules
    git_config
    git_push
    pattern
    address
    path
    git_wire
    graphql
}

fn names_in(dir: &str, ending: &str) -> BTreeSet<String> {
    let dir = smoke::directory().join(dir);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{dir:?}: {error}"));
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        name.strip_suffix(ending).unwrap_or_else(|| panic!("{name} in {dir:?}")).to_owned()
    };
    entries.map(name).collect()
}

#[test]
fn every_target_has_a_corpus_a_dictionary_a_program_and_a_smoke_run() {
    let all: BTreeSet<String> = ALL.iter().map(|target: &Target| target.name.to_owned()).collect();
    assert_eq!(all.len(), ALL.len());
    assert_eq!(RUN.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), all);
    assert_eq!(names_in("corpus", ""), all);
    assert_eq!(names_in("dictionaries", ".dict"), all);
    assert_eq!(names_in("fuzz_targets", ".rs"), all);
    let manifest = fs::read_to_string(smoke::directory().join("Cargo.toml")).expect("Cargo.toml");
    for name in &all {
        let bin = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&bin), "fuzz/Cargo.toml has no program {name}");
        let program =
            fs::read_to_string(smoke::directory().join(format!("fuzz_targets/{name}.rs")));
        let call = format!("tool_broker_fuzz_targets::{name}(data)");
        assert!(program.expect("a program").contains(&call), "{name} runs something else");
        let corpus = smoke::files(&smoke::directory().join("corpus").join(name));
        assert!(corpus.len() >= 3, "the corpus of {name} is empty");
    }
}
