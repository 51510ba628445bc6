//! Methods for approvals, limits, questions and grants.

use serde_json::Value;
use tower_lsp::jsonrpc::Result;

use super::super::error::RequestError;
use super::super::service::Service;
use super::super::state::session_param;
use super::super::to_wire::OpenInquiryNotification;
use super::super::{from_wire, to_wire};
use super::store_failed;
use crate::domain::{Grant, InquiryId};
use crate::protocol::{
    ApprovalRequestedNotification, ApprovalRespondParams, EmptyResult, LimitRequestedNotification,
    ListApprovalsParams, ListApprovalsResult, ListGrantsParams, ListGrantsResult,
    QuestionRequestedNotification, RevokeGrantParams,
};
use crate::session::{InquiryAnswer, SessionCommand, SessionSnapshot};

impl Service {
    pub(in crate::server) async fn approval_respond(&self, params: Value) -> Result<EmptyResult> {
        let params: ApprovalRespondParams = self.parse_params(params)?;
        let (approval, decision) = from_wire::parse_decision(params)?;
        let find_asking_session = self.state.sessions.find_asking_session(&approval).await;
        let session = find_asking_session
            .map_err(store_failed)?
            .ok_or_else(|| RequestError::UnknownApproval(approval.clone()))?;
        self.ask_session(&session, |reply| SessionCommand::Decide {
            approval,
            decision,
            reply,
        })
        .await?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn limit_respond(&self, params: Value) -> Result<EmptyResult> {
        let (limit, answer) = from_wire::parse_limit_answer(self.parse_params(params)?)?;
        self.answer_inquiry(limit, answer).await
    }

    pub(in crate::server) async fn question_respond(&self, params: Value) -> Result<EmptyResult> {
        let (question, answer) = from_wire::parse_question_answer(self.parse_params(params)?)?;
        self.answer_inquiry(question, answer).await
    }

    async fn answer_inquiry(&self, inquiry: InquiryId, answer: InquiryAnswer) -> Result<EmptyResult> {
        let find_asking_session = self.state.sessions.inquired_by(&inquiry).await;
        let session = find_asking_session
            .map_err(store_failed)?
            .ok_or_else(|| RequestError::UnknownQuestion(inquiry.clone()))?;
        self.ask_session(&session, |reply| SessionCommand::Answer {
            inquiry,
            answer,
            reply,
        })
        .await?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn list_approvals(&self, params: Value) -> Result<ListApprovalsResult> {
        let params: ListApprovalsParams = self.parse_params(params)?;
        let (approvals, inquiries) = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                let snapshot = self
                    .ask_session(&session, |reply| SessionCommand::Inspect { reply })
                    .await?;
                (open_approvals(&snapshot), open_inquiries(&snapshot))
            }
            None => {
                let open = self.state.sessions.open_approvals().await.map_err(store_failed)?;
                let approval_list = open.iter().map(|(id, open)| to_wire::open_approval(id, open));
                let inquiry_list = self.state.sessions.open_inquiries().await.map_err(store_failed)?;
                let inquiry_list = inquiry_list
                    .iter()
                    .map(|(id, open)| to_wire::open_inquiry(id, open));
                (approval_list.collect(), inquiry_list.collect())
            }
        };
        let (limits, questions) = split_by_kind(inquiries);
        Ok(ListApprovalsResult {
            approvals,
            limits,
            questions,
        })
    }

    pub(in crate::server) async fn list_grants(&self, params: Value) -> Result<ListGrantsResult> {
        let params: ListGrantsParams = self.parse_params(params)?;
        let sessions = &self.state.sessions;
        let mut grants: Vec<Grant> = Vec::new();
        match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                let snapshot = self
                    .ask_session(&session, |reply| SessionCommand::Inspect { reply })
                    .await?;
                let known = sessions.list_grants(&snapshot.info.folder, Some(&session)).await;
                grants = known.map_err(store_failed)?;
            }
            None => {
                for folder in self.state.folders() {
                    let known = sessions.list_grants(&folder, None).await;
                    grants.extend(known.map_err(store_failed)?);
                }
            }
        }
        grants.sort_by_key(|grant| std::cmp::Reverse(grant.at_ms));
        Ok(ListGrantsResult {
            grants: grants.iter().map(to_wire::to_grant).collect(),
        })
    }

    pub(in crate::server) async fn revoke_grant(&self, params: Value) -> Result<EmptyResult> {
        let params: RevokeGrantParams = self.parse_params(params)?;
        let revoked = self.state.sessions.revoke_grant(&params.grant_id).await;
        if !revoked.map_err(store_failed)? {
            return Err(RequestError::UnknownGrant(params.grant_id).into());
        }
        Ok(EmptyResult {})
    }
}

/// Returns a session's open limits and questions as they were requested, without the answered ones.
pub(super) fn open_inquiries(snapshot: &SessionSnapshot) -> Vec<OpenInquiryNotification> {
    let unanswered = snapshot.questions.unanswered_inquiries();
    unanswered
        .map(|open| to_wire::open_inquiry(&snapshot.info.id, open))
        .collect()
}

/// Splits inquiries into limits and questions; each list keeps its order.
pub(super) fn split_by_kind(
    open: Vec<OpenInquiryNotification>,
) -> (
    Vec<LimitRequestedNotification>,
    Vec<QuestionRequestedNotification>,
) {
    let (mut limits, mut questions) = (Vec::new(), Vec::new());
    for open in open {
        match open {
            OpenInquiryNotification::Limit(limit) => limits.push(limit),
            OpenInquiryNotification::Question(question) => questions.push(question),
        }
    }
    (limits, questions)
}

/// Returns a session's open approvals as they were requested, without those decided and waiting for a resume.
pub(super) fn open_approvals(snapshot: &SessionSnapshot) -> Vec<ApprovalRequestedNotification> {
    let undecided = snapshot.questions.undecided_approvals();
    undecided
        .map(|open| to_wire::open_approval(&snapshot.info.id, open))
        .collect()
}
