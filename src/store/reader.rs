//! Reading what was committed: rows, pages, pending values, grants, trust. Never writes; sees what was
//! committed when it asks (after a barrier: all that was sent before).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::apply::{event_id, event_ids, find_session_number, seq_of};
use super::error::StoreError;
use super::files::{DataDir, StorePlace};
use super::records::{self, Worded};
use super::rows::{
    ContentChoice, EventPage, LoadedSession, PendingEvent, PendingKey, PendingKind, SessionPage,
    SessionQuery, SessionRow, Skipped, StoredEvent, Window,
};
use super::{schema, search};
use crate::domain::{
    ApprovalId, Cost, FileChange, Grant, GrantScope, InquiryId, Mode, OpenApproval, OpenInquiry, SessionId,
    TurnId, Usage,
};

/// How many idle connections are kept open.
const IDLE: usize = 2;

/// How many events [`EventCursor`] reads at a time.
const CHUNK: usize = 1_000;

/// Reads the store. Cheap to clone; connections are opened when needed. All methods give nothing, not an
/// error, where there is no store yet.
#[derive(Clone, Debug)]
pub struct StoreReader {
    folder: DataDir,
    place: StorePlace,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl StoreReader {
    pub(super) fn new(folder: DataDir, place: StorePlace) -> Self {
        Self {
            folder,
            place,
            idle: Arc::default(),
        }
    }

    /// Sessions, newest first.
    ///
    /// # Errors
    /// [`StoreError::BadCursor`], or the store cannot be read; so it is for all methods here.
    pub async fn list_sessions(&self, query: SessionQuery) -> Result<SessionPage, StoreError> {
        self.read(move |connection| search::list_sessions(connection, &query))
            .await
    }

    /// A session's row.
    pub async fn read_session(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        let session = session.clone();
        self.read(move |connection| Ok(find_session(connection, &session)?.map(|(_, row)| row)))
            .await
    }

    /// A session with a page of its events and all that is pending, read at one moment.
    pub async fn load_session(
        &self,
        session: &SessionId,
        window: Window,
        limit: usize,
    ) -> Result<Option<LoadedSession>, StoreError> {
        let session = session.clone();
        self.read(move |connection| {
            let Some((num, row)) = find_session(connection, &session)? else {
                return Ok(None);
            };
            let (pending, skipped) = pending_of(connection, num)?;
            Ok(Some(LoadedSession {
                session: row,
                page: read_page(connection, num, window, limit)?,
                pending,
                skipped,
            }))
        })
        .await
    }

    /// A page of a session's events.
    pub async fn read_events(
        &self,
        session: &SessionId,
        window: Window,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let session = session.clone();
        self.read(
            move |connection| match find_session_number(connection, &session)? {
                Some(num) => read_page(connection, num, window, limit),
                None => Ok(EventPage::default()),
            },
        )
        .await
    }

    /// All events of a session after `seq`, in pages, for a fold.
    pub fn walk_events(&self, session: &SessionId, after: u64) -> EventCursor {
        EventCursor {
            reader: self.clone(),
            session: session.clone(),
            after: Some(after),
        }
    }

    /// All events of one turn.
    pub async fn read_turn(&self, session: &SessionId, turn: &TurnId) -> Result<EventPage, StoreError> {
        let (session, turn) = (session.clone(), turn.clone());
        self.read(
            move |connection| match find_session_number(connection, &session)? {
                Some(num) => events_of_turn(connection, num, &turn),
                None => Ok(EventPage::default()),
            },
        )
        .await
    }

    /// One event by its number; what is wrong with it where it cannot be read.
    pub async fn read_event(
        &self,
        session: &SessionId,
        seq: u64,
    ) -> Result<Option<Result<StoredEvent, Skipped>>, StoreError> {
        let session = session.clone();
        self.read(move |connection| {
            let Some(num) = find_session_number(connection, &session)? else {
                return Ok(None);
            };
            let mut statement =
                connection.prepare_cached("SELECT id, turn, at_ms, kind, json FROM events WHERE id = ?")?;
            Ok(statement
                .query_row([event_id(num, seq)], |row| Ok(stored_event(row)))
                .optional()?)
        })
        .await
    }

    /// The last end of a turn; none where there is none, or it cannot be read.
    pub async fn last_end(&self, session: &SessionId) -> Result<Option<StoredEvent>, StoreError> {
        let session = session.clone();
        self.read(move |connection| {
            let Some(num) = find_session_number(connection, &session)? else {
                return Ok(None);
            };
            // Along the primary key, from the end: little comes after it.
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

    /// What is pending in a session, in the order it was accepted, and what of it could not be read.
    pub async fn read_pending(
        &self,
        session: &SessionId,
    ) -> Result<(Vec<PendingEvent>, Vec<Skipped>), StoreError> {
        let session = session.clone();
        self.read(
            move |connection| match find_session_number(connection, &session)? {
                Some(num) => pending_of(connection, num),
                None => Ok(Default::default()),
            },
        )
        .await
    }

    /// What was made of files in a session, in the order that it was: the turn or the revert, and the change; of more
    /// than one of the same file what all but the last came to, and the last.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_changes(&self, session: &SessionId) -> Result<Vec<(String, FileChange)>, StoreError> {
        let session = session.clone();
        self.read(move |connection| {
            let mut changes = Vec::new();
            let Some(num) = find_session_number(connection, &session)? else {
                return Ok(changes);
            };
            let mut statement = connection
                .prepare_cached("SELECT cause, path, json FROM changes WHERE session = ? ORDER BY num")?;
            let mut rows = statement.query([num])?;
            while let Some(row) = rows.next()? {
                let (cause, path, json): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                // A torn one is left out: that file is not taken back.
                for change in records::decode_change(&path, &json).unwrap_or_default() {
                    changes.push((cause.clone(), change));
                }
            }
            Ok(changes)
        })
        .await
    }

    /// The turns of a session, in order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list_turns(&self, session: &SessionId) -> Result<Vec<TurnId>, StoreError> {
        let session = session.clone();
        self.read(move |connection| {
            let Some(num) = find_session_number(connection, &session)? else {
                return Ok(Vec::new());
            };
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

    /// The session that has this approval open.
    pub async fn asked_by(&self, approval: &ApprovalId) -> Result<Option<SessionId>, StoreError> {
        self.find_owner(PendingKey::for_approval(approval)).await
    }

    /// The session that has this inquiry open.
    pub async fn inquired_by(&self, inquiry: &InquiryId) -> Result<Option<SessionId>, StoreError> {
        self.find_owner(PendingKey::for_inquiry(inquiry)).await
    }

    async fn find_owner(&self, key: PendingKey) -> Result<Option<SessionId>, StoreError> {
        self.read(move |connection| {
            // Without an index: what is pending is little.
            let mut statement = connection.prepare_cached(
                "SELECT sessions.id FROM pending JOIN sessions ON sessions.num = pending.session
                 WHERE pending.kind = ? AND pending.key = ?",
            )?;
            let found = statement.query_row([key.kind.as_word(), &key.key], |row| row.get::<_, String>(0));
            Ok(found.optional()?.map(SessionId::from))
        })
        .await
    }

    /// All open questions that are not decided, in the order they were first asked. One that cannot be read is
    /// left out; loading its session tells of it.
    pub async fn open_approvals(&self) -> Result<Vec<(SessionId, OpenApproval)>, StoreError> {
        let asked = |pending| match pending {
            PendingEvent::Approval(asked) => Some(asked),
            _ => None,
        };
        self.open([PendingKind::Approval, PendingKind::Decision], asked)
            .await
    }

    /// The same of inquiries.
    pub async fn open_inquiries(&self) -> Result<Vec<(SessionId, OpenInquiry)>, StoreError> {
        let asked = |pending| match pending {
            PendingEvent::Inquiry(asked) => Some(asked),
            _ => None,
        };
        self.open([PendingKind::Inquiry, PendingKind::Reply], asked).await
    }

    async fn open<T: Send + 'static>(
        &self,
        kinds: [PendingKind; 2],
        asked: fn(PendingEvent) -> Option<T>,
    ) -> Result<Vec<(SessionId, T)>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT sessions.id, asked.kind, asked.key, asked.json FROM pending AS asked
                 JOIN sessions ON sessions.num = asked.session
                 WHERE asked.kind = ?1 AND NOT EXISTS (SELECT 1 FROM pending WHERE session = asked.session
                    AND kind = ?2 AND key = asked.key)
                 ORDER BY asked.num",
            )?;
            let mut rows = statement.query(kinds.map(PendingKind::as_word))?;
            let mut open = Vec::new();
            while let Some(row) = rows.next()? {
                let session = SessionId::from(row.get::<_, String>(0)?);
                if let Ok(pending) = pending_row(row, 1)
                    && let Some(asked) = asked(pending)
                {
                    open.push((session, asked));
                }
            }
            Ok(open)
        })
        .await
    }

    /// What a day has cost and its limits were raised by, by account, but for what this server wrote.
    pub async fn spent_elsewhere(&self, day: i64) -> Result<Vec<(String, Cost, Cost)>, StoreError> {
        let server = self.folder.server_id().to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT account, sum(spent), sum(raised) FROM days WHERE day = ? AND server <> ?
                 GROUP BY account ORDER BY account",
            )?;
            let cost = |nanos: i64| Cost(u64::try_from(nanos).unwrap_or_default());
            let rows = statement.query_map(params![day, server], |row| {
                Ok((row.get(0)?, cost(row.get(1)?), cost(row.get(2)?)))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// What was allowed in a folder, and in the session if one is given; oldest first.
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
                "SELECT id, rule, session IS NOT NULL, folder, at_ms FROM grants
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
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Whether there is a grant of that id, of whatever session or folder.
    pub async fn has_grant(&self, grant: &str) -> Result<bool, StoreError> {
        let grant = grant.to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT 1 FROM grants WHERE id = ?")?;
            Ok(statement.exists([grant])?)
        })
        .await
    }

    /// All folders that a person said to trust.
    pub async fn trusted_folders(&self) -> Result<BTreeSet<PathBuf>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT folder FROM trust WHERE trusted")?;
            let mut rows = statement.query(())?;
            let mut folders = BTreeSet::new();
            while let Some(row) = rows.next()? {
                folders.insert(PathBuf::from(row.get::<_, String>(0)?));
            }
            Ok(folders)
        })
        .await
    }

    /// The redirects that a person accepted, of all folders.
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

    /// Whether a folder is trusted; none when nobody has said.
    pub async fn read_trust(&self, folder: &str) -> Result<Option<bool>, StoreError> {
        let folder = folder.to_owned();
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT trusted FROM trust WHERE folder = ?")?;
            Ok(statement.query_row([folder], |row| row.get(0)).optional()?)
        })
        .await
    }

    /// What a person chose last in a folder, with the agent of that name (empty: the default agent).
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
                // A mode of a newer agentls is not guessed.
                mode: mode.as_deref().and_then(Mode::from_word),
            }))
        })
        .await
    }

    /// Reads at one moment of the store, with an idle connection or a new one.
    async fn read<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (folder, idle) = (self.folder.clone(), self.idle.clone());
        let read = move || {
            let kept = lock(&idle).pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => match schema::open_existing(&folder.database_path())? {
                    Some(connection) => connection,
                    None => return Ok(T::default()),
                },
            };
            let transaction = connection.transaction()?;
            let found = work(&transaction)?;
            drop(transaction);
            let mut idle = lock(&idle);
            if idle.len() < IDLE {
                idle.push(connection);
            }
            Ok(found)
        };
        self.place.run_work(read).await
    }
}

fn lock(idle: &Mutex<Vec<Connection>>) -> std::sync::MutexGuard<'_, Vec<Connection>> {
    // What a reader that panicked leaves behind is a list of good connections.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a session's events page by page.
#[derive(Debug)]
pub struct EventCursor {
    reader: StoreReader,
    session: SessionId,
    after: Option<u64>,
}

impl EventCursor {
    /// The next page; none at the end.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next(&mut self) -> Result<Option<EventPage>, StoreError> {
        let Some(after) = self.after else {
            return Ok(None);
        };
        let page = self
            .reader
            .read_events(&self.session, Window::After(after), CHUNK)
            .await?;
        let Some((_, last)) = page.span else {
            self.after = None;
            return Ok(None);
        };
        self.after = page.more_after.then_some(last);
        Ok(Some(page))
    }
}

/// Columns of [`session_row`], with `num` first.
pub(super) const SESSION: &str =
    "num, id, folder, cwd, title, agent, mode, model, effort, created_ms, updated_ms,
     last_seq, open_turn, input, output, cache_read, cache_write, cost";

/// A session and its number.
pub(super) fn session_row(row: &Row<'_>) -> Result<(i64, SessionRow), rusqlite::Error> {
    let text = |at| row.get::<_, String>(at);
    let count = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let session = SessionRow {
        id: text(1)?.into(),
        folder: text(2)?,
        cwd: text(3)?,
        title: row.get(4)?,
        agent: row.get(5)?,
        // A mode that only a later version knows is treated as the strictest.
        mode: Mode::from_word(&text(6)?).unwrap_or(Mode::Plan),
        model: row.get(7)?,
        effort: row.get(8)?,
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

fn find_session(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<(i64, SessionRow)>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {SESSION} FROM sessions WHERE id = ?"))?
        .query_row([session.as_str()], session_row)
        .optional()
}

/// The three ways to page, all along the primary key.
pub(super) const FORWARD: &str =
    "SELECT id, turn, at_ms, kind, json FROM events WHERE id > ? AND id <= ? ORDER BY id LIMIT ?";
pub(super) const BACKWARD: &str =
    "SELECT id, turn, at_ms, kind, json FROM events WHERE id < ? AND id > ? ORDER BY id DESC LIMIT ?";
pub(super) const OF_TURN: &str =
    "SELECT id, turn, at_ms, kind, json FROM events WHERE turn = ? AND id BETWEEN ? AND ? ORDER BY id";

fn read_page(
    connection: &Connection,
    num: i64,
    window: Window,
    limit: usize,
) -> Result<EventPage, StoreError> {
    let (first, last) = event_ids(num);
    // One more than asked for tells whether there is more.
    let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let (sql, from, to) = match window {
        Window::After(seq) => (FORWARD, event_id(num, seq), last),
        Window::Before(seq) => (BACKWARD, event_id(num, seq), first),
        Window::Tail => (BACKWARD, last + 1, first),
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
        Window::After(_) => page.more_after = more,
        Window::Before(_) | Window::Tail => {
            page.more_before = more;
            found.reverse();
        }
    }
    page.take(found);
    match window {
        Window::After(seq) => {
            let edge = page.span.map_or(seq.saturating_add(1), |(first, _)| first);
            page.more_before = has_event_beyond(connection, BACKWARD, num, edge)?;
        }
        Window::Before(seq) => {
            let edge = page.span.map_or(seq.saturating_sub(1), |(_, last)| last);
            page.more_after = has_event_beyond(connection, FORWARD, num, edge)?;
        }
        Window::Tail => {}
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
    fn take(&mut self, found: Vec<(u64, Result<StoredEvent, Skipped>)>) {
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

/// The event of a row, or what is wrong with it (R-SESS-4).
pub(super) fn stored_event(row: &Row<'_>) -> Result<StoredEvent, Skipped> {
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
    read().map_err(|why: String| Skipped {
        record: format!("event {seq}"),
        why,
    })
}

fn pending_of(connection: &Connection, num: i64) -> Result<(Vec<PendingEvent>, Vec<Skipped>), StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT kind, key, json FROM pending WHERE session = ? ORDER BY num")?;
    let mut rows = statement.query([num])?;
    let (mut pending, mut skipped) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match pending_row(row, 0) {
            Ok(value) => pending.push(value),
            Err(why) => skipped.push(Skipped {
                record: format!("{} {}", text(row, 0).unwrap_or("?"), text(row, 1).unwrap_or("?")),
                why,
            }),
        }
    }
    Ok((pending, skipped))
}

/// The pending value of a row whose kind, key and JSON begin at the column `at`.
fn pending_row(row: &Row<'_>, at: usize) -> Result<PendingEvent, String> {
    let (kind, key) = (text(row, at)?, text(row, at + 1)?);
    records::decode_pending(kind, key, text(row, at + 2)?).map_err(|e| e.to_string())
}

fn text<'r>(row: &'r Row<'_>, at: usize) -> Result<&'r str, String> {
    row.get_ref(at)
        .map_err(|e| e.to_string())?
        .as_str()
        .map_err(|e| e.to_string())
}
