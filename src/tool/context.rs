//! The context of a tool call: everything that a running tool may touch.
//!
//! The turn and the session implement the traits here. Tools must not reach them in any other way.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::output::refuse_input;
use super::progress::{OutputClosed, ToolProgress};
use super::{CurrentModel, EditorLink, Spawner, ToolError, stored_output};
use crate::base::CancellationToken;
use crate::domain::{
    AgentQuestion, ContentRef, FileChange, InquiryReply, NarrowedCommand, SessionId, ToolCallId,
};
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::prompts::Skills;
use crate::workspace::{ResolvedPath, Workspace};

/// Everything that a running tool may touch. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    pub session: SessionId,
    pub call: ToolCallId,
    /// The directory where relative paths and commands start.
    pub cwd: PathBuf,
    /// Files, unsaved buffers, and processes of this session.
    pub workspace: Arc<Workspace>,
    pub skills: Arc<Skills>,
    /// Changes files that are open in the editor.
    pub editor: Arc<dyn EditorLink>,
    /// Asks the user questions.
    pub asker: Arc<dyn UserPrompt>,
    pub spawner: Arc<dyn Spawner>,
    /// The model of the current step; `None` outside of a step.
    pub model: Option<Arc<dyn CurrentModel>>,
    /// Canceled together with the turn.
    pub cancel: CancellationToken,
    /// Canceled by the user's second cancel or the end of the server: stop without grace periods.
    pub force_cancel: CancellationToken,
    /// The configured time limit, for a tool that enforces its own.
    pub time_limit: Option<Duration>,
    /// Receives live output and plans; closed once the turn has ended (the fence of R-CANCEL).
    pub progress: mpsc::Sender<ToolProgress>,
    /// Keeps long output for reading back.
    pub content_sink: Arc<dyn ContentSink>,
    /// Keeps what files were before they are changed.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// How long the result of an edit waits for the errors that it brought; `None` if it does not name them.
    pub new_errors_wait: Option<Duration>,
    /// The user has allowed the call although old contents cannot be kept.
    pub allows_uncheckpointed: bool,
    /// An earlier turn began the call, and may have asked its question.
    pub is_carried: bool,
    /// The resolved paths by which the running call was judged; `None` while it is being judged.
    pub judged: Option<Arc<[PathBuf]>>,
    /// The line that runs in place of the call's command.
    pub narrowed: Option<Arc<NarrowedCommand>>,
    /// What the call's command may do.
    pub sandbox: CallSandbox,
}

/// Keeps what files were before a turn changes them (R-SESS-3).
pub trait Checkpoints: Send + Sync {
    /// Stores a content under its hash. Blocks briefly.
    ///
    /// # Errors
    /// The reason as text if the content cannot be stored.
    fn store_content(&self, bytes: &[u8]) -> Result<(), String>;

    /// Stores changes before they are made; a second record of a change replaces its outcome. Resolves once stored.
    ///
    /// # Errors
    /// The reason as text if the changes cannot be stored.
    fn record_changes(&self, changes: Vec<FileChange>) -> BoxFuture<'static, Result<(), String>>;

    /// Returns the changes that this session has recorded until now, in order.
    fn load_earlier_changes(&self) -> BoxFuture<'static, Vec<FileChange>>;

    /// Takes room for a content of this many bytes, which a command could destroy. Returns whether there was enough.
    fn take_room(&self, room: RoomKind, bytes: u64) -> bool;

    /// Records that not all changes of a command are known.
    fn mark_partial(&self, reason: PartialReason);
}

/// Keeps nothing; for tests.
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

    fn take_room(&self, _room: RoomKind, _bytes: u64) -> bool {
        true
    }

    fn mark_partial(&self, _why: PartialReason) {}
}

/// For which files a turn has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomKind {
    /// What git does not have, and does not exclude.
    OwnWork,
    /// What ignore files exclude.
    Excluded,
}

/// The reason why the changes of a command are not fully known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialReason {
    /// There are more files than are examined.
    TooMany,
    /// The turn was canceled, and the comparison took too long.
    CutShort,
}

impl ToolContext {
    /// Returns the longest result in bytes that the model has room for, at most `most`.
    pub fn max_result_bytes(&self, most: usize) -> usize {
        let model = self.model.as_ref();
        model.map_or(most, |model| model.max_result_bytes().min(most))
    }

    /// Resolves a path from the call's arguments.
    ///
    /// # Errors
    /// The path cannot be resolved, or a link now leads it to another path than the one that was judged.
    pub fn resolve_path(&self, given: &str) -> Result<ResolvedPath, ToolError> {
        if stored_output::stored_name(given).is_some() {
            return Err(stored_output::refuse_stored_path(given));
        }
        let resolved = self.workspace.resolve_path(&self.cwd, given)?;
        self.check_judged(given, &resolved.absolute)?;
        Ok(resolved)
    }

    /// Opens a stored output of the session by its name. Blocks briefly.
    ///
    /// # Errors
    /// There is no such output, or it cannot be opened.
    pub(super) fn open_stored_output(&self, name: &str) -> Result<Box<dyn Read + Send>, ToolError> {
        let opened = self.content_sink.open_reader(name);
        opened.map_err(|reason| stored_output::explain_unreadable(name, &reason))
    }

    /// Refuses `path`, to which `given` leads, if the call was not judged by it.
    pub(super) fn check_judged(&self, given: &str, path: &Path) -> Result<(), ToolError> {
        match &self.judged {
            Some(judged) if !judged.iter().any(|judged| judged == path) => refuse_input(format!(
                "`{given}` leads somewhere else than when the call was checked; call the tool again"
            )),
            // Without `judged` the call is being judged right now, by this path.
            _ => Ok(()),
        }
    }

    /// Reports progress to the turn; waits while the client is slow.
    ///
    /// # Errors
    /// [`OutputClosed`] if the turn has ended.
    pub async fn send_progress(&self, progress: ToolProgress) -> Result<(), OutputClosed> {
        self.progress.send(progress).await.map_err(|_| OutputClosed)
    }
}

/// Asks the user, if the client supports questions.
pub trait UserPrompt: Send + Sync {
    /// Waits for the reply, however long it takes; `None` if nobody can be asked or the turn ends.
    fn request_reply(&self, question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>>;

    /// Settles the questions whose reply nobody waits for any more.
    fn withdraw_questions(&self) {}
}

/// Asks the user, and withdraws the question if the future is dropped before the reply.
pub(super) async fn ask_withdrawing(asker: &dyn UserPrompt, question: AgentQuestion) -> Option<InquiryReply> {
    let mut open = OpenQuestion {
        asker,
        is_answered: false,
    };
    let reply = asker.request_reply(question).await;
    open.is_answered = true;
    reply
}

/// A question that waits for its reply.
struct OpenQuestion<'a> {
    asker: &'a dyn UserPrompt,
    is_answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.asker.withdraw_questions();
        }
    }
}

/// Leaves every question without a reply, for sessions where nobody can be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUser;

impl UserPrompt for NoUser {
    fn request_reply(&self, _question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>> {
        Box::pin(async { None })
    }
}

/// Stores long output of a session, which clients read back in pieces.
pub trait ContentSink: Send + Sync {
    /// Starts the content `name`. Blocks briefly.
    ///
    /// # Errors
    /// The reason as text if it cannot be created.
    fn create_writer(&self, name: &str) -> Result<Box<dyn ContentWriter>, String>;

    /// Opens the complete content `name`. Blocks briefly.
    ///
    /// # Errors
    /// The reason as text if there is no such content or it cannot be opened.
    fn open_reader(&self, name: &str) -> Result<Box<dyn Read + Send>, String>;
}

/// Writes one stored content.
pub trait ContentWriter: Send {
    /// Appends text. Text beyond the size limit is dropped, which the end of the content states. Blocks like a write.
    ///
    /// # Errors
    /// The reason as text if the write fails.
    fn append_text(&mut self, text: &str) -> Result<(), String>;

    /// Completes the content and returns its reference.
    ///
    /// # Errors
    /// The reason as text if the write fails.
    fn finish(self: Box<Self>) -> Result<ContentRef, String>;
}
