//! What the model can do: the trait, the registry, one file per tool.
//!
//! A tool is its input type, its effect, and its run. `turn` provides approval, timeout, cutting of output, cancel, and
//! the result message. A tool must not know these, nor sessions or clients; it acts only through [`ToolContext`].

pub mod apply_patch;
pub mod ask_user;
pub mod bash;
pub mod bash_kill;
pub mod bash_output;
mod change;
mod command_network;
mod command_record;
mod command_snapshot;
pub mod command_tool;
mod content_change;
mod context;
#[cfg(test)]
mod contract_tests;
mod created_files;
mod current_model;
pub mod delegate;
pub mod diagnostics;
pub mod edit_file;
mod editor;
mod editor_edit;
mod erased;
mod file_filter;
mod files;
pub mod find_references;
pub mod find_symbol;
pub mod fit_picture;
pub mod fix_code;
mod git_blobs;
pub mod glob;
pub mod go_to_definition;
pub mod grep;
mod grep_hits;
mod language;
mod left_files;
pub mod lenient;
pub mod list_dir;
mod locate_symbol;
mod losses;
pub mod mcp_content;
mod mcp_elicitation;
mod mcp_requests;
mod mcp_sampling;
pub mod mcp_tool;
mod new_errors;
pub mod notebook;
mod outline;
mod output;
mod outside;
mod own_work;
pub mod present_plan;
mod progress;
mod proposed_edit;
pub mod read_file;
pub mod read_skill;
pub mod refusal;
mod refusal_messages;
mod registry;
mod removal;
pub mod rename_symbol;
pub mod restore;
mod run_command;
pub mod schema;
mod search_pattern;
pub mod search_tools;
mod skipped;
mod spawner;
pub mod stored_output;
mod symbol_path;
pub mod terminal_output;
#[cfg(test)]
pub(crate) mod testing;
mod text_reader;
mod tool_source;
mod turn_tools;
pub mod update_plan;
mod walk;
mod web;
pub mod web_fetch;
pub mod web_search;
pub mod write_file;

pub use command_record::{RecordedCommand, WriteClaim};
pub use context::{
    Checkpoints, ContentSink, ContentWriter, NoCheckpoints, NoUser, PartialReason, RoomKind, ToolContext,
    UserPrompt,
};
pub use current_model::{
    CurrentModel, ModelFailure, SampleJob, SamplingAnswer, SamplingStop, SearchAnswer, SearchJob,
};
pub use editor::{
    DiagnosticSeverity, DiagnosticsAnswer, DiagnosticsRequest, DocumentEdit, DocumentEdits, EditorAbilities,
    EditorDiagnostic, EditorError, EditorLink, EditorLocation, EditorQuickFix, EditorSymbol, LanguageAnswer,
    LanguageQuery, LanguageQueryKind, NoEditor,
};
pub use erased::{DynTool, PreparedCall};
pub use losses::find_losses;
pub use output::{CallPreview, DelegateResult, ToolError, ToolOutput};
pub use progress::{OutputClosed, ToolProgress};
pub use registry::{Registry, create_builtin_tools};
pub use spawner::{ChildState, NoSpawner, Spawner, SubagentJob, SubagentReport};
pub use tool_source::{LoadedTools, McpToolSource, ToolRecords, ToolSource};
pub use turn_tools::{ToolFilter, TurnTools};

use std::future::Future;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::domain::{Effect, FreeformInput};

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

    /// Whether a cancel waits for a call to finish (atomic and short) instead of dropping it.
    const FINISHES_ON_CANCEL: bool = false;

    /// Whether [`Tool::complete_effect`] can add files to the predicted effect.
    const EFFECT_MAY_GROW: bool = false;

    /// Whether the result depends on all files of the workspace, whichever file a call names.
    const READS_WORKSPACE: bool = false;

    /// The time limit of a call; `None` if the tool enforces its own (see [`ToolContext::time_limit`]).
    const TIMEOUT: Option<Duration> = Some(DEFAULT_TIMEOUT);

    /// How models that are trained on it write the input as plain text.
    const FREEFORM: Option<FreeformInput> = None;

    /// Returns a line for people that says what this call does.
    fn call_title(&self, input: &Self::Input) -> String;

    /// Returns what the call would do to the world. Must not do any I/O except resolving paths.
    ///
    /// # Errors
    /// The effect cannot be determined, for example because a path cannot be resolved.
    fn predict_effect(&self, input: &Self::Input, cx: &ToolContext) -> Result<Effect, ToolError>;

    /// Completes the predicted effect with what only the editor knows. Returns it as it is by default.
    ///
    /// # Errors
    /// The effect cannot be determined; the call is not made.
    fn complete_effect(
        &self,
        _input: &Self::Input,
        effect: Effect,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<Effect, ToolError>> + Send {
        async { Ok(effect) }
    }

    /// Returns whether what the call starts goes on after it. Its changes are not recorded then.
    fn goes_on_afterwards(&self, _input: &Self::Input) -> bool {
        false
    }

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

    /// Runs the call.
    ///
    /// A cancel drops the future unless [`Tool::FINISHES_ON_CANCEL`], so every await must be a safe place to stop. A
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
const TRUSTED: [&str; 20] = [
    "read_file",
    "write_file",
    "edit_file",
    "apply_patch",
    "list_dir",
    "glob",
    "grep",
    "bash_kill",
    "update_plan",
    "read_skill",
    "ask_user",
    "present_plan",
    // The definitions of tools, which other turns send without a call.
    "search_tools",
    "diagnostics",
    "find_symbol",
    "find_references",
    "go_to_definition",
    "rename_symbol",
    "fix_code",
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
