//! Converts the state of MCP servers. What a server or its settings say is shown without secrets and invisible
//! characters.

use crate::base::text::{one_line, reveal_hidden_characters};
use crate::config::Redactor;
use crate::domain::{McpServerState, McpServerStatus};
use crate::mcp::hide_secrets;
use crate::protocol as wire;

/// The longest text of a field, in characters.
const MAX_TEXT: usize = 500;

/// Converts a server for a list.
pub fn mcp_server_info(server: &McpServerStatus, redactor: &Redactor) -> wire::McpServerInfo {
    let clean = |text: &str| one_line(&reveal_hidden_characters(&redactor.redact_text(text)), MAX_TEXT);
    let reason = match &server.state {
        McpServerState::Failed { reason } | McpServerState::Invalid { reason } => Some(clean(reason)),
        _ => server.login.problem.as_deref().map(clean),
    };
    wire::McpServerInfo {
        name: server.name.clone(),
        folder: server.folder.display().to_string(),
        state: mcp_state(&server.state),
        target: clean(&hide_secrets(&redactor.redact_text(&server.target))),
        source: server.source.as_deref().map(clean),
        title: server.title.as_deref().map(clean),
        reason,
        // It must stay whole. It is a URL, so nothing in it is invisible.
        login_url: server.login.url.clone(),
        logged_in: server.login.has_tokens,
        tool_count: server.tools.len() as u64,
        tools: server.tools.iter().map(|tool| clean(tool)).collect(),
        stderr: server.stderr.iter().map(|line| clean(line)).collect(),
    }
}

/// Converts a server for a notification, which is short while it works.
pub fn mcp_server_update(server: &McpServerStatus, redactor: &Redactor) -> wire::McpServerInfo {
    let has_failed = matches!(server.state, McpServerState::Failed { .. });
    let info = mcp_server_info(server, redactor);
    wire::McpServerInfo {
        tools: Vec::new(),
        logged_in: false,
        stderr: if has_failed { info.stderr } else { Vec::new() },
        ..info
    }
}

/// Converts the servers for a status bar.
pub fn mcp_server_health(servers: &[McpServerStatus]) -> Vec<wire::McpServerHealth> {
    servers
        .iter()
        .map(|server| wire::McpServerHealth {
            name: server.name.clone(),
            state: mcp_state(&server.state),
        })
        .collect()
}

fn mcp_state(state: &McpServerState) -> wire::McpServerState {
    match state {
        McpServerState::Disabled => wire::McpServerState::Disabled,
        McpServerState::Untrusted => wire::McpServerState::Untrusted,
        McpServerState::Invalid { .. } => wire::McpServerState::Invalid,
        McpServerState::Idle => wire::McpServerState::Idle,
        McpServerState::Starting => wire::McpServerState::Starting,
        McpServerState::Ready { .. } => wire::McpServerState::Ready,
        McpServerState::Failed { .. } => wire::McpServerState::Failed,
        McpServerState::NeedsLogin => wire::McpServerState::NeedsLogin,
    }
}
