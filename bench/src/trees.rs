//! What it costs to know a call's processes: by a mark in two resource limits,
//! or by a subreaper of its own (a process between the server and the tool).

use std::time::Instant;

use crate::rounds::{Bound, Series, interleaved};
use crate::spawn::{Before, start, wait};

/// Plain, marked, beneath a subreaper: /bin/true, interleaved.
pub fn measure(bound: Bound) -> Vec<Series> {
    // As large as the server is: fork copies page tables.
    let ballast = std::hint::black_box(vec![1u8; 5 << 20]);
    let series = interleaved(3, bound, |at| {
        let began = Instant::now();
        let well = match at {
            0 => wait(true_with(Before::Nothing)).0,
            1 => wait(true_with(Before::Mark)).0,
            _ => beneath_subreaper(),
        };
        (began.elapsed().as_secs_f64(), well)
    });
    drop(ballast);
    series
}

fn true_with(before: Before) -> libc::pid_t {
    start("/bin/true", "true", &[], before)
}

/// /bin/true beneath a forked process that is the subreaper of what follows and
/// hands its status on.
fn beneath_subreaper() -> bool {
    // SAFETY: the bench has one thread here, so the child may do what it likes.
    let keeper = unsafe { libc::fork() };
    if keeper == 0 {
        // SAFETY: as above.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
            let well = wait(true_with(Before::Nothing)).0;
            libc::_exit(i32::from(!well));
        }
    }
    wait(keeper).0
}
