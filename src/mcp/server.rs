//! The handle on one MCP server, as a folder uses it.
//!
//! Calls wait for a restart that is under way. Starting and watching the server is the supervisor's job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::clock::timeout;

use super::connection::{McpCall, McpCallResult, McpError};
use super::server_state::{McpHost, Phase, ReadyServer, ServerSetup, ServerShared};
use super::supervisor::supervise;
use crate::base::CancellationToken;
use crate::config::Redactor;

/// How long a call waits for the reason why its server was lost. The program may take a second, and its stop.
const LOSS: Duration = Duration::from_secs(4);
/// The last lines of standard error that a call shows whose server was lost.
const LAST_LINES: usize = 3;

/// The handle on a server. Dropping the last one stops it.
pub(super) struct McpServer {
    shared: Arc<ServerShared>,
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl McpServer {
    /// Creates a server, and its supervisor, which the caller runs. Nothing starts before [`McpServer::need`].
    pub(super) fn new(
        host: Arc<McpHost>,
        setup: ServerSetup,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(ServerShared::new(host, setup));
        let supervisor = supervise(shared.clone());
        (Arc::new(Self { shared }), supervisor)
    }

    /// Starts it if it does not run, unless it rests after failures.
    pub(super) fn need(&self) {
        self.shared.need();
    }

    /// Stops it for good.
    pub(super) fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Stops it, if it runs, and starts it again at once.
    pub(super) fn restart(&self) {
        self.shared.start_again();
    }

    pub(super) fn phase(&self) -> Phase {
        self.shared.phase.borrow().clone()
    }

    /// Returns how often it has become ready, or has read its lists again.
    pub(super) fn times_ready(&self) -> u64 {
        self.shared.times_ready.load(Ordering::Relaxed)
    }

    /// Waits until it has started or failed. One that rests is not waited for.
    pub(super) async fn wait_until_settled(&self) {
        let mut phase = self.shared.phase.subscribe();
        // An error means that the supervisor is gone, and nothing more will happen.
        let _ = phase.wait_for(Phase::is_settled).await;
    }

    /// Waits until its first list of prompts has come or is given up, or it does not run.
    pub(super) async fn wait_until_prompts_listed(&self) {
        let mut phase = self.shared.phase.subscribe();
        let is_listed = |phase: &Phase| !matches!(phase, Phase::Ready(ready) if ready.awaits_prompts);
        let _ = phase.wait_for(is_listed).await;
    }

    /// Waits until all changes of its lists that it has announced up to now were read, or it does not run.
    pub(super) async fn wait_until_lists_current(&self) {
        self.shared.wait_until_lists_current().await;
    }

    /// Returns what it offers, also while it starts again after a crash: calls wait for that.
    pub(super) fn find_offer(&self) -> Option<Arc<ReadyServer>> {
        match self.phase() {
            Phase::Ready(ready) => Some(ready),
            _ => self.shared.last_ready(),
        }
    }

    /// Calls a tool, after a restart that is under way.
    ///
    /// # Errors
    /// The call failed; see [`McpError`]. That of a server that ends meanwhile says how it ended.
    pub(super) async fn call_tool(&self, call: McpCall) -> Result<McpCallResult, McpError> {
        let ready = self.wait_until_ready(&call).await?;
        let cancel = call.cancel.clone();
        let result = ready.connection.call_tool(call).await;
        match &result {
            Ok(_) | Err(McpError::Refused(_) | McpError::WrongInput(_) | McpError::VisitFirst(..)) => {
                self.shared.has_answered.store(true, Ordering::Relaxed)
            }
            Err(McpError::Closed) => return Err(self.explain_loss(&ready, &cancel).await),
            Err(_) => {}
        }
        result
    }

    async fn wait_until_ready(&self, call: &McpCall) -> Result<Arc<ReadyServer>, McpError> {
        let mut phase = self.shared.phase.subscribe();
        if !matches!(*phase.borrow(), Phase::Ready(_)) {
            // A full channel means that there is enough to read.
            let _ = call.progress.try_send("the server starts again\n".to_owned());
        }
        let is_settled = |phase: &Phase| match phase {
            Phase::Ready(_) | Phase::Idle => true,
            Phase::Starting => false,
            Phase::Failed(..) => self.shared.last_ready().is_none(),
        };
        let settled = tokio::select! { biased;
            () = call.cancel.cancelled() => return Err(McpError::Cancelled),
            settled = timeout(call.limit, phase.wait_for(is_settled)) => settled,
        };
        match settled.map(|settled| settled.map(|phase| phase.clone())) {
            Ok(Ok(Phase::Ready(ready))) => Ok(ready),
            Ok(Ok(Phase::Failed(error, next))) => Err(McpError::Failed(format!(
                "the server does not run: {error}{}",
                next.describe_rest()
            ))),
            Ok(_) => Err(McpError::Closed),
            Err(_) => Err(McpError::Failed(format!(
                "the server did not start again within {} s",
                call.limit.as_secs_f64()
            ))),
        }
    }

    /// Returns why the server was lost, once the supervisor knows.
    async fn explain_loss(&self, lost: &ReadyServer, cancel: &CancellationToken) -> McpError {
        let mut phase = self.shared.phase.subscribe();
        let is_known = |phase: &Phase| match phase {
            Phase::Ready(ready) => !Arc::ptr_eq(&ready.connection, &lost.connection),
            _ => true,
        };
        let known = tokio::select! { biased;
            () = cancel.cancelled() => return McpError::Cancelled,
            known = timeout(LOSS, phase.wait_for(is_known)) => known,
        };
        let Ok(Ok(known)) = known else {
            return McpError::Failed("its answer broke off".to_owned());
        };
        let Phase::Failed(error, _) = &*known else {
            return McpError::Closed;
        };
        let lines = self.stderr_lines();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        McpError::Failed(match last.as_str() {
            "" => error.to_string(),
            last => format!("{error}\n{last}"),
        })
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.shared.host.redactor
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.shared.setup.settings.connection_fingerprint()
    }

    /// Returns the last lines of its standard error.
    pub(super) fn stderr_lines(&self) -> Vec<String> {
        self.shared.current_stderr().lines()
    }
}
