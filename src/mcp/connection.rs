//! A connection to one MCP server as the rest of the program sees it: the trait, and the values that pass through it.
//!
//! Plain values and traits; knows no SDK. `rmcp_connection` implements them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use url::Url;

use super::content::McpContent;
use super::server_request::ServerRequest;
use crate::base::CancellationToken;
use crate::config::McpServerSettings;
use crate::domain::{ArgumentSchema, SessionId};

/// The most tools of a server that are used, and the most prompts.
pub(super) const MAX_TOOLS: usize = 1_000;

/// A connection to a server that has introduced itself.
pub trait McpConnection: Send + Sync {
    /// Returns what the server says about itself.
    fn peer(&self) -> &McpPeer;

    /// Lists the tools. Entries that are not usable are left out.
    ///
    /// # Errors
    /// The server refuses, or its answer is not a list.
    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<McpTool>, McpError>>;

    /// Calls a tool. After a cancel it tells the server, which takes at most 500 ms.
    ///
    /// # Errors
    /// The call failed; see [`McpError`].
    fn call_tool(&self, call: McpCall) -> BoxFuture<'_, Result<McpCallResult, McpError>>;

    /// Lists the prompts. Entries that are not usable are left out.
    ///
    /// # Errors
    /// The server refuses, or its answer is not a list.
    fn list_prompts(&self) -> BoxFuture<'_, Result<Vec<McpPrompt>, McpError>>;

    /// Returns the messages of a prompt, in order. After a cancel it tells the server, as for a call.
    ///
    /// # Errors
    /// The server refuses, or its answer is not a prompt.
    fn get_prompt(&self, name: &str, arguments: Map<String, Value>, wait: McpWait) -> PromptReply<'_>;

    /// Lists the resources that the server names. Entries that are not usable are left out.
    ///
    /// # Errors
    /// The server refuses, or its answer is not a list.
    fn list_resources(&self) -> BoxFuture<'_, Result<Vec<McpResource>, McpError>>;

    /// Reads a resource. After a cancel it tells the server, as for a call.
    ///
    /// # Errors
    /// The server refuses, or its answer is not a resource.
    fn read_resource(&self, uri: &str, wait: McpWait) -> BoxFuture<'_, Result<Vec<McpContent>, McpError>>;

    /// Tells the server that the workspace folders have changed.
    fn notify_roots_changed(&self) -> BoxFuture<'_, ()>;

    /// Returns whether the lists are older than the server allows, and it does not announce changes.
    fn are_lists_stale(&self) -> bool {
        false
    }

    /// Sees to it that the server announces changes of its lists, as long as the future is polled.
    fn follow_lists(&self) -> BoxFuture<'_, ()> {
        pending().boxed()
    }

    /// Resolves when the connection has ended.
    fn wait_until_closed(&self) -> BoxFuture<'_, ()>;

    /// Ends the connection. The program behind it, if there is one, gets the end of its input.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The messages of a prompt, once the server has sent them.
pub type PromptReply<'a> = BoxFuture<'a, Result<Vec<McpPromptMessage>, McpError>>;

/// Connects to servers in another way than their settings say, as the simulator does.
pub trait McpConnector: Send + Sync {
    /// Connects to a server, which has introduced itself then.
    ///
    /// # Errors
    /// The server does not start; see [`McpError`].
    fn connect<'a>(
        &'a self,
        settings: &'a McpServerSettings,
        client: Arc<dyn McpClient>,
    ) -> BoxFuture<'a, Result<Arc<dyn McpConnection>, McpError>>;
}

/// What a server may ask or tell us.
pub trait McpClient: Send + Sync {
    /// Returns the workspace folders.
    fn list_roots(&self) -> Vec<McpRoot>;

    /// Returns whether the server may ask our model.
    fn allows_sampling(&self) -> bool;

    /// Takes note that the server has other tools or prompts now.
    fn note_lists_changed(&self);

    /// Hides secrets in what the server says.
    fn redact(&self, said: &mut Value);
}

/// What a server says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpPeer {
    /// Its name and version, for people.
    pub title: Option<String>,
    /// How its tools are to be used, for the model.
    pub instructions: Option<String>,
    pub has_tools: bool,
    pub has_prompts: bool,
    pub has_resources: bool,
}

/// A workspace folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpRoot {
    /// A file URI.
    pub uri: String,
    pub name: String,
}

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTool {
    pub name: String,
    /// The name for people; empty if the server gives none.
    pub title: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments, in a form that every provider accepts.
    pub schema: ArgumentSchema,
    /// The JSON Schema of its structured results, in the same form.
    pub output_schema: Option<Arc<Value>>,
    /// The server says that it changes nothing.
    pub claims_read_only: bool,
    /// What the server claims of the effects of calls, such as `destructiveHint`.
    pub annotations: BTreeMap<String, bool>,
    /// Differs if the title, the description, a schema, or the annotations that the server sent do.
    pub fingerprint: String,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpPrompt {
    pub name: String,
    /// What it does, for people.
    pub description: Option<String>,
    pub arguments: Vec<McpPromptArgument>,
}

/// An argument of a prompt. Its value is a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpPromptArgument {
    pub name: String,
    pub description: Option<String>,
    pub is_required: bool,
}

/// A message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpPromptMessage {
    /// The server wrote it as an answer of the model.
    pub is_from_assistant: bool,
    pub content: McpContent,
}

/// A resource that a server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
    pub media_type: Option<String>,
}

/// How long a request may take, and what ends it earlier.
#[derive(Clone, Debug)]
pub struct McpWait {
    pub limit: Duration,
    pub cancel: CancellationToken,
}

/// A call of a tool.
pub struct McpCall {
    /// In which the call is made.
    pub session: SessionId,
    /// The name that the server knows.
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub limit: Duration,
    pub cancel: CancellationToken,
    /// Receives what the server reports meanwhile. What arrives while it is full is dropped.
    pub progress: mpsc::Sender<String>,
    /// Receives what the server requests meanwhile. Time in which it waits for an answer does not count.
    pub requests: mpsc::Sender<ServerRequest>,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpCallResult {
    pub content: Vec<McpContent>,
    /// The same result as JSON, from servers that have it.
    pub structured: Option<Value>,
    /// The tool failed.
    pub is_error: bool,
}

/// The reason why a request to a server has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The server answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The same, because of what was requested.
    #[error("{0}")]
    WrongInput(String),
    /// The user must visit these addresses first, each for a reason in the server's words.
    #[error("{0}")]
    VisitFirst(String, Vec<(String, Url)>),
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("canceled")]
    Cancelled,
    #[error("the server has ended")]
    Closed,
    #[error("the server needs a login")]
    NeedsLogin,
    /// The login does not cover what the server demands.
    #[error("the server needs a login with the scope {0:?}")]
    NeedsScope(String),
    /// The answer does not have the form that the protocol demands.
    #[error("the answer of the server is malformed: {0}")]
    Malformed(String),
    /// The request did not reach the server.
    #[error("{0}")]
    Failed(String),
    /// The settings do not allow a start.
    #[error("{0}")]
    Unusable(String),
}

impl McpError {
    /// Returns whether the server refuses requests until the user has logged in.
    pub fn needs_login(&self) -> bool {
        matches!(self, Self::NeedsLogin | Self::NeedsScope(_))
    }
}
