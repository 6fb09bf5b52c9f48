//! What is known of a call beside its arguments.

use crate::facts::Observed;

/// Where a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The directory, resolved; empty where it is not known.
    pub directory: &'a [u8],
    /// The workspace roots.
    pub roots: &'a [Vec<u8>],
    /// What was read for the tool's facts module.
    pub observed: &'a Observed,
}

/// Something that is decided on, and carries all that the decision depends on.
///
/// What it answers must not change: what was asked before the decision is what
/// runs after it.
pub trait Subject {
    /// The caller's own arguments, without the tool's name.
    fn args(&self) -> Vec<&[u8]>;

    /// Where it is to happen.
    fn scene(&self) -> Scene<'_>;
}
