//! Bounds what a server can make the SDK do, between any transport and the SDK.
//!
//! The SDK starts a task for each message that is not an answer. Here progress and changes of lists are delivered
//! directly and in order, log messages are dropped, and requests of the server beyond a bound wait for nobody.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    GetExtensions, GetMeta, JsonRpcMessage, JsonRpcNotification, ProgressNotificationParam, ProgressToken,
    ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use super::connection::McpClient;
use super::opening::Probe;
use crate::base::CancellationToken;
use crate::base::clock::timeout_at;

/// Requests of a server that are answered at the same time. Further ones are ignored.
const MAX_REQUESTS: usize = 32;

/// Who waits for the progress of which call.
#[derive(Debug, Default)]
pub(super) struct ProgressReceivers(Mutex<HashMap<ProgressToken, ProgressReceiver>>);

/// Takes the progress of a call. It is an extension of the call's request, so that it is known before the request
/// leaves. Weak: a request that nobody waits for any more must not keep the channel open.
#[derive(Clone, Debug)]
pub(super) struct ProgressReceiver(pub(super) mpsc::WeakSender<String>);

impl ProgressReceivers {
    fn add(&self, token: ProgressToken, receiver: ProgressReceiver) {
        let mut receivers = self.lock();
        // Those of calls that were canceled before their token was known.
        receivers.retain(|_, known| known.0.strong_count() > 0);
        receivers.insert(token, receiver);
    }

    pub(super) fn remove(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    fn deliver(&self, progress: &ProgressNotificationParam) {
        let receivers = self.lock();
        let receiver = receivers.get(&progress.progress_token);
        if let Some(receiver) = receiver.and_then(|receiver| receiver.0.upgrade()) {
            // A slow client loses some of it; the result is what counts.
            let _ = receiver.try_send(format_progress(progress));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, ProgressReceiver>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn format_progress(progress: &ProgressNotificationParam) -> String {
    let number = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match progress.message.as_deref() {
        Some(message) => format!("[{number}] {message}\n"),
        None => format!("[{number}]\n"),
    }
}

/// A transport whose incoming messages are bounded.
pub(super) struct GuardedTransport<T> {
    inner: T,
    client: Arc<dyn McpClient>,
    progress: Arc<ProgressReceivers>,
    /// Canceled when nothing arrives any more.
    closed: CancellationToken,
    open_requests: Arc<AtomicUsize>,
    probe: Arc<Mutex<Probe>>,
}

impl<T> GuardedTransport<T> {
    pub(super) fn new(
        inner: T,
        client: Arc<dyn McpClient>,
        progress: Arc<ProgressReceivers>,
        closed: CancellationToken,
        probe: Arc<Mutex<Probe>>,
    ) -> Self {
        Self {
            inner,
            client,
            progress,
            closed,
            open_requests: Arc::default(),
            probe,
        }
    }

    fn probe(&self) -> MutexGuard<'_, Probe> {
        self.probe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for GuardedTransport<T> {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for GuardedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(sent) = &item
            && let Some(receiver) = sent.request.extensions().get::<ProgressReceiver>()
            && let Some(token) = sent.request.get_meta().get_progress_token()
        {
            self.progress.add(token, receiver.clone());
        }
        self.probe().begin(&item);
        let probe = self.probe.clone();
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let open = self.open_requests.clone();
        let send = self.inner.send(item);
        async move {
            let sent = send.await;
            probe.lock().unwrap_or_else(PoisonError::into_inner).note_sent();
            if is_answer {
                // An answer of the SDK to something that was not counted must not wrap around.
                let _ = open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let due = self.probe().due();
            let received = match due {
                Some(due) => match timeout_at(due, self.inner.receive()).await {
                    Ok(received) => received,
                    Err(_) => return self.probe().expire(),
                },
                None => self.inner.receive().await,
            };
            let Some(message) = received else {
                self.closed.cancel();
                return None;
            };
            let Some(message) = self.probe().mend(message) else {
                continue;
            };
            match message {
                JsonRpcMessage::Notification(JsonRpcNotification {
                    notification: ServerNotification::ProgressNotification(progress),
                    ..
                }) => self.progress.deliver(&progress.params),
                // Before the answer that follows: the next step must not use the old list.
                JsonRpcMessage::Notification(JsonRpcNotification {
                    notification:
                        ServerNotification::ToolListChangedNotification(_)
                        | ServerNotification::PromptListChangedNotification(_),
                    ..
                }) => self.client.note_lists_changed(),
                JsonRpcMessage::Notification(JsonRpcNotification {
                    notification:
                        ServerNotification::LoggingMessageNotification(_)
                        | ServerNotification::ResourceUpdatedNotification(_)
                        | ServerNotification::TaskStatusNotification(_)
                        | ServerNotification::CustomNotification(_),
                    ..
                }) => {}
                JsonRpcMessage::Request(request) => {
                    if self.open_requests.load(Ordering::Relaxed) < MAX_REQUESTS {
                        self.open_requests.fetch_add(1, Ordering::Relaxed);
                        return Some(JsonRpcMessage::Request(request));
                    }
                    tracing::debug!("an MCP server has too many open requests; ignoring one");
                }
                other => return Some(other),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
