//! Counters and histograms (R-OBS): atomics only, so that any thread may count at any time without a lock.
//!
//! Values are independent of each other, so relaxed ordering is enough. `agent/metrics` reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows. Wraps at 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of a histogram's buckets, in microseconds. One more bucket holds everything above the last bound.
pub const BUCKETS_US: [u64; 16] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    120_000_000,
];

/// Latencies, counted in the buckets of [`BUCKETS_US`].
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The values of a histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Counts by bucket, one more than [`BUCKETS_US`] has bounds.
    pub buckets: Vec<u64>,
    /// Sum of all observations, in microseconds.
    pub sum_us: u64,
    /// Number of observations.
    pub count: u64,
}

impl Histogram {
    /// Records one latency.
    pub fn record(&self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        // Bounds are inclusive: exactly 100 µs belongs to the first bucket.
        let bucket = BUCKETS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Reads all values. An observation that is being recorded may be in the buckets, but not yet in the sum.
    pub fn take_snapshot(&self) -> HistogramSnapshot {
        let buckets: Vec<u64> = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        // The count comes from the buckets, so that both agree even while others record.
        let count = buckets.iter().sum();
        HistogramSnapshot {
            buckets,
            sum_us: self.sum_us.load(Ordering::Relaxed),
            count,
        }
    }
}

/// The totals of the whole server since it started.
#[derive(Debug, Default)]
pub struct Totals {
    pub input_tokens: Counter,
    pub output_tokens: Counter,
    /// Provider calls made, retries included.
    pub requests: Counter,
    /// Errors of any kind that reached a turn.
    pub errors: Counter,
    pub tool_calls: Counter,
    /// Provider calls made again after a failure.
    pub retries: Counter,
    pub compactions: Counter,
    pub cancels: Counter,
    /// Prompts that were queued to wait for a turn's end.
    pub queued_prompts: Counter,
    /// Times that files of turns were reverted, or that a revert was undone.
    pub reverts: Counter,
    /// Time from the call to its first content.
    pub first_token: Histogram,
    /// Duration of one step of the loop.
    pub step: Histogram,
    /// Duration of one tool call, without the wait for the user.
    pub tool: Histogram,
    /// Time from the cancel request to the turn's end.
    pub cancel: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_land_in_their_bucket() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(100));
        histogram.record(Duration::from_micros(101));
        histogram.record(Duration::from_secs(1_000));
        let read = histogram.take_snapshot();
        assert_eq!(
            (read.buckets[0], read.buckets[1], read.buckets[BUCKETS_US.len()]),
            (1, 1, 1)
        );
        assert_eq!(read.count, 3);
    }
}
