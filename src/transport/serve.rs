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

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tower_lsp::jsonrpc::{ErrorCode, Id, Request, Response};
use tower_service::Service;

use super::client_requests::ClientRequests;
use super::dialect::Dialect;
use super::frame::{BadFrame, FrameItem, FrameLimits};
use super::message::{
    ClientMessage, OVERLOADED, cancelled_error, classify_message, internal_error, invalid_request_error,
    protocol_error,
};
use super::outbox::Outbox;
use super::parent::ParentProcess;
use super::reader::FrameReader;
use crate::base::CancellationToken;
use crate::base::clock::{self, Instant};
use crate::base::spawn::{AbortOnDrop, TaskError, panic_text, run_blocking, spawn};
use crate::base::text::one_line;

/// Notifications whose handlers may still run, on top of the limit of requests.
const NOTIFICATIONS: usize = 1_024;

/// Longest message that is parsed in the loop, in bytes. While a longer one is parsed elsewhere, answers still leave.
const PARSED_IN_LOOP: usize = 256 << 10;

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
pub struct Connection<R, S, W> {
    pub input: R,
    /// Answers requests. It must be ready at all times.
    pub service: S,
    /// Receives the client's answers.
    pub requests: ClientRequests,
    /// Takes everything that is sent. Opened here once the client has sent `initialized`.
    pub outbox: Outbox,
    /// Resolves once the finished outbox has been written ([`super::FrameWriter`]).
    pub written: W,
    /// Canceled from outside to end serving, and by the writer if the pipe breaks.
    pub root: CancellationToken,
    pub options: ConnectionOptions,
}

impl<R, S, W> Connection<R, S, W>
where
    R: AsyncRead + Unpin,
    S: Service<Request, Response = Option<Response>>,
    S::Error: Display + Send,
    S::Future: Send + 'static,
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
            requests: self.requests,
            outbox: self.outbox,
            root: self.root,
            options: self.options,
            live: HashMap::new(),
            running: FuturesUnordered::new(),
            parsing: None,
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
        if clock::timeout_at(last, self.written).await.is_err() {
            tracing::warn!("the client did not read what was left");
        }
        ServeResult { end, after_shutdown }
    }
}

struct ServeLoop<S> {
    service: S,
    requests: ClientRequests,
    outbox: Outbox,
    root: CancellationToken,
    options: ConnectionOptions,
    /// Requests that were accepted and not yet answered.
    live: HashMap<Id, RunningCall>,
    /// Handlers that were not done at their first poll.
    running: FuturesUnordered<SpawnedHandler>,
    /// A long message. Until it is parsed, no other one is read: messages are handled in wire order.
    parsing: Option<AbortOnDrop<Result<ClientMessage, TaskError>>>,
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
    Input(std::io::Result<Option<FrameItem>>),
    Parsed(ClientMessage),
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

impl<S> ServeLoop<S>
where
    S: Service<Request, Response = Option<Response>>,
    S::Error: Display + Send,
    S::Future: Send + 'static,
{
    async fn run_loop<R: AsyncRead + Unpin>(&mut self, frames: &mut FrameReader<R>) -> EndReason {
        loop {
            match self.next(frames).await {
                LoopEvent::End(end) => return end,
                LoopEvent::Answered(answer) => self.finish_request(answer),
                LoopEvent::Input(input) => {
                    if let Some(end) = self.handle_input(input).await {
                        return end;
                    }
                }
                LoopEvent::Parsed(message) => {
                    self.parsing = None;
                    if let Some(end) = self.handle_message(message).await {
                        return end;
                    }
                }
            }
        }
    }

    async fn next<R: AsyncRead + Unpin>(&mut self, frames: &mut FrameReader<R>) -> LoopEvent {
        let outbox = &self.outbox;
        // While the client does not read, its input is not taken.
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
            message = wait_until_parsed(self.parsing.as_mut()), if self.parsing.is_some() => LoopEvent::Parsed(message),
            input = input, if self.parsing.is_none() => input,
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
        if body.len() > PARSED_IN_LOOP {
            self.parsing = Some(spawn(run_blocking(move || classify_message(&body))));
            return None;
        }
        self.handle_message(classify_message(&body)).await
    }

    async fn handle_message(&mut self, message: ClientMessage) -> Option<EndReason> {
        match message {
            ClientMessage::Call(request) => return self.handle_request(request).await,
            ClientMessage::Answer(answer) => {
                if !self.requests.take_answer(answer) {
                    tracing::debug!("an answer that nobody waits for was ignored");
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
            // Each request has an answer, whatever the service makes of it.
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
        let id = response.id().clone();
        self.send_response(response);
        if let Some(answered) = &self.options.answered {
            // The receiver may be gone at the end.
            let _ = answered.send(id);
        }
        self.open();
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
        let hook = AssertUnwindSafe(clock::timeout_at(deadline, on_end)).catch_unwind();
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
                () = clock::sleep_until(last_words.unwrap_or(deadline)), if last_words.is_some() => break,
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
        clock::sleep(grace).await;
    };
    tokio::select! {
        biased;
        // An answer that is ready takes precedence over the end of the grace period.
        response = &mut handler => response,
        () = grace_expired => Some(Response::from_error(id, cancelled_error())),
    }
}

/// Adds the data that all our errors carry to an error without any.
fn with_data(response: Response) -> Response {
    match response.error() {
        Some(error) if error.data.is_none() => {
            let complete = protocol_error(error.code, error.message.clone());
            Response::from_error(response.id().clone(), complete)
        }
        _ => response,
    }
}

async fn wait_until_parsed(
    parsing: Option<&mut AbortOnDrop<Result<ClientMessage, TaskError>>>,
) -> ClientMessage {
    let Some(parsing) = parsing else {
        return std::future::pending().await;
    };
    match parsing.await.flatten() {
        Ok(message) => message,
        Err(error) => {
            tracing::error!(%error, "a message was not parsed");
            ClientMessage::Refused(Response::from_error(Id::Null, internal_error(PANICKED)))
        }
    }
}

async fn wait_for_parent_exit(parent: Option<&ParentProcess>) {
    match parent {
        Some(parent) => parent.wait_for_exit().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
