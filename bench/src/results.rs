//! Everything that a run has found out, and how to ask for it.
//!
//! Owns: the data. `report`, `targets` and `picture` show it.

use crate::client::Client;
use crate::gated::{Row, What};
use crate::machine::Machine;
use crate::memory::Memory;
use crate::rounds::Series;
use crate::site::Work;
use crate::stats::{self, Ratio, median};
use crate::storm::Storm;
use crate::way::{BROKER, DIRECT};

/// A way that was measured.
pub struct Column {
    pub name: &'static str,
    pub how: String,
    pub exit_code: bool,
    /// What a tool finds in its environment beside PATH and HOME.
    pub more: Vec<String>,
}

/// What every way needed for one work.
pub struct Table {
    pub work: Work,
    pub series: Vec<(&'static str, Series)>,
}

/// The same with many callers.
pub struct Crowd {
    pub work: Work,
    pub callers: usize,
    pub storms: Vec<(&'static str, Storm)>,
}

pub struct Results {
    pub quick: bool,
    pub machine: Machine,
    pub columns: Vec<Column>,
    /// What could not be measured, and why.
    pub left_out: Vec<(String, String)>,
    pub singles: Vec<Table>,
    pub crowds: Vec<Crowd>,
    pub client: Client,
    pub memory: Memory,
    pub trees: Vec<Series>,
    pub gated: Vec<Row>,
}

impl Results {
    pub fn series(&self, work: Work, way: &str) -> Option<&Series> {
        let table = self.singles.iter().find(|table| table.work == work)?;
        Some(&table.series.iter().find(|(name, _)| *name == way)?.1)
    }

    /// Time by that way, of the time by the other.
    pub fn ratio(&self, work: Work, way: &str, of: &str) -> Option<Ratio> {
        Some(stats::ratio(&self.series(work, way)?.took, &self.series(work, of)?.took))
    }

    /// As above, of a call that talks to a server.
    pub fn gated(&self, what: What) -> Option<Ratio> {
        let row = self.gated.iter().find(|row| row.what == what)?;
        Some(stats::ratio(&row.broker.took, &row.direct.took))
    }

    pub fn storm(&self, work: Work, callers: usize, way: &str) -> Option<&Storm> {
        let crowd =
            self.crowds.iter().find(|crowd| crowd.work == work && crowd.callers == callers)?;
        Some(&crowd.storms.iter().find(|(name, _)| *name == way)?.1)
    }

    /// Calls a second through the broker, of those directly.
    pub fn share(&self, work: Work, callers: usize) -> Option<f64> {
        let rate = |way| Some(median(&self.storm(work, callers, way)?.rates));
        Some(rate(BROKER)? / rate(DIRECT)?)
    }

    /// Calls through the broker that failed with that many callers or fewer.
    pub fn lost(&self) -> usize {
        let broker = |crowd: &Crowd| {
            crowd
                .storms
                .iter()
                .filter(|(name, _)| *name == BROKER)
                .map(|(_, storm)| storm.failed)
                .sum::<usize>()
        };
        self.crowds.iter().map(broker).sum()
    }
}
