//! Approvals: from a call's effect to the answer that it waits for.
//!
//! The rules, the grants and the mode judge a call. What they do not settle is asked, and the answer becomes an event, a
//! grant where the user wants one, and the outcome for the waiting call. A question outlives the server (R-APPR-4):
//! decisions on an interrupted turn wait until it is resumed. What waits is kept by [`super::questions`].

use tokio::sync::oneshot;

use super::actor::Actor;
use super::command::{CommandError, Reply};
use super::questions::{ApprovalWaiter, JudgementContext};
use super::services::SessionSettings;
use crate::approval::{RuleError, Verdict};
use crate::base::clock;
use crate::base::random;
use crate::domain::{
    Approval, ApprovalId, Decision, DecisionKind, Effect, Event, Grant, GrantScope, ResolvedBy,
};
use crate::store::{PendingEvent, PendingKey, RowWrite, StoreWrite};

impl Actor {
    /// Judges an effect by the current rules, grants and mode.
    pub(super) fn judge_effect(&mut self, tool: &str, effect: &Effect) -> Verdict {
        if self.turn.is_none() {
            return Verdict::Deny {
                reason: "the turn has ended".to_owned(),
            };
        }
        let context = self.judgement_context();
        let verdict = self.questions.judge_effect(&context, tool, effect);
        if matches!(verdict, Verdict::Allow { .. })
            && let Some(tool) = self.questions.note_first_use(effect)
        {
            self.journal.push(StoreWrite::Row(RowWrite::NoteFirstUse {
                folder: self.info.folder.display().to_string(),
                tool,
                at_ms: clock::wall_ms(),
            }));
        }
        verdict
    }

    fn is_allowed(&mut self, tool: &str, effect: &Effect) -> bool {
        matches!(self.judge_effect(tool, effect), Verdict::Allow { .. })
    }

    fn judgement_context(&self) -> JudgementContext {
        JudgementContext {
            mode: self.state.choice.mode,
            foreign_content: self.state.foreign_content.clone(),
        }
    }

    /// Judges a carried call. A decision that the user sent meanwhile takes precedence over rules that allow the call;
    /// otherwise rules that answer the question settle it.
    pub(super) fn judge_carried(&mut self, open: &ApprovalId, verdict: Verdict) -> Verdict {
        let approval = self.state.open_approval(open);
        let kind = match (&verdict, approval) {
            (Verdict::Ask { .. }, _) | (_, None) => return verdict,
            (Verdict::Allow { .. }, Some(approval)) if self.questions.is_decided(open) => {
                return Verdict::Ask {
                    reason: approval.why.clone(),
                    risk: approval.risk,
                    rule: approval.rule.clone(),
                    losses: approval.losses.clone(),
                };
            }
            (Verdict::Allow { .. }, Some(_)) => DecisionKind::Allow,
            (Verdict::Deny { .. }, Some(_)) => DecisionKind::Deny,
        };
        self.questions.take_decision(open);
        self.resolve_approval(open, Decision::from_kind(kind), ResolvedBy::Rule, None);
        verdict
    }

    pub(super) fn open_approval(
        &mut self,
        approval: Approval,
        effect: Effect,
        needs_person: bool,
        reply: oneshot::Sender<Decision>,
    ) {
        let Some(turn) = self.turn.as_mut() else { return };
        let (id, tool) = (approval.id.clone(), approval.name.clone());
        let waiter = ApprovalWaiter {
            reply,
            tool: tool.clone(),
            effect: effect.clone(),
            deadline: turn.settings.approval_timeout.map(|limit| clock::now() + limit),
            needs_person,
        };
        self.questions.add_waiter(id.clone(), waiter);
        self.pause_clock();
        self.record_event(Event::ApprovalRequested(approval));
        // The decision came while the turn was interrupted; apply it now (R-APPR-4).
        if let Some(decision) = self.questions.take_decision(&id) {
            self.resolve_approval(&id, decision, ResolvedBy::Person, None);
        } else if !needs_person && self.is_allowed(&tool, &effect) {
            // A grant was added since the call was judged, for example by an "always" for a parallel call.
            self.resolve_approval(
                &id,
                Decision::from_kind(DecisionKind::Allow),
                ResolvedBy::Rule,
                None,
            );
        }
    }

    /// Takes the user's decision. Without a turn, `settings` are the session's current ones if they were read.
    pub(super) fn decide_approval(
        &mut self,
        id: ApprovalId,
        decision: Decision,
        settings: Option<&SessionSettings>,
        reply: Reply<()>,
    ) {
        let decision = match self.check_decision(&id, decision, settings) {
            Ok(decision) => decision,
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
        };
        let done = self.journal.answer_stored(reply, ());
        if self.questions.awaits_approval(&id) {
            self.resolve_approval(&id, decision, ResolvedBy::Person, Some(done));
            self.rejudge_open_approvals();
        } else {
            // The turn that asked is interrupted; keep the decision until the turn is resumed (R-APPR-4).
            self.questions.keep_decision(id.clone(), decision.clone());
            let pending = PendingEvent::Decision {
                approval: id,
                decision,
            };
            self.journal.put_pending(pending, Some(done));
        }
    }

    /// Returns the decision with its rule, if the approval is open and undecided.
    fn check_decision(
        &self,
        id: &ApprovalId,
        decision: Decision,
        settings: Option<&SessionSettings>,
    ) -> Result<Decision, CommandError> {
        let approval = self.state.open_approval(id);
        let approval = approval.ok_or_else(|| CommandError::UnknownApproval(id.clone()))?;
        let names = settings
            .filter(|_| self.turn.is_none())
            .map(|settings| self.services.tool_names(settings));
        let check = |rule: &str| self.questions.check_rule(rule, names.as_deref());
        let decision = with_rule(decision, approval.rule.as_deref(), check)?;
        // The first answer wins, even if the turn is not resumed yet.
        if self.questions.is_decided(id) {
            Err(CommandError::UnknownApproval(id.clone()))
        } else {
            Ok(decision)
        }
    }

    /// Applies a decision: records the grant and the event, and answers the waiting call.
    pub(super) fn resolve_approval(
        &mut self,
        id: &ApprovalId,
        decision: Decision,
        by: ResolvedBy,
        done: Option<oneshot::Sender<()>>,
    ) {
        let Some(approval) = self.state.open_approval(id).cloned() else {
            return;
        };
        match decision.kind {
            DecisionKind::AllowSession => self.record_grant(id, &decision, GrantScope::Session),
            DecisionKind::AllowAlways => self.record_grant(id, &decision, GrantScope::Workspace),
            DecisionKind::Allow | DecisionKind::Deny => {}
        }
        let answer = decision.clone();
        self.record_with(
            Event::ApprovalResolved {
                approval: id.clone(),
                tool_call: approval.tool_call,
                decision,
                by,
            },
            None,
            vec![PendingKey::for_decision(id)],
            Vec::new(),
            done,
        );
        self.questions.answer_approval(id, answer);
        self.run_clock();
    }

    fn record_grant(&mut self, approval: &ApprovalId, decision: &Decision, scope: GrantScope) {
        let Some(rule) = decision.rule.clone() else { return };
        let grant = Grant {
            id: format!("grant_{}", random::random_token(12)),
            rule,
            scope,
            folder: self.info.folder.display().to_string(),
            at_ms: clock::wall_ms(),
            tool: self.questions.find_asked_tool(approval),
        };
        self.questions.add_grant(grant.clone());
        let session = (scope == GrantScope::Session).then(|| self.info.id.clone());
        self.journal
            .push(StoreWrite::Row(RowWrite::AddGrant { grant, session }));
    }

    /// Answers open questions that the changed rules or grants now allow.
    pub(super) fn rejudge_open_approvals(&mut self) {
        let context = self.judgement_context();
        for id in self.questions.find_allowed(&context) {
            self.resolve_approval(
                &id,
                Decision::from_kind(DecisionKind::Allow),
                ResolvedBy::Rule,
                None,
            );
        }
    }

    /// Denies approvals whose time is over (R-APPR-4).
    pub(super) fn approvals_timed_out(&mut self) {
        for id in self.questions.find_late(clock::now()) {
            let decision = Decision {
                feedback: Some("no answer in time".to_owned()),
                ..Decision::from_kind(DecisionKind::Deny)
            };
            self.resolve_approval(&id, decision, ResolvedBy::Timeout, None);
        }
    }
}

/// Adds the rule that "session" and "always" need: the user's own, or the offered one.
fn with_rule(
    mut decision: Decision,
    offered: Option<&str>,
    check: impl FnOnce(&str) -> Result<(), RuleError>,
) -> Result<Decision, CommandError> {
    match decision.kind {
        DecisionKind::Allow | DecisionKind::Deny => decision.rule = None,
        DecisionKind::AllowSession | DecisionKind::AllowAlways => {
            let rule = decision
                .rule
                .take()
                .or_else(|| offered.map(str::to_owned))
                .ok_or(CommandError::NoRule)?;
            // The offered rule comes from us and is known to be valid.
            if offered != Some(rule.as_str()) {
                check(&rule).map_err(|error| CommandError::BadRule(error.to_string()))?;
            }
            decision.rule = Some(rule);
        }
    }
    Ok(decision)
}
