//! Whether writes reach the disk, visible to everyone.
//!
//! Not a `watch` channel of Tokio: that wakes its waiters in random order, so a seed of the simulator could not be
//! replayed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::error::StoreError;

/// Whether writes reach the disk (R-ERR-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreHealth {
    /// Writes reach the disk.
    #[default]
    Ok,
    /// Writes wait in memory, to be written later.
    Degraded {
        /// Estimated bytes that wait.
        bytes: usize,
    },
    /// Writes fail and no more are kept: running turns must end `failed`/`store`. It recovers with the disk, but not
    /// once a newer agentls has migrated the store.
    Gone(LossReason),
}

/// The reason why no more writes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The disk fails, and the memory for its writes is full.
    Full,
    /// A newer agentls has migrated the store.
    Newer {
        /// The schema version of the store.
        found: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
}

impl From<LossReason> for StoreError {
    fn from(loss: LossReason) -> Self {
        match loss {
            LossReason::Full => Self::NotWritable,
            LossReason::Newer { found, known } => Self::NewerSchema { found, known },
        }
    }
}

/// Publishes the health from the writer to all handles. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct HealthWatch(Arc<SharedHealth>);

#[derive(Debug, Default)]
struct SharedHealth {
    now: Mutex<StoreHealth>,
    changed: Notify,
}

impl HealthWatch {
    pub(super) fn get(&self) -> StoreHealth {
        *self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, health: StoreHealth) {
        let before = {
            let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *now, health)
        };
        // Notifies only on a change, and after the lock is released, because waiters read the value again.
        if before != health {
            self.0.changed.notify_waiters();
        }
    }

    /// Waits until `wanted` accepts the health.
    pub(super) async fn wait_until(&self, wanted: impl Fn(StoreHealth) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Registers before the check: a change between check and wait would be lost otherwise.
            changed.as_mut().enable();
            if wanted(self.get()) {
                return;
            }
            changed.await;
        }
    }
}
