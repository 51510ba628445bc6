//! Requests that only a test build answers, on both edges: a test moves the clock, or waits until the server has
//! processed what it received.

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::command::SessionCommand;
use super::manager::SessionManager;
use crate::base::clock;

impl SessionManager {
    /// Answers a request of a test; `None` if `method` is none of them.
    ///
    /// - `$/test/clock {advanceMs, freeze, thaw}` moves the process's time forward, stops it, or lets a stopped one run
    ///   again. The result says what the clock shows.
    /// - `$/test/settled` is answered when every session has performed the commands that it had received, and what
    ///   they recorded is stored and queued for the client. A turn that they started may go on.
    pub async fn answer_test_request(&self, method: &str, params: &Value) -> Option<Value> {
        match method {
            "$/test/clock" => {
                if params["freeze"] == true {
                    clock::controlled::freeze(clock::now(), clock::wall_ms());
                }
                if params["thaw"] == true {
                    clock::controlled::thaw();
                }
                let ms = params["advanceMs"].as_u64().unwrap_or_default();
                clock::controlled::advance(std::time::Duration::from_millis(ms));
                Some(json!({"nowMs": clock::wall_ms()}))
            }
            "$/test/settled" => {
                self.settle().await;
                Some(json!({}))
            }
            _ => None,
        }
    }

    async fn settle(&self) {
        let settled: Vec<_> = self
            .live_session_ids()
            .into_iter()
            .filter_map(|id| {
                let (reply, settled) = oneshot::channel();
                self.post_to_live(&id, SessionCommand::Settle { reply })?;
                Some(settled)
            })
            .collect();
        for settled in settled {
            // A session that ends has nothing left to do.
            let _ = settled.await;
        }
        // The store's end is the server's.
        let _ = self.services().store.writes.flush_writes().await;
    }
}
