//! What a caller may say while its call is under way.

use crate::request::Id;
use crate::terminal::Size;

macro_rules! signals {
    ($($name:ident = $text:literal, $number:literal;)*) => {
        /// A signal that a caller may send to its tool.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
        #[allow(missing_docs, reason = "the names are the kernel's")]
        pub enum Signal { $(#[serde(rename = $text)] $name,)* }

        impl Signal {
            /// The number on Linux, the same on x86-64 and aarch64.
            pub const fn number(self) -> i32 {
                match self { $(Signal::$name => $number,)* }
            }
        }
    };
}

signals! {
    Hup = "HUP", 1;
    Int = "INT", 2;
    Quit = "QUIT", 3;
    Usr1 = "USR1", 10;
    Usr2 = "USR2", 12;
    Term = "TERM", 15;
    Cont = "CONT", 18;
    Tstp = "TSTP", 20;
    Winch = "WINCH", 28;
}

/// A message that belongs to a call under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Send this signal to the tool's foreground process group.
    Signal(Signal, Option<Id>),
    /// The caller's terminal has another size.
    Resize(Size),
    /// Whether the tool's process group is its terminal's foreground group.
    Foreground(bool),
    /// Typed for a terminal that is not the tool's standard input.
    Terminal(Vec<u8>),
    /// Tell when the tool's program runs.
    QueryStarted,
}

/// The name of a signal number, without `SIG`, as the last message tells it.
pub const fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        5 => "TRAP",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        10 => "USR1",
        11 => "SEGV",
        12 => "USR2",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        16 => "STKFLT",
        18 => "CONT",
        19 => "STOP",
        20 => "TSTP",
        21 => "TTIN",
        22 => "TTOU",
        24 => "XCPU",
        25 => "XFSZ",
        26 => "VTALRM",
        27 => "PROF",
        28 => "WINCH",
        29 => "IO",
        30 => "PWR",
        31 => "SYS",
        _ => return None,
    })
}
