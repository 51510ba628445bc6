//! Tokio's clock in a test with real peers: it stands still, and only the test advances it.

use std::time::Duration;

/// Stops tokio's clock: while this exists, only [`FrozenClock::advance`] moves it.
///
/// Processes are real and take real time; a stopped clock keeps a busy machine from reaching the product's limits.
pub(crate) struct FrozenClock {
    /// Its end ends the task that holds the clock.
    _release: std::sync::mpsc::Sender<()>,
}

impl FrozenClock {
    pub(crate) fn new() -> Self {
        tokio::time::pause();
        // A paused clock advances by itself whenever the runtime is idle, unless a blocking task runs.
        let (release, released) = std::sync::mpsc::channel();
        drop(tokio::task::spawn_blocking(move || released.recv()));
        Self { _release: release }
    }

    /// Moves the clock forward. Timers that are due then fire.
    pub(crate) async fn advance(&self, duration: Duration) {
        tokio::time::advance(duration).await;
    }
}

impl Drop for FrozenClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}
