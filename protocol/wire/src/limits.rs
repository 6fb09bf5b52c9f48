//! Every limit of the wire, each with its reason.

/// Bytes of a frame's length prefix (big-endian).
pub const PREFIX: usize = 4;

/// The most bytes that one frame's payload may have: the seed's 64 KiB.
pub const MAX_FRAME: usize = 65_536;

/// How deep JSON may nest. A call needs three levels; 64 leaves room and keeps
/// every parser's stack flat.
pub const MAX_DEPTH: usize = 64;

/// The most values that the input of a tool may have, the outermost and those within:
/// more than any command line has words. What a parser makes of each is tens of bytes.
pub const MAX_VALUES: usize = 262_144;

/// The most bytes of one argument or `NAME=value`, without its NUL: Linux's
/// MAX_ARG_STRLEN is 32 pages, its NUL included.
pub const MAX_STRING: usize = 131_071;

/// The most bytes of a command line and its environment together, counted as
/// the kernel counts (each string, its NUL, its pointer): a quarter of the
/// default 8 MiB stack.
pub const MAX_COMMAND: usize = 2_097_152;

/// The most bytes of a directory's name: Linux's PATH_MAX, its NUL included.
pub const MAX_CWD: usize = 4_095;

/// The most bytes of a tool's name.
pub const MAX_TOOL: usize = 64;

/// The most descriptors that one request may pass: Linux's SCM_MAX_FD.
pub const MAX_FDS: usize = 253;

/// The highest number that a passed descriptor may have: one below the usual
/// limit on open files.
pub const MAX_FD: u32 = 1_023;

/// The most different terminals of one call.
pub const MAX_TERMINALS: usize = 8;

/// The bytes of stdin that a `stream` client with `window` may have sent and the
/// tool not taken yet: what the server holds of them is no more.
pub const WINDOW: usize = 32_768;

/// The most bytes of an `id` written as a string.
pub const MAX_ID: usize = 128;
