//! Records: the JSON of rows, separate from `domain`, with exhaustive converters both ways.
//!
//! The format only grows: fields are added with a default, unknown fields are ignored, nothing is renamed.
//! An unreadable record is a [`RecordError`], which readers report and skip (R-SESS-4).

mod checkpoint;
mod compaction;
mod event;
mod inquiry;
mod instructions;
mod message;
mod parts;
mod pending;
mod queue;
mod words;

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
mod tests;

pub(super) use checkpoint::{decode_change, encode_change};
pub(super) use event::{TURN_ENDED, decode_event, encode_event};
pub(super) use pending::{decode_pending, encode_pending};
pub(super) use words::StoredWord;

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
