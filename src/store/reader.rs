//! Reads committed data: rows, pages, pending values, grants, trust.
//!
//! Never writes. Each call sees the state at its start; after a barrier, this includes everything sent before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use super::apply::{event_id, event_ids, find_session_number, seq_of};
use super::error::StoreError;
use super::files::{self, DataDir, StorePlace};
use super::handle::WarningSender;
use super::records;
use super::recovery::{self, OpenDatabase};
use super::row_reading::{SESSION, pending_row, session_row, stored_event, text};
use super::rows::{
    ContentChoice, EventPage, EventWindow, LoadedSession, PendingEvent, PendingKey, PendingKind, SessionPage,
    SessionQuery, SessionRow, SkippedRow, StoredEvent, StoredPermissions,
};
use super::write::{ModelKey, NamedWindow};
use super::{schema, search};
use crate::domain::{
    ApprovalId, Cost, FileChange, Grant, GrantScope, GrantedTool, InquiryId, Mode, OpenApproval, OpenInquiry,
    SessionId, TurnId,
};

/// Idle connections that stay open.
const IDLE: usize = 2;

/// Events that [`EventCursor`] reads at a time.
const CHUNK: usize = 1_000;

/// Reads the store. Cheap to clone; opens connections on demand.
///
/// Without a store, all methods return an empty result, not an error.
#[derive(Clone, Debug)]
pub struct StoreReader {
    folder: DataDir,
    executor: StorePlace,
    idle: Arc<Mutex<Vec<OpenDatabase>>>,
    /// Where to report that a damaged database was replaced. Without it, none is replaced.
    warnings: Option<WarningSender>,
}

impl StoreReader {
    pub(super) fn new(folder: DataDir, executor: StorePlace) -> Self {
        Self {
            folder,
            executor,
            idle: Arc::default(),
            warnings: None,
        }
    }

    /// Lets the reader replace a damaged database, and report it.
    pub(super) fn with_warnings(mut self, warnings: WarningSender) -> Self {
        self.warnings = Some(warnings);
        self
    }

    /// Lists sessions, newest first.
    ///
    /// # Errors
    /// [`StoreError::BadCursor`] for a foreign cursor, or an error if the store cannot be read.
    pub async fn list_sessions(&self, query: SessionQuery) -> Result<SessionPage, StoreError> {
        // Whoever looks for a session must learn why it is missing.
        self.read_with(true, move |connection| search::list_sessions(connection, &query))
            .await
    }

    /// Returns a session's row.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_session(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        let session = session.clone();
        self.read(move |connection| Ok(find_session(connection, &session)?.map(|(_, row)| row)))
            .await
    }

    /// Returns a session with a page of its events and everything pending, all from the same moment.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn load_session(
        &self,
        session: &SessionId,
        window: EventWindow,
        limit: usize,
    ) -> Result<Option<LoadedSession>, StoreError> {
        let session = session.clone();
        self.read(move |connection| {
            let Some((num, row)) = find_session(connection, &session)? else {
                return Ok(None);
            };
            let (pending, skipped) = read_pending_rows(connection, num)?;
            Ok(Some(LoadedSession {
                session: row,
                page: read_page(connection, num, window, limit)?,
                pending,
                skipped,
            }))
        })
        .await
    }

    /// Returns a page of a session's events.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_events(
        &self,
        session: &SessionId,
        window: EventWindow,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        self.read_of_session(session, move |connection, num| {
            read_page(connection, num, window, limit)
        })
        .await
    }

    /// Returns a cursor over all events of a session after `seq`, in pages.
    pub fn walk_events(&self, session: &SessionId, after: u64) -> EventCursor {
        EventCursor {
            reader: self.clone(),
            session: session.clone(),
            after: Some(after),
        }
    }

    /// Returns all events of one turn.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_turn(&self, session: &SessionId, turn: &TurnId) -> Result<EventPage, StoreError> {
        let turn = turn.clone();
        self.read_of_session(session, move |connection, num| {
            events_of_turn(connection, num, &turn)
        })
        .await
    }

    /// Returns one event by its number, or the reason why it cannot be read.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_event(
        &self,
        session: &SessionId,
        seq: u64,
    ) -> Result<Option<Result<StoredEvent, SkippedRow>>, StoreError> {
        self.read_of_session(session, move |connection, num| {
            let mut statement =
                connection.prepare_cached("SELECT id, turn, at_ms, kind, json FROM events WHERE id = ?")?;
            Ok(statement
                .query_row([event_id(num, seq)], |row| Ok(stored_event(row)))
                .optional()?)
        })
        .await
    }

    /// Returns the last end of a turn, or `None` if there is none or it cannot be read.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn last_end(&self, session: &SessionId) -> Result<Option<StoredEvent>, StoreError> {
        self.read_of_session(session, move |connection, num| {
            // Scans the primary key from the end: few events follow the last end of a turn.
            let mut statement = connection.prepare_cached(
                "SELECT id, turn, at_ms, kind, json FROM events
                 WHERE id BETWEEN ? AND ? AND kind = ? ORDER BY id DESC LIMIT 1",
            )?;
            let (first, last) = event_ids(num);
            let found = statement.query_row(params![first, last, records::TURN_ENDED], |row| {
                Ok(stored_event(row))
            });
            Ok(found.optional()?.and_then(Result::ok))
        })
        .await
    }

    /// Returns the pending values of a session in the order of acceptance, and the rows that cannot be read.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_pending(
        &self,
        session: &SessionId,
    ) -> Result<(Vec<PendingEvent>, Vec<SkippedRow>), StoreError> {
        self.read_of_session(session, read_pending_rows).await
    }

    /// Returns the file changes of a session in order, each with its cause: the turn or the revert.
    ///
    /// Several changes of one file by the same cause yield two entries: the result of all but the last, and the last.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_changes(&self, session: &SessionId) -> Result<Vec<(String, FileChange)>, StoreError> {
        self.read_of_session(session, move |connection, num| {
            let mut changes = Vec::new();
            let mut statement = connection
                .prepare_cached("SELECT cause, path, json FROM changes WHERE session = ? ORDER BY num")?;
            let mut rows = statement.query([num])?;
            while let Some(row) = rows.next()? {
                let (cause, path, json): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                // A torn record is skipped, so that file cannot be reverted.
                for change in records::decode_change(&path, &json).unwrap_or_default() {
                    changes.push((cause.clone(), change));
                }
            }
            Ok(changes)
        })
        .await
    }

    /// Lists the turns of a session in order.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn list_turns(&self, session: &SessionId) -> Result<Vec<TurnId>, StoreError> {
        self.read_of_session(session, move |connection, num| {
            let (first, last) = event_ids(num);
            let mut statement = connection.prepare_cached(
                "SELECT turn FROM events WHERE id BETWEEN ? AND ? AND kind = 'turn_started' AND turn IS NOT NULL
                 ORDER BY id",
            )?;
            let turns = statement.query_map([first, last], |row| row.get::<_, String>(0))?;
            Ok(turns.map(|turn| turn.map(TurnId::from)).collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Finds the session with this open approval.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn find_approval_owner(&self, approval: &ApprovalId) -> Result<Option<SessionId>, StoreError> {
        self.find_owner(PendingKey::for_approval(approval)).await
    }

    /// Finds the session with this open inquiry.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn find_inquiry_owner(&self, inquiry: &InquiryId) -> Result<Option<SessionId>, StoreError> {
        self.find_owner(PendingKey::for_inquiry(inquiry)).await
    }

    async fn find_owner(&self, key: PendingKey) -> Result<Option<SessionId>, StoreError> {
        self.read(move |connection| {
            // Needs no index: there are few pending rows.
            let mut statement = connection.prepare_cached(
                "SELECT sessions.id FROM pending JOIN sessions ON sessions.num = pending.session
                 WHERE pending.kind = ? AND pending.key = ?",
            )?;
            let found = statement.query_row([key.kind.name(), &key.key], |row| row.get::<_, String>(0));
            Ok(found.optional()?.map(SessionId::from))
        })
        .await
    }

    /// Lists all undecided approvals, in the order of their first request.
    ///
    /// Unreadable ones are left out; loading their session reports them.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn open_approvals(&self) -> Result<Vec<(SessionId, OpenApproval)>, StoreError> {
        let into_approval = |pending| match pending {
            PendingEvent::Approval(approval) => Some(approval),
            _ => None,
        };
        self.open([PendingKind::Approval, PendingKind::Decision], into_approval)
            .await
    }

    /// Lists all unanswered inquiries, like [`Self::open_approvals`].
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn open_inquiries(&self) -> Result<Vec<(SessionId, OpenInquiry)>, StoreError> {
        let into_inquiry = |pending| match pending {
            PendingEvent::Inquiry(inquiry) => Some(inquiry),
            _ => None,
        };
        self.open([PendingKind::Inquiry, PendingKind::Reply], into_inquiry)
            .await
    }

    async fn open<T: Send + 'static>(
        &self,
        kinds: [PendingKind; 2],
        extract: fn(PendingEvent) -> Option<T>,
    ) -> Result<Vec<(SessionId, T)>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT sessions.id, request.kind, request.key, request.json FROM pending AS request
                 JOIN sessions ON sessions.num = request.session
                 WHERE request.kind = ?1 AND NOT EXISTS (SELECT 1 FROM pending WHERE session = request.session
                    AND kind = ?2 AND key = request.key)
                 ORDER BY request.num",
            )?;
            let mut rows = statement.query(kinds.map(PendingKind::name))?;
            let mut open = Vec::new();
            while let Some(row) = rows.next()? {
                let session = SessionId::from(row.get::<_, String>(0)?);
                if let Ok(pending) = pending_row(row, 1)
                    && let Some(request) = extract(pending)
                {
                    open.push((session, request));
                }
            }
            Ok(open)
        })
        .await
    }

    /// Returns a day's spending and raised limits by account, without what this server wrote.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn spent_elsewhere(&self, day: i64) -> Result<Vec<(String, Cost, Cost)>, StoreError> {
        // A running server knows its own share better than the database does.
        let server = self.folder.server_id().to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                // `sum` fails where the sum is too large; `total` and the cast end at the largest integer instead.
                "SELECT account, CAST(total(spent) AS INTEGER), CAST(total(raised) AS INTEGER)
                 FROM days WHERE day = ? AND server <> ? GROUP BY account ORDER BY account",
            )?;
            let cost = |nanos: i64| Cost(u64::try_from(nanos).unwrap_or_default());
            let rows = statement.query_map(params![day, server], |row| {
                Ok((row.get(0)?, cost(row.get(1)?), cost(row.get(2)?)))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Lists the grants of a folder, and those of `session` if given, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn list_grants(
        &self,
        folder: &str,
        session: Option<&SessionId>,
    ) -> Result<Vec<Grant>, StoreError> {
        let (folder, session) = (folder.to_owned(), session.cloned());
        self.read(move |connection| {
            let num = match &session {
                Some(session) => find_session_number(connection, session)?,
                None => None,
            };
            let mut statement = connection.prepare_cached(
                "SELECT id, rule, session IS NOT NULL, folder, at_ms, tool FROM grants
                 WHERE (session IS NULL AND folder = ?) OR session = ? ORDER BY at_ms, id",
            )?;
            let rows = statement.query_map(params![folder, num], |row| {
                Ok(Grant {
                    id: row.get(0)?,
                    rule: row.get(1)?,
                    scope: if row.get(2)? {
                        GrantScope::Session
                    } else {
                        GrantScope::Workspace
                    },
                    folder: row.get(3)?,
                    at_ms: row.get(4)?,
                    tool: decode_tool(row.get(5)?),
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Returns what answers questions of a session: the grants of its folder and its own, and the first uses of tools in
    /// the folder.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_permissions(
        &self,
        folder: &str,
        session: &SessionId,
    ) -> Result<StoredPermissions, StoreError> {
        let grants = self.list_grants(folder, Some(session)).await?;
        let folder = folder.to_owned();
        let first_uses = self
            .read(move |connection| {
                let mut statement = connection.prepare_cached("SELECT tool FROM tools WHERE folder = ?")?;
                let rows = statement.query_map([folder], |row| row.get(0))?;
                let tools: Vec<Option<String>> = rows.collect::<Result<_, _>>()?;
                let tools = tools.into_iter().filter_map(decode_tool);
                Ok(tools.map(|tool| (tool.name, tool.definition)).collect())
            })
            .await?;
        Ok(StoredPermissions { grants, first_uses })
    }

    /// Whether a grant with that id exists, in any session or folder.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn has_grant(&self, grant: &str) -> Result<bool, StoreError> {
        let grant = grant.to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT 1 FROM grants WHERE id = ?")?;
            Ok(statement.exists([grant])?)
        })
        .await
    }

    /// Returns all folders that the user trusts, with the fingerprints of what was accepted.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn trusted_folders(&self) -> Result<super::TrustedFolders, StoreError> {
        self.read(move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT folder, accepted FROM trust WHERE trusted")?;
            let mut rows = statement.query(())?;
            let mut folders = BTreeMap::new();
            while let Some(row) = rows.next()? {
                folders.insert(PathBuf::from(row.get::<_, String>(0)?), row.get(1)?);
            }
            Ok(folders)
        })
        .await
    }

    /// Returns the accepted redirects of all folders.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn list_redirects(&self) -> Result<super::AcceptedRedirects, StoreError> {
        self.read(move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT folder, provider, target FROM redirects")?;
            let rows = statement.query_map((), |row| {
                Ok((PathBuf::from(row.get::<_, String>(0)?), row.get(1)?, row.get(2)?))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Returns whether a folder is trusted, or `None` if the user never decided.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_trust(&self, folder: &str) -> Result<Option<bool>, StoreError> {
        let folder = folder.to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT trusted FROM trust WHERE folder = ?")?;
            Ok(statement.query_row([folder], |row| row.get(0)).optional()?)
        })
        .await
    }

    /// Returns the user's last choice in a folder for the agent of that name; empty for the default agent.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn read_choice(&self, folder: &str, agent: &str) -> Result<Option<ContentChoice>, StoreError> {
        let (folder, agent) = (folder.to_owned(), agent.to_owned());
        self.read(move |connection| {
            let mut statement = connection
                .prepare_cached("SELECT model, effort, mode FROM choices WHERE folder = ? AND agent = ?")?;
            let found = statement.query_row([folder, agent], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?))
            });
            Ok(found.optional()?.map(|(model, effort, mode)| ContentChoice {
                model,
                effort,
                // An unknown mode comes from a newer agentls; it is not guessed.
                mode: mode.as_deref().and_then(Mode::from_name),
            }))
        })
        .await
    }

    /// Returns the windows that providers have named, each with the time of the refusal, in ms since the epoch.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn list_windows(&self) -> Result<Vec<(ModelKey, NamedWindow, i64)>, StoreError> {
        self.read(move |connection| {
            let sql = "SELECT provider, address, model, tokens, reported, at_ms FROM windows";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let model = ModelKey {
                    provider: row.get(0)?,
                    address: row.get(1)?,
                    model: row.get(2)?,
                };
                let window = NamedWindow {
                    tokens: row.get::<_, i64>(3)?.unsigned_abs(),
                    reported: row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
                };
                Ok((model, window, row.get(5)?))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Runs `work` like [`Self::read`], with the number of the session. An unknown session has nothing to read.
    async fn read_of_session<T: Default + Send + 'static>(
        &self,
        session: &SessionId,
        work: impl FnOnce(&Connection, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let session = session.clone();
        self.read(
            move |connection| match find_session_number(connection, &session)? {
                Some(num) => work(connection, num),
                None => Ok(T::default()),
            },
        )
        .await
    }

    /// Runs `work` on one snapshot of the store, with an idle connection or a new one.
    async fn read<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_with(false, work).await
    }

    /// Runs `work` like [`Self::read`]. If a damaged database was replaced, that is an error or a warning.
    async fn read_with<T: Default + Send + 'static>(
        &self,
        fails_on_replacement: bool,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (path, idle) = (self.folder.database_path(), self.idle.clone());
        let warnings = self.warnings.clone();
        let read = move || {
            let idle_connection = lock(&idle).pop();
            // Another server, or the writer, may have replaced a damaged database.
            let idle_connection =
                idle_connection.filter(|(_, opened)| *opened == files::identify_file(&path));
            let (mut connection, file) = match idle_connection {
                Some(opened) => opened,
                None => match open_existing(&path, warnings.is_some())? {
                    Some((_, Some(notice))) if fails_on_replacement => {
                        return Err(StoreError::Replaced(notice));
                    }
                    Some((opened, notice)) => {
                        if let (Some(notice), Some(warnings)) = (notice, &warnings) {
                            warnings.send_warning(notice);
                        }
                        opened
                    }
                    None => return Ok(T::default()),
                },
            };
            // One transaction: all queries of `work` see the same snapshot.
            let found = connection
                .transaction()
                .map_err(StoreError::from)
                .and_then(|transaction| work(&transaction));
            let found = match found {
                Err(StoreError::Sqlite(error)) if recovery::is_damage(&error) => {
                    drop(connection);
                    lock(&idle).clear();
                    return Err(explain_damage(&path, error, warnings.is_some())?);
                }
                other => other?,
            };
            // Reached only without an error: a connection that failed is closed, not reused.
            let mut idle = lock(&idle);
            if idle.len() < IDLE {
                idle.push((connection, file));
            }
            Ok(found)
        };
        self.executor.run_work(read).await
    }
}

/// Opens the database for reading; returns `None` if there is no store yet. Also returns what to tell if it was replaced.
fn open_existing(
    path: &Path,
    may_replace: bool,
) -> Result<Option<(OpenDatabase, Option<String>)>, StoreError> {
    match path.try_exists() {
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(error) => return Err(StoreError::from_io("looking for", path, error)),
    }
    let opened = if may_replace {
        recovery::open(path, schema::BUSY)
    } else {
        recovery::open_as_is(path, schema::BUSY).map(|opened| (opened, None))
    };
    let (opened, notice) = match opened {
        Err(error) if error.is_denied() => (recovery::open_read_only(path).map_err(|_| error)?, None),
        opened => opened?,
    };
    // Readers never write, not even by mistake.
    opened.0.pragma_update(None, "query_only", true)?;
    Ok(Some((opened, notice)))
}

/// Replaces a database whose damage showed while it was read. Returns the error of that read.
fn explain_damage(path: &Path, error: rusqlite::Error, may_replace: bool) -> Result<StoreError, StoreError> {
    if !may_replace {
        return Ok(error.into());
    }
    let notice = recovery::repair(path)?;
    Ok(notice.map_or_else(|| error.into(), StoreError::Replaced))
}

fn lock<T>(idle: &Mutex<Vec<T>>) -> std::sync::MutexGuard<'_, Vec<T>> {
    // A panicking reader leaves a list of usable connections.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Iterates over a session's events page by page.
#[derive(Debug)]
pub struct EventCursor {
    reader: StoreReader,
    session: SessionId,
    after: Option<u64>,
}

impl EventCursor {
    /// Returns the next page, or `None` at the end.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn next(&mut self) -> Result<Option<EventPage>, StoreError> {
        let Some(after) = self.after else {
            return Ok(None);
        };
        let page = self
            .reader
            .read_events(&self.session, EventWindow::After(after), CHUNK)
            .await?;
        let Some((_, last)) = page.span else {
            self.after = None;
            return Ok(None);
        };
        self.after = page.more_after.then_some(last);
        Ok(Some(page))
    }
}

fn find_session(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<(i64, SessionRow)>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {SESSION} FROM sessions WHERE id = ?"))?
        .query_row([session.as_str()], session_row)
        .optional()
}

/// The queries for pages. All of them use the primary key or an index.
pub(super) const FORWARD: &str =
    "SELECT id, turn, at_ms, kind, json FROM events WHERE id > ? AND id <= ? ORDER BY id LIMIT ?";
pub(super) const BACKWARD: &str =
    "SELECT id, turn, at_ms, kind, json FROM events WHERE id < ? AND id > ? ORDER BY id DESC LIMIT ?";
pub(super) const OF_TURN: &str =
    "SELECT id, turn, at_ms, kind, json FROM events WHERE turn = ? AND id BETWEEN ? AND ? ORDER BY id";

fn read_page(
    connection: &Connection,
    num: i64,
    window: EventWindow,
    limit: usize,
) -> Result<EventPage, StoreError> {
    let (first, last) = event_ids(num);
    // One row more than requested tells whether there are more.
    let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let (sql, from, to) = match window {
        EventWindow::After(seq) => (FORWARD, event_id(num, seq), last),
        EventWindow::Before(seq) => (BACKWARD, event_id(num, seq), first),
        // One past the last possible id, because the query excludes its bound.
        EventWindow::Tail => (BACKWARD, last + 1, first),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![from, to, wanted])?;
    let mut found = Vec::new();
    let mut more = false;
    while let Some(row) = rows.next()? {
        if found.len() == limit {
            more = true;
            break;
        }
        found.push((seq_of(row.get(0)?), stored_event(row)));
    }
    let mut page = EventPage::default();
    match window {
        EventWindow::After(_) => page.more_after = more,
        EventWindow::Before(_) | EventWindow::Tail => {
            page.more_before = more;
            found.reverse();
        }
    }
    page.take(found);
    match window {
        EventWindow::After(seq) => {
            // An empty page still has two sides: look from the edge that was requested.
            let edge = page.span.map_or(seq.saturating_add(1), |(first, _)| first);
            page.more_before = has_event_beyond(connection, BACKWARD, num, edge)?;
        }
        EventWindow::Before(seq) => {
            let edge = page.span.map_or(seq.saturating_sub(1), |(_, last)| last);
            page.more_after = has_event_beyond(connection, FORWARD, num, edge)?;
        }
        EventWindow::Tail => {}
    }
    Ok(page)
}

/// Whether there is an event on that side of `seq`.
fn has_event_beyond(connection: &Connection, sql: &str, num: i64, seq: u64) -> Result<bool, rusqlite::Error> {
    let (first, last) = event_ids(num);
    let end = if sql == FORWARD { last } else { first };
    connection
        .prepare_cached(sql)?
        .exists(params![event_id(num, seq), end, 1])
}

fn events_of_turn(connection: &Connection, num: i64, turn: &TurnId) -> Result<EventPage, StoreError> {
    let (first, last) = event_ids(num);
    let mut statement = connection.prepare_cached(OF_TURN)?;
    let mut rows = statement.query(params![turn.as_str(), first, last])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((seq_of(row.get(0)?), stored_event(row)));
    }
    let mut page = EventPage::default();
    page.take(found);
    Ok(page)
}

impl EventPage {
    fn take(&mut self, found: Vec<(u64, Result<StoredEvent, SkippedRow>)>) {
        self.span = found
            .first()
            .zip(found.last())
            .map(|(first, last)| (first.0, last.0));
        for (_, event) in found {
            match event {
                Ok(event) => self.events.push(event),
                Err(skipped) => self.skipped.push(skipped),
            }
        }
    }
}

/// Reads the tool of a grant. One that cannot be read counts as missing, so that the grant covers no tool.
fn decode_tool(json: Option<String>) -> Option<GrantedTool> {
    serde_json::from_str(&json?).ok()
}

fn read_pending_rows(
    connection: &Connection,
    num: i64,
) -> Result<(Vec<PendingEvent>, Vec<SkippedRow>), StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT kind, key, json FROM pending WHERE session = ? ORDER BY num")?;
    let mut rows = statement.query([num])?;
    let (mut pending, mut skipped) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match pending_row(row, 0) {
            Ok(value) => pending.push(value),
            Err(reason) => skipped.push(SkippedRow {
                record: format!("{} {}", text(row, 0).unwrap_or("?"), text(row, 1).unwrap_or("?")),
                reason,
            }),
        }
    }
    Ok((pending, skipped))
}
