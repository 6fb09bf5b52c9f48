//! How often the server was not stopped in order: `STATE_DIR/restarts`, one word
//! and a number, `running 3` or `stopped 3`.
//!
//! Must not: keep a server from starting or stopping.

use std::path::{Path, PathBuf};

use tracing::warn;

/// A server that runs, as the state directory has it.
#[derive(Debug)]
pub(super) struct Mark {
    file: PathBuf,
    /// Starts after a server that had not been stopped.
    pub(super) unclean: u64,
}

impl Mark {
    /// Notes that a server runs. Only one may, at a time.
    pub(super) fn set(state: &Path) -> Mark {
        let file = state.join("restarts");
        let before = std::fs::read_to_string(&file).ok();
        let unclean = before.map_or(0, |text| {
            let (word, count) = text.trim().split_once(' ').unwrap_or_default();
            // Whatever is no mark of a stop: a server that was killed as it wrote.
            count.parse::<u64>().unwrap_or_default().saturating_add(u64::from(word != "stopped"))
        });
        let mark = Mark { file, unclean };
        mark.write("running");
        mark
    }

    /// Notes that it was stopped in order.
    pub(super) fn clear(self) {
        self.write("stopped");
    }

    fn write(&self, word: &str) {
        let new = self.file.with_extension("new");
        let text = format!("{word} {}\n", self.unclean);
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.file));
        if let Err(error) = written {
            warn!(%error, file = %self.file.display(), "unclean restarts will not be counted right");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_stopped_is_counted_and_the_count_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("restarts");
        let start = || Mark::set(state.path());
        assert_eq!(start().unclean, 0);
        assert_eq!(start().unclean, 1);
        let second = start();
        assert_eq!(second.unclean, 2);
        second.clear();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "stopped 2\n");
        let third = start();
        assert_eq!(third.unclean, 2);
        third.clear();
        std::fs::write(&file, "").unwrap();
        assert_eq!(start().unclean, 1, "what cannot be read is no stop");
        std::fs::write(&file, format!("running {}", u64::MAX)).unwrap();
        assert_eq!(start().unclean, u64::MAX);
    }
}
