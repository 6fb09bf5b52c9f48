//! What the tests of the crate share: policies from text, and what is known of
//! one matcher and one word.

use tool_policy::facts::{Observed, git};
use tool_policy::{Decision, Definition, Policy, Scene, Verdict};

/// The policy of a definition that must be right.
#[track_caller]
pub(crate) fn policy(tool: &str, text: &str) -> Policy {
    match Definition::from_toml(tool, text, None) {
        Ok(definition) => definition.policy,
        Err(error) => panic!("line {}: {error}\n{text}", error.line),
    }
}

/// Judges words, as a shell would split plain ones.
pub(crate) fn judge(policy: &Policy, call: &str) -> Verdict {
    judge_in(policy, call, &Observed::default())
}

/// The same, with what was observed of a repository.
pub(crate) fn judge_in(policy: &Policy, call: &str, observed: &Observed) -> Verdict {
    let words: Vec<&[u8]> = call.split_ascii_whitespace().map(str::as_bytes).collect();
    judge_words(policy, &words, observed)
}

/// The same of any words.
pub(crate) fn judge_words(policy: &Policy, words: &[&[u8]], observed: &Observed) -> Verdict {
    let roots = [b"/base".to_vec(), b"/other".to_vec()];
    policy.judge(words, &Scene { directory: b"/base/sub", roots: &roots, observed })
}

/// A repository on that branch, with that configuration.
pub(crate) fn repository(branch: &str, config: &str) -> Observed {
    git::observe(format!("ref: refs/heads/{branch}\n").as_bytes(), config.as_bytes())
}

/// What is known of a word and a matcher: `yes`, `no` or `unknown`. A rule that
/// refuses is met by what may be, one that allows by what is for certain.
#[track_caller]
pub(crate) fn known(matcher: &str, word: &[u8]) -> &'static str {
    let rule = |decision: &str, default: &str| {
        let text = format!(
            "default = \"{default}\"\n[[rule]]\nid = \"x\"\nreason = \"x\"\n\
             decision = \"{decision}\"\noperands = {matcher}\n"
        );
        judge_words(&policy("tool", &text), &[word], &Observed::default()).decision
    };
    match (rule("deny", "allow"), rule("allow", "deny")) {
        (Decision::Deny, Decision::Allow) => "yes",
        (Decision::Deny, Decision::Deny) => "unknown",
        (Decision::Allow, Decision::Deny) => "no",
        other => panic!("{matcher} {}: {other:?}", word.escape_ascii()),
    }
}
