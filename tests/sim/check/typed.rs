//! User input and its answers: I1 (every command gets exactly one answer) and I16 (no input is lost).

use super::Checker;
use super::memory::{Cancel, is_permission};
use crate::coverage::SimFault;
use agentls::base::clock;
use agentls::domain::{Approval, Block, Decision, Event, MediaData, Mode, SessionId, TurnId};
use agentls::session::{
    CommandError, PartialMessage, SessionChoice, SessionSnapshot, SessionState, TurnOutcome,
};

/// The kind of user input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypedKind {
    Prompt,
    Steer,
    /// A prompt that waits for the end of the running turn.
    Queued,
}

/// How the server answered the input.
#[derive(Clone, Debug)]
pub(crate) enum TypedAnswer {
    Accepted(TurnId),
    /// The input is queued under this key.
    Waits(Option<String>),
    Refused(CommandError),
    /// The sender disconnected before the answer.
    Unanswered,
}

/// One user input; its text begins with its label.
pub(super) struct TypedInputs {
    pub(super) session: SessionId,
    pub(super) kind: TypedKind,
    pub(super) answer: Option<TypedAnswer>,
    /// The turn whose history the input joined.
    pub(super) joined: Option<TurnId>,
    /// The turn that returned the input at its end.
    pub(super) returned: Option<TurnId>,
    /// The input may be lost: a crash came before the answer, or while the store was failing.
    pub(super) excused: bool,
    /// The user removed the input from the queue.
    pub(super) removed: bool,
    /// The user canceled whatever ran before the answer.
    pub(super) is_canceled: bool,
}

impl TypedInputs {
    /// The input joined a turn, or a turn returned it.
    pub(super) fn is_settled(&self) -> bool {
        self.joined.is_some() || self.returned.is_some()
    }
}

/// The label at the start of a text.
pub(super) fn label_of(content: &[Block]) -> Option<u64> {
    content.iter().find_map(|block| match block {
        Block::Text(text) => text.strip_prefix('#')?.split_whitespace().next()?.parse().ok(),
        _ => None,
    })
}

impl Checker {
    /// The user writes an input. Returns its label and the content to send.
    pub(crate) fn label_input(&mut self, session: &SessionId, kind: TypedKind) -> (u64, Vec<Block>) {
        self.labels += 1;
        let label = self.labels;
        let typed = TypedInputs {
            session: session.clone(),
            kind,
            answer: None,
            joined: None,
            returned: None,
            excused: false,
            removed: false,
            is_canceled: false,
        };
        self.typed.insert(label, typed);
        self.log_line(format!("types #{label} {kind:?} in {session}"));
        if kind == TypedKind::Steer {
            self.note_fault(session, SimFault::Steered);
        }
        let mut content = vec![Block::Text(format!("#{label} please"))];
        if label.is_multiple_of(self.pictures) {
            content.push(Block::Image(MediaData {
                media_type: "image/gif".into(),
                // One pixel.
                data: "R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAkQBADs=".into(),
            }));
        }
        (label, content)
    }

    /// The turn whose history the input joined.
    pub(crate) fn joined_turn(&self, label: u64) -> Option<TurnId> {
        self.typed.get(&label)?.joined.clone()
    }

    /// The server answers the input.
    pub(crate) fn record_answer(&mut self, label: u64, answer: TypedAnswer) {
        self.log_line(format!("#{label} is answered {answer:?}"));
        if let TypedAnswer::Refused(refused) = &answer {
            let name = format!("{refused:?}");
            let name = name.split(['(', ' ']).next().unwrap_or_default();
            self.count_case(format!("refused {name}"));
        }
        let Some(typed) = self.typed.get_mut(&label) else {
            return;
        };
        let (session, kind, is_canceled) = (typed.session.clone(), typed.kind, typed.is_canceled);
        typed.answer = Some(answer.clone());
        if let TypedAnswer::Unanswered = answer
            && let Some(shown_session) = self.sessions.get_mut(&session)
        {
            shown_session.abandoned = true;
        }
        let checked = match &answer {
            TypedAnswer::Refused(_) if typed.joined.is_some() || typed.returned.is_some() => Err(format!(
                "I16: the server refused #{label} but also delivered or returned it"
            )),
            // What is still being prepared is lost with the turn that it is for, and its sender learns it.
            TypedAnswer::Refused(CommandError::Canceled) if is_canceled && kind != TypedKind::Prompt => {
                Ok(())
            }
            TypedAnswer::Refused(refused) => self.check_refusal(&session, kind, refused),
            TypedAnswer::Accepted(turn) => self.check_all_settled(&session, turn),
            TypedAnswer::Unanswered | TypedAnswer::Waits(_) => Ok(()),
        };
        if let Err(violation) = checked {
            self.record_violation(violation);
        }
    }

    /// Checks that the server had a valid reason for a refusal.
    pub(super) fn check_refusal(
        &self,
        session: &SessionId,
        kind: TypedKind,
        refused: &CommandError,
    ) -> Result<(), String> {
        let is_justified = match refused {
            CommandError::Ending => self.ending,
            CommandError::TurnRunning(_) => kind == TypedKind::Prompt,
            CommandError::NoTurn | CommandError::OtherTurn { .. } => kind == TypedKind::Steer,
            CommandError::NothingToResume => kind == TypedKind::Prompt,
            CommandError::UnknownPrompt(_) | CommandError::QueueFull => kind == TypedKind::Queued,
            CommandError::UnknownSession(id) => !self.sessions.contains_key(id) || self.deleting.contains(id),
            CommandError::Store(_) => self.degraded || clock::wall_ms() < self.failed_until,
            CommandError::Busy
            | CommandError::Canceled
            | CommandError::Locked { .. }
            | CommandError::UnknownApproval(_)
            | CommandError::UnknownInquiry(_)
            | CommandError::UnknownTurn(_)
            | CommandError::NothingToRedo(_)
            | CommandError::NothingToFork(_)
            | CommandError::BadReply(_)
            | CommandError::NoRule
            | CommandError::BadRule(_)
            | CommandError::BadCommand(_)
            | CommandError::UnknownModel(_)
            | CommandError::NeedsModelList(..)
            | CommandError::Bug => false,
        };
        if is_justified {
            Ok(())
        } else {
            Err(format!(
                "I1: the server refused {kind:?} in {session} without a valid reason: {refused:?}"
            ))
        }
    }

    /// The input has joined a turn's history.
    pub(super) fn check_joined_message(
        &mut self,
        session: &SessionId,
        turn: &TurnId,
        label: u64,
    ) -> Result<TypedKind, String> {
        let typed = self
            .typed
            .get_mut(&label)
            .ok_or("I16: a message contains input that the user never sent")?;
        let is_needless = |turn: &TurnId| {
            self.sessions
                .get(session)
                .is_some_and(|shown_session| shown_session.was_started_for_nothing(turn))
        };
        let refused = matches!(typed.answer, Some(TypedAnswer::Refused(_)));
        let elsewhere = matches!(&typed.answer, Some(TypedAnswer::Accepted(other)) if other != turn && !is_needless(other));
        // A full store may have lost the record that removed the input, as when the queue shows it again.
        let lost = typed.kind == TypedKind::Queued
            && self
                .sessions
                .get(session)
                .is_some_and(|shown_session| shown_session.is_cut_off);
        let was_withdrawn = typed.returned.is_some() || typed.removed;
        if typed.session != *session || refused || elsewhere || was_withdrawn && !lost {
            return Err(format!(
                "I16: #{label} joined {turn}, which was not its destination"
            ));
        }
        match typed.joined.replace(turn.clone()) {
            None => Ok(typed.kind),
            Some(joined) if is_needless(&joined) => Ok(typed.kind),
            Some(_) => Err(format!("I16: #{label} was delivered twice")),
        }
    }

    /// A turn's end returns an input to the user.
    pub(super) fn return_input(
        &mut self,
        session: &SessionId,
        turn: &TurnId,
        content: &[Block],
    ) -> Result<TypedKind, String> {
        let label = label_of(content).ok_or("I16: the turn returned input that the user never sent")?;
        let typed = self
            .typed
            .get_mut(&label)
            .ok_or("I16: the turn returned input that the user never sent")?;
        let refused = matches!(typed.answer, Some(TypedAnswer::Refused(_)));
        let wrong = typed.session != *session
            || typed.kind == TypedKind::Prompt && !self.policy_record.holds_back()
            || refused
            || typed.removed;
        if wrong || typed.joined.is_some() || typed.returned.replace(turn.clone()).is_some() {
            return Err(format!("I16: the turn had no reason to return #{label}"));
        }
        Ok(typed.kind)
    }

    /// Checks that no input accepted for the turn is lost, if the turn has ended.
    pub(super) fn check_all_settled(&self, session: &SessionId, turn: &TurnId) -> Result<(), String> {
        let turns = self
            .sessions
            .get(session)
            .map(|shown_session| &shown_session.turns);
        match turns.and_then(|turns| turns.get(turn)) {
            Some(known) if known.ended => self.nothing_lost(turn),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that every input accepted for the turn joined a history or was returned.
    pub(super) fn nothing_lost(&self, turn: &TurnId) -> Result<(), String> {
        for (label, typed) in &self.typed {
            let was_accepted = matches!(&typed.answer, Some(TypedAnswer::Accepted(of)) if of == turn);
            if was_accepted && !typed.is_settled() && !typed.excused {
                return Err(format!(
                    "I16: the server accepted #{label} for {turn} but lost it"
                ));
            }
        }
        Ok(())
    }

    /// The user sends a cancel.
    pub(crate) fn note_cancel(&mut self, session: &SessionId, turn: Option<&TurnId>) {
        self.log_line(format!("cancels {session} {turn:?}"));
        self.count_case("cancel");
        let hits = turn.is_none() || self.open_turn(session).as_ref() == turn;
        if hits {
            self.note_fault(session, SimFault::Cancelled);
        }
        if turn.is_none() {
            let open = self.typed.values_mut();
            for typed in open.filter(|typed| typed.session == *session && typed.answer.is_none()) {
                typed.is_canceled = true;
            }
        }
        let patient = self
            .in_hand
            .values()
            .any(|call_state| call_state.session == *session && call_state.patient);
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return;
        };
        shown_session.cancels.push(Cancel {
            turn: turn.cloned(),
            at: clock::wall_ms(),
            running: shown_session.fold.turns.open_turn.clone(),
            patient,
        });
    }

    /// The user closes a session; [`Self::note_closed`] follows.
    pub(crate) fn note_close(&mut self, session: &SessionId) {
        self.note_cancel(session, None);
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.closing += 1;
        }
    }

    /// The server has answered a request to close a session.
    pub(crate) fn note_closed(&mut self, session: &SessionId) {
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.closing = shown_session.closing.saturating_sub(1);
        }
    }

    /// The user sends a decision.
    pub(crate) fn note_decision(&mut self, session: &SessionId, approval: &Approval, decision: &Decision) {
        self.log_line(format!("decides {} {decision:?}", approval.id));
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return;
        };
        if decision.kind != agentls::domain::DecisionKind::Allow && is_permission(decision.kind) {
            let rule = decision.rule.clone().or_else(|| approval.rule.clone());
            for rules in [&mut self.folder_rules, &mut shown_session.rules_sent] {
                rules.extend(rule.clone().filter(|rule| !rules.contains(rule)));
            }
        }
        if let Some(question) = shown_session.approvals.get_mut(&approval.id) {
            question.sent.push(decision.clone());
        }
    }

    /// The server acknowledges a decision: the first one that it accepts is final.
    pub(crate) fn check_decision_answer(
        &mut self,
        session: &SessionId,
        approval: &Approval,
        decision: Decision,
        answer: &Result<(), CommandError>,
    ) {
        self.log_line(format!("{} is answered {answer:?}", approval.id));
        let (ending, deleting) = (self.ending, self.deleting.contains(session));
        let degraded = self.degraded || clock::wall_ms() < self.failed_until;
        let has_prompt = self.has_prompt_in_flight(session);
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(question) = shown_session.approvals.get_mut(&approval.id) else {
            return;
        };
        let is_violation = match answer {
            Ok(()) => question.accepted.is_some(),
            Err(CommandError::UnknownApproval(_)) => {
                question.open
                    && question.sent.len() < 2
                    && shown_session.fold.turns.open_turn.is_none()
                    && !has_prompt
            }
            Err(CommandError::NoRule) => approval.rule.is_some(),
            Err(CommandError::Ending) => !ending,
            Err(CommandError::UnknownSession(_)) => !deleting,
            Err(CommandError::Store(_)) => !degraded,
            Err(_) => true,
        };
        if is_violation {
            return self.record_violation(format!(
                "I1: the server cannot acknowledge a decision on {} with {answer:?}",
                approval.id
            ));
        }
        if answer.is_ok() {
            question.accepted = Some(decision);
        }
    }

    /// A prompt is in flight: the server settles what an interrupted turn left open before it shows the new
    /// turn.
    pub(super) fn has_prompt_in_flight(&self, session: &SessionId) -> bool {
        let compacts =
            (self.sessions.get(session)).is_some_and(|shown_session| shown_session.compactions > 0);
        compacts
            || self.typed.values().any(|typed| {
                let refused = matches!(typed.answer, Some(TypedAnswer::Refused(_)));
                typed.session == *session
                    && typed.kind == TypedKind::Prompt
                    && typed.joined.is_none()
                    && !refused
            })
    }

    /// The user requests a compaction.
    pub(crate) fn asks_compaction(&mut self, session: &SessionId) {
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.compactions += 1;
        }
    }

    /// The server refused the compaction.
    pub(crate) fn compaction_refused(&mut self, session: &SessionId) {
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.compactions = shown_session.compactions.saturating_sub(1);
        }
    }

    /// The user sends a mode.
    pub(crate) fn sends_mode(&mut self, session: &SessionId, mode: Mode) {
        self.log_line(format!("sends the mode {mode}"));
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.modes.push(mode);
            shown_session.unconfirmed.push(mode);
        }
    }

    /// The user sends an agent, whose mode applies unless the user has chosen one.
    pub(crate) fn sends_agent(&mut self, session: &SessionId) {
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.agent = None;
            shown_session.is_first_mode_known = false;
            // The user may have chosen any of them before for new sessions of this agent.
            shown_session.modes.extend(Mode::ALL);
            shown_session.unconfirmed.extend(Mode::ALL);
        }
    }

    /// The server has given the session to an agent, and says which mode applies now.
    pub(crate) fn agent_chosen(&mut self, session: &SessionId, agent: &'static str, mode: Mode) {
        self.log_line(format!("{session} belongs to the agent {agent}, in mode {mode}"));
        self.count_case(format!("agent {agent} chosen, mode {mode}"));
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.agent = Some(agent);
            shown_session.is_first_mode_known = true;
            shown_session.first_mode = mode;
            if !shown_session.has_mode_choice() {
                shown_session.fold.choice.mode = mode;
            }
            for mode in Mode::ALL {
                let sent = shown_session.unconfirmed.iter().position(|sent| *sent == mode);
                sent.map(|at| shown_session.unconfirmed.remove(at));
            }
        }
    }

    /// The server answers a change of the session's title or mode.
    pub(crate) fn check_change_answer(
        &mut self,
        session: &SessionId,
        change: &str,
        answer: &Result<(), CommandError>,
    ) {
        self.log_line(format!("{change} is answered {answer:?}"));
        let is_justified = match answer {
            Ok(()) => true,
            Err(refused) => self.check_refusal(session, TypedKind::Prompt, refused).is_ok(),
        };
        if !is_justified {
            return self.record_violation(format!(
                "I1: the server refused {change} without a valid reason: {answer:?}"
            ));
        }
        if answer.is_ok()
            && let Some(shown_session) = self.sessions.get_mut(session)
        {
            shown_session.confirmed.push(change.to_owned());
        }
    }

    /// The server answers a prompt only after it has shown the turn's end (R-WIRE-1).
    pub(crate) fn check_outcome(&mut self, session: &SessionId, outcome: &TurnOutcome) {
        let Some(shown_session) = self.sessions.get(session) else {
            return;
        };
        let was_shown = shown_session.events.iter().rev().any(|stored| {
            stored.turn.as_ref() == Some(&outcome.turn)
                && matches!(&stored.event, Event::TurnEnded(end) if *end == outcome.end)
        });
        if !was_shown {
            self.record_violation(format!(
                "R-WIRE-1: the outcome of {} arrived before its end was shown",
                outcome.turn
            ));
        }
    }

    /// A client loads a session: its snapshot equals the state that the events shown so far produce.
    pub(crate) fn check_snapshot(
        &mut self,
        session: &SessionId,
        snapshot: &SessionSnapshot,
        partial: Option<&PartialMessage>,
        read_only: bool,
    ) {
        let Some(shown_session) = self.sessions.get(session) else {
            return;
        };
        if shown_session.is_cut_off {
            return;
        }
        let Some(events) = shown_session.events.get(..snapshot.seq as usize) else {
            let known = shown_session.events.len();
            return self.record_violation(format!(
                "I6: {session} was loaded at event {}; only {known} were shown",
                snapshot.seq
            ));
        };
        let mut fold = SessionState {
            choice: SessionChoice {
                mode: shown_session.mode_without_choice(snapshot.choice.mode),
                ..SessionChoice::default()
            },
            ..SessionState::default()
        };
        for stored in events {
            fold.apply(stored);
        }
        let fits = fold.choice.mode == snapshot.choice.mode
            && fold.choice.title == snapshot.choice.title
            && (fold.choice.model.is_none() || fold.choice.model == snapshot.choice.model)
            && fold.open.approvals == snapshot.questions.approvals
            && fold.open.inquiries == snapshot.questions.inquiries
            && fold.spending.usage == snapshot.metrics.usage
            && fold.spending.cost == snapshot.metrics.cost
            && (read_only || fold.turns.open_turn == snapshot.turn);
        let same = |streamed: &str, prefix: &str| streamed.starts_with(prefix);
        let partial_fits = partial.is_none_or(|partial| {
            let shown_message = shown_session.messages.get(&partial.message);
            shown_message
                .is_some_and(|s| same(&s.text, &partial.text) && same(&s.reasoning, &partial.reasoning))
        });
        if !fits || !partial_fits {
            self.record_violation(format!(
                "{session} was loaded as {snapshot:?} with {partial:?}, which differs from the events shown"
            ));
        }
    }

    /// The server refuses to load a session.
    pub(crate) fn not_loaded(&mut self, session: &SessionId, refused: &CommandError) {
        if let Err(violation) = self.check_refusal(session, TypedKind::Prompt, refused) {
            self.record_violation(violation);
        }
    }
}
