//! One program with its words.
//!
//! Owns: its name, and what it runs itself: wrappers, shells, builtins that run text,
//! find and xargs; what rm and its like remove. Must not: take a program whose name or
//! options are not known for one that is harmless.

use super::found::{Found, Sure, Unclear};
use super::parse::{Dialect, line};
use super::word::Word;
use super::wrapper;

/// They run others in ways that are not followed, or by rules of their own.
#[rustfmt::skip]
const OPAQUE: [&str; 47] = [
    ".", "source", "fc", "bind", "complete", "compgen", "enable", "coproc", "parallel", "sem", "script", "flock", "strace",
    "ltrace", "unshare", "nsenter", "setpriv", "runuser", "pkexec", "systemd-run", "run0", "bwrap", "firejail",
    "fakeroot", "fakechroot", "proot", "setarch", "linux32", "linux64", "chrt", "numactl", "prlimit", "cgexec",
    "start-stop-daemon", "daemonize", "entr", "unbuffer", "rlwrap", "socat", "screen", "tmux", "at", "batch", "crontab",
    "ld.so", "run-parts", "dtach",
];

/// Shells whose lines are not read.
const STRANGE: [&str; 14] = [
    "zsh", "fish", "ksh", "ksh93", "mksh", "lksh", "pdksh", "yash", "posh", "csh", "tcsh", "rc",
    "nu", "pwsh",
];

/// What a shell does not take for a program, behind `time`.
const RESERVED: [&str; 14] = [
    "{", "}", "!", "(", "[[", "if", "while", "until", "for", "case", "select", "function", "time",
    "coproc",
];

/// They look at the name of a variable, and run what stands in its subscript.
const NAMING: [&str; 13] = [
    "let", "unset", "read", "declare", "typeset", "local", "export", "readonly", "test", "[", "[[",
    "wait", "getopts",
];

/// Tests of find that have the next word for a value, whatever it is.
#[rustfmt::skip]
const TESTS: [&str; 37] = [
    "amin", "anewer", "atime", "cmin", "cnewer", "context", "ctime", "fstype", "gid", "group", "ilname", "iname",
    "inum", "ipath", "iregex", "iwholename", "links", "lname", "maxdepth", "mindepth", "mmin", "mtime", "name",
    "newer", "path", "perm", "printf", "regex", "regextype", "samefile", "size", "type", "uid", "used", "user",
    "wholename", "xtype",
];

/// Those that have none.
#[rustfmt::skip]
const ALONE: [&str; 33] = [
    "a", "and", "o", "or", "not", "d", "daystart", "depth", "empty", "executable", "false", "true", "follow", "help",
    "-help", "ignore_readdir_race", "noignore_readdir_race", "ls", "mount", "xdev", "nogroup", "nouser", "noleaf",
    "warn", "nowarn", "print", "print0", "prune", "quit", "readable", "writable", "version", "-version",
];

/// The most words of a program that find runs.
const MOST_WORDS: usize = 4_096;

/// What is behind the last slash.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

impl Found {
    /// A program, or a builtin, with its words.
    pub(super) fn run(&mut self, words: &[Word], dialect: Dialect) -> Sure<()> {
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        let path = first.program().ok_or(Unclear)?;
        let name = base(&path);
        self.program(first, name, rest)?;
        // A name with other bytes is none that is known here.
        let known = std::str::from_utf8(name).unwrap_or_default();
        if OPAQUE.contains(&known) || known.starts_with("ld-") || STRANGE.contains(&known) {
            return Err(Unclear);
        }
        if let Some(wrapper) = wrapper::named(name) {
            return self.deeper(|found| found.wrapped(known, wrapper, rest, dialect));
        }
        match known {
            "sh" | "dash" | "ash" => self.shell(rest, Dialect::Posix),
            "bash" | "rbash" => self.shell(rest, Dialect::Bash),
            "find" => self.deeper(|found| found.find(rest, dialect)),
            "su" => self.su(rest),
            "rm" | "rmdir" | "unlink" | "shred" => self.removal(rest),
            "cd" | "chdir" | "pushd" | "popd" => {
                self.moves = true;
                Ok(())
            }
            "eval" => self.text(rest, dialect),
            "trap" => self.trap(rest, dialect),
            "alias" | "hash" => self.renames(rest),
            "mapfile" | "readarray" if !rest.is_empty() => Err(Unclear),
            "printf" if !rest.iter().any(|word| word.may_hold(b"-v")) => Ok(()),
            "printf" => plain_names(rest),
            name if NAMING.contains(&name) => self.naming(name, rest),
            _ => Ok(()),
        }
    }

    fn wrapped(
        &mut self,
        name: &str,
        wrapper: &wrapper::Wrapper,
        words: &[Word],
        dialect: Dialect,
    ) -> Sure<()> {
        let asks = |word: &Word| {
            word.fixed().is_some_and(|word| {
                word.starts_with(b"-") && word.iter().any(|byte| matches!(byte, b'v' | b'V'))
            })
        };
        if name == "command" && words.first().is_some_and(asks) {
            // Only tells where it is.
            return Ok(());
        }
        let before = wrapper.read(words)?;
        self.moves |=
            before.has(&["C", "chdir", "D", "R", "chroot"]) && name != "doas" || name == "chroot";
        for variable in &before.variables {
            self.variable(variable.clone())?;
        }
        match name {
            "xargs" => {
                if let Some(file) = before.value(&["a", "arg-file"]) {
                    self.read(Word::literal(file))?;
                }
                let marked = before.has(&["I", "i", "replace"]);
                let mark = before.value(&["I", "i", "replace"]).filter(|mark| !mark.is_empty());
                let mark = mark.unwrap_or(b"{}");
                let mut words: Vec<Word> = before.rest.to_vec();
                for word in words.iter_mut().filter(|word| marked && word.may_hold(mark)) {
                    *word = Word::anything();
                }
                if !marked {
                    words.push(Word::anything());
                }
                if before.rest.is_empty() { Ok(()) } else { self.run(&words, dialect) }
            }
            // It starts a shell, which reads its input.
            "chroot" if before.rest.is_empty() => Err(Unclear),
            "watch" if !before.has(&["x", "exec"]) => self.text(before.rest, Dialect::Posix),
            "time" => {
                let reserved = |word: &Word| {
                    let word = word.fixed().unwrap_or_default();
                    RESERVED.iter().any(|one| one.as_bytes() == word)
                };
                match before.rest.first().is_some_and(reserved) {
                    true => Err(Unclear),
                    false => self.run(before.rest, dialect),
                }
            }
            _ => self.run(before.rest, dialect),
        }
    }

    /// Words that are one line together.
    fn text(&mut self, words: &[Word], dialect: Dialect) -> Sure<()> {
        let mut text = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let word = word.fixed().ok_or(Unclear)?;
            if at == 0 && word == b"--" {
                continue;
            }
            text.extend(word);
            text.push(b' ');
        }
        line(self, &text, dialect)
    }

    fn trap(&mut self, words: &[Word], dialect: Dialect) -> Sure<()> {
        let mut words = words.iter().map(|word| word.fixed().ok_or(Unclear));
        let mut first = words.next().transpose()?;
        let behind = first.as_deref() == Some(b"--");
        if behind {
            first = words.next().transpose()?;
        }
        match first {
            // Behind `--` it is no option, whatever it begins with.
            Some(text) if text != b"-" && (behind || !text.starts_with(b"-")) => {
                line(self, &text, dialect)
            }
            _ => Ok(()),
        }
    }

    /// `alias` and `hash -p` give a name to another program.
    fn renames(&self, words: &[Word]) -> Sure<()> {
        let shows = |word: &Word| {
            word.fixed().is_some_and(|word| !word.contains(&b'=') && !word.starts_with(b"-"))
        };
        if words.iter().all(shows) { Ok(()) } else { Err(Unclear) }
    }

    fn naming(&mut self, name: &str, words: &[Word]) -> Sure<()> {
        plain_names(words)?;
        if name == "let" && !words.iter().all(Word::is_fixed) {
            return Err(Unclear);
        }
        if !matches!(name, "export" | "declare" | "typeset" | "local" | "readonly") {
            return Ok(());
        }
        for word in words {
            if let Some((name, _)) = word.assigned() {
                self.variable(name)?;
                continue;
            }
            let word = word.fixed().ok_or(Unclear)?;
            if let Some(end) = word.iter().position(|byte| *byte == b'=') {
                self.variable(word.get(..end).unwrap_or_default().to_vec())?;
            }
        }
        Ok(())
    }

    /// A shell: its line, or its script. What it reads from stdin nobody knows.
    fn shell(&mut self, words: &[Word], dialect: Dialect) -> Sure<()> {
        const LONG: [&[u8]; 8] = [
            b"--norc",
            b"--noprofile",
            b"--posix",
            b"--login",
            b"--restricted",
            b"--verbose",
            b"--noediting",
            b"--version",
        ];
        self.shell = true;
        let (mut given, mut has_line) = (words.iter(), false);
        let mut operand = None;
        while let Some(next) = given.next() {
            let word = next.fixed().ok_or(Unclear)?;
            match word.as_slice() {
                b"--" | b"-" => {
                    operand = given.next();
                    break;
                }
                long if LONG.contains(&long) => {}
                [b'-' | b'+', letters @ ..] if !letters.is_empty() => {
                    has_line |= word.starts_with(b"-") && letters.contains(&b'c');
                    if !letters.iter().all(|letter| b"cabefhklmnoptuvxBCEHPT".contains(letter)) {
                        return Err(Unclear);
                    }
                    for _ in letters.iter().filter(|letter| **letter == b'o') {
                        given.next().and_then(Word::fixed).ok_or(Unclear)?;
                    }
                }
                _ => {
                    operand = Some(next);
                    break;
                }
            }
        }
        let operand = operand.ok_or(Unclear)?.fixed().ok_or(Unclear)?;
        match has_line {
            true => line(self, &operand, dialect),
            false => self.read(Word::literal(&operand)),
        }
    }

    fn su(&mut self, words: &[Word]) -> Sure<()> {
        let mut given = words.iter().map(|word| word.fixed().ok_or(Unclear));
        let mut line_of_it = None;
        while let Some(word) = given.next().transpose()? {
            let text = match word.as_slice() {
                b"-c" | b"--command" => given.next().ok_or(Unclear)??,
                [b'-', b'c', text @ ..] => text.to_vec(),
                b"-" | b"-l" | b"--login" => continue,
                word => match word.strip_prefix(b"--command=") {
                    Some(text) => text.to_vec(),
                    // As -s, which names another shell.
                    None if word.starts_with(b"-") => return Err(Unclear),
                    None => continue,
                },
            };
            // Of several the last counts.
            line_of_it = Some(text);
        }
        let text = line_of_it.ok_or(Unclear)?;
        self.moves = true;
        self.shell = true;
        line(self, &text, Dialect::Posix)
    }

    fn removal(&mut self, words: &[Word]) -> Sure<()> {
        let mut options = true;
        for word in words {
            let fixed = word.fixed();
            match fixed.as_deref() {
                Some(b"--") if options => options = false,
                Some([b'-', _, ..]) if options => {}
                _ => self.remove(word.clone())?,
            }
        }
        Ok(())
    }

    fn find(&mut self, words: &[Word], dialect: Dialect) -> Sure<()> {
        let mut at = 0;
        // -H, -L, -P, -O3 and -D WORD stand before where it begins.
        while let Some(word) = words.get(at).and_then(Word::fixed) {
            match word.as_slice() {
                b"-H" | b"-L" | b"-P" => at += 1,
                [b'-', b'O', ..] => at += 1,
                b"-D" => at += 2,
                _ => break,
            }
        }
        let (_, words) = words.split_at_checked(at).ok_or(Unclear)?;
        let test = |word: &Word| {
            let fixed = word.fixed();
            word.may_be_option() || matches!(fixed.as_deref(), Some(b"(" | b"!" | b","))
        };
        let end = words.iter().position(test).unwrap_or(words.len());
        let (starts, mut tests) = words.split_at_checked(end).ok_or(Unclear)?;
        let starts = match starts.is_empty() {
            true => vec![Word::literal(b".")],
            false => starts.to_vec(),
        };
        while let Some((word, rest)) = tests.split_first() {
            tests = rest;
            // A test that comes from a variable may be any, with any program.
            let Some(word) = word.fixed() else {
                if word.may_be_option() {
                    return Err(Unclear);
                }
                continue;
            };
            match word.as_slice() {
                b"-files0-from" => return Err(Unclear),
                b"-delete" => {
                    for start in &starts {
                        self.remove(start.clone())?;
                    }
                }
                b"-fprint" | b"-fprint0" | b"-fls" | b"-fprintf" => {
                    let (file, rest) = tests.split_first().ok_or(Unclear)?;
                    self.write(file.clone())?;
                    tests = if word == b"-fprintf" { value(rest)? } else { rest };
                }
                b"-exec" | b"-execdir" | b"-ok" | b"-okdir" => {
                    let end = ends(tests).ok_or(Unclear)?;
                    let (inner, rest) = tests.split_at_checked(end).ok_or(Unclear)?;
                    tests = rest;
                    self.run(&beneath(inner, &starts)?, dialect)?;
                }
                [b'-', name @ ..] => {
                    // A name with other bytes is none that is known here.
                    let name = std::str::from_utf8(name).unwrap_or_default();
                    let compares = name.strip_prefix("newer").is_some_and(|how| how.len() == 2);
                    if TESTS.contains(&name) || compares {
                        tests = value(tests)?;
                    } else if !ALONE.contains(&name) {
                        // What follows may be its value, or do something.
                        return Err(Unclear);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What is behind a test's value: `-name -exec` runs nothing, and what follows is no program.
fn value(tests: &[Word]) -> Sure<&[Word]> {
    let (value, rest) = tests.split_first().ok_or(Unclear)?;
    // It may become several words.
    let several = !value.is_fixed() && value.may_be_option();
    if several { Err(Unclear) } else { Ok(rest) }
}

/// Where the words of `-exec` end: at `;`, or at `+` behind `{}`.
fn ends(words: &[Word]) -> Option<usize> {
    let is = |word: &Word, wanted: &[u8]| word.fixed().as_deref() == Some(wanted);
    let before = |at: usize| at.checked_sub(1).and_then(|at| words.get(at));
    words.iter().enumerate().position(|(at, word)| {
        is(word, b";") || is(word, b"+") && before(at).is_some_and(|word| is(word, b"{}"))
    })
}

/// The words of `-exec`: `{}` is what lies beneath where find begins.
fn beneath(words: &[Word], starts: &[Word]) -> Sure<Vec<Word>> {
    let mut all = Vec::with_capacity(words.len());
    for word in words {
        // One product of two of a caller's numbers.
        if all.len() > MOST_WORDS {
            return Err(Unclear);
        }
        match word.fixed().as_deref() {
            Some(b"{}") if starts.len() > MOST_WORDS => return Err(Unclear),
            Some(b"{}") => all.extend(starts.iter().cloned().map(Word::beneath)),
            _ if word.may_hold(b"{}") => all.push(Word::anything()),
            _ => all.push(word.clone()),
        }
    }
    Ok(all)
}

/// No word holds a command in a subscript.
fn plain_names(words: &[Word]) -> Sure<()> {
    let strange = |word: &Word| word.is_fixed() && (word.may_hold(b"$(") || word.may_hold(b"`"));
    if words.iter().any(strange) { Err(Unclear) } else { Ok(()) }
}
