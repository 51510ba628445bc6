//! What a server needs from us before it can answer a request: since revision 2026-07-28 of MCP, it says so in a first
//! answer, and the request is sent again with what it needs. Plain values; `client_side` collects them.

use std::time::Duration;

use rmcp::model::{
    CustomResult, ElicitRequestParams, InputRequest as RmcpRequest, InputRequiredResult, InputResponses,
    ServerResult,
};
use serde_json::Value;

use super::connection::McpError;
use crate::base::backoff::{Backoff, JITTER};

/// How often a server may ask for more before it answers.
pub(super) const MAX_ROUNDS: usize = 10;
/// Pauses before a request is sent again whose server needs nothing but time. The time limit of the request ends that.
pub(super) const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(250),
    factor: 1.5,
    max: Duration::from_secs(5),
    jitter: JITTER,
};

/// What a server needs.
pub(super) struct InputRequired {
    pub(super) requests: Vec<InputRequest>,
    /// What the server gets back as it is.
    pub(super) state: Option<String>,
}

/// One thing that a server needs.
pub(super) struct InputRequest {
    /// The server's name for it.
    pub(super) key: String,
    pub(super) method: String,
    pub(super) params: Value,
    /// The names of a form's fields, if their order is known.
    pub(super) order: Option<Vec<String>>,
}

/// What a request contains when it is sent again.
#[derive(Default)]
pub(super) struct CollectedInputs {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

impl InputRequired {
    /// Reads what a server needs; `None` if `result` is its final answer.
    ///
    /// # Errors
    /// It needs something that cannot be read, or does not say what it needs.
    pub(super) fn read(result: &ServerResult) -> Result<Option<Self>, McpError> {
        let malformed = || McpError::Malformed("it does not say what it needs".to_owned());
        let required = match result {
            ServerResult::InputRequiredResult(required) => Self::from_known(required),
            // The SDK could not read one of the requests, such as a form with a field of an unknown kind.
            ServerResult::CustomResult(CustomResult(result)) if result["resultType"] == "input_required" => {
                Self::from_json(result).ok_or_else(malformed)?
            }
            _ => return Ok(None),
        };
        if required.requests.is_empty() && required.state.is_none() {
            return Err(malformed());
        }
        Ok(Some(required))
    }

    fn from_known(required: &InputRequiredResult) -> Self {
        let requests = required.input_requests.iter().flatten();
        let requests = requests.filter_map(|(key, request)| {
            let order = match request {
                RmcpRequest::Elicitation(request) => find_field_order(&request.params),
                _ => None,
            };
            let request = serde_json::to_value(request).ok()?;
            Some(InputRequest {
                order,
                ..InputRequest::from_json(key, &request)?
            })
        });
        Self {
            requests: requests.collect(),
            state: required.request_state.clone(),
        }
    }

    fn from_json(result: &Value) -> Option<Self> {
        let requests = match result.get("inputRequests") {
            Some(requests) => Some(requests.as_object()?),
            None => None,
        };
        let requests = requests.into_iter().flatten();
        let requests = requests.map(|(key, request)| InputRequest::from_json(key, request));
        Some(Self {
            requests: requests.collect::<Option<_>>()?,
            state: result
                .get("requestState")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }
}

impl InputRequest {
    fn from_json(key: &str, request: &Value) -> Option<Self> {
        Some(Self {
            key: key.to_owned(),
            method: request.get("method")?.as_str()?.to_owned(),
            params: request.get("params").cloned().unwrap_or_default(),
            order: None,
        })
    }
}

/// Returns the names of a form's fields in the order of the server.
pub(super) fn find_field_order(params: &ElicitRequestParams) -> Option<Vec<String>> {
    match params {
        ElicitRequestParams::FormElicitationParams { requested_schema, .. } => {
            requested_schema.property_order.clone()
        }
        _ => None,
    }
}
