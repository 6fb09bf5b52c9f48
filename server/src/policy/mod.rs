//! Whether a call may run.
//!
//! Owns: the decision, and the proof of it: [`Approved`] can be made here and
//! nowhere else, and it is all that `exec` takes. What was decided on is what
//! runs, by the type. Pure: no I/O, no async, no clock.

/// What a definition says of a call that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It runs.
    Allow,
    /// A person must say yes. There is no way to ask yet, so it does not run.
    Ask,
    /// It does not run.
    Deny,
}

impl Decision {
    /// The word for it, as in a definition.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// Something that was decided to run, unchanged since.
#[derive(Debug)]
pub(crate) struct Approved<T>(T);

impl<T> Approved<T> {
    /// What was approved.
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

/// Decides on exactly this plan.
pub(crate) fn decide<T>(default: Decision, plan: T) -> Result<Approved<T>, Decision> {
    match default {
        Decision::Allow => Ok(Approved(plan)),
        refused @ (Decision::Ask | Decision::Deny) => Err(refused),
    }
}
