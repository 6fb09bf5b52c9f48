//! Definitions that are wrong: each with its line, and what to do.

use tool_policy::definition::{Definition, Place, SyntaxError};

const GRAMMAR: &str = "[grammar.commands.push]\noptions = [\"-f --force\", \"-o=\"]\n";

#[track_caller]
fn refused(text: &str, grammar: Option<&str>) -> SyntaxError {
    match Definition::from_toml("tool", text, grammar) {
        Ok(definition) => panic!("taken: {text}\n{definition:?}"),
        Err(error) => error,
    }
}

#[test]
fn what_is_wrong_with_a_rule_has_its_line_and_says_what_to_do() {
    let rule = "[[rule]]\nid = \"a\"\ndecision = \"deny\"\nreason = \"x\"\n";
    let git = format!("facts = \"git\"\n{GRAMMAR}");
    let cases: Vec<(String, usize, &str)> = vec![
        ("mode = \"x\"".into(), 1, "mode must be \"enforce\" or \"observe\", not \"x\""),
        ("\nmode = 1".into(), 2, "mode must be a string"),
        (
            "facts = \"svn\"".into(),
            1,
            "facts must be one of git, gh, npm, command, none, not \"svn\"",
        ),
        ("unread = \"deny\"".into(), 1, "there is none: add [grammar]"),
        (format!("unread = \"x\"\n{GRAMMAR}"), 1, "\"allow\", \"ask\" or \"deny\", not \"x\""),
        ("protected = []".into(), 1, "protected is empty"),
        ("protected = [\"a\",\n\"\"]".into(), 2, "empty pattern"),
        ("protected = [\"a\\\\\"]".into(), 1, "cannot end in \\"),
        ("protected = [\"@protected\"]".into(), 1, "which is not there"),
        ("protected = 1".into(), 1, "a string or a list of strings"),
        ("rule = 1".into(), 1, "write [[rule]]"),
        ("rule = [1]".into(), 1, "write [[rule]]"),
        ("\n[rule]".into(), 2, "write [[rule]]"),
        ("\n[[rule]]".into(), 2, "a rule needs an id"),
        ("[[rule]]\nid = \"a\"".into(), 1, "a rule needs a decision: allow, ask or deny"),
        ("[[rule]]\nid = \"a\"\ndecision = \"deny\"".into(), 1, "a rule needs a reason"),
        ("[[rule]]\nid = \"A\"".into(), 2, "1 to 48 of a-z, 0-9 and -"),
        ("[[rule]]\nid = \"\"".into(), 2, "1 to 48"),
        (format!("[[rule]]\nid = \"{}\"", "a".repeat(49)), 2, "1 to 48"),
        ("[[rule]]\nid = \"default\"".into(), 2, "none of default, unread, unrestricted"),
        ("[[rule]]\nid = \"unread\"".into(), 2, "none of default"),
        ("[[rule]]\ndecision = \"no\"".into(), 2, "decision must be \"allow\""),
        ("[[rule]]\nreason = \" \"".into(), 2, "reason must be one line"),
        ("[[rule]]\nreason = \"a\\nb\"".into(), 2, "reason must be one line"),
        ("[[rule]]\ninstead = \"\"".into(), 2, "instead must be one line"),
        ("[[rule]]\n\nsubcomand = \"x\"".into(), 3, "[[rule]] subcomand is not a member"),
        (format!("{rule}\n{rule}"), 6, "there is a rule a already, in line 1"),
        (format!("{rule}subcommand = \"x\""), 5, "subcommand needs a grammar"),
        (format!("{rule}options = \"x\""), 5, "options needs a grammar"),
        (format!("{rule}without = \"x\""), 5, "without needs a grammar"),
        (format!("{rule}facts = {{ force = true }}"), 5, "facts needs a grammar"),
        (format!("{GRAMMAR}{rule}subcommand = \"pull\""), 7, "no subcommand \"pull\""),
        (format!("{GRAMMAR}{rule}subcommand = \"\""), 7, "no subcommand \"\""),
        (format!("{GRAMMAR}{rule}subcommand = []"), 7, "subcommand is empty"),
        (format!("{GRAMMAR}{rule}subcommand = [\"push\",\n\"x\"]"), 8, "no subcommand \"x\""),
        (format!("{GRAMMAR}{rule}options = \"--mirror\""), 7, "no option \"--mirror\""),
        (
            format!("{GRAMMAR}{rule}subcommand = \"push\"\noptions = \"--forc\""),
            8,
            "no option \"--forc\" for push",
        ),
        (format!("{GRAMMAR}{rule}options = []"), 7, "options is empty"),
        (format!("{GRAMMAR}{rule}options = [1]"), 7, "each of options must be a string"),
        (format!("{GRAMMAR}{rule}options = \"-o=@protected\""), 7, "which is not there"),
        (format!("{GRAMMAR}{rule}facts = {{ force = true }}"), 7, "no module that tells facts"),
        (format!("{git}{rule}facts = {{ forse = true }}"), 8, "no fact \"forse\"; it has remote,"),
        (format!("{git}{rule}facts = {{ force = \"x\" }}"), 8, "force must be true or false"),
        (format!("{git}{rule}facts = {{ ref = true }}"), 8, "ref must be a pattern"),
        (format!("{git}{rule}facts = {{}}"), 8, "facts is empty"),
        (format!("{rule}operands = []"), 5, "operands is empty"),
        (format!("{rule}operands = [[]]"), 5, "operands is empty"),
        (format!("{rule}operands = \"\""), 5, "empty pattern"),
        (format!("{rule}operands = {{}}"), 5, "operands is empty"),
        (format!("{rule}operands = 1"), 5, "operands must be a pattern, a list or a table"),
        (format!("{rule}operands = {{ glob = \"x\" }}"), 5, "operands has glob, and may have"),
        (
            format!("{rule}operands = {{ pattern = \"x\", one_of = \"y\" }}"),
            5,
            "must have one of one_of, pattern, beneath, host, not or all, not two",
        ),
        (format!("{rule}operands = {{ one_of = [] }}"), 5, "one_of is empty"),
        (format!("{rule}operands = {{ not = [] }}"), 5, "not is empty"),
        (format!("{rule}operands = {{ all = \"x\" }}"), 5, "all must be a list of matchers"),
        (format!("{rule}operands = {{ all = [] }}"), 5, "all is empty"),
        (format!("{GRAMMAR}{rule}values = {{ \"-x\" = \"y\" }}"), 7, "no option \"-x\""),
        (format!("{GRAMMAR}{rule}values = {{ \"-o\" = [] }}"), 7, "-o is empty"),
        (format!("{GRAMMAR}{rule}values = {{}}"), 7, "values is empty"),
        ("default = { reason = \"x\" }".into(), 1, "default needs a decision"),
        ("default = { decision = \"ask\", id = \"x\" }".into(), 1, "default id is not a member"),
        (format!("unread = {{}}\n{GRAMMAR}"), 1, "unread needs a decision"),
        (format!("{rule}operands = {{ beneath = \"src\" }}"), 5, "an absolute path without .."),
        (format!("{rule}operands = {{ beneath = \"/a/../b\" }}"), 5, "an absolute path"),
        (format!("{rule}operands = {{ scheme = \"https\" }}"), 5, "stand beside host"),
        (
            format!("{rule}operands = {{ pattern = \"x\", port = 1 }}"),
            5,
            "scheme and port stand beside host",
        ),
        (format!("{rule}operands = {{ host = \"x\", port = 65536 }}"), 5, "at most 65535"),
        (format!("{rule}operands = {{ host = \"x\", port = [] }}"), 5, "port is empty"),
        (format!("{rule}operands = \"@roots\""), 5, "@roots may only stand in beneath"),
        (format!("{rule}directory = \"@protected\""), 5, "which is not there"),
    ];
    for (text, line, message) in cases {
        let error = refused(&text, None);
        assert_eq!((error.line, error.place), (line, Place::Definition), "{text}\n{error}");
        assert!(error.message.contains(message), "{text}\n{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
}

#[test]
fn a_grammar_has_its_own_file_and_lines() {
    let rule = "[[rule]]\nid = \"a\"\ndecision = \"deny\"\nreason = \"x\"\noptions = \"-f\"\n";
    let beside = "[commands.push]\noptions = [\"-f --force\"]\n";
    Definition::from_toml("tool", rule, Some(beside)).expect("a grammar beside");
    let both = refused(&format!("{GRAMMAR}{rule}"), Some(beside));
    assert_eq!((both.line, both.place), (1, Place::Definition));
    assert!(both.message.contains("here and in grammar.toml"), "{both}");
    for (text, line, message) in [
        ("", 1, "is empty: write the grammar, or remove the file"),
        ("\n\noption = []", 3, "option"),
        ("[commands.push]\noptions = [\n1]", 3, ""),
        ("x = ", 1, ""),
    ] {
        let error = refused("# none\n", Some(text));
        assert_eq!((error.line, error.place), (line, Place::Grammar), "{text}\n{error}");
        assert!(error.message.contains(message), "{text}\n{error}");
    }
    let error = refused("\n[grammar]\noption = []", None);
    assert_eq!((error.line, error.place), (3, Place::Definition));
}

#[test]
fn the_module_is_the_programs_unless_the_definition_names_one() {
    use tool_policy::facts::Module;
    let module = |tool: &str, text: &str| {
        Definition::from_toml(tool, text, None).expect(text).policy.module()
    };
    assert_eq!(module("git", "# x"), Module::Git);
    assert_eq!(module("mine", "binary = \"/usr/bin/git\""), Module::Git);
    assert_eq!(module("git", "binary = \"/usr/bin/other\""), Module::None);
    assert_eq!(module("git", "facts = \"none\""), Module::None);
    assert_eq!(module("mine", "facts = \"gh\""), Module::Gh);
}

#[test]
fn examples_are_tried_and_one_that_fails_says_what_came() {
    let head = format!(
        "default = \"allow\"\n{GRAMMAR}[[rule]]\nid = \"force\"\ndecision = \"deny\"\n\
         reason = \"no force\"\noptions = \"-f\"\n"
    );
    let first = head.lines().count() + 1;
    for good in [
        "call = \"push -f\"\nis = \"deny\"\nrule = \"force\"",
        "call = \"push\"\nis = \"allow\"\nrule = \"default\"",
        "args = [\"push\", \"a b\"]\nis = \"allow\"",
        "call = \"fly\"\nis = \"deny\"\nrule = \"unread\"",
    ] {
        Definition::from_toml("tool", &format!("{head}[[example]]\n{good}"), None).expect(good);
    }
    for (example, line, message) in [
        (
            "call = \"push -f\"\nis = \"allow\"",
            0,
            "this example is to be allow, and is deny by force in line 4: no force",
        ),
        (
            "call = \"push -f\"\nis = \"deny\"\nrule = \"other\"",
            0,
            "to be deny by other, and is deny by force in line 4",
        ),
        ("call = \"push\"\nis = \"ask\"", 0, "and is allow by default in line 1"),
        (
            "call = \"push --fly\"\nis = \"allow\"",
            0,
            "deny by unread in line 2: the arguments are not understood: --fly is no option of tool push",
        ),
        ("is = \"deny\"", 0, "an example needs call"),
        ("call = \"push\"", 0, "an example needs is"),
        ("call = \"a'\"\nis = \"deny\"", 1, "a quote that is not closed"),
        ("call = \"a\"\nargs = [\"a\"]\nis = \"deny\"", 2, "call or args, not both"),
        ("args = [1]\nis = \"deny\"", 1, "each of args must be a string"),
        ("call = \"a\"\nis = \"no\"", 2, "is must be \"allow\""),
        ("cal = \"a\"", 1, "[[example]] cal is not a member"),
    ] {
        let error = refused(&format!("{head}[[example]]\n{example}"), None);
        let wanted = if message.contains("call or args") { error.line } else { first + line };
        assert_eq!(error.line, wanted, "{example}\n{error}");
        assert!(error.message.contains(message), "{example}\n{error}");
    }
    let observed =
        format!("mode = \"observe\"\n{head}[[example]]\ncall = \"push -f\"\nis = \"deny\"");
    Definition::from_toml("tool", &observed, None).expect("examples say what is meant");
}

#[test]
fn the_documents_list_of_facts_is_the_modules() {
    use tool_policy::facts::{Kind, Module};
    let document = include_str!("../../../docs/tools.md");
    let mut rows = 0;
    for module in Module::ALL {
        for fact in module.list() {
            let is = if fact.kind == Kind::Flag { "flag" } else { "words" };
            let row = format!("| {} | `{}` | {is} | {} |", module.as_str(), fact.name, fact.about);
            assert!(document.contains(&row), "docs/tools.md has no row {row}");
            rows += 1;
        }
    }
    let is_row = |line: &&str| {
        ["| git | `", "| gh | `", "| npm | `", "| command | `"]
            .iter()
            .any(|start| line.starts_with(start))
            && ["` | words | ", "` | flag | "].iter().any(|kind| line.contains(kind))
    };
    assert_eq!(document.lines().filter(is_row).count(), rows, "docs/tools.md lists more facts");
}
