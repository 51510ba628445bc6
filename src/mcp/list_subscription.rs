//! Orders the announcements of a server's changed lists, which come unasked only up to revision 2025-11-25 of MCP.
//!
//! The announcements themselves are delivered by `transport_guard`, in order with the answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::service::{Peer, ServiceError, Subscription};
use tokio::sync::Mutex;

use super::connection::McpClient;
use crate::base::backoff::{Backoff, JITTER};
use crate::base::clock::{self, timeout};
use crate::base::random;

/// How long the start of a server waits until its announcements are ordered.
const ORDER: Duration = Duration::from_secs(2);
/// Waits between the end of a subscription and the next one.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    factor: 3.0,
    max: Duration::from_secs(300),
    jitter: JITTER,
};
/// A subscription that lasted this long did not fail.
const HEALTHY: Duration = Duration::from_secs(60);

/// The announcements that a server makes once they are ordered.
pub(super) struct ListSubscription {
    peer: Peer<RoleClient>,
    filter: SubscriptionFilter,
    /// The first subscription, until it is followed.
    first: Mutex<Option<Subscription>>,
    is_announced: AtomicBool,
}

impl ListSubscription {
    /// Orders the announcements before the lists are read, so that no change is missed; `None` if the server makes none, or
    /// makes them unasked.
    pub(super) async fn open(peer: &Peer<RoleClient>) -> Option<Self> {
        let info = peer.peer_info()?;
        let (tools, prompts) = (&info.capabilities.tools, &info.capabilities.prompts);
        let has_tools = tools.as_ref().and_then(|tools| tools.list_changed) == Some(true);
        let has_prompts = prompts.as_ref().and_then(|prompts| prompts.list_changed) == Some(true);
        if info.protocol_version.has_initialize() || !(has_tools || has_prompts) {
            return None;
        }
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = has_tools.then_some(true);
        filter.prompts_list_changed = has_prompts.then_some(true);
        let first = timeout(ORDER, peer.listen(filter.clone())).await;
        let first = first.ok().and_then(Result::ok);
        Some(Self {
            peer: peer.clone(),
            filter,
            is_announced: AtomicBool::new(first.is_some()),
            first: Mutex::new(first),
        })
    }

    /// Returns whether the server announces changes now.
    pub(super) fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Relaxed)
    }

    /// Orders the announcements again whenever that ends. What changed meanwhile was not announced, so the lists count as
    /// changed. Returns if the server knows no such order.
    pub(super) async fn follow(&self, client: &dyn McpClient) {
        let mut current = self.first.lock().await.take();
        let mut failures = 0;
        loop {
            let started = clock::now();
            if let Some(subscription) = &mut current {
                // `transport_guard` has taken what it announces.
                while let Ok(Some(_)) = subscription.next().await {}
                self.is_announced.store(false, Ordering::Relaxed);
            }
            failures = if started.elapsed() < HEALTHY {
                failures + 1
            } else {
                1
            };
            clock::sleep(BACKOFF.delay_after(failures, random::random_unit())).await;
            current = match self.peer.listen(self.filter.clone()).await {
                Ok(subscription) => {
                    self.is_announced.store(true, Ordering::Relaxed);
                    client.note_lists_changed();
                    Some(subscription)
                }
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return,
                Err(error) => {
                    tracing::debug!(%error, "an MCP server does not announce changes of its lists");
                    None
                }
            };
        }
    }
}
