//! Time limits that count only the time in which we wait for the other side (R-PROV-2).
//!
//! The limit runs while its owner polls and gets nothing. Time between polls (back pressure, a
//! suspended machine) counts for at most one slice.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::base::clock;

/// The longest stretch between two looks at the clock.
const SLICE: Duration = Duration::from_secs(5);

/// A time limit on waiting.
#[derive(Debug)]
pub(crate) struct IdleTimeout {
    limit: Duration,
    spent: Duration,
    armed: Option<(Instant, Duration)>,
    sleep: Pin<Box<Sleep>>,
}

impl IdleTimeout {
    /// A limit of which nothing is spent.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            spent: Duration::ZERO,
            armed: None,
            sleep: Box::pin(tokio::time::sleep(SLICE)),
        }
    }

    /// The whole of the limit.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Begins anew with `limit`.
    pub(crate) fn restart(&mut self, limit: Duration) {
        self.limit = limit;
        self.spent = Duration::ZERO;
        self.armed = None;
    }

    /// Something came, or the owner goes to do something else: the waiting so far is added up.
    pub(crate) fn pause(&mut self) {
        if let Some((since, slice)) = self.armed.take() {
            self.spent += clock::now().saturating_duration_since(since).min(slice);
        }
    }

    /// Nothing came: ready when the limit is reached, else the task is woken when to look again.
    pub(crate) fn poll_spent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some((_, slice)) = self.armed else {
                let left = self.limit.saturating_sub(self.spent);
                if left.is_zero() {
                    return Poll::Ready(());
                }
                let (now, slice) = (clock::now(), left.min(SLICE));
                self.sleep.as_mut().reset(now + slice);
                self.armed = Some((now, slice));
                continue;
            };
            std::task::ready!(self.sleep.as_mut().poll(cx));
            self.spent += slice;
            self.armed = None;
        }
    }

    /// Waits for `future`, at most as long as there is patience.
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
    async fn ends_after_its_limit() {
        let start = clock::now();
        let mut patience = IdleTimeout::new(Duration::from_secs(12));
        assert_eq!(patience.wait(pending::<()>()).await, None);
        let took = clock::now() - start;
        assert!((12_000..12_100).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_adds_up_until_it_is_restarted() {
        let mut patience = IdleTimeout::new(Duration::from_secs(10));
        assert_eq!(
            patience.wait(tokio::time::sleep(Duration::from_secs(6))).await,
            Some(())
        );
        assert_eq!(
            patience.wait(tokio::time::sleep(Duration::from_secs(6))).await,
            None
        );
        patience.restart(Duration::from_secs(10));
        assert_eq!(
            patience.wait(tokio::time::sleep(Duration::from_secs(6))).await,
            Some(())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn time_between_polls_does_not_count() {
        let mut patience = IdleTimeout::new(Duration::from_secs(10));
        // Polled once, then left alone for an hour: one slice is spent, not more.
        let first = poll_fn(|cx| Poll::Ready(patience.poll_spent(cx))).await;
        assert!(first.is_pending());
        tokio::time::advance(Duration::from_secs(3_600)).await;
        let start = clock::now();
        assert_eq!(patience.wait(pending::<()>()).await, None);
        let took = clock::now() - start;
        assert!((5_000..5_100).contains(&took.as_millis()), "{took:?}");
        // Paused, it does not run at all.
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
