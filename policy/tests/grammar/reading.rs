//! What each member of a grammar does to reading.

use proptest::prelude::*;

use crate::support::{grammar, read, shipped};

/// Each line of `cases` is what is given and what is read.
fn check(text: &str, cases: &[(&str, &str)]) {
    let grammar = grammar(text);
    for (words, expected) in cases {
        assert_eq!(read(&grammar, words), *expected, "{words}\n{text}");
    }
}

const OPTIONS: &str = "options = [\"-a --all\", \"-b --bare\", \"-o --output=\", \"-s --sign[=]\", \
    \"--[no-]verify\", \"--last=?\", \"-<n>\", \"--color{always,true,false}\"]\n";

#[test]
fn without_switches_the_conventions_of_getopt_hold() {
    check(
        OPTIONS,
        &[
            ("-ab x", "--all --bare : x"),
            ("-abo x y", "--all --bare --output=x : y"),
            ("-aox -b", "--all --output=x --bare :"),
            ("x -a y", "--all : x y"),
            ("-a -- -b", "--all : -- -b"),
            ("-a x -- y", "--all : x -- y"),
            ("-a --", "--all : --"),
            ("- -a", "--all : -"),
            ("--output=x --output y", "--output=x --output=y :"),
            ("--output= x", "--output= : x"),
            ("-o -a", "--output=-a :"),
            ("-o -- x", "--output=-- : x"),
            ("-s x", "--sign : x"),
            ("-sx", "--sign=x :"),
            ("--sign=x", "--sign=x :"),
            ("--sign x", "--sign : x"),
            ("--last", "--last :"),
            ("--last x y", "--last=x : y"),
            ("--last=x y", "--last=x : y"),
            ("-12a x", "-<n>=12 --all : x"),
            ("-a5", "--all -<n>=5 :"),
            ("-<n>", "unread: -<n> is no option of tool known to these rules"),
            ("--color always x", "--color=always : x"),
            ("--color x", "--color : x"),
            ("--color=always", "--color=always :"),
            ("--no-verify", "!--verify :"),
            ("--verify", "--verify :"),
            ("--al", "unread: --al is no option of tool known to these rules"),
            ("--color=red", "unread: red of tool is not a value that --color takes"),
            ("-o", "unread: -o of tool needs a value"),
            ("--output", "unread: --output of tool needs a value"),
            ("--all=x", "unread: --all of tool: --all takes no such value"),
            ("--no-verify=x", "unread: --no-verify of tool: --verify takes no such value"),
            ("-axb", "unread: -x is no option of tool known to these rules"),
            ("--x", "unread: --x is no option of tool known to these rules"),
            ("---", "unread: --- is no option of tool known to these rules"),
            ("-\u{e9}", "unread: -\\xc3 is no option of tool known to these rules"),
            (
                "--end-of-options",
                "unread: --end-of-options is no option of tool known to these rules",
            ),
        ],
    );
}

#[test]
fn each_switch_changes_one_thing() {
    let with = |switch: &str| format!("{switch}\n{OPTIONS}");
    check(
        &with("clusters = false"),
        &[
            ("-a -o x", "--all --output=x :"),
            ("-o=x", "--output=x :"),
            ("-5", "-<n>=5 :"),
            ("-ab", "unread: -ab is no option of tool known to these rules"),
            ("-ox", "unread: -ox is no option of tool known to these rules"),
        ],
    );
    check(
        &with("abbreviations = true"),
        &[
            ("--al", "--all :"),
            ("--out=x", "--output=x :"),
            ("--no-v", "!--verify :"),
            ("--n", "!--verify :"),
            ("--", ": --"),
            ("--a", "--all :"),
            ("--xx", "unread: --xx is no option of tool known to these rules"),
        ],
    );
    check(
        "abbreviations = true\noptions = [\"--force\", \"--force-all\", \"--foul --foil\"]",
        &[
            ("--force", "--force :"),
            (
                "--fo",
                "unread: --fo of tool is not written in full: it may be --foil or --force or --force-all",
            ),
            ("--fou", "--foul :"),
            ("--force-", "--force-all :"),
        ],
    );
    check(
        &with("equals = false"),
        &[
            ("--output x", "--output=x :"),
            ("--output=x", "unread: --output=x is no option of tool known to these rules"),
        ],
    );
    check(
        &with("short_equals = true"),
        &[
            ("-o=x", "--output=x :"),
            ("-ao=x", "--all --output=x :"),
            ("-o=", "--output== :"),
            ("-s=x", "--sign=x :"),
            ("-sa", "--sign --all :"),
            ("-a=x", "unread: -a of tool: --all takes no such value"),
        ],
    );
    check(
        &with("short_equals = true\nflag_values = true"),
        &[
            ("--all=true -b=false", "--all=true !--bare=false :"),
            ("-ab=0", "--all !--bare=0 :"),
            ("--no-verify=false", "--verify=false :"),
            ("--all=x", "unread: x of tool: --all takes no such value"),
        ],
    );
    check(
        &with("dash_values = false"),
        &[
            ("-o x", "--output=x :"),
            ("-o -", "--output=- :"),
            ("-o -a", "unread: -o of tool needs a value"),
            ("--output=-a", "unread: --output of tool needs a value"),
        ],
    );
    check(&with("end_of_options = true"), &[("-a --end-of-options -b -- x", "--all : -b -- x")]);
    check(&with("operands_end_options = true"), &[("-a x -b", "--all : x -b")]);
    check(&with("raw = true"), &[("-a -- x", ": -a -- x")]);
}

#[test]
fn where_dashes_do_not_count_every_option_is_a_name() {
    let text = "any_dashes = true\nabbreviations = true\ndash_values = false\noptions = [\
        \"-g --[no-]global{true,false} !--local\", \"-l --[no-]long{true,false}\", \"--tag=\", \
        \"-w --workspace=\", \"--workspaces\", \"-y --[no-]yes{true,false} !-n\", \"--loglevel=\", \
        \"--dd\"]";
    check(
        text,
        &[
            ("-global x", "--global : x"),
            ("--g x", "--global : x"),
            ("---long --- -g", "--long : -- -g"),
            ("-gl x", "--global --long : x"),
            ("--gl x", "--global --long : x"),
            ("-lw x y", "--long --workspace=x : y"),
            ("-gn", "--global !--yes :"),
            ("-dd", "--dd :"),
            ("--tag x", "--tag=x :"),
            ("-ta=x", "--tag=x :"),
            ("--global true x", "--global=true : x"),
            ("--global false x", "!--global=false : x"),
            ("--no-global false x", "--global=false : x"),
            ("--no-glob", "!--global :"),
            ("--local", "!--global :"),
            ("-wg x", "unread: -wg of tool needs a value"),
            (
                "--lo",
                "unread: --lo of tool is not written in full: it may be --local or --loglevel or --long",
            ),
            (
                "--no-lo",
                "unread: --no-lo of tool is not written in full: it may be --local or --loglevel or --long",
            ),
            ("--no-tag", "unread: --no-tag is no option of tool known to these rules"),
            ("--global=x", "unread: x of tool is not a value that --global takes"),
            ("--tag -g", "unread: --tag of tool needs a value"),
        ],
    );
}

#[test]
fn commands_are_found_and_have_their_own_options() {
    let text = "options = [\"-v\", \"-C=\"]\n\
        [sets]\nshared = [\"-q --quiet\", \"-x --other\"]\n\
        [commands.add]\naliases = [\"a\", \"new\"]\nuses = [\"shared\"]\noptions = [\"-x --own\"]\n\
        [commands.remote]\noptions_anywhere = true\noptions = [\"-R --repo=\"]\n\
        [commands.remote.commands.add]\nuses = [\"shared\"]\n\
        [commands.stash]\nsubcommands = \"first\"\noptions = [\"-p\"]\n\
        [commands.stash.commands.pop]\n\
        [commands.notes]\nsubcommands = \"optional\"\noptions = [\"-r\"]\n\
        [commands.notes.commands.list]\n\
        [commands.exec]\nraw = true\n";
    check(
        text,
        &[
            ("-v add -x -q y", "add -v --own --quiet : y"),
            ("new y add", "add : y add"),
            ("-C add a", "add -C=add :"),
            ("add -v", "unread: -v is no option of tool add known to these rules"),
            ("remote -R x add -R y -q", "remote add --repo=x --repo=y --quiet :"),
            ("remote nope", "unread: nope is no command of tool remote known to these rules"),
            (
                "remote -- add",
                "unread: -- stands before add, which may be a command of tool remote",
            ),
            ("stash pop", "stash pop :"),
            ("stash -p pop", "stash -p : pop"),
            ("stash -- pop", "stash : -- pop"),
            ("stash x pop", "stash : x pop"),
            ("notes -r list", "notes list -r :"),
            ("notes x list", "notes : x list"),
            (
                "notes -- list",
                "unread: -- stands before list, which may be a command of tool notes",
            ),
            ("exec -v -- --foo", "exec : -v -- --foo"),
            ("a", "add :"),
            ("ad", "unread: ad is no command of tool known to these rules"),
            ("-v", "-v :"),
            ("", "unread:  is no command of tool known to these rules"),
        ],
    );
    let text = format!("command_abbreviations = true\n{text}");
    check(
        &text,
        &[
            ("ad", "add :"),
            ("rem ad", "remote add :"),
            ("n", "unread: n of tool is not written in full: it may be new or notes"),
            ("x", "unread: x is no command of tool known to these rules"),
        ],
    );
    check(
        "exact_globals = true\nabbreviations = true\noptions = [\"-c=\", \"--git-dir=\"]\n\
         [commands.add]\noptions = [\"-f --force\", \"-n\"]",
        &[
            ("-c x --git-dir=y add -fn --fo", "add -c=x --git-dir=y --force -n --force :"),
            ("-cx add", "unread: -cx is no option of tool known to these rules"),
            ("--git x add", "unread: --git is no option of tool known to these rules"),
        ],
    );
}

#[test]
fn what_follows_something_unread_is_read_all_the_same() {
    let grammar = grammar("[commands.push]\noptions = [\"-f --force\"]");
    let args: Vec<&[u8]> = vec![b"push", b"--foo", b"-f", b"origin"];
    let line = grammar.read(&args);
    assert_eq!(
        line.why_unread("git").unwrap(),
        "--foo is no option of git push known to these rules"
    );
    assert_eq!(line.unread.as_ref().unwrap().argument, 1);
    assert_eq!(line.options.len(), 1);
    assert_eq!(line.options[0].argument, 2);
    assert_eq!(line.operands, [b"origin"]);
    // Bytes of any kind are kept, and shown as they would be typed.
    let args: Vec<&[u8]> = vec![b"push", b"\xff", b"-f\xff"];
    let line = grammar.read(&args);
    assert_eq!(line.operands, [b"\xff"]);
    assert_eq!(
        line.why_unread("git").unwrap(),
        "-\\xff is no option of git push known to these rules"
    );
}

proptest! {
    /// Whatever the arguments are: all is accounted for, and nothing is invented.
    #[test]
    fn any_arguments_are_read(
        tool in proptest::sample::select(vec!["git", "gh", "npm", "curl"]),
        args in proptest::collection::vec(argument(), 0..8),
    ) {
        let grammar = shipped(tool);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let line = grammar.read(&args);
        let within = |value: &[u8]| args.iter().any(|arg| arg.windows(value.len().max(1))
            .any(|piece| piece == value) || value.is_empty());
        prop_assert!(line.operands.iter().all(|operand| args.contains(operand)));
        prop_assert!(line.options.iter().all(|given| given.value.is_none_or(within)));
        prop_assert!(line.options.iter().all(|given| given.argument < args.len()));
        prop_assert!(line.options.is_sorted_by_key(|given| given.argument));
        prop_assert!(line.dashes.is_none_or(|dashes| dashes <= line.operands.len()));
        prop_assert!(line.unread.as_ref().is_none_or(|unread| unread.argument < args.len()));
        prop_assert_eq!(line.why_unread(tool).is_some(), line.unread.is_some());
        // What ends the options ends them for good.
        let ends: Vec<&[u8]> = [&args[..], &[b"--", b"-f", b"--force"]].concat();
        if let Some(dashes) = grammar.read(&ends).dashes {
            prop_assert!(dashes <= grammar.read(&ends).operands.len());
        }
    }
}

/// Words that look like arguments, and bytes that do not.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "push",
        "remote",
        "add",
        "api",
        "pr",
        "list",
        "install",
        "config",
        "--",
        "-",
        "--force",
        "--no-",
        "--n",
        "-f",
        "-XPUT",
        "-X=",
        "--=",
        "=",
        "-=",
        "---",
        "--no-no-x",
        "-gl",
        "true",
        "--tag=",
        "-o",
        "--output",
        "-5",
        "-é",
        "",
    ];
    prop_oneof![
        3 => proptest::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
        1 => "-{0,3}[a-zA-Z=-]{0,6}".prop_map(String::into_bytes),
    ]
}
