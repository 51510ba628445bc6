//! File changes of turns, and their revert.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EventHeader;
use super::common::is_false;

/// The kind of a file's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// The file is new.
    Created,
    /// Its content or its mode changed.
    Modified,
    /// The file was deleted.
    Deleted,
}

/// The state of a turn's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeState {
    /// The turn made them.
    Made,
    /// `agent/revert` reverted them.
    Reverted,
    /// `agent/revert` with `redo` made them again.
    Redone,
}

/// Params of `agent/turnDiff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffNotification {
    /// Session, event number, turn (absent after a revert or a redo) and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The turn whose changes these are. A revert includes the changes of later turns.
    pub of_turn_id: String,
    /// The state of the changes.
    pub standing: ChangeState,
    /// The files. With `reverted` and `redone`: what has just been done to them.
    pub files: Vec<FileDiff>,
    /// Number of further files that are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<u64>,
    /// Whether commands may have changed more: the workspace has more files than the server scans.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
}

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// The file's path: relative to the session's folder, `rootName/path` in another root, absolute elsewhere.
    pub path: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// A unified diff; absent for files that are not text, and if all diffs together grew too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Whether it cannot be reverted: a command changed the file, and its previous content is unknown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unrestorable: bool,
}

/// Params of `agent/revert`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertParams {
    /// The session.
    pub session_id: String,
    /// The turn. All later turns are reverted with it.
    pub turn_id: String,
    /// Whether to only report what would be done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Whether to redo the changes that the last revert of this turn undid.
    #[serde(default, skip_serializing_if = "is_false")]
    pub redo: bool,
}

/// Result of `agent/revert`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertResult {
    /// The turns whose changes are affected, the first one first.
    pub turn_ids: Vec<String>,
    /// The files that were restored, or would be with `dryRun`. Files that already match are not listed.
    pub files: Vec<RevertedFile>,
    /// The files that were left unchanged.
    pub conflicts: Vec<RevertConflict>,
}

/// A file that was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertedFile {
    /// The file's path, as in `agent/turnDiff`.
    pub path: String,
    /// The file's URI.
    pub uri: String,
    /// What was done to it.
    pub kind: ChangeKind,
}

/// A file that was left unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertConflict {
    /// The file's path, as in `agent/turnDiff`.
    pub path: String,
    /// The file's URI.
    pub uri: String,
    /// The reason, for the user.
    pub why: String,
}
