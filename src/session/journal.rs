//! The journal: numbers what happens, and passes it to the store in order.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use crate::base::backpressure::SessionBudget;
use crate::store::{SkippedRow, StoreWrite};

/// Events on their way to the store, and the answers that wait for them.
pub(super) struct Journal {
    /// The number of the last durable event.
    pub(super) seq: u64,
    /// Writes that wait for room in the store's queue.
    pub(super) out: VecDeque<StoreWrite>,
    /// Answers that wait until what they confirm is stored (I16).
    pub(super) answers: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Unreadable records that were not reported yet.
    pub(super) skipped: Vec<SkippedRow>,
    /// The client reads what is recorded now in the page that it is loading.
    pub(super) is_loading_page: bool,
    pub(super) byte_budget: Arc<SessionBudget>,
}

impl Journal {
    pub(super) fn new(byte_budget: Arc<SessionBudget>) -> Self {
        Self {
            seq: 0,
            out: VecDeque::new(),
            answers: FuturesUnordered::new(),
            skipped: Vec::new(),
            is_loading_page: false,
            byte_budget,
        }
    }
}
