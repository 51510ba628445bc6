//! A connection through the official SDK, `rmcp`. With the transports, the only place that knows it.

#![expect(
    deprecated,
    reason = "a draft of MCP gives roots up, but the servers of today ask for them"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    ContentBlock, ErrorData, Implementation, ListRootsResult, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, ResourceContents, Root, RootsCapabilities, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RequestContext, RequestHandle,
    RunningService, ServiceError, ServiceExt,
};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::Mutex;

use super::connection::{
    McpCall, McpCallResult, McpClient, McpConnection, McpContent, McpError, McpPeer, McpTool,
};
use super::schema::adapt_schema;
use super::transport_guard::{GuardedTransport, ProgressReceiver, ProgressReceivers};
use crate::base::CancellationToken;
use crate::base::text::{one_line, prefix_within, reveal_hidden_characters};

/// How long a cancel of a call may take to reach the server (R-MCP).
const CANCEL: Duration = Duration::from_millis(500);
/// How long the end of a connection may take.
const CLOSE: Duration = Duration::from_millis(500);
/// The most pages of a list that are read.
const MAX_PAGES: usize = 50;
/// The most tools of a server.
const MAX_TOOLS: usize = 1_000;
/// The longest description of a tool, in bytes.
const MAX_DESCRIPTION: usize = 4_096;

/// A connection to a server that has introduced itself.
pub(super) struct RmcpConnection {
    peer: Peer<RoleClient>,
    info: McpPeer,
    progress: Arc<ProgressReceivers>,
    closed: CancellationToken,
    /// Dropping it ends the connection.
    service: Mutex<Option<RunningService<RoleClient, ClientSide>>>,
}

impl RmcpConnection {
    /// Introduces us to the server.
    ///
    /// # Errors
    /// The server does not answer as the protocol demands, or ends.
    pub(super) async fn open<T: Transport<RoleClient> + 'static>(
        transport: T,
        client: Arc<dyn McpClient>,
    ) -> Result<Self, McpError> {
        let (progress, closed) = (Arc::<ProgressReceivers>::default(), CancellationToken::new());
        let transport = GuardedTransport::new(transport, progress.clone(), closed.clone());
        let service = ClientSide { client }
            .serve(transport)
            .await
            .map_err(|error| to_start_error(&error))?;
        let peer = service.peer().clone();
        Ok(Self {
            info: to_peer(&peer),
            peer,
            progress,
            closed,
            service: Mutex::new(Some(service)),
        })
    }

    async fn request(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        self.peer
            .send_request(request)
            .await
            .map_err(|error| to_error(&error))
    }

    async fn list_all_tools(&self) -> Result<Vec<McpTool>, McpError> {
        let (mut tools, mut cursor, mut seen) = (Vec::new(), None, BTreeSet::new());
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest::with_param(params);
            let next = match self.request(ClientRequest::ListToolsRequest(request)).await? {
                ServerResult::ListToolsResult(page) => {
                    tools.extend(page.tools.iter().filter_map(to_tool));
                    page.next_cursor
                }
                // One bad entry must not hide the others.
                ServerResult::CustomResult(page) => {
                    let entries = page.0.get("tools").and_then(Value::as_array);
                    let entries =
                        entries.ok_or_else(|| McpError::Malformed("no list of tools".to_owned()))?;
                    tools.extend(entries.iter().filter_map(read_tool));
                    page.0
                        .get("nextCursor")
                        .and_then(Value::as_str)
                        .map(str::to_owned)
                }
                ServerResult::EmptyResult(_) => None,
                _ => return Err(McpError::Malformed("no list of tools".to_owned())),
            };
            match next {
                // A cursor that comes again would never end.
                Some(next) if tools.len() < MAX_TOOLS && seen.insert(next.clone()) => cursor = Some(next),
                _ => break,
            }
        }
        tools.truncate(MAX_TOOLS);
        Ok(tools)
    }

    async fn run_call(&self, call: McpCall) -> Result<McpCallResult, McpError> {
        let params = CallToolRequestParams::new(call.tool).with_arguments(call.arguments);
        let mut request = CallToolRequest::new(params);
        request
            .extensions
            .insert(ProgressReceiver(call.progress.downgrade()));
        let send = self.peer.send_cancellable_request(
            ClientRequest::CallToolRequest(request),
            PeerRequestOptions::no_options(),
        );
        let mut handle = tokio::select! { biased;
            () = call.cancel.cancelled() => return Err(McpError::Cancelled),
            handle = send => handle.map_err(|error| to_error(&error))?,
        };
        let token = handle.progress_token.clone();
        let ended = tokio::select! { biased;
            () = call.cancel.cancelled() => Err(McpError::Cancelled),
            answer = &mut handle.rx => Ok(answer),
            () = self.closed.cancelled() => Err(McpError::Closed),
            () = tokio::time::sleep(call.limit) => Err(McpError::TimedOut(call.limit)),
        };
        self.progress.remove(&token);
        match ended {
            Ok(Ok(Ok(ServerResult::CallToolResult(result)))) => Ok(to_call_result(result)),
            Ok(Ok(Ok(ServerResult::EmptyResult(_)))) => Ok(McpCallResult::default()),
            Ok(Ok(Ok(_))) => Err(McpError::Malformed("not a result of a call".to_owned())),
            Ok(Ok(Err(error))) => Err(to_error(&error)),
            Ok(Err(_)) => Err(McpError::Closed),
            Err(McpError::Closed) => Err(McpError::Closed),
            Err(error) => {
                abandon(handle, &error).await;
                Err(error)
            }
        }
    }
}

/// Tells the server that nobody waits for the answer any more.
async fn abandon(handle: RequestHandle<RoleClient>, reason: &McpError) {
    let told = tokio::time::timeout(CANCEL, handle.cancel(Some(reason.to_string()))).await;
    if !matches!(told, Ok(Ok(()))) {
        tracing::debug!("an MCP server could not be told of a cancel");
    }
}

impl McpConnection for RmcpConnection {
    fn peer(&self) -> &McpPeer {
        &self.info
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<McpTool>, McpError>> {
        self.list_all_tools().boxed()
    }

    fn call_tool(&self, call: McpCall) -> BoxFuture<'_, Result<McpCallResult, McpError>> {
        self.run_call(call).boxed()
    }

    fn notify_roots_changed(&self) -> BoxFuture<'_, ()> {
        async {
            let told = tokio::time::timeout(CANCEL, self.peer.notify_roots_list_changed()).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!("an MCP server could not be told of other folders");
            }
        }
        .boxed()
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

/// Our side of the protocol, as the SDK calls it.
struct ClientSide {
    client: Arc<dyn McpClient>,
}

impl ClientHandler for ClientSide {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        capabilities.roots = Some(roots);
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

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.client.note_tools_changed();
    }
}

fn to_peer(peer: &Peer<RoleClient>) -> McpPeer {
    let Some(info) = peer.peer_info() else {
        return McpPeer::default();
    };
    let title = info.server_info.as_ref().map(|server| {
        let name = server.title.as_deref().unwrap_or(&server.name);
        one_line(
            &reveal_hidden_characters(&format!("{name} {}", server.version)),
            100,
        )
    });
    McpPeer {
        title,
        has_tools: info.capabilities.tools.is_some(),
        has_prompts: info.capabilities.prompts.is_some(),
        has_resources: info.capabilities.resources.is_some(),
    }
}

/// Converts a tool; `None` if it is not usable.
fn to_tool(tool: &Tool) -> Option<McpTool> {
    let schema = Value::Object(tool.input_schema.as_ref().clone());
    let annotations = tool.annotations.as_ref();
    build_tool(
        &tool.name,
        tool.description.as_deref(),
        &schema,
        annotations.and_then(|annotations| annotations.read_only_hint) == Some(true),
    )
}

/// Reads an entry of a list that does not have the form of the protocol.
fn read_tool(entry: &Value) -> Option<McpTool> {
    build_tool(
        entry.get("name")?.as_str()?,
        entry.get("description").and_then(Value::as_str),
        entry.get("inputSchema").unwrap_or(&Value::Null),
        entry.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true)),
    )
}

fn build_tool(
    name: &str,
    description: Option<&str>,
    schema: &Value,
    claims_read_only: bool,
) -> Option<McpTool> {
    let description = reveal_hidden_characters(description.unwrap_or_default());
    (!name.is_empty() && name.len() <= 1_024).then(|| McpTool {
        name: name.to_owned(),
        description: prefix_within(description.trim(), MAX_DESCRIPTION).to_owned(),
        schema: Arc::new(adapt_schema(schema)),
        claims_read_only,
    })
}

fn to_call_result(result: CallToolResult) -> McpCallResult {
    McpCallResult {
        content: result.content.into_iter().map(to_content).collect(),
        structured: result.structured_content,
        is_error: result.is_error == Some(true),
    }
}

fn to_content(block: ContentBlock) -> McpContent {
    match block {
        ContentBlock::Text(text) => McpContent::Text(text.text),
        ContentBlock::Image(image) => McpContent::Image {
            media_type: image.mime_type,
            data: image.data,
        },
        ContentBlock::Audio(audio) => McpContent::Other(format!("sound ({})", audio.mime_type)),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => McpContent::Document { uri, text },
            ResourceContents::BlobResourceContents {
                uri,
                mime_type: Some(media_type),
                blob,
                ..
            } if media_type.starts_with("image/") => {
                let _ = uri;
                McpContent::Image {
                    media_type,
                    data: blob,
                }
            }
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                McpContent::Other(format!("binary data of {uri}, {} bytes", blob.len() / 4 * 3))
            }
            _ => McpContent::Other("a resource of an unknown kind".to_owned()),
        },
        ContentBlock::ResourceLink(link) => McpContent::Link {
            uri: link.uri,
            name: link.name,
        },
        _ => McpContent::Other("content of an unknown kind".to_owned()),
    }
}

fn to_error(error: &ServiceError) -> McpError {
    if error.is_authorization_required() {
        return McpError::NeedsLogin;
    }
    match error {
        ServiceError::McpError(error) => McpError::Refused(to_message(&error.message)),
        ServiceError::TransportClosed => McpError::Closed,
        ServiceError::UnexpectedResponse => McpError::Malformed("another kind of result".to_owned()),
        ServiceError::Timeout { timeout } => McpError::TimedOut(*timeout),
        ServiceError::Cancelled { .. } => McpError::Cancelled,
        ServiceError::TransportSend(error) => {
            McpError::Failed(to_message(&crate::base::error_chain::innermost_message(error)))
        }
        other => McpError::Failed(to_message(&other.to_string())),
    }
}

fn to_start_error(error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::NeedsLogin;
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Closed,
        ClientInitializeError::JsonRpcError(error) => McpError::Refused(to_message(&error.message)),
        ClientInitializeError::TransportError { error, .. } => {
            McpError::Failed(to_message(&crate::base::error_chain::innermost_message(error)))
        }
        other => McpError::Malformed(to_message(&other.to_string())),
    }
}

/// Returns a message of a server, safe to show.
fn to_message(message: &str) -> String {
    one_line(&reveal_hidden_characters(message), 500)
}
