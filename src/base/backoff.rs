//! The arithmetic of retry delays (R-PROV-1): pure, no clock, no randomness of its own.

use std::time::Duration;

/// How delays grow: `min(initial × factor^(attempt−1), max)`, plus a random share of up to `jitter`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay before the second attempt.
    pub initial: Duration,
    /// The growth from one attempt to the next.
    pub factor: f64,
    /// The upper bound, applied before the jitter.
    pub max: Duration,
    /// The largest share of a delay, 0 to 1, that is added at random.
    pub jitter: f64,
}

/// The default [`Backoff::jitter`] (R-PROV-1).
pub const JITTER: f64 = 0.25;

impl Backoff {
    /// Returns the delay after failed attempt number `attempt` (from 1). `unit` in `0.0..1.0` scales the jitter.
    pub fn delay_after(&self, attempt: u32, unit: f64) -> Duration {
        // A large exponent makes `powi` infinite; the cap below turns that into `max`.
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial.as_secs_f64() * self.factor.powi(exponent);
        // `from_secs_f64` panics on a negative number.
        let capped = grown.min(self.max.as_secs_f64()).max(0.0);
        Duration::from_secs_f64(capped * (1.0 + self.jitter * unit.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERACTIVE: Backoff = Backoff {
        initial: Duration::from_secs(1),
        factor: 2.0,
        max: Duration::from_secs(30),
        jitter: JITTER,
    };

    #[test]
    fn grows_and_caps_before_jitter() {
        let delays: Vec<u64> = (1..=7)
            .map(|n| INTERACTIVE.delay_after(n, 0.0).as_secs())
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(INTERACTIVE.delay_after(7, 1.0), Duration::from_secs_f64(37.5));
    }

    #[test]
    fn the_jitter_is_a_part_of_the_delay() {
        let steady = Backoff {
            jitter: 0.0,
            ..INTERACTIVE
        };
        assert_eq!(steady.delay_after(1, 1.0), Duration::from_secs(1));
        let wide = Backoff {
            jitter: 1.0,
            ..INTERACTIVE
        };
        assert_eq!(wide.delay_after(1, 0.5), Duration::from_millis(1_500));
    }

    #[test]
    fn survives_absurd_attempts() {
        assert_eq!(INTERACTIVE.delay_after(u32::MAX, 0.0), Duration::from_secs(30));
        assert_eq!(INTERACTIVE.delay_after(0, 0.0), Duration::from_secs(1));
    }
}
