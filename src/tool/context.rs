//! What a running tool may touch.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::base::CancellationToken;
use crate::domain::{ContentRef, PlanItem, SessionId, ToolCallId};
use crate::workspace::Workspace;

/// What a running tool may touch. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: ToolCallId,
    /// Where relative paths and commands start.
    pub cwd: PathBuf,
    /// Files, unsaved buffers, processes of this session.
    pub workspace: Arc<Workspace>,
    /// Cancelled when the turn is.
    pub cancel: CancellationToken,
    /// Where live output and plans go; closed once the turn has ended (the fence of R-CANCEL).
    pub news: mpsc::Sender<ToolNews>,
    /// Where long output is kept for reading back.
    pub keep: Arc<dyn Keep>,
}

/// What a running tool tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolNews {
    /// Live output, raw.
    Output(String),
    /// The plan, whole.
    Plan(Vec<PlanItem>),
}

/// The turn has ended; nobody listens any more.
#[derive(Debug, thiserror::Error)]
#[error("the turn has ended")]
pub struct OutputClosed;

impl ToolContext {
    /// Tells the turn; waits while the client is slow.
    pub async fn tell(&self, news: ToolNews) -> Result<(), OutputClosed> {
        self.news.send(news).await.map_err(|_| OutputClosed)
    }
}

/// Keeps content of a session aside, to be read back in pieces.
pub trait Keep: Send + Sync {
    /// Appends to the content `name`, which need not exist yet, and tells its reference.
    fn append(&self, name: &str, bytes: Vec<u8>) -> BoxFuture<'static, std::io::Result<ContentRef>>;

    /// Reads `limit` bytes from `offset`; fewer at the end.
    fn read(&self, name: &str, offset: u64, limit: u64) -> BoxFuture<'static, std::io::Result<Vec<u8>>>;
}
