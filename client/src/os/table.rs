//! Which descriptors there are, without /proc: two calls where the table has no
//! more than 256 places. It has, unless the caller had a higher number once; bash
//! keeps its script under 255.
//!
//! Must not: change a descriptor, or leave one open.

use super::io::{Poll, poll};
use super::{Errno, Fd, argument, call6, number, result, retry};
use core::mem::size_of_val;

/// The numbers that are looked for: those that a bit map of select has.
const NUMBERS: Fd = 1024;

/// The numbers of a small table, and the first one beyond.
const FIRST: Fd = 257;

/// How many are asked for at once later.
const STEP: Fd = 256;

/// Calls `found` with each open descriptor below 1024, perhaps twice. `scratch`
/// is written to; 2,064 bytes of it are enough.
pub(crate) fn open_descriptors(scratch: &mut [u8], mut found: impl FnMut(Fd)) {
    // SAFETY: a `Poll` is three integers without padding: any bytes are one, and
    // any of them are bytes.
    let (_, polls, _) = unsafe { scratch.align_to_mut::<Poll>() };
    let mut beyond = false;
    let first = look(polls, 0, FIRST, &mut |fd| {
        beyond |= fd == FIRST - 1;
        found(fd);
    });
    if first.is_err() {
        // A limit on descriptors below that number of them; those that are open
        // may still have any number.
        (0..NUMBERS).filter(|fd| is_open(*fd)).for_each(found);
    } else if beyond || table_is_larger() {
        let mut from = FIRST;
        while from < NUMBERS {
            let to = NUMBERS.min(from.wrapping_add(STEP));
            if look(polls, from, to, &mut found).is_err() {
                (from..to).filter(|fd| is_open(*fd)).for_each(&mut found);
            }
            from = to;
        }
    }
}

/// Looks at the numbers from `from` to before `to`.
fn look(polls: &mut [Poll], from: Fd, to: Fd, found: &mut dyn FnMut(Fd)) -> Result<(), Errno> {
    let mut count = 0_usize;
    for (place, fd) in polls.iter_mut().zip(from..to) {
        *place = Poll::of(fd);
        count = count.wrapping_add(1);
    }
    let polls = polls.get_mut(..count).unwrap_or_default();
    poll(polls, Some(&mut [0; 2]), None)?;
    for (poll, fd) in polls.iter().zip(from..to) {
        if !poll.is_closed() {
            found(fd);
        }
    }
    Ok(())
}

/// Whether the table of descriptors has numbers over 255. select looks at those
/// bits only that the table has, and refuses each that is not open: 0 means that
/// there are none, or that all of them are open, 256 as well.
fn table_is_larger() -> bool {
    let mut bits = [u64::MAX; 16];
    let [a, b, c, d, ..] = &mut bits;
    (*a, *b, *c, *d) = (0, 0, 0, 0);
    let mut now = [0_u64; 2];
    let set = bits.as_mut_ptr().expose_provenance();
    let now = now.as_mut_ptr().expose_provenance();
    let arguments = [size_of_val(&bits) * 8, set, 0, 0, now, 0];
    // SAFETY: the set has that many bits, the time is valid; the kernel writes
    // to both of them.
    !matches!(result(unsafe { call6(number::PSELECT6, &arguments) }), Ok(0))
}

fn is_open(fd: Fd) -> bool {
    const F_GETFD: usize = 1;
    // SAFETY: takes no memory.
    unsafe { retry(number::FCNTL, argument(fd), F_GETFD, 0, 0) }.is_ok()
}
