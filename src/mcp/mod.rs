//! The connections to MCP servers: starting them, watching them, and calling their tools (R-MCP).
//!
//! [`McpManager`] owns all servers; a session holds an [`McpFolder`], and its servers run as long as one holds it.
//! The protocol itself is the job of the SDK behind [`McpConnection`], which only `rmcp_connection` and the transports
//! know. Must not know sessions, turns, approvals, or how a model sees a tool; that is `tool::mcp_tool`'s.
//!
//! Invariants: every task ends with its server. A server cannot make us keep more than a bounded amount of what it
//! sends. Nothing that a server says starts anything.

mod answer_stream;
mod authorize;
mod client_side;
mod connection;
mod content;
mod convert;
mod elicitation;
mod env_file;
mod environment;
mod folder;
mod form;
mod form_values;
mod http;
mod input_required;
mod list_subscription;
mod login;
mod login_registry;
mod manager;
mod names;
mod opening;
mod program_folder;
mod prompt_arguments;
mod registration;
mod request_router;
#[cfg(test)]
mod restart_tests;
mod rmcp_connection;
mod sampling;
mod schema;
mod server;
mod server_request;
mod server_state;
mod stderr;
mod stdio;
mod supervisor;
mod transport_guard;

pub use crate::base::web_address::hide_secrets;
pub use connection::{
    McpCall, McpCallResult, McpClient, McpConnection, McpConnector, McpError, McpPeer, McpPrompt,
    McpPromptArgument, McpPromptMessage, McpResource, McpRoot, McpTool, McpWait, PromptReply,
};
pub use content::McpContent;
pub use elicitation::{Elicitation, ElicitationAnswer, ElicitationRequest, Requested};
pub use folder::{McpFolder, ReportedFailures, ServedPrompt, ServedTool, ServerLink};
pub use form::{FieldKind, FieldOption, Form, FormField};
pub use login::{McpLoginError, McpLogout};
pub use manager::McpManager;
pub use names::server_of_tool;
pub use prompt_arguments::{describe_arguments, match_arguments};
pub use registration::McpRegistration;
pub use sampling::{Sampling, SamplingAnswer, SamplingMessage, SamplingRequest, SamplingStop};
pub use server_request::{HostRequest, ServerRequest};
