//! Many inputs through a target, on a stable compiler: the corpus, and mutations
//! of it that are the same every time.
//!
//! Owns: the run, and what is kept of a failure: the input in a file, made
//! smaller, with how to run it again. An input that ends the process or never
//! ends is in a file too: each is written down before it is run.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::Target;
use crate::mutate::{Random, dictionary, mutate};

/// How long one input may take. No target takes a thousandth of it: whoever
/// reaches it does not end.
const ENDLESS: Duration = Duration::from_secs(60);

/// Tries to make a failing input smaller.
const TRIES: usize = 2000;

/// What a run needs beside its target.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Inputs to begin with.
    pub corpus: Vec<Vec<u8>>,
    /// Words to put in.
    pub words: Vec<Vec<u8>>,
    /// How many mutations.
    pub cases: usize,
    /// Which mutations.
    pub seed: u64,
    /// Where a failure is kept.
    pub kept_in: PathBuf,
}

/// An input that a target panics over.
#[derive(Debug)]
pub struct Failure {
    /// Where it is.
    pub file: PathBuf,
    /// What the target said.
    pub message: String,
    /// For people: both, and how to run it again.
    pub report: String,
}

/// The directory `fuzz/` of the project.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a directory above").to_owned()
}

impl Plan {
    /// The corpus and dictionary of a target; as many cases as `FUZZ_CASES` says.
    pub fn of(target: Target, kept_in: &Path, cases: usize) -> Plan {
        let number = |name| env::var(name).ok().map(|said| said.parse().expect(name));
        let corpus = directory().join("corpus").join(target.name);
        let words = directory().join("dictionaries").join(format!("{}.dict", target.name));
        let words = fs::read_to_string(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let mut corpus = files(&corpus);
        if target.name == "frame" {
            // Whole conversations, as docs/protocol.md has them.
            corpus.extend(files(&directory().join("../protocol/testdata")));
        }
        Plan {
            corpus: corpus.iter().map(|file| read(file)).collect(),
            words: dictionary(&words),
            cases: number("FUZZ_CASES").unwrap_or(cases),
            seed: number("FUZZ_SEED").unwrap_or(1) as u64,
            kept_in: kept_in.to_owned(),
        }
    }
}

/// The files of a corpus, in their order.
pub fn files(corpus: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus).unwrap_or_else(|error| panic!("{corpus:?}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|error| panic!("{file:?}: {error}"))
}

/// The corpus as it is, then mutations of it. Gives how many inputs were run.
pub fn run(target: Target, plan: &Plan) -> Result<usize, Failure> {
    fs::create_dir_all(&plan.kept_in).expect("a directory for failures");
    let watch = Watch::begin(target, &plan.kept_in);
    let mut random = Random::new(plan.seed);
    let mutations = (0..plan.cases).map(|_| mutate(&mut random, &plan.corpus, &plan.words));
    let mut count = 0;
    for input in plan.corpus.iter().cloned().chain(mutations) {
        count += 1;
        watch.next(&input);
        if let Some(message) = fails(target, &input) {
            return Err(keep(target, input, message, &plan.kept_in, &watch));
        }
    }
    watch.end();
    Ok(count)
}

/// One input from a file, as a failure's report says.
pub fn run_file(target: Target, file: &Path) {
    (target.run)(&read(file));
}

/// What the target says where it panics.
fn fails(target: Target, input: &[u8]) -> Option<String> {
    CAUGHT.with_borrow_mut(|caught| *caught = Some(String::new()));
    quiet();
    let ended = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let said = CAUGHT.take().unwrap_or_default();
    ended.err().map(|_| said)
}

thread_local! {
    /// What the panic said, while panics are caught on this thread.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics that are caught are not printed: a failing input is made smaller by
/// panicking over and over.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let caught = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(said) => {
                    *said = panic.to_string();
                    true
                }
                None => false,
            });
            if !caught {
                others(panic);
            }
        }));
    });
}

fn keep(target: Target, input: Vec<u8>, message: String, dir: &Path, watch: &Watch) -> Failure {
    let (input, message) = smaller(target, input, message, watch);
    watch.end();
    // FNV-1a: a name for the input, not a proof of it.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    let file = dir.join(format!("{}-{hash:016x}", target.name));
    fs::write(&file, &input).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let report = format!(
        "the target {} fails over an input of {} bytes:\n{message}\n{}",
        target.name,
        input.len(),
        again(target, &file)
    );
    Failure { file, message, report }
}

fn again(target: Target, file: &Path) -> String {
    format!(
        "the input is in {file}\nto run it again:\n  \
         FUZZ_INPUT={file} cargo test -p tool-broker-fuzz-targets --test smoke {name}\n  \
         cargo +nightly fuzz run {name} {file}\n\
         once it is mended, keep it as fuzz/corpus/{name}/WHAT-IT-SHOWS",
        file = file.display(),
        name = target.name,
    )
}

/// Takes away pieces for as long as it fails all the same.
fn smaller(
    target: Target,
    mut input: Vec<u8>,
    mut message: String,
    watch: &Watch,
) -> (Vec<u8>, String) {
    let mut tries = 0;
    let mut piece = input.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < input.len() && tries < TRIES {
            tries += 1;
            let mut without = input.clone();
            without.drain(at..(at + piece).min(input.len()));
            watch.next(&without);
            match fails(target, &without) {
                Some(said) => (input, message) = (without, said),
                None => at += piece,
            }
        }
        piece /= 2;
    }
    (input, message)
}

/// Writes each input down before it is run, and ends a process that does not
/// come to the next.
struct Watch {
    file: PathBuf,
    open: File,
    count: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

impl Watch {
    fn begin(target: Target, dir: &Path) -> Watch {
        let file = dir.join(format!("{}-running", target.name));
        let open = File::create(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let count = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let watch = Watch { file, open, count, ended };
        let (count, ended) = (Arc::clone(&watch.count), Arc::clone(&watch.ended));
        let report = again(target, &watch.file);
        thread::spawn(move || {
            let (mut seen, mut since) = (0, Instant::now());
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
                let now = count.load(Ordering::Relaxed);
                if now != seen {
                    (seen, since) = (now, Instant::now());
                } else if since.elapsed() > ENDLESS {
                    eprintln!("the target {} does not end; {report}", target.name);
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn next(&self, input: &[u8]) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let length = input.len().try_into().expect("a length");
        let written = self.open.write_all_at(input, 0).and_then(|()| self.open.set_len(length));
        written.unwrap_or_else(|error| panic!("{:?}: {error}", self.file));
    }

    /// Nothing runs any more: there is nothing to keep.
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(fs::remove_file(&self.file));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
