//! The only place that asks what time it is, so that the simulator can own time.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

thread_local! {
    /// Set by the simulator: wall time in ms at the (paused) instant it was set.
    static VIRTUAL: Cell<Option<(i64, Instant)>> = const { Cell::new(None) };
}

/// Monotonic time; follows tokio's paused clock in tests.
#[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
pub fn now() -> Instant {
    Instant::now()
}

/// Wall-clock time in milliseconds since the Unix epoch. May jump; never used to measure durations.
pub fn wall_ms() -> i64 {
    if let Some((start_ms, start)) = VIRTUAL.get() {
        return start_ms + now().saturating_duration_since(start).as_millis() as i64;
    }
    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// Makes wall time on this thread follow tokio's clock, starting at `start_ms` (simulator and tests).
pub fn set_virtual(start_ms: i64) {
    VIRTUAL.set(Some((start_ms, now())));
}
