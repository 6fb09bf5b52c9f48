//! The module `command` beside real shells: whatever they run was told before.
//!
//! Lines are made at random, always the same ones; `COMMAND_LINES=COUNT` and
//! `COMMAND_SEED=NUMBER` make others.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tool_policy::facts::{Facts, Value};
use tool_policy::pattern::Pattern;

use crate::command_facts::of_line;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (sides as u64)).unwrap()
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.roll(all.len())]
    }
}

#[rustfmt::skip]
const PIECES: [&str; 75] = [
    "pa", "pb", "pc", "pd", "'pa'", "\"pb\"", "p\\c", "p''d", "$X", "${X}", "\"$X\"", "$(pa)", "`pb`", "$(", ")", "(", "`",
    "{", "}", ";", "&", "|", "&&", "||", "\n", "#", "\\", "\\\n", "'", "\"", "<", ">", ">>", "<<E", "<<'E'", "\nE\n", "2>", ">&2",
    "if", "then", "else", "fi", "do", "done", "for", "in", "case", "esac", ";;", "x", "!", "=", "X=", "V=1", "eval", "exec", "command", "env",
    "sh -c", "${", "$((", "))", "*", "?", "[pa]", "~", "{pa,pb}", "$'pa'", "$\"pb\"", "xargs", "timeout 5", "nice", "<(pa)", "&>o", "{v}>o",
];

/// A word.
fn word(dice: &mut Dice, deep: usize) -> String {
    let word = dice.pick(&[
        "pa", "pb", "'a b'", "\"$X\"", "$X", "*", "w\\ w", "${X:-pc}", "$((1+1))", "=", "a=b", "~",
    ]);
    match dice.roll(8) {
        0 if deep > 0 => format!("$({})", list(dice, deep - 1)),
        1 if deep > 0 => format!("\"-`{}`\"", list(dice, deep - 1).replace(['`', '\\', '"'], "")),
        2 if deep > 0 => format!("\"x$({})\"", list(dice, deep - 1)),
        3 if deep > 0 => format!("${{X:+$({})}}", list(dice, deep - 1)),
        _ => word.to_owned(),
    }
}

fn simple(dice: &mut Dice, deep: usize) -> String {
    let mut line = String::new();
    line += dice.pick(&[
        "",
        "",
        "",
        "",
        "V=1 ",
        ">o ",
        "2>&1 ",
        "env V=1 ",
        "nice -n 1 ",
        "command ",
        "timeout 5 ",
        "xargs -n1 ",
        "! ",
        "exec ",
        "eval ",
    ]);
    line += dice.pick(&[
        "pa",
        "pb",
        "pc",
        "pd",
        "'pa'",
        "p\\b",
        "\"pc\"",
        "p''d",
        "./pa",
        "find . -exec pa {} \\;",
    ]);
    for _ in 0..dice.roll(3) {
        line += dice.pick(&[" ", "  ", " \\\n", "\t"]);
        line += &word(dice, deep);
    }
    line += dice.pick(&[
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        " >o",
        " 2>o",
        " <i",
        " 2>/dev/null",
        " #c",
        " <<E\n$(pd)\nE\n",
        " <<'E'\n$(pd)\nE\n",
        " <<<x",
        " &>o",
    ]);
    line
}

fn command(dice: &mut Dice, deep: usize) -> String {
    if deep == 0 {
        return simple(dice, 0);
    }
    let deep = deep - 1;
    match dice.roll(14) {
        0 => format!("({})", list(dice, deep)),
        1 => format!("{{ {}; }}", list(dice, deep)),
        2 => format!(
            "if {}; then {}; else {}; fi",
            list(dice, deep),
            list(dice, deep),
            list(dice, deep)
        ),
        3 => format!(
            "for x in {} {}; do {}; done",
            word(dice, deep),
            word(dice, deep),
            list(dice, deep)
        ),
        4 => format!(
            "case {} in {}) {};; (x|*) {};; esac",
            word(dice, deep),
            word(dice, deep),
            list(dice, deep),
            list(dice, deep)
        ),
        5 => format!("sh -c '{}'", list(dice, deep).replace('\'', "'\\''")),
        6 => format!("eval '{}'", list(dice, deep).replace('\'', "'\\''")),
        7 => format!("bash -c '{}'", list(dice, deep).replace('\'', "'\\''")),
        _ => simple(dice, deep),
    }
}

fn list(dice: &mut Dice, deep: usize) -> String {
    let mut line = command(dice, deep);
    for _ in 0..dice.roll(3) {
        line += dice.pick(&[" | ", "; ", " && ", " || ", "\n", " & ", "|", ";", "&&", ";\n"]);
        line += &command(dice, deep);
    }
    line
}

/// A line that is right, one with something wrong in it, or any pieces.
fn line(dice: &mut Dice) -> String {
    if dice.roll(8) == 0 {
        let pieces = 1 + dice.roll(10);
        let piece = |_| dice.pick(&PIECES).to_owned() + ["", " "][dice.roll(2)];
        return (0..pieces).map(piece).collect();
    }
    let mut line = list(dice, 2);
    for _ in 0..dice.roll(4).saturating_sub(1) {
        let at = dice.roll(line.len() + 1);
        match dice.roll(2) {
            0 => line.insert_str(at, dice.pick(&PIECES)),
            _ => {
                line.remove(at.min(line.len() - 1));
            }
        }
    }
    line
}

/// What runs more often than once for ever is not run here.
fn may_run(line: &str) -> bool {
    let plain: String = line.replace("\\\n", "").split_whitespace().collect();
    !plain.contains("()") && !plain.contains("while") && !plain.contains("until")
}

/// Programs that write down how they were called.
fn programs(dir: &Path) {
    for name in ["pa", "pb", "pc", "pd"] {
        let path = dir.join("bin").join(name);
        // One write: others run beside.
        let text = "#!/bin/sh\nprintf '%s\\0' \"${0##*/}${1+ $*}\" >> \"$RAN\"\n";
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// What ran, with its words.
#[expect(clippy::disallowed_methods, reason = "real shells are what is compared with")]
fn run(shell: &[&str], dir: &Path, line: &str, at: usize) -> Option<BTreeSet<Vec<u8>>> {
    let work = dir.join(at.to_string());
    let ran = dir.join(format!("ran{at}"));
    fs::write(&ran, "").unwrap();
    fs::create_dir(&work).unwrap();
    fs::copy(dir.join("bin/pa"), work.join("pa")).unwrap();
    fs::write(work.join("i"), "pa pb\n").unwrap();
    let path = format!("{}:/usr/bin:/bin", dir.join("bin").display());
    Command::new("timeout")
        .arg("10")
        .args(shell)
        .args(["-c", line])
        .current_dir(&work)
        .env_clear()
        .envs([("PATH", path.as_str()), ("X", "pa pb"), ("HOME", "/nonexistent")])
        .env("RAN", &ran)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        // Its end is that of whatever it left in the background too.
        .output()
        .ok()
        .filter(|output| output.status.code() != Some(124))?;
    let text = fs::read(&ran).unwrap();
    let calls = text.split(|byte| *byte == 0).filter(|call| !call.is_empty());
    Some(calls.map(<[u8]>::to_vec).collect())
}

/// Whether the facts have told of this call.
fn tells(facts: &Facts, call: &[u8]) -> bool {
    let Value::Texts(commands) = facts.get("command") else { return true };
    commands.iter().any(|text| {
        text.names().any(|name| {
            let quoted: String = String::from_utf8(name.to_vec())
                .unwrap()
                .replace('\\', "\\\\")
                .replace('?', "\\?")
                .replace('*', if text.is_open() { "*" } else { "\\*" });
            // What an expansion gives may be nothing at all.
            let less = quoted.replace(" *", "*");
            let meets = |text: &str| Pattern::parse(text).is_ok_and(|it| it.matches(call));
            meets(&quoted) || text.is_open() && meets(&less)
        })
    })
}

#[test]
fn whatever_a_shell_runs_was_told_before() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut dice = Dice(number("COMMAND_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    programs(dir.path());
    let (mut known, mut ran, mut runs) = (0, 0, 0);
    for _ in 0..number("COMMAND_LINES").unwrap_or(150) {
        let line = line(&mut dice);
        let facts = of_line(line.as_bytes());
        if *facts.get("unclear") == Value::Flag(true) || !may_run(&line) {
            continue;
        }
        known += 1;
        for shell in [&["sh"][..], &["bash"], &["bash", "--posix"]] {
            runs += 1;
            let Some(calls) = run(shell, dir.path(), &line, runs) else { continue };
            for call in calls {
                ran += 1;
                assert!(
                    tells(&facts, &call),
                    "{shell:?} runs {} in {line:?}, and known is {}",
                    call.escape_ascii(),
                    facts.get("command").to_bytes().escape_ascii()
                );
            }
        }
    }
    assert!(known > 20 && ran > 50, "{known} {runs} {ran}");
    println!("{known} lines were read, {runs} runs, {ran} programs");
}
