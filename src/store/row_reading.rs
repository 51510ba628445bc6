//! From rows of SQLite to values: sessions, events, and pending values. Builds no queries.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::apply::seq_of;
use super::records;
use super::rows::{PendingEvent, SessionRow, SkippedRow, StoredEvent};
use crate::domain::{Cost, Mode, TurnId, Usage};

/// The columns that [`session_row`] reads, with `num` first.
pub(super) const SESSION: &str =
    "num, id, folder, cwd, title, agent, mode, model, effort, created_ms, updated_ms,
     last_seq, open_turn, input, output, cache_read, cache_write, cost, bare_model";

/// Reads a session and its number from a row.
pub(super) fn session_row(row: &Row<'_>) -> Result<(i64, SessionRow), rusqlite::Error> {
    let text = |at| row.get::<_, String>(at);
    let name = |at| {
        let name = row.get::<_, Option<String>>(at);
        name.map(|name| name.filter(|name| !name.is_empty()))
    };
    let count = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let session = SessionRow {
        id: text(1)?.into(),
        folder: text(2)?,
        cwd: text(3)?,
        title: row.get(4)?,
        agent: name(5)?,
        // Fail closed: a mode that only a later version knows counts as the strictest.
        mode: Mode::from_name(&text(6)?).unwrap_or(Mode::Plan),
        model: name(7)?,
        bare_model: name(18)?,
        effort: name(8)?,
        created_ms: row.get(9)?,
        updated_ms: row.get(10)?,
        last_seq: count(11)?,
        open_turn: row.get::<_, Option<String>>(12)?.map(Into::into),
        usage: Usage {
            input: count(13)?,
            output: count(14)?,
            cache_read: count(15)?,
            cache_write: count(16)?,
        },
        cost: row
            .get::<_, Option<i64>>(17)?
            .map(|nanos| Cost(nanos.unsigned_abs())),
    };
    Ok((row.get(0)?, session))
}

/// Reads the event of a row, or the reason why it cannot be read (R-SESS-4).
pub(super) fn stored_event(row: &Row<'_>) -> Result<StoredEvent, SkippedRow> {
    let seq = row.get(0).map_or(0, seq_of);
    let read = || {
        let turn = match row.get_ref(1).map_err(|e| e.to_string())? {
            ValueRef::Null => None,
            turn => Some(TurnId::from(turn.as_str().map_err(|e| e.to_string())?)),
        };
        let kind = text(row, 3)?;
        let event = records::decode_event(kind, text(row, 4)?).map_err(|e| e.to_string())?;
        Ok(StoredEvent {
            seq,
            turn,
            at_ms: row.get(2).map_err(|e| e.to_string())?,
            event,
        })
    };
    read().map_err(|reason: String| SkippedRow {
        record: format!("event {seq}"),
        reason,
    })
}

/// Reads the pending value of a row; its kind, key and JSON start at column `at`.
pub(super) fn pending_row(row: &Row<'_>, at: usize) -> Result<PendingEvent, String> {
    let (kind, key) = (text(row, at)?, text(row, at + 1)?);
    records::decode_pending(kind, key, text(row, at + 2)?).map_err(|e| e.to_string())
}

/// Reads a text column.
pub(super) fn text<'r>(row: &'r Row<'_>, at: usize) -> Result<&'r str, String> {
    row.get_ref(at)
        .map_err(|e| e.to_string())?
        .as_str()
        .map_err(|e| e.to_string())
}
