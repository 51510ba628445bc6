//! A connection through the official SDK, `rmcp`. With the transports, the only place that knows it.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CustomResult, GetPromptRequest,
    GetPromptRequestParams, ListPromptsRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientServiceExt, Peer, PeerRequestOptions, RequestHandle, RunningService,
};
use rmcp::transport::Transport;
use serde_json::{Map, Value};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use url::Url;

use super::authorize::EndReason;
use super::client_side::ClientSide;
use super::connection::{
    MAX_TOOLS, McpCall, McpCallResult, McpClient, McpConnection, McpError, McpPeer, McpPrompt, McpResource,
    McpTool, McpWait, PromptReply,
};
use super::content::McpContent;
use super::convert::{
    is_refusal_of_older, may_have_refused_probe, read_call_result, read_prompt, read_resource, read_tool,
    to_call_result, to_document, to_error, to_peer, to_prompt_message, to_start_error,
};
use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationRequest, Requested};
use super::input_required::{BACKOFF, CollectedInputs, InputRequired, MAX_ROUNDS};
use super::list_subscription::ListSubscription;
use super::opening::{Opening, Probe, ProgramInput, SilentServer};
use super::request_router::RequestRouter;
use super::server_request::ServerRequest;
use super::transport_guard::{GuardedTransport, ProgressReceiver, ProgressReceivers};
use crate::base::clock::{self, Instant};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::base::{CancellationToken, random};

/// How long a cancel of a call may take to reach the server (R-MCP).
const CANCEL: Duration = Duration::from_millis(500);
/// How long the end of a connection may take.
const CLOSE: Duration = Duration::from_millis(500);
/// The keys of the lists that are kept.
const TOOLS: &str = "tools";
const PROMPTS: &str = "prompts";
/// The most entries of a list: one more than are used, which shows that there are others.
const MAX_ENTRIES: usize = MAX_TOOLS + 1;
/// The most pages of a list that are read, so that also pages with one entry are enough.
const MAX_PAGES: usize = MAX_ENTRIES;

/// A connection to a server that has introduced itself.
pub(super) struct RmcpConnection {
    peer: Peer<RoleClient>,
    client: Arc<dyn McpClient>,
    side: ClientSide,
    info: McpPeer,
    progress: Arc<ProgressReceivers>,
    requests: Arc<RequestRouter>,
    lists: Option<ListSubscription>,
    /// When each list may be out of date, by its key, if the server says so.
    expiries: Mutex<HashMap<String, Instant>>,
    closed: CancellationToken,
    end_reason: EndReason,
    /// Dropping it ends the connection.
    service: AsyncMutex<Option<RunningService<RoleClient, ClientSide>>>,
}

/// What came of an attempt to open a connection.
pub(super) struct OpenAttempt {
    pub(super) result: Result<RmcpConnection, McpError>,
    /// How the server is to be opened from now on, if this attempt has shown that.
    pub(super) next: Option<Opening>,
}

/// How an attempt is made.
pub(super) struct ConnectOptions {
    pub(super) opening: Opening,
    /// How long the server may take to start.
    pub(super) limit: Duration,
    pub(super) silent: SilentServer,
    /// The input of the server, if it is a program.
    pub(super) input: Option<ProgramInput>,
}

impl RmcpConnection {
    /// Introduces us to the server, whose requests `requests` leads to its calls. Fails if the server does not answer as
    /// the protocol demands, or ends.
    pub(super) async fn open<T: Transport<RoleClient> + 'static>(
        transport: T,
        client: Arc<dyn McpClient>,
        requests: Arc<RequestRouter>,
        options: ConnectOptions,
    ) -> OpenAttempt {
        let (progress, closed) = (Arc::<ProgressReceivers>::default(), CancellationToken::new());
        let ConnectOptions {
            opening,
            limit,
            silent,
            input,
        } = options;
        let probe = Arc::new(Mutex::new(Probe::new(opening, limit, silent)));
        let transport = GuardedTransport::new(
            transport,
            client.clone(),
            progress.clone(),
            closed.clone(),
            probe.clone(),
        );
        let side = ClientSide::new(client.clone(), requests.clone());
        let served = side
            .clone()
            .serve_with_lifecycle(transport, opening.lifecycle())
            .await;
        let next = {
            let probe = probe.lock().unwrap_or_else(PoisonError::into_inner);
            // A program that ends before it reads the question does not end because of it.
            let is_unread = probe.is_open() && input.is_some_and(|input| input.has_unread());
            choose_next(&probe, opening, served.as_ref().err().filter(|_| !is_unread))
        };
        let result = match served {
            Ok(service) => {
                let peer = service.peer().clone();
                let lists = ListSubscription::open(&peer).await;
                check_version(&peer).map(|()| Self {
                    info: to_peer(&peer),
                    lists,
                    expiries: Mutex::default(),
                    peer,
                    client,
                    side,
                    progress,
                    requests,
                    closed,
                    end_reason: EndReason::default(),
                    service: AsyncMutex::new(Some(service)),
                })
            }
            Err(error) => Err(to_start_error(&error)),
        };
        OpenAttempt { result, next }
    }

    /// Sets where it is noted why the connection must end.
    pub(super) fn watch_end(mut self, end_reason: &EndReason) -> Self {
        self.end_reason = end_reason.clone();
        self
    }

    /// Returns the reason of a request's failure. The end of the connection may be known before the refusal behind it.
    fn explain(&self, error: McpError) -> McpError {
        match error {
            McpError::Closed | McpError::NeedsLogin => self.end_reason.get().unwrap_or(error),
            error => error,
        }
    }

    async fn request(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        self.peer
            .send_request(request)
            .await
            .map_err(|error| to_error(&error))
    }

    /// Takes note of how long a page of a list is valid, in ms. Zero means that the server does not know.
    fn note_expiry(&self, key: &str, valid_ms: Option<u64>, is_first: bool) {
        let valid_ms = valid_ms.filter(|valid_ms| *valid_ms > 0);
        let expiry = valid_ms.and_then(|valid_ms| clock::now().checked_add(Duration::from_millis(valid_ms)));
        let mut known = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = known.remove(key).filter(|_| !is_first);
        if let Some(expiry) = [earlier, expiry].into_iter().flatten().min() {
            known.insert(key.to_owned(), expiry);
        }
    }

    /// Reads all pages of a list. One bad entry must not hide the others, so each is read by itself.
    async fn list_all<T>(
        &self,
        key: &str,
        request: impl Fn(PaginatedRequestParams) -> ClientRequest,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, McpError> {
        let (mut listed, mut cursor, mut seen) = (Vec::new(), None, BTreeSet::new());
        for number in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let answer = self.request(request(params)).await?;
            if matches!(answer, ServerResult::EmptyResult(_)) {
                break;
            }
            let no_list = |_| McpError::Malformed(format!("no list of {key}"));
            let mut page = serde_json::to_value(answer).map_err(no_list)?;
            self.client.redact(&mut page);
            let entries = page.get(key).and_then(Value::as_array);
            let entries = entries.ok_or_else(|| McpError::Malformed(format!("no list of {key}")))?;
            listed.extend(entries.iter().filter_map(&read));
            self.note_expiry(key, page.get("ttlMs").and_then(Value::as_u64), number == 0);
            match page.get("nextCursor").and_then(Value::as_str) {
                // A cursor that comes again would never end.
                Some(next) if listed.len() < MAX_ENTRIES && seen.insert(next.to_owned()) => {
                    cursor = Some(next.to_owned());
                }
                _ => break,
            }
        }
        listed.truncate(MAX_ENTRIES);
        Ok(listed)
    }

    /// Sends a request. If `cancel` or `expired` ends the wait for the answer, the server learns that.
    async fn request_until(
        &self,
        request: ClientRequest,
        cancel: &CancellationToken,
        expired: impl Future<Output = McpError>,
    ) -> Result<ServerResult, McpError> {
        let options = PeerRequestOptions::no_options();
        let send = self.peer.send_cancellable_request(request, options);
        let mut expired = std::pin::pin!(expired);
        let mut handle = tokio::select! { biased;
            () = cancel.cancelled() => return Err(McpError::Cancelled),
            handle = send => handle.map_err(|error| self.explain(to_error(&error)))?,
            error = &mut expired => return Err(error),
        };
        let token = handle.progress_token.clone();
        let ended = tokio::select! { biased;
            () = cancel.cancelled() => Err(McpError::Cancelled),
            answer = &mut handle.rx => Ok(answer),
            () = self.closed.cancelled() => Err(McpError::Closed),
            error = &mut expired => Err(error),
        };
        self.progress.remove(&token);
        match ended {
            Ok(Ok(answer)) => answer.map_err(|error| self.explain(to_error(&error))),
            Ok(Err(_)) | Err(McpError::Closed) => Err(self.explain(McpError::Closed)),
            Err(error) => {
                abandon(handle, &error).await;
                Err(error)
            }
        }
    }

    /// Sends a request, and sends it again with what the server needs for it, until it answers. `call` is the call of a
    /// tool that the request is.
    async fn request_with_inputs(
        &self,
        build: impl Fn(CollectedInputs) -> ClientRequest,
        call: Option<u64>,
        cancel: &CancellationToken,
        expired: impl Future<Output = McpError>,
    ) -> Result<ServerResult, McpError> {
        let (mut inputs, mut expired) = (CollectedInputs::default(), std::pin::pin!(expired));
        let (mut rounds, mut pauses) = (0, 0);
        loop {
            let request = build(std::mem::take(&mut inputs));
            let result = self.request_until(request, cancel, expired.as_mut()).await?;
            let Some(InputRequired { requests, state }) = InputRequired::read(&result)? else {
                return Ok(result);
            };
            if requests.is_empty() {
                pauses += 1;
            } else if rounds == MAX_ROUNDS {
                let reason = format!("it needs more each time, also after {MAX_ROUNDS} answers");
                return Err(McpError::Refused(reason));
            } else {
                rounds += 1;
            }
            let collecting = async {
                if requests.is_empty() {
                    clock::sleep(BACKOFF.delay_after(pauses, random::random_unit())).await;
                }
                self.side.answer_inputs(requests, call).await
            };
            // Dropping it withdraws the question.
            let responses = tokio::select! { biased;
                () = cancel.cancelled() => return Err(McpError::Cancelled),
                () = self.closed.cancelled() => return Err(self.explain(McpError::Closed)),
                responses = collecting => responses?,
                error = expired.as_mut() => return Err(error),
            };
            inputs = CollectedInputs {
                responses: Some(responses).filter(|responses| !responses.is_empty()),
                state,
            };
        }
    }

    async fn request_within(
        &self,
        build: impl Fn(CollectedInputs) -> ClientRequest,
        McpWait { limit, cancel }: McpWait,
    ) -> Result<ServerResult, McpError> {
        let expired = clock::sleep(limit).map(|()| McpError::TimedOut(limit));
        self.request_with_inputs(build, None, &cancel, expired).await
    }

    async fn fetch_prompt(&self, params: GetPromptRequestParams, wait: McpWait) -> PromptResult {
        let build = |inputs: CollectedInputs| {
            let mut params = params.clone();
            (params.input_responses, params.request_state) = (inputs.responses, inputs.state);
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        match self.request_within(build, wait).await? {
            ServerResult::GetPromptResult(prompt) => {
                Ok(prompt.messages.into_iter().map(to_prompt_message).collect())
            }
            _ => Err(McpError::Malformed("not a prompt".to_owned())),
        }
    }

    async fn fetch_resource(
        &self,
        params: ReadResourceRequestParams,
        wait: McpWait,
    ) -> Result<Vec<McpContent>, McpError> {
        let build = |inputs: CollectedInputs| {
            let mut params = params.clone();
            (params.input_responses, params.request_state) = (inputs.responses, inputs.state);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        match self.request_within(build, wait).await? {
            ServerResult::ReadResourceResult(read) => {
                Ok(read.contents.into_iter().map(to_document).collect())
            }
            _ => Err(McpError::Malformed("not a resource".to_owned())),
        }
    }

    /// Calls a tool. If the user must visit addresses first and has done so, calls it once more.
    async fn run_call(&self, call: McpCall) -> Result<McpCallResult, McpError> {
        let (message, visits) = match self.call_once(&call).await {
            Err(McpError::VisitFirst(message, visits)) if !visits.is_empty() => (message, visits),
            result => return result,
        };
        if ask_to_visit(&call.requests, &visits).await {
            self.call_once(&call).await
        } else if call.cancel.is_cancelled() {
            Err(McpError::Cancelled)
        } else {
            let message = format!("{message}; the user has not done so");
            Err(McpError::VisitFirst(message, visits))
        }
    }

    async fn call_once(&self, call: &McpCall) -> Result<McpCallResult, McpError> {
        let running = self
            .requests
            .begin_call(call.session.clone(), call.requests.clone());
        let params = CallToolRequestParams::new(call.tool.clone()).with_arguments(call.arguments.clone());
        let build = |inputs: CollectedInputs| {
            let mut params = params.clone();
            (params.input_responses, params.request_state) = (inputs.responses, inputs.state);
            let mut request = CallToolRequest::new(params);
            let receiver = ProgressReceiver(call.progress.downgrade());
            request.extensions.insert(receiver);
            ClientRequest::CallToolRequest(request)
        };
        let expired = running
            .wait_for_limit(call.limit)
            .map(|()| McpError::TimedOut(call.limit));
        let result = self.request_with_inputs(build, Some(running.number()), &call.cancel, expired);
        let malformed = || McpError::Malformed("not a result of a call".to_owned());
        match result.await? {
            ServerResult::CallToolResult(result) => Ok(to_call_result(result)),
            // A result without content; the SDK takes one of the current revision for another kind.
            ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => Ok(McpCallResult::default()),
            ServerResult::CustomResult(CustomResult(result)) => {
                read_call_result(result).ok_or_else(malformed)
            }
            _ => Err(malformed()),
        }
    }
}

type PromptResult = Result<Vec<super::connection::McpPromptMessage>, McpError>;

/// Asks the user to visit each address. Returns whether the user has visited all.
async fn ask_to_visit(requests: &mpsc::Sender<ServerRequest>, visits: &[(String, Url)]) -> bool {
    for (message, url) in visits {
        let (reply, answer) = oneshot::channel();
        let elicitation = Elicitation {
            message: message.clone(),
            requested: Requested::Visit(url.clone()),
        };
        let request = ServerRequest::Elicit(ElicitationRequest {
            elicitation,
            is_of_this_session: true,
            reply,
        });
        if requests.send(request).await.is_err() || !matches!(answer.await, Ok(ElicitationAnswer::Accept(_)))
        {
            return false;
        }
    }
    true
}

/// Checks that we speak the version of the protocol that the server chose.
fn check_version(peer: &Peer<RoleClient>) -> Result<(), McpError> {
    match peer.peer_info() {
        Some(info) if !ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version) => {
            let version = one_line(&reveal_hidden_characters(&info.protocol_version.to_string()), 100);
            let reason = format!("it chose the protocol version {version}, which agentls does not support");
            Err(McpError::Malformed(reason))
        }
        _ => Ok(()),
    }
}

/// Returns how a server is to be opened after an attempt; `None` if that is not known better than before.
fn choose_next(probe: &Probe, opening: Opening, error: Option<&ClientInitializeError>) -> Option<Opening> {
    let Some(error) = error else {
        return probe.has_expired().then_some(Opening::Initialize);
    };
    if probe.is_late_discovery() || is_refusal_of_older(error) {
        Some(Opening::Discover)
    } else {
        match opening {
            Opening::Either => may_have_refused_probe(error).then_some(Opening::Initialize),
            // What was known of the server does not hold any more.
            Opening::Initialize | Opening::Discover => Some(Opening::Either),
            // It answers, but not to this request.
            Opening::InitializeAgain => {
                matches!(error, ClientInitializeError::JsonRpcError(_)).then_some(Opening::Discover)
            }
        }
    }
}

/// Tells the server that nobody waits for the answer any more.
async fn abandon(handle: RequestHandle<RoleClient>, reason: &McpError) {
    let told = clock::timeout(CANCEL, handle.cancel(Some(reason.to_string()))).await;
    if !matches!(told, Ok(Ok(()))) {
        tracing::debug!("an MCP server could not be told of a cancel");
    }
}

impl McpConnection for RmcpConnection {
    fn peer(&self) -> &McpPeer {
        &self.info
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<McpTool>, McpError>> {
        let request = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        self.list_all(TOOLS, request, read_tool).boxed()
    }

    fn call_tool(&self, call: McpCall) -> BoxFuture<'_, Result<McpCallResult, McpError>> {
        self.run_call(call).boxed()
    }

    fn list_prompts(&self) -> BoxFuture<'_, Result<Vec<McpPrompt>, McpError>> {
        let request = |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        self.list_all(PROMPTS, request, read_prompt).boxed()
    }

    fn get_prompt(&self, name: &str, arguments: Map<String, Value>, wait: McpWait) -> PromptReply<'_> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        self.fetch_prompt(params, wait).boxed()
    }

    fn list_resources(&self) -> BoxFuture<'_, Result<Vec<McpResource>, McpError>> {
        let request = |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        self.list_all("resources", request, read_resource).boxed()
    }

    fn read_resource(&self, uri: &str, wait: McpWait) -> BoxFuture<'_, Result<Vec<McpContent>, McpError>> {
        self.fetch_resource(ReadResourceRequestParams::new(uri), wait)
            .boxed()
    }

    fn notify_roots_changed(&self) -> BoxFuture<'_, ()> {
        async {
            // Since revision 2026-07-28, servers list the folders during a request, and there is no such notification.
            let info = self.peer.peer_info();
            if info.is_some_and(|info| !info.protocol_version.has_initialize()) {
                return;
            }
            let told = clock::timeout(CANCEL, self.peer.notify_roots_list_changed()).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!("an MCP server could not be told of other folders");
            }
        }
        .boxed()
    }

    fn are_lists_stale(&self) -> bool {
        if self.lists.as_ref().is_some_and(ListSubscription::is_announced) {
            return false;
        }
        let expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        [TOOLS, PROMPTS]
            .iter()
            .any(|key| expiries.get(*key).is_some_and(|expiry| now >= *expiry))
    }

    fn follow_lists(&self) -> BoxFuture<'_, ()> {
        match &self.lists {
            Some(lists) => lists.follow(&*self.client).boxed(),
            None => pending().boxed(),
        }
    }

    fn wait_until_closed(&self) -> BoxFuture<'_, ()> {
        self.closed.cancelled().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            if let Some(mut service) = self.service.lock().await.take() {
                let _ = service.close_with_timeout(CLOSE).await;
            }
        }
        .boxed()
    }
}
