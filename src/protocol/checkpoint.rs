//! What turns changed of files, and taking that back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EventHeader;
use super::common::is_false;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// Its content or its mode is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// How a turn's changes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// The turn made them.
    Made,
    /// `agent/revert` took them back.
    Reverted,
    /// `agent/revert` with `redo` made them again.
    Redone,
}

/// Params of `agent/turnDiff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffNotification {
    /// Session, number, turn (none when they were taken back or made again), time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The turn whose changes they are; taken back are also those of later turns.
    pub of_turn_id: String,
    /// How they stand.
    pub standing: Standing,
    /// The files: with `reverted` and `redone` what was done to them now.
    pub files: Vec<FileDiff>,
    /// So many more files are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<u64>,
    /// Commands may have changed more: the workspace has more files than are looked at.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
}

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// The file's path from the session's folder, `rootName/path` in another root, absolute outside of all.
    pub path: String,
    /// What became of it.
    pub kind: ChangeKind,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// A unified diff; absent of what is no text, and where the diffs together grew too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// It cannot be taken back: a command changed it, and its content before is not known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unrestorable: bool,
}

/// Params of `agent/revert`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertParams {
    /// The session.
    pub session_id: String,
    /// The turn; all later ones are taken back with it.
    pub turn_id: String,
    /// Only say what would be done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Make again what the last revert of that turn took back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub redo: bool,
}

/// Result of `agent/revert`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertResult {
    /// The turns whose changes it concerned, the first one first.
    pub turn_ids: Vec<String>,
    /// The files that were put back (with `dryRun`: would be). Those that are so already are not among them.
    pub files: Vec<RevertedFile>,
    /// The files that were left as they are.
    pub conflicts: Vec<RevertConflict>,
}

/// A file that was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertedFile {
    /// The file's path, as in `agent/turnDiff`.
    pub path: String,
    /// The file.
    pub uri: String,
    /// What was done to it now.
    pub kind: ChangeKind,
}

/// A file that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertConflict {
    /// The file's path, as in `agent/turnDiff`.
    pub path: String,
    /// The file.
    pub uri: String,
    /// Why, for people.
    pub why: String,
}
