//! One streaming call over HTTP: sends the request, checks the response, and decodes the body within the time limits
//! of R-PROV-2. It ends with exactly one stop or one error.
//!
//! Knows no API: the decoder and the finished body come from the folder of each. It never retries, and it does not
//! interpret failures: see `classify`. Dropping the stream closes the connection (R-PROV-8).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::clock::Instant;
use futures::{Stream, StreamExt};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use url::Url;

use super::account::ProviderAccount;
use super::body::BodyPieces;
use super::classify::{self, RefusedResponse};
use super::decode::{DecodeError, EventQueue, StreamDecoder, StreamProgress};
use super::error::{Failure, ProviderError, ProviderFault, TimeoutPhase};
use super::http::{BodyStream, Http, is_early_end};
use super::idle_timeout::IdleTimeout;
use super::request_part::RequestParts;
use super::stream::{EventStream, StreamEvent};
use crate::base::clock;
use crate::base::error_chain::innermost_message;

/// How many bytes of a response that is not a stream are read, and for how long.
const ERROR_BODY: usize = 256 * 1024;
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

/// How long to wait for the closing event of an answer that is complete otherwise. Some servers never send it.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a stream may send keep-alives alone. Servers send them while a call waits in a queue or a model reasons in
/// private, but a dead stream may send them for ever.
const KEEP_ALIVE_LIMIT: Duration = Duration::from_secs(300);

/// Configured time limits (R-PROV-2). An unset limit depends on the host and the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// For connecting. Default 10 s.
    pub connect: Option<Duration>,
    /// For the response headers and the first event. Default 60 s; 300 s for local addresses and with reasoning.
    pub first_event: Option<Duration>,
    /// Between two content events. Default 90 s; 300 s where the API streams no reasoning.
    pub gap: Option<Duration>,
}

impl CallLimits {
    /// Returns the limits of one call. `thinks`: the model reasons first; `silent`: it does so without streaming.
    pub(crate) fn for_call(self, local: bool, thinks: bool, silent: bool) -> StreamLimits {
        let (short, long) = (Duration::from_secs(60), Duration::from_secs(300));
        let gap = if silent { long } else { Duration::from_secs(90) };
        StreamLimits {
            first_event: self
                .first_event
                .unwrap_or(if local || thinks { long } else { short }),
            gap: self.gap.unwrap_or(gap),
        }
    }

    /// Returns the connect limit, which does not depend on the call.
    pub(super) fn connect_or_default(self) -> Duration {
        self.connect.unwrap_or(Duration::from_secs(10))
    }
}

/// The time limits of one call (R-PROV-2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    pub(crate) first_event: Duration,
    pub(crate) gap: Duration,
}

/// An encoded call, ready to send.
pub(crate) struct StreamCall {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: BodyPieces,
    pub(crate) decoder: StreamDecoder,
    pub(crate) limits: StreamLimits,
    pub(crate) model: String,
}

/// Makes the call. Resolves when the response headers arrive.
///
/// # Errors
///
/// Fails if the client cannot be built, no response comes in time, or the response is not an event stream. The
/// error contains no secret.
pub(crate) async fn open(
    account: Arc<ProviderAccount>,
    http: Arc<Http>,
    call: StreamCall,
) -> Result<EventStream, ProviderError> {
    let model = call.model.clone();
    match start(&account, http, call).await {
        Ok(events) => Ok(events.boxed()),
        Err(failure) => Err(account.build_provider_error(&model, failure)),
    }
}

async fn start(
    account: &Arc<ProviderAccount>,
    http: Arc<Http>,
    call: StreamCall,
) -> Result<AnswerStream, Failure> {
    let StreamCall {
        url,
        mut headers,
        body,
        decoder,
        limits,
        model,
    } = call;
    let client = http.get_or_build_client().await?;
    let parts = body.parts().clone();
    // Redaction may change the length, so it comes before `Content-Length`.
    let body = body.without_keys(&account.redactor);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let request = client.post(url).headers(headers).body(body.into_stream());
    let mut patience = IdleTimeout::new(limits.first_event);
    // Covers connecting too; the connect limit alone is enforced by the HTTP client.
    let Some(sent) = patience.wait(http.send(request)).await else {
        return Err(no_first_event(account, &patience, limits.first_event));
    };
    let response = match sent {
        Ok(response) => response,
        Err(error) => return Err(http.explain_no_response(&error).await),
    };
    // Refusals carry rate-limit headers as well, so the pacer reads them before the status is checked (R-PROV-6).
    account.health.observe_headers(response.headers());
    let status = response.status().as_u16();
    if let Some(failure) = http.explain_proxy_status(status) {
        return Err(failure);
    }
    if !response.status().is_success() || !is_event_stream(response.headers()) {
        return Err(read_error_response(account, &model, &parts, status, response).await);
    }
    let request_id = classify::request_id(response.headers());
    Ok(AnswerStream {
        body: Some(response.bytes_stream().boxed()),
        decoder,
        out: EventQueue::default(),
        pending_error: None,
        waiting_for: TimeoutPhase::FirstEvent,
        // The wait for headers counts towards the same limit as the wait for the first event.
        idle_timeout: patience,
        closes_at: None,
        limits,
        account: account.clone(),
        http,
        model,
        request_id,
    })
}

/// Reports whether the response is an event stream. One without a content type counts, because some servers omit it.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return true;
    };
    let kind = kind.trim_start().to_ascii_lowercase();
    // Ollama's own API sends JSON lines.
    kind.starts_with("text/event-stream") || kind.starts_with("application/x-ndjson")
}

/// Reads a response that is not an event stream and classifies it. `parts` are the optional ones that the request has.
pub(super) async fn read_error_response(
    account: &ProviderAccount,
    model: &str,
    parts: &RequestParts,
    status: u16,
    response: reqwest::Response,
) -> Failure {
    let headers = response.headers().clone();
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    let read = async {
        while let Some(Ok(chunk)) = stream.next().await {
            body.extend_from_slice(&chunk);
            if body.len() >= ERROR_BODY {
                return;
            }
        }
    };
    // After a timeout or a broken body, classify what has arrived: the status alone decides most cases.
    let _ = clock::timeout(ERROR_BODY_TIME, read).await;
    let body = String::from_utf8_lossy(&body);
    classify::classify_response(&RefusedResponse {
        account,
        model,
        status,
        headers: &headers,
        body: &body,
        parts: Some(parts),
    })
}

/// Returns the failure for a time limit that ended in `phase`.
pub(super) fn timed_out(account: &ProviderAccount, phase: TimeoutPhase, limit: Duration) -> Failure {
    let (host, limit) = (account.host_and_port(), limit.as_secs_f64());
    let message = match phase {
        TimeoutPhase::Connect => format!("connecting to {host} took longer than {limit} s"),
        TimeoutPhase::FirstEvent => format!("{host} sent nothing for {limit} s"),
        TimeoutPhase::Gap => format!("{host} stalled: nothing new for {limit} s"),
    };
    Failure::new(ProviderFault::TimedOut(phase), message)
}

/// Returns the failure for an answer that has not begun in time; `setting` is the limit without keep-alives.
fn no_first_event(account: &ProviderAccount, timeout: &IdleTimeout, setting: Duration) -> Failure {
    let mut failure = timed_out(account, TimeoutPhase::FirstEvent, setting);
    let (host, limit) = (account.host_and_port(), timeout.limit());
    if !timeout.is_extended() {
        failure
            .message
            .push_str("; to wait longer, set first_event_timeout_s");
    } else if limit < KEEP_ALIVE_LIMIT {
        failure
            .message
            .push_str(" after its last keep-alive; to wait longer, raise first_event_timeout_s");
    } else {
        let limit = limit.as_secs();
        failure.message = format!(
            "{host} sent only keep-alives for {limit} s; to wait longer, set first_event_timeout_s above {limit}"
        );
    }
    failure
}

/// Returns the failure for an answer that does not go on in time; `setting` is the limit without keep-alives.
fn stalled(account: &ProviderAccount, timeout: &IdleTimeout, setting: Duration) -> Failure {
    let mut failure = timed_out(account, TimeoutPhase::Gap, setting);
    let limit = timeout.limit();
    if timeout.is_extended() && limit >= KEEP_ALIVE_LIMIT {
        let (host, limit) = (account.host_and_port(), limit.as_secs());
        failure.message = format!(
            "{host} stalled: only keep-alives for {limit} s; to wait longer, set event_gap_timeout_s above {limit}"
        );
    } else if timeout.is_extended() {
        failure
            .message
            .push_str(" after its last keep-alive; to wait longer, raise event_gap_timeout_s");
    }
    failure
}

/// The events of one answer. Dropping it drops the body, which closes the connection.
struct AnswerStream {
    /// `None` after the end.
    body: Option<BodyStream>,
    decoder: StreamDecoder,
    out: EventQueue,
    /// Yielded only after the events in `out`, which came before it.
    pending_error: Option<DecodeError>,
    waiting_for: TimeoutPhase,
    idle_timeout: IdleTimeout,
    /// When to end a complete answer without its closing event. `None` until the answer is complete.
    closes_at: Option<Instant>,
    limits: StreamLimits,
    account: Arc<ProviderAccount>,
    http: Arc<Http>,
    model: String,
    request_id: Option<String>,
}

impl Stream for AnswerStream {
    type Item = Result<StreamEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            // Decoded events go out first: an error or the end came after them.
            if let Some(event) = this.out.take() {
                if matches!(event, StreamEvent::Stop(_))
                    && let Some(body) = this.body.take()
                {
                    // Reads the rest of the body, so that the connection can be reused.
                    this.http.drain_body(body);
                }
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(wrong) = this.pending_error.take() {
                // Closes the connection before the caller handles the error.
                this.body = None;
                return Poll::Ready(Some(Err(this.build_provider_error(wrong))));
            }
            let Some(body) = &mut this.body else {
                return Poll::Ready(None);
            };
            match body.poll_next_unpin(cx) {
                Poll::Ready(next) => this.handle_chunk(next),
                Poll::Pending => {
                    std::task::ready!(this.idle_timeout.poll_spent(cx));
                    this.handle_idle_timeout();
                }
            }
        }
    }
}

impl AnswerStream {
    fn handle_chunk(&mut self, next: Option<reqwest::Result<bytes::Bytes>>) {
        self.idle_timeout.pause();
        let result = match next {
            Some(Ok(chunk)) => match self.decoder.push(&chunk, &mut self.out) {
                Ok(progress) => return self.record_progress(progress),
                Err(wrong) => Err(wrong),
            },
            None => self.decoder.finish_stream(&mut self.out),
            // A connection that breaks after a complete answer does no harm.
            Some(Err(_)) if self.decoder.may_end() => self.decoder.finish_stream(&mut self.out),
            Some(Err(error)) => Err(DecodeError::broken_stream(if is_early_end(&error) {
                "the connection ended in the middle of the answer".to_owned()
            } else {
                format!(
                    "the connection broke in the middle of the answer: {}",
                    innermost_message(&error)
                )
            })),
        };
        self.pending_error = result.err();
    }

    fn record_progress(&mut self, progress: StreamProgress) {
        let counts = match self.waiting_for {
            TimeoutPhase::FirstEvent | TimeoutPhase::Connect => progress >= StreamProgress::Event,
            // Pings and empty deltas show that the connection lives, not that a model is still answering.
            TimeoutPhase::Gap => progress == StreamProgress::Content,
        };
        if self.decoder.may_end() && !self.out.has_stopped() {
            self.await_closing_word();
        } else if counts {
            self.waiting_for = TimeoutPhase::Gap;
            self.idle_timeout.restart(self.limits.gap);
        } else {
            self.idle_timeout.extend(self.phase_limit(), KEEP_ALIVE_LIMIT);
        }
    }

    /// Returns the limit of the current phase without keep-alives.
    fn phase_limit(&self) -> Duration {
        match self.waiting_for {
            TimeoutPhase::FirstEvent | TimeoutPhase::Connect => self.limits.first_event,
            TimeoutPhase::Gap => self.limits.gap,
        }
    }

    /// Starts the wait for the closing event, or ends the answer once that wait is over. The deadline is fixed, because
    /// pings would extend a wait that restarts.
    fn await_closing_word(&mut self) {
        match self.closes_at {
            None => {
                let limit = CLOSING_TIMEOUT.min(self.limits.gap);
                self.closes_at = Some(clock::now() + limit);
                self.idle_timeout.restart(limit);
            }
            // A flood of events never lets the timer fire, so the deadline is checked here too.
            Some(at) if clock::now() >= at => self.handle_idle_timeout(),
            Some(_) => {}
        }
    }

    fn handle_idle_timeout(&mut self) {
        // The answer is complete except for its closing event, so the silence is not a failure.
        if self.decoder.may_end() {
            self.pending_error = self.decoder.finish_stream(&mut self.out).err();
            return;
        }
        let failure = if self.waiting_for == TimeoutPhase::FirstEvent {
            no_first_event(&self.account, &self.idle_timeout, self.limits.first_event)
        } else {
            stalled(&self.account, &self.idle_timeout, self.limits.gap)
        };
        self.pending_error = Some(DecodeError::Failed(failure.fault, failure.message));
    }

    fn build_provider_error(&self, wrong: DecodeError) -> ProviderError {
        let mut failure = match wrong {
            DecodeError::Reported(data) => classify::classify_stream_error(&self.account, &self.model, &data),
            DecodeError::Failed(fault, message) => Failure::new(fault, message),
        };
        failure.request_id = failure.request_id.or_else(|| self.request_id.clone());
        self.account.build_provider_error(&self.model, failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApiKind;
    use crate::provider::account::tests::build_account;
    use crate::provider::anthropic::MessagesDecoder;
    use crate::provider::http::HttpSettings;
    use crate::provider::openai::ChatDecoder;
    use crate::provider::stream::StopReason;

    const LIMITS: StreamLimits = StreamLimits {
        first_event: Duration::from_secs(60),
        gap: Duration::from_secs(90),
    };

    /// Builds a body from pairs of seconds to wait and bytes that arrive then. After the last one it stalls forever.
    fn events(decoder: StreamDecoder, script: Vec<(u64, &'static str)>) -> AnswerStream {
        let account = Arc::new(build_account("work", ApiKind::Anthropic, "http://localhost"));
        let settings = HttpSettings {
            ca_file: None,
            proxy: None,
            connect: Duration::from_secs(10),
        };
        let body = futures::stream::iter(script).then(|(wait, bytes)| async move {
            clock::sleep(Duration::from_secs(wait)).await;
            Ok(bytes::Bytes::from_static(bytes.as_bytes()))
        });
        AnswerStream {
            body: Some(body.chain(futures::stream::pending()).boxed()),
            decoder,
            out: EventQueue::default(),
            pending_error: None,
            waiting_for: TimeoutPhase::FirstEvent,
            idle_timeout: IdleTimeout::new(LIMITS.first_event),
            closes_at: None,
            limits: LIMITS,
            http: Http::new(account.clone(), settings),
            account,
            model: "m".into(),
            request_id: None,
        }
    }

    fn messages(script: Vec<(u64, &'static str)>) -> AnswerStream {
        events(StreamDecoder::new(MessagesDecoder::default()), script)
    }

    /// Returns the seconds until the end, and how it ended.
    async fn ending(events: AnswerStream) -> (u64, Result<StopReason, ProviderFault>) {
        let start = clock::now();
        let all: Vec<_> = events.collect().await;
        let end = match all.into_iter().next_back() {
            Some(Ok(StreamEvent::Stop(reason))) => Ok(reason),
            Some(Err(error)) => Err(error.fault),
            other => panic!("neither a stop nor an error: {other:?}"),
        };
        ((clock::now() - start).as_secs(), end)
    }

    const START: &str = "data: {\"type\":\"message_start\",\"message\":{}}\n\n";
    const PING: &str = "data: {\"type\":\"ping\"}\n\n";
    const BLOCK: &str =
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n";
    const TEXT: &str = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    const EMPTY: &str = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}\n\n";
    const STOP: &str = "data: {\"type\":\"message_stop\"}\n\n";

    #[tokio::test(start_paused = true)]
    async fn keep_alives_extend_the_first_event_limit_up_to_five_minutes() {
        let waiting = Err(ProviderFault::TimedOut(TimeoutPhase::FirstEvent));
        assert_eq!(ending(messages(vec![])).await, (60, waiting.clone()));
        let script = vec![(30, PING), (20, ": hi\n\n"), (59, "data:\n\n")];
        assert_eq!(ending(messages(script)).await, (169, waiting.clone()));
        let pings = vec![(10, PING); 100];
        assert_eq!(ending(messages(pings)).await, (300, waiting));
        let script = vec![
            (59, PING),
            (59, ": hi\n\n"),
            (59, START),
            (1, BLOCK),
            (0, TEXT),
            (0, STOP),
        ];
        assert_eq!(ending(messages(script)).await, (178, Ok(StopReason::EndTurn)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_event_names_its_setting() {
        let begun = |rest: Vec<_>| [vec![(0, START), (0, BLOCK), (0, TEXT)], rest].concat();
        for (script, words) in [
            (begun(vec![]), "stalled: nothing new for 90 s"),
            (
                begun(vec![(10, PING)]),
                "stalled: nothing new for 90 s after its last keep-alive; to wait longer, raise event_gap_timeout_s",
            ),
            (
                begun(vec![(10, PING); 100]),
                "stalled: only keep-alives for 300 s; to wait longer, set event_gap_timeout_s above 300",
            ),
            (
                vec![],
                "sent nothing for 60 s; to wait longer, set first_event_timeout_s",
            ),
            (
                vec![(10, PING); 100],
                "sent only keep-alives for 300 s; to wait longer, set first_event_timeout_s above 300",
            ),
            (
                vec![(10, PING), (20, ": hi\n\n")],
                "sent nothing for 60 s after its last keep-alive; to wait longer, raise first_event_timeout_s",
            ),
        ] {
            let last = messages(script).collect::<Vec<_>>().await.pop();
            let error = last.unwrap().unwrap_err().to_string();
            assert!(error.ends_with(words), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keep_alives_extend_the_gap_limit_up_to_five_minutes_and_content_restarts_it() {
        let stalled = Err(ProviderFault::TimedOut(TimeoutPhase::Gap));
        assert_eq!(ending(messages(vec![(59, START)])).await, (149, stalled.clone()));
        let script = vec![
            (59, START),
            (50, PING),
            (20, EMPTY),
            (19, BLOCK),
            (89, ": hi\n\n"),
        ];
        assert_eq!(ending(messages(script)).await, (327, stalled.clone()));
        let pings = vec![(10, PING); 100];
        let script = [vec![(59, START)], pings].concat();
        assert_eq!(ending(messages(script)).await, (359, stalled.clone()));
        let script = vec![
            (1, START),
            (1, BLOCK),
            (0, TEXT),
            (80, PING),
            (80, PING),
            (80, TEXT),
            (0, STOP),
        ];
        assert_eq!(ending(messages(script)).await, (242, Ok(StopReason::EndTurn)));
        let script = vec![(1, START), (1, BLOCK), (80, TEXT), (80, TEXT), (80, TEXT)];
        assert_eq!(ending(messages(script)).await, (332, stalled));
        let script = vec![(59, START), (89, BLOCK), (0, TEXT), (89, TEXT), (80, STOP)];
        assert_eq!(ending(messages(script)).await, (317, Ok(StopReason::EndTurn)));
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_a_reader_does_not_count() {
        let mut events = messages(vec![(0, START), (0, BLOCK), (1, TEXT), (3_600, TEXT), (0, STOP)]);
        assert_eq!(
            events.next().await.unwrap().unwrap(),
            StreamEvent::Text("a".into())
        );
        // Nothing polls the body meanwhile, so its hour begins after ours.
        clock::sleep(Duration::from_secs(7_200)).await;
        assert_eq!(
            ending(events).await,
            (90, Err(ProviderFault::TimedOut(TimeoutPhase::Gap)))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_done_marker_ends_the_answer_after_five_seconds() {
        let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
        let events = events(StreamDecoder::new(ChatDecoder::default()), vec![(1, chunk)]);
        assert_eq!(ending(events).await, (6, Ok(StopReason::EndTurn)));
    }

    #[tokio::test(start_paused = true)]
    async fn pings_do_not_extend_the_wait_for_the_closing_event() {
        const FINISH_EVENT: &str =
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
        const EMPTY: &str = "data: {\"choices\":[]}\n\n";
        let delta = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
        for (decoder, finish_event, ping) in [
            (StreamDecoder::new(ChatDecoder::default()), FINISH_EVENT, EMPTY),
            (
                StreamDecoder::new(ChatDecoder::default()),
                FINISH_EVENT,
                ": ping\n\n",
            ),
            (StreamDecoder::new(MessagesDecoder::default()), delta, PING),
        ] {
            // Far more pings than the wait may last.
            let pings = std::iter::repeat_n((2, ping), 1_000);
            let events = events(decoder, std::iter::once((1, finish_event)).chain(pings).collect());
            let (took, end) = ending(events).await;
            assert_eq!(end, Ok(StopReason::EndTurn));
            assert!((6..=7).contains(&took), "{took}");
        }
        // A flood that never lets the stream wait does not extend it either.
        let flood = std::iter::once((1, FINISH_EVENT)).chain(std::iter::repeat_n((0, EMPTY), 100_000));
        let mut events = events(StreamDecoder::new(ChatDecoder::default()), flood.collect());
        events.closes_at = Some(clock::now());
        assert_eq!(ending(events).await, (1, Ok(StopReason::EndTurn)));
    }
}
