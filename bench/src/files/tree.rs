//! The files that are worked on, made where they are not there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::{AT_ONCE, Outcome};

/// Bytes of the long file.
pub const LONG: usize = 64 * 8192 - 8192;

/// The files, where they are not there.
pub fn prepare(root: &Path) -> Outcome<()> {
    fs::create_dir_all(root.join("small"))?;
    let line = "sixty-three characters of text and a line feed make a line 64.\n";
    fs::write(root.join("small/1k.txt"), line.repeat(16))?;
    fs::write(root.join("small/512k.txt"), line.repeat(8192))?;
    for number in 0..AT_ONCE {
        for whose in ["ours", "theirs"] {
            let text = format!("{}alpha\n{}", line.repeat(8), line.repeat(8));
            fs::write(root.join(format!("small/{whose}{number}.txt")), text)?;
        }
    }
    let tree = root.join("tree");
    if !tree.join(".gitignore").exists() {
        grow(&tree)?;
    }
    Ok(())
}

/// 1000 directories of 100 files of 10 to 200 lines, about 600 MB; the same every time.
fn grow(tree: &Path) -> Outcome<()> {
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let words =
        "let fn self return match value error path TODO struct impl use pub const for while";
    let words: Vec<&str> = words.split(' ').collect();
    let endings = ["rs", "rs", "ts", "py", "md", "json", "txt", "log"];
    for number in 0..100_000_u64 {
        let directory = tree.join(format!("pkg{:03}/mod{}", number / 1000, number / 100 % 10));
        fs::create_dir_all(&directory)?;
        let ending = endings.get(usize::try_from(below(8))?).copied().unwrap_or_default();
        let mut text = String::new();
        for _ in 0..[10, 40, 80, 200].get(usize::try_from(below(4))?).copied().unwrap_or(10) {
            for _ in 0..2 + below(10) {
                let word = words.get(usize::try_from(below(24))?).copied().unwrap_or("other_name");
                write!(text, "{word} ")?;
            }
            writeln!(text, "{}", below(1_000_000))?;
        }
        if number % 1000 == 0 {
            text.push_str("the needle_in_haystack is here\n");
        }
        fs::write(directory.join(format!("file{:03}.{ending}", number % 100)), text)?;
    }
    Ok(fs::write(tree.join(".gitignore"), "*.log\ntarget/\nnode_modules/\n")?)
}
