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

use super::stdio::{ANSWER_GRACE, TOO_LONG, fail_request, find_answered_id};
use crate::base::clock::{self, Instant, timeout_at};
use crate::base::error_chain::innermost_message;
use crate::base::half_characters::replace_halves;
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
    /// Why the request fails, if no answer follows: an event may be its answer, but cannot be read.
    failure: Option<String>,
    /// When it fails at the latest: the event was certainly meant as its answer.
    due: Option<Instant>,
    /// The failure was its last event. What the server sends after it is not read.
    has_failed: bool,
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
        due: None,
        has_failed: false,
    };
    let next = |mut answer: AnswerStream| async { Some((answer.next_event().await?, answer)) };
    unfold(answer, next).boxed()
}

impl AnswerStream {
    /// Returns the next event of the server, or an error in the place of the end of its stream, which is the last one.
    async fn next_event(&mut self) -> Option<EventResult> {
        if self.has_failed {
            return None;
        }
        let next = self.events.next();
        let next = match self.due {
            // Another event may still be the answer.
            Some(due) => timeout_at(due, next).await.unwrap_or(Some(None)),
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
            (Some(reason), _) => reason,
            (None, end) if self.can_resume => return end.map(Err),
            (None, Some(error)) => format!("its answer broke off: {}", innermost_message(&error)),
            (None, None) => "its answer ended without a result".to_owned(),
        };
        self.has_failed = true;
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
        let data = replace_halves(&data).unwrap_or(data);
        let found = find_answered_id(data.as_bytes(), data.as_bytes());
        let is_of_other = found.is_some_and(|found| found != self.id);
        // The stream contains only the answer, what the server sends on its own, which names a method, and signs of life
        // such as `{"type":"ping"}`. Lines of a log may quote a message, also after `[info]`.
        let start = data.trim_start();
        let is_object = start.starts_with('{');
        let items = start.strip_prefix('[').map(str::trim_start);
        let is_list = items.is_some_and(|items| items.starts_with('{'));
        let is_message = is_list || is_object && !data.contains("\"method\"");
        let is_answer = found.is_some() || is_message && data.contains("\"jsonrpc\"");
        let is_json = || serde_json::from_str::<IgnoredAny>(&data).is_ok();
        let may_answer = is_answer || is_object && !is_json();
        match serde_json::from_str::<RxJsonRpcMessage<RoleClient>>(&data) {
            Ok(_) if !is_of_other => event.data = Some(data),
            Err(error) if !is_of_other && may_answer => {
                let problem = format!("{error}: {}", prefix_within(&data, MAX_SHOWN));
                self.failure.get_or_insert(describe_unreadable(&problem));
                self.due = self.due.or(is_answer.then(|| clock::now() + ANSWER_GRACE));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::base::clock::sleep;
    use futures::stream::{iter, pending};
    use serde_json::Value;

    use super::*;
    use crate::base::clock::now;

    /// Returns the answer to the request 1 in a stream of events, each with the seconds before it, and when it comes.
    async fn find_answer(events: &'static [(u64, &str)]) -> (Value, Duration) {
        let start = now();
        let event = |(pause, data): &'static (u64, &str)| async {
            sleep(Duration::from_secs(*pause)).await;
            Ok(Sse::default().data(*data))
        };
        let mut events = complete_answer(1, iter(events).then(event).boxed());
        loop {
            let event = events.next().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&event.data.unwrap_or_default()).unwrap_or_default();
            if answer["id"] == 1 {
                return (answer, start.elapsed());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_follows_a_failure_even_if_the_server_goes_on() {
        let broken = Ok(Sse::default().data(r#"{"jsonrpc":"2.0","id":1}"#));
        let open_stream = iter([broken]).chain(pending()).boxed();
        let events = complete_answer(1, open_stream).take(9).collect::<Vec<_>>().await;
        assert_eq!(events.len(), 2, "{events:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_certainly_meant_as_the_answer_ends_a_long_call() {
        const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for log in [
            &[(0, "{starting"), (60, ANSWER)],
            &[(0, r#"got the member "jsonrpc""#), (60, ANSWER)],
            &[(0, r#"sending {"jsonrpc":"2.0","id":5}"#), (60, ANSWER)],
            &[(0, r#"[info] sending {"jsonrpc":"2.0","id":5}"#), (60, ANSWER)],
        ] {
            let (answer, took) = find_answer(log).await;
            let expected = (&serde_json::json!({}), 60);
            assert_eq!((&answer["result"], took.as_secs()), expected, "{log:?}");
        }
        let (answer, took) = find_answer(&[(0, "{starting"), (60, "log")]).await;
        let reason = answer["error"]["message"].as_str().unwrap();
        assert!(
            reason.contains("{starting") && took.as_secs() == 60,
            "{answer} after {took:?}"
        );
        for broken in [
            &[(0, r#"{"jsonrpc":"2.0","id":1}"#), (60, ANSWER)],
            &[
                (
                    0,
                    r#"[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"result":{}}]"#,
                ),
                (60, ANSWER),
            ],
        ] {
            let (answer, took) = find_answer(broken).await;
            assert!(
                answer["error"].is_object() && took == ANSWER_GRACE,
                "{answer} after {took:?}"
            );
        }
    }
}
