//! The world's randomness: one seeded sequence that all its parts draw from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A seeded sequence. Tasks draw from it in the order in which they run; the seed decides that order too.
#[derive(Debug)]
pub(super) struct Rng(AtomicU64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Draws any number (splitmix64).
    pub(super) fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number in `0..end`; 0 if the range is empty.
    pub(super) fn next_below(&self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// Returns `true` in `thousandths` of 1,000 draws.
    pub(super) fn chance(&self, thousandths: u32) -> bool {
        self.next_below(1_000) < u64::from(thousandths)
    }

    /// Draws one of the items.
    ///
    /// # Panics
    /// There are no items.
    pub(super) fn pick_one<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.next_below(items.len() as u64) as usize]
    }

    /// Draws a pause of up to `ms` milliseconds: often none, mostly a short one.
    pub(super) fn draw_pause(&self, ms: u64) -> Duration {
        let most = match self.next_below(4) {
            0 => return Duration::ZERO,
            1 => ms / 50,
            2 => ms / 8,
            _ => ms,
        };
        Duration::from_millis(self.next_below(most + 1))
    }
}
