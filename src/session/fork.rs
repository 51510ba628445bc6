//! Forks a session at the end of a turn: copies its events under new numbers, and shares its stored outputs and files.
//!
//! Grants of the session (R-APPR-3) and everything that waits in it are not copied. The original is only read.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::SessionManager;
use super::checkpoints::is_of;
use super::command::{CommandError, SessionCommand};
use super::services::wait_until_stored;
use crate::base::{clock, text};
use crate::domain::{
    ApprovalId, Envelope, Event, FileChange, SessionId, ToolCallStatus, ToolCallUpdate, ToolResult, TurnId,
};
use crate::store::{RowWrite, SessionRow, StoreWrite, StoredEvent};

/// The characters to which a title is cut.
const TITLE: usize = 200;

impl SessionManager {
    /// Creates a session from `id` up to the end of `turn`, or of the last finished turn. Returns its id and title.
    ///
    /// # Errors
    /// There is no such session or turn, no turn has ended, or the store fails.
    pub async fn fork_session(
        &self,
        id: &SessionId,
        turn: Option<TurnId>,
    ) -> Result<(SessionId, Option<String>), CommandError> {
        let load = |reply| SessionCommand::Load {
            read_only: true,
            reply,
        };
        let loaded = self.send_request(id, load).await?;
        // An error means that the store ended with the server; then use what it has.
        let _ = loaded.passed.await;
        let store = &self.services().store;
        // What only memory has would be missing from the fork.
        wait_until_stored(&store.writes).await?;
        let row = store.reader.read_session(id).await?;
        let row = row.ok_or_else(|| CommandError::NothingToFork(id.clone()))?;
        let is_empty = row.last_seq == 0 && turn.is_none();
        let last = if is_empty {
            0
        } else {
            self.last_event(id, turn).await?
        };
        let fork = SessionId::new_random();
        store.content.share_files(id, &fork).await?;
        let title = row
            .title
            .as_ref()
            .map(|title| text::one_line(&format!("{title} (fork)"), TITLE));
        let new = SessionRow {
            title: title.clone(),
            agent: row.agent.clone(),
            mode: row.mode,
            model: row.model.clone(),
            bare_model: row.bare_model.clone(),
            effort: row.effort.clone(),
            ..SessionRow::new(fork.clone(), row.folder, row.cwd, clock::wall_ms())
        };
        let writes = &store.writes;
        writes
            .send(StoreWrite::Row(RowWrite::CreateSession(Box::new(new))))
            .await?;
        // Known before copying, because a question must not be copied without its answer.
        let settled = self.settled_approvals(id, last).await?;
        let mut turns = Vec::new();
        let mut open = BTreeMap::new();
        let mut seq = 0;
        let mut put = async |turn, at_ms, event| {
            seq += 1;
            let stored = StoredEvent {
                seq,
                turn,
                at_ms,
                event,
            };
            writes.send(append_event_write(&fork, stored)).await
        };
        let mut pages = store.reader.walk_events(id, 0);
        while let Some(page) = pages.next().await? {
            for stored in page.events.into_iter().filter(|stored| stored.seq <= last) {
                match (&stored.event, &stored.turn) {
                    (Event::TurnStarted { .. }, Some(turn)) => turns.push(turn.clone()),
                    (Event::ToolCall(update), _) if update.status.is_final() => _ = open.remove(&update.id),
                    (Event::ToolCall(update), _) => _ = open.insert(update.id.clone(), update.clone()),
                    _ => {}
                }
                if let Some(event) = taken_along(stored.event, &settled) {
                    put(stored.turn, stored.at_ms, event).await?;
                }
            }
        }
        // I4: every copied call needs its one result.
        for call in open.into_values() {
            put(None, clock::wall_ms(), Event::ToolCall(not_taken(call))).await?;
        }
        if let Some(title) = &title {
            let named = Event::SessionUpdated {
                title: Some(title.clone()),
                mode: None,
                model: None,
                effort: None,
            };
            put(None, clock::wall_ms(), named).await?;
        }
        self.take_changes_along(id, &fork, &turns).await?;
        wait_until_stored(writes).await?;
        Ok((fork, title))
    }

    /// Returns the approvals that are settled up to an event.
    async fn settled_approvals(
        &self,
        id: &SessionId,
        last: u64,
    ) -> Result<HashSet<ApprovalId>, CommandError> {
        let mut settled = HashSet::new();
        let mut pages = self.services().store.reader.walk_events(id, 0);
        while let Some(page) = pages.next().await? {
            let events = page.events.into_iter().filter(|stored| stored.seq <= last);
            settled.extend(events.filter_map(|stored| match stored.event {
                Event::ApprovalResolved { approval, .. } => Some(approval),
                _ => None,
            }));
        }
        Ok(settled)
    }

    /// Returns the number of the end of `turn`, or of the last finished turn.
    async fn last_event(&self, id: &SessionId, turn: Option<TurnId>) -> Result<u64, CommandError> {
        let reader = &self.services().store.reader;
        let Some(turn) = turn else {
            let end = reader.last_end(id).await?;
            let end = end.ok_or_else(|| CommandError::NothingToFork(id.clone()))?;
            return Ok(end.seq);
        };
        let page = reader.read_turn(id, &turn).await?;
        let end = page
            .events
            .iter()
            .find(|stored| matches!(stored.event, Event::TurnEnded(_)));
        end.map(|end| end.seq).ok_or(CommandError::UnknownTurn(turn))
    }

    /// Copies the file changes of the turns, so that they can be reverted in the fork too.
    async fn take_changes_along(
        &self,
        id: &SessionId,
        fork: &SessionId,
        turns: &[TurnId],
    ) -> Result<(), CommandError> {
        let store = &self.services().store;
        let changes = store.reader.read_changes(id).await?;
        for turn in turns {
            let mut parts: BTreeMap<&str, Vec<FileChange>> = BTreeMap::new();
            for (of, change) in changes.iter().filter(|(of, _)| is_of(of, turn)) {
                parts.entry(of).or_default().push(change.clone());
            }
            for (cause, changes) in parts {
                let (done, stored) = tokio::sync::oneshot::channel();
                let write = StoreWrite::Changes {
                    session: fork.clone(),
                    cause: cause.to_owned(),
                    replaces_earlier: true,
                    changes,
                    done,
                };
                store.writes.send(write).await?;
                // Notified once the store has it. If the store ends, the barrier after it reports that.
                let _ = stored.await;
            }
        }
        Ok(())
    }
}

/// Ends a call that awaits approval in the original session.
fn not_taken(call: ToolCallUpdate) -> ToolCallUpdate {
    let reason = "not run: it awaits approval in the original session";
    ToolCallUpdate {
        status: ToolCallStatus::Cancelled,
        input: None,
        result: Some(Arc::new(ToolResult::error(reason))),
        diff: None,
        locations: Vec::new(),
        ..call
    }
}

/// Returns the event for the fork, or `None` if it is not part of the conversation.
fn taken_along(mut event: Event, settled: &HashSet<ApprovalId>) -> Option<Event> {
    match &mut event {
        // A question has one answer, so an open one stays in the original session only.
        Event::ApprovalRequested(approval) if !settled.contains(&approval.id) => return None,
        // Nothing waits in the fork, and a day's limit was raised only once.
        Event::QueueChanged(_) | Event::InquiryRequested(_) | Event::InquiryResolved { .. } => return None,
        // The cost occurred once: without a provider it is not added to the day again.
        Event::Usage { provider, .. } => *provider = None,
        _ => {}
    }
    Some(event)
}

fn append_event_write(fork: &SessionId, stored: StoredEvent) -> StoreWrite {
    StoreWrite::Append {
        envelope: Envelope {
            session: fork.clone(),
            turn: stored.turn,
            seq: stored.seq,
            at_ms: stored.at_ms,
            event: stored.event,
            permit: None,
            // Clients that want the fork load it.
            in_page: true,
        },
        drops: Vec::new(),
        puts: Vec::new(),
        done: None,
    }
}
