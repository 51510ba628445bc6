//! Makes a session live: takes its lock, folds its events, and repairs what a crash has cut.
//!
//! While a session is only shown, its row and a page are enough (R-SESS-2); folding waits until something is done with
//! it. The repairs themselves are in `finish`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::actor::Actor;
use super::command::{CommandError, PartialMessage, SessionInfo};
use super::residency::LoadState;
use super::state::SessionState;
use crate::domain::{
    ApprovalId, Block, ContentRef, Decision, Event, InquiryId, InquiryReply, MessageId, OpenApproval,
    OpenInquiry, SessionId, TurnId, TurnState,
};
use crate::store::{
    Holder, LockError, OutputStore, PendingEvent, SkippedRow, Spool, StoreError, StoreHandle, StoreHealth,
    StoreWrite,
};
use crate::tool::{ContentSink, ContentWriter};

/// How long to wait for a session that another server is releasing (R-SESS-1).
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The state in which a session was left.
enum HistoryRest {
    Quiet,
    /// It has a turn without an end, a message in progress, an open question, or messages that no model has seen.
    Unsettled,
}

impl Actor {
    /// Makes the session live, unless it is, and reports unreadable records.
    pub(super) async fn open(&mut self) -> Result<(), CommandError> {
        self.take_lock().await?;
        match self.residency.stage {
            LoadState::New | LoadState::Open => {}
            LoadState::Stored | LoadState::Held => self.fold_events().await?,
        }
        let skipped = std::mem::take(&mut self.journal.skipped);
        if let Some(message) = SkippedRow::format_warning(&self.info.id, &skipped) {
            self.emit_warning(SkippedRow::CODE, message);
        }
        Ok(())
    }

    /// Takes the session over to show it. Its events are folded only if something must be repaired, because the page
    /// must contain the repair. So a long session shows immediately (R-SESS-2). Unreadable records are left in
    /// `skipped`.
    pub(super) async fn load_for_display(&mut self) -> Result<(), CommandError> {
        self.take_lock().await?;
        if self.residency.stage != LoadState::Stored {
            return Ok(());
        }
        match self.read_row().await {
            Ok(HistoryRest::Quiet) => {
                self.residency.stage = LoadState::Held;
                Ok(())
            }
            Ok(HistoryRest::Unsettled) => self.fold_events().await,
            Err(refused) => {
                self.residency.lock = None;
                Err(refused)
            }
        }
    }

    async fn take_lock(&mut self) -> Result<(), CommandError> {
        if self.residency.lock.is_some() {
            return Ok(());
        }
        let holder = Holder::for_this_process((self.services.client_name)());
        // No other server can know a session that was just created.
        let wait = if self.residency.stage == LoadState::Stored {
            LOCK_WAIT
        } else {
            Duration::ZERO
        };
        match self
            .services
            .store
            .locks
            .acquire_session(&self.info.id, &holder, wait)
            .await
        {
            Ok(lock) => self.residency.lock = Some(lock),
            // A disk that takes no lock file does not stop work in memory (R-ERR-2). The next command tries again.
            Err(LockError::Store(error)) if self.residency.stage != LoadState::Stored => {
                self.warn_unlocked(&error)
            }
            Err(error) => return Err(self.lock_refused(error)),
        }
        Ok(())
    }

    fn warn_unlocked(&mut self, error: &StoreError) {
        if std::mem::replace(&mut self.residency.warned_unlocked, true) {
            return;
        }
        let message = format!(
            "session {} continues without its lock; do not open it in another server: {error}",
            self.info.id
        );
        self.emit_warning("session_unlocked", message);
    }

    /// Sends a warning that is not stored with the session.
    fn emit_warning(&mut self, code: &'static str, message: String) {
        tracing::warn!(session = %self.info.id, code, "{message}");
        self.journal.push(StoreWrite::Warn { code, message });
    }

    /// Reads the session's own data without taking it over.
    pub(super) async fn ensure_row_loaded(&mut self) -> Result<(), CommandError> {
        if self.residency.stage == LoadState::Stored {
            self.read_row().await?;
        }
        Ok(())
    }

    /// Counts the events of a session that is not open, from the last counted one on.
    pub(super) async fn count_stored_events(&mut self) {
        if matches!(self.residency.stage, LoadState::New | LoadState::Open) {
            return;
        }
        let reader = self.services.store.reader.clone();
        let mut pages = reader.walk_events(&self.info.id, self.state.counts.through);
        loop {
            match pages.next().await {
                Ok(Some(page)) => {
                    for stored in &page.events {
                        self.state.counts.apply(stored.seq, &stored.event);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(session = %self.info.id, %error, "events were not counted");
                    return;
                }
            }
        }
    }

    /// Reads the session's row and pending records, without its events.
    async fn read_row(&mut self) -> Result<HistoryRest, CommandError> {
        let reader = self.services.store.reader.clone();
        let row = reader
            .read_session(&self.info.id)
            .await
            .map_err(to_command_error)?;
        let row = row.ok_or_else(|| CommandError::UnknownSession(self.info.id.clone()))?;
        self.take_row(&row);
        self.journal.seq = row.last_seq;
        let (pending, torn) = reader
            .read_pending(&self.info.id)
            .await
            .map_err(to_command_error)?;
        self.journal.skipped = torn;
        let last_end = reader.last_end(&self.info.id).await.map_err(to_command_error)?;
        self.state.last_end = last_end.and_then(|stored| match (stored.turn, stored.event) {
            (Some(turn), Event::TurnEnded(end)) => {
                self.state.queue_paused = !matches!(end.state, TurnState::Completed | TurnState::Degraded);
                Some((turn, end.reason))
            }
            _ => None,
        });
        // Its turn runs in another server, or was cut by a crash and waits for repair.
        self.residency.is_running_elsewhere = self.state.open_turn.is_some()
            && self.residency.lock.is_none()
            && self.services.store.locks.is_held(&self.info.id).unwrap_or(false);
        self.state.approvals = open_approvals(&pending);
        self.state.inquiries = open_inquiries(&pending);
        self.questions.decisions = recorded_decisions(&pending);
        self.questions.replies = recorded_replies(&pending);
        self.partial.message = partial_messages(&pending, self.state.open_turn.as_ref()).pop();
        self.take_queue(&pending);
        // Queued prompts need no repair.
        let settled = pending
            .iter()
            .all(|row| matches!(row, PendingEvent::Queued { .. }));
        let quiet = self.state.open_turn.is_none() && settled && self.journal.skipped.is_empty();
        Ok(if quiet {
            HistoryRest::Quiet
        } else {
            HistoryRest::Unsettled
        })
    }

    fn take_row(&mut self, row: &crate::store::SessionRow) {
        self.info = SessionInfo {
            id: row.id.clone(),
            folder: row.folder.clone().into(),
            cwd: row.cwd.clone().into(),
            agent: row.agent.clone(),
        };
        self.metrics.started_at = row.created_ms;
        self.state.title.clone_from(&row.title);
        self.state.mode = row.mode;
        self.state.model.clone_from(&row.model);
        self.state.effort = row.effort.as_deref().and_then(crate::provider::Effort::from_name);
        self.state.usage = row.usage;
        self.state.cost = row.cost;
        self.state.open_turn.clone_from(&row.open_turn);
    }

    /// Folds all events, then repairs what a crash has cut. If that fails, the session is released.
    async fn fold_events(&mut self) -> Result<(), CommandError> {
        let folded = self.read_all().await;
        if folded.is_err() {
            self.residency.stage = LoadState::Stored;
            self.residency.lock = None;
        }
        folded
    }

    async fn read_all(&mut self) -> Result<(), CommandError> {
        let reader = self.services.store.reader.clone();
        let row = reader
            .read_session(&self.info.id)
            .await
            .map_err(to_command_error)?;
        let row = row.ok_or_else(|| CommandError::UnknownSession(self.info.id.clone()))?;
        // From scratch: the fold must not add to what was read from the row.
        self.state = SessionState::default();
        self.take_row(&row);
        // The fold finds the open turn itself.
        self.state.open_turn = None;
        let mut skipped = Vec::new();
        let mut pages = reader.walk_events(&self.info.id, 0);
        while let Some(page) = pages.next().await.map_err(to_command_error)? {
            for stored in &page.events {
                self.state.apply(stored);
            }
            skipped.extend(page.skipped);
        }
        // The counter is this process's own once it has counted calls.
        if self.resources.statistics.requests.get() == 0 {
            self.resources.statistics.requests.add(self.state.counts.requests);
        }
        // The row is written together with the events. If it knows more, the record that said so was torn.
        self.state.usage = row.usage;
        self.state.cost = row.cost;
        self.state.known_cost = self.state.known_cost.max(row.cost.unwrap_or_default());
        self.journal.seq = row.last_seq;
        let (pending, torn) = reader
            .read_pending(&self.info.id)
            .await
            .map_err(to_command_error)?;
        skipped.extend(torn);
        self.state.approvals = open_approvals(&pending);
        self.state.inquiries = open_inquiries(&pending);
        let folder = self.info.folder.display().to_string();
        self.questions.grants = reader
            .list_grants(&folder, Some(&self.info.id))
            .await
            .map_err(to_command_error)?;
        self.residency.stage = LoadState::Open;
        // Clients answer by the id alone, so the registry must know where it belongs.
        for open in &self.state.approvals {
            self.residency
                .live_sessions
                .set_approval_session(&open.approval.id, Some(&self.info.id));
        }
        for open in &self.state.inquiries {
            self.residency
                .live_sessions
                .set_inquiry_session(&open.inquiry.id, Some(&self.info.id));
        }
        self.questions.decisions = recorded_decisions(&pending);
        self.questions.replies = recorded_replies(&pending);
        self.partial.message = None;
        self.inbox.steers = pending_steers(&pending);
        self.take_queue(&pending);
        self.repair_after_crash(partial_messages(&pending, self.state.open_turn.as_ref()));
        self.journal.skipped = skipped;
        Ok(())
    }

    /// Rereads the grants: those of the folder may have been added by another session or server.
    ///
    /// # Errors
    /// A newer agentls has migrated the store, so nothing that begins now could be kept (R-SESS-5).
    pub(super) async fn refresh_grants(&mut self) -> Result<(), CommandError> {
        if self.questions.has_new_grants {
            // Grants of this session may not be on the disk yet. While the disk fails, memory has the newest state.
            match self.flush().await {
                Ok(StoreHealth::Ok) => self.questions.has_new_grants = false,
                Ok(StoreHealth::Degraded { .. } | StoreHealth::Gone(_)) | Err(_) => return Ok(()),
            }
        }
        let folder = self.info.folder.display().to_string();
        match self
            .services
            .store
            .reader
            .list_grants(&folder, Some(&self.info.id))
            .await
        {
            Ok(grants) => self.questions.grants = grants,
            Err(error @ StoreError::NewerSchema { .. }) => return Err(to_command_error(error)),
            Err(error) => tracing::warn!(%error, "grants were not read"),
        }
        Ok(())
    }

    fn lock_refused(&self, error: LockError) -> CommandError {
        match error {
            LockError::Held { holder } => CommandError::Locked {
                session: self.info.id.clone(),
                holder,
            },
            LockError::Store(StoreError::BadName(_)) => CommandError::UnknownSession(self.info.id.clone()),
            LockError::Store(error) => to_command_error(error),
        }
    }

    /// Returns the storage of this session's long outputs.
    pub(super) fn content_sink(&self) -> Arc<dyn ContentSink> {
        Arc::new(SessionSink {
            content: self.services.store.content.clone(),
            session: self.info.id.clone(),
        })
    }
}

/// Returns the messages in progress of the open turn. Records of other turns are left over from a full store that lost
/// the records that settled them.
fn partial_messages(pending: &[PendingEvent], open: Option<&TurnId>) -> Vec<PartialMessage> {
    let mut partials = Vec::new();
    for row in pending {
        if let PendingEvent::Partial {
            message,
            before,
            turn,
            text,
            reasoning,
        } = row
            && turn.as_ref() == open
        {
            join(&mut partials, message.clone(), *before, text, reasoning);
        }
    }
    partials
}

fn pending_steers(pending: &[PendingEvent]) -> VecDeque<(String, Vec<Block>)> {
    let steer = |row: &PendingEvent| match row {
        PendingEvent::Steer { key, content, .. } => Some((key.clone(), content.clone())),
        _ => None,
    };
    pending.iter().filter_map(steer).collect()
}

/// Appends a piece to its message. A piece after a gap (the disk failed, and memory was full) is dropped.
fn join(partials: &mut Vec<PartialMessage>, message: MessageId, before: u64, text: &str, reasoning: &str) {
    let place = partials.iter().position(|partial| partial.message == message);
    let place = place.unwrap_or_else(|| {
        partials.push(PartialMessage::from_message_id(message));
        partials.len() - 1
    });
    let partial = &mut partials[place];
    if before == (partial.text.len() + partial.reasoning.len()) as u64 {
        partial.text.push_str(text);
        partial.reasoning.push_str(reasoning);
    }
}

fn open_approvals(pending: &[PendingEvent]) -> Vec<OpenApproval> {
    pending
        .iter()
        .filter_map(|row| match row {
            PendingEvent::Approval(open) => Some(open.clone()),
            _ => None,
        })
        .collect()
}

fn recorded_decisions(pending: &[PendingEvent]) -> HashMap<ApprovalId, Decision> {
    pending
        .iter()
        .filter_map(|row| match row {
            PendingEvent::Decision { approval, decision } => Some((approval.clone(), decision.clone())),
            _ => None,
        })
        .collect()
}

fn open_inquiries(pending: &[PendingEvent]) -> Vec<OpenInquiry> {
    pending
        .iter()
        .filter_map(|row| match row {
            PendingEvent::Inquiry(open) => Some(open.clone()),
            _ => None,
        })
        .collect()
}

fn recorded_replies(pending: &[PendingEvent]) -> HashMap<InquiryId, InquiryReply> {
    pending
        .iter()
        .filter_map(|row| match row {
            PendingEvent::Reply { inquiry, reply } => Some((inquiry.clone(), reply.clone())),
            _ => None,
        })
        .collect()
}

pub(super) fn to_command_error(error: StoreError) -> CommandError {
    CommandError::Store(Box::new(error.into()))
}

/// Waits until everything that was sent is on the disk.
///
/// # Errors
/// The disk fails, or the store has ended.
pub(super) async fn wait_until_stored(writes: &StoreHandle) -> Result<(), CommandError> {
    all_stored(writes.flush_writes().await.map_err(to_command_error)?)
}

/// Rejects an operation that needs the data on the disk while the store is not healthy.
pub(super) fn all_stored(health: StoreHealth) -> Result<(), CommandError> {
    match health {
        StoreHealth::Ok => Ok(()),
        StoreHealth::Degraded { .. } => Err(to_command_error(StoreError::NotWritable)),
        StoreHealth::Gone(loss) => Err(to_command_error(loss.into())),
    }
}

struct SessionSink {
    content: OutputStore,
    session: SessionId,
}

impl ContentSink for SessionSink {
    fn create_writer(&self, name: &str) -> Result<Box<dyn ContentWriter>, String> {
        match self.content.open_spool(&self.session, name) {
            Ok(spool) => Ok(Box::new(SpoolWriter(spool))),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct SpoolWriter(Spool);

impl ContentWriter for SpoolWriter {
    fn append_text(&mut self, text: &str) -> Result<(), String> {
        self.0.append_text(text).map_err(|error| error.to_string())
    }

    fn finish(self: Box<Self>) -> Result<ContentRef, String> {
        self.0.finish().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_up_to_a_gap() {
        let mut partials = Vec::new();
        for (message, before, text, reasoning) in [
            ("m", 0, "", "hm"),
            ("n", 0, "other", ""),
            ("m", 2, "on", "e"),
            ("m", 5, " and", ""),
            ("m", 12, "after a gap", ""),
            ("n", 4, "overlaps", ""),
        ] {
            join(&mut partials, message.into(), before, text, reasoning);
        }
        let joined: Vec<_> = partials
            .iter()
            .map(|p| (p.text.as_str(), p.reasoning.as_str()))
            .collect();
        assert_eq!(joined, [("on and", "hme"), ("other", "")]);
    }
}
