//! The decision on a call.
//!
//! Owns: a tool's policy, and weighing its rules: the strictest that a call
//! meets wins, among equals the first. Must not: hold a call, or run one.

use std::borrow::Cow;
use std::sync::Arc;

use crate::facts::{Facts, Module, Wants};
use crate::grammar::{CommandLine, Grammar};
use crate::needs::Needs;
use crate::rule::{Call, Rule};
use crate::scene::Scene;
use crate::wire::{Asks, Way};
use crate::{Decision, Mode};

/// What a definition says of the calls of its tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) tool: Arc<str>,
    pub(crate) default: Stated,
    pub(crate) unread: Unmatched,
    /// What `default` and `unread` have to say to whoever is refused.
    pub(crate) by_default: Words,
    pub(crate) by_unread: Words,
    pub(crate) mode: Mode,
    pub(crate) module: Module,
    pub(crate) rules: Vec<Rule>,
    pub(crate) grammar: Option<Grammar>,
    pub(crate) way: Way,
}

/// The member `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) decision: Decision,
    pub(crate) line: usize,
    /// The definition has it.
    pub(crate) said: bool,
    /// When it asks.
    pub(crate) asked: Asks,
}

impl Default for Stated {
    fn default() -> Stated {
        Stated { decision: Decision::Allow, line: 1, said: false, asked: Asks::Start }
    }
}

/// The member `unread`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unmatched {
    pub(crate) decision: Decision,
    pub(crate) line: usize,
}

/// What is said with a decision that no rule made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) instead: Option<Arc<str>>,
}

/// What nobody restricts.
impl Default for Policy {
    fn default() -> Policy {
        Policy {
            tool: Arc::from(""),
            default: Stated::default(),
            unread: Unmatched { decision: Decision::Deny, line: 1 },
            by_default: Words::default(),
            by_unread: Words::default(),
            mode: Mode::default(),
            module: Module::default(),
            rules: Vec::new(),
            grammar: None,
            way: Way::default(),
        }
    }
}

/// What a decision rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleId {
    /// This rule.
    Rule(Arc<str>),
    /// No rule: the member `default`.
    Default,
    /// No rule, nor a `default`: everything is allowed.
    Unrestricted,
    /// The command line could not be read.
    Unread,
    /// No rule: the gate's own `default`.
    Gate,
}

impl RuleId {
    /// Its name for people and programs.
    pub fn as_str(&self) -> &str {
        match self {
            RuleId::Rule(id) => id,
            RuleId::Default => "default",
            RuleId::Unrestricted => "unrestricted",
            RuleId::Unread => "unread",
            RuleId::Gate => "gate",
        }
    }
}

/// A decision, and all that is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What happens.
    pub decision: Decision,
    /// What would have happened, where the policy only observes.
    pub would: Option<Decision>,
    /// Where it asks: before the start, or on the wire. Then the call starts.
    pub asked: Asks,
    /// What it rests on.
    pub rule: RuleId,
    /// Where it asks: the other rules that ask about this call.
    pub also: Vec<Arc<str>>,
    /// Where that stands in the definition.
    pub line: usize,
    /// Why; what it quotes of the arguments is escaped.
    pub reason: Option<Cow<'static, str>>,
    /// What to do instead; escaped as the reason is.
    pub instead: Option<Arc<str>>,
    /// What is known of the call.
    pub facts: Facts,
}

impl Verdict {
    /// What the rules say, whether or not it is carried out.
    pub fn meant(&self) -> Decision {
        self.would.unwrap_or(self.decision)
    }
}

impl Policy {
    /// Decides on a call.
    pub fn judge(&self, args: &[&[u8]], scene: &Scene<'_>) -> Verdict {
        let line = self.read(args);
        let mut facts = self.facts(&line, scene);
        if line.unread.is_some() && self.unread.decision == Decision::Allow {
            // It may run although nobody knows what it says.
            facts = facts.unknown();
        }
        let call = Call { line: &line, facts: &facts, scene };
        let gated = self.needs_of(&line, scene, self.way.network) != Needs::Local
            && !self.module.stays_here(&facts);
        // What cannot be known yet is plain on the wire.
        let left = |rule: &Rule| gated && rule.is_left_to_wire(&call);
        let met = |rule: &Rule| rule.on.call() && rule.is_met(&call) && !left(rule);
        let later = |rule: &Rule| gated && rule.asks_on_wire();
        let strictest = self.weigh(met, later, &call);
        let unread = line.unread.as_ref().map(|_| self.unread);
        let mut verdict = match (strictest, unread) {
            (Some(verdict), unread)
                if unread.is_none_or(|unread| verdict.decision >= unread.decision) =>
            {
                verdict
            }
            (None, unread)
                if unread.is_none_or(|unread| self.default.decision > unread.decision) =>
            {
                self.by_default(gated)
            }
            _ => self.by_unread(&line),
        };
        verdict.facts = facts;
        self.carry_out(&mut verdict);
        verdict
    }

    /// The strictest rule that is met; among equals the first, and one that asks
    /// at once before one that asks later.
    pub(crate) fn weigh(
        &self,
        is_met: impl Fn(&Rule) -> bool,
        later: impl Fn(&Rule) -> bool,
        call: &Call<'_>,
    ) -> Option<Verdict> {
        let met: Vec<&Rule> = self.rules.iter().filter(|rule| is_met(rule)).collect();
        let asks = |rule: &Rule| rule.decision == Decision::Ask;
        let before = |rule: &Rule, kept: &Rule| {
            rule.decision > kept.decision || asks(rule) && asks(kept) && later(kept) && !later(rule)
        };
        let strictest = met.iter().copied().reduce(|kept, rule| match before(rule, kept) {
            true => rule,
            false => kept,
        })?;
        let mut verdict = by_rule(strictest, call);
        if asks(strictest) {
            verdict.asked = if later(strictest) { Asks::Wire } else { Asks::Start };
            let others = met.iter().filter(|rule| asks(rule) && rule.id != strictest.id);
            verdict.also = others.map(|rule| Arc::clone(&rule.id)).collect();
        }
        Some(verdict)
    }

    /// What has to be observed before `judge` knows all that can be known.
    pub fn wants(&self, args: &[&[u8]]) -> Wants {
        // Calls of most tools are read once: to be judged.
        if !self.module.observes() || self.grammar.is_none() {
            return Wants::Nothing;
        }
        let line = self.read(args);
        match self.module.wants(&line) {
            Wants::Nothing => self.wants_of(&line),
            wants => wants,
        }
    }

    /// The arguments as the grammar reads them; without one all are operands.
    pub fn read<'a>(&'a self, args: &[&'a [u8]]) -> CommandLine<'a> {
        match &self.grammar {
            Some(grammar) => grammar.read(args),
            None => CommandLine { operands: args.to_vec(), ..CommandLine::default() },
        }
    }

    fn facts(&self, line: &CommandLine<'_>, scene: &Scene<'_>) -> Facts {
        match self.grammar.is_some() || !self.module.needs_grammar() {
            true => self.module.facts(line, scene),
            false => Facts::default(),
        }
    }

    fn by_default(&self, gated: bool) -> Verdict {
        let Stated { decision, line, said, asked } = self.default;
        let rule = if said { RuleId::Default } else { RuleId::Unrestricted };
        let rule = if self.rules.is_empty() { rule } else { RuleId::Default };
        let alone = self.rules.is_empty();
        let reason: Option<Cow<'static, str>> = match (decision, &self.by_default.reason) {
            (Decision::Allow, _) => None,
            (_, Some(said)) => Some(Cow::Owned(said.to_string())),
            (Decision::Ask, None) if alone => {
                Some("the tool's definition asks about every call".into())
            }
            (Decision::Ask, None) => {
                Some("the tool's definition asks about every call that no rule allows".into())
            }
            (Decision::Deny, None) if alone => {
                Some("the tool's definition denies every call".into())
            }
            (Decision::Deny, None) => {
                Some("the tool's definition denies every call that no rule allows".into())
            }
        };
        let mut verdict = plain(decision, rule, line, reason);
        verdict.instead = self.by_default.instead.clone().filter(|_| decision != Decision::Allow);
        if gated && decision == Decision::Ask {
            verdict.asked = asked;
        }
        verdict
    }

    fn by_unread(&self, line: &CommandLine<'_>) -> Verdict {
        let why = line.why_unread(&self.tool).unwrap_or_default();
        let lead = self.by_unread.reason.as_deref().unwrap_or("the arguments are not understood");
        let reason = Some(Cow::Owned(format!("{lead}: {why}")));
        let mut verdict = plain(self.unread.decision, RuleId::Unread, self.unread.line, reason);
        verdict.instead.clone_from(&self.by_unread.instead);
        verdict
    }

    /// The member `default`: the decision, its line, and whether the definition
    /// has it.
    pub fn unmatched(&self) -> (Decision, usize, bool) {
        (self.default.decision, self.default.line, self.default.said)
    }

    /// The rules, in the order of the definition.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Neither rules nor a default: everything is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.rules.is_empty() && !self.default.said
    }

    /// The module that knows this tool's arguments.
    pub fn module(&self) -> Module {
        self.module
    }

    /// What the definition says about how arguments are read.
    pub fn grammar(&self) -> Option<&Grammar> {
        self.grammar.as_ref()
    }

    /// Whether decisions are carried out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The same policy, whose decisions are told and not carried out.
    #[must_use]
    pub fn observing(mut self) -> Policy {
        self.mode = Mode::Observe;
        self
    }
}

fn by_rule(rule: &Rule, call: &Call<'_>) -> Verdict {
    let (reason, instead) = rule.words(call);
    let reason = Some(Cow::Owned(reason));
    let mut verdict = plain(rule.decision, RuleId::Rule(Arc::clone(&rule.id)), rule.line, reason);
    verdict.instead = instead;
    verdict
}

/// Without anything beside.
pub(crate) fn plain(
    decision: Decision,
    rule: RuleId,
    line: usize,
    reason: Option<Cow<'static, str>>,
) -> Verdict {
    let (also, facts, asked) = (Vec::new(), Facts::default(), Asks::Start);
    Verdict { decision, would: None, asked, rule, also, line, reason, instead: None, facts }
}
