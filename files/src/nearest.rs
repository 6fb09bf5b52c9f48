//! Where a text that was not found nearly is.
//!
//! Owns: what an agent is told so that its next try succeeds: the nearest place, and what
//! differs there. Must not: guess silently; nothing is ever replaced that is only near.

use crate::replace::line_of;

/// How many lines of what was looked for are compared.
const COMPARED: usize = 200;
/// How much is compared, in bytes of lines and some for each: what is nearest is of use, and
/// not worth a thread for longer.
const WORK: usize = 32 << 20;
/// How much of a line a message shows.
const SHOWN: usize = 60;

/// One sentence: what is near, and what to do.
pub(crate) fn nearest(text: &str, old: &str) -> String {
    ends(text, old).or_else(|| near(text, old)).unwrap_or_else(|| {
        let nothing = "nothing like it is there: read the file again and copy the text from it";
        nothing.to_owned()
    })
}

/// Lines that end otherwise.
fn ends(text: &str, old: &str) -> Option<String> {
    let unix = |text: &str| text.replace("\r\n", "\n");
    let line = line_of(unix(text).as_bytes(), unix(old).as_bytes())?;
    let (file, given) = match old.contains("\r\n") {
        false => ("CRLF (\\r\\n)", "LF (\\n)"),
        true if text.contains("\r\n") => ("both CRLF and LF", "others"),
        true => ("LF (\\n)", "CRLF (\\r\\n)"),
    };
    Some(format!(
        "line {line} differs only in how lines end: the file has {file}, old_text {given}; give \
         the file's"
    ))
}

/// The place where most lines are the same but for whitespace.
fn near(text: &str, old: &str) -> Option<String> {
    let wanted: Vec<&str> = old.lines().take(COMPARED).collect();
    // Where old_text begins with lines that are blank, the first that is not is looked for.
    let skip = wanted.iter().position(|line| !line.trim().is_empty())?;
    let wanted = wanted.get(skip..)?;
    let lines: Vec<&str> = text.lines().collect();
    let (mut best, mut most) = (None, 0);
    let mut work: usize = 0;
    for start in 0..lines.len() {
        if work > WORK {
            break;
        }
        let here = lines.get(start..).unwrap_or_default();
        let last = wanted.len() - 1;
        let same = wanted.iter().zip(here).enumerate();
        let same = same.take_while(|(index, (wanted, line))| {
            work = work.saturating_add(wanted.len() + line.len() + 8);
            alike_but_for_space(wanted, line, *index == 0, *index == last)
        });
        let same = same.count();
        if same > most {
            (best, most) = (Some(start), same);
        }
        if same == wanted.len() {
            break;
        }
    }
    let Some(start) = best else { return similar(&lines, wanted.first()?) };
    let pairs = wanted.iter().zip(lines.get(start..)?).enumerate();
    if most == wanted.len() {
        let end = wanted.len() - 1;
        let unlike = |(index, (wanted, line)): &(usize, (&&str, &&str))| {
            !alike(wanted, line, *index == 0, *index == end)
        };
        let mut pairs = pairs;
        let (index, (wanted, line)) = pairs.find(unlike)?;
        let what = what_space(wanted, line);
        let said = both(line, wanted);
        return Some(format!("line {} differs only in {what}: {said}", start + index + 1));
    }
    match pairs.skip(most).map(|(index, pair)| (start + index + 1, pair)).next() {
        Some((number, (wanted, line))) => {
            let from = start + 1;
            let said = both(line, wanted);
            Some(format!("it is near line {from}, but line {number} differs: {said}"))
        }
        None => Some(format!("it begins at line {}, but the file ends before it does", start + 1)),
    }
}

/// The same words in the same order; where they begin or end a text, a part of the line.
fn alike_but_for_space(wanted: &str, line: &str, first: bool, last: bool) -> bool {
    if line.split_whitespace().eq(wanted.split_whitespace()) {
        return true;
    }
    if !first && !last {
        return false;
    }
    // Most lines have nothing of it; what follows is dear.
    if !wanted.split_whitespace().next().is_some_and(|word| line.contains(word)) {
        return false;
    }
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, wanted) = (joined(line), joined(wanted));
    alike(&wanted, &line, first, last)
}

/// The same; where it begins or ends a text, a part of the line.
fn alike(wanted: &str, line: &str, first: bool, last: bool) -> bool {
    match (first, last) {
        (true, true) => line.contains(wanted),
        (true, false) => line.ends_with(wanted),
        (false, true) => line.starts_with(wanted),
        (false, false) => line == wanted,
    }
}

/// The line that has most in common with what was looked for, if that is half of it.
fn similar(lines: &[&str], wanted: &str) -> Option<String> {
    let wanted = wanted.trim();
    let mut best: Option<(usize, usize)> = None;
    for (index, line) in lines.iter().enumerate() {
        let line = line.trim();
        let longest = line.len().max(wanted.len());
        if line.eq_ignore_ascii_case(wanted) {
            let said = both(line, wanted);
            return Some(format!(
                "line {} differs only in upper and lower case: {said}",
                index + 1
            ));
        }
        let same = in_common(line.bytes(), wanted.bytes());
        let behind = in_common(line.bytes().rev(), wanted.bytes().rev());
        let same = (same + behind).min(longest);
        if same * 2 >= longest && best.is_none_or(|(most, _)| same > most) {
            best = Some((same, index));
        }
    }
    let (_, index) = best?;
    let said = both(lines.get(index)?.trim(), wanted);
    Some(format!("line {} is the nearest: {said}", index + 1))
}

fn in_common(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

fn what_space(wanted: &str, line: &str) -> &'static str {
    let indentation = |line: &str| {
        let inner = line.trim_start().len();
        line.get(..line.len() - inner).unwrap_or_default().to_owned()
    };
    let (file, given) = (indentation(line), indentation(wanted));
    if file == given {
        return if wanted.trim_end() == line.trim_end() {
            "whitespace at the end of the line"
        } else {
            "whitespace"
        };
    }
    match (file.contains('\t'), given.contains('\t')) {
        (true, false) => "indentation (the file has tabs)",
        (false, true) => "indentation (the file has no tabs)",
        _ => "indentation",
    }
}

fn both(line: &str, wanted: &str) -> String {
    format!("the file has {}, old_text has {}; copy it from the file", quoted(line), quoted(wanted))
}

/// So that whitespace is seen.
fn quoted(line: &str) -> String {
    let short: String = line.chars().take(SHOWN).collect();
    let more = if short.len() < line.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_alike_everywhere_is_not_compared_for_ever() {
        let old = "a\n".repeat(199) + "b\nc\nd";
        let text = "a\n".repeat(40_000) + "b\nc\nq";
        assert!(nearest(&text, &old).starts_with("it is near line 1,"), "{}", nearest(&text, &old));
    }

    #[test]
    fn a_large_file_is_looked_through() {
        let text = "some line of it\n".repeat(300_000) + "the\tend";
        assert!(nearest(&text, "the end").starts_with("line 300001 differs only in whitespace"));
        assert!(nearest(&text, "zzz").starts_with("nothing like it"));
    }

    #[test]
    fn what_is_near_is_told_with_its_line_and_what_differs() {
        let cases = [
            ("a\r\nb\r\nc", "b\nc", "line 2 differs only in how lines end: the file has CRLF"),
            ("a\nb\nc", "b\r\nc", "line 2 differs only in how lines end: the file has LF"),
            (
                "x\n\tfoo(1);\n",
                "    foo(1);",
                "line 2 differs only in indentation (the file has tabs)",
            ),
            ("x\n  foo(1);\n", "    foo(1);", "line 2 differs only in indentation: "),
            (
                "if x:\n    a = 1\n    b = 2\n",
                "if x:\n    a = 1\n  b = 2",
                "line 3 differs only in ind",
            ),
            ("a  =  1\n", "a = 1", "line 1 differs only in whitespace: "),
            ("one \ntwo\n", "one\ntwo", "line 1 differs only in whitespace at the end"),
            (
                "fn a() {\n  x\n}\nfn b() {\n  y\n}",
                "fn b() {\n  z\n}",
                "it is near line 4, but line 5",
            ),
            ("a\nb", "a\nb\nc", "it begins at line 1, but the file ends before"),
            ("let Value = 1;", "let value = 1;", "line 1 differs only in upper and lower case"),
            ("zzz\nlet value = 12;\n", "let value = 13;", "line 2 is the nearest"),
            ("zzz\n", "something else", "nothing like it is there"),
            ("", "a", "nothing like it"),
            ("a", "\n\n", "nothing like it"),
        ];
        for (text, old, expected) in cases {
            let said = nearest(text, old);
            assert!(said.starts_with(expected), "{text:?} {old:?}: {said}");
        }
        assert!(nearest("x\n\tfoo(1);\n", "  foo(1);").contains(r#"has "\tfoo(1);", old_text"#));
    }

    proptest! {
        #[test]
        fn whatever_is_compared_something_is_said(text in "\\PC{0,40}|[ab \t\r\n]{0,40}",
            old in "\\PC{1,20}|[ab \t\r\n]{1,20}") {
            prop_assert!(!nearest(&text, &old).is_empty());
        }
    }
}
