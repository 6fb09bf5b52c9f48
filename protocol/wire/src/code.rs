//! The one list of error codes: stable names for programs, the exit status
//! that goes with each, and whether trying again can help.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $exit:literal, $retry:literal;)*) => {
        /// Why the broker itself, not the tool, ended a call. On the wire it is
        /// the member `code`, by the name that [`Code::as_str`] gives.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order of the docs.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The stable name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The exit status of a client that got this code: 124 timed out,
            /// 125 the broker failed or the request is bad, 126 refused by
            /// policy, 127 no such tool.
            pub const fn exit_status(self) -> u8 {
                match self { $(Code::$name => $exit,)* }
            }

            /// Whether the same request may succeed a little later.
            pub const fn retryable(self) -> bool {
                match self { $(Code::$name => $retry,)* }
            }
        }
    };
}

codes! {
    /// A frame without a payload, of an unknown kind, or one that is not
    /// allowed at this point. The connection is closed.
    BadFrame = "bad_frame", 125, false;
    /// A frame longer than `MAX_FRAME`. The connection is closed.
    FrameTooLarge = "frame_too_large", 125, false;
    /// A payload that is not one JSON object, is not UTF-8, repeats a member or
    /// nests deeper than `MAX_DEPTH`.
    BadJson = "bad_json", 125, false;
    /// A member that is missing, of the wrong type, or holds what it must not
    /// (a NUL, an empty name).
    BadRequest = "bad_request", 125, false;
    /// A request, argument, environment or directory beyond its limit.
    RequestTooLarge = "request_too_large", 125, false;
    /// The descriptors that came do not match the `fds` that were declared.
    BadFds = "bad_fds", 125, false;
    /// The first message, or the rest of a frame, did not come in time.
    TooSlow = "too_slow", 125, true;
    /// This peer (uid, gid) may not use this socket.
    PeerRefused = "peer_refused", 125, false;
    /// The directory is not there, cannot be entered, or is no directory.
    CwdNotFound = "cwd_not_found", 125, false;
    /// The directory is not beneath a workspace root.
    CwdOutside = "cwd_outside", 125, false;
    /// No such tool, or not on this socket.
    UnknownTool = "unknown_tool", 127, false;
    /// The tool is defined, its binary or its wrapper's interpreter is not there.
    NotInstalled = "not_installed", 127, false;
    /// The definition of this tool cannot be used; `check` says why.
    BadDefinition = "bad_definition", 125, false;
    /// Refused by the tool's rules or its `default`.
    Denied = "denied", 126, false;
    /// This tool cannot be served by passed descriptors: repeat with `stream`.
    UseStream = "use_stream", 125, false;
    /// As many calls as allowed are under way, and as many wait.
    Busy = "busy", 125, true;
    /// This peer's calls, or those of this tool, come too fast.
    RateLimited = "rate_limited", 125, true;
    /// The server is stopping.
    Draining = "draining", 125, true;
    /// The tool ran longer than its timeout.
    TimedOut = "timed_out", 124, false;
    /// The output does not fit one buffered reply.
    OutputTooLarge = "output_too_large", 125, false;
    /// The kernel gave no process, descriptor or memory.
    SpawnFailed = "spawn_failed", 125, true;
    /// The machine lacks what this tool is to be confined with.
    ConfinementUnavailable = "confinement_unavailable", 125, false;
    /// The server cannot write where it keeps a tool's HOME.
    StateUnavailable = "state_unavailable", 125, true;
    /// The call cannot be recorded, and is not run unrecorded.
    AuditFailed = "audit_failed", 125, true;
    /// The call was ended from outside the tool: the server stopped.
    Interrupted = "interrupted", 125, true;
    /// An operation that this server does not know, or not on this socket.
    UnknownOp = "unknown_op", 125, false;
    /// A fault of the broker's own.
    Internal = "internal", 125, true;
}

impl Code {
    /// The code of that name, if this version knows it.
    pub fn parse(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn names_are_stable_snake_case_unique_and_found_again() {
        for code in Code::ALL {
            let name = code.as_str();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(Code::parse(name), Some(*code));
            assert!((124..=127).contains(&code.exit_status()), "{name}");
        }
        assert_eq!(Code::parse("no_such_code"), None);
    }
}
