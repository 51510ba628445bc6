//! Makes a session live with what `io` has read of it: its row, or its folded events, and what waits in it.
//!
//! While a session is only shown, its row and a page are enough (R-SESS-2); folding waits until something is done with
//! it. The repairs themselves are in `repair`.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::sync::Arc;

use super::actor::Actor;
use super::command::{CommandError, PartialMessage, SessionInfo};
use super::io::{StoredRow, StoredSession};
use super::residency::LoadState;
use crate::domain::{
    ApprovalId, Block, ContentRef, Decision, InquiryId, InquiryReply, MessageId, OpenApproval, OpenInquiry,
    SessionId, TurnId,
};
use crate::store::{OutputStore, PendingEvent, SessionRow, SkippedRow, Spool, StoreError, StoreWrite};
use crate::tool::{ContentSink, ContentWriter};

impl Actor {
    /// Applies a session's row and pending records. With `for_display`, the session is taken over to show it. Returns whether
    /// something of it must be repaired.
    pub(super) fn apply_row(
        &mut self,
        read: Result<Box<StoredRow>, CommandError>,
        for_display: bool,
    ) -> Result<bool, CommandError> {
        let stored = match read {
            Ok(stored) => *stored,
            Err(refused) => {
                if for_display {
                    self.residency.lock = None;
                }
                return Err(refused);
            }
        };
        self.take_row(&stored.row);
        self.state.take_row(&stored.row);
        self.state.take_last_end(stored.last_end);
        self.journal.restart_at(stored.row.last_seq, stored.skipped);
        // Its turn runs in another server, or was cut by a crash and waits for repair.
        self.residency.is_running_elsewhere = stored.is_running_elsewhere;
        self.take_questions(&stored.pending);
        self.partial.message = partial_messages(&stored.pending, self.state.turns.open_turn.as_ref()).pop();
        self.take_queue(&stored.pending);
        // Queued prompts need no repair.
        let is_queued = |row: &PendingEvent| matches!(row, PendingEvent::Queued { .. });
        let is_settled = stored.pending.iter().all(is_queued) && !self.journal.has_skipped();
        let is_quiet = self.state.turns.open_turn.is_none() && is_settled;
        if for_display && is_quiet {
            self.residency.stage = LoadState::Held;
        }
        Ok(!is_quiet)
    }

    /// Applies a whole session, and repairs what a crash has cut. If it could not be read, the session is released.
    /// With `for_display`, unreadable records are left for the page that shows them; otherwise they are reported.
    pub(super) fn apply_fold(
        &mut self,
        read: Result<Box<StoredSession>, CommandError>,
        for_display: bool,
    ) -> Result<(), CommandError> {
        let stored = match read {
            Ok(stored) => *stored,
            Err(refused) => {
                self.residency.stage = LoadState::Stored;
                self.residency.lock = None;
                return Err(refused);
            }
        };
        self.take_row(&stored.row);
        self.state = stored.state;
        // The counter is this process's own once it has counted calls.
        if self.resources.statistics.requests.get() == 0 {
            self.resources.statistics.requests.add(self.state.counts.requests);
        }
        self.journal.restart_at(stored.row.last_seq, Vec::new());
        self.take_questions(&stored.pending);
        self.questions.set_permissions(stored.permissions);
        self.residency.stage = LoadState::Open;
        self.register_open_questions();
        self.partial.message = None;
        self.inbox.set_steers(pending_steers(&stored.pending));
        self.take_queue(&stored.pending);
        // Events that repair the session are in the loaded page and must not be sent as notifications too.
        self.journal.is_loading_page = for_display;
        self.repair_after_crash(partial_messages(
            &stored.pending,
            self.state.turns.open_turn.as_ref(),
        ));
        self.journal.is_loading_page = false;
        self.journal.set_skipped(stored.skipped);
        if !for_display {
            self.report_skipped();
        }
        Ok(())
    }

    fn report_skipped(&mut self) {
        let skipped = self.journal.take_skipped();
        if let Some(message) = SkippedRow::format_warning(&self.info.id, &skipped) {
            self.emit_warning(SkippedRow::CODE, message);
        }
    }

    pub(super) fn warn_unlocked(&mut self, error: &StoreError) {
        if !self.residency.note_unlocked() {
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

    fn take_row(&mut self, row: &SessionRow) {
        self.info = SessionInfo {
            id: row.id.clone(),
            folder: row.folder.clone().into(),
            cwd: row.cwd.clone().into(),
            agent: row.agent.clone(),
        };
        self.metrics.started_at = row.created_ms;
    }

    /// Takes over the open questions from the store, with what was decided about them.
    fn take_questions(&mut self, pending: &[PendingEvent]) {
        self.state.open.approvals = open_approvals(pending);
        self.state.open.inquiries = open_inquiries(pending);
        self.questions
            .set_early(recorded_decisions(pending), recorded_replies(pending));
    }

    /// Registers the open questions. Clients answer by the id alone, so the registry must know where it belongs.
    fn register_open_questions(&self) {
        let live = &self.residency.live_sessions;
        for open in &self.state.open.approvals {
            live.set_approval_session(&open.approval.id, Some(&self.info.id));
        }
        for open in &self.state.open.inquiries {
            live.set_inquiry_session(&open.inquiry.id, Some(&self.info.id));
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
    let index = partials.iter().position(|partial| partial.message == message);
    let index = index.unwrap_or_else(|| {
        partials.push(PartialMessage::from_message_id(message));
        partials.len() - 1
    });
    let partial = &mut partials[index];
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

    fn open_reader(&self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        match self.content.open_file(&self.session, name) {
            Ok(Some(file)) => Ok(Box::new(file)),
            Ok(None) => Err("there is no such output in this session".to_owned()),
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
