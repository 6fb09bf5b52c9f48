//! Rules: what meets them, which one wins, and that what was decided on is what
//! runs.

use proptest::prelude::*;
use tool_policy::facts::Observed;
use tool_policy::{Approved, Consent, Decision, Judged, Mode, Policy, Scene, Subject, decide};

use crate::support::{judge, judge_words, policy};

/// A tool with a few commands.
const TOOL: &str = r#"
default = "ask"
protected = ["main", "release/*"]
[grammar]
options = ["-c=", "--quiet", "-C="]
harmless = ["--quiet"]
clusters = true
abbreviations = true
[grammar.commands.push]
options = ["-f --force", "-n --[no-]dry-run", "-o --option=", "--mirror", "--[no-]verify"]
[grammar.commands.remove]
aliases = ["rm"]
options = ["-f --force", "-r"]
[grammar.commands.remote.commands.add]
[grammar.commands.remote.commands.set-url]
options = ["--push"]
[grammar.commands.status]
options = ["-s --short"]
"#;

fn rules(text: &str) -> Policy {
    let mut all = String::new();
    for (number, rule) in text.split("--").filter(|rule| !rule.trim().is_empty()).enumerate() {
        let id = if rule.contains("id =") { String::new() } else { format!("id = \"r{number}\"") };
        all.push_str(&format!("[[rule]]\n{id}\nreason = \"because\"\n{rule}\n"));
    }
    policy("tool", &format!("{TOOL}\n{}", all.replace('~', "--")))
}

#[track_caller]
fn decides(policy: &Policy, cases: &[(&str, &str, &str)]) {
    for (call, decision, rule) in cases {
        let verdict = judge(policy, call);
        let found = (verdict.decision.as_str(), verdict.rule.as_str());
        assert_eq!(found, (*decision, *rule), "{call}: {verdict:?}");
    }
}

#[test]
fn a_rule_is_met_by_its_subcommand_and_what_lies_beneath() {
    let policy = rules(
        r#"
        decision = "deny"
        subcommand = ["remote", "rm"]
        --
        decision = "allow"
        subcommand = "remote set-url"
        --
        decision = "allow"
        subcommand = "status"
        "#,
    );
    decides(
        &policy,
        &[
            ("remote add x y", "deny", "r0"),
            ("remote set-url x y", "deny", "r0"),
            ("remove x", "deny", "r0"),
            ("rm x", "deny", "r0"),
            ("status", "allow", "r2"),
            ("push", "ask", "default"),
        ],
    );
}

#[test]
fn an_option_is_meant_by_every_spelling_and_not_by_its_opposite() {
    let policy = rules(
        r#"
        decision = "deny"
        subcommand = "push"
        options = ["~force", "~no-verify", "~option=ci.*"]
        "#,
    );
    decides(
        &policy,
        &[
            ("push --force", "deny", "r0"),
            ("push -f", "deny", "r0"),
            ("push -nf", "deny", "r0"),
            ("push --forc", "deny", "r0"),
            ("push --no-verify", "deny", "r0"),
            ("push --verify", "ask", "default"),
            ("push --option=ci.skip", "deny", "r0"),
            ("push --option ci.skip", "deny", "r0"),
            ("push -oci.skip", "deny", "r0"),
            ("push -no ci.skip", "deny", "r0"),
            ("push -o other", "ask", "default"),
            ("push -- --force", "ask", "default"),
            ("remove --force", "ask", "default"),
        ],
    );
}

#[test]
fn without_is_undone_by_what_takes_an_option_back() {
    let policy = rules(
        r#"
        decision = "deny"
        subcommand = "push"
        options = "~force"
        without = "~dry-run"
        --
        decision = "allow"
        subcommand = "remove"
        without = ["~force", "-r"]
        "#,
    );
    decides(
        &policy,
        &[
            ("push -f", "deny", "r0"),
            ("push -f -n", "ask", "default"),
            ("push -fn", "ask", "default"),
            ("push -f -n --no-dry-run", "deny", "r0"),
            ("push -f --no-dry-run -n", "deny", "r0"),
            ("push -f --no-dry-run", "deny", "r0"),
            ("remove x", "allow", "r1"),
            ("remove -r x", "ask", "default"),
        ],
    );
}

#[test]
fn a_rule_that_allows_bounds_and_one_that_refuses_catches() {
    let policy = rules(
        r#"
        decision = "allow"
        subcommand = "push"
        options = ["~dry-run", "~verify"]
        operands = ["origin", "feature/*"]
        --
        decision = "deny"
        subcommand = "push"
        operands = "evil*"
        --
        decision = "allow"
        subcommand = "status"
        "#,
    );
    decides(
        &policy,
        &[
            ("push origin feature/x", "allow", "r0"),
            ("push -n origin", "allow", "r0"),
            ("push --verify origin", "allow", "r0"),
            ("--quiet push origin", "allow", "r0"),
            ("push --no-verify origin", "ask", "default"),
            ("push -f origin", "ask", "default"),
            ("push", "ask", "default"),
            ("push origin main", "ask", "default"),
            ("push origin evil", "deny", "r1"),
            ("push origin feature/x evil2 feature/y", "deny", "r1"),
            // The tool's own options are always to be named, unless harmless.
            ("status -s", "allow", "r2"),
            ("--quiet status", "allow", "r2"),
            ("-c x=y status", "ask", "default"),
            ("-C /elsewhere status", "ask", "default"),
        ],
    );
}

#[test]
fn values_of_an_option_are_matched_as_operands_are() {
    let policy = rules(
        r#"
        decision = "deny"
        values = { "~option" = { all = ["a*", { not = "ab" }] } }
        --
        decision = "allow"
        subcommand = "push"
        values = { "-o" = "x*" }
        "#,
    );
    decides(
        &policy,
        &[
            ("push -o aa", "deny", "r0"),
            ("push --option=x -o aa", "deny", "r0"),
            ("push -o ab", "ask", "default"),
            ("push -o x1 -o x2", "allow", "r1"),
            ("push -o x1 -o y", "ask", "default"),
            ("push", "allow", "r1"),
        ],
    );
}

#[test]
fn a_default_and_unread_may_have_words_of_their_own() {
    let text = r#"
        default = { decision = "deny", reason = "not here", instead = "elsewhere" }
        unread = { decision = "ask", reason = "too new", instead = "write it out" }
        [grammar]
    "#;
    let policy = policy("tool", text);
    let verdict = judge(&policy, "x");
    let said = (verdict.reason.as_deref(), verdict.instead.as_deref(), verdict.line);
    assert_eq!(said, (Some("not here"), Some("elsewhere"), 2));
    let allowed =
        judge(&crate::support::policy("tool", &text.replace("\"deny\"", "\"allow\"")), "x");
    assert_eq!((allowed.reason, allowed.instead), (None, None));
    let unread = crate::support::policy("tool", &text.replace("\"deny\"", "\"allow\""));
    let verdict = judge(&unread, "--x");
    assert_eq!(
        verdict.reason.as_deref(),
        Some("too new: --x is no option of tool known to these rules")
    );
    assert_eq!(verdict.instead.as_deref(), Some("write it out"));
}

#[test]
fn a_tools_own_option_is_another_one_than_a_commands() {
    let text = r#"
        default = "ask"
        [grammar]
        options = ["-c="]
        [grammar.commands.commit]
        options = ["-c="]
        [grammar.commands.log]
        [[rule]]
        id = "commit"
        reason = "x"
        decision = "allow"
        subcommand = "commit"
        options = "-c"
        [[rule]]
        id = "global"
        reason = "x"
        decision = "allow"
        subcommand = "log"
        options = "-c"
    "#;
    decides(
        &policy("tool", text),
        &[
            ("commit -c x", "allow", "commit"),
            ("-c alias.x=!sh commit", "ask", "default"),
            ("-c a=b log", "allow", "global"),
        ],
    );
}

#[test]
fn protected_stands_wherever_a_pattern_may() {
    let policy = rules(
        r#"
        decision = "deny"
        subcommand = "push"
        operands = "@protected"
        --
        decision = "deny"
        subcommand = "remove"
        operands = { not = { pattern = ["@protected", "x"] } }
        --
        decision = "deny"
        options = "~option=@protected"
        "#,
    );
    decides(
        &policy,
        &[
            ("push origin main", "deny", "r0"),
            ("push release/1", "deny", "r0"),
            ("push mainly", "ask", "default"),
            ("remove main x", "ask", "default"),
            ("remove y", "deny", "r1"),
            ("push -o main", "deny", "r2"),
        ],
    );
}

#[test]
fn the_directory_counts_as_it_is_and_one_that_is_not_known_for_the_worst() {
    let text = r#"
        default = "ask"
        [[rule]]
        id = "prod"
        reason = "x"
        decision = "deny"
        directory = { beneath = "/base/prod" }
        [[rule]]
        id = "work"
        reason = "x"
        decision = "allow"
        directory = { beneath = "@roots" }
    "#;
    let policy = policy("tool", text);
    for (directory, rule) in [
        ("/base/prod", "prod"),
        ("/base/prod/deep", "prod"),
        ("/base/production", "work"),
        ("/base", "work"),
        ("/elsewhere", "default"),
        ("", "prod"),
    ] {
        let scene = Scene {
            directory: directory.as_bytes(),
            roots: &[b"/base".to_vec()],
            observed: &Observed::default(),
        };
        assert_eq!(policy.judge(&[b"x"], &scene).rule.as_str(), rule, "{directory:?}");
    }
}

#[test]
fn what_cannot_be_read_is_never_allowed_by_a_rule() {
    let unread = |said: &str, rules: &str| {
        let rule = "[[rule]]\nreason = \"because\"\n";
        policy("tool", &format!("{said}\n{TOOL}\n{}", rules.replace("--", rule)))
    };
    let denies = "--\nid = \"a\"\ndecision = \"allow\"\n";
    let asks = "--\nid = \"a\"\ndecision = \"ask\"\n--\nid = \"f\"\ndecision = \"deny\"\noptions = \"-f\"\n";
    for (said, rules, call, decision, rule) in [
        ("", denies, "push --unknown", "deny", "unread"),
        ("", denies, "fly", "deny", "unread"),
        ("", denies, "push -o", "deny", "unread"),
        ("", denies, "push --no-", "deny", "unread"),
        ("unread = \"allow\"", denies, "fly", "ask", "default"),
        ("unread = \"ask\"", denies, "fly", "ask", "unread"),
        ("unread = \"ask\"", asks, "fly", "ask", "a"),
        ("unread = \"ask\"", asks, "push -f --unknown", "deny", "f"),
        ("unread = \"deny\"", asks, "push -f --unknown", "deny", "f"),
        ("unread = \"deny\"", asks, "push --unknown", "deny", "unread"),
    ] {
        let verdict = judge(&unread(said, rules), call);
        let found = (verdict.decision.as_str(), verdict.rule.as_str());
        assert_eq!(found, (decision, rule), "{said} {call}");
    }
    let reason = judge(&unread("", denies), "push --unkno\u{1b}wn").reason.unwrap();
    assert!(reason.contains(r"--unkno\x1bwn is no option of tool push"), "{reason}");
}

#[test]
fn observing_tells_what_would_be_and_lets_all_pass() {
    let rules = "--\nid = \"a\"\ndecision = \"deny\"\noptions = \"-f\"\n";
    let rule = "[[rule]]\nreason = \"because\"\n";
    let text = format!("mode = \"observe\"\n{TOOL}\n{}", rules.replace("--", rule));
    let policy = policy("tool", &text);
    assert_eq!(policy.mode(), Mode::Observe);
    for (call, would, id) in [
        ("push -f", Decision::Deny, "a"),
        ("push", Decision::Ask, "default"),
        ("fly", Decision::Deny, "unread"),
    ] {
        let verdict = judge(&policy, call);
        assert_eq!(verdict.decision, Decision::Allow, "{call}");
        assert_eq!((verdict.would, verdict.meant()), (Some(would), would), "{call}");
        assert_eq!(verdict.rule.as_str(), id, "{call}");
    }
    let enforced = format!("{TOOL}\n{}", rules.replace("--", rule));
    let server = crate::support::policy("tool", &enforced).observing();
    assert_eq!(judge(&server, "push -f").decision, Decision::Allow);
}

#[test]
fn a_definition_without_rules_and_default_restricts_nothing() {
    let free = policy("tool", "# nothing\n");
    assert!(free.is_unrestricted());
    assert_eq!(judge(&free, "anything").rule.as_str(), "unrestricted");
    let said = policy("tool", "\ndefault = \"allow\"\n");
    let verdict = judge(&said, "anything");
    assert_eq!((verdict.rule.as_str(), verdict.line), ("default", 2));
    assert!(!said.is_unrestricted());
}

#[test]
fn among_equals_the_first_answers_with_its_line_reason_and_advice() {
    let text = "default = \"allow\"\n\n[[rule]]\nid = \"one\"\ndecision = \"deny\"\n\
                reason = \"first\"\ninstead = \"do that\"\n[[rule]]\nid = \"two\"\n\
                decision = \"deny\"\nreason = \"second\"\n";
    let verdict = judge(&policy("tool", text), "x");
    assert_eq!((verdict.rule.as_str(), verdict.line), ("one", 3));
    assert_eq!(verdict.reason.as_deref(), Some("first"));
    assert_eq!(verdict.instead.as_deref(), Some("do that"));
}

/// Members of a rule that any command of the tool may have.
const SUBCOMMANDS: [&str; 4] =
    ["", "subcommand = \"push\"", "subcommand = [\"remove\", \"push\"]", "subcommand = \"rm\""];
const OPTIONS: [&str; 4] =
    ["", "options = \"-f\"", "options = [\"--force\", \"--quiet\"]", "without = \"-f\""];
const OPERANDS: [&str; 4] =
    ["", "operands = \"a*\"", "operands = { beneath = \".\" }", "operands = { not = \"b\" }"];
const CALLS: [&str; 10] = [
    "push",
    "push -f a",
    "push a b",
    "rm -rf b ../x",
    "remove a",
    "status",
    "--quiet status",
    "-c x=y push a",
    "fly",
    "push --unknown a",
];

fn any_rule() -> impl Strategy<Value = String> {
    let of = |all: [&'static str; 4]| proptest::sample::select(all.to_vec());
    let decision = proptest::sample::select(Decision::ALL.to_vec());
    (decision, of(SUBCOMMANDS), of(OPTIONS), of(OPERANDS)).prop_map(
        |(decision, subcommand, options, operands)| {
            format!("decision = \"{decision}\"\n{subcommand}\n{options}\n{operands}\n")
        },
    )
}

fn with(rules: &[String]) -> Policy {
    let each = |(number, rule): (usize, &String)| {
        format!("[[rule]]\nid = \"r{number}\"\nreason = \"x\"\n{rule}")
    };
    let rules: String = rules.iter().enumerate().map(each).collect();
    policy("tool", &format!("{TOOL}\n{rules}"))
}

proptest! {
    #[test]
    fn the_strictest_that_matches_wins_in_any_order(
        (rules, shuffled) in proptest::collection::vec(any_rule(), 0..8)
            .prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
    ) {
        let (all, other) = (with(&rules), with(&shuffled));
        for call in CALLS {
            let verdict = judge(&all, call);
            prop_assert_eq!(verdict.decision, judge(&other, call).decision, "{}", call);
            // Each rule alone says the same as among others, or something weaker.
            let alone: Vec<_> = rules
                .iter()
                .map(|rule| judge(&with(std::slice::from_ref(rule)), call))
                .filter(|alone| alone.rule.as_str() == "r0")
                .map(|alone| alone.decision)
                .collect();
            if let Some(strictest) = alone.iter().max() {
                if verdict.rule.as_str().starts_with('r') {
                    prop_assert_eq!(verdict.decision, *strictest, "{}", call);
                }
                prop_assert!(verdict.decision >= *strictest, "{}", call);
            }
        }
    }

    #[test]
    fn a_rule_that_refuses_is_never_weakened_by_more_rules(
        rules in proptest::collection::vec(any_rule(), 1..6),
        more in any_rule(),
    ) {
        let before = with(&rules);
        let after = with(&[rules.as_slice(), std::slice::from_ref(&more)].concat());
        for call in CALLS {
            let (before, after) = (judge(&before, call), judge(&after, call));
            if before.decision == Decision::Deny && before.rule.as_str().starts_with('r') {
                prop_assert_eq!(after.decision, Decision::Deny, "{}", call);
            }
        }
    }
}

/// Something like the server's plan: the caller's words among others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    argv: Vec<Vec<u8>>,
    own: usize,
    directory: Vec<u8>,
    roots: Vec<Vec<u8>>,
    observed: Observed,
}

impl Subject for Plan {
    fn args(&self) -> Vec<&[u8]> {
        self.argv.iter().skip(self.own).map(Vec::as_slice).collect()
    }

    fn scene(&self) -> Scene<'_> {
        Scene { directory: &self.directory, roots: &self.roots, observed: &self.observed }
    }
}

/// All that there is to run something: it takes nothing but what was approved.
fn exec(approved: &Approved<Plan>) -> &[Vec<u8>] {
    &approved.get().argv
}

#[test]
fn what_was_decided_on_is_what_runs() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, TestRunner};

    let policy = rules(
        r#"
        decision = "deny"
        operands = "b*"
        --
        decision = "allow"
        operands = "a*"
        "#,
    );
    let mut runner = TestRunner::new(Config::default());
    let words = proptest::sample::select(vec![
        &b"push"[..],
        b"rm",
        b"status",
        b"remote",
        b"-f",
        b"--force",
        b"--quiet",
        b"-c",
        b"x=y",
        b"a",
        b"aa",
        b"b",
        b"--",
        b"",
        b"\xff",
        b"\n",
        b"a b",
        b"--unknown",
    ]);
    let plans = (proptest::collection::vec(words, 0..8), 0..3usize);
    let mut seen = [0u32; 3];
    for _ in 0..100_000 {
        let (own, before) = plans.new_tree(&mut runner).unwrap().current();
        let mut argv = vec![b"first".to_vec(); before];
        argv.extend(own.iter().map(|word| word.to_vec()));
        let plan = Plan {
            argv,
            own: before,
            directory: b"/base/sub".to_vec(),
            roots: vec![b"/base".to_vec(), b"/other".to_vec()],
            observed: Observed::default(),
        };
        let alone = judge_words(&policy, &own, &Observed::default());
        let (before, copy) = (plan.argv.as_ptr(), plan.clone());
        let (ran, verdict, which) = match decide(&policy, plan) {
            Judged::Allowed(approved, verdict) => {
                // The same object, not one that looks like it.
                assert_eq!(approved.get().argv.as_ptr(), before);
                assert_eq!((exec(&approved), approved.consent()), (&copy.argv[..], None));
                (Some(Decision::Allow), verdict, 0)
            }
            Judged::Asked(asked, verdict) => {
                assert_eq!(asked.get(), &copy);
                let consent = Consent {
                    id: "x".to_owned(),
                    by: 0,
                    at: std::time::SystemTime::UNIX_EPOCH,
                    standing: false,
                };
                let approved = asked.approve(consent.clone());
                assert_eq!(approved.get().argv.as_ptr(), before);
                assert_eq!((exec(&approved), approved.consent()), (&copy.argv[..], Some(&consent)));
                (Some(Decision::Ask), verdict, 1)
            }
            Judged::Denied(plan, verdict) => {
                assert_eq!(plan, copy);
                (None, verdict, 2)
            }
        };
        assert_eq!(ran.unwrap_or(Decision::Deny), verdict.decision);
        assert_eq!(verdict, alone, "another decision than on the words alone");
        seen[which] += 1;
    }
    assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
}
