//! The methods, and what must come first. Each handler is polled once in the order of arrival.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, ErrorCode, Id, Request, Response};
use tower_service::Service;

use super::context::AcpContext;
use super::error::{invalid_param, refusal};
use super::mcp_servers::take_servers;
use super::params::{InitializeParams, SetModeParams};
use super::{login, options, prompt, sessions};
use crate::domain::SessionId;

/// Methods whose answer takes as long as a turn.
pub(super) const LONG: &[&str] = &["session/prompt"];

/// Answers requests.
#[derive(Clone)]
pub(super) struct AcpService {
    pub(super) state: Arc<AcpContext>,
    pub(super) is_initialized: Arc<AtomicBool>,
}

impl Service<Request> for AcpService {
    type Response = Option<Response>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Option<Response>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let state = self.state.clone();
        let is_initialized = self.is_initialized.clone();
        let (method, id, params) = request.into_parts();
        let params = params.unwrap_or(Value::Null);
        async move {
            let Some(id) = id else {
                notify(&state, &method, params);
                return Ok(None);
            };
            let answer = if method == "initialize" {
                let answer = initialize(&state, params);
                is_initialized.fetch_or(answer.is_ok(), Ordering::Relaxed);
                answer
            } else if is_initialized.load(Ordering::Relaxed) {
                answer_request(&state, &method, id.clone(), params).await
            } else {
                Err(refusal(ErrorCode::InvalidRequest, "send `initialize` first"))
            };
            Ok(Some(Response::from_parts(id, answer)))
        }
        .boxed()
    }
}

fn notify(state: &AcpContext, method: &str, params: Value) {
    // A notification has no answer, so a problem with it goes to the log. Others are for later versions.
    if method == "session/cancel" {
        match parse(state, params) {
            Ok(params) => prompt::cancel(state, params),
            Err(error) => tracing::warn!(%error, "session/cancel was not understood"),
        }
    }
}

async fn answer_request(state: &AcpContext, method: &str, id: Id, mut params: Value) -> Result<Value, Error> {
    match method {
        "authenticate" => login::authenticate(state, parse(state, params)?).await,
        "logout" => login::log_out(state).await,
        "session/new" => {
            let servers = take_servers(&mut params)?;
            sessions::new_session(state, id, parse(state, params)?, servers).await
        }
        "session/load" | "session/resume" => {
            let servers = take_servers(&mut params)?;
            let replays = method == "session/load";
            sessions::open_session(state, id, parse(state, params)?, (servers, replays)).await
        }
        // Not stable in the protocol yet.
        "session/fork" => {
            let servers = take_servers(&mut params)?;
            sessions::fork_session(state, id, parse(state, params)?, servers).await
        }
        "session/list" => {
            let params = if params.is_null() { json!({}) } else { params };
            sessions::list_sessions(state, parse(state, params)?).await
        }
        "session/close" => sessions::close_session(state, &id, parse(state, params)?).await,
        "session/delete" => sessions::delete_session(state, &id, parse(state, params)?).await,
        "session/prompt" => prompt::run_prompt(state, parse(state, params)?).await,
        "session/set_mode" => {
            let params: SetModeParams = parse(state, params)?;
            options::set_mode(state, &SessionId::from(params.session_id), &params.mode_id).await?;
            Ok(json!({}))
        }
        "session/set_config_option" => {
            let options = options::set_option(state, &id, parse(state, params)?).await?;
            Ok(json!({"configOptions": options}))
        }
        #[cfg(feature = "sim")]
        method if method.starts_with("$/test/") => {
            let answer = state.sessions.answer_test_request(method, &params).await;
            answer.ok_or_else(|| refusal(ErrorCode::MethodNotFound, "no such method"))
        }
        _ => Err(refusal(ErrorCode::MethodNotFound, "no such method")),
    }
}

/// Parses params and removes known keys from all their strings: a key must reach no model and no store (I15).
fn parse<T: DeserializeOwned>(state: &AcpContext, mut params: Value) -> Result<T, Error> {
    state.sessions.redactor().redact_json(&mut params);
    // An error of serde quotes values and names our types, so only its kind and the field are kept.
    serde_json::from_value(params).map_err(|error| {
        let text = error.to_string();
        let expected = text
            .split_once(", expected ")
            .map(|(_, expected)| match expected.split_once(' ') {
                Some(("struct" | "enum" | "internally", _)) => "expected an object".to_owned(),
                _ => format!("expected {expected}"),
            });
        let missing = text.starts_with("missing field").then_some(text);
        invalid_param(
            missing
                .or(expected)
                .unwrap_or_else(|| "malformed params".to_owned()),
        )
    })
}

fn initialize(state: &AcpContext, params: Value) -> Result<Value, Error> {
    let params: InitializeParams = parse(state, params)?;
    let can = &params.client_capabilities;
    let facts = &state.facts;
    facts.reads_files.store(can.reads_files(), Ordering::Relaxed);
    facts.writes_files.store(can.writes_files(), Ordering::Relaxed);
    facts.shows_notices.store(can.shows_notices(), Ordering::Relaxed);
    facts.shows_forms.store(can.shows_forms(), Ordering::Relaxed);
    facts.opens_urls.store(can.opens_urls(), Ordering::Relaxed);
    // Set once: a second `initialize` does not rename the client.
    let _ = facts.name.set(params.client_name().to_owned());
    Ok(json!({
        "protocolVersion": 1,
        "agentInfo": {
            "name": env!("CARGO_PKG_NAME"), "title": "agentls", "version": env!("CARGO_PKG_VERSION"),
        },
        "agentCapabilities": {
            "loadSession": true,
            "auth": {"logout": {}},
            "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": false},
            "sessionCapabilities": {
                "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}, "additionalDirectories": {},
            },
        },
        "authMethods": login::list_methods(can.runs_logins()),
    }))
}
