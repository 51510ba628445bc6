//! Questions about effects and limits, and of the agent: how a test waits for them and answers.

use std::sync::Arc;

use super::Client;
use crate::domain::*;
use crate::session::tests::mock_llm::Reply;
use crate::session::*;

/// Returns an answer of the user's own words.
pub(in crate::session::tests) fn answers(text: &str) -> InquiryReply {
    let answers = [("answer".to_owned(), vec![text.to_owned()])];
    InquiryReply::Answers(answers.into())
}

impl Client {
    /// Waits for the next question about an effect.
    pub(in crate::session::tests) fn next_approval(&self, session: &SessionId) -> Approval {
        self.next(session, |event| match event {
            Event::ApprovalRequested(approval) => Some(approval.clone()),
            _ => None,
        })
    }

    /// Answers a question about an effect. The session that asked is found by the question, as for a client.
    pub(in crate::session::tests) fn try_decide(
        &self,
        approval: &ApprovalId,
        decision: Decision,
    ) -> Result<(), CommandError> {
        let asking = self
            .wait_for(self.sessions.find_asking_session(approval))
            .unwrap();
        let session = asking.ok_or_else(|| CommandError::UnknownApproval(approval.clone()))?;
        self.request(&session, |reply| SessionCommand::Decide {
            approval: approval.clone(),
            decision,
            reply,
        })
    }

    /// Allows or denies an effect.
    pub(in crate::session::tests) fn decide(&self, approval: &Approval, decision: DecisionKind) {
        self.try_decide(&approval.id, Decision::from_kind(decision))
            .unwrap();
    }

    /// Waits for the next question about a limit, or of the agent.
    pub(in crate::session::tests) fn next_inquiry(&self, session: &SessionId) -> Arc<Inquiry> {
        self.next(session, |event| match event {
            Event::InquiryRequested(inquiry) => Some(inquiry.clone()),
            _ => None,
        })
    }

    /// Waits for the next answer to a question: the question, the answer, and who gave it.
    pub(in crate::session::tests) fn next_reply(
        &self,
        session: &SessionId,
    ) -> (Arc<Inquiry>, InquiryReply, ResolvedBy) {
        self.next(session, |event| match event {
            Event::InquiryResolved { inquiry, reply, by } => Some((inquiry.clone(), reply.clone(), *by)),
            _ => None,
        })
    }

    /// Answers a question. The session that asked is found by the question, as for a client.
    pub(in crate::session::tests) fn try_answer(
        &self,
        inquiry: &InquiryId,
        answer: InquiryAnswer,
    ) -> Result<(), CommandError> {
        let asking = self.wait_for(self.sessions.inquired_by(inquiry)).unwrap();
        let session = asking.ok_or_else(|| CommandError::UnknownInquiry(inquiry.clone()))?;
        self.request(&session, |reply| SessionCommand::Answer {
            inquiry: inquiry.clone(),
            answer,
            reply,
        })
    }

    /// Answers a question with a reply that has no unit.
    pub(in crate::session::tests) fn reply(&self, inquiry: &Inquiry, reply: InquiryReply) {
        self.try_answer(&inquiry.id, InquiryAnswer::Reply(reply)).unwrap();
    }

    /// Raises a limit by an amount in its unit: US dollars, steps, calls or seconds.
    pub(in crate::session::tests) fn raise(&self, inquiry: &Inquiry, by: f64) {
        self.try_answer(&inquiry.id, InquiryAnswer::RaiseBy(by)).unwrap();
    }

    /// Returns how many times a session has asked about an effect so far.
    pub(in crate::session::tests) fn approval_count(&self, session: &SessionId) -> usize {
        self.count(session, |event| matches!(event, Event::ApprovalRequested(_)))
    }

    /// Lets the model make calls in a new turn, answers the question about them, and waits until the turn has ended.
    /// Returns the question.
    pub(in crate::session::tests) fn call_asking(
        &self,
        session: &SessionId,
        calls: Reply,
        decision: DecisionKind,
    ) -> Approval {
        self.call_deciding(session, calls, Decision::from_kind(decision))
    }

    /// Does the same with any answer.
    pub(in crate::session::tests) fn call_deciding(
        &self,
        session: &SessionId,
        calls: Reply,
        decision: Decision,
    ) -> Approval {
        self.scenario.push(calls);
        let turn = self.prompt(session, "do it");
        let approval = self.next_approval(session);
        self.try_decide(&approval.id, decision).unwrap();
        assert_eq!(self.outcome(turn).end.state, TurnState::Completed);
        approval
    }

    /// Does the same where nothing is asked: a question would never be answered.
    pub(in crate::session::tests) fn call_freely(&self, session: &SessionId, calls: Reply) {
        self.scenario.push(calls);
        assert_eq!(self.ask(session, "do it").end.state, TurnState::Completed);
    }
}
