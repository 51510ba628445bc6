//! Our side of the protocol: what a server may ask us, as the SDK passes it on.
//!
//! It announces only what works here: that a server may ask the model (sampling) only if its settings allow that.

#![expect(
    deprecated,
    reason = "a draft of MCP gives roots and sampling up, but the servers of today ask for them"
)]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
    CustomResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult, ProtocolVersion, Root,
    RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;

use super::connection::McpClient;
use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationRequest};
use super::request_router::{Recipient, RequestFailure, RequestRouter};
use super::sampling::{Sampling, SamplingRequest};
use super::server_request::ServerRequest;

/// The method of elicitation.
const ELICITATION: &str = "elicitation/create";

/// Our side of the protocol.
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
        context: RequestContext<RoleClient>,
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
        // Dropping the question withdraws it.
        let answer = tokio::select! { biased;
            () = context.ct.cancelled() => Ok(ElicitationAnswer::Cancel),
            answer = self.requests.forward(Recipient::NewestCall, build) => answer,
        };
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
        let roots = self.client.list_roots().into_iter();
        let roots = roots.map(|root| {
            let mut listed = Root::new(root.uri);
            listed.name = Some(root.name);
            listed
        });
        Ok(ListRootsResult::new(roots.collect()))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
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
        // Dropping the request ends the call of the model.
        let answer = tokio::select! { biased;
            () = context.ct.cancelled() => Err(RequestFailure::CallEnded),
            answer = self.requests.forward(Recipient::OnlySession, build) => answer,
        };
        match answer {
            Ok(Ok(answer)) => Ok(answer.into_result()),
            Ok(Err(reason)) => Err(ErrorData::internal_error(reason, None)),
            Err(RequestFailure::Refused(reason)) => Err(ErrorData::invalid_request(reason, None)),
            Err(RequestFailure::Unheard | RequestFailure::CallEnded) => {
                Err(ErrorData::internal_error("the call has ended", None))
            }
        }
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let order = match &params {
            ElicitRequestParams::FormElicitationParams { requested_schema, .. } => {
                requested_schema.property_order.clone()
            }
            _ => None,
        };
        let params = serde_json::to_value(params)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        self.elicit(params, order.as_deref(), context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        // A form that the SDK cannot read, so the order of its fields is unknown.
        if request.method == ELICITATION {
            let params = request.params.unwrap_or_default();
            let result = self.elicit(params, None, context).await?;
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
