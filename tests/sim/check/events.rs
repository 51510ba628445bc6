//! Durable events: I2, I3, I6, and the order of events within a turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Checker;
use super::conduct::PolicyRecord;
use super::memory::{CallEnd, ShownCall, ShownQuestion, ShownSession, ShownTurn, is_permission};
use super::typed::{TypedKind, label_of};
use crate::tools;
use agentls::approval::{GrantedRule, Policy, Rule, Verdict, judge_tool_call};
use agentls::base::clock;
use agentls::domain::{
    Approval, CircuitState, CircuitSubject, DecisionKind, DeltaEnvelope, Effect, Envelope, Event,
    ForeignContent, GrantedTool, Message, Mode, ResolvedBy, Role, SessionId, TerminalReason, ToolCallId,
    ToolCallStatus, ToolCallUpdate, TurnEnd, TurnId, TurnState, TurnTrigger,
};
use agentls::store::StoredEvent;

type CheckResult = Result<(), String>;

/// R-CANCEL: how long a turn may take to end after its cancel, in virtual ms. The second bound applies if a
/// running tool may finish.
const CANCEL_MS: (i64, i64) = (100, 12_100);

impl Checker {
    /// A client receives a durable event.
    pub(crate) fn check_event(&mut self, envelope: &Envelope) {
        let (seq, turn) = (envelope.seq, envelope.turn.as_ref());
        let turn = turn.map_or("-", |turn| turn.as_str());
        self.log_line(format!("{} {turn} {seq} {:?}", envelope.session, envelope.event));
        if self.is_forked_now(&envelope.session) {
            return;
        }
        let stored = StoredEvent {
            seq,
            turn: envelope.turn.clone(),
            at_ms: envelope.at_ms,
            event: envelope.event.clone(),
        };
        if let Err(violation) = self.check_stored_event(&envelope.session, stored) {
            self.record_violation(violation);
        }
    }

    /// A client receives a delta.
    pub(crate) fn check_shown_delta(&mut self, envelope: &DeltaEnvelope) {
        let (session, turn) = (&envelope.session, envelope.turn.as_ref());
        let name = turn.map_or("-", |turn| turn.as_str());
        self.log_line(format!("{session} {name} {:?}", envelope.delta));
        if self.is_forked_now(session) {
            return;
        }
        if let Err(violation) = self.check_delta(session, turn, &envelope.delta) {
            self.record_violation(violation);
        }
    }

    /// A client receives a warning of the store.
    pub(crate) fn note_warning(&mut self, code: &str, message: &str) {
        self.log_line(format!("warn {code} {message}"));
        if message.contains("keeping events in memory") {
            self.degraded = true;
            self.count_case("store degraded");
            for shown_session in self.sessions.values_mut() {
                shown_session
                    .messages
                    .values_mut()
                    .for_each(|shown_message| shown_message.degraded = true);
            }
        } else if message.contains("session store works again") {
            self.degraded = false;
            self.failed_until = clock::wall_ms() + 1_000;
            if message.contains("did not fit into memory") {
                (self.lost, self.lost_at) = (true, Some(clock::wall_ms()));
                self.count_case("records lost, as warned");
                for shown_session in self.sessions.values_mut() {
                    shown_session.is_cut_off = true;
                    shown_session.rules.clear();
                }
            }
            for shown_session in self.sessions.values_mut() {
                shown_session.safe = shown_session.events.len();
            }
        } else {
            self.record_violation(format!("I7: {code}: {message}"));
        }
    }

    pub(super) fn check_stored_event(&mut self, session: &SessionId, stored: StoredEvent) -> CheckResult {
        let shown_session = self
            .sessions
            .get_mut(session)
            .ok_or_else(|| format!("an event belongs to {session}, which does not exist or was deleted"))?;
        let expected = shown_session.base + shown_session.events.len() as u64 + 1;
        if stored.seq != expected {
            return Err(format!(
                "I6: {session} shows event {}; expected {expected}",
                stored.seq
            ));
        }
        if let Some(turn) = &stored.turn
            && !matches!(stored.event, Event::TurnStarted { .. })
        {
            shown_session.is_running(turn)?;
        }
        let of_turn = || {
            let turn = stored.turn.as_ref();
            turn.ok_or_else(|| "a turn's event has no turn".to_owned())
        };
        if let Some(granted) = shown_session.granted.take() {
            let settled = matches!(&stored.event,
                Event::ApprovalResolved { approval, by: ResolvedBy::Rule, .. } if *approval == granted);
            if !settled {
                return Err(format!(
                    "the server requested {granted} although a rule grants it: modes {:?}, rules {:?}",
                    shown_session.modes, shown_session.rules
                ));
            }
        }
        self.check_spending(session, &stored)?;
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        let (before, reloading) = (shown_session.fold.turns.open_turn.clone(), self.reloading);
        let was_cut = stored.turn.is_some() && shown_session.cut == stored.turn;
        match &stored.event {
            Event::TurnStarted { by, resumes } => {
                shown_session.turn_started(of_turn()?, *by, resumes.as_ref())?
            }
            Event::TurnEnded(end) => {
                let turn = of_turn()?.clone();
                self.turn_ended(session, &turn, end)?;
            }
            Event::Message(message) => {
                let turn = of_turn()?.clone();
                self.check_message(session, &turn, message)?;
            }
            Event::MessageRetracted { message, tool_calls } => {
                shown_session.check_retraction(message, tool_calls, reloading)?
            }
            // A call continues without a turn only if the store lost the record that ended it.
            Event::ToolCall(update) if shown_session.is_cut_off && stored.turn.is_none() => {
                if update.status != ToolCallStatus::Cancelled {
                    return Err(format!(
                        "call {} continues without a turn: {:?}",
                        update.id, update.status
                    ));
                }
                if let Some(call) = shown_session.calls.get_mut(&update.id) {
                    call.status = Some(update.status);
                }
            }
            Event::ToolCall(update) => {
                if let Some(parent) = &update.parent {
                    shown_session.nested_call(of_turn()?, update, parent)?;
                }
                shown_session.check_open_circuit(of_turn()?, update, self.policy_record.clone())?;
                shown_session.tool_call(of_turn()?, update)?;
                self.joined_agents(session, update)?;
            }
            Event::Nested(nested) => {
                let turn = of_turn()?;
                shown_session.is_delegating(&nested.parent)?;
                shown_session.track_circuit(turn, &nested.event);
            }
            Event::ApprovalRequested(approval) => {
                shown_session.check_approval_request(of_turn()?, approval)?
            }
            Event::ApprovalResolved {
                approval,
                decision,
                by,
                ..
            } => {
                let timeouts = self.approvals_time_out;
                shown_session.check_approval_resolution(
                    approval,
                    decision,
                    *by,
                    timeouts,
                    &self.folder_rules,
                )?;
            }
            Event::InquiryRequested(inquiry) => {
                of_turn()?;
                shown_session.check_inquiry(inquiry)?;
            }
            Event::InquiryResolved { inquiry, reply, by } => {
                // The question of an MCP server that has ended with its turn lapses when the session is loaded.
                if before.is_some() || *by != ResolvedBy::Cancel {
                    of_turn()?;
                }
                shown_session.check_reply(inquiry, reply, *by)?;
            }
            Event::Usage {
                step,
                turn,
                session: sum,
                ..
            } => {
                let total = shown_session.fold.spending.usage + *step;
                let known = shown_session.turns.entry(of_turn()?.clone()).or_default();
                known.usage += *step;
                known.nudge_tokens = known.nudge_tokens.map(|tokens| tokens + step.output);
                if known.usage != *turn || total != *sum {
                    return Err(format!(
                        "the usage totals do not add up: turn {turn:?}, session {sum:?}"
                    ));
                }
            }
            Event::Transition { transition, .. } => {
                let (bounds, policy_record) = (self.bounds, self.policy_record.clone());
                let known = shown_session.turns.entry(of_turn()?.clone()).or_default();
                known.count_transition(*transition, bounds)?;
                known.check_continue(*transition, policy_record)?;
            }
            Event::Compacted(compaction) => {
                of_turn()?;
                shown_session.check_compaction(compaction)?;
            }
            Event::SessionUpdated { mode, model, .. } => {
                // If the turn's first model is unknown, later ones cannot be checked.
                if !shown_session.models.is_empty() {
                    shown_session.models.extend(model.clone());
                }
                if let Some(mode) = mode {
                    shown_session.unconfirmed.retain(|sent| sent != mode);
                    shown_session.modes.push(*mode);
                }
            }
            Event::Plan { .. } | Event::Retry { .. } | Event::Wait { .. } => {
                of_turn()?;
            }
            Event::ModelSwitched { from, to, .. } => {
                of_turn()?;
                let known = shown_session.models.is_empty() || shown_session.models.contains(from);
                if from == to || !shown_session.is_cut_off && !known {
                    return Err(format!(
                        "the model switches from {from} to {to}; it could only be one of {:?}",
                        shown_session.models
                    ));
                }
                shown_session.models.insert(to.clone());
            }
            Event::Circuit {
                subject: CircuitSubject::Tool,
                ..
            } => shown_session.track_circuit(of_turn()?, &stored.event),
            Event::Circuit {
                subject: CircuitSubject::Provider,
                name,
                state,
                until,
            } => {
                of_turn()?;
                let is_change =
                    *state != CircuitState::Closed || shown_session.fold.route.open_circuits.contains(name);
                if until.is_some() != (*state == CircuitState::Open)
                    || !is_change && !shown_session.is_cut_off
                {
                    return Err(format!(
                        "the circuit of {name} cannot change to {state:?} until {until:?}"
                    ));
                }
            }
            // A steer outlives its turn only if the store lost the record that settled it.
            Event::Warning { code, message } if code == "steer_unsettled" && !shown_session.is_cut_off => {
                return Err(format!("I16: a steer outlived its turn: {message}"));
            }
            Event::QueueChanged(queue) => self.queue_shown(session, queue)?,
            Event::TurnDiff(_) | Event::Warning { .. } | Event::Instructions { .. } => {}
        }
        self.goes_on(session, &stored, was_cut);
        if let Some(label) = coverage_label(&stored.event) {
            self.count_case(label);
        }
        let degraded = self.degraded;
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        shown_session.fold.apply(&stored);
        shown_session.comes_from_outside(&stored.event);
        let usage_check = shown_session.check_usage(&stored.event);
        if let (Event::TurnEnded(_), Some(turn)) = (&stored.event, before)
            && let Some(turn) = shown_session.turns.get_mut(&turn)
        {
            turn.ended = true;
        }
        shown_session.events.push(stored);
        if !degraded {
            shown_session.safe = shown_session.events.len();
        }
        usage_check.and_then(|()| shown_session.match_sent())
    }

    fn turn_ended(&mut self, session: &SessionId, turn: &TurnId, end: &TurnEnd) -> CheckResult {
        let mut prompts = 0;
        for blocks in &end.unused_steers {
            let kind = self.return_input(session, turn, blocks)?;
            prompts +=
                u32::from(kind == TypedKind::Prompt || self.begins_turn(session, turn, kind) && prompts == 0);
        }
        let running: Vec<&ToolCallId> = self
            .in_hand
            .iter()
            .filter(|(_, call_state)| call_state.session == *session)
            .map(|(call, _)| call)
            .collect();
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        let was_cut = shown_session.cut.as_ref() == Some(turn);
        if was_cut {
            shown_session.cut = None;
        }
        for call in running {
            if shown_session
                .calls
                .get(call)
                .is_none_or(|known| known.turn == *turn)
            {
                return Err(format!("I8: {call} is still running when {turn} ends"));
            }
        }
        shown_session.turns.entry(turn.clone()).or_default().prompts += prompts;
        shown_session.check_end(turn, end, was_cut, (self.ending, self.policy_record.clone()))?;
        shown_session.modes = [
            vec![shown_session.fold.choice.mode],
            shown_session.unconfirmed.clone(),
        ]
        .concat();
        shown_session.is_paused = !matches!(end.state, TurnState::Completed | TurnState::Degraded);
        self.turns += 1;
        let suffix = match (was_cut, self.degraded) {
            (true, _) => " after a crash",
            (false, true) => " while the store fails",
            (false, false) => "",
        };
        self.count_case(format!("end {}{suffix}", end.reason.name()));
        self.count_many("steer given back", end.unused_steers.len());
        self.nothing_lost(turn)
    }

    fn check_message(&mut self, session: &SessionId, turn: &TurnId, message: &Arc<Message>) -> CheckResult {
        if message.role == Role::User && !message.hidden {
            let label = label_of(&message.content)
                .ok_or("I16: a user message contains text that the user never sent")?;
            let kind = self.check_joined_message(session, turn, label)?;
            self.count_case(format!("{kind:?} joined"));
            let begins = kind == TypedKind::Prompt || self.begins_turn(session, turn, kind);
            if let Some(known) = self.sessions.get_mut(session).and_then(|s| s.turns.get_mut(turn)) {
                known.prompts += u32::from(begins);
            }
        }
        let reloading = self.reloading;
        match self.sessions.get_mut(session) {
            Some(shown_session) => shown_session.check_user_message(turn, message, reloading),
            None => Ok(()),
        }
    }
}

impl ShownSession {
    /// I3: a turn has no events before its start or after its end.
    pub(super) fn is_running(&self, turn: &TurnId) -> CheckResult {
        match self.turns.get(turn) {
            None => Err(format!("I3: {turn} has not started")),
            Some(known) if known.ended => Err(format!("I3: {turn} has ended")),
            Some(_) if self.fold.turns.open_turn.as_ref() != Some(turn) => {
                Err(format!("I2: {turn} is not the running turn"))
            }
            Some(_) => Ok(()),
        }
    }

    fn turn_started(&mut self, turn: &TurnId, by: TurnTrigger, resumes: Option<&TurnId>) -> CheckResult {
        if let Some(other) = &self.fold.turns.open_turn {
            return Err(format!("I2: {turn} starts while {other} is running"));
        }
        if self.turns.contains_key(turn) {
            return Err(format!("I3: {turn} starts twice"));
        }
        if let Some(resumes) = resumes
            && !self.turns.get(resumes).is_some_and(|turn| turn.ended)
        {
            return Err(format!("{turn} resumes {resumes}, which has not ended"));
        }
        let known = ShownTurn {
            resumes: resumes.is_some(),
            upkeep: by == TurnTrigger::Compact,
            queued: by == TurnTrigger::Queue,
            ..ShownTurn::default()
        };
        if known.queued && self.is_paused && !std::mem::take(&mut self.sent_now) && !self.is_cut_off {
            return Err(format!(
                "R-CANCEL: {turn} starts with a prompt from a paused queue"
            ));
        }
        self.due = None;
        self.turns.insert(turn.clone(), known);
        if by == TurnTrigger::Compact {
            self.compactions = self.compactions.saturating_sub(1);
        }
        let possible_models = self.fold.route.answering.iter().chain(&self.fold.choice.model);
        self.models = match self.fold.choice.model {
            Some(_) => possible_models.cloned().collect(),
            None => BTreeSet::new(),
        };
        Ok(())
    }

    /// I10: a sub-agent acts only while the call that created it is running.
    fn is_delegating(&self, parent: &ToolCallId) -> CheckResult {
        let known = self.calls.get(parent);
        if known.is_some_and(|call| call.status == Some(ToolCallStatus::Running)) || self.is_cut_off {
            Ok(())
        } else {
            Err(format!(
                "I10: a sub-agent acts while its call {parent} is not running"
            ))
        }
    }

    /// Records a sub-agent's call, which no message of the session requests.
    fn nested_call(&mut self, turn: &TurnId, update: &ToolCallUpdate, parent: &ToolCallId) -> CheckResult {
        self.is_delegating(parent)?;
        if update.status == ToolCallStatus::Pending || self.is_cut_off {
            self.calls.entry(update.id.clone()).or_insert_with(|| ShownCall {
                turn: turn.clone(),
                name: update.name.clone(),
                input: update.input.clone().unwrap_or_default(),
                status: None,
                foreign: self.foreign.clone(),
            });
        }
        Ok(())
    }

    fn tool_call(&mut self, turn: &TurnId, update: &ToolCallUpdate) -> CheckResult {
        let call = self
            .calls
            .get_mut(&update.id)
            .ok_or_else(|| format!("no message requested the call {}", update.id))?;
        let is_reopened = call.turn != *turn && update.status == ToolCallStatus::AwaitingApproval;
        call.turn = turn.clone();
        if status_rank(call.status) >= status_rank(Some(update.status)) && !is_reopened && !self.is_cut_off {
            return Err(format!(
                "call {} changes to {:?} after {:?}",
                update.id, update.status, call.status
            ));
        }
        if update.status.is_final() != update.result.is_some() {
            return Err(format!(
                "call {} has the status {:?} with the result {:?}",
                update.id, update.status, update.result
            ));
        }
        let waited = call.status == Some(ToolCallStatus::AwaitingApproval);
        call.status = Some(update.status);
        if let Some(input) = &update.input {
            call.input = input.clone();
        }
        let mut questions = self
            .approvals
            .values()
            .filter(|question| question.call == update.id);
        if update.status.is_final() && questions.clone().any(|question| question.open) {
            return Err(format!("{} ended while its approval is open", update.id));
        }
        if update.status == ToolCallStatus::Running && waited && !questions.any(|question| question.allowed) {
            return Err(format!(
                "I9: {} runs without the approval that it waited for",
                update.id
            ));
        }
        Ok(())
    }

    fn check_approval_request(&mut self, turn: &TurnId, approval: &Approval) -> CheckResult {
        let call = self
            .calls
            .get(&approval.tool_call)
            .ok_or_else(|| format!("an approval for an unknown call {}", approval.tool_call))?;
        if call.status != Some(ToolCallStatus::AwaitingApproval) || call.turn != *turn {
            return Err(format!(
                "approval {} concerns a call that is not waiting for one",
                approval.id
            ));
        }
        let effect = tools::declared_effect(&approval.name, approval.cwd.as_ref());
        let modes = self.modes.iter().chain(&self.unconfirmed);
        let known = self.approvals.get(&approval.id);
        if known.is_none()
            && modes
                .clone()
                .all(|mode| policy_allows(*mode, &self.rules, &self.foreign, &approval.name, &effect))
        {
            // A rule may have granted it a moment ago; then the server must resolve it next.
            self.granted = Some(approval.id.clone());
        }
        match self.approvals.get_mut(&approval.id) {
            Some(known) if !known.open || known.call != approval.tool_call => {
                return Err(format!(
                    "the server requested {} again after it was resolved",
                    approval.id
                ));
            }
            Some(_) => {}
            None => {
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
        }
        Ok(())
    }

    fn check_approval_resolution(
        &mut self,
        id: &agentls::domain::ApprovalId,
        decision: &agentls::domain::Decision,
        by: ResolvedBy,
        timeouts: bool,
        folder_rules: &[String],
    ) -> CheckResult {
        let question = self
            .approvals
            .get_mut(id)
            .ok_or_else(|| format!("the server resolved {id}, which it never requested"))?;
        if !std::mem::take(&mut question.open) {
            return Err(format!("the server resolved {id} twice"));
        }
        question.allowed = is_permission(decision.kind);
        let effect = tools::declared_effect(&question.name, crate::simulation::FOLDER.as_ref());
        let rules = [&self.rules_sent, folder_rules].concat();
        let mut modes = self.modes.iter().chain(&self.unconfirmed);
        let ruled = if question.allowed {
            modes.any(|mode| policy_allows(*mode, &rules, &self.foreign, &question.name, &effect))
        } else {
            modes.any(|mode| *mode == Mode::Plan)
        };
        let sent = question.sent.iter().any(|sent| sent.kind == decision.kind);
        let is_consistent = match by {
            ResolvedBy::Person => {
                sent && question
                    .accepted
                    .as_ref()
                    .is_none_or(|first| first.kind == decision.kind)
            }
            ResolvedBy::Rule => ruled,
            ResolvedBy::Timeout => timeouts && decision.kind == DecisionKind::Deny,
            ResolvedBy::Cancel | ResolvedBy::NewPrompt => decision.kind == DecisionKind::Deny,
        };
        if !is_consistent {
            return Err(format!(
                "I9: the server resolved {id} with {decision:?} by {by:?}; the user sent {:?}",
                question.sent
            ));
        }
        if by == ResolvedBy::Person && question.allowed {
            let rule = decision.rule.clone();
            self.rules.extend(rule.filter(|rule| !self.rules.contains(rule)));
        }
        if let Some(first) = &question.accepted
            && first.kind == DecisionKind::Deny
            && question.allowed
        {
            return Err(format!(
                "I9: the user denied {id}, but the server reports it as allowed by {by:?}"
            ));
        }
        Ok(())
    }

    /// Checks the invariants of a turn's end.
    fn check_end(
        &mut self,
        turn: &TurnId,
        end: &TurnEnd,
        was_cut: bool,
        (ending, policy_record): (bool, PolicyRecord),
    ) -> CheckResult {
        let stopped = end.reason == TerminalReason::ServerStopped;
        for (id, call) in &self.calls {
            let open = call.turn == *turn && !call.status.is_some_and(ToolCallStatus::is_final);
            let has_question = self
                .approvals
                .values()
                .any(|question| question.open && question.call == *id);
            if open && !(stopped && has_question) {
                return Err(format!("I4: call {id} has no result at the end of {turn}"));
            }
        }
        if !stopped && let Some((id, _)) = self.approvals.iter().find(|(_, question)| question.open) {
            return Err(format!("approval {id} is still open after the end of {turn}"));
        }
        if !stopped && let Some((id, _)) = self.inquiries.iter().find(|(_, inquiry)| inquiry.open) {
            return Err(format!("inquiry {id} is still open after the end of {turn}"));
        }
        for (id, shown_message) in &self.messages {
            let is_unfinished = shown_message.turn.as_ref() == Some(turn) && shown_message.end.is_none();
            let old = shown_message
                .trail
                .first()
                .is_some_and(|(at, _)| *at < self.cut_at - 260);
            if is_unfinished && (!was_cut || old && !shown_message.degraded) {
                return Err(format!(
                    "I5: message {id} was shown but never completed or retracted"
                ));
            }
        }
        let known = self.turns.entry(turn.clone()).or_default();
        if !was_cut && !known.resumes && known.prompts != u32::from(!known.upkeep) {
            return Err(format!("I16: {turn} contains {} prompts", known.prompts));
        }
        if was_cut && !known.resumes && !known.upkeep && known.prompts == 0 {
            return Err(format!("I16: the prompt of {turn} is lost"));
        }
        if !self.is_cut_off && known.usage != end.usage {
            return Err(format!("the usage of {turn} differs from the sum of its steps"));
        }
        if was_cut || self.is_cut_off {
            self.sent.clear();
        } else {
            self.only_the_next_asks()?;
        }
        self.state_fits(turn, end, policy_record.clone())?;
        self.check_end_reason(turn, end, was_cut, (ending, policy_record))?;
        self.cancelled_in_time(turn)
    }

    /// Checks that the turn can end for this reason.
    fn check_end_reason(
        &self,
        turn: &TurnId,
        end: &TurnEnd,
        was_cut: bool,
        (ending, policy_record): (bool, PolicyRecord),
    ) -> CheckResult {
        let cancelled = self.abandoned
            || self.closing > 0
            || self
                .cancels
                .iter()
                .any(|cancel| cancel.turn.as_ref().is_none_or(|only| only == turn));
        let is_possible = match end.reason {
            TerminalReason::InternalError => false,
            TerminalReason::ServerStopped => was_cut || ending,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => cancelled,
            TerminalReason::Completed if self.turns.get(turn).is_some_and(|turn| turn.upkeep) => true,
            TerminalReason::Completed => {
                let last = self.fold.history.to_messages().into_iter().next_back();
                let has_answered = last.is_some_and(|item| {
                    item.message.role == Role::Assistant && !item.message.text().trim().is_empty()
                });
                if !has_answered {
                    return Err(format!("{turn} completed without an answer from the model"));
                }
                end.unused_steers.is_empty() || policy_record.holds_back()
            }
            _ => true,
        };
        let has_code = end.reason.to_error_code() == end.error.as_ref().map(|error| error.code);
        let is_model_error = end.reason == TerminalReason::ModelError && end.error.is_some();
        // A turn at its limit may end with a summary instead of an error.
        let limited = matches!(
            end.reason,
            TerminalReason::MaxTurns | TerminalReason::MaxToolCalls
        );
        let summed_up = limited && end.state == TurnState::Degraded && end.error.is_none();
        if is_possible && (has_code || is_model_error || summed_up) {
            Ok(())
        } else {
            Err(format!("{turn} cannot end with {end:?}"))
        }
    }

    fn cancelled_in_time(&mut self, turn: &TurnId) -> CheckResult {
        let now = clock::wall_ms();
        for cancel in &self.cancels {
            let hit = cancel.running.as_ref() == Some(turn) && cancel.turn.as_ref().is_none_or(|t| t == turn);
            let bound = if cancel.patient { CANCEL_MS.1 } else { CANCEL_MS.0 };
            if hit && now - cancel.at > bound {
                return Err(format!(
                    "I13: {turn} ended {} ms after its cancel, which is too late",
                    now - cancel.at
                ));
            }
        }
        self.cancels
            .retain(|cancel| cancel.running.as_ref() != Some(turn));
        Ok(())
    }

    fn check_user_message(&mut self, turn: &TurnId, message: &Message, reloading: bool) -> CheckResult {
        if message.content.is_empty() {
            return Err(format!("message {} is empty", message.id));
        }
        match message.role {
            Role::User => return Ok(()),
            Role::Tool => return Err("the server recorded a tool message".to_owned()),
            Role::Assistant => {}
        }
        if message.incomplete && message.tool_uses().next().is_some() {
            return Err(format!("message {} is incomplete but requests tools", message.id));
        }
        let cut = reloading || self.cut.as_ref() == Some(turn);
        self.check_completed_message(turn, message, cut)?;
        for (id, name, input) in message.tool_uses() {
            let call = ShownCall {
                turn: turn.clone(),
                name: name.to_owned(),
                input: input.clone(),
                status: None,
                foreign: self.foreign.clone(),
            };
            if self.calls.insert(id.clone(), call).is_some() {
                return Err(format!("call {id} is requested twice"));
            }
        }
        Ok(())
    }

    fn check_retraction(
        &mut self,
        id: &agentls::domain::MessageId,
        tools: &[ToolCallId],
        reloading: bool,
    ) -> CheckResult {
        let shown_message = self.messages.entry(id.clone()).or_default();
        if shown_message.end.replace(CallEnd::Retracted).is_some() {
            return Err(format!("I5: message {id} is retracted after its end"));
        }
        // A crash between the commit and the client loses the deltas before the retraction as well.
        if shown_message.tools == tools || reloading && tools.starts_with(&shown_message.tools) {
            Ok(())
        } else {
            Err(format!(
                "message {id} is retracted with the calls {tools:?}; its deltas showed {:?}",
                shown_message.tools
            ))
        }
    }
}

/// The case that an event adds to the coverage table, if any.
fn coverage_label(event: &Event) -> Option<String> {
    match event {
        Event::TurnStarted { resumes: Some(_), .. } => Some("turn resumed".to_owned()),
        Event::Message(message) if message.incomplete => Some("message cut".to_owned()),
        Event::MessageRetracted { .. } => Some("message retracted".to_owned()),
        Event::ToolCall(update) if update.status.is_final() => Some(format!("call {:?}", update.status)),
        Event::ApprovalResolved { by, decision, .. } => {
            Some(format!("question {:?} by {by:?}", decision.kind))
        }
        Event::Plan { .. } => Some("plan".to_owned()),
        Event::Retry { .. } => Some("retry".to_owned()),
        Event::Wait { .. } => Some("wait".to_owned()),
        Event::Compacted(compaction) => Some(format!("compacted by {}", compaction.trigger.name())),
        Event::ModelSwitched { .. } => Some("model switched".to_owned()),
        Event::Circuit { state, .. } => Some(format!("circuit {state:?}")),
        _ => None,
    }
}

/// Whether the policy lets a call run. `foreign`: where outside content came from that reached the model before the call.
pub(super) fn policy_allows(
    mode: Mode,
    rules: &[String],
    foreign: &ForeignContent,
    tool: &str,
    effect: &Effect,
) -> bool {
    let policy = Policy {
        mode,
        foreign_content: foreign.clone(),
        grants: rules
            .iter()
            .flat_map(|rule| Rule::parse_list(rule))
            .flatten()
            .map(|rule| GrantedRule {
                rule,
                // The tools of the simulated servers stay as they are.
                tool: effect.foreign.as_ref().map(|foreign| GrantedTool {
                    name: foreign.name.clone(),
                    definition: foreign.definition.clone(),
                }),
            })
            .collect(),
        ..Policy::default()
    };
    matches!(judge_tool_call(&policy, tool, effect), Verdict::Allow { .. })
}

fn status_rank(status: Option<ToolCallStatus>) -> u8 {
    match status {
        None => 0,
        Some(ToolCallStatus::Pending) => 1,
        Some(ToolCallStatus::AwaitingApproval) => 2,
        Some(ToolCallStatus::Running) => 3,
        Some(
            ToolCallStatus::Completed
            | ToolCallStatus::Failed
            | ToolCallStatus::Denied
            | ToolCallStatus::Cancelled,
        ) => 4,
    }
}
