//! Requests to the client. Answers come back by the id of the request.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::{Id, Response};

use super::dialect::Dialect;
use super::outbox::{Outbox, Outgoing};

/// Sends requests to the client; clones share the open ones.
#[derive(Clone, Debug)]
pub struct ClientRequests {
    outbox: Outbox,
    dialect: Dialect,
    shared: Arc<OpenRequests>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    last_id: AtomicI64,
    open: Mutex<HashMap<i64, oneshot::Sender<Result<Value, String>>>>,
}

/// A request that the client has not answered. Dropping it tells the client so.
#[derive(Debug)]
pub struct PendingRequest {
    id: i64,
    requests: ClientRequests,
    answer: oneshot::Receiver<Result<Value, String>>,
}

impl ClientRequests {
    /// Creates the requests of a connection, without any.
    pub fn new(outbox: Outbox, dialect: Dialect) -> Self {
        Self {
            outbox,
            dialect,
            shared: Arc::default(),
        }
    }

    /// Sends a request. It leaves after what is in the outbox already. The parameters are displayed as JSON.
    pub fn send(&self, method: &str, params: &impl Display) -> PendingRequest {
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.lock().insert(id, sender);
        self.push(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
        PendingRequest {
            id,
            requests: self.clone(),
            answer,
        }
    }

    /// Takes an answer of the client. One that nobody waits for is ignored: its request may have been canceled. Returns
    /// whether the request was open.
    pub fn take_answer(&self, response: Response) -> bool {
        let (id, result) = response.into_parts();
        let Id::Number(id) = id else { return false };
        let Some(waiting) = self.lock().remove(&id) else {
            return false;
        };
        // The caller may have given up.
        let _ = waiting.send(result.map_err(|error| error.message.into_owned()));
        true
    }

    fn push(&self, message: String) {
        self.outbox.push(Outgoing::Notification {
            body: message.into_bytes(),
            group: None,
            permit: None,
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, oneshot::Sender<Result<Value, String>>>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRequest {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The client's refusal, as text.
    pub async fn wait(&mut self) -> Result<Value, String> {
        (&mut self.answer)
            .await
            .unwrap_or_else(|_| Err("the client is gone".to_owned()))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        // Still open: nobody waits for the answer any more.
        if self.requests.lock().remove(&self.id).is_some() {
            let (method, field) = self.requests.dialect.cancel_request();
            let cancel = json!({"jsonrpc": "2.0", "method": method, "params": {field: self.id}});
            self.requests.push(cancel.to_string());
        }
    }
}
