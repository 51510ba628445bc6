//! The service: LSP's own methods, and the table of the `agent/*` methods.
//!
//! Negotiates abilities and keeps document sync and workspace folders up to date. The `agent/*` methods live in
//! [`super::handlers`], and which method may be called when in [`super::lifecycle`]. Each handler is polled once in the
//! order of arrival.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{ErrorCode, Request, Response, Result};

use super::documents;
use super::lifecycle::Lifecycle;
use super::lsp::{
    DidChangeConfigurationParams, DidChangeWorkspaceFoldersParams, DidOpenParams, DidSaveParams,
    InitializeParams, WorkspaceFolder,
};
use super::state::{ServerContext, folder_key};
use crate::base::position::PositionEncoding;
use crate::base::text::one_line;
use crate::base::uri;
use crate::domain::Attendance;
use crate::protocol::table::method;
use crate::protocol::{ClientCapability, Feature, InitializationOptions, ServerCapability};
use crate::tool::EditorAbilities;
use crate::transport::protocol_error;
use crate::workspace::Folder;

/// The service's handlers. The state is shared with [`super::run`].
#[derive(Clone)]
pub(super) struct Service {
    pub(super) state: Arc<ServerContext>,
    lifecycle: Lifecycle,
}

impl tower_service::Service<Request> for Service {
    type Response = Option<Response>;
    type Error = Infallible;
    type Future = BoxFuture<'static, std::result::Result<Option<Response>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let service = self.clone();
        let (method, id, params) = request.into_parts();
        // JSON-RPC allows to omit them.
        let params = params.unwrap_or(Value::Null);
        let Some(id) = id else {
            if !self.lifecycle.admit_notification(&method) {
                return futures::future::ready(Ok(None)).boxed();
            }
            return async move {
                // A notification has no answer that could name the problem.
                if let Err(error) = service.handle_notification(&method, params).await {
                    let method = one_line(&method, 80);
                    tracing::warn!(method, %error, "a notification was not understood");
                }
                Ok(None)
            }
            .boxed();
        };
        if let Err(refused) = self.lifecycle.admit_request(&method) {
            return futures::future::ready(Ok(Some(Response::from_error(id, refused.into())))).boxed();
        }
        async move {
            let answer = service.answer_request(&method, params).await;
            Ok(Some(Response::from_parts(id, answer)))
        }
        .boxed()
    }
}

impl Service {
    pub(super) fn new(state: Arc<ServerContext>) -> Self {
        Self {
            state,
            lifecycle: Lifecycle::default(),
        }
    }

    async fn answer_request(&self, method: &str, params: Value) -> Result<Value> {
        match method {
            "initialize" => {
                let params = serde_json::from_value(params)
                    .map_err(|error| protocol_error(ErrorCode::InvalidParams, error.to_string()))?;
                let answer = self.initialize(params);
                self.lifecycle.note_initialized();
                Ok(answer)
            }
            // May have params, which the protocol does not know.
            "shutdown" => Ok(Value::Null),
            method::NEW_SESSION => to_value(self.new_session(params).await?),
            method::PROMPT => to_value(self.run_prompt(params).await?),
            method::STEER => to_value(self.steer_turn(params).await?),
            method::QUEUE => to_value(self.handle_queue(params).await?),
            method::RESUME_TURN => to_value(self.resume_turn(params).await?),
            method::COMPACT => to_value(self.compact_session(params).await?),
            method::APPROVAL_RESPOND => to_value(self.approval_respond(params).await?),
            method::LIMIT_RESPOND => to_value(self.limit_respond(params).await?),
            method::QUESTION_RESPOND => to_value(self.question_respond(params).await?),
            method::LIST_APPROVALS => to_value(self.list_approvals(params).await?),
            method::LIST_GRANTS => to_value(self.list_grants(params).await?),
            method::REVOKE_GRANT => to_value(self.revoke_grant(params).await?),
            method::LIST_SESSIONS => to_value(self.list_sessions(params).await?),
            method::LOAD_SESSION => to_value(self.load_session(params).await?),
            method::RENAME_SESSION => to_value(self.rename_session(params).await?),
            method::FORK_SESSION => to_value(self.fork_session(params).await?),
            method::EXPORT_SESSION => to_value(self.export_session(params).await?),
            method::DELETE_SESSION => to_value(self.delete_session(params).await?),
            method::REVERT => to_value(self.revert_turn(params).await?),
            method::SET_MODE => to_value(self.set_mode(params).await?),
            method::SET_MODEL => to_value(self.set_model(params).await?),
            method::DESCRIBE_TRUST => to_value(self.describe_trust(params).await?),
            method::SET_TRUST => to_value(self.set_trust(params).await?),
            method::LIST_MODELS => to_value(self.list_models(params).await?),
            method::LIST_AGENTS => to_value(self.list_agents(params).await?),
            method::LIST_COMMANDS => to_value(self.list_commands(params).await?),
            method::LIST_TOOLS => to_value(self.list_tools(params).await?),
            method::LIST_MCP_SERVERS => to_value(self.list_mcp_servers(params).await?),
            method::RESTART_MCP_SERVER => to_value(self.restart_mcp_server(params).await?),
            method::LOGIN_MCP_SERVER => to_value(self.login_mcp_server(params).await?),
            method::CANCEL_MCP_LOGIN => to_value(self.cancel_mcp_login(params).await?),
            method::LOGOUT_MCP_SERVER => to_value(self.logout_mcp_server(params).await?),
            method::READ_CONTENT => to_value(self.read_content(params).await?),
            method::METRICS => to_value(self.read_metrics(params).await?),
            method::RESET_CIRCUIT => to_value(self.reset_circuit(params).await?),
            method::RELOAD_CONFIG => to_value(self.reload_config(params).await?),
            #[cfg(feature = "sim")]
            method if method.starts_with("$/test/") => {
                let answer = self.state.sessions.answer_test_request(method, &params).await;
                answer.ok_or_else(|| protocol_error(ErrorCode::MethodNotFound, method.to_owned()))
            }
            _ => Err(protocol_error(
                ErrorCode::MethodNotFound,
                format!("no method {}", one_line(method, 80)),
            )),
        }
    }

    async fn handle_notification(&self, method: &str, params: Value) -> serde_json::Result<()> {
        use serde_json::from_value;
        match method {
            "initialized" => self.initialized().await,
            "textDocument/didOpen" => self.did_open(from_value(params)?).await,
            "textDocument/didChange" => documents::did_change(&self.state, from_value(params)?),
            "textDocument/didSave" => self.did_save(from_value(params)?).await,
            "textDocument/didClose" => documents::did_close(&self.state, from_value(params)?),
            "workspace/didChangeConfiguration" => self.did_change_configuration(from_value(params)?),
            "workspace/didChangeWorkspaceFolders" => {
                self.did_change_workspace_folders(from_value(params)?).await;
            }
            method::CANCEL => self.cancel_turn(params).await,
            // Others are for other servers.
            _ => {}
        }
        Ok(())
    }

    fn initialize(&self, params: InitializeParams) -> Value {
        let utf8 = prefers_utf8(&params.capabilities);
        let root = params.root_uri.as_deref().and_then(read_root);
        let options = InitializationOptions::read(params.initialization_options);
        let folders = collect_folders(params.workspace_folders, root);
        self.state.workspace.overlay().set_encoding(if utf8 {
            PositionEncoding::Utf8
        } else {
            PositionEncoding::Utf16
        });
        {
            let mut client = self.state.lock_client();
            client.name = params.client_info.map(|info| info.name).unwrap_or_default();
            client.utf8 = utf8;
            let flags = ClientCapability::read(params.capabilities.get("experimental")).client;
            client.attendance = match (flags.questions, flags.approves) {
                (_, true) => Attendance::Automatic,
                (true, false) => Attendance::Questions,
                (false, false) => Attendance::Approvals,
            };
            client.editor = EditorAbilities {
                apply: takes_edits(&params.capabilities),
                create: false,
                save: flags.save_documents,
                saves_edits: false,
                credentials: flags.get_credential,
                diagnostics: flags.get_diagnostics,
                language: flags.language_queries,
                code_fixes: flags.language_queries && flags.code_fixes,
            };
            client.set_folders(folders);
            client.trusted = options.trusted;
        }
        self.state.apply_folders();
        let settings = (!options.settings.is_empty()).then(|| options.settings.into());
        self.state.configured.set_options(settings);
        json!({
            "capabilities": build_capabilities(utf8),
            "serverInfo": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        })
    }

    async fn initialized(&self) {
        // Trust comes first: it decides which settings of a folder apply.
        for folder in self.state.folders() {
            self.state.resolve_trust(&folder).await;
        }
        self.state.apply_settings();
        self.state.notices.begin_reporting();
    }

    async fn did_open(&self, params: DidOpenParams) {
        let uri = params.text_document.uri.clone();
        documents::did_open(&self.state, params);
        // Only the disk access waits: the document itself is updated before the first await, in order of arrival.
        documents::compare_with_file(&self.state, uri).await;
    }

    async fn did_save(&self, params: DidSaveParams) {
        let uri = params.text_document.uri.clone();
        documents::did_save(&self.state, params);
        documents::compare_with_file(&self.state, uri).await;
    }

    fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
        // Editors send either all their settings or only the notice that they changed.
        let ours = match params.settings {
            serde_json::Value::Object(mut settings) => settings.remove(env!("CARGO_PKG_NAME")),
            _ => None,
        };
        // They override the options from the start. Lua encodes an empty table as `[]`.
        if let Some(settings) = ours {
            let nothing = settings.as_array().is_some_and(Vec::is_empty) || settings.is_null();
            self.state
                .configured
                .set_editor_settings((!nothing).then_some(settings));
        }
        self.state.reload_config();
    }

    async fn did_change_workspace_folders(&self, params: DidChangeWorkspaceFoldersParams) {
        let removed = collect_folders(Some(params.event.removed), None);
        let added = collect_folders(Some(params.event.added), None);
        let dropped = self.state.lock_client().change_folders(added, &removed);
        self.state.apply_folders();
        self.state.configured.mcp().note_roots_changed();
        for folder in &dropped {
            self.state.notices.forget_folder(folder);
        }
        // Removed folders too: the editor's trust no longer covers them.
        for folder in dropped.into_iter().chain(self.state.folders()) {
            self.state.resolve_trust(&folder).await;
        }
        self.state.apply_settings();
    }
}

fn to_value(result: impl Serialize) -> Result<Value> {
    serde_json::to_value(result).map_err(|error| protocol_error(ErrorCode::InternalError, error.to_string()))
}

fn prefers_utf8(capabilities: &Value) -> bool {
    let encodings = &capabilities["general"]["positionEncodings"];
    encodings
        .as_array()
        .is_some_and(|encodings| encodings.iter().any(|encoding| encoding == "utf-8"))
}

/// Whether the client applies edits that name a document version.
fn takes_edits(capabilities: &Value) -> bool {
    let workspace = &capabilities["workspace"];
    workspace["applyEdit"] == true && workspace["workspaceEdit"]["documentChanges"] == true
}

fn build_capabilities(utf8: bool) -> Value {
    let agent = ServerCapability::new(vec![
        Feature::Images,
        Feature::UnsavedText,
        Feature::ApplyEdit,
        Feature::Queue,
        Feature::Checkpoints,
        Feature::SubAgents,
        Feature::Credentials,
        Feature::Diagnostics,
        Feature::LanguageQueries,
    ]);
    json!({
        "positionEncoding": if utf8 { "utf-8" } else { "utf-16" },
        "textDocumentSync": {
            "openClose": true,
            // Full texts (1): when the editor reloads a clean buffer after a command changed its file, the server then
            // knows the buffer exactly, whatever text it had before.
            "change": 1,
            "save": {"includeText": false},
        },
        "workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}},
        "experimental": {"agent": agent},
    })
}

/// Collects the workspace folders that the client names. URIs that are not files are skipped.
fn collect_folders(named: Option<Vec<WorkspaceFolder>>, root: Option<Folder>) -> Vec<Folder> {
    let named = named.unwrap_or_default();
    let folders: Vec<Folder> = named
        .into_iter()
        .filter_map(|folder| {
            let path = uri::path_of(&folder.uri).ok()?;
            Some(Folder {
                name: folder.name,
                path: folder_key(&path),
            })
        })
        .collect();
    // `rootUri` counts only without workspace folders.
    if folders.is_empty() {
        root.into_iter().collect()
    } else {
        folders
    }
}

/// Reads the single root that older clients send.
fn read_root(root_uri: &str) -> Option<Folder> {
    let path = uri::path_of(root_uri).ok()?;
    Some(Folder {
        name: String::new(),
        path: folder_key(&path),
    })
}
