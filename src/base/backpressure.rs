//! Back pressure: a producer reserves bytes before it emits, and the pipe's writer releases them.
//!
//! One [`ByteBudget`] bounds the bytes in flight of all sessions together, and one [`SessionBudget`] bounds a single
//! session. So a flood in one session cannot starve another (R-WIRE-3). Knows nothing of what the bytes are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// The bytes that all sessions together may have in flight.
#[derive(Debug)]
pub struct ByteBudget {
    limit: usize,
    used: AtomicUsize,
    freed: Notify,
}

impl ByteBudget {
    /// Returns a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    /// Returns the budget of a new session, which may have up to `limit` bytes in flight.
    pub fn open_session(self: &Arc<Self>, limit: usize) -> Arc<SessionBudget> {
        Arc::new(SessionBudget {
            pool: self.clone(),
            limit,
            used: AtomicUsize::new(0),
        })
    }

    /// Returns the number of bytes in flight now.
    pub fn bytes_in_flight(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }
}

/// One session's share of a [`ByteBudget`].
#[derive(Debug)]
pub struct SessionBudget {
    pool: Arc<ByteBudget>,
    limit: usize,
    used: AtomicUsize,
}

/// A reservation of bytes in flight. Dropping it releases them.
#[derive(Debug)]
pub struct Permit {
    // Weak: a session may be gone before its last frames are written.
    account: Weak<SessionBudget>,
    pool: Arc<ByteBudget>,
    bytes: usize,
}

impl SessionBudget {
    /// Waits until the session and the shared budget are below their limits, then reserves `bytes`.
    ///
    /// The last reservation may exceed the limit by its own size: a single large item must not wait forever.
    pub async fn acquire_bytes(self: &Arc<Self>, bytes: usize) -> Permit {
        loop {
            // `notify_waiters` wakes only those that already wait. Register before the check, or a release between the
            // check and the await is lost.
            let mut freed = std::pin::pin!(self.pool.freed.notified());
            freed.as_mut().enable();
            if self.has_room() {
                return self.take(bytes);
            }
            freed.await;
        }
    }

    /// Reserves `bytes` even without room, for what must never wait (such as the end of a turn).
    pub fn take(self: &Arc<Self>, bytes: usize) -> Permit {
        self.used.fetch_add(bytes, Ordering::AcqRel);
        self.pool.used.fetch_add(bytes, Ordering::AcqRel);
        Permit {
            account: Arc::downgrade(self),
            pool: self.pool.clone(),
            bytes,
        }
    }

    fn has_room(&self) -> bool {
        self.used.load(Ordering::Acquire) < self.limit && self.pool.bytes_in_flight() < self.pool.limit
    }
}

impl Permit {
    /// Merges another permit of the same session into this one, as its delta merges. Releases any other permit.
    pub fn merge(&mut self, mut other: Permit) {
        if Weak::ptr_eq(&self.account, &other.account) {
            // Takes the bytes away from `other`, so that its drop does not release them as well.
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    /// Releases all but `bytes` of the reservation, because the rest is not written.
    pub fn reduce_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.bytes -= excess;
        // Its drop releases the bytes.
        drop(Self {
            account: self.account.clone(),
            pool: self.pool.clone(),
            bytes: excess,
        });
    }

    /// Returns the number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // Release before the wake-up; otherwise a waiter finds no room and sleeps again.
        if let Some(account) = self.account.upgrade() {
            account.used.fetch_sub(self.bytes, Ordering::AcqRel);
        }
        self.pool.used.fetch_sub(self.bytes, Ordering::AcqRel);
        // Wake all: which waiter fits depends on its own session's budget too.
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_until_bytes_are_released() {
        let pool = ByteBudget::new(100);
        let account = pool.open_session(10);
        let first = account.acquire_bytes(10).await;
        let mut second = Box::pin(account.acquire_bytes(1));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await.bytes(), 1);
    }

    #[tokio::test]
    async fn the_shared_budget_bounds_all_sessions() {
        let pool = ByteBudget::new(10);
        let (a, b) = (pool.open_session(100), pool.open_session(100));
        let first_permit = a.acquire_bytes(10).await;
        let mut waiting = Box::pin(b.acquire_bytes(5));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(first_permit);
        let permit = waiting.await;
        assert_eq!(pool.bytes_in_flight(), 5);
        drop(permit);
        assert_eq!(pool.bytes_in_flight(), 0);
    }

    #[tokio::test]
    async fn a_reduced_permit_releases_the_rest_at_once() {
        let pool = ByteBudget::new(100);
        let account = pool.open_session(10);
        let mut permit = account.acquire_bytes(12).await;
        let mut waiting = Box::pin(account.acquire_bytes(1));
        assert!(futures::poll!(&mut waiting).is_pending());
        permit.reduce_to(9);
        permit.reduce_to(20);
        drop(waiting.await);
        assert_eq!((permit.bytes(), pool.bytes_in_flight()), (9, 9));
        drop(permit);
        assert_eq!(pool.bytes_in_flight(), 0);
    }

    #[tokio::test]
    async fn merged_permits_release_their_bytes_once() {
        let pool = ByteBudget::new(10);
        let account = pool.open_session(10);
        let mut a = account.take(3);
        a.merge(account.take(4));
        assert_eq!((a.bytes(), pool.bytes_in_flight()), (7, 7));
        drop(a);
        assert_eq!(pool.bytes_in_flight(), 0);
    }
}
