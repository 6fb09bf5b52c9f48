//! What a rule's words quote of a call.

use tool_policy::facts::Observed;

use crate::support::{judge_words, policy};

#[test]
fn a_rules_words_quote_what_met_it() {
    let said = |rule: &str, words: &[&[u8]]| {
        let text = format!(
            "facts = \"git\"\n[grammar]\noptions = [\"-o --output=\", \"-C=\"]\n\
             [grammar.commands.config]\noptions = [\"--edit\"]\n\
             [grammar.commands.show]\n[[rule]]\nid = \"x\"\ndecision = \"deny\"\n\
             reason = \"not {{value}}\"\ninstead = \"{{other}}, {{value}} or {{value}}\"\n{rule}"
        );
        let verdict = judge_words(&policy("git", &text), words, &Observed::default());
        let instead = verdict.instead.unwrap();
        let reason = verdict.reason.unwrap().into_owned();
        let value = reason.strip_prefix("not ").unwrap();
        assert_eq!(*instead, format!("{{other}}, {value} or {value}"));
        value.to_owned()
    };
    let operand = "operands = [\"b*\", \"*\\u001b*\", \"\\u00ff*\", \"{value}*\"]";
    assert_eq!(said(operand, &[b"show", b"a", b"b1", b"b2"]), "b1");
    assert_eq!(said(operand, &[b"show", b"b\x1b[2J\n\xff'\""]), r#"b\x1b[2J\n\xff\'\""#);
    assert_eq!(said("operands = \"*\"", &[b"show", b"{value}"]), "{value}");
    let long = [
        b"b".repeat(80),
        b"b".repeat(81),
        b"b".repeat(100_000),
        [b"b", [7; 30].as_slice()].concat(),
    ];
    let bs = |count| "b".repeat(count);
    let short =
        [bs(80), bs(77) + "...", bs(77) + "...", "b".to_owned() + &r"\x07".repeat(19) + "..."];
    for (long, short) in long.iter().zip(short) {
        let value = said(operand, &[b"show", long]);
        assert_eq!(value, short);
        assert!(value.len() <= 80);
    }
    let option = "values = { \"--output\" = \"/*\" }\noperands = \"*\"";
    assert_eq!(said(option, &[b"-ox", b"-o", b"/tmp/x", b"show", b"a"]), "/tmp/x");
    assert_eq!(said("options = \"-o\"", &[b"-ox", b"show"]), "--output");
    assert_eq!(said("facts.config = \"c*\"", &[b"config", b"core.editor", b"x"]), "core.editor");
    assert_eq!(said("facts.config = \"c*\"", &[b"config", b"--edit"]), "something unknown");
    assert_eq!(said("operands = false", &[b"show"]), "something unknown");
    assert_eq!(said("operands = \"*\"", &[b"show", b""]), "''");
    assert_eq!(said("", &[b"show", b"a"]), "something unknown");
}
