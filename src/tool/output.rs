//! What a call returns: a preview, a result, or an error. Plain values; knows no tool.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{ContentRef, FileLocation, MediaData};

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
    /// For the model. The caller cuts it beyond 30,000 bytes unless `paged` is set, and beyond the model's share of its
    /// window for one result in any case.
    pub text: String,
    /// The tool itself limits its text, to at most [`super::ToolContext::max_result_bytes`] plus a few status lines, and
    /// states what is missing.
    pub paged: bool,
    /// For the model.
    pub media: Vec<MediaData>,
    /// The result is an error for the model although the tool worked. A non-zero exit code is not one.
    pub is_error: bool,
    /// The tool works, but the call asks for what is not there or not possible; `is_error` is set too.
    pub is_wrong_input: bool,
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

    /// Creates the result of a call that its time limit has ended.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self {
            is_error: true,
            timed_out: true,
            ..Self::text(format!("timed out after {} s", limit.as_secs_f64()))
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
    /// As `Reported`, but the tool works: the call asks for what is not there or not possible.
    #[error("{0}")]
    WrongInput(String),
    /// As `WrongInput`, and for the model alone: the arguments do not fit what is there. For example, the file does not contain the
    /// text to replace.
    #[error("{0}")]
    Misfit(String),
    /// The cancel came first.
    #[error("canceled")]
    Cancelled,
    /// The cancel came while the call ran; this is the result until then.
    #[error("canceled while it ran")]
    CutShort(Box<ToolOutput>),
    /// A bug of ours; the model learns that the tool failed.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Returns a failed result with this text for the model.
pub(super) fn fail_with_message<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Reported(text.into()))
}

/// Returns a failed result with this text for the model, whose arguments cannot be served.
pub(super) fn refuse_input<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::WrongInput(text.into()))
}
