//! What a running tool may touch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::files::fail_with_message;
use super::{EditorLink, Spawner, ToolError};
use crate::base::CancellationToken;
use crate::domain::{AgentQuestion, ContentRef, FileChange, InquiryReply, PlanItem, SessionId, ToolCallId};
use crate::workspace::prompts::Skills;
use crate::workspace::{Resolved, Workspace};

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
    /// The skills of this session.
    pub skills: Arc<Skills>,
    /// The editor, where files are changed that are open there.
    pub editor: Arc<dyn EditorLink>,
    /// The way to the person, for questions.
    pub asker: Arc<dyn UserPrompt>,
    /// Runs sub-agents.
    pub spawner: Arc<dyn Spawner>,
    /// Cancelled when the turn is.
    pub cancel: CancellationToken,
    /// Cancelled when the person asks a second time, or the server ends: no more patience.
    pub hurry: CancellationToken,
    /// The configured time limit of this tool, for one that keeps its own time.
    pub time_limit: Option<Duration>,
    /// Where live output and plans go; closed once the turn has ended (the fence of R-CANCEL).
    pub news: mpsc::Sender<ToolProgress>,
    /// Where long output is kept for reading back.
    pub keep: Arc<dyn ContentSink>,
    /// Keeps what files were before they are changed.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// The person allowed the call although that cannot be done.
    pub unkept: bool,
    /// The resolved paths that the running call was judged by; none while it is being judged.
    pub judged: Option<Arc<[PathBuf]>>,
}

/// Keeps what files were before a turn changes them (R-SESS-3).
pub trait Checkpoints: Send + Sync {
    /// Keeps a content under its hash. Blocks for a moment.
    fn store_content(&self, bytes: &[u8]) -> Result<(), String>;

    /// Stores what is changed, before it is; told again it replaces what came of it. Done when it is stored.
    fn record_changes(&self, changes: Vec<FileChange>) -> BoxFuture<'static, Result<(), String>>;

    /// What this session has changed of files until now, in order.
    fn load_earlier_changes(&self) -> BoxFuture<'static, Vec<FileChange>>;

    /// Not all that a command changed is known.
    fn mark_partial(&self, why: PartialReason);
}

/// Keeps nothing (tests).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCheckpoints;

impl Checkpoints for NoCheckpoints {
    fn store_content(&self, _bytes: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record_changes(&self, _changes: Vec<FileChange>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn load_earlier_changes(&self) -> BoxFuture<'static, Vec<FileChange>> {
        Box::pin(async { Vec::new() })
    }

    fn mark_partial(&self, _why: PartialReason) {}
}

/// Why it is not known what a command changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialReason {
    /// There are more files than are looked at.
    TooMany,
    /// The turn was cancelled, and looking took too long.
    CutShort,
}

/// What a running tool tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolProgress {
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
    /// Resolves a path of the call's arguments. What it leads to now must be what was judged: a link may have been put
    /// there since.
    pub fn resolve_path(&self, given: &str) -> Result<Resolved, ToolError> {
        let resolved = self.workspace.resolve_path(&self.cwd, given)?;
        self.check_judged(given, &resolved.absolute)?;
        Ok(resolved)
    }

    /// Refuses `path`, which is what `given` leads to, where the call was not judged by it.
    pub(super) fn check_judged(&self, given: &str, path: &Path) -> Result<(), ToolError> {
        match &self.judged {
            Some(judged) if !judged.iter().any(|judged| judged == path) => fail_with_message(format!(
                "`{given}` leads somewhere else than when the call was checked; call the tool again"
            )),
            _ => Ok(()),
        }
    }

    /// Tells the turn; waits while the client is slow.
    pub async fn send_progress(&self, news: ToolProgress) -> Result<(), OutputClosed> {
        self.news.send(news).await.map_err(|_| OutputClosed)
    }
}

/// Asks the person, where the client takes questions.
pub trait UserPrompt: Send + Sync {
    /// Waits for the answer, however long it takes; none where nobody can be asked, or the turn ends.
    fn request_reply(&self, question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>>;
}

/// Nobody can be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUser;

impl UserPrompt for NoUser {
    fn request_reply(&self, _question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>> {
        Box::pin(async { None })
    }
}

/// Keeps long output of a session aside, to be read back in pieces by clients.
pub trait ContentSink: Send + Sync {
    /// Begins the content `name`. Blocks for a moment.
    fn create_writer(&self, name: &str) -> Result<Box<dyn ContentWriter>, String>;
}

/// Content being kept.
pub trait ContentWriter: Send {
    /// Adds text; beyond its bound what comes is dropped and the end says so. Blocks as a write does.
    fn append_text(&mut self, text: &str) -> Result<(), String>;

    /// Ends it, and tells its reference.
    fn finish(self: Box<Self>) -> Result<ContentRef, String>;
}
