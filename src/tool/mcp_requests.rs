//! Answers what an MCP server requests during a call.

use tokio::sync::mpsc;

use super::ToolContext;
use super::command_network::answer_host_request;
use super::mcp_elicitation::answer_elicitation;
use super::mcp_sampling::answer_sampling;
use crate::mcp::ServerRequest;

/// Answers the requests of the server until the call ends, and returns what it asked the model. `call` is the name of
/// the tool for rules.
pub(super) async fn answer_requests(
    cx: &ToolContext,
    call: &str,
    mut requests: mpsc::Receiver<ServerRequest>,
) -> String {
    let call = call.trim_start_matches("mcp:");
    let mut sampled = String::new();
    while let Some(request) = requests.recv().await {
        match request {
            ServerRequest::Elicit(request) => answer_elicitation(cx, call, request).await,
            ServerRequest::Connect(request) => answer_host_request(cx, call, request).await,
            ServerRequest::Sample(request) => sampled.push_str(&answer_sampling(cx, call, request).await),
        }
    }
    sampled
}
