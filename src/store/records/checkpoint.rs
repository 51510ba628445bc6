//! Records of file changes by turns: the states of the files, and the notification about them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RecordError;
use super::event::{parse, to_json};
use super::parts::SharedText;
use super::words::EnumName;
use crate::domain::{ChangeKind, ChangeState, FileChange, FileDiff, FileState, TurnDiff};

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum StateRecord {
    Absent,
    File { hash: String, bytes: u64, mode: u32 },
    Link { target: String },
    Unknown,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChangeRecord {
    before: StateRecord,
    /// The state before the last of several changes. After a crash, the last change may not have been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<StateRecord>,
    after: StateRecord,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TurnDiffRecord {
    turn: String,
    standing: EnumName<ChangeState>,
    files: Vec<FileDiffRecord>,
    #[serde(default)]
    unlisted: u64,
    #[serde(default)]
    partial: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileDiffRecord {
    path: String,
    kind: EnumName<ChangeKind>,
    added: u64,
    removed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<SharedText>,
    restorable: bool,
}

/// Encodes a change; its path is a column.
pub(in crate::store) fn encode_change(change: &FileChange) -> Result<String, RecordError> {
    to_json(&ChangeRecord {
        before: (&change.before).into(),
        was: None,
        after: (&change.after).into(),
    })
}

/// Decodes the change of a row. Several changes yield two: the last one, and all before it.
pub(in crate::store) fn decode_change(path: &str, text: &str) -> Result<Vec<FileChange>, RecordError> {
    let ChangeRecord { before, was, after } = parse(text)?;
    let (before, after): (FileState, FileState) = (before.into(), after.into());
    let change = |before: &FileState, after: &FileState| FileChange {
        path: path.to_owned(),
        before: before.clone(),
        after: after.clone(),
    };
    Ok(match was.map(FileState::from) {
        Some(was) => vec![change(&before, &was), change(&was, &after)],
        None => vec![change(&before, &after)],
    })
}

impl From<&FileState> for StateRecord {
    fn from(state: &FileState) -> Self {
        match state {
            FileState::Absent => Self::Absent,
            FileState::File { hash, bytes, mode } => Self::File {
                hash: hash.clone(),
                bytes: *bytes,
                mode: *mode,
            },
            FileState::Link { target } => Self::Link {
                target: target.clone(),
            },
            FileState::Unknown => Self::Unknown,
        }
    }
}

impl From<StateRecord> for FileState {
    fn from(record: StateRecord) -> Self {
        match record {
            StateRecord::Absent => Self::Absent,
            StateRecord::File { hash, bytes, mode } => Self::File { hash, bytes, mode },
            StateRecord::Link { target } => Self::Link { target },
            StateRecord::Unknown => Self::Unknown,
        }
    }
}

impl From<&TurnDiff> for TurnDiffRecord {
    fn from(diff: &TurnDiff) -> Self {
        let TurnDiff {
            turn,
            state: standing,
            files,
            unlisted,
            partial,
        } = diff;
        Self {
            turn: turn.to_string(),
            standing: EnumName(*standing),
            files: files.iter().map(Into::into).collect(),
            unlisted: *unlisted,
            partial: *partial,
        }
    }
}

impl From<TurnDiffRecord> for TurnDiff {
    fn from(record: TurnDiffRecord) -> Self {
        let TurnDiffRecord {
            turn,
            standing,
            files,
            unlisted,
            partial,
        } = record;
        Self {
            turn: turn.into(),
            state: standing.0,
            files: files.into_iter().map(Into::into).collect(),
            unlisted,
            partial,
        }
    }
}

impl From<&FileDiff> for FileDiffRecord {
    fn from(file: &FileDiff) -> Self {
        let FileDiff {
            path,
            kind,
            added,
            removed,
            diff,
            restorable,
        } = file;
        Self {
            path: path.clone(),
            kind: EnumName(*kind),
            added: *added,
            removed: *removed,
            diff: diff.clone().map(SharedText),
            restorable: *restorable,
        }
    }
}

impl From<FileDiffRecord> for FileDiff {
    fn from(record: FileDiffRecord) -> Self {
        let FileDiffRecord {
            path,
            kind,
            added,
            removed,
            diff,
            restorable,
        } = record;
        Self {
            path,
            kind: kind.0,
            added,
            removed,
            diff: diff.map(|text| -> Arc<str> { text.0 }),
            restorable,
        }
    }
}
