//! Whether writes reach the disk, for all to see. Not a `watch` channel of tokio: that wakes its waiters in a
//! random order, and a seed of the simulator could not be replayed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::error::StoreError;

/// Whether writes reach the disk (R-ERR-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreHealth {
    /// They do.
    #[default]
    Ok,
    /// They do not, and wait in memory to be written later.
    Degraded {
        /// About how much waits.
        bytes: usize,
    },
    /// They do not, and no more are kept: running turns must end `failed`/`store`. Mends by itself when the
    /// disk does, but not when a newer agentls has migrated the store.
    Gone(Loss),
}

/// Why no more is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The disk fails and the memory for what it does not take is full.
    Full,
    /// A newer agentls has migrated the store.
    Newer {
        /// Its version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
}

impl From<Loss> for StoreError {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Full => Self::NotWritable,
            Loss::Newer { found, known } => Self::NewerSchema { found, known },
        }
    }
}

/// Where the writer says it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct HealthWatch(Arc<ToldHealth>);

#[derive(Debug, Default)]
struct ToldHealth {
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
        if before != health {
            self.0.changed.notify_waiters();
        }
    }

    /// Waits until it is as `wanted` says.
    pub(super) async fn wait_until(&self, wanted: impl Fn(StoreHealth) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if wanted(self.get()) {
                return;
            }
            changed.await;
        }
    }
}
