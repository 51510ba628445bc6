//! An MCP server by the official SDK on standard input and output: tools with progress, a question, a call of the model
//! and a change of the list; a resource, and a prompt.
#![expect(
    deprecated,
    reason = "a draft of MCP gives sampling up, but the servers of today ask for it"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, DiscoverResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Default)]
struct Peer {
    has_grown: AtomicBool,
}

/// Builds a value of the SDK from its JSON.
fn build<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a value of the protocol")
}

fn print(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("JSON")
}

fn to_error(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        let list = json!({"listChanged": true});
        build(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": list, "prompts": list, "resources": {}},
            "serverInfo": {"name": "rmcp-peer", "version": "1"},
        }))
    }

    // Its tools ask the client, which only servers of the earlier revisions do.
    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "Method not found",
            None,
        ))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let grown = self.has_grown.load(Ordering::Relaxed).then_some("grown");
        let names = ["count", "ask", "summarize", "grow"].into_iter().chain(grown);
        let tools: Vec<Value> = names
            .map(|name| json!({"name": name, "description": name, "inputSchema": {"type": "object"}}))
            .collect();
        Ok(build(json!({"tools": tools})))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let peer = &context.peer;
        let text = match &*request.name {
            "count" => {
                let token = context.meta.get_progress_token();
                let params = json!({"progressToken": token, "progress": 1, "total": 2, "message": "half"});
                peer.notify_progress(build(params)).await.map_err(to_error)?;
                "counted".to_owned()
            }
            "ask" => {
                let params = json!({"mode": "form", "message": "Who are you?", "requestedSchema": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                    "required": ["name"],
                }});
                print(peer.create_elicitation(build(params)).await.map_err(to_error)?)
            }
            "summarize" => {
                let params = json!({"maxTokens": 100, "messages": [
                    {"role": "user", "content": {"type": "text", "text": "Sum this up."}},
                ]});
                print(peer.create_message(build(params)).await.map_err(to_error)?)
            }
            "grow" => {
                self.has_grown.store(true, Ordering::Relaxed);
                peer.notify_tool_list_changed().await.map_err(to_error)?;
                "has grown".to_owned()
            }
            "grown" => "is there".to_owned(),
            _ => return Err(ErrorData::invalid_params("no such tool", None)),
        };
        let result: CallToolResult = build(json!({"content": [{"type": "text", "text": text}]}));
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(build(
            json!({"resources": [{"uri": "note://one", "name": "one"}]}),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = json!([{"uri": request.uri, "text": "The text of the note."}]);
        let result: ReadResourceResult = build(json!({"contents": contents}));
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let arguments = json!([{"name": "file", "required": true}]);
        Ok(build(
            json!({"prompts": [{"name": "review", "arguments": arguments}]}),
        ))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let text = format!("Review with {}.", print(request.arguments));
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        let result: GetPromptResult = build(json!({"messages": [message]}));
        Ok(result.into())
    }
}

#[tokio::main]
async fn main() {
    let service = Peer::default()
        .serve(rmcp::transport::stdio())
        .await
        .expect("a client");
    service.waiting().await.expect("an end");
}
