//! What an agent that calls tools with JSON is told: one envelope for every tool.
//!
//! Owns: the envelope `{success, tool, output, error}` and the one list of its error
//! codes, each with the HTTP status that goes with it. Must not: know a tool. What the
//! broker itself refuses keeps its name, in capital letters. docs/agent-tools.md is the
//! same in words.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Code, Refusal};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal;)*) => {
        /// Why a tool gave no output, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[$doc])* $name,)*
            /// What the broker said itself: its code, in capital letters.
            Broker(Code),
        }

        impl Fault {
            /// Every one of a tool's own, in the order of the docs.
            pub const ALL: &'static [Fault] = &[$(Fault::$name,)*];

            /// The HTTP status of an answer that has it.
            pub const fn status(self) -> u16 {
                match self { $(Fault::$name => $status,)* Fault::Broker(code) => of_broker(code) }
            }
        }

        impl std::fmt::Display for Fault {
            fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Fault::$name => to.write_str($text),)*
                    Fault::Broker(code) => to.write_str(&code.as_str().to_ascii_uppercase()),
                }
            }
        }
    };
}

faults! {
    /// A member is missing, unknown, or of the wrong kind.
    InvalidInput = "INVALID_INPUT", 400;
    /// A pattern cannot be read.
    InvalidPattern = "INVALID_PATTERN", 400;
    /// The path leads out of the workspace, whether or not anything is there.
    PathOutsideWorkspace = "PATH_OUTSIDE_WORKSPACE", 403;
    /// Nothing is there.
    FileNotFound = "FILE_NOT_FOUND", 404;
    /// A directory, a device, a socket or a pipe is there.
    NotAFile = "NOT_A_FILE", 400;
    /// Something that is no directory is there.
    NotADirectory = "NOT_A_DIRECTORY", 400;
    /// The kernel does not let the broker.
    PermissionDenied = "PERMISSION_DENIED", 403;
    /// More than this tool takes or gives at once.
    FileTooLarge = "FILE_TOO_LARGE", 413;
    /// It was to be made, and is there.
    AlreadyExists = "ALREADY_EXISTS", 409;
    /// It is not what the caller read.
    FileChanged = "FILE_CHANGED", 409;
    /// The text to replace is not there.
    TextNotFound = "TEXT_NOT_FOUND", 422;
    /// The text to replace is there more than once.
    TextNotUnique = "TEXT_NOT_UNIQUE", 422;
    /// It is no text.
    BinaryFile = "BINARY_FILE", 422;
    /// The disk, or the quota, is full.
    NoSpace = "NO_SPACE", 507;
    /// No development server of the caller's has this name.
    NoSuchServer = "NO_SUCH_SERVER", 404;
    /// It could not be read.
    ReadError = "READ_ERROR", 500;
    /// It could not be written.
    WriteError = "WRITE_ERROR", 500;
    /// The caller took it back.
    Cancelled = "CANCELLED", 499;
    /// A tool failed otherwise.
    ExecutionError = "EXECUTION_ERROR", 500;
}

const fn of_broker(code: Code) -> u16 {
    match code {
        Code::BadFrame | Code::BadJson | Code::BadRequest | Code::BadFds | Code::CwdNotFound => 400,
        Code::PeerRefused | Code::CwdOutside | Code::Denied => 403,
        Code::UnknownTool | Code::UnknownOp | Code::NotInstalled => 404,
        Code::TooSlow => 408,
        Code::FrameTooLarge | Code::RequestTooLarge => 413,
        Code::RateLimited => 429,
        Code::Busy | Code::Draining | Code::SpawnFailed | Code::AuditFailed => 503,
        Code::StateUnavailable | Code::ConfinementUnavailable => 503,
        Code::TimedOut => 504,
        _ => 500,
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// For programs.
    pub code: Fault,
    /// One line that names what is wrong and what to do.
    pub message: String,
    /// The rule that decided, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What to do instead, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    /// One line, bounded, without anything that a terminal would act on.
    pub fn new(code: Fault, message: impl AsRef<str>) -> Failure {
        Failure { code, message: crate::one_line(message.as_ref()), rule: None, hint: None }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let Refusal { code, message, rule, hint } = refusal;
        Failure { code: Fault::Broker(code), message, rule, hint }
    }
}

/// What a tool says: typed output, or why there is none.
#[derive(Clone, Debug, Serialize)]
pub struct Observation {
    /// Whether there is output and no error.
    pub success: bool,
    /// The tool's own name, also where it was called by another.
    pub tool: String,
    /// As the tool's output schema says; beside an error, what there is of it.
    pub output: Option<Box<RawValue>>,
    /// Why it did not succeed.
    pub error: Option<Failure>,
    /// From the request's arrival to this, in milliseconds.
    pub duration_ms: u64,
    /// What the server's log and audit call this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}
