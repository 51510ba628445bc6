//! Completes the answer of a server over HTTP: if it has no usable result, its request learns why, as over stdio.
//!
//! The SDK takes a stream that ends without an answer, or with one to another request, for the end of the server.

use std::future::ready;

use futures::StreamExt;
use futures::stream::{BoxStream, once, unfold};
use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use serde::de::IgnoredAny;
use sse_stream::Sse;
use tokio::time::timeout_at;

use super::stdio::{ANSWER_GRACE, TOO_LONG, fail_request, find_answered_id};
use crate::base::clock::{self, Instant};
use crate::base::error_chain::innermost_message;
use crate::base::text::prefix_within;

/// How much is shown of an answer that cannot be read, in bytes.
const MAX_SHOWN: usize = 256;

type EventResult = Result<Sse, sse_stream::Error>;

/// The events that answer a request.
struct AnswerStream {
    id: i64,
    /// `None` is the end of the server's stream.
    events: BoxStream<'static, Option<EventResult>>,
    can_resume: bool,
    /// When the request fails, and why: an event looks like its answer, but cannot be read.
    failure: Option<(Instant, String)>,
}

/// Adds an error to the events that answer the request `id`, unless they can be resumed. After an answer, the SDK ignores
/// it.
pub(super) fn complete_answer(
    id: i64,
    events: BoxStream<'static, EventResult>,
) -> BoxStream<'static, EventResult> {
    let answer = AnswerStream {
        id,
        events: events.map(Some).chain(once(ready(None))).boxed(),
        can_resume: false,
        failure: None,
    };
    let next = |mut answer: AnswerStream| async { Some((answer.next_event().await?, answer)) };
    unfold(answer, next).boxed()
}

impl AnswerStream {
    /// Returns the next event of the server, or an error in the place of the end of its stream.
    async fn next_event(&mut self) -> Option<EventResult> {
        let next = self.events.next();
        let next = match &self.failure {
            // Another event may still be the answer.
            Some((due, _)) => timeout_at(*due, next).await.unwrap_or(Some(None)),
            None => next.await,
        };
        let end = match next? {
            Some(Ok(event)) => {
                self.can_resume |= event.id.is_some();
                return Some(Ok(self.mend_event(event)));
            }
            end => end.and_then(Result::err),
        };
        let reason = match (self.failure.take(), end) {
            // The SDK does not resume these.
            (_, Some(error)) if innermost_message(&error).contains("exceeded the maximum size") => {
                TOO_LONG.to_owned()
            }
            (Some((_, reason)), _) => reason,
            (None, end) if self.can_resume => return end.map(Err),
            (None, Some(error)) => format!("its answer broke off: {}", innermost_message(&error)),
            (None, None) => "its answer ended without a result".to_owned(),
        };
        let failure = serde_json::to_string(&fail_request(self.id, reason));
        Some(Ok(Sse::default().data(failure.unwrap_or_default())))
    }

    /// Drops an answer to another request, and what is not a message. The latter may be an unreadable answer.
    fn mend_event(&mut self, mut event: Sse) -> Sse {
        let data = event.data.take().unwrap_or_default();
        // Other types are signs of life.
        if !matches!(event.event.as_deref(), None | Some("" | "message")) {
            return event;
        }
        let found = find_answered_id(data.as_bytes(), data.as_bytes());
        let is_of_other = found.is_some_and(|found| found != self.id);
        // The stream contains only the answer, what the server sends on its own, which names a method, and signs of life
        // such as `{"type":"ping"}`.
        let is_json = || serde_json::from_str::<IgnoredAny>(&data).is_ok();
        let may_answer = data.contains("\"jsonrpc\"") || data.trim_start().starts_with('{') && !is_json();
        let may_answer = found.is_some() || may_answer && !data.contains("\"method\"");
        match serde_json::from_str::<RxJsonRpcMessage<RoleClient>>(&data) {
            Ok(_) if !is_of_other => event.data = Some(data),
            Err(error) if !is_of_other && may_answer => {
                let problem = format!("{error}: {}", prefix_within(&data, MAX_SHOWN));
                let failure = (clock::now() + ANSWER_GRACE, describe_unreadable(&problem));
                self.failure.get_or_insert(failure);
            }
            _ => {}
        }
        event
    }
}

/// Explains why an answer over HTTP cannot be read, from the error of the parser and the start of the answer.
pub(super) fn describe_unreadable(problem: &str) -> String {
    if problem.contains("JSON-RPC message: [") {
        "its answer is a list of messages, which agentls does not support over HTTP".to_owned()
    } else {
        format!("its answer is not valid JSON-RPC ({problem})")
    }
}
