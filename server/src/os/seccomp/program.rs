//! Programs of seccomp's own little machine: from "this number, that answer" to
//! instructions.
//!
//! The kernel runs one at each system call that it does not know to be allowed
//! whatever its arguments are; and it compiles it, and looks for those, each time
//! that one is entered. So steps are what it costs (`tree`), then length. It is written
//! from its end, since jumps go forward only: what is there already is jumped to, and
//! what several numbers come to is written once. Must not: know what a system call
//! does.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    sock_filter,
};

use super::tree::{Tree, best};

/// What a system call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is made.
    Allow,
    /// It fails with this error.
    Refuse(i32),
    /// A supervisor answers it.
    Ask,
}

/// That (half of) an argument is this, as far as the mask goes. The kernel takes
/// most arguments as 32 bits: what is above them counts for nothing here either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Is {
    argument: u32,
    upper: bool,
    mask: u32,
    value: u32,
}

/// The lower 32 bits of an argument are that.
pub(super) const fn is(argument: u32, value: u32) -> Is {
    Is { argument, upper: false, mask: u32::MAX, value }
}

/// Of these bits of an argument exactly those are set.
pub(super) const fn bits(argument: u32, mask: u32, value: u32) -> Is {
    Is { argument, upper: false, mask, value }
}

/// The upper 32 bits of an argument are that.
pub(super) const fn upper(argument: u32, value: u32) -> Is {
    Is { argument, upper: true, mask: u32::MAX, value }
}

/// What is to be done at a system call: the first case that holds, or else this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) cases: Vec<(Vec<Is>, Answer)>,
    pub(super) or_else: Answer,
}

impl From<Answer> for Rule {
    fn from(or_else: Answer) -> Rule {
        Rule { cases: Vec::new(), or_else }
    }
}

/// The numbers from the first to the second, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) rule: Rule,
}

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The program for one architecture: `runs` are in order, and what is in none is
/// allowed. Calls of another architecture end the process.
pub(super) fn assemble(architecture: u32, runs: &[Run]) -> Vec<sock_filter> {
    let mut end = End::default();
    let search = end.search(&best(runs));
    end.follow(search);
    let right = end.push(load(NUMBER));
    let wrong = end.push(give(libc::SECCOMP_RET_KILL_PROCESS));
    end.branch(BPF_JEQ, architecture, right, wrong);
    end.push(load(ARCHITECTURE));
    end.code.reverse();
    end.code
}

/// Where an instruction is: how many come after it.
type Place = usize;

/// The end of a program, the last instruction first.
#[derive(Default)]
struct End<'a> {
    code: Vec<sock_filter>,
    answers: Vec<(Answer, Place)>,
    rules: Vec<(&'a Rule, Place)>,
}

impl<'a> End<'a> {
    fn push(&mut self, instruction: sock_filter) -> Place {
        self.code.push(instruction);
        self.code.len() - 1
    }

    /// Where that answer is given, near.
    fn answer(&mut self, answer: Answer) -> Place {
        let found = self.answers.iter().rev().find(|(given, _)| *given == answer);
        if let Some((_, place)) = found
            && self.is_near(*place)
        {
            return *place;
        }
        let place = self.push(give(match answer {
            Answer::Allow => libc::SECCOMP_RET_ALLOW,
            Answer::Refuse(errno) => libc::SECCOMP_RET_ERRNO | (errno.unsigned_abs() & 0xffff),
            Answer::Ask => libc::SECCOMP_RET_USER_NOTIF,
        }));
        self.answers.push((answer, place));
        place
    }

    /// Whether the few instructions to come can jump there.
    fn is_near(&self, place: Place) -> bool {
        self.code.len() - place < 240
    }

    /// That place, or one from which it goes on there.
    fn near(&mut self, place: Place) -> Place {
        if self.is_near(place) { place } else { self.jump(place) }
    }

    fn jump(&mut self, to: Place) -> Place {
        let over = u32::try_from(self.code.len() - to - 1).unwrap_or(u32::MAX);
        self.push(instruction(BPF_JMP | BPF_JA, over))
    }

    /// Sees to it that what is written next goes on there.
    fn follow(&mut self, place: Place) {
        if place + 1 != self.code.len() {
            self.jump(place);
        }
    }

    /// Both places are near.
    fn branch(&mut self, test: u32, value: u32, yes: Place, no: Place) -> Place {
        let here = self.code.len();
        let over = |place: Place| u8::try_from(here - place - 1).unwrap_or(u8::MAX);
        let (jt, jf) = (over(yes), over(no));
        self.push(sock_filter { jt, jf, ..instruction(BPF_JMP | test | BPF_K, value) })
    }

    /// Asks that of a number.
    fn search(&mut self, tree: &Tree<'a>) -> Place {
        let (test, number, yes, no) = match tree {
            Tree::Done(rule) => return self.rule(rule),
            Tree::From(number, yes, no) => (BPF_JGE, *number, yes, no),
            Tree::Is(number, yes, no) => (BPF_JEQ, *number, yes, no),
        };
        let (yes, no) = (self.search(yes), self.search(no));
        let (yes, no) = (self.near(yes), self.near(no));
        self.branch(test, number, yes, no)
    }

    /// Where that is done, near.
    fn rule(&mut self, rule: &'a Rule) -> Place {
        let found = self.rules.iter().rev().find(|(done, _)| *done == rule);
        if let Some((_, place)) = found
            && self.is_near(*place)
        {
            return *place;
        }
        let place = self.decide(rule);
        self.rules.push((rule, place));
        place
    }

    fn decide(&mut self, rule: &Rule) -> Place {
        let mut next = self.answer(rule.or_else);
        // Where it goes on if the next case's first argument is loaded already.
        let mut loaded: Option<(Is, Place)> = None;
        for (all, then) in rule.cases.iter().rev() {
            let (mut yes, mut first) = (self.answer(*then), None);
            for condition in all.iter().rev() {
                let no = match loaded {
                    Some((other, place)) if other.loads_as(*condition) => place,
                    _ => next,
                };
                let (near, no) = (self.near(yes), self.near(no));
                let test = self.branch(BPF_JEQ, condition.value, near, no);
                first = Some((*condition, test));
                if condition.mask != u32::MAX {
                    self.push(instruction(BPF_ALU | BPF_AND | BPF_K, condition.mask));
                }
                yes = self.push(load(condition.offset()));
            }
            (next, loaded) = (yes, first);
        }
        next
    }
}

impl Is {
    fn loads_as(self, other: Is) -> bool {
        self.offset() == other.offset() && self.mask == other.mask
    }

    fn offset(self) -> u32 {
        let half = if self.upper == cfg!(target_endian = "little") { 4 } else { 0 };
        ARGUMENTS + 8 * self.argument + half
    }
}

fn give(value: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, value)
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: 0, jf: 0, k }
}

/// What a program says to a system call, and in how many steps: the machine itself,
/// as far as needed.
#[cfg(test)]
pub(super) fn run(
    program: &[sock_filter],
    number: u32,
    arch: u32,
    arguments: [u64; 6],
) -> (u32, usize) {
    let word = |offset: u32| match offset {
        NUMBER => number,
        ARCHITECTURE => arch,
        _ => {
            let argument = arguments[((offset - ARGUMENTS) / 8) as usize];
            let half = if offset % 8 == 4 { argument >> 32 } else { argument & 0xffff_ffff };
            u32::try_from(half).unwrap_or(0)
        }
    };
    let (mut at, mut value, mut steps) = (0_usize, 0_u32, 0_usize);
    loop {
        let one = program[at];
        at += 1;
        steps += 1;
        let code = u32::from(one.code);
        let taken = |yes: bool| usize::from(if yes { one.jt } else { one.jf });
        if code == BPF_LD | BPF_W | BPF_ABS {
            value = word(one.k);
        } else if code == BPF_ALU | BPF_AND | BPF_K {
            value &= one.k;
        } else if code == BPF_JMP | BPF_JEQ | BPF_K {
            at += taken(value == one.k);
        } else if code == BPF_JMP | BPF_JGE | BPF_K {
            at += taken(value >= one.k);
        } else if code == BPF_JMP | BPF_JA {
            at += one.k as usize;
        } else {
            assert_eq!(code, BPF_RET | BPF_K);
            return (one.k, steps);
        }
    }
}
