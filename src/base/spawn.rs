//! Spawning: every task has an owner. Dropping a [`AbortOnDrop`] aborts it; awaiting it tells of a panic.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

/// A running task that its owner awaits or drops; dropping aborts it.
#[derive(Debug)]
pub struct AbortOnDrop<T> {
    handle: JoinHandle<T>,
    owned: bool,
}

/// Why a task gave no value.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task panicked; the payload's text.
    #[error("task panicked: {0}")]
    Panicked(String),
    /// The task was aborted.
    #[error("task was aborted")]
    Aborted,
}

/// Starts `future` on the current runtime.
#[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
pub fn spawn<F>(future: F) -> AbortOnDrop<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[cfg(any(test, feature = "sim"))]
    let future = super::sim_schedule::Jittered::new(future);
    AbortOnDrop {
        handle: tokio::spawn(future),
        owned: true,
    }
}

/// Runs `work`, which may wait for the disk, where it holds nobody up; in the simulator at once, so that a seed replays.
///
/// # Errors
/// It panicked, or the runtime ends.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskError> {
    #[cfg(any(test, feature = "sim"))]
    if super::sim_schedule::is_active() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(to_task_error)
}

fn to_task_error(error: tokio::task::JoinError) -> TaskError {
    match error.try_into_panic() {
        Ok(payload) => TaskError::Panicked(panic_text(payload.as_ref())),
        Err(_) => TaskError::Aborted,
    }
}

impl<T> AbortOnDrop<T> {
    /// Asks the task to stop at its next await.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Lets the task end by itself: for a task that is on its last lines and gives itself up.
    pub fn detach(mut self) {
        self.owned = false;
    }

    /// Whether the task has ended, however it did.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle)
            .poll(cx)
            .map(|joined| joined.map_err(to_task_error))
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        if self.owned {
            self.handle.abort();
        }
    }
}

/// The text of a panic's payload, where it has one.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
