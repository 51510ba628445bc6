//! Questions: what the running turn has asked and waits for, decisions that came early, and what answers a question
//! without the user: the rules and the grants.
//!
//! It compiles rules and grants into a [`Policy`] when they change, not for each call. It must not record anything or
//! know the turn; the judgement itself belongs to [`crate::approval`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::clock::Instant;
use tokio::sync::oneshot;

use super::services::Rules;
use crate::approval::{GrantedRule, Policy, Rule, RuleError, Verdict, judge_tool_call};
use crate::domain::{
    ApprovalId, Decision, Effect, ForeignContent, ForeignTool, Grant, GrantScope, GrantedTool, InquiryId,
    InquiryReply, Mode,
};
use crate::store::StoredPermissions;

/// What waits for the decision about an open approval, and what is judged again when rules change.
pub(super) struct ApprovalWaiter {
    pub(super) reply: oneshot::Sender<Decision>,
    pub(super) tool: String,
    pub(super) effect: Effect,
    pub(super) deadline: Option<Instant>,
    /// Rules that allow the effect do not settle it.
    pub(super) needs_person: bool,
}

/// What else a judgement depends on: the session's mode, and where foreign content of the model came from.
pub(super) struct JudgementContext {
    pub(super) mode: Mode,
    pub(super) foreign_content: ForeignContent,
}

/// The open questions of a session, and what answers them.
#[derive(Default)]
pub(super) struct Questions {
    /// Approvals that the running turn waits for.
    approvals: BTreeMap<ApprovalId, ApprovalWaiter>,
    /// Inquiries that the running turn waits for.
    inquiries: BTreeMap<InquiryId, oneshot::Sender<Option<InquiryReply>>>,
    /// Decisions on approvals of an interrupted turn, until it is resumed.
    decisions: HashMap<ApprovalId, Decision>,
    /// Answers to inquiries of an interrupted turn, until it is resumed.
    replies: HashMap<InquiryId, InquiryReply>,
    /// This session's grants, and the folder's as of the turn's start.
    grants: Vec<Grant>,
    /// A grant was added since the grants were read.
    has_new_grants: bool,
    /// The running turn's rules, with the grants.
    policy: Policy,
    /// The tools that a rule of the running turn may name.
    tools: Vec<String>,
}

impl Questions {
    /// Takes over the rules of a turn that begins.
    pub(super) fn set_rules(&mut self, rules: &Rules, tools: Vec<String>) {
        self.policy = Policy {
            require_approval: rules.require_approval.clone(),
            allow: rules.allow.clone(),
            deny: rules.deny.clone(),
            invalid_rules: rules.unreadable.clone(),
            sandboxed_needs_approval: rules.sandboxed_needs_approval,
            first_uses: std::mem::take(&mut self.policy.first_uses),
            ..Policy::default()
        };
        self.tools = tools;
        self.compile_grants();
    }

    fn compile_grants(&mut self) {
        let tools: Vec<&str> = self.tools.iter().map(String::as_str).collect();
        let granted = self.grants.iter().flat_map(|grant| {
            // A stored grant that cannot be read, or matches nothing, allows nothing.
            let rules = Rule::read_list(&grant.rule, &tools).unwrap_or_default();
            rules.into_iter().map(|rule| GrantedRule {
                rule,
                tool: grant.tool.clone(),
            })
        });
        self.policy.grants = granted.collect();
    }

    /// Judges an effect by the rules, the grants and the mode.
    pub(super) fn judge_effect(
        &mut self,
        context: &JudgementContext,
        tool: &str,
        effect: &Effect,
    ) -> Verdict {
        self.policy.mode = context.mode;
        // R-TOOL-7: after content from outside, network and writes outside the workspace ask again.
        self.policy.foreign_content.clone_from(&context.foreign_content);
        judge_tool_call(&self.policy, tool, effect)
    }

    /// Notes what a tool of an MCP server is if a rule allows it for the first time. Returns it then.
    pub(super) fn note_first_use(&mut self, effect: &Effect) -> Option<GrantedTool> {
        let ForeignTool { name, definition, .. } = effect.foreign.as_ref()?;
        let grants = self.policy.grants.iter().map(|grant| &grant.rule);
        let mut rules = grants.chain(&self.policy.allow);
        if self.policy.first_uses.contains_key(name) || !rules.any(|rule| rule.matches_tool(name)) {
            return None;
        }
        self.policy.first_uses.insert(name.clone(), definition.clone());
        // As with a grant, the store may not have it yet.
        self.has_new_grants = true;
        Some(GrantedTool {
            name: name.clone(),
            definition: definition.clone(),
        })
    }

    /// Returns the tool of an MCP server that an open approval is about.
    pub(super) fn find_asked_tool(&self, id: &ApprovalId) -> Option<GrantedTool> {
        let foreign = self.approvals.get(id)?.effect.foreign.as_ref()?;
        Some(GrantedTool {
            name: foreign.name.clone(),
            definition: foreign.definition.clone(),
        })
    }

    /// Checks a rule that the user edited, for a turn with these tools.
    pub(super) fn check_rule(&self, rule: &str, tools: Option<&[&str]>) -> Result<(), RuleError> {
        let own: Vec<&str> = self.tools.iter().map(String::as_str).collect();
        Rule::read_list(rule, tools.unwrap_or(&own)).map(drop)
    }

    /// Returns the open approvals that the current rules, grants and mode allow.
    pub(super) fn find_allowed(&mut self, context: &JudgementContext) -> Vec<ApprovalId> {
        let approvals = std::mem::take(&mut self.approvals);
        let by_rule = approvals.iter().filter(|(_, waiter)| !waiter.needs_person);
        let allowed = by_rule
            .filter(|(_, waiter)| {
                let verdict = self.judge_effect(context, &waiter.tool, &waiter.effect);
                matches!(verdict, Verdict::Allow { .. })
            })
            .map(|(id, _)| id.clone())
            .collect();
        self.approvals = approvals;
        allowed
    }

    /// Returns the open approvals whose time is over.
    pub(super) fn find_late(&self, now: Instant) -> Vec<ApprovalId> {
        let late = |waiter: &ApprovalWaiter| waiter.deadline.is_some_and(|deadline| deadline <= now);
        let expired = self.approvals.iter().filter(|(_, waiter)| late(waiter));
        expired.map(|(id, _)| id.clone()).collect()
    }

    /// Returns when the next open approval is denied for want of an answer.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.approvals.values().filter_map(|waiter| waiter.deadline).min()
    }

    /// Returns what nobody waits for any more, because a sub-agent was stopped.
    pub(super) fn find_abandoned(&self) -> (Vec<ApprovalId>, Vec<InquiryId>) {
        let approvals = self
            .approvals
            .iter()
            .filter(|(_, waiter)| waiter.reply.is_closed());
        let inquiries = self.inquiries.iter().filter(|(_, reply)| reply.is_closed());
        (
            approvals.map(|(id, _)| id.clone()).collect(),
            inquiries.map(|(id, _)| id.clone()).collect(),
        )
    }

    pub(super) fn add_waiter(&mut self, id: ApprovalId, waiter: ApprovalWaiter) {
        self.approvals.insert(id, waiter);
    }

    pub(super) fn open_inquiry(&mut self, id: InquiryId, reply: oneshot::Sender<Option<InquiryReply>>) {
        self.inquiries.insert(id, reply);
    }

    pub(super) fn awaits_approval(&self, id: &ApprovalId) -> bool {
        self.approvals.contains_key(id)
    }

    pub(super) fn awaits_inquiry(&self, id: &InquiryId) -> bool {
        self.inquiries.contains_key(id)
    }

    /// Returns whether the turn waits for an answer.
    pub(super) fn awaits_any(&self) -> bool {
        !self.approvals.is_empty() || !self.inquiries.is_empty()
    }

    /// Answers the call that waits for an approval, if one does.
    pub(super) fn answer_approval(&mut self, id: &ApprovalId, decision: Decision) {
        if let Some(waiter) = self.approvals.remove(id) {
            // The call may have been stopped meanwhile.
            let _ = waiter.reply.send(decision);
        }
    }

    /// Answers the turn that waits for an inquiry, if it does.
    pub(super) fn answer_inquiry(&mut self, id: &InquiryId, inquiry_reply: &InquiryReply) {
        if let Some(reply) = self.inquiries.remove(id) {
            // The turn may be stopping meanwhile.
            let _ = reply.send(Some(inquiry_reply.clone()));
        }
    }

    /// Forgets an open approval and an early decision on it.
    pub(super) fn forget_approval(&mut self, id: &ApprovalId) {
        self.approvals.remove(id);
        self.decisions.remove(id);
    }

    /// Forgets what the turn waits for, because it has ended.
    pub(super) fn end_turn(&mut self) {
        self.approvals.clear();
        self.inquiries.clear();
    }

    /// Takes over the decisions and answers that wait in the store.
    pub(super) fn set_early(
        &mut self,
        decisions: HashMap<ApprovalId, Decision>,
        replies: HashMap<InquiryId, InquiryReply>,
    ) {
        self.decisions = decisions;
        self.replies = replies;
    }

    /// Keeps a decision until its turn is resumed (R-APPR-4).
    pub(super) fn keep_decision(&mut self, id: ApprovalId, decision: Decision) {
        self.decisions.insert(id, decision);
    }

    pub(super) fn take_decision(&mut self, id: &ApprovalId) -> Option<Decision> {
        self.decisions.remove(id)
    }

    pub(super) fn is_decided(&self, id: &ApprovalId) -> bool {
        self.decisions.contains_key(id)
    }

    pub(super) fn decided_ids(&self) -> BTreeSet<ApprovalId> {
        self.decisions.keys().cloned().collect()
    }

    /// Keeps an answer until its turn is resumed.
    pub(super) fn keep_reply(&mut self, id: InquiryId, reply: InquiryReply) {
        self.replies.insert(id, reply);
    }

    pub(super) fn take_reply(&mut self, id: &InquiryId) -> Option<InquiryReply> {
        self.replies.remove(id)
    }

    /// Returns what the user has answered meanwhile.
    pub(super) fn kept_reply(&self, id: &InquiryId) -> Option<&InquiryReply> {
        self.replies.get(id)
    }

    pub(super) fn is_replied(&self, id: &InquiryId) -> bool {
        self.replies.contains_key(id)
    }

    pub(super) fn replied_ids(&self) -> BTreeSet<InquiryId> {
        self.replies.keys().cloned().collect()
    }

    /// Returns whether a grant was added that the store may not have yet.
    pub(super) fn has_new_grants(&self) -> bool {
        self.has_new_grants
    }

    /// Takes over what the store knows of permissions.
    pub(super) fn set_permissions(&mut self, stored: StoredPermissions) {
        self.grants = stored.grants;
        self.policy.first_uses = stored.first_uses;
        self.compile_grants();
    }

    /// Takes over the permissions that were read again, after this session's own were stored. `None` if reading failed.
    pub(super) fn set_stored_permissions(&mut self, stored: Option<StoredPermissions>) {
        self.has_new_grants = false;
        if let Some(stored) = stored {
            self.set_permissions(stored);
        }
    }

    pub(super) fn add_grant(&mut self, grant: Grant) {
        self.has_new_grants = true;
        self.grants.retain(|earlier| !grant.replaces(earlier));
        self.grants.push(grant);
        self.compile_grants();
    }

    /// Revokes a grant. Returns whether it was here.
    pub(super) fn revoke_grant(&mut self, id: &str) -> bool {
        let before = self.grants.len();
        self.grants.retain(|grant| grant.id != id);
        self.compile_grants();
        self.grants.len() < before
    }

    /// Returns the grants of this session only.
    pub(super) fn session_grants(&self) -> Vec<Grant> {
        let own = self.grants.iter();
        own.filter(|grant| grant.scope == GrantScope::Session)
            .cloned()
            .collect()
    }

    /// Forgets everything, because the session was deleted.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::EffectKind;

    const CONTEXT: JudgementContext = JudgementContext {
        mode: Mode::Ask,
        foreign_content: ForeignContent::None,
    };

    fn write() -> Effect {
        Effect {
            kind: EffectKind::Write,
            ..Effect::none()
        }
    }

    fn grant(id: &str, rule: &str) -> Grant {
        Grant {
            id: id.to_owned(),
            rule: rule.to_owned(),
            scope: GrantScope::Session,
            folder: String::new(),
            at_ms: 0,
            tool: None,
        }
    }

    fn ask(questions: &mut Questions, id: &str, needs_person: bool, deadline: Option<Instant>) {
        let waiter = ApprovalWaiter {
            reply: oneshot::channel().0,
            tool: "write_file".to_owned(),
            effect: write(),
            deadline,
            needs_person,
        };
        questions.add_waiter(ApprovalId::from(id), waiter);
    }

    fn new_questions() -> Questions {
        let mut questions = Questions::default();
        questions.set_rules(&Rules::default(), vec!["write_file".to_owned()]);
        questions
    }

    #[test]
    fn grants_apply_as_soon_as_they_are_added_and_no_longer_than_until_they_are_revoked() {
        let mut questions = new_questions();
        ask(&mut questions, "appr_2", false, None);
        ask(&mut questions, "appr_1", false, None);
        ask(&mut questions, "appr_3", true, None);
        assert!(questions.find_allowed(&CONTEXT).is_empty());
        questions.add_grant(grant("grant_1", "write_file"));
        assert!(questions.has_new_grants());
        let allowed = questions.find_allowed(&CONTEXT);
        assert_eq!(
            allowed,
            ["appr_1", "appr_2"].map(ApprovalId::from),
            "in a fixed order"
        );
        assert!(questions.revoke_grant("grant_1"));
        assert!(!questions.revoke_grant("grant_1"));
        assert!(questions.find_allowed(&CONTEXT).is_empty());
    }

    #[test]
    fn late_approvals_are_found() {
        let mut questions = new_questions();
        let now = crate::base::clock::now();
        ask(&mut questions, "appr_1", false, Some(now));
        ask(&mut questions, "appr_2", false, None);
        assert_eq!(questions.next_deadline(), Some(now));
        assert_eq!(questions.find_late(now), [ApprovalId::from("appr_1")]);
    }

    #[test]
    fn questions_of_a_stopped_sub_agent_are_found() {
        let mut questions = new_questions();
        // The receiving end is gone.
        ask(&mut questions, "appr_1", false, None);
        let (reply, _waits) = oneshot::channel();
        questions.open_inquiry(InquiryId::from("inq_1"), reply);
        assert_eq!(
            questions.find_abandoned(),
            (vec![ApprovalId::from("appr_1")], Vec::new())
        );
    }
}
