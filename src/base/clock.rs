//! The only place that reads the clock and starts timers, so that tests and the simulator can control time.
//!
//! clippy's `disallowed_methods` keeps every other module away from the system's clocks and tokio's timers. In a test
//! build (feature `sim`), `controlled` can move the time of the whole process; otherwise, the timers are tokio's.

use std::cell::Cell;
use std::future::Future;
#[cfg(feature = "sim")]
use std::pin::Pin;
#[cfg(feature = "sim")]
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;
#[cfg(not(feature = "sim"))]
pub use tokio::time::Sleep;

#[cfg(feature = "sim")]
pub mod controlled;
#[cfg(feature = "sim")]
pub use controlled::Sleep;

thread_local! {
    /// Set by the simulator: the wall time in ms, and the (paused) instant at which it was set.
    static VIRTUAL: Cell<Option<(i64, Instant)>> = const { Cell::new(None) };
}

/// The time limit of [`timeout`] was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time limit was reached")]
pub struct Elapsed;

/// Returns monotonic time; follows tokio's paused clock in tests.
pub fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    let now = Instant::now();
    #[cfg(feature = "sim")]
    let now = controlled::apply(now);
    now
}

/// Returns wall-clock time in ms since the Unix epoch. It may jump, so never measure durations with it.
pub fn wall_ms() -> i64 {
    if let Some((start_ms, start)) = VIRTUAL.get() {
        return start_ms + now().saturating_duration_since(start).as_millis() as i64;
    }
    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    let now = SystemTime::now();
    // A clock before 1970 counts as 1970.
    let ms = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
    #[cfg(feature = "sim")]
    let ms = controlled::apply_to_wall(ms);
    ms
}

/// Makes wall time on this thread follow tokio's clock from `start_ms` on (simulator and tests).
pub fn set_virtual(start_ms: i64) {
    VIRTUAL.set(Some((start_ms, now())));
}

/// Waits for `duration`. A duration beyond what an [`Instant`] can express means about 30 years.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(now().checked_add(duration).unwrap_or_else(|| now() + FAR_AWAY))
}

/// As long as tokio's own timers wait at most.
const FAR_AWAY: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Waits until `deadline`, which is an instant of [`now`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    #[cfg(feature = "sim")]
    return Sleep::new(deadline);
    #[cfg(not(feature = "sim"))]
    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    tokio::time::sleep_until(deadline)
}

/// Waits for `future`, but at most for `limit`.
///
/// # Errors
/// [`Elapsed`] if the limit was reached first. The future is dropped then.
pub fn timeout<F: Future>(limit: Duration, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    timeout_at(
        now().checked_add(limit).unwrap_or_else(|| now() + FAR_AWAY),
        future,
    )
}

/// Waits for `future`, but at most until `deadline`.
///
/// # Errors
/// [`Elapsed`] if the deadline came first. The future is dropped then.
#[cfg(not(feature = "sim"))]
#[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
pub fn timeout_at<F: Future>(
    deadline: Instant,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    futures::TryFutureExt::map_err(tokio::time::timeout_at(deadline, future), |_| Elapsed)
}

/// As in other builds.
///
/// # Errors
/// [`Elapsed`] if the deadline came first. The future is dropped then.
#[cfg(feature = "sim")]
pub fn timeout_at<F: Future>(
    deadline: Instant,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    // On the heap: an async block would contain it twice, which unoptimized stacks have no room for.
    let mut future = Box::pin(future);
    let mut limit = sleep_until(deadline);
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut limit).poll(cx).map(|()| Err(Elapsed))
    })
}
