//! What the module `command` tells of command lines.

use std::sync::LazyLock;

use proptest::prelude::*;
use tool_policy::Policy;
use tool_policy::facts::{Facts, Observed, Value};

use crate::support::{judge_words, policy};

static TOOL: LazyLock<Policy> =
    LazyLock::new(|| policy("run_command", "facts = \"command\"\ndefault = \"allow\"\n"));

fn of_words(words: &[&[u8]]) -> Facts {
    judge_words(&TOOL, words, &Observed::default()).facts
}

/// What is known of a line for `sh`.
pub(crate) fn of_line(line: &[u8]) -> Facts {
    of_words(&[b"sh", b"-c", line])
}

fn text(value: &Value) -> String {
    value.to_bytes().escape_ascii().to_string()
}

fn is_unclear(facts: &Facts) -> bool {
    *facts.get("unclear") == Value::Flag(true)
}

/// The programs, the flags that hold, and the other facts by name.
fn show(facts: &Facts) -> String {
    if is_unclear(facts) {
        assert!(facts.iter().all(|(name, value)| name == "unclear" || *value == Value::Unknown));
        return "unclear".to_owned();
    }
    let mut all = vec![text(facts.get("program"))];
    for (name, value) in facts.iter() {
        match (name, value) {
            ("program" | "path" | "command" | "shell", _) | (_, Value::Flag(false)) => {}
            (name, Value::Flag(true)) => all.push(name.to_owned()),
            (_, Value::Texts(texts)) if texts.is_empty() => {}
            (name, value) => all.push(format!("{name}={}", text(value))),
        }
    }
    all.join(" ")
}

/// Each row is a line, `=>` and what is known of it; `␤` is a newline, `␉` a tab.
#[test]
fn what_is_known_of_command_lines() {
    let mut count = 0;
    for row in include_str!("command_lines.txt").lines().filter(|row| !row.starts_with("## ")) {
        let (line, wanted) = row.rsplit_once("  =>  ").unwrap();
        let line = line.replace('␤', "\n").replace('␉', "\t");
        assert_eq!(show(&of_line(line.as_bytes())), wanted, "{line}");
        count += 1;
    }
    assert!(count > 180, "{count}");
}

#[test]
fn commands_are_told_without_quotes_and_directories() {
    for (line, commands) in [
        ("/bin/'rm'   -r\"f\"  /tmp/x", &["rm -rf /tmp/x"][..]),
        ("env A=b chmod 777 'a b'", &["env A=b chmod 777 a b", "chmod 777 a b"]),
        ("echo \"$X\" 'y'z | wc", &["echo * yz", "wc"]),
        ("find src -exec grep -n {} +", &["find src -exec grep -n {} +", "grep -n *"]),
        ("sh -c 'ls -l'", &["sh -c ls -l", "ls -l"]),
        ("~/bin/x ./y", &["x ./y"]),
    ] {
        let facts = of_line(line.as_bytes());
        let Value::Texts(found) = facts.get("command") else { panic!("{line}") };
        let found: Vec<&[u8]> = found.iter().skip(1).map(|text| text.bytes()).collect();
        let wanted: Vec<&[u8]> = commands.iter().map(|text| text.as_bytes()).collect();
        assert_eq!(found, wanted, "{line}");
    }
    let paths = of_line(b"/usr/bin/ls; ./x; make; ~/y");
    assert_eq!(text(paths.get("path")), "sh,/usr/bin/ls,./x,make,~/y");
}

/// The words of a program are meant as they stand: no shell reads them.
#[test]
fn words_of_a_program_have_no_meaning_to_a_shell() {
    for (words, wanted) in [
        (&["echo", "$X", "&&", "rm", ">", "x", "`y`", "*"][..], "echo"),
        (&["rm", "-rf", "*", "~", "$X"], "rm removes=*,~,$X"),
        (&["env", "X=$(y)", "rm", "a"], "env,rm variable=X removes=a"),
        (&["sh", "-c", "a && b"], "a,b,sh chain"),
        (&["bash", "-c", "$'\\x72m' x; a &> o"], "a,bash,rm chain writes=o removes=x"),
        (&["bash", "-c", "a+=1 b"], "b,bash variable=a"),
        (&["dash", "-c", "$'\\x72m' x"], "unclear"),
        (&["sudo", "-u", "root", "sh", "-c", "a|b"], "a,b,sh,sudo pipe"),
        (&["sudo", "--fly", "a"], "unclear"),
        (&["sh"], "unclear"),
        (&["sh", "-x", "script", "a"], "sh reads=script"),
        (&["$X"], "$X"),
        (&[""], ""),
        (&[], ""),
    ] {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(show(&of_words(&bytes)), wanted, "{words:?}");
    }
}

/// What comes from a variable may be anything, and a pattern for files any of them.
#[test]
fn what_a_variable_holds_may_meet_whatever_refuses() {
    let rule = |facts: &str| {
        format!(
            "facts = \"command\"\ndefault = \"allow\"\n[[rule]]\nid = \"x\"\nreason = \"x\"\n\
             decision = \"deny\"\nfacts = {{ {facts} }}\n"
        )
    };
    for (facts, line, denied) in [
        ("command = \"rm -rf /*\"", "rm -rf $X", true),
        ("command = \"rm -rf /*\"", "rm -rf \"/$X\"", true),
        ("command = \"rm -rf /*\"", "rm -rf \"x$X\"", false),
        ("command = \"rm -rf ~*\"", "rm -rf ~", true),
        ("command = \"rm -rf ~*\"", "rm -rf '~'", true),
        ("command = \"rm -rf /home/*\"", "rm -rf ~/x", true),
        ("removes = { beneath = \"/etc\" }", "rm /etc/x", true),
        ("removes = { beneath = \"/etc\" }", "rm /e*/x", true),
        ("removes = { beneath = \"/etc\" }", "rm etc", false),
        ("removes = { beneath = \"/etc\" }", "cd /; rm etc", true),
        ("removes = { not = { beneath = \".\" } }", "rm -r build/*.o", false),
        ("removes = { not = { beneath = \".\" } }", "rm -r build/.*", true),
        ("removes = { not = { beneath = \".\" } }", "rm -r *", false),
        ("removes = { not = { beneath = \".\" } }", "rm -r $X", true),
        ("removes = { not = { beneath = \".\" } }", "rm -r ~", true),
        ("program = \"rm\"", "$X", true),
        ("program = \"rm\"", "echo $X", false),
        ("unclear = true", "echo $X", false),
        ("pipe = true", "eval $X", true),
    ] {
        let policy = policy("run_shell", &rule(facts));
        let verdict = judge_words(&policy, &[b"sh", b"-c", line.as_bytes()], &Observed::default());
        assert_eq!(verdict.rule.as_str() == "x", denied, "{facts} {line}");
    }
    let allows = rule("program = [\"sh\", \"ls\"]")
        .replace("\"allow\"", "\"DENY\"")
        .replace("\"deny\"", "\"allow\"")
        .replace("DENY", "deny");
    let policy = policy("run_shell", &allows);
    for (line, rule) in
        [("ls -l $X", "x"), ("ls $(ls)", "x"), ("ls | wc", "default"), ("$X", "default")]
    {
        let verdict = judge_words(&policy, &[b"sh", b"-c", line.as_bytes()], &Observed::default());
        assert_eq!(verdict.rule.as_str(), rule, "{line}");
    }
}

#[test]
fn facts_of_a_command_line_need_no_grammar_and_take_none() {
    let text = "facts = \"command\"\n[grammar]\noptions = [\"-x\"]\n";
    let error = tool_policy::Definition::from_toml("tool", text, None).unwrap_err();
    assert_eq!(error.line, 1);
    assert!(error.message.contains("leave the grammar out"), "{error}");
    // A program that is called `command` is one like any other.
    let other = policy("command", "default = \"allow\"\n");
    assert_eq!(other.module(), tool_policy::facts::Module::None);
}

/// Nothing that a caller writes ends the broker, or holds it up.
#[test]
fn lines_that_nest_deep_or_go_on_for_long_are_unclear_soon() {
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", ";}"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("<(", ")"),
        ("if a;then ", ";fi"),
        ("$((", "))"),
        ("eval ", ""),
        ("env ", ""),
        ("sh -c '", "'"),
        ("for x in a;do ", ";done"),
        ("case x in x)", ";;esac"),
        ("f()", ""),
        ("! ", ""),
        ("`", "`"),
        ("time ", ""),
        ("find . -exec ", " +"),
        ("watch ", ""),
        ("xargs ", ""),
    ] {
        let line = open.repeat(20_000) + "x" + &close.repeat(20_000);
        assert!(is_unclear(&of_line(line.as_bytes())), "{open}");
        let line = open.repeat(20_000);
        of_line(line.as_bytes());
    }
    for piece in [
        "a;", "a\n", "a|", "x=1 ", "$x", "\\\n", "'", "\"", "\\\\", "<<a ", ">a ", "#", "*", "[",
        "~", "[]", "{,}", "a&&",
    ] {
        of_line(piece.repeat(60_000).as_bytes());
    }
    let product = format!("find {} -exec rm {} +", "a ".repeat(3_000), "{} ".repeat(30_000));
    assert!(is_unclear(&of_line(product.as_bytes())));
    let long = "a".repeat(300_000);
    assert!(is_unclear(&of_words(&[long.as_bytes()])));
    assert!(is_unclear(&of_line(b"a\0b")));
    let many = "a;".repeat(990);
    assert!(
        is_unclear(&of_line("a;".repeat(1_000).as_bytes()))
            && !is_unclear(&of_line(many.as_bytes()))
    );
}

/// As POSIX quotes a word.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "a",
        "rm",
        " ",
        "\n",
        "'",
        "\"",
        "\\",
        "`",
        "$",
        "$(",
        "${",
        "$((",
        "))",
        ")",
        "(",
        "{",
        "}",
        ";",
        "&",
        "|",
        "<",
        ">",
        "<<",
        "<<-",
        "EOF",
        "#",
        "*",
        "[",
        "]",
        "~",
        "=",
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "for ",
        "in ",
        "case ",
        "esac",
        ";;",
        "!",
        "function ",
        "time ",
        "eval ",
        "sh -c ",
        "env ",
        "find . -exec ",
        "xargs ",
        "\t",
        "é",
        "{a,b}",
        "2>",
        "&>",
        "<(",
        "-",
        "--",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

/// `COMMAND_CASES` makes more of them.
fn cases() -> u32 {
    std::env::var("COMMAND_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_ends_the_broker(line in lines(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        of_line(&line);
        of_line(&bytes);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        of_words(&words);
        of_words(&[b"bash", b"-c", &line]);
    }

    #[test]
    fn quoted_words_are_read_back_as_they_were(
        words in prop::collection::vec(prop::collection::vec(1_u8.., 0..12), 1..6)
    ) {
        let mut line = b"rm --".to_vec();
        for word in &words {
            line.push(b' ');
            line.extend(quoted(word));
        }
        let facts = of_line(&line);
        let Value::Texts(found) = facts.get("removes") else { panic!("unclear") };
        let found: Vec<&[u8]> = found.iter().map(|text| text.bytes()).collect();
        prop_assert_eq!(found, words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}
