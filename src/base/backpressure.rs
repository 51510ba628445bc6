//! Back pressure: a producer asks for room before it emits, the pipe's writer gives room back.
//!
//! One [`ByteBudget`] bounds what all accounts together have in flight, one [`SessionBudget`] bounds a single
//! producer, so that a flood of one session cannot starve another (R-WIRE-3).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// What all accounts share.
#[derive(Debug)]
pub struct ByteBudget {
    limit: usize,
    used: AtomicUsize,
    freed: Notify,
}

impl ByteBudget {
    /// A pool of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    /// A new account of at most `limit` bytes in flight.
    pub fn open_session(self: &Arc<Self>, limit: usize) -> Arc<SessionBudget> {
        Arc::new(SessionBudget {
            pool: self.clone(),
            limit,
            used: AtomicUsize::new(0),
        })
    }

    /// Bytes in flight now.
    pub fn bytes_in_flight(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }
}

/// One producer's share of a [`ByteBudget`].
#[derive(Debug)]
pub struct SessionBudget {
    pool: Arc<ByteBudget>,
    limit: usize,
    used: AtomicUsize,
}

/// Bytes in flight; dropping it gives the room back.
#[derive(Debug)]
pub struct Permit {
    account: Weak<SessionBudget>,
    pool: Arc<ByteBudget>,
    bytes: usize,
}

impl SessionBudget {
    /// Waits until the account and the pool are below their limits, then takes `bytes`.
    ///
    /// The last taker may overshoot by its own size: a single large item must not wait for ever.
    pub async fn acquire_bytes(self: &Arc<Self>, bytes: usize) -> Permit {
        loop {
            let mut freed = std::pin::pin!(self.pool.freed.notified());
            freed.as_mut().enable();
            if self.has_room() {
                return self.take(bytes);
            }
            freed.await;
        }
    }

    /// Takes `bytes` whether there is room or not: for what must never wait (the end of a turn).
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
    /// Joins another permit to this one (merged deltas).
    pub fn merge(&mut self, mut other: Permit) {
        if Weak::ptr_eq(&self.account, &other.account) {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    /// How many bytes it stands for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        if let Some(account) = self.account.upgrade() {
            account.used.fetch_sub(self.bytes, Ordering::AcqRel);
        }
        self.pool.used.fetch_sub(self.bytes, Ordering::AcqRel);
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_until_room_is_given_back() {
        let pool = ByteBudget::new(100);
        let account = pool.open_session(10);
        let first = account.acquire_bytes(10).await;
        let mut second = Box::pin(account.acquire_bytes(1));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await.bytes(), 1);
    }

    #[tokio::test]
    async fn the_pool_bounds_all_accounts() {
        let pool = ByteBudget::new(10);
        let (a, b) = (pool.open_session(100), pool.open_session(100));
        let held = a.acquire_bytes(10).await;
        let mut waiting = Box::pin(b.acquire_bytes(5));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(held);
        let permit = waiting.await;
        assert_eq!(pool.bytes_in_flight(), 5);
        drop(permit);
        assert_eq!(pool.bytes_in_flight(), 0);
    }

    #[tokio::test]
    async fn merged_permits_free_once() {
        let pool = ByteBudget::new(10);
        let account = pool.open_session(10);
        let mut a = account.take(3);
        a.merge(account.take(4));
        assert_eq!((a.bytes(), pool.bytes_in_flight()), (7, 7));
        drop(a);
        assert_eq!(pool.bytes_in_flight(), 0);
    }
}
