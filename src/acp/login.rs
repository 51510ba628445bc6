//! Sign-in: the methods that are offered, `authenticate`, and `logout`.
//!
//! Keys are given at a terminal, or in the environment; never over this protocol. The client runs the same command with
//! the arguments of the terminal method, so that it must work behind `agentls acp`.

use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, ErrorCode};

use super::context::AcpContext;
use super::error::{agent_error, invalid_param, refusal};
use super::params::AuthenticateParams;
use crate::base::spawn::run_blocking;

/// The method that reads keys again which the user has set elsewhere.
const STORED_KEY: &str = "stored-key";
/// The method that asks for a key in a terminal.
const TERMINAL: &str = "login";

/// Returns the methods. The one for a terminal is only for clients that can open one.
pub(super) fn list_methods(runs_logins: bool) -> Vec<Value> {
    let terminal = json!({
        "id": TERMINAL,
        "name": "Add the key of a provider",
        "description": "Asks for a provider and its key in a terminal",
        "type": "terminal",
        "args": ["login"],
        // For clients from before the protocol had the type.
        "_meta": {"terminal-auth": {"label": "agentls login", "args": ["login"]}},
    });
    let stored = json!({
        "id": STORED_KEY,
        "name": "Use a key that is stored already",
        "description": "Run `agentls login` in a terminal, or start Ollama; then choose this",
    });
    runs_logins
        .then_some(terminal)
        .into_iter()
        .chain([stored])
        .collect()
}

/// Reads the keys again, and checks that there is a provider.
pub(super) async fn authenticate(state: &AcpContext, params: AuthenticateParams) -> Result<Value, Error> {
    if params.method_id != STORED_KEY {
        return Err(invalid_param(match params.method_id.as_str() {
            TERMINAL => "run the command in a terminal; its end needs no `authenticate`".to_owned(),
            other => format!("there is no method {other:?}; see authMethods"),
        }));
    }
    let checked = state.configured.check_default_provider().await;
    checked.map(|()| json!({})).map_err(|error| agent_error(&error))
}

/// Removes the keys of all logins. A key in the environment or in the configuration is not ours to remove.
pub(super) async fn log_out(state: &AcpContext) -> Result<Value, Error> {
    let configured = state.configured.clone();
    let removed = run_blocking(move || configured.forget_logins()).await;
    let removed = removed.map_err(std::io::Error::other).and_then(|removed| removed);
    match removed {
        Ok(true) => Ok(json!({})),
        Ok(false) => Err(refusal(
            ErrorCode::InvalidRequest,
            "no key is stored; one in the environment or the configuration must be removed there",
        )),
        Err(error) => Err(refusal(
            ErrorCode::InternalError,
            format!("the stored keys could not be removed: {error}"),
        )),
    }
}
