//! Records: the JSON of rows. The values of `domain` are their own format; this module takes apart what has columns.
//!
//! The format only grows: fields are added with a default, unknown fields are ignored, nothing is renamed. The golden
//! files next to the tests freeze it. An unreadable record is a [`RecordError`], which readers report and skip
//! (R-SESS-4).

mod pending;
mod tagged;

#[cfg(test)]
mod tests;

pub(super) use pending::{decode_pending, encode_pending};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::domain::{Event, FileChange, FileState};

/// Kind of the record that ends a turn.
pub(super) const TURN_ENDED: &str = "turn_ended";

/// The reason why a record cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    /// A kind that this version does not know.
    #[error("unknown kind `{0}`")]
    UnknownKind(String),
    /// The JSON does not match its kind.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

/// A change of a file; its path is a column.
#[derive(Debug, Serialize, Deserialize)]
struct ChangeRecord {
    before: FileState,
    /// The state before the last of several changes. After a crash, the last change may not have been made.
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<FileState>,
    after: FileState,
}

/// Encodes an event as its kind and its JSON.
pub(super) fn encode_event(event: &Event) -> Result<(String, String), RecordError> {
    Ok(tagged::to_kind_and_json(event)?)
}

/// Decodes the event of a row.
pub(super) fn decode_event(kind: &str, text: &str) -> Result<Event, RecordError> {
    Ok(tagged::from_kind_and_json(kind, text)?)
}

/// Encodes a change; its path is a column.
pub(super) fn encode_change(change: &FileChange) -> Result<String, RecordError> {
    to_json(&ChangeRecord {
        before: change.before.clone(),
        was: None,
        after: change.after.clone(),
    })
}

/// Decodes the change of a row. Several changes yield two: the last one, and all before it.
pub(super) fn decode_change(path: &str, text: &str) -> Result<Vec<FileChange>, RecordError> {
    let ChangeRecord { before, was, after } = parse(text)?;
    let change = |before: FileState, after: FileState| FileChange {
        path: path.to_owned(),
        before,
        after,
    };
    Ok(match was {
        Some(was) => vec![change(before, was.clone()), change(was, after)],
        None => vec![change(before, after)],
    })
}

fn to_json<T: Serialize>(record: &T) -> Result<String, RecordError> {
    Ok(serde_json::to_string(record)?)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, RecordError> {
    Ok(serde_json::from_str(text)?)
}
