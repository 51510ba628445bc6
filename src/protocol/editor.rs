//! What the server asks of the client beyond LSP's own requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Range, Severity};

/// Params of `agent/saveDocuments`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaveDocumentsParams {
    /// The documents, by the URIs that the client opened them with.
    pub uris: Vec<String>,
}

/// Result of `agent/saveDocuments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaveDocumentsResult {
    /// Those that are on the disk now as the editor shows them.
    #[serde(default)]
    pub saved: Vec<String>,
    /// Those that are not.
    #[serde(default)]
    pub failed: Vec<NotSaved>,
}

/// Params of `agent/getCredential`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetCredentialParams {
    /// The provider, by its name in the configuration.
    pub provider: String,
}

/// Result of `agent/getCredential`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetCredentialResult {
    /// The key; absent when the client has none for that provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
}

impl std::fmt::Debug for GetCredentialResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GetCredentialResult")
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Params of `agent/getDiagnostics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetDiagnosticsParams {
    /// The document, by the URI that the client opened it with where it is open; absent: all that the client knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// Result of `agent/getDiagnostics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetDiagnosticsResult {
    /// What the client's compilers and linters say now, in any order.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
}

/// A diagnostic of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// The document's URI.
    pub uri: String,
    /// The part that it is about.
    pub range: Range,
    /// How grave it is; absent: it is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// What it says.
    pub message: String,
    /// Who says it: a compiler, a linter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A document that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotSaved {
    /// The document.
    pub uri: String,
    /// Why, for the model: `it is read-only in the editor`.
    pub reason: String,
}
