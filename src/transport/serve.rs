//! The loop between the pipes and a JSON-RPC service (architecture §3, I1, R-WIRE-4, R-CANCEL).
//!
//! Polls each handler once in wire order and spawns it if it is not done. All answers return to the loop, which alone
//! knows the live requests, so each request gets exactly one answer. Every wait but the one for input has a bound.
//! Knows the life cycle methods of LSP, but no other method.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use futures::{FutureExt, Sink, SinkExt};
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tower_lsp::jsonrpc::{ErrorCode, Id, Request, Response};
use tower_service::Service;

use super::frame::{BadFrame, FrameItem, FrameLimits};
use super::lines::Framing;
use super::message::{
    ClientMessage, OVERLOADED, cancelled_error, classify_message, internal_error, invalid_request_error,
    protocol_error,
};
use super::outbox::{Outbox, Outgoing};
use super::parent::ParentProcess;
use super::reader::FrameReader;
use crate::base::CancellationToken;
use crate::base::clock::{self, Instant};
use crate::base::spawn::{AbortOnDrop, TaskError, panic_text, spawn};
use crate::base::text::one_line;

/// Requests to the client that are passed on in a row before an answer.
const MAX_CLIENT_REQUESTS_IN_A_ROW: usize = 64;

/// Notifications whose handlers may still run, on top of the limit of requests.
const NOTIFICATIONS: usize = 1_024;

/// Time for handlers to answer once `on_end` has finished.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Time for the writer to write the rest, after everything else.
const LAST_WRITE: Duration = Duration::from_millis(150);

tokio::task_local! {
    static CANCEL: CancellationToken;
}

/// Returns the cancel token of the request whose handler calls this.
///
/// `$/cancelRequest` and the end of serving cancel it. Outside a handler, and in handlers of notifications, it returns
/// a token that is never canceled.
pub fn cancel_token() -> CancellationToken {
    CANCEL.try_with(Clone::clone).unwrap_or_default()
}

/// Runs the handler of a request with this cancel token.
#[cfg(feature = "sim")]
pub fn with_cancel_token<F: Future>(token: CancellationToken, handler: F) -> impl Future<Output = F::Output> {
    CANCEL.scope(token, handler)
}

/// What the two protocols on top of JSON-RPC do differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The Language Server Protocol: headers, `initialized`, `shutdown`, `exit`, and `$/cancelRequest`.
    #[default]
    LanguageServer,
    /// The Agent Client Protocol: lines, no life cycle besides `initialize`, and `$/cancel_request`.
    AgentClient,
}

impl Dialect {
    fn framing(self) -> Framing {
        match self {
            Self::LanguageServer => Framing::Header,
            Self::AgentClient => Framing::Lines,
        }
    }

    /// Returns the notification that cancels a request, and its parameter with the id.
    fn cancel_request(self) -> (&'static str, &'static str) {
        match self {
            Self::LanguageServer => ("$/cancelRequest", "id"),
            Self::AgentClient => ("$/cancel_request", "requestId"),
        }
    }

    /// Whether `method` is a notification that this loop handles itself.
    fn is_control(self, method: &str) -> bool {
        method == self.cancel_request().0 || (self == Self::LanguageServer && method == "exit")
    }
}

/// Limits and grace periods of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Sizes of incoming frames.
    pub limits: FrameLimits,
    /// Requests that may run concurrently; a further one is refused with -32000. 4,096 by default.
    pub in_flight: usize,
    /// Time for a canceled request to answer; then it gets -32800 and its handler is dropped. 1.5 s by default.
    pub grace: Duration,
    /// Methods without that grace period: they may take as long as they need. At the end, `on_end` stops them.
    pub exempt: &'static [&'static str],
    /// Longest duration of the end, without the last write of at most 150 ms. 1.8 s by default.
    pub end: Duration,
    pub dialect: Dialect,
    /// Receives the id of each request after its answer was queued, for what may only follow the answer.
    pub answered: Option<mpsc::UnboundedSender<Id>>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            limits: FrameLimits::default(),
            in_flight: 4_096,
            grace: Duration::from_millis(1_500),
            exempt: &[],
            end: Duration::from_millis(1_800),
            dialect: Dialect::default(),
            answered: None,
        }
    }
}

/// The reason why serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The client closed its end of the pipe.
    EndOfInput,
    /// The client's pipe cannot be read.
    InputFailed,
    /// The client sent `exit`.
    Exit,
    /// The client no longer reads.
    PipeBroken,
    /// The client's process is gone.
    ParentGone,
    /// The root token was canceled (a signal).
    Cancelled,
}

/// The result of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeResult {
    pub end: EndReason,
    /// Whether the client had requested `shutdown`.
    pub after_shutdown: bool,
}

impl ServeResult {
    /// Returns the exit code that LSP requires: 0 after `shutdown`, otherwise 1.
    pub fn exit_code(self) -> u8 {
        u8::from(!self.after_shutdown)
    }
}

/// Everything that serving needs.
#[derive(Debug)]
pub struct Connection<R, S, Q, A, W> {
    pub input: R,
    /// Answers requests. It must be ready at all times, as the library's service is.
    pub service: S,
    /// The service's own requests and notifications to the client (`ClientSocket::split`).
    pub requests: Q,
    /// Receives the client's answers (`ClientSocket::split`).
    pub answers: A,
    /// Takes everything that is sent. Opened here once the client has sent `initialized`.
    pub outbox: Outbox,
    /// Resolves once the finished outbox has been written ([`super::FrameWriter`]).
    pub written: W,
    /// Canceled from outside to end serving, and by the writer if the pipe breaks.
    pub root: CancellationToken,
    pub options: ConnectionOptions,
}

impl<R, S, Q, A, W> Connection<R, S, Q, A, W>
where
    R: AsyncRead + Unpin,
    S: Service<Request, Response = Option<Response>>,
    S::Error: Display + Send,
    S::Future: Send + 'static,
    Q: Stream<Item = Request> + Unpin,
    A: Sink<Response> + Unpin,
    W: Future<Output = ()> + Unpin,
{
    /// Serves until the end, whatever causes it.
    ///
    /// `on_end` runs after the last input and before the writer closes, for at most [`ConnectionOptions::end`]. It
    /// interrupts running work, so that the handlers of exempt methods answer. Whatever it and they send still leaves.
    pub async fn serve_until_end<F: Future<Output = ()>>(
        self,
        on_end: impl FnOnce(EndReason) -> F,
    ) -> ServeResult {
        let framing = self.options.dialect.framing();
        let mut frames = FrameReader::with_framing(self.input, self.options.limits, framing);
        let mut serving = ServeLoop {
            service: self.service,
            requests: Some(self.requests),
            answers: self.answers,
            outbox: self.outbox,
            root: self.root,
            options: self.options,
            live: HashMap::new(),
            running: FuturesUnordered::new(),
            handshake: Handshake::default(),
            after_shutdown: false,
            parent: None,
        };
        let end = serving.run_loop(&mut frames).await;
        // No input is read from here on; dropping the reader also ends the thread behind stdin.
        drop(frames);
        tracing::info!(?end, live = serving.live.len(), "serving ends");
        let after_shutdown = serving.after_shutdown;
        let start = clock::now();
        serving
            .drain_handlers(on_end(end), start + serving.options.end)
            .await;
        let last = start + serving.options.end + LAST_WRITE;
        serving.outbox.finish();
        if tokio::time::timeout_at(last, self.written).await.is_err() {
            tracing::warn!("the client did not read what was left");
        }
        ServeResult { end, after_shutdown }
    }
}

struct ServeLoop<S, Q, A> {
    service: S,
    /// `None` once the stream has ended.
    requests: Option<Q>,
    answers: A,
    outbox: Outbox,
    root: CancellationToken,
    options: ConnectionOptions,
    /// Requests that were accepted and not yet answered.
    live: HashMap<Id, RunningCall>,
    /// Handlers that were not done at their first poll.
    running: FuturesUnordered<SpawnedHandler>,
    handshake: Handshake,
    after_shutdown: bool,
    parent: Option<ParentProcess>,
}

/// A request that is being handled.
struct RunningCall {
    token: CancellationToken,
    exempt: bool,
    initialize: bool,
}

/// Notifications leave once `initialize` is answered and `initialized` has arrived, in either order.
#[derive(Default)]
struct Handshake {
    initialize_answered: bool,
    initialized_received: bool,
}

/// Something for the loop to handle.
enum LoopEvent {
    End(EndReason),
    Answered(HandlerAnswer),
    ToClient(Option<Request>),
    Input(std::io::Result<Option<FrameItem>>),
}

/// Which source to poll first: the one that was not served last, so that no flood delays a cancel.
#[derive(Clone, Copy)]
enum PollFirst {
    Requests,
    Input,
}

/// The result of a handler.
struct HandlerAnswer {
    id: Option<Id>,
    outcome: Result<Option<Response>, TaskError>,
}

/// A spawned handler.
struct SpawnedHandler {
    id: Option<Id>,
    task: AbortOnDrop<Option<Response>>,
}

impl Future for SpawnedHandler {
    type Output = HandlerAnswer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerAnswer> {
        let outcome = std::task::ready!(Pin::new(&mut self.task).poll(cx));
        let id = self.id.take();
        Poll::Ready(HandlerAnswer { id, outcome })
    }
}

impl<S, Q, A> ServeLoop<S, Q, A>
where
    S: Service<Request, Response = Option<Response>>,
    S::Error: Display + Send,
    S::Future: Send + 'static,
    Q: Stream<Item = Request> + Unpin,
    A: Sink<Response> + Unpin,
{
    async fn run_loop<R: AsyncRead + Unpin>(&mut self, frames: &mut FrameReader<R>) -> EndReason {
        let mut first = PollFirst::Requests;
        loop {
            let end = match self.next(frames, first).await {
                LoopEvent::End(end) => Some(end),
                LoopEvent::Answered(answer) => {
                    self.finish_request(answer);
                    None
                }
                LoopEvent::ToClient(request) => {
                    first = PollFirst::Input;
                    self.send_to_client(request);
                    None
                }
                LoopEvent::Input(input) => {
                    first = PollFirst::Requests;
                    self.handle_input(input).await
                }
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    async fn next<R: AsyncRead + Unpin>(
        &mut self,
        frames: &mut FrameReader<R>,
        first: PollFirst,
    ) -> LoopEvent {
        let outbox = &self.outbox;
        let requests = &mut self.requests;
        // While the client does not read, neither its input nor the service's requests to it are taken.
        let request = async {
            outbox.wait_for_room().await;
            LoopEvent::ToClient(next_or_pending(requests).await)
        };
        let input = async {
            outbox.wait_for_room().await;
            LoopEvent::Input(frames.read().await)
        };
        tokio::select! {
            biased;
            // In order of priority: the end, then finished answers, then new work.
            () = self.root.cancelled() => LoopEvent::End(if outbox.is_closed() { EndReason::PipeBroken } else { EndReason::Cancelled }),
            () = wait_for_parent_exit(self.parent.as_ref()) => LoopEvent::End(EndReason::ParentGone),
            Some(answered) = self.running.next(), if !self.running.is_empty() => LoopEvent::Answered(answered),
            happened = select_in_order(request, input, first) => happened,
        }
    }

    async fn handle_input(&mut self, input: std::io::Result<Option<FrameItem>>) -> Option<EndReason> {
        let body = match input {
            Ok(Some(FrameItem::Frame(body))) => body,
            Ok(Some(FrameItem::Bad(bad))) => {
                // A bad frame has no readable id, so the answer carries null.
                let code = match bad {
                    BadFrame::Header(_) => ErrorCode::ParseError,
                    BadFrame::TooLarge { .. } | BadFrame::LongLine { .. } => ErrorCode::InvalidRequest,
                };
                self.send_response(Response::from_error(
                    Id::Null,
                    protocol_error(code, bad.to_string()),
                ));
                return None;
            }
            Ok(None) => return Some(EndReason::EndOfInput),
            Err(error) => {
                tracing::warn!(%error, "input cannot be read");
                return Some(EndReason::InputFailed);
            }
        };
        let verdict = classify_message(&body);
        // The request owns its data: free the body, up to 32 MiB, before the handler runs.
        drop(body);
        match verdict {
            ClientMessage::Call(request) => return self.handle_request(request).await,
            ClientMessage::Answer(answer) => {
                // The library's sink is always ready; a different one must not delay the loop.
                if !matches!(self.answers.send(answer).now_or_never(), Some(Ok(()))) {
                    tracing::warn!("an answer of the client was dropped");
                }
            }
            ClientMessage::Refused(response) => self.send_response(response),
            ClientMessage::Ignored(reason) => tracing::debug!(reason, "a message was ignored"),
        }
        None
    }

    /// Handles a request or a notification as far as the loop itself is concerned.
    async fn handle_request(&mut self, request: Request) -> Option<EndReason> {
        let id = request.id().cloned();
        let dialect = self.options.dialect;
        let is_control = dialect.is_control(request.method());
        match (request.method(), id) {
            (method, Some(id)) if is_control => {
                let error = invalid_request_error(format!("{method} is a notification: it has no id"));
                self.send_response(Response::from_error(id, error));
            }
            ("exit", None) if is_control => return Some(EndReason::Exit),
            (_, None) if is_control => self.cancel_request(request.params()),
            ("initialized", None) if dialect == Dialect::LanguageServer => {
                self.handshake.initialized_received = true;
                self.dispatch_notification(request).await;
                // After the dispatch, so that the service sees `initialized` before notifications leave.
                self.open();
            }
            (_, None) => self.dispatch_notification(request).await,
            (_, Some(id)) => self.dispatch_request(id, request).await,
        }
        None
    }

    fn cancel_request(&self, params: Option<&Value>) {
        let id = params
            .and_then(|params| params.get(self.options.dialect.cancel_request().1))
            .and_then(|id| match id {
                Value::String(text) => Some(Id::String(text.clone())),
                Value::Number(number) => number.as_i64().map(Id::Number),
                _ => None,
            });
        match id.and_then(|id| self.live.get(&id)) {
            Some(call) => call.token.cancel(),
            // An answer and its cancel can cross on the wire, so an unknown id is normal.
            None => tracing::debug!("a cancel of no live request"),
        }
    }

    async fn dispatch_notification(&mut self, request: Request) {
        if self.running.len() >= self.options.in_flight + NOTIFICATIONS {
            tracing::warn!(
                method = one_line(request.method(), 80),
                "too much at once: notification dropped"
            );
            return;
        }
        let mut handler = self.build_handler(request, None, CancellationToken::new());
        if first_poll(&mut handler).await.is_pending() {
            self.running.push(SpawnedHandler {
                id: None,
                task: spawn(handler),
            });
        }
    }

    async fn dispatch_request(&mut self, id: Id, request: Request) {
        let method = request.method();
        let is_lsp = self.options.dialect == Dialect::LanguageServer;
        // Two live requests with one id could not be told apart, neither by answers nor by cancels.
        if self.live.contains_key(&id) {
            let error = invalid_request_error("id is that of a running request");
            return self.send_response(Response::from_error(id, error));
        }
        if self.live.len() >= self.options.in_flight {
            let error = protocol_error(OVERLOADED, format!("{} requests are running", self.live.len()));
            return self.send_response(Response::from_error(id, error));
        }
        // Set on arrival, not on success: the client may send `exit` before the answer is ready.
        self.after_shutdown |= is_lsp && method == "shutdown";
        let initialize = method == "initialize";
        // Only the first `initialize` names the process to watch.
        if initialize && is_lsp && self.parent.is_none() {
            let pid = request
                .params()
                .and_then(|params| params.get("processId")?.as_i64());
            self.parent = pid.and_then(ParentProcess::watch_pid);
        }
        let token = CancellationToken::new();
        let exempt = self.options.exempt.contains(&method);
        let call = RunningCall {
            token: token.clone(),
            exempt,
            initialize,
        };
        // Before the first poll: the next message may already cancel this request.
        self.live.insert(id.clone(), call);
        let request = if initialize && is_lsp {
            with_process_id(request)
        } else {
            request
        };
        let mut handler = self.build_handler(request, Some(id.clone()), token.clone());
        match first_poll(&mut handler).await {
            Poll::Ready(response) => self.finish_request(HandlerAnswer {
                id: Some(id),
                outcome: Ok(response),
            }),
            Poll::Pending => {
                let grace = (!exempt).then_some(self.options.grace);
                let task = spawn(run_with_grace(id.clone(), handler, token, grace));
                self.running.push(SpawnedHandler { id: Some(id), task });
            }
        }
    }

    /// Builds the service's future for a request, with its cancel token. Panics and service errors become answers.
    fn build_handler(
        &mut self,
        request: Request,
        id: Option<Id>,
        token: CancellationToken,
    ) -> BoxFuture<'static, Option<Response>> {
        let request = with_params(request);
        let method = one_line(request.method(), 80);
        let failed = move |reason: &'static str, detail: &str| {
            tracing::error!(method, detail, "{reason}");
            id.map(|id| Response::from_error(id, internal_error(reason)))
        };
        let service = &mut self.service;
        // Both the call itself and its future can panic.
        let called = CANCEL.sync_scope(token.clone(), || {
            catch_unwind(AssertUnwindSafe(|| service.call(request)))
        });
        let future = match called {
            Ok(future) => CANCEL.scope(token, AssertUnwindSafe(future).catch_unwind()),
            Err(payload) => return futures::future::ready(failed(PANICKED, &panic_message(payload))).boxed(),
        };
        async move {
            match future.await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => failed("the service has ended", &error.to_string()),
                Err(payload) => failed(PANICKED, &panic_message(payload)),
            }
        }
        .boxed()
    }

    /// Ends a request whose handler is done: whatever the outcome, the request gets its one answer (I1).
    fn finish_request(&mut self, answer: HandlerAnswer) {
        let Some(id) = answer.id else {
            return;
        };
        let Some(call) = self.live.remove(&id) else {
            return;
        };
        let response = match answer.outcome {
            Ok(Some(response)) => with_data(response),
            // The library does not answer unknown methods that start with "$/".
            Ok(None) => Response::from_error(id, protocol_error(ErrorCode::MethodNotFound, "no such method")),
            Err(error) => {
                tracing::error!(%error, "a handler did not end well");
                Response::from_error(id, internal_error(PANICKED))
            }
        };
        self.handshake.initialize_answered |= call.initialize && response.is_ok();
        if self.options.dialect == Dialect::AgentClient {
            // No `initialized` follows.
            self.handshake.initialized_received |= self.handshake.initialize_answered && call.initialize;
        }
        self.pass_on_requests();
        let id = response.id().clone();
        self.send_response(response);
        if let Some(answered) = &self.options.answered {
            // The receiver may be gone at the end.
            let _ = answered.send(id);
        }
        self.open();
    }

    /// Sends what a handler passed to the library's client before it answered, so that it leaves before the answer.
    fn pass_on_requests(&mut self) {
        // Bounded: a service that always has another request must not hold back the answer.
        for _ in 0..MAX_CLIENT_REQUESTS_IN_A_ROW {
            match next_or_pending(&mut self.requests).now_or_never() {
                Some(request) => self.send_to_client(request),
                None => return,
            }
        }
    }

    fn send_to_client(&mut self, request: Option<Request>) {
        let Some(request) = request else {
            self.requests = None;
            return;
        };
        match serde_json::to_vec(&request) {
            Ok(body) => self.outbox.push(Outgoing::Notification {
                body,
                group: None,
                permit: None,
            }),
            Err(error) => tracing::error!(%error, "a request to the client cannot be serialised"),
        }
    }

    fn send_response(&self, response: Response) {
        self.outbox.push_response(&response, None);
    }

    fn open(&mut self) {
        if self.handshake.initialize_answered && self.handshake.initialized_received {
            // Cleared, so that later answers do not open the outbox again.
            self.handshake.initialized_received = false;
            self.outbox.open();
        }
    }

    /// Waits until `deadline` for `on_end`, and then for the last answers of handlers.
    async fn drain_handlers(&mut self, on_end: impl Future<Output = ()>, deadline: Instant) {
        // Exempt handlers keep running: `on_end` interrupts them, so that they can answer with a result.
        for call in self.live.values().filter(|call| !call.exempt) {
            call.token.cancel();
        }
        let hook = AssertUnwindSafe(tokio::time::timeout_at(deadline, on_end)).catch_unwind();
        let mut hook = std::pin::pin!(hook);
        let mut last_words = None;
        while last_words.is_none() || !self.running.is_empty() {
            tokio::select! {
                biased;
                done = &mut hook, if last_words.is_none() => {
                    match done {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => tracing::warn!("the end took too long"),
                        Err(payload) => tracing::error!(detail = panic_message(payload), "the end panicked"),
                    }
                    last_words = Some(deadline.min(clock::now() + DRAIN_TIMEOUT));
                }
                Some(answered) = self.running.next(), if !self.running.is_empty() => self.finish_request(answered),
                request = next_or_pending(&mut self.requests) => self.send_to_client(request),
                () = tokio::time::sleep_until(last_words.unwrap_or(deadline)), if last_words.is_some() => break,
            }
        }
        // Dropping a task aborts it. Each request that is still unanswered gets an error (I1).
        self.running.clear();
        for (id, call) in std::mem::take(&mut self.live) {
            call.token.cancel();
            self.send_response(Response::from_error(id, internal_error("the server is stopping")));
        }
    }
}

/// Adds `null` params to a request without any.
///
/// JSON-RPC allows to omit them, but the library's router then refuses each method that has params.
fn with_params(request: Request) -> Request {
    if request.params().is_some() {
        return request;
    }
    let (method, id, _) = request.into_parts();
    let request = Request::build(method).params(Value::Null);
    match id {
        Some(id) => request.id(id).finish(),
        None => request.finish(),
    }
}

/// Replaces an invalid `processId` (negative, too large, not a number) with null.
///
/// It only names the process to watch, so an invalid one does not refuse the client.
fn with_process_id(request: Request) -> Request {
    let sound = |id: &Value| id.is_null() || id.as_u64().is_some_and(|id| u32::try_from(id).is_ok());
    let process_id = request.params().and_then(|params| params.get("processId"));
    let Some(process_id) = process_id.filter(|id| !sound(id)) else {
        return request;
    };
    let display_text = one_line(&process_id.to_string(), 80);
    tracing::info!(
        processId = display_text,
        "the client's process id is none, so its end is not watched"
    );
    let (method, id, params) = request.into_parts();
    let mut params = params.unwrap_or_default();
    params["processId"] = Value::Null;
    let request = Request::build(method).params(params);
    match id {
        Some(id) => request.id(id).finish(),
        None => request.finish(),
    }
}

const PANICKED: &str = "the handler panicked";

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    panic_text(payload.as_ref())
}

/// Polls a handler for the first time: what it does before it first waits happens in wire order.
///
/// Runs outside the runtime's cooperative budget, which could make a handler wait although it has no need to.
async fn first_poll(handler: &mut BoxFuture<'static, Option<Response>>) -> Poll<Option<Response>> {
    futures::poll!(tokio::task::coop::unconstrained(handler))
}

/// Runs a handler that has `grace` to finish once it is canceled; `None` means any time.
async fn run_with_grace(
    id: Id,
    mut handler: BoxFuture<'static, Option<Response>>,
    token: CancellationToken,
    grace: Option<Duration>,
) -> Option<Response> {
    let Some(grace) = grace else {
        return handler.await;
    };
    let grace_expired = async {
        token.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        biased;
        // An answer that is ready takes precedence over the end of the grace period.
        response = &mut handler => response,
        () = grace_expired => Some(Response::from_error(id, cancelled_error())),
    }
}

/// Adds the data that all our errors carry to an error of the library. A handler's own `data` stays.
fn with_data(response: Response) -> Response {
    let Some(error) = response.error() else {
        return response;
    };
    let complete = match (error.code, &error.data) {
        (_, None) => protocol_error(error.code, error.message.clone()),
        // The library puts the name of the method into `data`.
        (ErrorCode::MethodNotFound, Some(Value::String(method))) => protocol_error(
            ErrorCode::MethodNotFound,
            format!("no method {}", one_line(method, 80)),
        ),
        (_, Some(_)) => return response,
    };
    Response::from_error(response.id().clone(), complete)
}

async fn wait_for_parent_exit(parent: Option<&ParentProcess>) {
    match parent {
        Some(parent) => parent.wait_for_exit().await,
        None => std::future::pending().await,
    }
}

/// Returns the output of the first future that is ready; `first` is polled first.
async fn select_in_order<T>(
    request: impl Future<Output = T>,
    input: impl Future<Output = T>,
    first: PollFirst,
) -> T {
    match first {
        PollFirst::Requests => {
            tokio::select! { biased; happened = request => happened, happened = input => happened }
        }
        PollFirst::Input => {
            tokio::select! { biased; happened = input => happened, happened = request => happened }
        }
    }
}

/// Returns the next item of a stream that may have ended; pending forever once it has.
async fn next_or_pending<Q: Stream + Unpin>(stream: &mut Option<Q>) -> Option<Q::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
