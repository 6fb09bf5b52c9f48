//! Yes, no, and "it cannot be known".

/// What is known of a statement. The order is: what holds most, last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Truth {
    /// It does not hold.
    No,
    /// It cannot be known whether it holds.
    Unknown,
    /// It holds.
    Yes,
}

impl Truth {
    /// The opposite; what is unknown stays so.
    pub(crate) fn not(self) -> Truth {
        match self {
            Truth::No => Truth::Yes,
            Truth::Unknown => Truth::Unknown,
            Truth::Yes => Truth::No,
        }
    }

    /// Whether one of them holds; of none, none does.
    pub(crate) fn any(all: impl IntoIterator<Item = Truth>) -> Truth {
        all.into_iter().max().unwrap_or(Truth::No)
    }

    /// Whether all of them hold.
    pub(crate) fn all(all: impl IntoIterator<Item = Truth>) -> Truth {
        all.into_iter().min().unwrap_or(Truth::Yes)
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Truth {
        if holds { Truth::Yes } else { Truth::No }
    }
}
