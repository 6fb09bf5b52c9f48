//! What a system call's number is compared with, one after another: the questions
//! that cost least.
//!
//! Entering a filter, the kernel runs it for each number that it knows, to remember
//! those that are allowed whatever their arguments; and it compiles it. So a question
//! costs as many steps as numbers pass it, and its own compilation. The kernel's own
//! search is over all numbers alike: which of them are called often is nothing to it.
//! Must not: know what a system call does, or how a question is written.

use super::program::{Answer, Rule, Run};

/// What to ask.
#[derive(Debug)]
pub(super) enum Tree<'a> {
    /// Nothing more: this is to be done.
    Done(&'a Rule),
    /// Is it this number or a higher one? If so, if not.
    From(u32, Box<Tree<'a>>, Box<Tree<'a>>),
    /// Is it this number? If so, if not.
    Is(u32, Box<Tree<'a>>, Box<Tree<'a>>),
}

/// How many numbers a kernel knows, about.
const KNOWN: u32 = 470;

/// What an instruction costs beside its steps, in steps: it was measured that the
/// kernel compiles one in the time in which it makes about thirty.
const COMPILED: u32 = 30;

/// So many spans are looked at for single numbers.
const FEW: usize = 9;

static ALLOWED: Rule = Rule { cases: Vec::new(), or_else: Answer::Allow };

/// Neighbours that come to the same.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    first: u32,
    last: u32,
    rule: &'a Rule,
}

/// How the least is paid.
#[derive(Clone, Copy, Debug)]
enum How {
    /// There is nothing to ask.
    Done,
    /// By the number that this span begins with.
    Split(usize),
    /// The odd ones, each by its number.
    Pick,
}

type Costs = Vec<Vec<(u32, How)>>;

/// The questions for `runs`, which are in order; what is in none is allowed.
pub(super) fn best(runs: &[Run]) -> Tree<'_> {
    let spans = spans(runs);
    let costs = costs(&spans);
    build(&spans, &costs, 0, spans.len())
}

fn spans(runs: &[Run]) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let mut next = Some(0);
    for Run { first, last, rule } in runs {
        if let Some(from) = next.filter(|from| from < first) {
            spans.push(Span { first: from, last: first.saturating_sub(1), rule: &ALLOWED });
        }
        spans.push(Span { first: *first, last: *last, rule });
        next = last.checked_add(1);
    }
    spans.extend(next.map(|from| Span { first: from, last: u32::MAX, rule: &ALLOWED }));
    spans
}

/// The least for the spans from one on, as many as the place in the row says.
fn costs(spans: &[Span<'_>]) -> Costs {
    let mut costs: Costs = spans.iter().map(|_| vec![(0, How::Done), (0, How::Done)]).collect();
    for count in 2..=spans.len() {
        for (from, some) in spans.windows(count).enumerate() {
            let every = some.iter().map(Span::known).sum::<u32>().saturating_add(COMPILED);
            let of = |from: usize, count: usize| {
                let row: Option<&Vec<_>> = costs.get(from);
                row.and_then(|row| row.get(count)).map_or(u32::MAX, |(cost, _)| *cost)
            };
            let split = |below: usize| {
                let both = of(from, below).saturating_add(of(from + below, count - below));
                (both.saturating_add(every), How::Split(below))
            };
            let picked = odd(some).map(|(_, odd)| {
                let odd = u32::try_from(odd.count()).unwrap_or(u32::MAX);
                (every.saturating_mul(odd), How::Pick)
            });
            let all = (1..count).map(split).chain(picked);
            let least = all.min_by_key(|(cost, _)| *cost).unwrap_or((u32::MAX, How::Done));
            costs.get_mut(from).into_iter().for_each(|row| row.push(least));
        }
    }
    costs
}

fn build<'a>(spans: &[Span<'a>], costs: &Costs, from: usize, count: usize) -> Tree<'a> {
    let some = spans.get(from..from + count).unwrap_or_default();
    let how = costs.get(from).and_then(|row| row.get(count)).map(|(_, how)| *how);
    match (how, odd(some)) {
        (Some(How::Split(below)), _) => {
            let (no, yes) = (
                build(spans, costs, from, below),
                build(spans, costs, from + below, count - below),
            );
            let first = some.get(below).map_or(0, |span| span.first);
            Tree::From(first, Box::new(yes), Box::new(no))
        }
        (Some(How::Pick), Some((most, odd))) => odd.fold(Tree::Done(most), |others, span| {
            Tree::Is(span.first, Box::new(Tree::Done(span.rule)), Box::new(others))
        }),
        _ => Tree::Done(some.first().map_or(&ALLOWED, |span| span.rule)),
    }
}

/// The rule of all of these but for some single numbers, and those.
fn odd<'s, 'a>(
    spans: &'s [Span<'a>],
) -> Option<(&'a Rule, impl Iterator<Item = &'s Span<'a>> + use<'s, 'a>)> {
    // Of more than a few it is never the least.
    let spans = Some(spans).filter(|spans| spans.len() <= FEW)?;
    let wide = spans.iter().find(|span| span.first != span.last).or(spans.last())?;
    let others = move |span: &&Span<'a>| span.rule != wide.rule;
    let is_single = spans.iter().filter(others).all(|span| span.first == span.last);
    is_single.then(|| (wide.rule, spans.iter().filter(others)))
}

impl Span<'_> {
    /// How many of its numbers a kernel knows.
    fn known(&self) -> u32 {
        KNOWN.min(self.last.saturating_add(1)).saturating_sub(self.first)
    }
}
