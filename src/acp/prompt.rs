//! `session/prompt` and `session/cancel`.
//!
//! The answer to a prompt follows all updates of its turn. A failed turn is an error, because the protocol has no stop
//! reason for it.

use base64::Engine as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::Error;

use super::client::ClientFacts;
use super::context::AcpContext;
use super::error::{agent_error, command_refusal, invalid_param, prompt_running};
use super::links::{to_literal_reference, to_reference};
use super::open_prompts::OpenPrompt;
use super::params::{ContentBlock, EmbeddedResource, PromptParams, SessionParams};
use super::updates::Notice;
use super::{options, updates};
use crate::base::text::escape_hidden_characters;
use crate::domain::{
    AgentError, Block, ErrorCode, MediaData, MessageId, SessionId, TerminalReason, TurnState,
};
use crate::session::{
    CommandError, SessionCommand, SessionSnapshot, TurnHandle, TurnOutcome, resolve_reference,
};
use crate::transport::cancel_token;
use crate::workspace::Roots;

/// Media types of images that every provider accepts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Runs a prompt to the end of its turn. If a canceled one still ends, waits for that first.
pub(super) async fn run_prompt(state: &AcpContext, params: PromptParams) -> Result<Value, Error> {
    let session = SessionId::from(params.session_id);
    // Before the first await: a cancel may be the next message.
    let opened = state.prompts.open(&session, &cancel_token());
    let prompt = opened.ok_or_else(prompt_running)?;
    let Some(handle) = start_turn(state, &session, params.prompt, &prompt).await? else {
        return Ok(json!({"stopReason": "cancelled"}));
    };
    follow_turn(state, &session, handle).await
}

/// Resumes an interrupted turn if the client has answered all that it left open. No request waits for its end, so a note
/// says why it stopped.
pub(super) async fn resume_answered_turn(state: &AcpContext, session: &SessionId) {
    let problem = match resume_turn(state, session).await {
        None => return,
        Some(Ok(answer)) => answer["stopReason"].as_str().unwrap_or_default().to_owned(),
        Some(Err(error)) => error.message.into_owned(),
    };
    if problem != "end_turn" {
        let title = format!("The turn that was resumed has stopped: {problem}");
        let notice = Notice::new("warning", "turn_stopped", title);
        let shows_notices = ClientFacts::has(&state.facts.shows_notices);
        let update = notice.into_update(shows_notices, MessageId::new_random().as_str());
        state.feeds.send(session, update);
    }
}

/// Resumes a turn without open questions, and follows it to its end. Returns `None` if there is none.
async fn resume_turn(state: &AcpContext, session: &SessionId) -> Option<Result<Value, Error>> {
    // The session is live, unless it was closed since the answer.
    let snapshot = state.sessions.inspect_live(session).await?;
    let open = &snapshot.questions;
    let left = open.undecided_approvals().count() + open.unanswered_inquiries().count();
    snapshot.resumable.filter(|_| left == 0)?;
    // Until its end, it counts as a prompt. One that came first has settled the questions.
    let prompt = state.prompts.open(session, &cancel_token())?;
    let (reply, started) = oneshot::channel();
    let resume = SessionCommand::Resume { reply };
    prompt.post_unless_canceled(|| state.sessions.post_to_live(session, resume))??;
    Some(match started.await.ok()? {
        Ok(handle) => follow_turn(state, session, handle).await,
        Err(refused) => Err(command_refusal(refused)),
    })
}

/// Starts the turn of a prompt. Returns `None` if the prompt was canceled before.
async fn start_turn(
    state: &AcpContext,
    session: &SessionId,
    blocks: Vec<ContentBlock>,
    prompt: &OpenPrompt,
) -> Result<Option<TurnHandle>, Error> {
    let prepare = async {
        prompt.wait_for_turn().await;
        state.wait_for_introduction(session).await;
        let snapshot = options::inspect(state, session).await?;
        // A client may send the first prompt of a session that it did not load here.
        state.resolve_trust(&snapshot.info.folder).await;
        let shown = state.feed_options(session, &snapshot.info.folder, &snapshot.info.cwd);
        state.feeds.set_options(session, shown);
        state.editor.begin_prompt(session, &blocks).await;
        read_prompt(state, &snapshot, blocks)
    };
    let content = tokio::select! { biased;
        () = prompt.wait_for_cancel() => return Ok(None),
        content = prepare => content?,
    };
    let (reply, started) = oneshot::channel();
    let command = match compact_instructions(&content) {
        Some(instructions) => SessionCommand::Compact { instructions, reply },
        None => SessionCommand::Prompt {
            content,
            canceled: cancel_token(),
            reply,
        },
    };
    let Some(posted) = prompt.post_unless_canceled(|| state.sessions.post_command(session, command)) else {
        return Ok(None);
    };
    posted.map_err(command_refusal)?;
    match started
        .await
        .unwrap_or_else(|_| Err(state.sessions.lost_answer()))
    {
        Ok(handle) => Ok(Some(handle)),
        Err(CommandError::Canceled) => Ok(None),
        Err(refused) => Err(command_refusal(refused)),
    }
}

/// Follows a turn to its end, and returns the answer to its prompt. `$/cancel_request` cancels it.
async fn follow_turn(state: &AcpContext, session: &SessionId, handle: TurnHandle) -> Result<Value, Error> {
    let turn = handle.turn.clone();
    let canceled = cancel_token();
    let mut outcome = std::pin::pin!(handle.wait_for_outcome());
    let outcome = tokio::select! { biased;
        outcome = &mut outcome => outcome,
        () = canceled.cancelled() => {
            // At the server's end the turn is interrupted, not canceled by the user.
            if !state.ending.is_cancelled() {
                state.sessions.cancel_turn(session, Some(&turn));
            }
            outcome.await
        }
    };
    let ended = AgentError::new(ErrorCode::Session, "the session has ended");
    to_answer(outcome.ok_or_else(|| agent_error(&ended))?)
}

/// Cancels the prompt that waits, or else the running turn, and what an interrupted turn has left open.
pub(super) fn cancel(state: &AcpContext, params: SessionParams) {
    let session = SessionId::from(params.session_id);
    state.feeds.dismiss_left_open(&session);
    state
        .prompts
        .cancel(&session, || state.sessions.cancel_turn(&session, None));
}

fn to_answer(outcome: TurnOutcome) -> Result<Value, Error> {
    let end = &outcome.end;
    let reason = match end.reason {
        TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => "cancelled",
        TerminalReason::MaxOutputTokens => "max_tokens",
        TerminalReason::MaxTurns | TerminalReason::MaxToolCalls => "max_turn_requests",
        _ if end.state == TurnState::Failed => {
            let unknown = AgentError::new(
                ErrorCode::Internal,
                format!("the turn failed: {}", end.reason.name()),
            );
            return Err(agent_error(end.error.as_ref().unwrap_or(&unknown)));
        }
        _ => "end_turn",
    };
    Ok(json!({
        "stopReason": reason,
        "_meta": {"agentls": {
            "turnId": outcome.turn.as_str(), "state": end.state.name(), "reason": end.reason.name(),
            "inputTokens": end.usage.total_input_tokens(), "outputTokens": end.usage.output,
            "costUsd": end.cost.map(crate::domain::Cost::to_usd),
            "error": end.error.as_ref().map(AgentError::describe),
        }},
    }))
}

/// Returns what a summary must keep, if the prompt is the command that asks for one.
fn compact_instructions(content: &[Block]) -> Option<Option<String>> {
    let [Block::Text(text)] = content else {
        return None;
    };
    let rest = text.trim().strip_prefix('/')?.strip_prefix(updates::COMPACT)?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim();
    Some((!rest.is_empty()).then(|| rest.to_owned()))
}

/// Converts a prompt, with the text of the files that it points at.
fn read_prompt(
    state: &AcpContext,
    snapshot: &SessionSnapshot,
    prompt: Vec<ContentBlock>,
) -> Result<Vec<Block>, Error> {
    let roots = state.configured.session_roots(&snapshot.info);
    let mut blocks = Vec::with_capacity(prompt.len());
    for block in prompt {
        match block {
            ContentBlock::Text { text } if text.trim().is_empty() => {}
            ContentBlock::Text { text } => blocks.push(Block::Text(text)),
            ContentBlock::Image { data, mime_type } => blocks.push(read_image(data, mime_type)?),
            ContentBlock::ResourceLink { name, uri } => {
                let pending = to_reference(&uri, None);
                let resolve = |pending| {
                    resolve_reference(&state.workspace, &roots, state.sessions.redactor(), pending).ok()
                };
                let literal = || to_literal_reference(&uri).and_then(resolve);
                // The model may still reach it with a tool.
                let link = || vec![Block::Text(format!("[{name}]({uri})"))];
                blocks.extend(pending.and_then(resolve).or_else(literal).unwrap_or_else(link));
            }
            ContentBlock::Resource { resource } => blocks.extend(read_resource(state, &roots, resource)?),
            ContentBlock::Other => {
                return Err(invalid_param(
                    "prompt: only text, images, resources and links to them are supported",
                ));
            }
        }
    }
    if blocks.is_empty() {
        return Err(invalid_param("prompt: must not be empty"));
    }
    Ok(blocks)
}

fn read_image(data: String, media_type: String) -> Result<Block, Error> {
    if !IMAGES.contains(&media_type.as_str()) {
        return Err(invalid_param(format!(
            "prompt: mimeType must be one of {}",
            IMAGES.join(", ")
        )));
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(&data);
    if bytes.is_ok_and(|bytes| !bytes.is_empty()) {
        Ok(Block::Image(MediaData {
            media_type,
            data: Arc::from(data),
        }))
    } else {
        Err(invalid_param(
            "prompt: data must be Base64 with padding, without line breaks",
        ))
    }
}

fn read_resource(state: &AcpContext, roots: &Roots, resource: EmbeddedResource) -> Result<Vec<Block>, Error> {
    let EmbeddedResource {
        uri,
        text,
        blob,
        mime_type,
    } = resource;
    let Some(text) = text else {
        return match (blob, mime_type) {
            (Some(blob), Some(media_type)) if media_type.starts_with("image/") => {
                Ok(vec![read_image(blob, media_type)?])
            }
            _ => Ok(vec![Block::Text(format!(
                "[a binary resource that cannot be shown: {uri}]"
            ))]),
        };
    };
    let pending = to_reference(&uri, Some(text.clone()));
    let resolved = pending.and_then(|pending| {
        resolve_reference(&state.workspace, roots, state.sessions.redactor(), pending).ok()
    });
    let as_text = || {
        let text = escape_hidden_characters(&text);
        vec![Block::Text(format!(
            "<resource uri=\"{uri}\">\n{text}\n</resource>"
        ))]
    };
    Ok(resolved.unwrap_or_else(as_text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_is_a_command_of_its_own() {
        let parse = |text: &str| compact_instructions(&[Block::Text(text.to_owned())]);
        assert_eq!(parse("/compact"), Some(None));
        assert_eq!(parse(" /compact the API \n"), Some(Some("the API".to_owned())));
        assert_eq!(parse("/compaction"), None);
        assert_eq!(parse("compact"), None);
    }
}
