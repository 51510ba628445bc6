//! What the model can do: the trait, the registry, one file per tool.
//!
//! A tool is its input type, its effect, and its run. `turn` provides approval, timeout, cutting of output, cancel, and
//! the result message. A tool must not know these, nor sessions or clients; it acts only through [`ToolContext`].

pub mod ask_user;
pub mod bash;
pub mod bash_kill;
pub mod bash_output;
mod change;
mod command_snapshot;
pub mod command_tool;
mod context;
#[cfg(test)]
mod contract_tests;
pub mod delegate;
pub mod diagnostics;
pub mod edit_file;
mod editor;
mod editor_edit;
mod erased;
mod files;
mod git_blobs;
pub mod glob;
pub mod grep;
pub mod list_dir;
pub mod read_file;
pub mod read_skill;
mod registry;
pub mod restore;
mod run_command;
pub mod schema;
mod spawner;
mod terminal_output;
#[cfg(test)]
pub(crate) mod testing;
pub mod update_plan;
mod walk;
mod web;
pub mod web_fetch;
pub mod write_file;

pub use context::{
    Checkpoints, ContentSink, ContentWriter, NoCheckpoints, NoUser, OutputClosed, PartialReason, ToolContext,
    ToolProgress, UserPrompt,
};
pub use editor::{
    DiagnosticSeverity, DocumentEdit, EditorAbilities, EditorDiagnostic, EditorError, EditorLink, NoEditor,
};
pub use erased::{DynTool, PreparedCall};
pub use registry::{Registry, create_builtin_tools};
pub use spawner::{ChildState, NoSpawner, Spawner, SubagentJob, SubagentReport};

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::domain::{ContentRef, Effect, FileLocation, ImageData};

/// A tool. The doc comments of `Input`'s fields describe its arguments to the model.
pub trait Tool: Send + Sync + 'static {
    /// The arguments; must reject unknown fields.
    type Input: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// The name that the model calls it by.
    const NAME: &'static str;

    /// What it does and when to use it, for the model.
    const DESCRIPTION: &'static str;

    /// Whether repeating a call with the same arguments is the normal way to wait, and no sign of a loop (R-LOOP-6).
    const WAITS: bool = false;

    /// Returns a line for people that says what this call does.
    fn call_title(&self, input: &Self::Input) -> String;

    /// Returns what the call would do to the world. Must not do any I/O except resolving paths.
    ///
    /// # Errors
    /// The effect cannot be determined, for example because a path cannot be resolved.
    fn predict_effect(&self, input: &Self::Input, cx: &ToolContext) -> Result<Effect, ToolError>;

    /// Returns what the call would change, for the user who approves it. May read files.
    ///
    /// # Errors
    /// The change cannot be computed.
    fn preview_change(
        &self,
        _input: &Self::Input,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<CallPreview, ToolError>> + Send {
        async { Ok(CallPreview::default()) }
    }

    /// Returns the time limit of a call; `None` if the tool enforces its own (see [`ToolContext::time_limit`]).
    fn call_timeout(&self, _input: &Self::Input) -> Option<Duration> {
        Some(DEFAULT_TIMEOUT)
    }

    /// Returns whether a cancel waits for the call to finish (atomic and short) instead of dropping it.
    fn finishes_on_cancel(&self) -> bool {
        false
    }

    /// Runs the call.
    ///
    /// A cancel drops the future unless [`Tool::finishes_on_cancel`], so every await must be a safe place to stop. A
    /// tool that has to clean up watches `cx.cancel`.
    ///
    /// # Errors
    /// The call fails or is canceled; see [`ToolError`].
    fn run(
        &self,
        input: Self::Input,
        cx: ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// Built-in tools whose results come only from the workspace and the user.
const TRUSTED: [&str; 12] = [
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "glob",
    "grep",
    "bash_kill",
    "update_plan",
    "read_skill",
    "ask_user",
    "diagnostics",
    "delegate",
];

/// Returns whether results of a tool come from outside: the web, commands, tools of others (R-TOOL-7).
///
/// A tool that is not known counts as untrusted. `delegate` is trusted because the calls of a sub-agent are classified
/// one by one.
pub fn is_untrusted(tool: &str) -> bool {
    !TRUSTED.contains(&tool)
}

/// Default time limit of a call: two minutes, counted while the tool runs (R-TOOL-1).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// What a user sees before deciding about a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallPreview {
    /// A unified diff.
    pub diff: Option<Arc<str>>,
    pub locations: Vec<FileLocation>,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model. The caller cuts it beyond 30,000 characters unless `paged` is set.
    pub text: String,
    /// The tool itself limits its text, to at most 64 KiB or 30,000 characters plus a few status lines, and states what
    /// is missing. The caller does not cut it further.
    pub paged: bool,
    /// For the model.
    pub images: Vec<ImageData>,
    /// The result is an error for the model although the tool worked. A non-zero exit code is not one.
    pub is_error: bool,
    /// How a command that the tool ran ended: its exit code, or 128 plus the number of the signal that killed it.
    ///
    /// Anything but 0 makes this a failed call, though the output is still a result for the model.
    pub exit_code: Option<i32>,
    /// The time limit was reached; `is_error` is set too.
    pub timed_out: bool,
    /// Sub-agents made the call fail; `is_error` is set too.
    pub delegated: Option<DelegateResult>,
    /// The change as a unified diff.
    pub diff: Option<Arc<str>>,
    pub locations: Vec<FileLocation>,
    /// Where the complete output is kept if `text` is only a part of it.
    pub full: Option<ContentRef>,
}

impl ToolOutput {
    /// Creates a result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// How sub-agents make the call fail that delegated to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegateResult {
    /// One failed although all are required.
    Failed,
    /// The named join condition is not met.
    Violated,
}

/// The reason why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A failed result with this text for the model.
    #[error("{0}")]
    Reported(String),
    /// The cancel came first.
    #[error("cancelled")]
    Cancelled,
    /// The cancel came while the call ran; this is the result until then.
    #[error("cancelled while it ran")]
    CutShort(Box<ToolOutput>),
    /// A bug of ours; the model learns that the tool failed.
    #[error("internal error: {0}")]
    Internal(String),
}
