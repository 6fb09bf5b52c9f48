//! A terminal as it travels: which descriptors it stands behind, its size, its
//! modes. No terminal itself ever does.

use serde::Deserialize;

/// Rows and columns; 0 where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Size {
    /// Lines of text.
    #[serde(default)]
    pub rows: u16,
    /// Characters of a line.
    #[serde(default)]
    pub cols: u16,
}

pub use tool_wire::limits::MAX_TERMINALS;

/// One terminal of the member `tty` of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Terminal {
    /// The caller's descriptors that are terminals.
    pub fds: Vec<u32>,
    /// Its size.
    #[serde(flatten)]
    pub size: Size,
    /// Whether it is the caller's controlling terminal.
    #[serde(default = "yes")]
    pub controlling: bool,
    /// Whether the tool begins in its foreground.
    #[serde(default = "yes")]
    pub foreground: bool,
    /// `c_iflag`, `c_oflag`, `c_cflag`, `c_lflag` of Linux's struct termios.
    pub modes: Option<[u32; 4]>,
    /// `c_cc`, from its first.
    #[serde(default)]
    pub chars: Vec<u8>,
}

const fn yes() -> bool {
    true
}

/// How many special characters a terminal has (Linux's NCCS).
pub const CHARS: usize = 19;
