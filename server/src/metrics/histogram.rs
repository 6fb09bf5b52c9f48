//! How long things took, counted in buckets without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, MetricEncoder, NoLabelSet};

/// So many bounds, and one bucket beyond the last.
#[derive(Debug)]
pub(super) struct Histogram<const BOUNDS: usize> {
    bounds: &'static [f64; BOUNDS],
    counts: [AtomicU64; BOUNDS],
    beyond: AtomicU64,
    nanoseconds: AtomicU64,
}

impl<const BOUNDS: usize> Histogram<BOUNDS> {
    /// With these bounds, in seconds, ascending.
    pub(super) fn new(bounds: &'static [f64; BOUNDS]) -> Histogram<BOUNDS> {
        Histogram {
            bounds,
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            beyond: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// One more.
    pub(super) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.iter().zip(&self.counts).find(|(bound, _)| seconds <= **bound);
        place.map_or(&self.beyond, |(_, count)| count).fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// Writes it with these labels.
    pub(super) fn encode(
        &self,
        encoder: &mut MetricEncoder<'_>,
        labels: &impl EncodeLabelSet,
    ) -> std::fmt::Result {
        let counts = self.counts.iter().chain([&self.beyond]).map(|count| count.load(Relaxed));
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // The count is of the buckets as they were read: it always fits them.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.nanoseconds.load(Relaxed)).as_secs_f64();
        let mut encoder = encoder.encode_family(labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}
