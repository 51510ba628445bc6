//! `/mcp`: the MCP servers of the session's folder with their states, and actions on one of them.
//!
//! The server owns the states. After an action the chat waits for its end and shows the server as it is then.

use std::path::Path;
use std::time::Duration;

use super::Chat;
use crate::base::clock;
use crate::base::text;
use crate::cli::client::{ClientError, ServerMessage};
use crate::cli::signals::SignalAction;
use crate::cli::slash::McpCommand;
use crate::cli::style::{Color, format_path};
use crate::protocol::table::method;
use crate::protocol::{
    CancelMcpLoginParams, EmptyResult, ListMcpServersParams, ListMcpServersResult, LoginMcpServerParams,
    LoginMcpServerResult, LogoutMcpServerParams, LogoutMcpServerResult, McpServerInfo, McpServerState,
    RestartMcpServerParams, ServerNotification,
};

/// How many lines of a failed server's standard error are shown.
const SHOWN_STDERR: usize = 5;
/// How long a restart is waited for.
const RESTART: Duration = Duration::from_secs(15);
/// How long a login is waited for: longer than the server does.
const LOGIN: Duration = Duration::from_secs(11 * 60);

impl Chat {
    pub(super) async fn handle_mcp_command(&mut self, command: McpCommand) -> Result<(), ClientError> {
        let handled = match command {
            McpCommand::List => self.show_mcp_servers().await,
            McpCommand::Restart(name) => self.restart_mcp_server(name).await,
            McpCommand::Login(name) => self.log_in(name).await,
            McpCommand::Logout(name) => self.log_out(name).await,
        };
        handled.map_err(|mut error| {
            // The user does not know the fields of requests.
            if let ClientError::Refused(refusal) = &mut error
                && let Some(problem) = refusal.message.strip_prefix("name: ")
            {
                refusal.message = problem.to_owned();
            }
            error
        })
    }

    async fn show_mcp_servers(&mut self) -> Result<(), ClientError> {
        let servers = self.list_mcp_servers().await?;
        for server in &servers {
            self.show_mcp_server(server);
        }
        let has = |state| servers.iter().any(|server| server.state == state);
        if servers.is_empty() {
            self.show_hint(
                "no MCP server is configured; `agentls mcp add` adds one, and `agentls config check` finds problems in the file",
            );
        }
        if has(McpServerState::Failed) {
            self.show_hint("/mcp restart NAME starts one again");
        }
        if has(McpServerState::NeedsLogin) {
            self.show_hint("/mcp login NAME shows the address at which you log in");
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
            format!("from {path}")
        });
        let screen = &mut self.view.screen;
        let mark = styler.paint_text(color, mark);
        screen.write_entry(&format!("  {mark} "), 4, &format!("{name} · {state}"));
        let place = [server.target.clone()].into_iter().chain(source);
        let place: Vec<String> = place.filter(|part| !part.is_empty()).collect();
        screen.write_entry("      ", 6, &styler.dim_text(&place.join(" · ")));
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
            self.follow_mcp_server(&name, RESTART, |_| true).await?;
        }
        self.show_mcp_server_named(&name).await
    }

    /// Shows the address of a login, and waits until the user has logged in there. A signal ends the login.
    async fn log_in(&mut self, name: String) -> Result<(), ClientError> {
        let session_id = Some(self.session.clone());
        let params = LoginMcpServerParams {
            name: name.clone(),
            session_id: session_id.clone(),
        };
        let begun: LoginMcpServerResult = self.request(method::LOGIN_MCP_SERVER, &params).await?;
        self.show_note(
            Color::Bold,
            &format!("Open this address in your browser to log in to {name}:"),
        );
        // On a line of its own, so that it can be copied.
        let address = text::reveal_hidden_characters(&begun.url).into_owned();
        self.view.screen.write_line(&address);
        self.view
            .screen
            .set_status("waiting for the login; Ctrl-C ends it …");
        // Right after the redirect, the server has not started yet.
        let is_over =
            |server: &McpServerInfo| server.state != McpServerState::NeedsLogin || server.reason.is_some();
        let followed = self.follow_mcp_server(&name, LOGIN, is_over).await;
        if let Err(ClientError::Interrupted(action)) = followed {
            let params = CancelMcpLoginParams {
                name: name.clone(),
                session_id,
            };
            let _: EmptyResult = self.request(method::CANCEL_MCP_LOGIN, &params).await?;
            if action == SignalAction::Leave {
                return Err(ClientError::Interrupted(action));
            }
        } else {
            followed?;
        }
        self.show_mcp_server_named(&name).await
    }

    async fn log_out(&mut self, name: String) -> Result<(), ClientError> {
        let params = LogoutMcpServerParams {
            name: name.clone(),
            session_id: Some(self.session.clone()),
        };
        let ended: LogoutMcpServerResult = self.request(method::LOGOUT_MCP_SERVER, &params).await?;
        if ended.was_logged_in {
            self.show_success(&format!("logged out of {name}"));
        } else {
            self.show_hint(format!("there was no login at {name}"));
        }
        if let Some(problem) = ended.revocation_problem {
            let text = format!("! the authorization server did not revoke the tokens: {problem}");
            self.view.show_warning(text);
        }
        Ok(())
    }

    async fn show_mcp_server_named(&mut self, name: &str) -> Result<(), ClientError> {
        for server in self.list_mcp_servers().await? {
            if server.name == name {
                self.show_mcp_server(&server);
            }
        }
        Ok(())
    }

    /// Waits until a server has been starting or has waited for a login, and no longer does. `is_over` may refuse what
    /// it is then.
    async fn follow_mcp_server(
        &mut self,
        name: &str,
        limit: Duration,
        is_over: impl Fn(&McpServerInfo) -> bool,
    ) -> Result<(), ClientError> {
        let followed = self.receive_mcp_updates(name, limit, is_over).await;
        self.view.screen.set_status("");
        followed
    }

    async fn receive_mcp_updates(
        &mut self,
        name: &str,
        limit: Duration,
        is_over: impl Fn(&McpServerInfo) -> bool,
    ) -> Result<(), ClientError> {
        let mut limit = std::pin::pin!(clock::sleep(limit));
        // What came before belongs to the time before the action.
        let mut was_busy = false;
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
            let server = &updated.server;
            if server.name != name {
                continue;
            }
            let is_busy = server.state == McpServerState::Starting || server.login_url.is_some();
            if !is_busy && was_busy && is_over(server) {
                return Ok(());
            }
            was_busy |= is_busy;
        }
    }
}

/// Returns the color, the mark, and the words for what a server is doing.
fn describe_state(server: &McpServerInfo) -> (Color, &'static str, String) {
    let reason = server.reason.as_deref();
    if server.login_url.is_some() {
        return (Color::Yellow, "?", "waits for your login in a browser".to_owned());
    }
    match server.state {
        McpServerState::Disabled => (Color::Dim, "–", "disabled in the configuration".to_owned()),
        McpServerState::Untrusted => (
            Color::Yellow,
            "⊘",
            "off, because the folder is not trusted".to_owned(),
        ),
        McpServerState::Invalid => {
            let reason = reason.unwrap_or_default();
            (
                Color::Yellow,
                "!",
                format!("its settings cannot be used: {reason}"),
            )
        }
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
