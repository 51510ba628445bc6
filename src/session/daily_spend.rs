//! What a day has cost in other servers, as the store has it.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::store::{Store, StoreReader};
use crate::turn::{DailySpendSource, Ledger, SpendSheet};

/// The ledger of a server with this store.
pub fn build_ledger(store: &Store) -> Arc<Ledger> {
    Ledger::new(Arc::new(StoredDailySpend(store.reader.clone())))
}

/// Reads days from the store.
struct StoredDailySpend(StoreReader);

impl DailySpendSource for StoredDailySpend {
    fn load_other_spend(&self, day: i64) -> BoxFuture<'static, Option<SpendSheet>> {
        let reader = self.0.clone();
        async move {
            match reader.spent_elsewhere(day).await {
                Ok(rows) => {
                    let mut sheet = SpendSheet::default();
                    for (account, spent, raised) in rows {
                        // Under the empty name stands only what the limit of all was raised by.
                        if !account.is_empty() {
                            sheet.spent.insert(account.clone(), spent);
                        }
                        sheet.raised.insert(account, raised);
                    }
                    Some(sheet)
                }
                Err(error) => {
                    tracing::warn!(%error, "what the day has cost in other servers was not read");
                    None
                }
            }
        }
        .boxed()
    }
}
