//! The only place that reads the clock, so that the simulator can control time.
//!
//! clippy's `disallowed_methods` keeps every other module away from the system's clocks.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

thread_local! {
    /// Set by the simulator: the wall time in ms, and the (paused) instant at which it was set.
    static VIRTUAL: Cell<Option<(i64, Instant)>> = const { Cell::new(None) };
}

/// Returns monotonic time; follows tokio's paused clock in tests.
#[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns wall-clock time in ms since the Unix epoch. It may jump, so never measure durations with it.
pub fn wall_ms() -> i64 {
    if let Some((start_ms, start)) = VIRTUAL.get() {
        return start_ms + now().saturating_duration_since(start).as_millis() as i64;
    }
    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    let now = SystemTime::now();
    // A clock before 1970 counts as 1970.
    now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// Makes wall time on this thread follow tokio's clock from `start_ms` on (simulator and tests).
pub fn set_virtual(start_ms: i64) {
    VIRTUAL.set(Some((start_ms, now())));
}
