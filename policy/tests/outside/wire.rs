//! Rules on the wire: where a rule is decided on, and what comes of requests.

use tool_policy::facts::{Facts, Observed, Text, Value, git};
use tool_policy::{Asks, Decision, Definition, On, Policy, Verdict, Wire};

use crate::support::{judge, judge_in, policy, repository};

/// A definition of git with a gate, a grammar and these rules.
fn git_with(rules: &str) -> String {
    format!(
        "default = \"allow\"\nfacts = \"git\"\nprotected = [\"main\", \"release/*\"]\n{rules}\n\
         [[gate]]\nadapter = \"git\"\nhosts = [\"github.com\"]\n\
         [grammar]\noptions = [\"-c=\"]\n\
         [grammar.commands.push]\noptions = [\"-f --force\", \"-n --dry-run\", \"--delete\"]\n\
         [grammar.commands.status]\n[grammar.commands.fetch]\n"
    )
}

const PROTECTED: &str = "[[rule]]\nid = \"protected\"\ndecision = \"ask\"\nsubcommand = \"push\"\n\
    without = \"--dry-run\"\nfacts = { ref = \"@protected\" }\nreason = \"others build on it\"\n\
    [[rule]]\nid = \"force\"\ndecision = \"deny\"\nsubcommand = \"push\"\n\
    facts = { ref = \"@protected\", force = true }\nreason = \"gone for good\"\n";

/// The facts of a push of one ref.
fn push(name: &str, force: Value) -> Facts {
    let (name, tag) = git::named(name.as_bytes());
    Facts::new(vec![
        ("repository", Value::Texts(vec![Text::new(b"o/r".to_vec())])),
        ("ref", Value::Texts(vec![name])),
        ("tags", Value::Texts(tag.into_iter().collect())),
        ("force", force),
        ("delete", Value::Flag(false)),
    ])
}

fn on_wire(policy: &Policy, facts: &Facts, call: Option<&Verdict>) -> Verdict {
    let request =
        Wire { subcommand: &["push"], facts, changes: true, default: Decision::Allow, line: 7 };
    policy.judge_wire(&request, call)
}

#[test]
fn a_rule_of_facts_that_requests_have_is_decided_on_the_wire_too() {
    let git = policy("git", &git_with(PROTECTED));
    assert!(git.rules().iter().all(|rule| rule.on == On::Both));
    let judged = |name: &str, force: Value| {
        let verdict = on_wire(&git, &push(name, force), None);
        (verdict.decision, verdict.rule.as_str().to_owned())
    };
    let known = |holds| Value::Flag(holds);
    assert_eq!(judged("refs/heads/main", known(false)), (Decision::Ask, "protected".into()));
    assert_eq!(judged("refs/heads/main", known(true)), (Decision::Deny, "force".into()));
    assert_eq!(judged("refs/heads/main", Value::Unknown), (Decision::Deny, "force".into()));
    assert_eq!(judged("refs/heads/topic", known(true)), (Decision::Allow, "gate".into()));
    assert_eq!(judged("refs/heads/release/1", known(false)), (Decision::Ask, "protected".into()));
    assert_eq!(judged("refs/tags/main", known(false)), (Decision::Allow, "gate".into()));
}

#[test]
fn a_rule_about_a_fact_that_a_request_has_not_is_not_asked() {
    let git = policy("git", &git_with(PROTECTED));
    let fetch = Facts::new(vec![("repository", Value::Unknown)]);
    let request =
        Wire { subcommand: &[], facts: &fetch, changes: false, default: Decision::Deny, line: 7 };
    assert_eq!(git.judge_wire(&request, None).decision, Decision::Allow);
    let few = Facts::new(vec![("ref", Value::Unknown)]);
    assert_eq!(on_wire(&git, &few, None).rule.as_str(), "protected");
}

#[test]
fn a_change_that_no_rule_is_about_is_what_the_gate_says() {
    let git = policy("git", &git_with(""));
    let facts = push("refs/heads/topic", Value::Flag(false));
    for default in Decision::ALL {
        let request =
            Wire { subcommand: &["push"], facts: &facts, changes: true, default, line: 7 };
        let verdict = git.judge_wire(&request, None);
        assert_eq!((verdict.decision, verdict.line), (default, 7));
        assert_eq!(verdict.reason.is_none(), default == Decision::Allow);
    }
}

#[test]
fn a_rule_that_asks_on_the_wire_does_not_ask_before_the_start() {
    let git = policy("git", &git_with(PROTECTED));
    let main = repository("main", "[remote \"origin\"]\nurl = git@github.com:o/r\n");
    let verdict = judge_in(&git, "push origin main", &main);
    assert_eq!((verdict.decision, verdict.asked), (Decision::Ask, Asks::Wire));
    // A repository by its path is reached past the gate.
    let local = repository("main", "[remote \"origin\"]\nurl = ../origin.git\n");
    let verdict = judge_in(&git, "push origin main", &local);
    assert_eq!((verdict.decision, verdict.asked), (Decision::Ask, Asks::Start));
    // What is known of the call is refused before it starts.
    let verdict = judge_in(&git, "push -f origin main", &main);
    assert_eq!((verdict.decision, verdict.rule.as_str()), (Decision::Deny, "force"));
    // What is not known is plain on the wire.
    let verdict = judge_in(&git, "push -f", &Observed::default());
    assert_eq!((verdict.decision, verdict.asked), (Decision::Ask, Asks::Wire));
    // Without a gate nobody sees it later.
    let without = git_with(PROTECTED).replace("adapter = \"git\"", "adapter = \"http\"");
    let without = policy("git", &without);
    assert!(without.rules().iter().all(|rule| rule.on == On::Call));
    let verdict = judge_in(&without, "push origin main", &main);
    assert_eq!((verdict.decision, verdict.asked), (Decision::Ask, Asks::Start));
    let verdict = judge_in(&without, "push -f", &Observed::default());
    assert_eq!(verdict.decision, Decision::Deny);
}

#[test]
fn a_call_that_gets_no_gate_is_asked_about_before_it_starts() {
    let never = format!("{}[sandbox]\nnetwork = \"always\"\n", git_with(PROTECTED));
    let always = policy("git", &never);
    let rule = "[[rule]]\nid = \"looks\"\ndecision = \"ask\"\nsubcommand = \"status\"\n\
        asked = \"wire\"\nreason = \"x\"\n";
    let git = policy("git", &git_with(rule));
    assert_eq!(judge(&git, "status").asked, Asks::Start, "it is local");
    assert_eq!(judge(&always, "push origin main").asked, Asks::Wire);
}

#[test]
fn a_rule_about_arguments_may_leave_its_question_to_the_wire() {
    let text = git_with(
        "[[rule]]\nid = \"tidy\"\ndecision = \"ask\"\nsubcommand = \"push\"\n\
         options = \"--force\"\nasked = \"wire\"\nreason = \"force is rude\"\n\
         [[rule]]\nid = \"own\"\ndecision = \"allow\"\non = \"wire\"\n\
         facts = { ref = \"agent/*\" }\nreason = \"its own\"\n",
    );
    let git = policy("git", &text);
    let call = judge(&git, "push -f origin topic");
    assert_eq!((call.decision, call.asked), (Decision::Ask, Asks::Wire));
    let topic = push("refs/heads/topic", Value::Flag(false));
    let verdict = on_wire(&git, &topic, Some(&call));
    assert_eq!((verdict.decision, verdict.rule.as_str()), (Decision::Ask, "tidy"));
    assert_eq!(verdict.reason.as_deref(), Some("force is rude"));
    assert_eq!(verdict.facts, topic);
    let own = push("refs/heads/agent/x", Value::Flag(false));
    assert_eq!(on_wire(&git, &own, Some(&call)).decision, Decision::Allow);
    let read =
        Wire { subcommand: &[], facts: &topic, changes: false, default: Decision::Deny, line: 1 };
    assert_eq!(git.judge_wire(&read, Some(&call)).decision, Decision::Allow);
    // Another call's changes are nothing to it.
    let other = judge(&git, "push origin topic");
    assert_eq!(on_wire(&git, &topic, Some(&other)).decision, Decision::Allow);
}

#[test]
fn a_default_may_leave_its_question_to_the_wire() {
    let text = git_with("").replace(
        "default = \"allow\"",
        "default = { decision = \"ask\", asked = \"wire\", reason = \"who knows\" }",
    );
    let git = policy("git", &text);
    let call = judge(&git, "push origin topic");
    assert_eq!((call.decision, call.asked), (Decision::Ask, Asks::Wire));
    let facts = push("refs/heads/topic", Value::Flag(false));
    let verdict = on_wire(&git, &facts, Some(&call));
    assert_eq!((verdict.decision, verdict.rule.as_str()), (Decision::Ask, "default"));
    assert_eq!(judge(&git, "status").asked, Asks::Start);
}

#[test]
fn what_is_only_observed_passes_on_the_wire_too() {
    let git = policy("git", &format!("mode = \"observe\"\n{}", git_with(PROTECTED)));
    let verdict = on_wire(&git, &push("refs/heads/main", Value::Flag(true)), None);
    assert_eq!((verdict.decision, verdict.would), (Decision::Allow, Some(Decision::Deny)));
}

#[test]
fn a_rule_about_requests_needs_no_grammar() {
    let text = "default = \"allow\"\n[[rule]]\nid = \"post\"\ndecision = \"deny\"\n\
        facts = { method = { not = [\"GET\", \"HEAD\"] }, host = \"*.example.com\" }\nreason = \"x\"\n\
        [[gate]]\nadapter = \"http\"\nhosts = [\"*\"]\n\
        [[example]]\nwire = \"change\"\nfacts = { method = \"POST\", host = \"a.example.com\" }\n\
        is = \"deny\"\nrule = \"post\"\n\
        [[example]]\nwire = \"read\"\nfacts = { method = \"GET\", host = \"a.example.com\" }\n\
        is = \"allow\"\n[[example]]\ncall = \"https://a.example.com\"\nis = \"allow\"\n";
    assert_eq!(policy("curl", text).rules()[0].on, On::Wire);
}

#[test]
fn examples_of_requests_are_tried() {
    let example = |facts: &str, is: &str, rule: &str| {
        let example =
            format!("[[example]]\nwire = \"push\"\nfacts = {facts}\nis = \"{is}\"\n{rule}\n");
        Definition::from_toml("git", &format!("{}{example}", git_with(PROTECTED)), None)
    };
    assert!(example("{ ref = \"main\" }", "ask", "rule = \"protected\"").is_ok());
    assert!(example("{ ref = \"main\", force = true }", "deny", "rule = \"force\"").is_ok());
    assert!(example("{ ref = \"main\", force = \"unknown\" }", "deny", "").is_ok());
    assert!(example("{ ref = \"topic\" }", "allow", "rule = \"gate\"").is_ok());
    let error = example("{ ref = \"main\" }", "allow", "").unwrap_err();
    assert!(error.message.contains("is to be allow, and is ask by protected"), "{error}");
    let error = example("{ method = \"GET\" }", "allow", "").unwrap_err();
    assert!(error.message.contains("no [[gate]] or [signing] has such a request"), "{error}");
}

#[test]
fn what_is_wrong_with_a_rule_about_requests_has_its_line() {
    let rule = |members: &str| {
        let rule = format!("[[rule]]\nid = \"x\"\ndecision = \"ask\"\nreason = \"x\"\n{members}\n");
        Definition::from_toml("git", &git_with(&rule), None).unwrap_err()
    };
    for (members, line, message) in [
        ("on = \"wires\"", 8, "on must be \"call\", \"wire\" or \"both\""),
        ("on = \"wire\"", 8, "a rule about requests needs facts"),
        ("on = \"wire\"\nfacts = { remote = \"x\" }", 9, "requests have no fact \"remote\""),
        ("on = \"wire\"\noptions = \"-c\"\nfacts = { ref = \"x\" }", 9, "requests have no options"),
        ("on = \"wire\"\noperands = \"x\"", 9, "requests have no operands"),
        (
            "on = \"wire\"\nsubcommand = \"status\"\nfacts = { ref = \"x\" }",
            9,
            "these subcommands alone: push",
        ),
        ("on = \"call\"\nfacts = { repository = \"x\" }", 8, "calls have no fact \"repository\""),
        ("facts = { repository = \"x\", remote = \"y\" }", 4, "neither calls nor requests"),
        ("facts = { nothing = \"x\" }", 8, "no fact \"nothing\""),
        ("asked = \"later\"\nsubcommand = \"push\"", 8, "asked must be"),
        ("on = \"wire\"\nasked = \"wire\"\nsubcommand = \"push\"", 9, "leave asked out"),
    ] {
        let error = rule(members);
        assert!(error.message.contains(message), "{members}: {error}");
        assert_eq!(error.line, line, "{members}: {error}");
    }
    let error = Definition::from_toml(
        "git",
        "[grammar]\n[grammar.commands.push]\n[[rule]]\nid = \"x\"\ndecision = \"ask\"\nreason = \"x\"\n\
         subcommand = \"push\"\nasked = \"wire\"\n",
        None,
    );
    assert!(error.unwrap_err().message.contains("there is no [[gate]] to ask at"));
}
