//! From something that somebody wants to something that may run.
//!
//! Owns: the only ways to an [`Approved`]: a decision that allows, one that asks
//! and a consent, or one that asks on the wire, where nothing changes without. What was decided on moves in and is never changed or
//! replaced, so what is approved is what was judged. Must not: offer any other
//! way; `exec` takes nothing else.

use crate::Decision;
use std::time::SystemTime;

use crate::judge::{Policy, Verdict};
use crate::scene::Subject;
use crate::wire::Asks;

/// Something that may run, unchanged since it was decided on.
#[derive(Debug)]
pub struct Approved<T> {
    subject: T,
    consent: Option<Consent>,
}

impl<T> Approved<T> {
    /// What may run.
    pub fn get(&self) -> &T {
        &self.subject
    }

    /// Who agreed, where somebody was asked.
    pub fn consent(&self) -> Option<&Consent> {
        self.consent.as_ref()
    }
}

/// Something that waits for a person.
#[derive(Debug)]
pub struct Asked<T> {
    subject: T,
}

impl<T> Asked<T> {
    /// What is asked about.
    pub fn get(&self) -> &T {
        &self.subject
    }

    /// Somebody agreed.
    pub fn approve(self, consent: Consent) -> Approved<T> {
        Approved { subject: self.subject, consent: Some(consent) }
    }

    /// Nobody did.
    pub fn refuse(self) -> T {
        self.subject
    }
}

/// That somebody agreed. Whoever makes one says by it that a person did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The id of the question, or of the standing approval.
    pub id: String,
    /// The uid of whoever agreed.
    pub by: u32,
    /// When.
    pub at: SystemTime,
    /// Whether it stands for more than this call.
    pub standing: bool,
}

/// A decision on something, and the thing itself as far as it goes on.
#[derive(Debug)]
pub enum Judged<T> {
    /// It may run.
    Allowed(Approved<T>, Verdict),
    /// A person has to agree.
    Asked(Asked<T>, Verdict),
    /// It does not run.
    Denied(T, Verdict),
}

/// Decides on exactly this.
pub fn decide<T: Subject>(policy: &Policy, subject: T) -> Judged<T> {
    let verdict = policy.judge(&subject.args(), &subject.scene());
    match verdict.decision {
        Decision::Allow => Judged::Allowed(Approved { subject, consent: None }, verdict),
        // It runs: what it asks the gate for is asked about there.
        Decision::Ask if verdict.asked == Asks::Wire => {
            Judged::Allowed(Approved { subject, consent: None }, verdict)
        }
        Decision::Ask => Judged::Asked(Asked { subject }, verdict),
        Decision::Deny => Judged::Denied(subject, verdict),
    }
}
