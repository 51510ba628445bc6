//! Methods that start, steer, queue, resume, compact or cancel turns.

use serde_json::Value;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::Result;

use super::super::documents;
use super::super::error::RequestError;
use super::super::service::Service;
use super::super::state::session_param;
use super::super::{from_wire, to_wire};
use crate::base::CancellationToken;
use crate::domain::{SessionId, TurnId};
use crate::protocol::{
    CancelNotification, CompactParams, PromptParams, PromptResult, QueueParams, QueueResult,
    ResumeTurnParams, SteerParams, SteerResult,
};
use crate::session::{CommandError, QueueAction, SessionCommand, TurnHandle, TurnOutcome};
use crate::transport::cancel_token;

impl Service {
    pub(in crate::server) async fn run_prompt(&self, params: Value) -> Result<PromptResult> {
        let params: PromptParams = self.parse_params(params)?;
        let session = session_param(&params.session_id);
        // Before the first await, so that prompts keep their order.
        let content = documents::load_prompt_content(&self.state, params.prompt)?;
        let handle = self
            .ask_until_canceled(&session, |canceled, reply| SessionCommand::Prompt {
                content,
                canceled,
                reply,
            })
            .await?;
        self.follow_turn(&session, handle).await
    }

    pub(in crate::server) async fn resume_turn(&self, params: Value) -> Result<PromptResult> {
        let params: ResumeTurnParams = self.parse_params(params)?;
        let session = session_param(&params.session_id);
        let handle = self
            .ask_session(&session, |reply| SessionCommand::Resume { reply })
            .await?;
        self.follow_turn(&session, handle).await
    }

    pub(in crate::server) async fn compact_session(&self, params: Value) -> Result<PromptResult> {
        let CompactParams {
            session_id,
            instructions,
        } = self.parse_params(params)?;
        let session = session_param(&session_id);
        let handle = self
            .ask_session(&session, |reply| SessionCommand::Compact { instructions, reply })
            .await?;
        self.follow_turn(&session, handle).await
    }

    pub(in crate::server) async fn steer_turn(&self, params: Value) -> Result<SteerResult> {
        let params: SteerParams = self.parse_params(params)?;
        let session = session_param(&params.session_id);
        let content = documents::load_prompt_content(&self.state, params.prompt)?;
        let expected = params.expected_turn_id.map(TurnId::from);
        let turn = self
            .ask_until_canceled(&session, |canceled, reply| SessionCommand::Steer {
                content,
                expected,
                canceled,
                reply,
            })
            .await?;
        Ok(SteerResult {
            turn_id: turn.to_string(),
        })
    }

    pub(in crate::server) async fn handle_queue(&self, params: Value) -> Result<QueueResult> {
        let params: QueueParams = self.parse_params(params)?;
        let session = session_param(&params.session_id);
        let wanted = from_wire::parse_queue(params)?;
        let action = match wanted {
            from_wire::QueueRequest::List => QueueAction::List,
            from_wire::QueueRequest::Add(prompt) => {
                QueueAction::Add(documents::load_prompt_content(&self.state, prompt)?)
            }
            from_wire::QueueRequest::Edit(id, prompt) => {
                QueueAction::Edit(id, documents::load_prompt_content(&self.state, prompt)?)
            }
            from_wire::QueueRequest::Remove(id) => QueueAction::Remove(id),
            from_wire::QueueRequest::SendNow(id) => QueueAction::SendNow(id),
        };
        let queue = self
            .ask_until_canceled(&session, |canceled, reply| SessionCommand::Queue {
                action,
                canceled,
                reply,
            })
            .await?;
        Ok(to_wire::queue_result(
            queue.paused,
            &queue.prompts,
            queue.added,
            queue.turn,
        ))
    }

    pub(in crate::server) async fn cancel_turn(&self, params: Value) {
        // A notification has no answer, so a problem with it goes to the log.
        let params: CancelNotification = match from_wire::parse_params(params) {
            Ok(params) => params,
            Err(error) => return tracing::warn!(%error, "agent/cancel was not understood"),
        };
        let session = session_param(&params.session_id);
        let turn = params.turn_id.map(TurnId::from);
        self.state.sessions.cancel_turn(&session, turn.as_ref());
    }

    /// Follows a turn to its end. `$/cancelRequest` cancels the turn, and the answer carries its result (R-WIRE).
    async fn follow_turn(&self, session: &SessionId, handle: TurnHandle) -> Result<PromptResult> {
        let turn = handle.turn.clone();
        let was_canceled = cancel_token().is_cancelled() && !self.state.ending.is_cancelled();
        let mut outcome = std::pin::pin!(handle.wait_for_outcome());
        if !was_canceled {
            tokio::select! { biased;
                // A turn that has ended gets its normal answer, even if a cancel arrives at the same time.
                outcome = &mut outcome => return Ok(to_prompt_result(outcome)?),
                () = self.wait_for_cancel() => {}
            }
        }
        self.state.sessions.cancel_turn(session, Some(&turn));
        let result = to_prompt_result(outcome.await)?;
        Err(RequestError::Cancelled(Some(Box::new(result))).into())
    }

    /// Asks a session. `$/cancelRequest` ends the wait for what the command needs from elsewhere.
    async fn ask_until_canceled<T>(
        &self,
        session: &SessionId,
        command: impl FnOnce(
            CancellationToken,
            oneshot::Sender<std::result::Result<T, CommandError>>,
        ) -> SessionCommand,
    ) -> Result<T> {
        let canceled = CancellationToken::new();
        let mut answer = std::pin::pin!(self.ask_session(session, |reply| command(canceled.clone(), reply)));
        tokio::select! { biased;
            answer = &mut answer => return answer,
            () = self.wait_for_cancel() => canceled.cancel(),
        }
        answer.await
    }

    /// Waits for `$/cancelRequest` of the current request.
    async fn wait_for_cancel(&self) {
        cancel_token().cancelled().await;
        // At the server's end a turn is interrupted, not canceled by the user, and gets its normal answer.
        if self.state.ending.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

fn to_prompt_result(outcome: Option<TurnOutcome>) -> std::result::Result<PromptResult, RequestError> {
    let outcome = outcome.ok_or(RequestError::ShuttingDown)?;
    let (before, after) = outcome.compacted.unzip();
    Ok(PromptResult {
        tokens_before: before,
        tokens_after: after,
        ..to_wire::prompt_result(&outcome.turn, &outcome.end, outcome.text)
    })
}
