//! Reads from the store what a day has cost in other servers.
//!
//! It connects the turn's [`Ledger`] to the store, and must not judge limits.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::store::{Store, StoreReader};
use crate::turn::{DailySpendSource, Ledger, SpendSheet};

/// Creates the ledger of a server with this store.
pub fn build_ledger(store: &Store) -> Arc<Ledger> {
    Ledger::new(Arc::new(StoredDailySpend(store.reader.clone())))
}

/// Reads daily spending from the store.
struct StoredDailySpend(StoreReader);

impl DailySpendSource for StoredDailySpend {
    fn load_other_spend(&self, day: i64) -> BoxFuture<'static, Option<SpendSheet>> {
        let reader = self.0.clone();
        async move {
            match reader.spent_elsewhere(day).await {
                Ok(rows) => {
                    let mut sheet = SpendSheet::default();
                    for (account, spent, raised) in rows {
                        // The empty account only holds by how much the overall limit was raised.
                        if !account.is_empty() {
                            sheet.spent.insert(account.clone(), spent);
                        }
                        sheet.raised.insert(account, raised);
                    }
                    Some(sheet)
                }
                Err(error) => {
                    tracing::warn!(%error, "what the day has cost in other servers was not read");
                    // Without the store the limit still holds for this server's own spending.
                    None
                }
            }
        }
        .boxed()
    }
}
