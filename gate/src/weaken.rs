//! Measures that a test may take away, to show that the attack then works.
//!
//! Without the feature `test-weaken`, which no release has, nothing can be taken away.

/// Whether the measure of this name is taken away.
#[cfg(feature = "test-weaken")]
pub fn is(name: &str) -> bool {
    std::env::var("TOOL_WEAKEN").is_ok_and(|names| names.split(',').any(|one| one == name))
}

/// Whether the measure of this name is taken away: never.
#[cfg(not(feature = "test-weaken"))]
#[inline]
pub const fn is(_name: &str) -> bool {
    false
}
