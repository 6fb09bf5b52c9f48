//! Entries of a directory, as it was read.
//!
//! Owns: the order of their names. Must not: look at what they are.

use rustix::fs::FileType;

/// An entry that was read: its name is at `begin..end` of the names, a NUL behind it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) kind: FileType,
    /// The first bytes of the name by which they differ, as a number: what is ordered by.
    first: u64,
}

impl Entry {
    pub(super) fn new(begin: usize, end: usize, kind: FileType) -> Entry {
        Entry { begin, end, kind, first: 0 }
    }
}

/// Puts entries in the order of their names.
pub(super) fn order(entries: &mut [Entry], names: &[u8]) {
    let name = |entry: &Entry| names.get(entry.begin..entry.end).unwrap_or_default();
    let Some(one) = entries.first().map(name) else { return };
    // What is in one directory mostly begins alike, and that says nothing.
    let alike = entries.iter().fold(one.len(), |alike, entry| {
        let same = one.iter().zip(name(entry)).take(alike).take_while(|(a, b)| a == b);
        same.count()
    });
    for entry in &mut *entries {
        let rest = name(entry).get(alike..).unwrap_or_default();
        let mut first = [0; 8];
        first.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        entry.first = u64::from_be_bytes(first);
    }
    // No name holds a NUL: of two numbers that differ the names differ as they do.
    entries.sort_unstable_by(|a, b| a.first.cmp(&b.first).then_with(|| name(a).cmp(name(b))));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_are_in_the_order_of_their_names(
            begin in "[ab]{0,9}",
            rest in prop::collection::hash_set(prop::collection::vec(1u8..=255, 0..12), 0..40),
        ) {
            let mut all: Vec<_> =
                rest.into_iter().map(|rest| [begin.as_bytes(), &rest].concat()).collect();
            let mut names = Vec::new();
            let mut entries = Vec::new();
            for name in &all {
                let start = names.len();
                names.extend_from_slice(name);
                entries.push(Entry::new(start, names.len(), FileType::RegularFile));
                names.push(0);
            }
            order(&mut entries, &names);
            all.sort();
            let ordered: Vec<_> =
                entries.iter().map(|entry| names[entry.begin..entry.end].to_vec()).collect();
            prop_assert_eq!(ordered, all);
        }
    }
}
