//! What happens, for whoever watches: calls as they come, are decided on and end.
//!
//! Owns: who listens, in a queue of a fixed length, and a short memory of calls that are
//! over. Where nobody is to watch it costs a call one relaxed load, and no memory. Must not:
//! wait for a listener; one that does not keep up is told so, and is gone.
//!
//! - `view`  as a watcher may see it, in JSON

mod view;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::broadcast;
use tool_protocol::{Code, Reply};

use super::Peer;
use super::recent::{Refused, UnderWay};

pub(crate) use self::view::Viewer;

/// Events that a listener may be behind.
const BEHIND: usize = 512;
/// Calls that are remembered when they are over.
const OVER: usize = 60;
/// Seconds whose calls are counted.
const SECONDS: usize = 120;
/// Bounds of durations, in microseconds.
const BOUNDS: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000, 30_000_000,
];

/// Who watches, and what was seen.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    on: AtomicBool,
    opened: OnceLock<Opened>,
}

#[derive(Debug)]
struct Opened {
    tell: broadcast::Sender<Told>,
    past: Mutex<Past>,
    began: Instant,
}

/// One thing that happened, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    peer: Peer,
    what: Arc<What>,
}

#[derive(Debug)]
enum What {
    Began(u32, UnderWay),
    Changed(u32, UnderWay),
    Ended(Over),
    Refused(Refused),
}

/// A call that is over.
#[derive(Clone, Debug)]
struct Over {
    number: u32,
    call: UnderWay,
    at: SystemTime,
    took: Duration,
    exit_code: u8,
    signal: Option<String>,
    code: Option<Code>,
}

/// What was seen.
#[derive(Debug)]
struct Past {
    over: VecDeque<Over>,
    /// By second since it began, modulo their number.
    seconds: [Second; SECONDS],
    durations: [u64; BOUNDS.len() + 1],
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    which: u64,
    calls: u32,
    refused: u32,
}

impl Watch {
    /// From now on there is something to see.
    pub(crate) fn open(&self) {
        self.opened.get_or_init(|| Opened {
            tell: broadcast::Sender::new(BEHIND),
            past: Mutex::new(Past {
                over: VecDeque::with_capacity(OVER),
                seconds: [Second::default(); SECONDS],
                durations: [0; BOUNDS.len() + 1],
            }),
            began: Instant::now(),
        });
        self.on.store(true, Relaxed);
    }

    /// What happens from now on; none where there is nothing to see.
    pub(crate) fn listen(&self) -> Option<broadcast::Receiver<Told>> {
        self.opened.get().map(|opened| opened.tell.subscribe())
    }

    fn opened(&self) -> Option<&Opened> {
        if self.on.load(Relaxed) { self.opened.get() } else { None }
    }

    fn heard(&self) -> Option<&Opened> {
        self.opened().filter(|opened| opened.tell.receiver_count() > 0)
    }

    /// A call has come.
    pub(super) fn began(&self, number: u32, call: &UnderWay) {
        if let Some(opened) = self.heard() {
            opened.tell(call.peer, What::Began(number, call.clone()));
        }
    }

    /// It was decided on, or its tool runs.
    pub(super) fn changed(&self, number: u32, call: &UnderWay) {
        if let Some(opened) = self.heard() {
            opened.tell(call.peer, What::Changed(number, call.clone()));
        }
    }

    /// It is over.
    pub(super) fn ended(&self, number: u32, call: Option<&UnderWay>, reply: &Reply) {
        let (Some(opened), Some(call)) = (self.opened(), call) else { return };
        let over = Over {
            number,
            call: call.clone(),
            at: SystemTime::now(),
            took: call.since.elapsed(),
            exit_code: reply.exit_code,
            signal: reply.signal.clone(),
            code: reply.code,
        };
        if opened.tell.receiver_count() > 0 {
            opened.tell(call.peer, What::Ended(over.clone()));
        }
        // The same call comes again.
        if reply.code != Some(Code::UseStream) {
            opened.remember(over);
        }
    }

    /// It was not run.
    pub(super) fn refused(&self, refused: &Refused) {
        if let Some(opened) = self.heard() {
            opened.tell(refused.peer, What::Refused(refused.clone()));
        }
    }
}

impl Opened {
    fn tell(&self, peer: Peer, what: What) {
        // Whoever listened may just have left.
        self.tell.send(Told { peer, what: Arc::new(what) }).ok();
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, over: Over) {
        let which = self.began.elapsed().as_secs();
        let micros = u64::try_from(over.took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS.len());
        let ran = over.ran();
        let mut past = self.past();
        if ran && let Some(count) = past.durations.get_mut(bucket) {
            *count += 1;
        }
        if let Some(second) = past.seconds.get_mut(place(which)) {
            if second.which != which {
                *second = Second { which, ..Second::default() };
            }
            second.calls += 1;
            second.refused += u32::from(!ran);
        }
        if past.over.len() == OVER {
            past.over.pop_front();
        }
        past.over.push_back(over);
    }

    /// Calls and refusals of the last seconds, the oldest first; the one that is under way
    /// is not among them.
    fn seconds(&self) -> (Vec<u32>, Vec<u32>) {
        let now = self.began.elapsed().as_secs();
        let past = self.past();
        let ago = (1..SECONDS as u64).rev();
        ago.map(|ago| {
            let which = now.checked_sub(ago);
            let second = which.and_then(|which| past.seconds.get(place(which)));
            let second = second.filter(|second| Some(second.which) == which);
            second.map_or((0, 0), |second| (second.calls, second.refused))
        })
        .unzip()
    }
}

impl Over {
    fn ran(&self) -> bool {
        ran(self.code)
    }
}

/// Whether a call with such an end was run.
pub(super) fn ran(code: Option<Code>) -> bool {
    matches!(code, None | Some(Code::TimedOut | Code::OutputTooLarge | Code::Interrupted))
}

fn place(which: u64) -> usize {
    usize::try_from(which % SECONDS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Recent;
    use crate::broker::ticket::Call;
    use crate::exec::Io;
    use tool_protocol::Request;

    fn call(socket: usize) -> UnderWay {
        let recent = Recent::default();
        let peer = Peer { socket, uid: 1, gid: 2 };
        let (request, io) = (Request::default(), Io::Captured);
        let call = Call { peer, tool: "sh".into(), request, io, known: None };
        recent.came(7, &call, Instant::now(), &Watch::default());
        recent.ended(7).unwrap()
    }

    #[test]
    fn where_nobody_watches_nothing_is_kept() {
        let watch = Watch::default();
        watch.ended(7, Some(&call(0)), &Reply::default());
        assert!(watch.listen().is_none() && watch.opened.get().is_none());
    }

    #[test]
    fn a_listener_that_does_not_keep_up_is_told_so_and_nobody_waits_for_it() {
        let watch = Watch::default();
        watch.open();
        let mut slow = watch.listen().unwrap();
        for _ in 0..2 * BEHIND {
            watch.began(7, &call(0));
        }
        assert!(matches!(slow.try_recv(), Err(broadcast::error::TryRecvError::Lagged(_))));
    }

    #[test]
    fn the_past_is_short() {
        let watch = Watch::default();
        watch.open();
        for _ in 0..3 * OVER {
            watch.ended(7, Some(&call(0)), &Reply::default());
        }
        let past = watch.opened.get().unwrap().past();
        assert_eq!(past.over.len(), OVER);
        assert_eq!(past.durations.iter().sum::<u64>(), 3 * OVER as u64);
    }
}
