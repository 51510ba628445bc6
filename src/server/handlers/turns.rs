//! Prompts, steers, resumes, cancels.

use tokio::sync::oneshot;
use tower_lsp::jsonrpc::{Error, Result};

use super::super::documents;
use super::super::service::Service;
use super::super::state::session_param;
use super::super::{error, to_wire};
use super::answer;
use crate::domain::{SessionId, TurnId};
use crate::protocol::{
    CancelNotification, PromptParams, PromptResult, ResumeTurnParams, SteerParams, SteerResult,
};
use crate::session::{Command, Refused, TurnHandle, TurnOutcome};
use crate::transport::cancel_token;

impl Service {
    pub(in crate::server) async fn prompt(&self, params: PromptParams) -> Result<PromptResult> {
        let session = session_param(&params.session_id);
        let content = documents::content(&self.state, params.prompt)?;
        let (reply, started) = oneshot::channel();
        self.state.sessions.post(&session, Command::Prompt { content, reply })?;
        self.follow(session, started).await
    }

    pub(in crate::server) async fn resume_turn(&self, params: ResumeTurnParams) -> Result<PromptResult> {
        let session = session_param(&params.session_id);
        let (reply, started) = oneshot::channel();
        self.state.sessions.post(&session, Command::Resume { reply })?;
        self.follow(session, started).await
    }

    pub(in crate::server) async fn steer(&self, params: SteerParams) -> Result<SteerResult> {
        let session = session_param(&params.session_id);
        let content = documents::content(&self.state, params.prompt)?;
        let expected = params.expected_turn_id.map(TurnId::from);
        let (reply, accepted) = oneshot::channel();
        self.state.sessions.post(&session, Command::Steer { content, expected, reply })?;
        let turn = answer(accepted).await?;
        Ok(SteerResult { turn_id: turn.to_string() })
    }

    pub(in crate::server) async fn cancel(&self, params: CancelNotification) {
        let session = session_param(&params.session_id);
        let turn = params.turn_id.map(TurnId::from);
        self.state.sessions.post_if_live(&session, Command::Cancel { turn });
    }

    /// Follows a turn to its end; `$/cancelRequest` cancels it and is answered with its result (R-WIRE).
    async fn follow(
        &self,
        session: SessionId,
        started: oneshot::Receiver<std::result::Result<TurnHandle, Refused>>,
    ) -> Result<PromptResult> {
        let handle = answer(started).await?;
        let turn = handle.turn.clone();
        let cancelled = cancel_token();
        let mut outcome = std::pin::pin!(handle.outcome());
        tokio::select! { biased;
            ended = &mut outcome => return result(ended),
            () = cancelled.cancelled() => {}
        }
        if self.state.ending.is_cancelled() {
            return result(outcome.await);
        }
        self.state.sessions.post_if_live(&session, Command::Cancel { turn: Some(turn) });
        Err(error::cancelled_with(result(outcome.await)?))
    }
}

fn result(ended: Option<TurnOutcome>) -> Result<PromptResult> {
    let ended = ended.ok_or_else(|| Error::from(Refused::Ending))?;
    Ok(to_wire::prompt_result(&ended.turn, &ended.end, ended.text))
}
