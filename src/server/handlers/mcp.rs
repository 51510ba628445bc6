//! MCP servers: listing and restarting them, and reporting their state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tower_lsp::jsonrpc::Result;

use super::super::error::RequestError;
use super::super::service::Service;
use super::super::state::session_param;
use super::super::to_wire;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::config::Redactor;
use crate::domain::{self, AgentError, McpServerStatus};
use crate::mcp::{McpLoginError, McpManager};
use crate::protocol::*;
use crate::session::SessionCommand;
use crate::transport::outbox::{Outbox, Outgoing};

/// The longest error of a login, in characters.
const MAX_TEXT: usize = 500;

impl Service {
    pub(in crate::server) async fn list_mcp_servers(&self, params: Value) -> Result<ListMcpServersResult> {
        let params: ListMcpServersParams = self.parse_params(params)?;
        let folder = self.mcp_folder(params.session_id).await?;
        let configured = self.state.configured.folder_config(&folder);
        let servers = self.state.configured.mcp().list_servers(&folder, &configured.mcp);
        Ok(ListMcpServersResult {
            servers: servers
                .iter()
                .map(|server| to_wire::mcp_server_info(server, self.state.sessions.redactor()))
                .collect(),
        })
    }

    pub(in crate::server) async fn restart_mcp_server(&self, params: Value) -> Result<EmptyResult> {
        let params: RestartMcpServerParams = self.parse_params(params)?;
        let folder = self.mcp_folder(params.session_id).await?;
        let configured = self.state.configured.folder_config(&folder);
        if let Err(reason) = configured.mcp.find_usable(&params.name) {
            return Err(RequestError::invalid_param("name", self.clean_text(&reason)).into());
        }
        // One that no session holds starts with the next turn.
        self.state.configured.mcp().restart_server(&folder, &params.name);
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn login_mcp_server(&self, params: Value) -> Result<LoginMcpServerResult> {
        let params: LoginMcpServerParams = self.parse_params(params)?;
        let folder = self.mcp_folder(params.session_id).await?;
        let configured = self.state.configured.folder_config(&folder);
        let manager = self.state.configured.mcp();
        let begun = manager.begin_login(&folder, &configured.mcp, &params.name).await;
        let url = begun.map_err(|error| self.refuse_login(&error))?;
        Ok(LoginMcpServerResult { url: url.into() })
    }

    pub(in crate::server) async fn cancel_mcp_login(&self, params: Value) -> Result<EmptyResult> {
        let params: CancelMcpLoginParams = self.parse_params(params)?;
        let folder = self.mcp_folder(params.session_id).await?;
        let configured = self.state.configured.folder_config(&folder);
        let manager = self.state.configured.mcp();
        manager
            .cancel_login(&configured.mcp, &params.name)
            .map_err(|error| self.refuse_login(&error))?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn logout_mcp_server(&self, params: Value) -> Result<LogoutMcpServerResult> {
        let params: LogoutMcpServerParams = self.parse_params(params)?;
        let folder = self.mcp_folder(params.session_id).await?;
        let configured = self.state.configured.folder_config(&folder);
        let manager = self.state.configured.mcp();
        let ended = manager.log_out(&folder, &configured.mcp, &params.name).await;
        let logout = ended.map_err(|error| self.refuse_login(&error))?;
        let problem = logout.revocation_problem;
        Ok(LogoutMcpServerResult {
            was_logged_in: logout.had_tokens,
            revocation_problem: problem.map(|problem| self.clean_text(&problem)),
        })
    }

    /// Returns a text that may quote what a server says, in one line and without secrets.
    fn clean_text(&self, text: &str) -> String {
        let text = self.state.sessions.redactor().redact_text(text);
        one_line(&reveal_hidden_characters(&text), MAX_TEXT)
    }

    fn refuse_login(&self, error: &McpLoginError) -> RequestError {
        let message = self.clean_text(&error.to_string());
        match error {
            McpLoginError::Unusable(_) | McpLoginError::NotPossible { .. } => {
                RequestError::invalid_param("name", message)
            }
            McpLoginError::TimedOut | McpLoginError::Failed(_) => {
                AgentError::new(domain::ErrorCode::ToolExecution, message).into()
            }
        }
    }

    /// Returns the folder of a session, or the first workspace folder.
    async fn mcp_folder(&self, session: Option<String>) -> Result<PathBuf> {
        match session {
            Some(session) => {
                let session = session_param(&session);
                let inspect = |reply| SessionCommand::Inspect { reply };
                Ok(self.ask_session(&session, inspect).await?.info.folder)
            }
            None => Ok(self.state.folders().swap_remove(0)),
        }
    }
}

/// Sends `agent/mcpServerUpdated` whenever the state of a server has changed. States in between may be left out.
pub(in crate::server) async fn report_mcp_servers(
    manager: Arc<McpManager>,
    outbox: Outbox,
    redactor: Redactor,
) {
    let mut changes = manager.subscribe_changes();
    let mut sent: BTreeMap<(PathBuf, String), McpServerStatus> = BTreeMap::new();
    // An error means that the manager is gone: the server ends.
    while changes.changed().await.is_ok() {
        let live = manager.list_live();
        let key = |server: &McpServerStatus| (server.folder.clone(), server.name.clone());
        for server in &live {
            if sent
                .get(&key(server))
                .is_some_and(|before| before.state == server.state && before.login == server.login)
            {
                continue;
            }
            let update = McpServerUpdatedNotification {
                server: to_wire::mcp_server_update(server, &redactor),
            };
            outbox.push(Outgoing::Notification {
                body: to_wire::encode_frame(&update.into()),
                group: None,
                permit: None,
            });
        }
        sent = live.into_iter().map(|server| (key(&server), server)).collect();
    }
}
