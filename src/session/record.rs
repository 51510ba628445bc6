//! How the actor records an event: numbered (I6), folded into its state, and queued for the store (I7).

use tokio::sync::oneshot;

use super::actor::Actor;
use super::counts::error_code;
use super::residency::LoadState;
use crate::base::backpressure::Permit;
use crate::base::clock;
use crate::base::text::one_line;
use crate::domain::{Delta, DeltaEnvelope, Envelope, Event, TurnId};
use crate::store::{PendingEvent, PendingKey, RowWrite, SessionRow, StoreWrite, StoredEvent};

/// The characters of a failed call's result that are logged.
const LOGGED_CHARS: usize = 300;

impl Actor {
    /// Numbers an event, folds it into the state, and queues it for the store.
    pub(super) fn record_event(&mut self, event: Event) {
        self.record_with(event, None, Vec::new(), Vec::new(), None);
    }

    /// Records an event, with what the store does in the same transaction.
    pub(super) fn record_with(
        &mut self,
        event: Event,
        permit: Option<Permit>,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        let turn = self.turn.as_ref().map(|turn| turn.id.clone());
        self.record_in_turn(turn, event, permit, drops, puts, done);
    }

    /// Counts and logs errors when they happen. Failures of provider calls, hooks and turns are logged where more is
    /// known.
    fn note_error(&self, event: &Event) {
        let Some(code) = error_code(event) else { return };
        self.services.totals.errors.add(1);
        let session = &self.info.id;
        let event = match event {
            Event::Nested(nested) => &nested.event,
            event => event,
        };
        match event {
            Event::ToolCall(update) => {
                let output = update
                    .result
                    .as_ref()
                    .map(|result| one_line(&result.text, LOGGED_CHARS));
                tracing::warn!(%session, code, tool = update.name, call = %update.id, error = output, "tool call failed");
            }
            Event::Warning { message, .. } => {
                tracing::warn!(%session, code, error = message, "operation failed")
            }
            _ => {}
        }
    }

    pub(super) fn record_in_turn(
        &mut self,
        turn: Option<TurnId>,
        event: Event,
        permit: Option<Permit>,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        self.create_row();
        let stored = StoredEvent {
            seq: self.journal.next_seq(),
            turn,
            at_ms: clock::wall_ms(),
            event,
        };
        // The same fold as on load, so that a loaded session is what it was.
        self.state.apply(&stored);
        self.note_error(&stored.event);
        let StoredEvent {
            seq,
            turn,
            at_ms,
            event,
        } = stored;
        self.register_question(&event);
        let envelope = Envelope {
            session: self.info.id.clone(),
            turn,
            seq,
            at_ms,
            event,
            permit,
            in_page: self.journal.is_loading_page,
        };
        self.journal.push(StoreWrite::Append {
            envelope,
            drops,
            puts,
            done,
        });
    }

    /// Passes a delta on in its place among the events. It is neither numbered nor stored.
    pub(super) fn show_delta(&mut self, delta: Delta, permit: Option<Permit>) {
        self.journal.push(StoreWrite::Delta(DeltaEnvelope {
            session: self.info.id.clone(),
            turn: self.turn.as_ref().map(|turn| turn.id.clone()),
            delta,
            permit,
            in_page: self.journal.is_loading_page,
        }));
    }

    /// Tells the registry which session has asked an open question.
    fn register_question(&self, event: &Event) {
        let live = &self.residency.live_sessions;
        match event {
            Event::ApprovalRequested(approval) => {
                live.set_approval_session(&approval.id, Some(&self.info.id))
            }
            Event::ApprovalResolved { approval, .. } => live.set_approval_session(approval, None),
            Event::InquiryRequested(inquiry) => live.set_inquiry_session(&inquiry.id, Some(&self.info.id)),
            Event::InquiryResolved { inquiry, .. } => live.set_inquiry_session(&inquiry.id, None),
            _ => {}
        }
    }

    /// Stores a new session before its first event. The row of its creation may be gone, or was never written.
    pub(super) fn create_row(&mut self) {
        if self.residency.stage == LoadState::New {
            self.residency.stage = LoadState::Open;
            let row = self.session_row();
            self.journal
                .push(StoreWrite::Row(RowWrite::CreateSession(Box::new(row))));
        }
    }

    pub(super) fn session_row(&self) -> SessionRow {
        let mut row = SessionRow::new(
            self.info.id.clone(),
            self.info.folder.display().to_string(),
            self.info.cwd.display().to_string(),
            self.metrics.started_at,
        );
        row.agent.clone_from(&self.info.agent);
        row.mode = self.state.choice.mode;
        row.model.clone_from(&self.state.choice.model);
        row.effort = self.state.choice.effort.map(|effort| effort.name().to_owned());
        row
    }
}
