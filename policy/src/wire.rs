//! Rules on the wire: the decision on a request in plain sight at the gate.
//!
//! Owns: which facts each adapter of the gate tells, which rules are decided by
//! them, and weighing those as `judge` weighs a call's. Must not: know how a
//! request is read.
//!
//! A rule is decided on the call, on the wire, or on both ([`On`]). On the wire
//! there are a request's subcommand (`push`, `sign`) and its facts; a rule about a
//! fact that a request does not have is not asked. What no rule is about passes
//! where it only reads; what changes something is the gate's `default`.

use std::sync::Arc;

use crate::definition::Definition;
use crate::definition::gate::{Adapter, Gate};
use crate::definition::sandbox::Network;
use crate::facts::{Fact, Facts, Kind, Observed, fact};
use crate::grammar::CommandLine;
use crate::judge::{Policy, RuleId, Verdict, plain};
use crate::rule::{Call, Rule};
use crate::scene::Scene;
use crate::{Decision, Mode};

/// Where a rule is decided on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum On {
    /// By the call's arguments, before it starts.
    #[default]
    Call,
    /// By its requests, at the gate.
    Wire,
    /// By either: what refuses a call is refused at once, what asks about it asks
    /// at the gate, where there is one to be asked at.
    Both,
}

impl On {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            On::Call => "call",
            On::Wire => "wire",
            On::Both => "both",
        }
    }

    /// The only way from text.
    pub fn parse(text: &str) -> Option<On> {
        [On::Call, On::Wire, On::Both].into_iter().find(|on| on.as_str() == text)
    }

    /// It is decided on by arguments.
    pub(crate) fn call(self) -> bool {
        self != On::Wire
    }

    /// It is decided on by requests.
    pub(crate) fn wire(self) -> bool {
        self != On::Call
    }
}

/// When somebody is asked about a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asks {
    /// Before it starts.
    #[default]
    Start,
    /// It starts, and each change that it asks the gate for is asked about.
    Wire,
}

impl Asks {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Asks::Start => "start",
            Asks::Wire => "wire",
        }
    }

    /// The only way from text.
    pub fn parse(text: &str) -> Option<Asks> {
        [Asks::Start, Asks::Wire].into_iter().find(|asks| asks.as_str() == text)
    }
}

/// A request, or a part of one, as the gate understood it.
#[derive(Debug, Clone, Copy)]
pub struct Wire<'a> {
    /// As the tool's own subcommand would be; empty where there is none.
    pub subcommand: &'a [&'a str],
    /// What is known of it.
    pub facts: &'a Facts,
    /// It changes something at the host.
    pub changes: bool,
    /// What happens to a change that no rule is about.
    pub default: Decision,
    /// Where that stands in the definition.
    pub line: usize,
}

/// What a policy knows of the way out that its definition gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) gates: Vec<Out>,
    pub(crate) network: Network,
    /// Where `[signing]` stands, and its default.
    pub(crate) signing: Option<(usize, Decision)>,
}

/// What counts of a gate here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) adapter: Adapter,
    pub(crate) default: Decision,
    pub(crate) line: usize,
}

impl Way {
    pub(crate) fn new(definition: &Definition) -> Way {
        let each =
            |gate: &Gate| Out { adapter: gate.adapter, default: gate.default, line: gate.line };
        let signing = definition.signing.as_ref();
        Way {
            gates: definition.gates.iter().map(each).collect(),
            network: definition.sandbox.network,
            signing: signing.map(|signing| (signing.line, signing.default)),
        }
    }

    /// There is none.
    pub(crate) fn is_closed(&self) -> bool {
        self.gates.is_empty()
    }

    /// No request comes.
    pub(crate) fn is_silent(&self) -> bool {
        self.gates.is_empty() && self.signing.is_none()
    }

    fn lists(&self) -> impl Iterator<Item = &'static [Fact]> {
        self.adapters().map(told_by).chain(self.signing.map(|_| SIGNING))
    }

    fn adapters(&self) -> impl Iterator<Item = Adapter> {
        self.gates.iter().map(|gate| gate.adapter)
    }

    /// The fact of that name that a request may have.
    pub(crate) fn fact(&self, name: &str) -> Option<&'static Fact> {
        self.lists().flatten().find(|fact| fact.name == name)
    }

    /// Whether there are requests that all these facts are told of.
    pub(crate) fn tells(&self, names: &[&str]) -> bool {
        let has = |list: &[Fact], name: &str| list.iter().any(|fact| fact.name == name);
        self.lists().any(|list| names.iter().all(|name| has(list, name)))
    }

    /// The names of all facts of requests.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.lists().flatten().map(|fact| fact.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The subcommands that requests have.
    pub(crate) fn subcommands(&self) -> impl Iterator<Item = &'static str> {
        let of = |adapter: Adapter| -> &[&str] {
            match adapter {
                Adapter::Git => &["push"],
                Adapter::Npm => &["publish", "unpublish", "dist-tag"],
                Adapter::Github | Adapter::Http => &[],
            }
        };
        let sign = self.signing.map(|_| "sign");
        self.adapters().flat_map(of).copied().chain(sign)
    }

    /// Whether requests of that subcommand come.
    pub(crate) fn comes(&self, path: &[String]) -> bool {
        let [word] = path else { return false };
        self.subcommands().any(|known| known == word)
    }
}

#[rustfmt::skip]
const GIT: &[Fact] = &[
    fact("url", Kind::Texts, "the repository's address, https://HOST/OWNER/NAME, and its other forms"),
    fact("repository", Kind::Texts, "the repository, OWNER/NAME"),
    fact("ref", Kind::Texts, "the ref that a push changes; a branch is meant by its short name and by refs/heads/NAME"),
    fact("force", Kind::Flag, "commits of the ref may be dropped: it is not seen that the new one has the old one behind it"),
    fact("delete", Kind::Flag, "the ref is deleted"),
    fact("tags", Kind::Texts, "the tag that changes, without refs/tags/"),
    fact("unclear", Kind::Flag, "as for a call; on the wire every ref is named"),
    fact("push_option", Kind::Texts, "the words of `push -o`: what the host is to do beside"),
];

#[rustfmt::skip]
const GITHUB: &[Fact] = &[
    fact("host", Kind::Texts, "the host as gh names it: github.com for api.github.com and uploads.github.com"),
    fact("method", Kind::Texts, "the method, in capital letters"),
    fact("endpoint", Kind::Texts, "the path without the slash at its beginning and the query; graphql for GraphQL"),
    fact("resource", Kind::Texts, "what of the repository is meant: the endpoint behind repos/OWNER/NAME/ or repositories/NUMBER/, `.` for the repository itself; else the endpoint; none of GraphQL"),
    fact("operation", Kind::Texts, "of GraphQL: query or mutation"),
    fact("field", Kind::Texts, "of GraphQL: the fields at its top by their true names, as mergePullRequest"),
    fact("event", Kind::Texts, "of GraphQL: what a review says, as APPROVE or COMMENT"),
    fact("repo", Kind::Texts, "the repository, OWNER/NAME; not known where there may be others in it, as in searches, and of mutations, which name numbers"),
];

#[rustfmt::skip]
const NPM: &[Fact] = &[
    fact("registry", Kind::Texts, "the registry, https://HOST"),
    fact("publish", Kind::Flag, "it changes something at the registry"),
    fact("package", Kind::Texts, "the package, NAME or @SCOPE/NAME; none where the request is about none"),
    fact("change", Kind::Texts, "what changes: publish, unpublish, edit, dist-tag, login, token, profile, star, access, org, team, hook, other"),
];

#[rustfmt::skip]
const HTTP: &[Fact] = &[
    fact("host", Kind::Texts, "the host that is meant, in small letters"),
    fact("method", Kind::Texts, "the method, in capital letters; CONNECT where what passes is not seen"),
    fact("path", Kind::Texts, "the path, with the slash, without the query; none of CONNECT"),
];

#[rustfmt::skip]
pub(crate) const SIGNING: &[Fact] = &[
    fact("object", Kind::Texts, "what is signed: commit or tag"),
    fact("author", Kind::Texts, "the address of a commit's author"),
    fact("committer", Kind::Texts, "the address of whoever made the commit or the tag"),
    fact("tag", Kind::Texts, "the tag's name"),
];

/// The facts that an adapter tells of a request.
pub fn told_by(adapter: Adapter) -> &'static [Fact] {
    match adapter {
        Adapter::Git => GIT,
        Adapter::Github => GITHUB,
        Adapter::Npm => NPM,
        Adapter::Http => HTTP,
    }
}

impl Policy {
    /// Decides on a request. `call` is the decision on the call that makes it:
    /// where somebody was to be asked about that on the wire, each change asks.
    pub fn judge_wire(&self, request: &Wire<'_>, call: Option<&Verdict>) -> Verdict {
        let line =
            CommandLine { subcommand: request.subcommand.to_vec(), ..CommandLine::default() };
        let observed = Observed::default();
        let scene = Scene { directory: b"", roots: &[], observed: &observed };
        let seen = Call { line: &line, facts: request.facts, scene: &scene };
        let mut verdict =
            self.weigh(|rule| rule.is_met_on_wire(&seen), |_| false, &seen).unwrap_or_else(|| {
                let left = call.filter(|call| request.changes && self.leaves_to_wire(call));
                let stated = if request.changes { request.default } else { Decision::Allow };
                match left {
                    Some(call) if stated <= Decision::Ask => Verdict {
                        decision: Decision::Ask,
                        would: None,
                        asked: Asks::Wire,
                        facts: Facts::default(),
                        ..call.clone()
                    },
                    _ => by_gate(stated, request),
                }
            });
        verdict.facts = request.facts.clone();
        self.carry_out(&mut verdict);
        verdict
    }

    /// Whether a call was asked about by a rule that does not see requests itself.
    fn leaves_to_wire(&self, call: &Verdict) -> bool {
        let own = |id: &Arc<str>| self.rules.iter().any(|rule| rule.id == *id && rule.on.wire());
        match &call.rule {
            RuleId::Rule(id) => call.asked == Asks::Wire && !own(id),
            _ => call.asked == Asks::Wire,
        }
    }
}

impl Rule {
    fn is_met_on_wire(&self, request: &Call<'_>) -> bool {
        let listed = |name: &str| request.facts.iter().any(|(known, _)| known == name);
        self.on.wire() && self.when.facts_named().all(listed) && self.is_met(request)
    }
}

fn by_gate(decision: Decision, request: &Wire<'_>) -> Verdict {
    let signs = request.subcommand == ["sign"];
    let reason = match decision {
        Decision::Allow => None,
        Decision::Ask if signs => Some("every signature that no rule allows is asked about".into()),
        Decision::Deny if signs => Some("nothing is signed that no rule allows".into()),
        Decision::Ask => Some("the gate asks about every change that no rule allows".into()),
        Decision::Deny => Some("the gate lets no change pass that no rule allows".into()),
    };
    plain(decision, RuleId::Gate, request.line, reason)
}

/// Only tells, where the policy only observes.
impl Policy {
    pub(crate) fn carry_out(&self, verdict: &mut Verdict) {
        if self.mode == Mode::Observe && verdict.decision != Decision::Allow {
            verdict.would = Some(verdict.decision);
            verdict.decision = Decision::Allow;
        }
    }
}
