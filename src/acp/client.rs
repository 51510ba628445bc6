//! Requests to the client, and what it said about itself. Answers come back by the id of the request.

use std::collections::HashMap;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use futures::Sink;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::{Id, Response};

use crate::transport::outbox::{Outbox, Outgoing};

/// What the client said about itself in `initialize`.
#[derive(Debug, Default)]
pub(super) struct ClientFacts {
    pub(super) name: OnceLock<String>,
    pub(super) reads_files: AtomicBool,
    pub(super) writes_files: AtomicBool,
    pub(super) shows_notices: AtomicBool,
    pub(super) shows_forms: AtomicBool,
}

impl ClientFacts {
    /// Whether the client has said this.
    pub(super) fn has(fact: &AtomicBool) -> bool {
        fact.load(Ordering::Relaxed)
    }
}

/// Sends requests to the client; clones share the open ones.
#[derive(Clone)]
pub(super) struct ClientRequests {
    outbox: Outbox,
    shared: Arc<OpenRequests>,
}

#[derive(Default)]
struct OpenRequests {
    last_id: AtomicI64,
    open: Mutex<HashMap<i64, oneshot::Sender<Result<Value, String>>>>,
}

/// A request that the client has not answered. Dropping it tells the client so.
pub(super) struct PendingRequest {
    id: i64,
    requests: ClientRequests,
    answer: oneshot::Receiver<Result<Value, String>>,
}

impl ClientRequests {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            shared: Arc::default(),
        }
    }

    /// Sends a request. The parameters are displayed as JSON.
    pub(super) fn send(&self, method: &str, params: &impl Display) -> PendingRequest {
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
    pub(super) async fn wait(&mut self) -> Result<Value, String> {
        (&mut self.answer)
            .await
            .unwrap_or_else(|_| Err("the client is gone".to_owned()))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        // Still open: nobody waits for the answer any more.
        if self.requests.lock().remove(&self.id).is_some() {
            let cancel = json!({
                "jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": self.id},
            });
            self.requests.push(cancel.to_string());
        }
    }
}

/// Takes the client's answers from the connection.
impl Sink<Response> for ClientRequests {
    type Error = std::convert::Infallible;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, response: Response) -> Result<(), Self::Error> {
        let (id, result) = response.into_parts();
        if let Id::Number(id) = id
            && let Some(waiting) = self.lock().remove(&id)
        {
            // The caller may have given up.
            let _ = waiting.send(result.map_err(|error| error.message.into_owned()));
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }
}
