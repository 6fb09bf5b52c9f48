//! Rules: a definition with rules, judged on any command line.
//!
//! Owns: weighing rules a second time, from what each of them says alone. Must
//! not: know what a rule means; only that it is met, or not.

use tool_policy::facts::Observed;
use tool_policy::{Decision, Definition, Policy, RuleId, Verdict};

use crate::case::{self, Case, ROOT, Rule};
use crate::grammar::{is_told, small_grammar};

/// The rules together say what the strictest of those says that are met alone;
/// in any order; and of a call of which less is known they say nothing weaker.
pub fn rules(data: &[u8]) {
    let case = case::parse(data);
    let default = case.default.unwrap_or(Decision::Allow);
    let unread = case.unread.unwrap_or(Decision::Deny);
    let all: Vec<&Rule<'_>> = case.rules.iter().collect();
    let Some(policy) = load(&case, &all, case.default, unread) else { return };

    let roots = [ROOT.to_vec()];
    let observed = case.observed();
    let args = case.call.args();
    let judge = |policy: &Policy| policy.judge(&args, &case.scene(&roots, &observed));
    let verdict = judge(&policy);
    assert_eq!(verdict, judge(&policy), "judged twice, it is not the same");
    drop(policy.wants(&args));

    let is_unread = policy.read(&args).unread.is_some();
    let met: Vec<&Rule<'_>> = all
        .iter()
        .copied()
        .filter(|rule| {
            // Of a line that is not read those weaker than `unread` are no matter.
            let alone = load(&case, &[rule], case.default, unread).expect("one rule of several");
            matches!(judge(&alone).rule, RuleId::Rule(_))
        })
        .collect();
    let strictest = met.iter().map(|rule| rule.decision).max();
    let expected = match (is_unread, strictest) {
        (false, strictest) => strictest.unwrap_or(default),
        (true, strictest) => strictest.unwrap_or(default).max(unread),
    };
    assert_eq!(verdict.meant(), expected, "{met:?}, unread: {is_unread}");
    if is_unread {
        let allows = |rule: &&&Rule<'_>| rule.decision == Decision::Allow;
        assert_eq!(met.iter().filter(allows).count(), 0, "allowed, and not even read");
    }
    told(&verdict, &met, is_unread, case.observes);

    let turned: Vec<&Rule<'_>> = all.iter().rev().copied().collect();
    let turned = load(&case, &turned, case.default, unread).expect("the same rules");
    assert_eq!(judge(&turned).meant(), verdict.meant(), "the order of rules decides");

    let nothing = Observed::default();
    let blind = policy.judge(&args, &case.scene(&roots, &nothing));
    assert!(
        blind.meant() >= verdict.meant(),
        "{} where nothing was observed, {} where it was:\n{:?}\n{:?}",
        blind.meant(),
        verdict.meant(),
        blind.facts,
        verdict.facts
    );
}

fn load(
    case: &Case<'_>,
    rules: &[&Rule<'_>],
    default: Option<Decision>,
    unread: Decision,
) -> Option<Policy> {
    let text = case.toml(rules, default, unread);
    let (tool, beside) = match case.shipped.map(small_grammar) {
        Some((tool, grammar)) => (tool.as_str(), Some(grammar.as_str())),
        None => ("git", None),
    };
    match Definition::from_toml(tool, &text, beside) {
        Ok(definition) => Some(definition.policy),
        Err(error) => {
            is_told(&error, &text);
            None
        }
    }
}

/// The verdict says which rule, and what it says to do.
fn told(verdict: &Verdict, met: &[&Rule<'_>], is_unread: bool, observes: bool) {
    match &verdict.rule {
        RuleId::Rule(id) => {
            let first = met.iter().find(|rule| rule.decision == verdict.meant());
            assert_eq!(first.map(|rule| rule.id.as_str()), Some(&**id), "among equals the first");
        }
        RuleId::Unread => assert!(is_unread),
        RuleId::Default | RuleId::Unrestricted => assert!(met.is_empty()),
        RuleId::Gate => panic!("a gate decides on no call"),
    }
    let refuses = verdict.meant() != Decision::Allow;
    assert_eq!(verdict.would, (observes && refuses).then_some(verdict.meant()));
    assert_eq!(verdict.decision == Decision::Allow, observes || !refuses);
    if refuses {
        let reason = verdict.reason.as_deref().expect("a reason");
        assert!(!reason.is_empty() && !reason.chars().any(char::is_control), "{reason:?}");
    }
}
