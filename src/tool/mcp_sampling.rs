//! Asks the model what an MCP server wants to know during a call (sampling).
//!
//! The settings of the server have allowed it. The user sees question and answer as live output of the call, and with its
//! result.

use super::mcp_content::render_contents;
use super::{ModelFailure, SampleJob, ToolContext, ToolProgress, files};
use crate::base::CancellationToken;
use crate::base::text::one_line;
use crate::domain::{Block, Message, MessageId, Role};
use crate::mcp::{Sampling, SamplingAnswer, SamplingMessage, SamplingRequest};

/// The longest part of a question or an answer that is shown, in characters.
const SHOWN: usize = 500;

/// Answers a request that the server makes during a call, and returns what was asked and answered. `call` is the name of
/// the tool.
pub(super) async fn answer_sampling(cx: &ToolContext, call: &str, request: SamplingRequest) -> String {
    let mut shown = String::new();
    let SamplingRequest { sampling, mut reply } = request;
    let cancel = cx.cancel.child_token();
    let answering = ask_model(cx, call, sampling, cancel.clone(), &mut shown);
    let mut answering = Box::pin(answering);
    let answer = tokio::select! { biased;
        // The server has given up. What the call has cost until then still counts.
        () = reply.closed() => {
            cancel.cancel();
            (&mut answering).await
        }
        answer = &mut answering => answer,
    };
    drop(answering);
    // The server may have given up meanwhile.
    let _ = reply.send(answer);
    shown
}

/// Returns the answer, or the reason for the server, which learns nothing about the provider.
async fn ask_model(
    cx: &ToolContext,
    call: &str,
    sampling: Sampling,
    cancel: CancellationToken,
    shown: &mut String,
) -> Result<SamplingAnswer, String> {
    let server = call.split_once('/').map_or(call, |(server, _)| server);
    let Some(model) = &cx.model else {
        return Err("no model is available".to_owned());
    };
    let Sampling {
        system,
        messages,
        max_tokens,
        stops,
    } = sampling;
    let rendered = files::run_blocking(cx, move |stop| {
        Ok(messages
            .into_iter()
            .map(|message| to_message(message, stop))
            .collect::<Vec<_>>())
    });
    let messages = rendered.await.map_err(|_| "canceled".to_owned())?;
    let question = messages.last().map(Message::text).unwrap_or_default();
    let asked = format!("{server} asks the model: {}\n", one_line(&question, SHOWN));
    show(cx, shown, asked).await;
    let job = SampleJob {
        system,
        messages,
        max_tokens,
        stops,
        cancel,
    };
    match model.sample(job).await {
        Ok(answer) => {
            let answered = format!("the model answers: {}\n", one_line(&answer.text, SHOWN));
            show(cx, shown, answered).await;
            Ok(answer)
        }
        Err(ModelFailure::Cancelled) => Err("canceled".to_owned()),
        Err(ModelFailure::Failed(reason)) => {
            show(cx, shown, format!("the model does not answer: {reason}\n")).await;
            Err("the model does not answer".to_owned())
        }
    }
}

/// Shows text as live output of the call, and keeps it for the result.
async fn show(cx: &ToolContext, shown: &mut String, text: String) {
    shown.push_str(&text);
    // Without a receiver the turn has ended, and the call ends by its cancel.
    let _ = cx.send_progress(ToolProgress::Output(text)).await;
}

fn to_message(message: SamplingMessage, stop: &CancellationToken) -> Message {
    let rendered = render_contents(message.content, stop);
    let text = Some(rendered.text)
        .filter(|text| !text.is_empty())
        .map(Block::Text);
    let images = rendered.images.into_iter().map(Block::Image);
    Message {
        id: MessageId::new_random(),
        role: if message.is_from_assistant {
            Role::Assistant
        } else {
            Role::User
        },
        content: text.into_iter().chain(images).collect(),
        incomplete: false,
        hidden: false,
    }
}
