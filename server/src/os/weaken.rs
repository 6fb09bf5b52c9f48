//! Measures that a test takes away, to show that its attack works without them.
//!
//! Without the cargo feature `test-weaken`, which no release has, each question is
//! answered `false` when this is compiled. Must not: know what a measure does.

/// Whether that measure is to be left out.
#[cfg(feature = "test-weaken")]
pub(crate) fn is(name: &str) -> bool {
    std::env::var("TOOL_WEAKEN").is_ok_and(|all| all.split(',').any(|one| one == name))
}

/// Whether that measure is to be left out: never.
#[cfg(not(feature = "test-weaken"))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}

/// Whether this program can be weakened at all.
pub(crate) const POSSIBLE: bool = cfg!(feature = "test-weaken");
