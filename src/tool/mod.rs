//! What the model can do: the trait, the registry, one file per tool.
//!
//! A tool is its input type, its effect and its run. Approval, the timeout, cutting of output, cancel
//! and the result message come from `turn`; a tool never sees them, and knows no session or client.

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

use crate::domain::{ContentRef, Effect, ImageData, Location};

/// A tool. Doc comments of `Input`'s fields are what the model reads of its arguments.
pub trait Tool: Send + Sync + 'static {
    /// Its arguments; must refuse unknown fields.
    type Input: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Its name.
    const NAME: &'static str;

    /// What it does and when to use it, for the model.
    const DESCRIPTION: &'static str;

    /// Calling it again with the same arguments is how one waits, so that it is no sign of a loop (R-LOOP-6).
    const WAITS: bool = false;

    /// A line for people: what this call does.
    fn call_title(&self, input: &Self::Input) -> String;

    /// What the call would do to the world. No I/O but resolving paths.
    fn predict_effect(&self, input: &Self::Input, cx: &ToolContext) -> Result<Effect, ToolError>;

    /// What the call would change, for the person who is asked. May read files.
    fn preview_change(
        &self,
        _input: &Self::Input,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<Preview, ToolError>> + Send {
        async { Ok(Preview::default()) }
    }

    /// How long it may run; none when it keeps its own time (see [`ToolContext::time_limit`]).
    fn call_timeout(&self, _input: &Self::Input) -> Option<Duration> {
        Some(DEFAULT_TIMEOUT)
    }

    /// Whether a cancel waits for it to finish (atomic and short) instead of dropping it.
    fn finishes_on_cancel(&self) -> bool {
        false
    }

    /// Does it. A cancel drops the future unless [`Tool::finishes_on_cancel`], so every await must be
    /// a safe place to stop; what must be tidied up watches `cx.cancel`.
    fn run(
        &self,
        input: Self::Input,
        cx: ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// Tools of ours whose results come from the workspace and the person alone.
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

/// Whether results of the tool of that name come from outside: the web, commands, tools of others (R-TOOL-7). What a
/// sub-agent's calls bring is told by those calls.
pub fn is_untrusted(tool: &str) -> bool {
    !TRUSTED.contains(&tool)
}

/// R-TOOL-1: two minutes, running while the tool runs.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// What a person is shown before deciding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// A unified diff.
    pub diff: Option<Arc<str>>,
    /// Files it concerns.
    pub locations: Vec<Location>,
}

/// What a call gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model; cut by the caller beyond 30,000 characters unless `paged`.
    pub text: String,
    /// The tool limits its text itself, to at most 64 KiB or 30,000 characters and a few status lines, and says what is
    /// missing. The caller cuts it no further.
    pub paged: bool,
    /// Pictures for the model.
    pub images: Vec<ImageData>,
    /// A result that is an error to the model though the tool worked (a non-zero exit, say, is not).
    pub is_error: bool,
    /// How the command ended that it ran: its exit code, or 128 plus the number of the signal that killed it. Anything
    /// but 0 is a failed call, though its output stays a result for the model.
    pub exit_code: Option<i32>,
    /// It ran out of its time; then it is an error too.
    pub timed_out: bool,
    /// Sub-agents failed it; then it is an error too.
    pub delegated: Option<Delegated>,
    /// What it changed, as a unified diff.
    pub diff: Option<Arc<str>>,
    /// Files it concerned.
    pub locations: Vec<Location>,
    /// Where the whole output is kept, when `text` is only a part of it.
    pub full: Option<ContentRef>,
}

impl ToolOutput {
    /// A plain text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// How sub-agents fail the call that delegated to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegated {
    /// One failed where all are required.
    Failed,
    /// Too few succeeded for what was to come of them.
    Violated,
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model is told, as a failed result.
    #[error("{0}")]
    Reported(String),
    /// The cancel came first.
    #[error("cancelled")]
    Cancelled,
    /// The cancel came while it ran; what it gave until then.
    #[error("cancelled while it ran")]
    CutShort(Box<ToolOutput>),
    /// A bug of ours; the model is told that the tool failed.
    #[error("internal error: {0}")]
    Internal(String),
}
