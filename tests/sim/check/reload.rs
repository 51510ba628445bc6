//! Compares the store with what was shown, after a crash, a shutdown or a quiet moment. The store must
//! contain everything shown (I7) and everything the server accepted (I16).

use std::collections::BTreeMap;

use super::Checker;
use super::memory::{CallEnd, ShownCall, ShownInquiry, ShownQuestion, ShownSession, is_permission};
use super::spent::CountedTokens;
use super::typed::{TypedAnswer, TypedKind, label_of};
use crate::files::WrittenFiles;
use agentls::base::clock;
use agentls::domain::{Event, FileChange, MessageId, Mode, Role, SessionId, TurnState, TurnTrigger};
use agentls::store::{PendingEvent, SessionRow, StoredEvent};

/// The stored state of a session.
pub(crate) struct ReloadedSession {
    pub(crate) row: SessionRow,
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) pending: Vec<PendingEvent>,
    pub(crate) changes: Vec<FileChange>,
}

impl Checker {
    /// A new server run starts from the state in the store.
    pub(crate) fn check_restart(
        &mut self,
        files: &WrittenFiles,
        mut found: BTreeMap<SessionId, ReloadedSession>,
    ) {
        let lost = std::mem::take(&mut self.lost);
        let lossy = std::mem::take(&mut self.degraded) || lost;
        self.lossy |= lossy;
        let changes = found
            .iter()
            .map(|(id, found)| (id.clone(), found.changes.clone()));
        self.files_left(files, &changes.collect::<Vec<_>>(), self.lossy);
        self.crashed_at = clock::wall_ms() - crate::simulation::RESTART_PAUSE_MS;
        self.reloading = true;
        self.in_hand.clear();
        self.circuits.clear();
        for typed in self.typed.values_mut() {
            typed.excused |= typed.answer.is_none() || lossy;
        }
        for session in self.session_ids() {
            if let Some(shown_session) = self.sessions.get_mut(&session) {
                shown_session.compactions = 0;
                shown_session.cut_short |= lossy;
            }
            let checked = match found.remove(&session) {
                Some(found) => self.check_reloaded_session(&session, found, lossy, lost),
                None => self.check_missing_session(&session),
            };
            if let Err(violation) = checked {
                return self.record_violation(format!("after a restart: {session}: {violation}"));
            }
        }
        // Nothing reports the tokens of an answer that a crash cut.
        for shown_session in self.sessions.values_mut() {
            shown_session.tokens = CountedTokens::default();
        }
        self.reloading = false;
        self.deleting.clear();
        self.ending = false;
        let cut = std::mem::take(&mut self.forking) > 0;
        found.retain(|session, _| !self.strays.contains(session));
        if cut {
            self.strays.extend(found.into_keys());
        } else if let Some(session) = found.keys().next() {
            self.record_violation(format!(
                "the store contains session {session}, which the user never created"
            ));
        }
    }

    /// At a quiet moment, the store contains exactly what was shown.
    pub(crate) fn compare_with_store(&mut self, found: &BTreeMap<SessionId, ReloadedSession>) {
        if self.degraded || self.lost {
            return;
        }
        for (session, shown_session) in &self.sessions {
            let checked = match found.get(session) {
                Some(found) if found.events.len() != shown_session.events.len() => Err(format!(
                    "I7: the store contains {} events; {} were shown",
                    found.events.len(),
                    shown_session.events.len()
                )),
                Some(found) => shown_session
                    .is_stored(found)
                    .and_then(|()| shown_session.fits_row(found))
                    .and_then(|()| shown_session.check_queue_progress())
                    .and_then(|()| shown_session.check_all_usage_reported()),
                None if shown_session.events.is_empty() => Ok(()),
                None => Err("I7: the store does not contain the session".to_owned()),
            };
            if let Err(violation) = checked {
                return self.record_violation(format!("at rest: {session}: {violation}"));
            }
        }
    }

    fn check_missing_session(&mut self, session: &SessionId) -> Result<(), String> {
        let deleted = self.deleting.contains(session);
        if !deleted
            && self
                .sessions
                .get(session)
                .is_some_and(|shown_session| shown_session.safe > 0)
        {
            return Err("I7: the store lost the session".to_owned());
        }
        if !deleted {
            // The daily totals no longer include what the session cost.
            self.money.note_lost_events();
        }
        self.forget_session(session);
        Ok(())
    }

    fn check_reloaded_session(
        &mut self,
        session: &SessionId,
        found: ReloadedSession,
        lossy: bool,
        lost: bool,
    ) -> Result<(), String> {
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        let shown_count = shown_session.events.len();
        shown_session.granted = None;
        // The time that the server was down does not count toward the bound on cancels.
        shown_session
            .cancels
            .iter_mut()
            .for_each(|cancel| cancel.at = clock::wall_ms());
        let is_cut_off =
            lost && (found.events.len() != shown_count || shown_session.is_stored(&found).is_err());
        if is_cut_off {
            self.replace_session(session, &found);
            return self.check_reloaded_session(session, found, lossy, false);
        }
        if found.events.len() < shown_session.safe {
            return Err(format!(
                "I7: the store contains {} events; at least {} had been stored",
                found.events.len(),
                shown_session.safe
            ));
        }
        shown_session.is_stored(&found)?;
        if found.events.len() < shown_count {
            self.replace_session(session, &found);
        } else {
            for stored in &found.events[shown_count..] {
                self.log_line(format!("stored unseen: {session} {stored:?}"));
                self.check_stored_event(session, stored.clone())?;
            }
        }
        self.is_kept(session, &found, lossy)?;
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        shown_session.safe = shown_session.events.len();
        shown_session.sent.clear();
        shown_session.cancels.clear();
        shown_session.reverted = None;
        shown_session.last_sent.clear();
        shown_session.matched.clear();
        if shown_session.cut != shown_session.fold.turns.open_turn {
            shown_session.cut.clone_from(&shown_session.fold.turns.open_turn);
            shown_session.cut_at = self.crashed_at;
        }
        let open = shown_session.fold.open.approvals.len();
        shown_session.modes = [
            vec![shown_session.fold.choice.mode],
            shown_session.unconfirmed.clone(),
        ]
        .concat();
        if lossy {
            shown_session.rules.clear();
        }
        let fits = shown_session.fits_row(&found);
        self.count_many("question open over a night", open);
        fits
    }

    /// I16: the store contains everything the server accepted.
    fn is_kept(&mut self, session: &SessionId, found: &ReloadedSession, lossy: bool) -> Result<(), String> {
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        // After a restart the user does not expect the queue to start a turn.
        shown_session.is_paused |=
            (found.pending.iter()).any(|pending| matches!(pending, PendingEvent::Queued { .. }));
        (shown_session.sent_now, shown_session.due) = (false, None);
        let mut steers = Vec::new();
        for pending in &found.pending {
            match pending {
                PendingEvent::Steer { content, .. } | PendingEvent::Queued { content, .. } => {
                    steers.extend(label_of(content));
                }
                PendingEvent::Partial { message, .. } => shown_session.is_open(message)?,
                PendingEvent::Decision { .. }
                | PendingEvent::Approval(_)
                | PendingEvent::Inquiry(_)
                | PendingEvent::Reply { .. } => {}
            }
        }
        for (label, typed) in self
            .typed
            .iter_mut()
            .filter(|(_, typed)| typed.session == *session)
        {
            let (is_pending, is_settled) = (steers.contains(label), typed.is_settled());
            // If the store lost records, input that a turn returned or the user removed may be queued again.
            if is_pending && (typed.joined.is_some() || (is_settled || typed.removed) && !lossy) {
                return Err(format!(
                    "I16: #{label} was delivered, returned or removed, but the store lists it as pending"
                ));
            }
            typed.removed &= !is_pending;
            typed.returned = typed.returned.take().filter(|_| !is_pending);
            if is_pending
                && lossy
                && matches!(
                    (typed.kind, &typed.answer),
                    (TypedKind::Queued, Some(TypedAnswer::Accepted(_)))
                )
            {
                typed.answer = Some(TypedAnswer::Waits(None));
            }
            match &typed.answer {
                // The server answers a prompt at its turn's end; if no event shows the turn, the user never
                // learned of it.
                Some(TypedAnswer::Accepted(turn)) => {
                    typed.excused |=
                        typed.kind == TypedKind::Prompt && !shown_session.turns.contains_key(turn);
                }
                Some(TypedAnswer::Waits(_)) if !typed.removed => {}
                _ => continue,
            }
            if !is_settled && !typed.excused && !is_pending {
                return Err(format!("I16: the server accepted #{label} but lost it"));
            }
        }
        for (id, question) in &mut shown_session.approvals {
            let is_pending = found
                .pending
                .iter()
                .any(|pending| matches!(pending, PendingEvent::Decision { approval, .. } if approval == id));
            if question.accepted.is_some() && question.open && !is_pending {
                if !lossy {
                    return Err(format!(
                        "I16: the server accepted the decision on {id} but lost it"
                    ));
                }
                question.accepted = None;
            }
        }
        for (id, known) in &mut shown_session.inquiries {
            let is_pending = found
                .pending
                .iter()
                .any(|pending| matches!(pending, PendingEvent::Reply { inquiry, .. } if inquiry == id));
            if known.accepted.is_some() && known.open && !is_pending {
                if !lossy {
                    return Err(format!("I16: the server accepted the answer to {id} but lost it"));
                }
                known.accepted = None;
            }
        }
        for change in std::mem::take(&mut shown_session.confirmed) {
            if !lossy
                && !shown_session
                    .events
                    .iter()
                    .any(|stored| confirms(&stored.event, &change))
            {
                return Err(format!("I16: the server confirmed {change} but lost it"));
            }
        }
        Ok(())
    }

    /// Relearns the session from the store, because the failing store lost events that were shown.
    fn replace_session(&mut self, session: &SessionId, found: &ReloadedSession) {
        let events = &found.events;
        self.log_line(format!("{session} has {} events left", events.len()));
        self.count_case("events lost, as warned");
        self.money.note_lost_events();
        self.mcp.forget_runs(session);
        let Some(old) = self.sessions.remove(session) else {
            return;
        };
        for typed in self.typed.values_mut().filter(|typed| typed.session == *session) {
            (typed.joined, typed.returned, typed.excused) = (None, None, true);
        }
        let mut shown_session = ShownSession::new(old.first_mode);
        shown_session.base = found.row.last_seq - events.len() as u64;
        shown_session.is_cut_off = old.is_cut_off || shown_session.base > 0;
        shown_session.cut_short = old.cut_short;
        shown_session.rules_sent = old.rules_sent;
        shown_session.modes = old.modes;
        shown_session.unconfirmed = old.unconfirmed;
        shown_session.is_first_mode_known = old.agent.is_none() && old.is_first_mode_known;
        shown_session.cancels = old.cancels;
        shown_session.abandoned = old.abandoned;
        shown_session.closing = old.closing;
        shown_session.messages = old.messages;
        shown_session
            .messages
            .values_mut()
            .for_each(|shown_message| shown_message.end = None);
        for stored in events {
            shown_session.learn_event(stored);
            self.learn_typed(stored);
        }
        for (id, question) in old.approvals {
            if let Some(known) = shown_session.approvals.get_mut(&id) {
                known.sent = question.sent;
            }
        }
        for (id, old_inquiry) in old.inquiries {
            if let Some(known) = shown_session.inquiries.get_mut(&id) {
                known.sent = old_inquiry.sent;
            }
        }
        self.sessions.insert(session.clone(), shown_session);
    }

    fn learn_typed(&mut self, stored: &StoredEvent) {
        match &stored.event {
            Event::Message(message) if message.role == Role::User => {
                let typed = label_of(&message.content).and_then(|label| self.typed.get_mut(&label));
                if let Some(typed) = typed {
                    typed.joined.clone_from(&stored.turn);
                }
            }
            Event::TurnEnded(end) => {
                for label in end.unused_steers.iter().filter_map(|content| label_of(content)) {
                    if let Some(typed) = self.typed.get_mut(&label) {
                        typed.returned.clone_from(&stored.turn);
                    }
                }
            }
            _ => {}
        }
    }
}

impl ShownSession {
    /// I7: the stored events equal the events shown.
    fn is_stored(&self, found: &ReloadedSession) -> Result<(), String> {
        match self
            .events
            .iter()
            .zip(&found.events)
            .find(|(shown_event, stored)| shown_event != stored)
        {
            None => Ok(()),
            Some((shown_event, stored)) => Err(format!(
                "I7: the store contains {stored:?}; the event shown was {shown_event:?}"
            )),
        }
    }

    /// The session's row and its open requests follow from the events.
    fn fits_row(&self, found: &ReloadedSession) -> Result<(), String> {
        let (fold, row) = (&self.fold, &found.row);
        let open: Vec<_> = found
            .pending
            .iter()
            .filter_map(|pending| match pending {
                PendingEvent::Approval(open) => Some(open),
                _ => None,
            })
            .collect();
        let inquiries = found.pending.iter().filter_map(|pending| match pending {
            PendingEvent::Inquiry(open) => Some(open),
            _ => None,
        });
        if self.is_cut_off {
            return Ok(());
        }
        if !inquiries.eq(&fold.open.inquiries) {
            return Err(format!(
                "the pending inquiries in the store differ from those of the events: {:?}",
                fold.open.inquiries
            ));
        }
        let expected_mode = if self.has_mode_choice() {
            fold.choice.mode
        } else {
            self.mode_without_choice(row.mode)
        };
        let fits = row.last_seq == self.base + self.events.len() as u64
            && row.open_turn == fold.turns.open_turn
            && row.title == fold.choice.title
            && row.mode == expected_mode
            && (self.agent).is_none_or(|agent| row.agent.as_deref().unwrap_or("default") == agent)
            && row.usage == fold.spending.usage
            && row.cost == fold.spending.cost
            && (fold.choice.model.is_none() || row.model == fold.choice.model)
            && open.iter().copied().eq(&fold.open.approvals);
        if fits {
            Ok(())
        } else {
            Err(format!(
                "the store has {row:?} and {open:?}; the events give {} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                self.events.len(),
                fold.turns.open_turn,
                fold.choice.title,
                fold.choice.mode,
                fold.choice.model,
                fold.spending.usage,
                fold.spending.cost,
                fold.open.approvals
            ))
        }
    }

    /// The mode of the session unless its user chose one. `found` if only the server knows it.
    pub(super) fn mode_without_choice(&self, found: Mode) -> Mode {
        if self.is_first_mode_known {
            self.first_mode
        } else {
            found
        }
    }

    /// Whether the user has chosen a mode in the session.
    pub(super) fn has_mode_choice(&self) -> bool {
        let is_choice =
            |stored: &StoredEvent| matches!(stored.event, Event::SessionUpdated { mode: Some(_), .. });
        self.events.iter().any(is_choice)
    }

    /// The store keeps partial text only for messages in progress.
    fn is_open(&self, message: &MessageId) -> Result<(), String> {
        match self
            .messages
            .get(message)
            .and_then(|shown_message| shown_message.end)
        {
            None => Ok(()),
            Some(end) => Err(format!(
                "I5: the store keeps partial text of message {message}, which has ended as {end:?}"
            )),
        }
    }

    /// Records an event without checks.
    pub(super) fn learn_event(&mut self, stored: &StoredEvent) {
        if let Some(turn) = &stored.turn {
            let known = self.turns.entry(turn.clone()).or_default();
            match &stored.event {
                Event::TurnStarted { by, resumes } => {
                    known.resumes = resumes.is_some();
                    known.upkeep = *by == TurnTrigger::Compact;
                    known.queued = *by == TurnTrigger::Queue;
                }
                Event::TurnEnded(end) => {
                    known.ended = true;
                    self.is_paused = !matches!(end.state, TurnState::Completed | TurnState::Degraded);
                }
                Event::Transition { .. } => known.transitions += 1,
                Event::Usage { step, .. } => {
                    known.usage += *step;
                    known.nudge_tokens = known.nudge_tokens.map(|tokens| tokens + step.output);
                }
                Event::Message(message) if message.role == Role::User && !message.hidden => {
                    known.prompts += 1
                }
                _ => {}
            }
            if let Event::Message(message) = &stored.event {
                self.messages.entry(message.id.clone()).or_default().end = Some(CallEnd::Done);
                for (id, name, input) in message.tool_uses() {
                    let call = ShownCall {
                        turn: turn.clone(),
                        name: name.to_owned(),
                        input: input.clone(),
                        status: None,
                        foreign: self.foreign.clone(),
                    };
                    self.calls.insert(id.clone(), call);
                }
            }
        }
        match &stored.event {
            Event::MessageRetracted { message, .. } => {
                self.messages.entry(message.clone()).or_default().end = Some(CallEnd::Retracted);
            }
            Event::ToolCall(update) => {
                if let (Some(turn), Some(_)) = (&stored.turn, &update.parent) {
                    self.calls.entry(update.id.clone()).or_insert_with(|| ShownCall {
                        turn: turn.clone(),
                        name: update.name.clone(),
                        input: update.input.clone().unwrap_or_default(),
                        status: None,
                        foreign: self.foreign.clone(),
                    });
                }
                if let Some(call) = self.calls.get_mut(&update.id) {
                    call.status = Some(update.status);
                    if let Some(turn) = &stored.turn {
                        call.turn.clone_from(turn);
                    }
                }
            }
            Event::ApprovalRequested(approval) => {
                let question = ShownQuestion {
                    call: approval.tool_call.clone(),
                    name: approval.name.clone(),
                    open: true,
                    sent: Vec::new(),
                    accepted: None,
                    allowed: false,
                };
                self.approvals.insert(approval.id.clone(), question);
            }
            Event::ApprovalResolved {
                approval, decision, ..
            } => {
                if let Some(question) = self.approvals.get_mut(approval) {
                    (question.open, question.allowed) = (false, is_permission(decision.kind));
                }
            }
            Event::InquiryRequested(inquiry) => {
                let open = ShownInquiry {
                    open: true,
                    ..ShownInquiry::default()
                };
                self.inquiries.insert(inquiry.id.clone(), open);
            }
            Event::InquiryResolved { inquiry, .. } => {
                if let Some(known) = self.inquiries.get_mut(&inquiry.id) {
                    known.open = false;
                }
            }
            _ => {}
        }
        self.fold.apply(stored);
        self.comes_from_outside(&stored.event);
        self.events.push(stored.clone());
    }
}

/// Whether the event shows the change that the server confirmed.
fn confirms(event: &Event, change: &str) -> bool {
    let Event::SessionUpdated { title, mode, .. } = event else {
        return false;
    };
    title
        .as_ref()
        .is_some_and(|title| change == format!("title {title}"))
        || mode.is_some_and(|mode| change == format!("mode {mode}"))
}
