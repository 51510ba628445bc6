//! Requests to the client beyond LSP's own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Range, Severity};

/// Params of `agent/saveDocuments`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaveDocumentsParams {
    /// The documents, by the URIs with which the client opened them.
    pub uris: Vec<String>,
}

/// Result of `agent/saveDocuments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaveDocumentsResult {
    /// The documents that are now on disk as the editor shows them.
    #[serde(default)]
    pub saved: Vec<String>,
    /// The documents that are not.
    #[serde(default)]
    pub failed: Vec<NotSaved>,
}

/// Params of `agent/getCredential`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetCredentialParams {
    /// The provider's name in the configuration.
    pub provider: String,
}

/// Result of `agent/getCredential`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetCredentialResult {
    /// The key; absent if the client has none for that provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
}

impl std::fmt::Debug for GetCredentialResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key itself must not reach a log (I15).
        f.debug_struct("GetCredentialResult")
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Params of `agent/getDiagnostics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetDiagnosticsParams {
    /// The document, by the URI with which the client opened it if it is open; absent for all that the client knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The URI of a document. Answer when its compilers have reported about its current text. If it is not open, load it
    /// without showing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<String>,
    /// Further documents to wait for in the same way, at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_wait_for: Vec<String>,
    /// The longest wait for all documents together, in milliseconds. After it, answer with what is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u32>,
}

/// Result of `agent/getDiagnostics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetDiagnosticsResult {
    /// The current reports of the client's compilers and linters, in any order.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// The documents of `waitFor` and `alsoWaitFor` about which a compiler had not reported in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreported: Vec<String>,
}

/// A diagnostic from the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// The document's URI.
    pub uri: String,
    /// The part of the document that it is about.
    pub range: Range,
    /// Its severity; absent means an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The text of the diagnostic.
    pub message: String,
    /// Its source: a compiler or a linter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A document that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotSaved {
    /// The document.
    pub uri: String,
    /// The reason, for the model: `it is read-only in the editor`.
    pub reason: String,
}
