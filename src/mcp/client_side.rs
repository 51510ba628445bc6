//! Our side of the protocol: what a server may ask us.
//!
//! Up to revision 2025-11-25 of MCP, a server asks by a request of its own, which the SDK passes on. Since then, its answer
//! names what it needs, and [`ClientSide::answer_inputs`] collects that. It announces only what works here: that a server
//! may ask the model (sampling) only if its settings allow that.

#![expect(
    deprecated,
    reason = "revision 2026-07-28 of MCP deprecates roots and sampling, but the servers of today ask for them"
)]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
    CustomResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
    ErrorData, FormElicitationCapability, Implementation, InputResponses, ListRootsResult, ProtocolVersion,
    Root, RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;
use serde_json::Value;

use super::connection::{McpClient, McpError};
use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationRequest};
use super::input_required::{InputRequest, find_field_order};
use super::request_router::{Recipient, RequestFailure, RequestRouter};
use super::sampling::{Sampling, SamplingRequest};
use super::server_request::ServerRequest;
use crate::base::text::{one_line, reveal_hidden_characters};

/// The methods by which a server asks.
const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";
const ROOTS: &str = "roots/list";

/// Our side of the protocol.
#[derive(Clone)]
pub(super) struct ClientSide {
    client: Arc<dyn McpClient>,
    requests: Arc<RequestRouter>,
}

impl ClientSide {
    pub(super) fn new(client: Arc<dyn McpClient>, requests: Arc<RequestRouter>) -> Self {
        Self { client, requests }
    }

    async fn elicit(
        &self,
        mut params: Value,
        order: Option<&[String]>,
        recipient: Recipient,
    ) -> Result<ElicitResult, ErrorData> {
        self.client.redact(&mut params);
        let elicitation =
            Elicitation::read(&params, order).map_err(|reason| ErrorData::invalid_params(reason, None))?;
        let build = |reply, is_of_this_session| {
            ServerRequest::Elicit(ElicitationRequest {
                elicitation,
                is_of_this_session,
                reply,
            })
        };
        let answer = self.requests.forward(recipient, build).await;
        let answer = answer.or_else(|failure| match failure {
            RequestFailure::Refused(reason) => Err(ErrorData::invalid_request(reason, None)),
            RequestFailure::Unheard => Ok(ElicitationAnswer::Decline),
            RequestFailure::CallEnded => Ok(ElicitationAnswer::Cancel),
        })?;
        Ok(match answer {
            ElicitationAnswer::Accept(None) => ElicitResult::new(ElicitationAction::Accept),
            ElicitationAnswer::Accept(Some(values)) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
            }
            ElicitationAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitationAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn elicit_until_cancelled(
        &self,
        params: Value,
        order: Option<&[String]>,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // Dropping the question withdraws it.
        tokio::select! { biased;
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            answer = self.elicit(params, order, Recipient::NewestCall) => answer,
        }
    }

    async fn sample(
        &self,
        params: CreateMessageRequestParams,
        recipient: Recipient,
    ) -> Result<CreateMessageResult, ErrorData> {
        if !self.client.allows_sampling() {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "the user does not let this server ask their model (sampling)",
                None,
            ));
        }
        let sampling = Sampling::read(params).map_err(|reason| ErrorData::invalid_params(reason, None))?;
        let build = |reply, _| ServerRequest::Sample(SamplingRequest { sampling, reply });
        match self.requests.forward(recipient, build).await {
            Ok(Ok(answer)) => Ok(answer.into_result()),
            Ok(Err(reason)) => Err(ErrorData::internal_error(reason, None)),
            Err(RequestFailure::Refused(reason)) => Err(ErrorData::invalid_request(reason, None)),
            Err(RequestFailure::Unheard | RequestFailure::CallEnded) => {
                Err(ErrorData::internal_error("the call has ended", None))
            }
        }
    }

    fn collect_roots(&self) -> ListRootsResult {
        let roots = self.client.list_roots().into_iter();
        let roots = roots.map(|root| {
            let mut listed = Root::new(root.uri);
            listed.name = Some(root.name);
            listed
        });
        ListRootsResult::new(roots.collect())
    }

    /// Collects what a server needs before it can answer a request, one thing after the other. `call` is the call of a
    /// tool that the request is; the user and the model are asked only then.
    ///
    /// # Errors
    /// Something is not possible, so the server cannot answer.
    pub(super) async fn answer_inputs(
        &self,
        requests: Vec<InputRequest>,
        call: Option<u64>,
    ) -> Result<InputResponses, McpError> {
        let mut answers = InputResponses::new();
        for InputRequest {
            key,
            method,
            params,
            order,
        } in requests
        {
            let recipient = Recipient::Call(call);
            let answer = match method.as_str() {
                ELICITATION => to_json(self.elicit(params, order.as_deref(), recipient).await),
                SAMPLING => match serde_json::from_value(params) {
                    Ok(params) => to_json(self.sample(params, recipient).await),
                    Err(error) => Err(error.to_string()),
                },
                ROOTS => to_json(Ok(self.collect_roots())),
                _ => Err("agentls does not know this method".to_owned()),
            };
            let answer = answer.map_err(|reason| {
                let method = one_line(&reveal_hidden_characters(&method), 100);
                McpError::Refused(format!("it needs an answer to {method}: {reason}"))
            })?;
            answers.insert(key, answer);
        }
        Ok(answers)
    }
}

/// Converts an answer for a server; an error is the reason why there is none.
fn to_json<T: Serialize>(answer: Result<T, ErrorData>) -> Result<Value, String> {
    let answer = answer.map_err(|error| error.message.into_owned())?;
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

impl ClientHandler for ClientSide {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        capabilities.roots = Some(roots);
        capabilities.sampling = self.client.allows_sampling().then(SamplingCapability::default);
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(
            capabilities,
            Implementation::new("agentls", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.collect_roots())
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        // Dropping the request ends the call of the model.
        tokio::select! { biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was canceled", None)),
            answer = self.sample(params, Recipient::OnlySession) => answer,
        }
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let order = find_field_order(&params);
        let params = serde_json::to_value(params)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        self.elicit_until_cancelled(params, order.as_deref(), context)
            .await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        // A form that the SDK cannot read, so the order of its fields is unknown.
        if request.method == ELICITATION {
            let params = request.params.unwrap_or_default();
            let result = self.elicit_until_cancelled(params, None, context).await?;
            let result = serde_json::to_value(result)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            return Ok(CustomResult::new(result));
        }
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "agentls does not know this method",
            None,
        ))
    }
}
