//! `agent/languageQuery`: what the language servers of the client's editor know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Position, Range};

/// Params of `agent/languageQuery`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LanguageQueryParams {
    /// What is asked.
    pub kind: LanguageQueryKind,
    /// The document, by the URI with which the client opened it if it is open; absent for `workspaceSymbols`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// A position in the symbol; for `quickFixes`, in the line with the problems. Absent for `documentSymbols`,
    /// `workspaceSymbols`, and `format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// For `workspaceSymbols`: the text to search for. For `rename`: the new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The most entries that the server can use; the client may leave out the rest.
    pub limit: u32,
}

/// What an `agent/languageQuery` asks for. The LSP request of the same name defines the result. A client answers a kind
/// that it does not know with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LanguageQueryKind {
    /// The `locations` where the symbol is defined.
    Definition,
    /// The `locations` that implement the symbol.
    Implementation,
    /// The `locations` where the symbol's type is defined.
    TypeDefinition,
    /// The `locations` that use the symbol, its declaration included.
    References,
    /// The `locations` of the calls of the function.
    IncomingCalls,
    /// The `locations` where the functions are defined that the function calls.
    OutgoingCalls,
    /// The signature and documentation of the symbol, as `text`.
    Hover,
    /// The `symbols` of the document.
    DocumentSymbols,
    /// The `symbols` of the workspace whose names match `query`.
    WorkspaceSymbols,
    /// The `edits` that give the symbol the name `query`. The client must not make them.
    Rename,
    /// The `fixes` for the problems in the line: LSP's code actions of the kind `quickfix` that have an edit. The client must
    /// not make them.
    QuickFixes,
    /// The `edits` that format the document as the editor would. The client must not make them.
    Format,
}

/// Result of `agent/languageQuery`. A client that cannot answer returns an error, whose message the model reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LanguageQueryResult {
    /// The locations found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<DocumentLocation>,
    /// The symbols found, in any order; nested ones are entries of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<LanguageSymbol>,
    /// The edits, one entry for each document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<DocumentEdits>,
    /// The quick fixes, each with its edits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<QuickFix>,
    /// What is known about the symbol, as Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A repair that a language server offers for a problem: LSP's code action of the kind `quickfix`, with its edits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuickFix {
    /// Its title, by which the model chooses it.
    pub title: String,
    /// Whether the language server prefers it.
    #[serde(default)]
    pub is_preferred: bool,
    /// The edits, one entry for each document.
    pub edits: Vec<DocumentEdits>,
}

/// Edits of a document. All ranges refer to the text before the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentEdits {
    /// The document's URI.
    pub uri: String,
    /// The edits, which do not overlap.
    pub edits: Vec<DocumentTextEdit>,
}

/// A replacement in a document, as LSP's `TextEdit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentTextEdit {
    /// The replaced range.
    pub range: Range,
    /// The text to put there.
    pub new_text: String,
}

/// A range of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentLocation {
    /// The document's URI.
    pub uri: String,
    /// The range in it.
    pub range: Range,
}

/// A symbol that a language server knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LanguageSymbol {
    /// Its name.
    pub name: String,
    /// Its kind, as LSP's `SymbolKind`: 5 is a class, 12 a function.
    pub kind: u32,
    /// The URI of its document.
    pub uri: String,
    /// All of it, with its body if known.
    pub range: Range,
    /// Its name in the document, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_range: Option<Range>,
    /// The name of the symbol that contains it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
}
