//! A new session of what another has up to the end of a turn: its events under new numbers, the outputs and the files
//! that were kept for it. Not what was allowed for it alone (R-APPR-3), nor what waits in it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::SessionManager;
use super::checkpoints::is_of;
use super::command::{CommandError, SessionCommand};
use super::load::{to_command_error, wait_until_stored};
use crate::base::{clock, text};
use crate::domain::{
    ApprovalId, Envelope, Event, FileChange, SessionId, ToolCallStatus, ToolCallUpdate, ToolResult, TurnId,
};
use crate::store::{SessionRow, StoreWrite, StoredEvent};

/// A title is cut to this many characters.
const TITLE: usize = 200;

impl SessionManager {
    /// A new session of `id` up to the end of `turn`, or of the last one that has ended; its id and title.
    ///
    /// # Errors
    /// There is no such session, it has no such turn or none that has ended, or the store fails.
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
        // The store ends with the server; then what it has is what there is.
        let _ = loaded.passed.await;
        let store = &self.services().store;
        // What only the memory has would be missing in the new session, and that would be missing with it.
        wait_until_stored(&store.writes).await?;
        let row = store.reader.read_session(id).await.map_err(to_command_error)?;
        let row = row.ok_or_else(|| CommandError::NothingToFork(id.clone()))?;
        let last = self.last_event(id, turn).await?;
        let fork = SessionId::new_random();
        store
            .content
            .share_files(id, &fork)
            .await
            .map_err(to_command_error)?;
        let title = row
            .title
            .as_ref()
            .map(|title| text::one_line(&format!("{title} (fork)"), TITLE));
        let new = SessionRow {
            title: title.clone(),
            agent: row.agent.clone(),
            mode: row.mode,
            model: row.model.clone(),
            effort: row.effort.clone(),
            ..SessionRow::new(fork.clone(), row.folder, row.cwd, clock::wall_ms())
        };
        let writes = &store.writes;
        writes
            .send(StoreWrite::CreateSession(Box::new(new)))
            .await
            .map_err(to_command_error)?;
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
            writes
                .send(append_event_write(&fork, stored))
                .await
                .map_err(to_command_error)
        };
        let mut pages = store.reader.walk_events(id, 0);
        while let Some(page) = pages.next().await.map_err(to_command_error)? {
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

    /// The approvals that are settled up to an event.
    async fn settled_approvals(
        &self,
        id: &SessionId,
        last: u64,
    ) -> Result<HashSet<ApprovalId>, CommandError> {
        let mut settled = HashSet::new();
        let mut pages = self.services().store.reader.walk_events(id, 0);
        while let Some(page) = pages.next().await.map_err(to_command_error)? {
            let events = page.events.into_iter().filter(|stored| stored.seq <= last);
            settled.extend(events.filter_map(|stored| match stored.event {
                Event::ApprovalResolved { approval, .. } => Some(approval),
                _ => None,
            }));
        }
        Ok(settled)
    }

    /// The number of the end of `turn`, or of the last that has ended.
    async fn last_event(&self, id: &SessionId, turn: Option<TurnId>) -> Result<u64, CommandError> {
        let reader = &self.services().store.reader;
        let Some(turn) = turn else {
            let end = reader.last_end(id).await.map_err(to_command_error)?;
            let end = end.ok_or_else(|| CommandError::NothingToFork(id.clone()))?;
            return Ok(end.seq);
        };
        let page = reader.read_turn(id, &turn).await.map_err(to_command_error)?;
        let end = page
            .events
            .iter()
            .find(|stored| matches!(stored.event, Event::TurnEnded(_)));
        end.map(|end| end.seq).ok_or(CommandError::UnknownTurn(turn))
    }

    /// What its turns changed of files can be taken back in the new session too.
    async fn take_changes_along(
        &self,
        id: &SessionId,
        fork: &SessionId,
        turns: &[TurnId],
    ) -> Result<(), CommandError> {
        let store = &self.services().store;
        let changes = store.reader.read_changes(id).await.map_err(to_command_error)?;
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
                    anew: true,
                    changes,
                    done,
                };
                store.writes.send(write).await.map_err(to_command_error)?;
                // It is told once the store has it; where the store ends, the barrier after it says so.
                let _ = stored.await;
            }
        }
        Ok(())
    }
}

/// A call that waits for an answer, in the session that it waits in: in the new one it is over.
fn not_taken(call: ToolCallUpdate) -> ToolCallUpdate {
    let why = "not run: it awaits approval in the original session";
    ToolCallUpdate {
        status: ToolCallStatus::Cancelled,
        input: None,
        result: Some(Arc::new(ToolResult::error(why))),
        diff: None,
        locations: Vec::new(),
        ..call
    }
}

/// The event as the new session has it; none where it is no part of what was said and done.
fn taken_along(mut event: Event, settled: &HashSet<ApprovalId>) -> Option<Event> {
    match &mut event {
        // One question has one answer: what is open is asked in the session that it was asked in.
        Event::ApprovalRequested(approval) if !settled.contains(&approval.id) => return None,
        // Nothing waits in the new session, and a day's limit was raised once.
        Event::QueueChanged(_)
        | Event::InquiryRequested(_)
        | Event::InquiryResolved { .. }
        | Event::Delta(_) => return None,
        // What it cost, it cost once: without a provider it is not added to the day.
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
            seq: Some(stored.seq),
            at_ms: stored.at_ms,
            event: stored.event,
            permit: None,
            // Whoever wants it loads it.
            in_page: true,
        },
        drops: Vec::new(),
        puts: Vec::new(),
        done: None,
    }
}
