//! Who hears that work has ended, where whoever asked for it has the answer already.
//!
//! To wake the runtime's thread takes as long as a short work. So the ends of several are told
//! together: by the thread that has no more work, or none behind what it begins.
//!
//! Owns: when they are told: none waits for a work that is done, but for threads on the way.
//! Must not: hold a lock while it tells.

use std::sync::Arc;

use super::{Crew, State};

/// As many do not wait for more.
const MANY: usize = 8;

/// Somebody who waits for the end of a work; told at the latest when this is dropped.
pub(super) struct Told(Option<Box<dyn FnOnce() + Send>>);

impl Told {
    /// By that.
    pub(super) fn new(tell: impl FnOnce() + Send + 'static) -> Told {
        Told(Some(Box::new(tell)))
    }

    /// Tells them.
    pub(super) fn say(self) {
        drop(self);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

impl State {
    /// Who is told before the next work is begun, which may be long: all, where nobody is on
    /// the way who would do it.
    pub(super) fn due(&mut self) -> Vec<Told> {
        if self.on_the_way && self.told.len() < MANY {
            return Vec::new();
        }
        std::mem::take(&mut self.told)
    }
}

impl Crew {
    /// Tells all of them, and wakes the runtime's thread once.
    pub(super) fn tell(self: &Arc<Crew>, told: Vec<Told>) {
        match self.later.runtime() {
            Some(runtime) if told.len() > 1 => drop(runtime.spawn(async move { drop(told) })),
            _ => drop(told),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// One that is answered where it is done is followed by one that does not end: whoever
    /// waits for the first is told of its end, however many threads there are.
    #[test]
    fn an_end_is_told_though_what_comes_next_is_long() {
        for most in 1..5 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(async {
                let crew = Crew::new(most, None, None);
                let mut short = JoinSet::new();
                let mut long = JoinSet::new();
                let mut ends = Vec::new();
                for number in 0..12 {
                    let quick = Arc::clone(&crew);
                    let whose = (number, 1, 1);
                    short.spawn(async move {
                        quick.run_and_answer(whose, move || number, |_| true).await.unwrap()
                    });
                    let (end, ends_when) = mpsc::channel::<()>();
                    ends.push(end);
                    let slow = Arc::clone(&crew);
                    long.spawn(async move {
                        slow.run(whose, move || ends_when.recv().is_err()).await.unwrap()
                    });
                    // All that there are threads for is done before the next comes.
                    if number < most {
                        let told = timeout(PATIENCE, short.join_next());
                        told.await.expect("it is told").unwrap().unwrap();
                    }
                }
                assert!(long.try_join_next().is_none());
                drop(ends);
                assert!(long.join_all().await.into_iter().all(|ended| ended));
                short.join_all().await;
            });
        }
    }

    #[test]
    fn many_are_told_each_of_its_own() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let crew = Crew::new(3, None, None);
            let mut all = JoinSet::new();
            for number in 0..500 {
                let crew = Arc::clone(&crew);
                let answered: fn(&usize) -> bool = |number| number % 3 != 0;
                all.spawn(async move {
                    let came = crew.run_and_answer((number % 5, 1, 1), move || number, answered);
                    (number, came.await.unwrap())
                });
            }
            assert!(all.join_all().await.into_iter().all(|(number, came)| number == came));
        });
    }
}
