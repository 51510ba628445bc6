//! Approvals and grants.

use tokio::sync::oneshot;
use tower_lsp::jsonrpc::Result;

use super::super::error::RequestError;
use super::super::service::Service;
use super::super::state::session_param;
use super::super::{from_wire, to_wire};
use super::answer;
use crate::base::clock;
use crate::domain::{Approval, ApprovalId, Envelope, Event, Grant};
use crate::protocol::{
    ApprovalRequestedNotification, ApprovalRespondParams, EmptyResult, ListApprovalsParams,
    ListApprovalsResult, ListGrantsParams, ListGrantsResult, RevokeGrantParams,
};
use crate::session::{Command, Refused, Snapshot};
use crate::store::Write;

impl Service {
    pub(in crate::server) async fn approval_respond(
        &self,
        params: ApprovalRespondParams,
    ) -> Result<EmptyResult> {
        let approval = ApprovalId::from(params.approval_id.as_str());
        let decision = from_wire::decision(params)?;
        let session = self
            .state
            .sessions
            .asked_by(&approval)
            .ok_or_else(|| Refused::UnknownApproval(approval.clone()))?;
        let (reply, decided) = oneshot::channel();
        self.state.sessions.post(&session, Command::Decide { approval, decision, reply })?;
        answer(decided).await?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn list_approvals(
        &self,
        params: ListApprovalsParams,
    ) -> Result<ListApprovalsResult> {
        let snapshots = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                vec![self.state.sessions.ask(&session, |reply| Command::Inspect { reply }).await?]
            }
            None => self.state.sessions.snapshots().await,
        };
        let approvals = snapshots.iter().flat_map(open_approvals).collect();
        Ok(ListApprovalsResult { approvals })
    }

    pub(in crate::server) async fn list_grants(&self, params: ListGrantsParams) -> Result<ListGrantsResult> {
        let reader = &self.state.sessions.house().store.reader;
        let mut grants: Vec<Grant> = Vec::new();
        match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                let snapshot = self.state.sessions.ask(&session, |reply| Command::Inspect { reply }).await?;
                let folder = snapshot.info.folder.display().to_string();
                grants = reader.grants(&folder, Some(&session)).await.map_err(RequestError::from)?;
            }
            None => {
                for folder in self.state.folders() {
                    let folder = folder.display().to_string();
                    grants.extend(reader.grants(&folder, None).await.map_err(RequestError::from)?);
                }
            }
        }
        grants.sort_by_key(|grant| std::cmp::Reverse(grant.at_ms));
        Ok(ListGrantsResult { grants: grants.iter().map(to_wire::grant).collect() })
    }

    pub(in crate::server) async fn revoke_grant(&self, params: RevokeGrantParams) -> Result<EmptyResult> {
        let listed = self.list_grants(ListGrantsParams::default()).await?;
        let mut known = listed.grants.iter().any(|grant| grant.grant_id == params.grant_id);
        known |= self.state.sessions.revoke(&params.grant_id).await;
        if !known {
            return Err(RequestError::unknown_grant(&params.grant_id).into());
        }
        let writes = &self.state.sessions.house().store.writes;
        writes.send(Write::RevokeGrant { id: params.grant_id }).await.map_err(RequestError::from)?;
        writes.barrier().await.map_err(RequestError::from)?;
        Ok(EmptyResult {})
    }
}

/// A session's open questions as they were asked.
pub(super) fn open_approvals(snapshot: &Snapshot) -> Vec<ApprovalRequestedNotification> {
    let asked = |approval: &Approval| {
        let envelope = Envelope {
            session: snapshot.info.id.clone(),
            turn: snapshot.turn.clone(),
            seq: Some(snapshot.seq),
            at_ms: clock::wall_ms(),
            event: Event::ApprovalRequested(approval.clone()),
            permit: None,
        };
        to_wire::approval_requested(to_wire::header(&envelope), approval)
    };
    snapshot.approvals.iter().map(asked).collect()
}
