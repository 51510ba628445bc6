//! Completes the answer of a server over HTTP: if it has no usable result, its request learns why, as over stdio.
//!
//! The SDK takes a stream that ends without an answer, or with one to another request, for the end of the server.

use std::future::ready;

use futures::StreamExt;
use futures::stream::{BoxStream, once};
use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use sse_stream::Sse;

use super::stdio::{TOO_LONG, fail_request, find_answered_id};
use crate::base::error_chain::innermost_message;
use crate::base::text::prefix_within;

/// How much is shown of an answer that cannot be read, in bytes.
const MAX_SHOWN: usize = 256;

type EventResult = Result<Sse, sse_stream::Error>;

/// Adds an error to the events that answer the request `id`, unless they can be resumed. After an answer, the SDK ignores
/// it.
pub(super) fn complete_answer(
    id: i64,
    events: BoxStream<'static, EventResult>,
) -> BoxStream<'static, EventResult> {
    let events = events.map(Some).chain(once(ready(None)));
    let complete = move |can_resume: &mut bool, event| ready(complete_event(id, can_resume, event));
    events.scan(false, complete).boxed()
}

/// Returns the next event in the place of the one of the server, or of the end of its stream.
fn complete_event(id: i64, can_resume: &mut bool, event: Option<EventResult>) -> Option<EventResult> {
    let reason = match event {
        Some(Ok(event)) => {
            *can_resume |= event.id.is_some();
            return Some(Ok(mend_event(id, event)));
        }
        // The SDK does not resume these.
        Some(Err(error)) if innermost_message(&error).contains("exceeded the maximum size") => {
            TOO_LONG.to_owned()
        }
        other if *can_resume => return other,
        Some(Err(error)) => format!("its answer broke off: {}", innermost_message(&error)),
        None => "its answer ended without a result".to_owned(),
    };
    Some(Ok(to_event(&fail_request(id, reason))))
}

/// Drops an answer to another request, and what is not a message. An unreadable answer becomes an error.
fn mend_event(id: i64, mut event: Sse) -> Sse {
    let data = event.data.take().unwrap_or_default();
    let parsed = serde_json::from_str::<RxJsonRpcMessage<RoleClient>>(&data);
    // The stream contains only the answer and what the server sends on its own, which names a method.
    let may_answer = data.contains('{') && !data.contains("\"method\"");
    event.data = match (parsed, find_answered_id(data.as_bytes(), data.as_bytes())) {
        (_, Some(other)) if other != id => None,
        (Ok(_), _) => Some(data),
        (Err(error), found) if found.is_some() || may_answer => {
            let problem = format!("{error}: {}", prefix_within(&data, MAX_SHOWN));
            to_event(&fail_request(id, describe_unreadable(&problem))).data
        }
        (Err(_), _) => None,
    };
    event
}

/// Explains why an answer over HTTP cannot be read, from the error of the parser and the start of the answer.
pub(super) fn describe_unreadable(problem: &str) -> String {
    if problem.contains("JSON-RPC message: [") {
        "its answer is a list of messages, which agentls does not support over HTTP".to_owned()
    } else {
        format!("its answer is not valid JSON-RPC ({problem})")
    }
}

fn to_event(failure: &RxJsonRpcMessage<RoleClient>) -> Sse {
    Sse::default().data(serde_json::to_string(failure).unwrap_or_default())
}
