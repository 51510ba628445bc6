//! Spawning: every task has an owner.
//!
//! Dropping an [`AbortOnDrop`] aborts its task, so no task outlives its turn by accident (I8). Awaiting it reports a
//! panic. clippy's `disallowed_methods` keeps other modules from spawning tasks directly.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

/// A running task. Its owner awaits or drops it; dropping aborts it.
#[derive(Debug)]
pub struct AbortOnDrop<T> {
    handle: JoinHandle<T>,
    owned: bool,
}

/// Why a task returned no value.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task panicked, with this message.
    #[error("task panicked: {0}")]
    Panicked(String),
    #[error("task was aborted")]
    Aborted,
}

/// Starts `future` on the current runtime, as a task that the caller owns.
#[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
pub fn spawn<F>(future: F) -> AbortOnDrop<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // Boxed, so that the program contains tokio's code once for each type of result, not for each task.
    let future: Pin<Box<dyn Future<Output = F::Output> + Send>> = Box::pin(future);
    #[cfg(feature = "sim")]
    let future = super::sim_schedule::ScheduledTask::new(future);
    AbortOnDrop {
        handle: tokio::spawn(future),
        owned: true,
    }
}

/// Runs `work`, which may wait for the disk, on a thread where it blocks no other task.
///
/// In the simulator it runs at once, on the caller's thread, so that a seed replays.
///
/// # Errors
/// Fails if `work` panics, or if the runtime shuts down.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskError> {
    #[cfg(feature = "sim")]
    if super::sim_schedule::is_active() {
        return Ok(work());
    }
    // Boxed like a task.
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    tokio::task::spawn_blocking(work).await.map_err(to_task_error)
}

fn to_task_error(error: tokio::task::JoinError) -> TaskError {
    // tokio knows no other reason than these two.
    match error.try_into_panic() {
        Ok(payload) => TaskError::Panicked(panic_text(payload.as_ref())),
        Err(_) => TaskError::Aborted,
    }
}

impl<T> AbortOnDrop<T> {
    /// Aborts the task at its next await.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Lets the task run to its own end without an owner. Only for tasks that surely end by themselves.
    pub fn detach(mut self) {
        self.owned = false;
    }

    /// Returns whether the task has ended, in whatever way.
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

/// Returns a panic's message, or "no message" if its payload is not text.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
