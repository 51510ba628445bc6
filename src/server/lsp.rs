//! The parts of LSP's own params that this server reads. All else in them is ignored, whatever its form.

use serde::Deserialize;
use serde_json::Value;

use crate::protocol::Range;

/// Params of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeParams {
    /// The single root that older clients send.
    #[serde(default)]
    pub(super) root_uri: Option<String>,
    #[serde(default)]
    pub(super) workspace_folders: Option<Vec<WorkspaceFolder>>,
    #[serde(default)]
    pub(super) initialization_options: Option<Value>,
    pub(super) capabilities: Value,
    #[serde(default)]
    pub(super) client_info: Option<ClientName>,
}

/// The client's name.
#[derive(Debug, Deserialize)]
pub(super) struct ClientName {
    pub(super) name: String,
}

/// A workspace folder.
#[derive(Debug, Deserialize)]
pub(super) struct WorkspaceFolder {
    pub(super) uri: String,
    pub(super) name: String,
}

/// Params of `workspace/didChangeWorkspaceFolders`.
#[derive(Debug, Deserialize)]
pub(super) struct DidChangeWorkspaceFoldersParams {
    pub(super) event: WorkspaceFoldersChange,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkspaceFoldersChange {
    pub(super) added: Vec<WorkspaceFolder>,
    pub(super) removed: Vec<WorkspaceFolder>,
}

/// Params of `workspace/didChangeConfiguration`.
#[derive(Debug, Deserialize)]
pub(super) struct DidChangeConfigurationParams {
    pub(super) settings: Value,
}

/// Params of `textDocument/didOpen`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidOpenParams {
    pub(super) text_document: OpenedDocument,
}

#[derive(Debug, Deserialize)]
pub(super) struct OpenedDocument {
    pub(super) uri: String,
    pub(super) version: i32,
    pub(super) text: String,
}

/// Params of `textDocument/didChange`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidChangeParams {
    pub(super) text_document: DocumentVersion,
    pub(super) content_changes: Vec<ContentChange>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DocumentVersion {
    pub(super) uri: String,
    pub(super) version: i32,
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentChange {
    /// `None` if the text replaces the whole document.
    #[serde(default)]
    pub(super) range: Option<Range>,
    pub(super) text: String,
}

/// Params of `textDocument/didSave`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidSaveParams {
    pub(super) text_document: DocumentId,
    #[serde(default)]
    pub(super) text: Option<String>,
}

/// Params of `textDocument/didClose`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidCloseParams {
    pub(super) text_document: DocumentId,
}

#[derive(Debug, Deserialize)]
pub(super) struct DocumentId {
    pub(super) uri: String,
}

/// The answer to `workspace/applyEdit`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApplyEditResult {
    pub(super) applied: bool,
    #[serde(default)]
    pub(super) failure_reason: Option<String>,
}
