//! Adds the token of a login to each request of the HTTP transport, replaces a token that the server refuses, and repairs
//! answers that nobody would take.
//!
//! A token goes only to the address that the user logged in for: the transport has no other, and follows no redirect.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, empty, iter};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcError, JsonRpcMessage, JsonRpcRequest,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::Sse;
use tokio::sync::watch;
use url::Url;

use super::answer_stream::{complete_answer, describe_unreadable};
use super::connection::McpError;
use crate::base::clock::timeout;
use crate::base::error_chain::{find, innermost_message};
use crate::base::text::{one_line, one_line_of_words, reveal_hidden_characters};
use crate::config::{NetworkSettings, Redactor};
use crate::oauth::{OAuthError, TokenSource};

/// Attempts in a row to resume streams after which the connection is lost; the SDK would try without end.
const MAX_RESUMES: u32 = 3;

/// How long the first event of an answer is waited for, which may refuse the session, and how many events are looked at.
const FIRST_EVENT: Duration = Duration::from_millis(200);
const MAX_PEEKED: usize = 4;

/// The longest reason of a failure, in characters.
const MAX_REASON: usize = 500;

type HttpResult<T> = Result<T, StreamableHttpError<reqwest::Error>>;

/// Why a connection must end: the server demands a login, maybe with another scope, refuses what the settings state, or
/// its streams cannot be resumed. Clones share it.
#[derive(Clone, Default)]
pub(super) struct EndReason(watch::Sender<Option<McpError>>);

impl EndReason {
    /// Returns the first reason.
    pub(super) fn get(&self) -> Option<McpError> {
        self.0.borrow().clone()
    }

    /// Waits for a reason.
    pub(super) async fn wait(&self) -> McpError {
        let mut reason = self.0.subscribe();
        let known = reason.wait_for(Option::is_some).await;
        // The sender lives as long as `self`.
        known
            .ok()
            .and_then(|known| known.clone())
            .unwrap_or(McpError::NeedsLogin)
    }

    fn set(&self, reason: McpError) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(reason);
            is_first
        });
    }
}

/// How the proxy on the way to a server failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProxyFailure(String);

/// An HTTP client of the SDK whose requests carry the token of a login.
#[derive(Clone)]
pub(super) struct AuthorizedClient {
    pub(super) http: reqwest::Client,
    pub(super) address: Url,
    /// Names the proxy.
    pub(super) network: NetworkSettings,
    /// `None` if requests are authorized in another way.
    pub(super) tokens: Option<Arc<TokenSource>>,
    /// What it means that the server demands authorization.
    pub(super) unauthorized: McpError,
    /// Learns every token, so that a server cannot make us repeat one.
    pub(super) redactor: Redactor,
    pub(super) end_reason: EndReason,
    /// How long the answer to `server/discover` may take. Nothing else can be sent before it.
    pub(super) probe_limit: Option<Duration>,
    /// Attempts in a row to resume a stream that have failed.
    pub(super) failed_resumes: Arc<AtomicU32>,
    /// The server opens no stream for what it sends on its own.
    pub(super) refuses_stream: Arc<AtomicBool>,
    /// The session that the server seems to have lost, so that nothing more is sent in it.
    pub(super) lost_session: Arc<Mutex<Option<Arc<str>>>>,
}

impl AuthorizedClient {
    /// Sends a request with the right token. If the server refuses it, refreshes once and tries once more.
    async fn send_authorized<T, F>(
        &self,
        stated: Option<String>,
        send: impl Fn(Option<String>) -> F,
    ) -> HttpResult<T>
    where
        F: Future<Output = HttpResult<T>>,
    {
        let Some(tokens) = &self.tokens else {
            return self.mend_result(send(stated).await).await;
        };
        // The connection ends, so what it still sends needs no other refresh.
        if self.end_reason.get().is_some() {
            return Err(to_http_error(OAuthError::LoginNeeded));
        }
        match self.send_with_token(tokens, send).await {
            Err(error @ StreamableHttpError::AuthRequired(_)) => {
                self.end_reason.set(McpError::NeedsLogin);
                Err(error)
            }
            Err(StreamableHttpError::InsufficientScope(refused)) => {
                Err(self.note_refused_scope(tokens, refused).await)
            }
            result => result,
        }
    }

    /// Demands a login with the scope that the server names, unless the last login has requested it.
    async fn note_refused_scope(
        &self,
        tokens: &TokenSource,
        refused: InsufficientScopeError,
    ) -> StreamableHttpError<reqwest::Error> {
        let demanded = refused
            .required_scope
            .as_deref()
            .filter(|_| is_about_scope(&refused));
        if let Some(scope) = demanded {
            match tokens.note_demanded_scopes(scope).await {
                Ok(true) => {
                    let scope = one_line(&reveal_hidden_characters(scope), 200);
                    self.end_reason.set(McpError::NeedsScope(scope));
                    return to_http_error(OAuthError::LoginNeeded);
                }
                Ok(false) => {}
                Err(error) => return to_http_error(error),
            }
        }
        StreamableHttpError::InsufficientScope(refused)
    }

    async fn send_with_token<T, F>(
        &self,
        tokens: &TokenSource,
        send: impl Fn(Option<String>) -> F,
    ) -> HttpResult<T>
    where
        F: Future<Output = HttpResult<T>>,
    {
        let Some(token) = tokens.get_access_token().await.map_err(to_http_error)? else {
            return self.mend_result(send(None).await).await;
        };
        let sent = send(Some(self.expose_token(&token))).await;
        let refused = match self.mend_result(sent).await {
            Err(error @ StreamableHttpError::AuthRequired(_)) => error,
            other => return other,
        };
        let fresh = match tokens.replace_refused(&token).await {
            Ok(fresh) => fresh,
            Err(OAuthError::LoginNeeded) => return Err(refused),
            Err(error) => return Err(to_http_error(error)),
        };
        self.mend_result(send(Some(self.expose_token(&fresh))).await)
            .await
    }

    /// Ends the connection if the server refuses it. The SDK loses the reason of a refused introduction.
    fn note_refusal(&self, sent: &ClientJsonRpcMessage, error: &StreamableHttpError<reqwest::Error>) {
        match (error, sent) {
            (StreamableHttpError::AuthRequired(_), _) => self.end_reason.set(self.unauthorized.clone()),
            (error, JsonRpcMessage::Notification(sent))
                if matches!(sent.notification, ClientNotification::InitializedNotification(_)) =>
            {
                self.end_reason.set(to_transport_error(error));
            }
            _ => {}
        }
    }

    /// Ends the connection if its streams cannot be resumed, because their calls would wait until their limit.
    fn note_resume(&self, is_resumed: bool) {
        if is_resumed {
            self.failed_resumes.store(0, Ordering::Relaxed);
        } else if self.failed_resumes.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_RESUMES {
            self.end_reason
                .set(McpError::Failed("the connection was lost".to_owned()));
        }
    }

    /// Recognizes a refusal without a challenge, which the SDK reports as any other status, and a failure of the proxy.
    /// Removes the address, whose query may contain a secret: the SDK logs such errors.
    async fn mend_result<T>(&self, result: HttpResult<T>) -> HttpResult<T> {
        let Err(error) = result else { return result };
        let status = match &error {
            StreamableHttpError::Client(error) => error.status().map(|status| status.as_u16()),
            StreamableHttpError::UnexpectedServerResponse(text) => text
                .strip_prefix("HTTP ")
                .and_then(|rest| rest.get(..3)?.parse().ok()),
            _ => None,
        };
        if status == Some(401) {
            return Err(to_http_error(OAuthError::LoginNeeded));
        }
        if let Some(failure) = self.explain_proxy(&error, status).await {
            return Err(StreamableHttpError::Io(io::Error::other(failure)));
        }
        Err(match error {
            StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
            other => other,
        })
    }

    /// Returns how the proxy failed, if it did.
    async fn explain_proxy(
        &self,
        error: &StreamableHttpError<reqwest::Error>,
        status: Option<u16>,
    ) -> Option<ProxyFailure> {
        let proxy = self.network.find_proxy(&self.address)?;
        // Such a proxy sees the request, and answers itself.
        if status == Some(407) && self.address.scheme() == "http" {
            let host = self.address.host_str().unwrap_or_default();
            let (failure, action) = (proxy.explain_authentication(), proxy.suggest_action(host));
            return Some(ProxyFailure(format!("{failure}; {action}")));
        }
        let StreamableHttpError::Client(error) = error else {
            return None;
        };
        let failure = self.network.explain_proxy_failure(&self.address, error).await;
        failure.map(ProxyFailure)
    }

    /// Checks whether an answer refuses the session. If a tool may have run, only the next request starts a new one.
    async fn check_session(
        &self,
        sent: &ClientJsonRpcMessage,
        session: Arc<str>,
        answer: &mut StreamableHttpPostResponse,
    ) -> HttpResult<()> {
        let verdict = match answer {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _) => judge_session(sent, error),
            StreamableHttpPostResponse::Sse(events, _) => match peek_error(events).await {
                Some(error) => judge_session(sent, &error),
                None => SessionVerdict::Known,
            },
            _ => SessionVerdict::Known,
        };
        match verdict {
            SessionVerdict::Known => {}
            SessionVerdict::Refused => return Err(StreamableHttpError::SessionExpired),
            SessionVerdict::Doubtful => *self.lock_lost_session() = Some(session),
        }
        Ok(())
    }

    fn take_lost_session(&self) -> Option<Arc<str>> {
        self.lock_lost_session().take()
    }

    fn lock_lost_session(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.lost_session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expose_token(&self, token: &SecretString) -> String {
        self.redactor.learn_provider_key(token);
        token.expose_secret().to_owned()
    }
}

fn to_http_error(error: OAuthError) -> StreamableHttpError<reqwest::Error> {
    match error {
        OAuthError::LoginNeeded => StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())),
        error => StreamableHttpError::Io(io::Error::other(error)),
    }
}

/// Converts the failure of a request, or of another transport. What a server says in it is safe to show then.
pub(super) fn to_transport_error(error: &(dyn std::error::Error + 'static)) -> McpError {
    explain_refusal(error).unwrap_or_else(|| {
        let reason = describe_http_failure(error).unwrap_or_else(|| innermost_message(error));
        McpError::Failed(one_line_of_words(&reveal_hidden_characters(&reason), MAX_REASON))
    })
}

/// Describes why an HTTP request failed; `None` if the error is of another kind.
fn describe_http_failure(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(failure) = find::<ProxyFailure>(error) {
        return Some(failure.to_string());
    }
    let error = match find::<StreamableHttpError<reqwest::Error>>(error)? {
        StreamableHttpError::Client(error) => error,
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("no content type");
            return Some(format!(
                "the server answered with {kind} instead of JSON; check its `url`"
            ));
        }
        StreamableHttpError::UnexpectedServerResponse(text) => {
            let unreadable = text.strip_prefix("could not parse JSON response as ServerJsonRpcMessage: ");
            return unreadable
                .map(describe_unreadable)
                .or_else(|| describe_no_endpoint(text));
        }
        _ => return None,
    };
    let is_refused =
        find::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    Some(match error.status() {
        Some(status) => format!("the server answered with HTTP {status}"),
        None if is_refused => {
            "the server refused the connection; check that it runs, and its `url`".to_owned()
        }
        None if error.is_redirect() => innermost_message(error),
        None => format!("the request to the server failed: {}", innermost_message(error)),
    })
}

/// Describes an address that takes no messages of streamable HTTP. Servers of the first transport over HTTP, which only
/// open a stream there, refuse the method or do not know the path.
fn describe_no_endpoint(refusal: &str) -> Option<String> {
    let status = ["HTTP 404", "HTTP 405"]
        .into_iter()
        .find(|status| refusal.starts_with(status))?;
    Some(format!(
        "the server takes no messages at this `url` ({status}); it may speak only the old transport SSE, which agentls does \
         not support: look for its address of streamable HTTP, which often ends in /mcp"
    ))
}

/// Gives an error the id of the request that it answers. Servers that refuse a request before they read it send no id or
/// one of their own, and the request would wait until its limit. Anything else that does not answer the request becomes
/// an error.
fn mend_answer(
    sent: &ClientJsonRpcMessage,
    mut answer: StreamableHttpPostResponse,
) -> HttpResult<StreamableHttpPostResponse> {
    let JsonRpcMessage::Request(JsonRpcRequest { id, .. }) = sent else {
        return Ok(answer);
    };
    let problem = match (&mut answer, id) {
        (StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _), _) => {
            error.id = Some(id.clone());
            return Ok(answer);
        }
        // Some servers return a number as a string, which the SDK accepts.
        (StreamableHttpPostResponse::Json(JsonRpcMessage::Response(response), _), _)
            if response.id.to_string() == id.to_string() =>
        {
            return Ok(answer);
        }
        (StreamableHttpPostResponse::Sse(events, _), RequestId::Number(id)) => {
            *events = complete_answer(*id, std::mem::replace(events, empty().boxed()));
            return Ok(answer);
        }
        (StreamableHttpPostResponse::Accepted, _) => {
            "it took the request without an answer (HTTP 202 or 204)"
        }
        _ => "its answer does not belong to the request",
    };
    let failure = JsonRpcMessage::error(rmcp::ErrorData::internal_error(problem, None), Some(id.clone()));
    Ok(StreamableHttpPostResponse::Json(failure, None))
}

/// Returns whether a refusal without a JSON-RPC message is about the session.
fn is_session_status(refusal: &str) -> bool {
    refusal.starts_with("HTTP 410") || refusal.starts_with("HTTP 400") && says_session_is_gone(refusal)
}

fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(sent) if matches!(sent.request, ClientRequest::DiscoverRequest(_)))
}

/// What an answer says about the session of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionVerdict {
    Known,
    /// The server did not accept the request, so that it can be repeated in a new session.
    Refused,
    /// The words may also be those of a tool that has run, about a session of its own. Later requests need a new session.
    Doubtful,
}

/// Recognizes an answer that refuses the session. Servers should answer with HTTP 404, but many do not.
fn judge_session(sent: &ClientJsonRpcMessage, answer: &JsonRpcError) -> SessionVerdict {
    let JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = sent else {
        return SessionVerdict::Known;
    };
    let message = &answer.error.message;
    // Some servers answer a number with its digits as a text.
    if answer.id.as_ref().map(ToString::to_string) != Some(id.to_string()) {
        // The server has not read the request.
        let is_refused = message.to_lowercase().contains("session") || says_session_is_gone(message);
        return if is_refused {
            SessionVerdict::Refused
        } else {
            SessionVerdict::Known
        };
    }
    // Codes that JSON-RPC leaves to servers, and the one for an invalid request.
    if !matches!(answer.error.code.0, -32099..=-32000 | -32600) || !says_session_is_gone(message) {
        SessionVerdict::Known
    } else if is_own_wording(message) || !matches!(request, ClientRequest::CallToolRequest(_)) {
        SessionVerdict::Refused
    } else {
        SessionVerdict::Doubtful
    }
}

/// Recognizes what servers say about a session that they do not know.
fn says_session_is_gone(text: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 8] = [
        "not found", "does not exist", "expired", "invalid", "unknown", "no valid", "terminated", "missing",
    ];
    let text = text.to_lowercase();
    text.contains("server not initialized")
        || text.contains("session") && WORDS.iter().any(|word| text.contains(word))
}

/// Whether these are the words of the SDKs for a request that they refuse before any tool runs.
fn is_own_wording(message: &str) -> bool {
    const WORDINGS: [&str; 8] = [
        "session not found",
        "session expired",
        "session terminated",
        "session has been terminated",
        "invalid session id",
        "no valid session id provided",
        "missing session id",
        "server not initialized",
    ];
    let message = message.to_lowercase();
    let words = ["bad request: ", "not found: "]
        .iter()
        .find_map(|status| message.strip_prefix(status))
        .unwrap_or(&message);
    WORDINGS.contains(&words.trim_end_matches('.'))
}

/// Returns the first message among the events of an answer, if it comes soon and is an error. The events stay complete.
async fn peek_error(events: &mut BoxStream<'static, Result<Sse, SseError>>) -> Option<JsonRpcError> {
    let mut peeked = Vec::new();
    let peeking = async {
        while peeked.len() < MAX_PEEKED
            && let Some(event) = events.next().await
        {
            let data = event.as_ref().ok().and_then(|event| event.data.as_deref());
            // Others are signs of life.
            let message = data.and_then(|data| serde_json::from_str::<ServerJsonRpcMessage>(data).ok());
            peeked.push(event);
            if message.is_some() {
                return message;
            }
        }
        None
    };
    let message = timeout(FIRST_EVENT, peeking).await.ok().flatten();
    let rest = std::mem::replace(events, empty().boxed());
    *events = iter(peeked).chain(rest).boxed();
    match message? {
        ServerJsonRpcMessage::Error(error) => Some(error),
        _ => None,
    }
}

fn is_about_scope(refused: &InsufficientScopeError) -> bool {
    refused.www_authenticate_header.contains("insufficient_scope")
}

/// Explains an error if it is a refusal of a request whose login is known.
fn explain_refusal(error: &(dyn std::error::Error + 'static)) -> Option<McpError> {
    let refused = find::<InsufficientScopeError>(error)?;
    if !is_about_scope(refused) {
        return Some(McpError::Refused("the server forbids it (HTTP 403)".to_owned()));
    }
    let scope = match &refused.required_scope {
        Some(scope) => format!("the scope {:?}", one_line(&reveal_hidden_characters(scope), 200)),
        None => "a scope that it does not name".to_owned(),
    };
    Some(McpError::Refused(format!(
        "the server needs {scope}, which the login does not cover"
    )))
}

impl StreamableHttpClient for AuthorizedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let send = |token| {
            let (uri, message) = (uri.clone(), message.clone());
            let (session_id, headers) = (session_id.clone(), headers.clone());
            let limit = self.probe_limit.filter(|_| is_discovery(&message));
            let answer = self
                .http
                .post_message_with_response_limits(uri, message, session_id, token, headers, limits);
            async move {
                let Some(limit) = limit else {
                    return answer.await;
                };
                let expired = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer to `server/discover`");
                timeout(limit, answer).await.map_err(expired)?
            }
        };
        if session_id.is_some() && self.take_lost_session() == session_id {
            return Err(StreamableHttpError::SessionExpired);
        }
        let mut answer = match self.send_authorized(token, send).await {
            Err(StreamableHttpError::UnexpectedServerResponse(text))
                if session_id.is_some() && is_session_status(&text) =>
            {
                return Err(StreamableHttpError::SessionExpired);
            }
            answer => answer.inspect_err(|error| self.note_refusal(&message, error))?,
        };
        // Some servers answer in the stream for what they send on their own, which only sessions have.
        let has_stream = session_id.is_some() && !self.refuses_stream.load(Ordering::Relaxed);
        if has_stream && matches!(answer, StreamableHttpPostResponse::Accepted) {
            return Ok(answer);
        }
        if let Some(session) = session_id {
            self.check_session(&message, session, &mut answer).await?;
        }
        mend_answer(&message, answer)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<()> {
        let send = |token| {
            self.http
                .delete_session(uri.clone(), session_id.clone(), token, headers.clone())
        };
        self.send_authorized(token, send).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<BoxStream<'static, Result<Sse, SseError>>> {
        let limit = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, token, headers, limit)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limit: usize,
    ) -> HttpResult<BoxStream<'static, Result<Sse, SseError>>> {
        let send = |token| {
            let (uri, session_id) = (uri.clone(), session_id.clone());
            let (last, headers) = (last_event_id.clone(), headers.clone());
            self.http
                .get_stream_with_max_sse_event_size(uri, session_id, last, token, headers, limit)
        };
        let stream = self.send_authorized(token, send).await;
        if last_event_id.is_some() {
            self.note_resume(stream.is_ok());
        } else {
            self.refuses_stream.store(stream.is_err(), Ordering::Relaxed);
        }
        stream
    }
}
