//! Whether a call may run.
//!
//! Owns: the decision, and the proof of it: [`Approved`] can be made here and
//! nowhere else, and it is all that `exec` takes. What was decided on is what
//! runs, by the type. Pure: no I/O, no async, no clock.

/// Something that was decided to run, unchanged since.
#[derive(Debug)]
pub(crate) struct Approved<T>(T);

impl<T> Approved<T> {
    /// What was approved.
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

/// Decides on exactly this plan, by what its definition says of calls that no
/// rule matches; there are no rules yet. Gives the plan back as approved, or not
/// at all.
pub(crate) fn decide<T>(allowed: bool, plan: T) -> Option<Approved<T>> {
    allowed.then_some(Approved(plan))
}
