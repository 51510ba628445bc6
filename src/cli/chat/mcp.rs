//! `/mcp`: the MCP servers of the session's folder with their states, and actions on one of them.
//!
//! The server owns the states. After an action the chat waits for its end and shows the server as it is then.

use std::path::Path;
use std::time::Duration;

use super::Chat;
use crate::base::text;
use crate::cli::client::{ClientError, ServerMessage};
use crate::cli::slash::McpCommand;
use crate::cli::style::{Color, format_path};
use crate::protocol::table::method;
use crate::protocol::{
    EmptyResult, ListMcpServersParams, ListMcpServersResult, McpServerInfo, McpServerState,
    RestartMcpServerParams, ServerNotification,
};

/// How many lines of a failed server's standard error are shown.
const SHOWN_STDERR: usize = 5;
/// How long a restart is waited for.
const RESTART: Duration = Duration::from_secs(15);

impl Chat {
    pub(super) async fn handle_mcp_command(&mut self, command: McpCommand) -> Result<(), ClientError> {
        match command {
            McpCommand::List => self.show_mcp_servers().await,
            McpCommand::Restart(name) => self.restart_mcp_server(name).await,
        }
    }

    async fn show_mcp_servers(&mut self) -> Result<(), ClientError> {
        let servers = self.list_mcp_servers().await?;
        for server in &servers {
            self.show_mcp_server(server);
        }
        let has = |state| servers.iter().any(|server| server.state == state);
        if servers.is_empty() {
            self.show_hint("no MCP server is configured; `agentls docs mcp` says how");
        }
        if has(McpServerState::Failed) {
            self.show_hint("/mcp restart NAME starts one again");
        }
        if has(McpServerState::Untrusted) {
            self.show_hint("/trust shows what this folder's settings would activate, and asks");
        }
        Ok(())
    }

    async fn list_mcp_servers(&mut self) -> Result<Vec<McpServerInfo>, ClientError> {
        let params = ListMcpServersParams {
            session_id: Some(self.session.clone()),
        };
        let listed: ListMcpServersResult = self.request(method::LIST_MCP_SERVERS, &params).await?;
        Ok(listed.servers)
    }

    fn show_mcp_server(&mut self, server: &McpServerInfo) {
        let (color, mark, state) = describe_state(server);
        let styler = self.view.screen.styler;
        let name = text::reveal_hidden_characters(&server.name);
        let source = server.source.as_deref().map(|source| {
            let path = format_path(Path::new(source), self.home.as_deref());
            format!(" · from {path}")
        });
        let screen = &mut self.view.screen;
        let mark = styler.paint_text(color, mark);
        screen.write_entry(&format!("  {mark} "), 4, &format!("{name} · {state}"));
        let place = format!("{}{}", server.target, source.unwrap_or_default());
        screen.write_entry("      ", 6, &styler.dim_text(&place));
        let hidden = server.stderr.len().saturating_sub(SHOWN_STDERR);
        if server.state == McpServerState::Failed {
            for line in &server.stderr[hidden..] {
                screen.write_entry("      ", 6, &styler.dim_text(line));
            }
        }
    }

    async fn restart_mcp_server(&mut self, name: String) -> Result<(), ClientError> {
        let params = RestartMcpServerParams {
            name: name.clone(),
            session_id: Some(self.session.clone()),
        };
        let _: EmptyResult = self.request(method::RESTART_MCP_SERVER, &params).await?;
        let is_running = |servers: &[McpServerInfo]| {
            let mut servers = servers.iter();
            servers.any(|server| server.name == name && server.state != McpServerState::Idle)
        };
        if is_running(&self.list_mcp_servers().await?) {
            self.view.screen.set_status(&format!("restarting {name} …"));
            let followed = self.follow_mcp_server(&name).await;
            self.view.screen.set_status("");
            followed?;
        }
        for server in self.list_mcp_servers().await? {
            if server.name == name {
                self.show_mcp_server(&server);
            }
        }
        Ok(())
    }

    /// Waits until a server that was restarted works or has failed, for a limited time.
    async fn follow_mcp_server(&mut self, name: &str) -> Result<(), ClientError> {
        let mut limit = std::pin::pin!(tokio::time::sleep(RESTART));
        let mut was_starting = false;
        loop {
            let message = tokio::select! { biased;
                message = self.client.next() => message?,
                action = self.signals.next() => return Err(ClientError::Interrupted(action)),
                () = &mut limit => return Ok(()),
            };
            let ServerMessage::Notification(notification) = message else {
                continue;
            };
            self.handle_notification(&notification);
            let ServerNotification::McpServerUpdated(updated) = *notification else {
                continue;
            };
            if updated.server.name == name {
                match updated.server.state {
                    McpServerState::Starting => was_starting = true,
                    _ if was_starting => return Ok(()),
                    // From before the restart.
                    _ => {}
                }
            }
        }
    }
}

/// Returns the color, the mark, and the words for what a server is doing.
fn describe_state(server: &McpServerInfo) -> (Color, &'static str, String) {
    let reason = server.reason.as_deref();
    match server.state {
        McpServerState::Disabled => (Color::Dim, "–", "disabled in the configuration".to_owned()),
        McpServerState::Untrusted => (
            Color::Yellow,
            "⊘",
            "off, because the folder is not trusted".to_owned(),
        ),
        McpServerState::Idle => (Color::Dim, "○", "starts with the next turn".to_owned()),
        McpServerState::Starting => (Color::Cyan, "▶", "starting".to_owned()),
        McpServerState::Ready => {
            let tools = match server.tool_count {
                1 => "1 tool".to_owned(),
                count => format!("{count} tools"),
            };
            let title = server.title.as_ref().map(|title| format!(" · {title}"));
            (
                Color::Green,
                "✓",
                format!("ready · {tools}{}", title.unwrap_or_default()),
            )
        }
        McpServerState::Failed => {
            let reason = reason.map(|reason| format!(": {reason}"));
            (Color::Red, "✗", format!("failed{}", reason.unwrap_or_default()))
        }
        McpServerState::NeedsLogin => {
            let reason = reason.map(|reason| format!(": {reason}"));
            (
                Color::Yellow,
                "?",
                format!("needs a login{}", reason.unwrap_or_default()),
            )
        }
    }
}
