//! Prepared writes as SQL, many in one transaction.
//!
//! Separates faults of a single write, which is refused, from faults of the disk, which fail the transaction.

use std::collections::BTreeMap;

use rusqlite::{ErrorCode, OptionalExtension, Transaction, params};

use super::ops::{EventOp, PutOp, WriteEffect, WriteOp};
use super::rows::{AFTER_PIECES, ContentChoice, PIECE, PendingKey, PendingKind, SessionChange, SessionRow};
use super::write::{ModelKey, NamedWindow, RowWrite};
use crate::domain::{Grant, GrantScope, GrantedTool, Mode, SessionId, TurnId};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Whether a row of `sessions` is listed: one in which nothing has happened is only an id that a client may have kept.
pub(super) const IS_LISTED: &str =
    "last_seq > 0 OR title IS NOT NULL OR EXISTS (SELECT 1 FROM pending WHERE session = sessions.num)";
/// How long a session without a prompt can be loaded.
const EMPTY_SESSION_DAYS: i64 = 30;

/// The outcome of writes that the disk accepted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AppliedBatch {
    /// The reasons why writes were left out that can never succeed.
    pub(super) refused: Vec<String>,
}

/// Applies `ops` in order within `transaction`.
pub(super) fn apply(
    transaction: &Transaction<'_>,
    ops: &[WriteOp],
    server: &str,
) -> Result<AppliedBatch, rusqlite::Error> {
    let mut batch = WriteBatch {
        transaction,
        server,
        sessions: BTreeMap::new(),
    };
    let mut applied = AppliedBatch::default();
    for op in ops {
        match batch.apply(op) {
            Ok(None) => {}
            Ok(Some(reason)) => applied.refused.push(reason),
            // The fault is in this write: retrying it would block all others forever.
            Err(error) if is_write_fault(&error) => applied.refused.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    batch.flush_tallies()?;
    Ok(applied)
}

fn is_write_fault(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    ) || matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
}

/// Returns an event's id. With `seq` 0, it is the id of the session's title in the search table.
pub(super) fn event_id(session: i64, seq: u64) -> i64 {
    session << 32 | i64::from(u32::try_from(seq).unwrap_or(u32::MAX))
}

/// Returns the first and the last possible id of a session.
pub(super) fn event_ids(session: i64) -> (i64, i64) {
    (event_id(session, 0), event_id(session, u64::MAX))
}

/// Returns the event's number within its session.
pub(super) fn seq_of(id: i64) -> u64 {
    (id & 0xffff_ffff) as u64
}

fn to_sql_integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The writes of one transaction. Each session's row is looked up once, and changed once at the end.
struct WriteBatch<'t> {
    transaction: &'t Transaction<'t>,
    server: &'t str,
    sessions: BTreeMap<SessionId, Option<UsageTally>>,
}

/// The changes of a transaction to a session's row.
#[derive(Debug, Default)]
struct UsageTally {
    num: i64,
    changed: bool,
    updated_ms: i64,
    last_seq: u64,
    effect: WriteEffect,
}

impl WriteBatch<'_> {
    /// Applies a write. A returned text is the reason why it was left out.
    fn apply(&mut self, op: &WriteOp) -> Result<Option<String>, rusqlite::Error> {
        match op {
            WriteOp::Row(row) => self.apply_row(row)?,
            WriteOp::Event(event) => return self.apply_event(event),
            WriteOp::Put { session, put } => {
                if let Some(num) = self.load_tally(session)?.map(|tally| tally.num) {
                    self.put_pending(num, put)?;
                }
            }
            WriteOp::Changes {
                session,
                cause,
                replaces_earlier,
                rows,
            } => {
                if let Some(num) = self.load_tally(session)?.map(|tally| tally.num) {
                    self.insert_changes(num, cause, *replaces_earlier, rows)?;
                }
            }
        }
        Ok(None)
    }

    fn apply_row(&mut self, write: &RowWrite) -> Result<(), rusqlite::Error> {
        match write {
            RowWrite::CreateSession(row) => self.create_session(row)?,
            RowWrite::Drop { session, key } => {
                if let Some(num) = self.load_tally(session)?.map(|tally| tally.num) {
                    self.drop_pending(num, key)?;
                }
            }
            RowWrite::UpdateSession { session, change } => {
                if let Some(tally) = self.load_tally(session)? {
                    tally.merge_change(change);
                }
            }
            RowWrite::AddGrant { grant, session } => self.add_grant(grant, session.as_ref())?,
            RowWrite::NoteFirstUse { folder, tool, at_ms } => {
                self.note_first_use(folder, tool, *at_ms)?;
            }
            RowWrite::RevokeGrant { id } => {
                self.execute_cached("DELETE FROM grants WHERE id = ?", [id])?;
            }
            RowWrite::SetTrust {
                folder,
                trusted,
                accepted,
                redirects,
                at_ms,
            } => {
                self.execute_cached(
                    "INSERT OR REPLACE INTO trust (folder, trusted, accepted, at_ms) VALUES (?, ?, ?, ?)",
                    params![folder, trusted, accepted, at_ms],
                )?;
                self.set_redirects(folder, *trusted, redirects, *at_ms)?;
            }
            RowWrite::RememberChoice {
                folder,
                agent,
                choice,
                at_ms,
            } => self.remember_choice(folder, agent, choice, *at_ms)?,
            RowWrite::NoteWindow { model, window, at_ms } => self.note_window(model, *window, *at_ms)?,
            RowWrite::ForgetWindows { before_ms } => {
                self.execute_cached("DELETE FROM windows WHERE at_ms < ?", [before_ms])?;
            }
        }
        Ok(())
    }

    fn note_window(
        &mut self,
        model: &ModelKey,
        window: Option<NamedWindow>,
        at_ms: i64,
    ) -> Result<(), rusqlite::Error> {
        let (provider, address, model) = (&model.provider, &model.address, &model.model);
        match window {
            None => self.execute_cached(
                "DELETE FROM windows WHERE provider = ? AND address = ? AND model = ?",
                params![provider, address, model],
            )?,
            Some(NamedWindow { tokens, reported }) => self.execute_cached(
                "INSERT OR REPLACE INTO windows (provider, address, model, tokens, reported, at_ms) \
                 VALUES (?, ?, ?, ?, ?, ?)",
                params![
                    provider,
                    address,
                    model,
                    tokens as i64,
                    reported.map(|tokens| tokens as i64),
                    at_ms
                ],
            )?,
        };
        Ok(())
    }

    fn set_redirects(
        &mut self,
        folder: &str,
        trusted: bool,
        redirects: &[(String, String)],
        at_ms: i64,
    ) -> Result<(), rusqlite::Error> {
        if !trusted {
            // A later trust decision must not bring old redirects back.
            self.execute_cached("DELETE FROM redirects WHERE folder = ?", [folder])?;
            return Ok(());
        }
        for (provider, target) in redirects {
            self.execute_cached(
                "INSERT OR REPLACE INTO redirects (folder, provider, target, at_ms) VALUES (?, ?, ?, ?)",
                params![folder, provider, target, at_ms],
            )?;
        }
        Ok(())
    }

    fn remember_choice(
        &mut self,
        folder: &str,
        agent: &str,
        choice: &ContentChoice,
        at_ms: i64,
    ) -> Result<(), rusqlite::Error> {
        let mode = choice.mode.map(Mode::name);
        self.execute_cached(
            "INSERT INTO choices (folder, agent, model, effort, mode, at_ms) VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET model = coalesce(excluded.model, model),
                effort = coalesce(excluded.effort, effort), mode = coalesce(excluded.mode, mode),
                at_ms = excluded.at_ms",
            params![folder, agent, choice.model, choice.effort, mode, at_ms],
        )?;
        Ok(())
    }

    fn create_session(&mut self, row: &SessionRow) -> Result<(), rusqlite::Error> {
        self.remove_old_empty_sessions(row.created_ms)?;
        let SessionRow {
            id,
            folder,
            cwd,
            title,
            agent,
            mode,
            model,
            bare_model,
            effort,
            created_ms,
            updated_ms,
            last_seq,
            open_turn,
            usage,
            cost,
        } = row;
        let inserted = self.execute_cached(
            "INSERT OR IGNORE INTO sessions (id, folder, cwd, agent, mode, bare_model, created_ms, updated_ms, last_seq)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                id.as_str(),
                folder,
                cwd,
                agent,
                mode.name(),
                bare_model,
                created_ms,
                updated_ms,
                to_sql_integer(*last_seq)
            ],
        )?;
        // The cache may say that the session does not exist.
        self.sessions.remove(id);
        if inserted == 0 {
            return Ok(());
        }
        // Title and settings take the path of a change, so that search finds the title.
        if let Some(tally) = self.load_tally(id)? {
            tally.changed = true;
            tally.effect = WriteEffect {
                change: SessionChange {
                    title: title.clone(),
                    agent: None,
                    mode: None,
                    model: model.clone(),
                    effort: effort.clone(),
                },
                open_turn: Some(open_turn.clone()),
                spent: Some((*usage, *cost)),
            };
        }
        Ok(())
    }

    /// Removes old sessions in which nothing has happened, so that they do not pile up.
    fn remove_old_empty_sessions(&mut self, now_ms: i64) -> Result<(), rusqlite::Error> {
        let mut found = self.transaction.prepare_cached(&format!(
            "SELECT id FROM sessions WHERE updated_ms < ? AND NOT ({IS_LISTED})"
        ))?;
        let ids = found.query_map([now_ms - EMPTY_SESSION_DAYS * DAY_MS], |row| row.get(0))?;
        for id in ids.collect::<Result<Vec<String>, _>>()? {
            delete_session(self.transaction, &id.into())?;
        }
        Ok(())
    }

    fn apply_event(&mut self, op: &EventOp) -> Result<Option<String>, rusqlite::Error> {
        // A deleted session stays deleted, even if late events arrive.
        let Some(tally) = self.load_tally(&op.session)? else {
            return Ok(None);
        };
        let num = tally.num;
        tally.changed = true;
        tally.updated_ms = tally.updated_ms.max(op.at_ms);
        tally.last_seq = tally.last_seq.max(op.seq);
        tally.merge_change(&op.effect.change);
        if let Some(open_turn) = &op.effect.open_turn {
            tally.effect.open_turn = Some(open_turn.clone());
        }
        if let Some(spent) = op.effect.spent {
            tally.effect.spent = Some(spent);
        }
        let id = event_id(num, op.seq);
        // A number that is taken keeps its first event.
        let stored = self.execute_cached(
            "INSERT OR IGNORE INTO events (id, turn, at_ms, kind, json) VALUES (?, ?, ?, ?, ?)",
            params![
                id,
                op.turn.as_ref().map(TurnId::as_str),
                op.at_ms,
                op.kind,
                op.json
            ],
        )?;
        // A repeated event must not be found, or count as spending, twice.
        if stored == 1
            && let Some(text) = &op.searchable
        {
            self.execute_cached(
                "INSERT INTO search (rowid, text) VALUES (?, ?)",
                params![id, text],
            )?;
        }
        if stored == 1
            && let Some(day) = &op.day
        {
            self.execute_cached(
                "INSERT INTO days (day, account, server, spent, raised) VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT (day, account, server) DO UPDATE
                 SET spent = min(spent + excluded.spent, 9223372036854775807),
                     raised = min(raised + excluded.raised, 9223372036854775807)",
                params![
                    op.at_ms.div_euclid(DAY_MS),
                    day.account,
                    self.server,
                    to_sql_integer(day.spent.0),
                    to_sql_integer(day.raised.0)
                ],
            )?;
        }
        for key in &op.drops {
            self.drop_pending(num, key)?;
        }
        for put in &op.puts {
            self.put_pending(num, put)?;
        }
        Ok((stored == 0).then(|| format!("event {} of {} was there before", op.seq, op.session)))
    }

    fn put_pending(&self, session: i64, put: &PutOp) -> Result<(), rusqlite::Error> {
        // An existing row keeps its number, and thereby its place in the order.
        self.execute_cached(
            "INSERT INTO pending (session, kind, key, json) VALUES (?, ?, ?, ?)
             ON CONFLICT (session, kind, key) DO UPDATE SET json = excluded.json",
            params![session, put.key.kind.name(), put.key.key, put.json],
        )?;
        Ok(())
    }

    fn insert_changes(
        &self,
        session: i64,
        cause: &str,
        replaces_earlier: bool,
        rows: &[(String, String)],
    ) -> Result<(), rusqlite::Error> {
        if replaces_earlier {
            self.execute_cached(
                "DELETE FROM changes WHERE session = ? AND cause = ?",
                params![session, cause],
            )?;
        }
        for (path, json) in rows {
            // The state before the first change stays, and also the state before the last change. A write whose two
            // states are equal reports that the last change had no effect.
            self.execute_cached(
                "INSERT INTO changes (session, cause, path, json) VALUES (?, ?, ?, ?)
                 ON CONFLICT (session, cause, path) DO UPDATE SET json =
                 CASE json_extract(excluded.json, '$.before') = json_extract(excluded.json, '$.after')
                 WHEN TRUE THEN
                     json_remove(json_set(json, '$.after', json_extract(excluded.json, '$.after')), '$.was')
                 ELSE
                     json_set(json, '$.was', json_extract(json, '$.after'),
                         '$.after', json_extract(excluded.json, '$.after'))
                 END",
                params![session, cause, path, json],
            )?;
        }
        Ok(())
    }

    fn drop_pending(&self, session: i64, key: &PendingKey) -> Result<(), rusqlite::Error> {
        let kind = key.kind.name();
        // The key names the message; its pieces are the range of keys after it.
        if key.kind == PendingKind::Partial {
            self.execute_cached(
                "DELETE FROM pending WHERE session = ? AND kind = ? AND key >= ? AND key < ?",
                params![
                    session,
                    kind,
                    format!("{}{PIECE}", key.key),
                    format!("{}{AFTER_PIECES}", key.key)
                ],
            )?;
            return Ok(());
        }
        self.execute_cached(
            "DELETE FROM pending WHERE session = ? AND kind = ? AND key = ?",
            params![session, kind, key.key],
        )?;
        Ok(())
    }

    fn add_grant(&mut self, grant: &Grant, session: Option<&SessionId>) -> Result<(), rusqlite::Error> {
        let Grant {
            id,
            rule,
            scope,
            folder,
            at_ms,
            tool,
        } = grant;
        let session = match (scope, session) {
            (GrantScope::Workspace, _) | (GrantScope::Session, None) => None,
            (GrantScope::Session, Some(session)) => self.load_tally(session)?.map(|tally| tally.num),
        };
        // A grant for a session that does not exist (any more) would otherwise apply to the whole folder.
        if *scope == GrantScope::Session && session.is_none() {
            return Ok(());
        }
        self.execute_cached(
            "INSERT OR REPLACE INTO grants (id, session, folder, rule, at_ms, tool) VALUES (?, ?, ?, ?, ?, ?)",
            params![id, session, folder, rule, at_ms, tool.as_ref().map(encode_tool).transpose()?],
        )?;
        if let Some(tool) = tool {
            // As `Grant::replaces` says.
            self.execute_cached(
                "DELETE FROM grants WHERE folder = ? AND rule = ? AND session IS ? AND id <> ?
                 AND (tool IS NULL OR tool ->> '$.name' = ?)",
                params![folder, rule, session, id, tool.name],
            )?;
        }
        Ok(())
    }

    fn note_first_use(
        &mut self,
        folder: &str,
        tool: &GrantedTool,
        at_ms: i64,
    ) -> Result<(), rusqlite::Error> {
        self.execute_cached(
            "INSERT OR IGNORE INTO tools (folder, tool, at_ms, name) VALUES (?, ?, ?, ?)",
            params![folder, encode_tool(tool)?, at_ms, tool.name],
        )?;
        Ok(())
    }

    /// Returns the session's tally, or `None` if the session does not exist.
    fn load_tally(&mut self, session: &SessionId) -> Result<Option<&mut UsageTally>, rusqlite::Error> {
        // A missing session is cached too, so that its late events cost one query.
        if !self.sessions.contains_key(session) {
            let tally = find_session_number(self.transaction, session)?.map(|num| UsageTally {
                num,
                ..UsageTally::default()
            });
            self.sessions.insert(session.clone(), tally);
        }
        Ok(self.sessions.get_mut(session).and_then(Option::as_mut))
    }

    fn flush_tallies(self) -> Result<(), rusqlite::Error> {
        for tally in self.sessions.values().flatten().filter(|tally| tally.changed) {
            let WriteEffect {
                change,
                open_turn,
                spent,
            } = &tally.effect;
            let usage = spent.map(|(usage, _)| usage);
            self.execute_cached(
                "UPDATE sessions SET
                    updated_ms = max(updated_ms, ?), last_seq = max(last_seq, ?),
                    title = coalesce(?, title), agent = coalesce(?, agent), mode = coalesce(?, mode),
                    model = coalesce(?, model), effort = coalesce(?, effort),
                    open_turn = iif(?, ?, open_turn),
                    input = coalesce(?, input), output = coalesce(?, output),
                    cache_read = coalesce(?, cache_read), cache_write = coalesce(?, cache_write),
                    cost = iif(?, ?, cost)
                 WHERE num = ?",
                params![
                    tally.updated_ms,
                    to_sql_integer(tally.last_seq),
                    change.title,
                    change.agent,
                    change.mode.map(Mode::name),
                    change.model,
                    change.effort,
                    open_turn.is_some(),
                    open_turn.as_ref().and_then(Option::as_ref).map(TurnId::as_str),
                    usage.map(|u| to_sql_integer(u.input)),
                    usage.map(|u| to_sql_integer(u.output)),
                    usage.map(|u| to_sql_integer(u.cache_read)),
                    usage.map(|u| to_sql_integer(u.cache_write)),
                    spent.is_some(),
                    spent
                        .and_then(|(_, cost)| cost)
                        .map(|cost| to_sql_integer(cost.0)),
                    tally.num,
                ],
            )?;
            if let Some(title) = &change.title {
                self.execute_cached(
                    "INSERT OR REPLACE INTO search (rowid, text) VALUES (?, ?)",
                    params![event_id(tally.num, 0), title],
                )?;
            }
        }
        Ok(())
    }

    fn execute_cached(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize, rusqlite::Error> {
        self.transaction.prepare_cached(sql)?.execute(params)
    }
}

impl UsageTally {
    fn merge_change(&mut self, change: &SessionChange) {
        let SessionChange {
            title,
            agent,
            mode,
            model,
            effort,
        } = change;
        let mine = &mut self.effect.change;
        self.changed |= *change != SessionChange::default();
        for (mine, new) in [
            (&mut mine.title, title),
            (&mut mine.agent, agent),
            (&mut mine.model, model),
            (&mut mine.effort, effort),
        ] {
            if new.is_some() {
                mine.clone_from(new);
            }
        }
        mine.mode = mode.or(mine.mode);
    }
}

/// Finds the number by which other tables refer to the session.
pub(super) fn find_session_number(
    connection: &rusqlite::Connection,
    session: &SessionId,
) -> Result<Option<i64>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT num FROM sessions WHERE id = ?")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()
}

fn encode_tool(tool: &GrantedTool) -> Result<String, rusqlite::Error> {
    serde_json::to_string(tool).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Removes a session with all its rows.
pub(super) fn delete_session(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<(), rusqlite::Error> {
    let Some(num) = find_session_number(transaction, session)? else {
        return Ok(());
    };
    let ids = event_ids(num);
    transaction.execute("DELETE FROM search WHERE rowid BETWEEN ? AND ?", ids)?;
    transaction.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", ids)?;
    transaction.execute("DELETE FROM pending WHERE session = ?", [num])?;
    transaction.execute("DELETE FROM changes WHERE session = ?", [num])?;
    transaction.execute("DELETE FROM grants WHERE session = ?", [num])?;
    transaction.execute("DELETE FROM sessions WHERE num = ?", [num])?;
    Ok(())
}
