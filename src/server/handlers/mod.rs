//! The `agent/*` methods, by resource. Each converts, posts, waits, converts back.

mod approvals;
mod info;
mod sessions;
mod turns;

use tokio::sync::oneshot;
use tower_lsp::jsonrpc::Error;

use crate::session::Refused;

/// Waits for a session's answer.
async fn answer<T>(answer: oneshot::Receiver<Result<T, Refused>>) -> Result<T, Error> {
    Ok(answer.await.unwrap_or(Err(Refused::Ending))?)
}
