//! Large buffers that are used again.
//!
//! Owns: those that nobody has just now, of answers that were long. Memory that is new costs
//! more than what is written into it: the kernel clears it, page by page, at the first touch.
//! Kept while calls come, within a bound; let go when none has come for a while. Must not:
//! keep a small one, or give one that holds anything.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smaller ones are no burden to the allocator.
const SMALL: usize = 32 << 10;
/// As many bytes are kept, in all.
const KEPT: usize = 4 << 20;

/// Of the process.
static SPARE: Spare = Spare(Mutex::new(None));

/// None: nothing is kept, nobody works on files.
#[derive(Debug)]
struct Spare(Mutex<Option<Vec<Vec<u8>>>>);

/// An empty buffer with that room.
pub(crate) fn take(room: usize) -> Vec<u8> {
    SPARE.take(room)
}

/// Back, whoever made it; what it holds is gone.
pub fn give(buffer: Vec<u8>) {
    SPARE.give(buffer);
}

/// Keeps nothing until the next is taken.
pub fn let_go() {
    SPARE.let_go();
}

impl Spare {
    fn take(&self, room: usize) -> Vec<u8> {
        if room <= SMALL {
            return Vec::with_capacity(room);
        }
        let mut buffer = self.lock().get_or_insert_default().pop().unwrap_or_default();
        // A large one grows where it is, or its pages move: nothing is copied.
        buffer.reserve_exact(room);
        buffer
    }

    fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut spare = self.lock();
        let Some(kept) = spare.as_mut().filter(|_| buffer.capacity() > SMALL) else { return };
        if kept.iter().map(Vec::capacity).sum::<usize>() + buffer.capacity() <= KEPT {
            kept.push(buffer);
        }
    }

    fn let_go(&self) {
        let kept = self.lock().take();
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_let_go() {
        let spare = Spare(Mutex::new(None));
        let kept = || {
            let of = |all: &Vec<Vec<u8>>| all.iter().map(Vec::capacity).sum::<usize>();
            spare.lock().as_ref().map(of)
        };
        let mut all: Vec<_> = (0..20).map(|_| spare.take(1 << 20)).collect();
        all.iter_mut().for_each(|buffer| buffer.extend_from_slice(b"secret"));
        all.into_iter().for_each(|buffer| spare.give(buffer));
        assert!(kept().is_some_and(|sum| sum > 0 && sum <= KEPT), "{:?}", kept());
        let again = spare.take(SMALL + 1);
        assert!(again.is_empty() && again.capacity() >= 1 << 20);
        spare.let_go();
        spare.give(again);
        assert_eq!(kept(), None);
    }
}
