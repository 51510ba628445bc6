//! A timeout that counts only the time in which we wait for the other side (R-PROV-2).
//!
//! The timeout runs while its owner polls and gets nothing. Time between polls (back pressure, a suspended machine)
//! counts as at most one [`SLICE`]. It knows no phases and no HTTP: `call` chooses and restarts the limits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::clock::{Instant, Sleep};

use crate::base::clock;

/// The longest time between two looks at the clock, and so the most that a suspended machine can cost a call.
const SLICE: Duration = Duration::from_secs(5);

/// A limit on the time spent waiting for a peer.
#[derive(Debug)]
pub(crate) struct IdleTimeout {
    limit: Duration,
    spent: Duration,
    is_extended: bool,
    armed: Option<(Instant, Duration)>,
    sleep: Pin<Box<Sleep>>,
}

impl IdleTimeout {
    /// Creates a timeout of which nothing is spent.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            spent: Duration::ZERO,
            is_extended: false,
            armed: None,
            sleep: Box::pin(clock::sleep(SLICE)),
        }
    }

    /// Grants `more` from now on, up to `longest` since the start; never less than before. Call it while paused.
    pub(crate) fn extend(&mut self, more: Duration, longest: Duration) {
        self.limit = self.limit.max(longest.min(self.spent + more));
        self.is_extended = true;
    }

    /// Reports whether [`IdleTimeout::extend`] was called since the start.
    pub(crate) fn is_extended(&self) -> bool {
        self.is_extended
    }

    /// Returns the whole limit, not the rest of it.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Starts over with `limit`.
    pub(crate) fn restart(&mut self, limit: Duration) {
        self.limit = limit;
        self.spent = Duration::ZERO;
        self.is_extended = false;
        self.armed = None;
    }

    /// Stops the clock and adds up the wait so far. Call it when data arrives or the owner turns to other work.
    pub(crate) fn pause(&mut self) {
        if let Some((since, slice)) = self.armed.take() {
            // The owner may not have polled for hours; only the last slice counts as the peer's silence.
            self.spent += clock::now().saturating_duration_since(since).min(slice);
        }
    }

    /// Counts the wait when nothing came. Ready once the limit is reached; otherwise it wakes the task to look again.
    pub(crate) fn poll_spent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some((_, slice)) = self.armed else {
                let remaining = self.limit.saturating_sub(self.spent);
                if remaining.is_zero() {
                    return Poll::Ready(());
                }
                let (now, slice) = (clock::now(), remaining.min(SLICE));
                self.sleep.as_mut().reset(now + slice);
                self.armed = Some((now, slice));
                // The next round polls the timer, which registers the wake-up.
                continue;
            };
            std::task::ready!(self.sleep.as_mut().poll(cx));
            // Counts the slice, not the elapsed time: the clock may have jumped over a suspend.
            self.spent += slice;
            self.armed = None;
        }
    }

    /// Waits for `future`; `None` once the limit is reached.
    pub(crate) async fn wait<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let output = std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_spent(cx).map(|()| None),
        })
        .await;
        self.pause();
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};

    #[tokio::test(start_paused = true)]
    async fn wait_ends_at_the_limit() {
        let start = clock::now();
        let mut patience = IdleTimeout::new(Duration::from_secs(12));
        assert_eq!(patience.wait(pending::<()>()).await, None);
        let took = clock::now() - start;
        assert!((12_000..12_100).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_adds_up_until_restart() {
        let mut patience = IdleTimeout::new(Duration::from_secs(10));
        assert_eq!(
            patience.wait(clock::sleep(Duration::from_secs(6))).await,
            Some(())
        );
        assert_eq!(patience.wait(clock::sleep(Duration::from_secs(6))).await, None);
        patience.restart(Duration::from_secs(10));
        assert_eq!(
            patience.wait(clock::sleep(Duration::from_secs(6))).await,
            Some(())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn time_between_polls_does_not_count() {
        let mut patience = IdleTimeout::new(Duration::from_secs(10));
        // Polled once, then left alone for an hour: only one slice is spent.
        let first = poll_fn(|cx| Poll::Ready(patience.poll_spent(cx))).await;
        assert!(first.is_pending());
        tokio::time::advance(Duration::from_secs(3_600)).await;
        let start = clock::now();
        assert_eq!(patience.wait(pending::<()>()).await, None);
        let took = clock::now() - start;
        assert!((5_000..5_100).contains(&took.as_millis()), "{took:?}");
        // A paused timeout does not run at all.
        patience.restart(Duration::from_secs(10));
        patience.pause();
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!(
            poll_fn(|cx| Poll::Ready(patience.poll_spent(cx)))
                .await
                .is_pending()
        );
    }
}
