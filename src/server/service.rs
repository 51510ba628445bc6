//! The tower-lsp service: LSP's own methods, and the table of the `agent/*` methods.
//!
//! Negotiates abilities and keeps document sync and workspace folders up to date. The `agent/*` methods live in
//! [`super::handlers`].

use std::sync::Arc;

use tower_lsp::jsonrpc::Result;
use tower_lsp::ls_types::{
    ClientCapabilities, DidChangeConfigurationParams, DidChangeTextDocumentParams,
    DidChangeWorkspaceFoldersParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DidSaveTextDocumentParams, InitializeParams, InitializeResult, InitializedParams, OneOf,
    PositionEncodingKind, SaveOptions, ServerCapabilities, ServerInfo, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions, WorkspaceFolder,
    WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
use tower_lsp::{ClientSocket, LanguageServer, LspService};

use super::documents;
use super::state::{ServerContext, folder_key};
use crate::base::position::PositionEncoding;
use crate::base::uri;
use crate::protocol::table::method;
use crate::protocol::{ClientCapability, Feature, InitializationOptions, ServerCapability};
use crate::tool::EditorAbilities;
use crate::workspace::Folder;

/// The service's handlers. The state is shared with [`super::run`].
pub(super) struct Service {
    pub(super) state: Arc<ServerContext>,
}

/// Builds the service with its method table.
pub(super) fn build(state: Arc<ServerContext>) -> (LspService<Service>, ClientSocket) {
    let service = |client| {
        state.editor.set_client(client);
        Service { state }
    };
    LspService::build(service)
        .custom_method(method::NEW_SESSION, Service::new_session)
        .custom_method(method::PROMPT, Service::run_prompt)
        .custom_method(method::STEER, Service::steer_turn)
        .custom_method(method::QUEUE, Service::handle_queue)
        .custom_method(method::RESUME_TURN, Service::resume_turn)
        .custom_method(method::COMPACT, Service::compact_session)
        .custom_method(method::APPROVAL_RESPOND, Service::approval_respond)
        .custom_method(method::LIMIT_RESPOND, Service::limit_respond)
        .custom_method(method::QUESTION_RESPOND, Service::question_respond)
        .custom_method(method::LIST_APPROVALS, Service::list_approvals)
        .custom_method(method::LIST_GRANTS, Service::list_grants)
        .custom_method(method::REVOKE_GRANT, Service::revoke_grant)
        .custom_method(method::LIST_SESSIONS, Service::list_sessions)
        .custom_method(method::LOAD_SESSION, Service::load_session)
        .custom_method(method::RENAME_SESSION, Service::rename_session)
        .custom_method(method::FORK_SESSION, Service::fork_session)
        .custom_method(method::EXPORT_SESSION, Service::export_session)
        .custom_method(method::DELETE_SESSION, Service::delete_session)
        .custom_method(method::REVERT, Service::revert_turn)
        .custom_method(method::SET_MODE, Service::set_mode)
        .custom_method(method::SET_MODEL, Service::set_model)
        .custom_method(method::DESCRIBE_TRUST, Service::describe_trust)
        .custom_method(method::SET_TRUST, Service::set_trust)
        .custom_method(method::LIST_MODELS, Service::list_models)
        .custom_method(method::LIST_AGENTS, Service::list_agents)
        .custom_method(method::LIST_COMMANDS, Service::list_commands)
        .custom_method(method::LIST_TOOLS, Service::list_tools)
        .custom_method(method::LIST_MCP_SERVERS, Service::list_mcp_servers)
        .custom_method(method::RESTART_MCP_SERVER, Service::restart_mcp_server)
        .custom_method(method::LOGIN_MCP_SERVER, Service::login_mcp_server)
        .custom_method(method::CANCEL_MCP_LOGIN, Service::cancel_mcp_login)
        .custom_method(method::LOGOUT_MCP_SERVER, Service::logout_mcp_server)
        .custom_method(method::READ_CONTENT, Service::read_content)
        .custom_method(method::METRICS, Service::read_metrics)
        .custom_method(method::RESET_CIRCUIT, Service::reset_circuit)
        .custom_method(method::RELOAD_CONFIG, Service::reload_config)
        .custom_method(method::CANCEL, Service::cancel_turn)
        .finish()
}

impl LanguageServer for Service {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let utf8 = prefers_utf8(&params);
        let root = params.root_uri_compat();
        let options = InitializationOptions::read(params.initialization_options);
        let folders = collect_folders(params.workspace_folders, root);
        self.state.workspace.set_folders(&folders);
        self.state.workspace.overlay().set_encoding(if utf8 {
            PositionEncoding::Utf8
        } else {
            PositionEncoding::Utf16
        });
        {
            let mut client = self.state.lock_client();
            client.name = params.client_info.map(|info| info.name).unwrap_or_default();
            client.utf8 = utf8;
            let flags = ClientCapability::read(params.capabilities.experimental.as_ref()).client;
            client.questions = flags.questions;
            client.editor = EditorAbilities {
                apply: takes_edits(&params.capabilities),
                save: flags.save_documents,
                saves_edits: false,
                credentials: flags.get_credential,
                diagnostics: flags.get_diagnostics,
                language: flags.language_queries,
            };
            client.folders = folders;
            client.trusted = options.trusted;
        }
        let settings = (!options.settings.is_empty()).then(|| options.settings.into());
        self.state.configured.set_options(settings);
        Ok(InitializeResult {
            server_info: Some(ServerInfo {
                name: env!("CARGO_PKG_NAME").to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            }),
            capabilities: build_capabilities(utf8),
            offset_encoding: None,
        })
    }

    async fn initialized(&self, _: InitializedParams) {
        // Trust comes first: it decides which settings of a folder apply.
        for folder in self.state.folders() {
            self.state.resolve_trust(&folder).await;
        }
        self.state.apply_settings();
        self.state.notices.begin_reporting();
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    async fn did_open(&self, params: DidOpenTextDocumentParams) {
        let uri = params.text_document.uri.as_str().to_owned();
        documents::did_open(&self.state, params);
        // Only the disk access waits: the document itself is updated before the first await, in order of arrival.
        documents::compare_with_file(&self.state, uri).await;
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        documents::did_change(&self.state, params);
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        let uri = params.text_document.uri.as_str().to_owned();
        documents::did_save(&self.state, params);
        documents::compare_with_file(&self.state, uri).await;
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        documents::did_close(&self.state, params);
    }

    async fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
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
        let now = {
            let mut client = self.state.lock_client();
            client
                .folders
                .retain(|folder| removed.iter().all(|other| other.path != folder.path));
            let new = |folder: &&Folder| client.folders.iter().all(|known| known.path != folder.path);
            let new: Vec<Folder> = added.iter().filter(new).cloned().collect();
            client.folders.extend(new);
            client.folders.clone()
        };
        self.state.workspace.set_folders(&now);
        self.state.configured.mcp().note_roots_changed();
        for folder in &removed {
            self.state.notices.forget_folder(&folder.path);
        }
        // Removed folders too: the editor's trust no longer covers them.
        let removed = removed.into_iter().map(|folder| folder.path);
        for folder in removed.chain(self.state.folders()) {
            self.state.resolve_trust(&folder).await;
        }
        self.state.apply_settings();
    }
}

fn prefers_utf8(params: &InitializeParams) -> bool {
    let general = params.capabilities.general.as_ref();
    let encodings = general.and_then(|general| general.position_encodings.as_ref());
    encodings.is_some_and(|encodings| encodings.contains(&PositionEncodingKind::UTF8))
}

/// Whether the client applies edits that name a document version.
fn takes_edits(client: &ClientCapabilities) -> bool {
    let Some(workspace) = &client.workspace else {
        return false;
    };
    let versioned = workspace.workspace_edit.as_ref();
    workspace.apply_edit == Some(true) && versioned.and_then(|edit| edit.document_changes) == Some(true)
}

fn build_capabilities(utf8: bool) -> ServerCapabilities {
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
    ServerCapabilities {
        position_encoding: Some(if utf8 {
            PositionEncodingKind::UTF8
        } else {
            PositionEncodingKind::UTF16
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            // Full texts: when the editor reloads a clean buffer after a command changed its file, the server then
            // knows the buffer exactly, whatever text it had before.
            change: Some(TextDocumentSyncKind::FULL),
            save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions {
                include_text: Some(false),
            })),
            ..TextDocumentSyncOptions::default()
        })),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            file_operations: None,
        }),
        experimental: Some(serde_json::json!({ "agent": agent })),
        ..ServerCapabilities::default()
    }
}

/// Collects the workspace folders that the client names. URIs that are not files are skipped.
fn collect_folders(named: Option<Vec<WorkspaceFolder>>, root: Option<Folder>) -> Vec<Folder> {
    let named = named.unwrap_or_default();
    let folders: Vec<Folder> = named
        .into_iter()
        .filter_map(|folder| {
            let path = uri::path_of(folder.uri.as_str()).ok()?;
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
trait RootUri {
    fn root_uri_compat(&self) -> Option<Folder>;
}

impl RootUri for InitializeParams {
    #[expect(deprecated, reason = "older clients send nothing else")]
    fn root_uri_compat(&self) -> Option<Folder> {
        let path = uri::path_of(self.root_uri.as_ref()?.as_str()).ok()?;
        Some(Folder {
            name: String::new(),
            path: folder_key(&path),
        })
    }
}
