//! Repairs what a crash has cut, or what a full store has lost, when a session is loaded.
//!
//! The rules are those of a turn's end, which is in `finish`. This module must not read the store.

use std::sync::Arc;

use super::actor::Actor;
use super::command::PartialMessage;
use super::finish::incomplete_message;
use super::messages::user_message;
use crate::context::OpenCall;
use crate::domain::{Approval, Event, ResolvedBy, TerminalReason, ToolCallStatus, TurnEnd, TurnId};

/// Precedes the text of a lost message.
const UNSETTLED: &str = "input sent to an earlier turn was lost; send it again if it still matters";

impl Actor {
    /// Repairs what a crash has cut, or what a full store has lost.
    pub(super) fn repair_after_crash(&mut self, partials: Vec<PartialMessage>) {
        self.repair_turn(partials);
        self.repair_strays();
    }

    /// Settles records that no turn waits for, because a full store lost the records that settled them.
    ///
    /// A steer is returned as a warning, never sent in a turn that it was not meant for (I16). A question about a
    /// finished call is closed. A call without a question may have run, and must not run twice.
    fn repair_strays(&mut self) {
        self.settle_subagents(None);
        let open: Vec<OpenCall> = self.state.history.open_calls().cloned().collect();
        for call in open {
            if self.state.question_about(&call.id).is_none()
                && self.state.find_inquiry_of_call(&call.id).is_none()
            {
                self.answer_call(
                    &call,
                    ToolCallStatus::Cancelled,
                    "interrupted; what it did was not stored",
                );
            }
        }
        let (keys, steers) = self.take_unused_steers();
        for (key, content) in keys.into_iter().zip(steers) {
            let text = user_message(content).text();
            let warning = Event::Warning {
                code: "steer_unsettled".to_owned(),
                message: format!("{UNSETTLED}: {text}"),
            };
            self.record_with(warning, None, vec![key], Vec::new(), None);
        }
        let is_awaited = |approval: &Approval| {
            let mut open = self.state.history.open_calls();
            open.any(|call| call.id == approval.tool_call)
        };
        let orphaned: Vec<Approval> = (self.state.open.approvals.iter().map(|open| &open.approval))
            .filter(|approval| !is_awaited(approval))
            .cloned()
            .collect();
        for approval in orphaned {
            self.questions.take_decision(&approval.id);
            self.deny_approval(&approval, ResolvedBy::Cancel);
        }
        // Only the server's end leaves inquiries open.
        let stopped = (self.state.turns.last_end.as_ref()).map(|(_, reason)| *reason);
        if stopped != Some(TerminalReason::ServerStopped) {
            self.drop_inquiries(ResolvedBy::Cancel);
        } else {
            self.drop_lapsed_inquiries();
        }
    }

    /// Gives a turn that a crash has cut its end (R-CANCEL): the unfinished message, the results, the end.
    fn repair_turn(&mut self, partials: Vec<PartialMessage>) {
        let Some(turn) = self.state.turns.open_turn.clone() else {
            return;
        };
        for message in partials.into_iter().filter_map(incomplete_message) {
            self.record_in_turn(
                Some(turn.clone()),
                Event::Message(Arc::new(message)),
                None,
                vec![],
                vec![],
                None,
            );
        }
        self.settle_subagents(Some(turn.clone()));
        // Calls with an open question stay open, so that a resumed turn can ask again (R-APPR-4).
        let mut waiting_calls: Vec<_> = self
            .state
            .open
            .approvals
            .iter()
            .map(|open| open.approval.tool_call.clone())
            .collect();
        let own = self
            .state
            .open
            .inquiries
            .iter()
            .map(|open| open.inquiry.tool_call());
        waiting_calls.extend(own.flatten().cloned());
        let open: Vec<OpenCall> = self.state.history.open_calls().cloned().collect();
        for call in open.iter().filter(|call| !waiting_calls.contains(&call.id)) {
            self.repair_call(&turn, call);
        }
        if self.state.turns.is_compaction {
            self.repair_inquiries(&turn);
        }
        let (drops, unused_steers) = self.take_unused_steers();
        let reason = TerminalReason::ServerStopped;
        let (usage, cost) = self.state.turns.turn_spent;
        let end = TurnEnd {
            reason,
            state: reason.to_turn_state(false),
            usage,
            cost,
            error: None,
            unused_steers,
        };
        self.record_in_turn(Some(turn), Event::TurnEnded(end), None, drops, vec![], None);
    }

    /// Settles what a compaction has asked; it ends with the compaction.
    fn repair_inquiries(&mut self, turn: &TurnId) {
        let open: Vec<_> = (self.state.open.inquiries.iter())
            .map(|open| open.inquiry.clone())
            .collect();
        for inquiry in open {
            self.questions.take_reply(&inquiry.id);
            let resolved = Event::InquiryResolved {
                reply: inquiry.default_reply(),
                inquiry,
                by: ResolvedBy::Rule,
            };
            self.record_in_turn(Some(turn.clone()), resolved, None, vec![], vec![], None);
        }
    }

    fn repair_call(&mut self, turn: &TurnId, call: &OpenCall) {
        let ended = self.build_call_end(call, ToolCallStatus::Cancelled, "interrupted");
        self.record_in_turn(Some(turn.clone()), ended, None, vec![], vec![], None);
    }
}
