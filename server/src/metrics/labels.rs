//! The values that labels can have: fixed lists.
//!
//! Must not: take a label's value from a caller.

use tool_protocol::Code;

/// An enum whose values are labels, in the order of `NAMES`.
macro_rules! label {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $type { $($(#[$of])* $name,)* }

        impl $type {
            /// As they are written.
            pub(super) const NAMES: [&'static str; [$($text),*].len()] = [$($text),*];
        }
    };
}

label! {
    /// What was decided about a call.
    Decided {
        /// Nothing: it ended before.
        None = "none",
        /// It may run.
        Allow = "allow",
        /// Somebody was asked, or was to be.
        Ask = "ask",
        /// It may not.
        Deny = "deny",
    }
}

label! {
    /// Whose rate a call was beyond.
    Limit {
        /// The tool's, for each peer.
        Tool = "tool",
        /// The peer's, over all tools.
        Peer = "peer",
    }
}

label! {
    /// What a look at tools.d found.
    Reload {
        /// All is as it was.
        Unchanged = "unchanged",
        /// What changed is in force.
        Applied = "applied",
        /// Something new is wrong.
        Problem = "problem",
    }
}

label! {
    /// A step of an approval.
    Approval {
        /// A call is held.
        Asked = "asked",
        /// Somebody said yes.
        Approved = "approved",
        /// Somebody said no.
        Denied = "denied",
        /// Nobody answered.
        TimedOut = "timed_out",
        /// The caller went away first.
        Gone = "gone",
    }
}

label! {
    /// What became of a request at a gate.
    Wire {
        /// It was sent on.
        Passed = "passed",
        /// A rule, or somebody, said no.
        Refused = "refused",
        /// No gate has such a host, or nobody understood it.
        Unlisted = "unlisted",
    }
}

/// How a call ended: by itself, or by what the broker has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The tool's exit status.
    Status(u8),
    /// The tool died of a signal.
    Signal,
    /// The broker refused or ended it.
    Code(Code),
}

/// Before the codes.
const OWN: [&str; 4] = ["0", "1", "other", "signal"];

/// How many values `Exit` has as a label.
pub(super) const EXITS: usize = OWN.len() + Code::ALL.len();

/// The codes, in their order.
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    Code::ALL.iter().map(|code| code.as_str())
}

/// The place of a code among them.
pub(super) fn place(code: Code) -> usize {
    Code::ALL.iter().position(|known| *known == code).unwrap_or_default()
}

/// The values of `Exit`, in the order of `index`.
pub(super) fn exits() -> impl Iterator<Item = &'static str> {
    OWN.into_iter().chain(codes())
}

impl Exit {
    /// Its place in `exits`.
    pub(super) fn index(self) -> usize {
        match self {
            Exit::Status(0) => 0,
            Exit::Status(1) => 1,
            Exit::Status(_) => 2,
            Exit::Signal => 3,
            Exit::Code(code) => OWN.len() + place(code),
        }
    }
}
