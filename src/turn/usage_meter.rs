//! What a turn has used so far. Its steps and the searches of its tools share one meter.

use std::sync::{Mutex, PoisonError};

use tokio::sync::MutexGuard;

use super::attempt::CallUsage;
use crate::domain::{Cost, Usage};

/// What a turn has used so far.
#[derive(Clone, Copy, Default)]
pub(super) struct TurnUsage {
    pub(super) usage: Usage,
    /// Known as long as the cost of every call is known.
    pub(super) cost: Option<Cost>,
    /// Tokens of the window that the conversation occupies.
    pub(super) context: u64,
    pub(super) window: u64,
    calls: u32,
}

/// Adds up the usage of a turn.
#[derive(Default)]
pub(super) struct UsageMeter {
    totals: Mutex<TurnUsage>,
    reports: tokio::sync::Mutex<()>,
}

impl UsageMeter {
    pub(super) fn new(window: u64) -> Self {
        let meter = Self::default();
        meter.update(|totals| totals.window = window);
        meter
    }

    pub(super) fn totals(&self) -> TurnUsage {
        self.update(|totals| *totals)
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut TurnUsage) -> T) -> T {
        // Each change is complete in itself, so a panic elsewhere leaves valid totals.
        change(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no other call reports its usage, so that clients get the totals in ascending order.
    pub(super) async fn lock_reports(&self) -> MutexGuard<'_, ()> {
        self.reports.lock().await
    }
}

impl TurnUsage {
    /// Adds what a call has used.
    pub(super) fn add(&mut self, spent: CallUsage) {
        self.usage += spent.usage;
        self.cost = match (self.calls, self.cost, spent.cost) {
            (0, _, cost) => cost,
            (_, Some(sum), Some(cost)) => Some(sum + cost),
            _ => None,
        };
        self.calls += 1;
    }
}
