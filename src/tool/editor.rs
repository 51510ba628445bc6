//! The editor as tools see it (R-TOOL-3): a trait and its plain types.
//!
//! Must not know the protocol. The server implements it through requests to the client.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::SecretString;

use crate::base::position::{Position, Range};
use crate::domain::SessionId;
use crate::domain::words::word_enum;
use crate::workspace::text_edits::TextEdit;

/// Requests what only the editor can do.
///
/// Every answer comes within a time limit of the implementation. Dropping a future is safe, but the editor may still
/// carry out the request.
pub trait EditorLink: Send + Sync {
    /// Returns what the client supports.
    fn abilities(&self) -> EditorAbilities {
        EditorAbilities::default()
    }

    /// Brings the overlay up to date with what the editor has of these files, for editors that do not report it
    /// themselves. `paths` are the files that a call is about to touch. Does nothing by default.
    fn sync_documents(&self, _session: &SessionId, _paths: &[PathBuf]) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// Requests an edit of an open document.
    ///
    /// Success is only the editor's claim: the document's text must show the edit.
    ///
    /// # Errors
    /// The editor refuses, does not answer in time, or cannot be asked.
    fn apply(&self, _edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        Box::pin(async { Err(EditorError::Failed("there is none".to_owned())) })
    }

    /// Requests that a file be created with a text, for editors whose users review what an agent creates.
    ///
    /// # Errors
    /// The editor refuses, does not answer in time, or cannot be asked.
    fn create_file(
        &self,
        _session: &SessionId,
        _path: PathBuf,
        _text: String,
    ) -> BoxFuture<'static, Result<(), EditorError>> {
        Box::pin(async { Err(EditorError::Failed("there is none".to_owned())) })
    }

    /// Requests that a document be saved; `None` means saved, a text says why not.
    ///
    /// # Errors
    /// The editor does not answer in time or cannot be asked.
    fn save_document(&self, _uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        Box::pin(async { Err(EditorError::Failed("there is none".to_owned())) })
    }

    /// Requests the findings of compilers and linters.
    ///
    /// # Errors
    /// The editor does not answer in time or cannot be asked, or does not support diagnostics.
    fn request_diagnostics(
        &self,
        _request: DiagnosticsRequest,
    ) -> BoxFuture<'static, Result<DiagnosticsAnswer, EditorError>> {
        Box::pin(async { Err(EditorError::Failed("it does not tell diagnostics".to_owned())) })
    }

    /// Asks the editor's language servers.
    ///
    /// # Errors
    /// The editor does not answer in time, has no language server for the document, or cannot be asked.
    fn query_language(
        &self,
        _query: LanguageQuery,
    ) -> BoxFuture<'static, Result<LanguageAnswer, EditorError>> {
        Box::pin(async { Err(EditorError::Failed("it has no language servers".to_owned())) })
    }

    /// Requests the API key of a provider; `None` if the editor has none.
    ///
    /// # Errors
    /// The editor does not answer in time or cannot be asked.
    fn request_credential(
        &self,
        _provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
        Box::pin(async { Ok(None) })
    }
}

/// The optional requests that a client supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditorAbilities {
    /// Edits of documents by version.
    pub apply: bool,
    /// Creating files.
    pub create: bool,
    /// Saving documents.
    pub save: bool,
    /// Every edit is saved, together with what was unsaved before it.
    pub saves_edits: bool,
    /// Handing over API keys.
    pub credentials: bool,
    /// Reporting diagnostics.
    pub diagnostics: bool,
    /// Asking its language servers.
    pub language: bool,
    /// Asking them for quick fixes, and its formatter.
    pub code_fixes: bool,
}

/// Which findings are requested, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiagnosticsRequest {
    /// The document; all documents if `None`.
    pub uri: Option<String>,
    /// Documents about whose current text compilers shall have reported before the answer.
    pub wait_for: Vec<String>,
    /// The longest wait for them together.
    pub max_wait: Duration,
}

/// The findings that were requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiagnosticsAnswer {
    pub found: Vec<EditorDiagnostic>,
    /// The documents waited for about which a compiler had not reported in time.
    pub unreported: Vec<String>,
}

/// A finding of a compiler or linter in the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorDiagnostic {
    /// The URI of the document, as the client writes it.
    pub uri: String,
    pub range: Range,
    pub severity: DiagnosticSeverity,
    pub message: String,
    /// The compiler or linter that reports it.
    pub source: Option<String>,
}

word_enum! {
    /// The severity of a finding, most severe first. The words are for the model.
    pub enum DiagnosticSeverity {
        Error = "error",
        Warning = "warning",
        Information = "note",
        Hint = "hint",
    }
}

/// A question to the editor's language servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanguageQuery {
    pub kind: LanguageQueryKind,
    /// The document, as the client writes it; `None` for the workspace.
    pub uri: Option<String>,
    pub position: Option<Position>,
    /// The text to search for, or the new name.
    pub text: Option<String>,
    /// The most entries of the answer.
    pub limit: u32,
}

impl LanguageQuery {
    /// Creates a question about a document.
    pub fn new(kind: LanguageQueryKind, uri: String, position: Option<Position>, limit: u32) -> Self {
        Self {
            kind,
            uri: Some(uri),
            position,
            text: None,
            limit,
        }
    }
}

/// What a [`LanguageQuery`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanguageQueryKind {
    Definition,
    Implementation,
    TypeDefinition,
    References,
    IncomingCalls,
    OutgoingCalls,
    Hover,
    DocumentSymbols,
    WorkspaceSymbols,
    Rename,
    QuickFixes,
    Format,
}

/// The answer of language servers: what the kind of question yields, the rest empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageAnswer {
    pub locations: Vec<EditorLocation>,
    pub symbols: Vec<EditorSymbol>,
    pub edits: Vec<DocumentEdits>,
    /// The preferred ones first.
    pub fixes: Vec<EditorQuickFix>,
    /// Markdown.
    pub text: String,
}

/// A repair that a language server offers for a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorQuickFix {
    pub title: String,
    pub edits: Vec<DocumentEdits>,
}

/// Edits that language servers propose for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentEdits {
    /// The URI of the document, as the client writes it.
    pub uri: String,
    /// Do not overlap; all positions refer to the text before the edits.
    pub edits: Vec<TextEdit>,
}

/// A range of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorLocation {
    /// The URI of the document, as the client writes it.
    pub uri: String,
    pub range: Range,
}

/// A symbol that a language server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorSymbol {
    pub name: String,
    /// The number that LSP's `SymbolKind` gives the kind.
    pub kind: u32,
    /// All of it, with its body if known.
    pub location: EditorLocation,
    /// Its name in the document.
    pub selection: Option<Range>,
    /// The name of the symbol that contains it.
    pub container: Option<String>,
}

/// An edit of an open document, applied fully or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentEdit {
    /// As the client writes it.
    pub uri: String,
    /// The version that the edit applies to; 0 is valid.
    pub version: i32,
    /// Do not overlap; all positions refer to the text before the edit.
    pub edits: Vec<TextEdit>,
    /// A line for people.
    pub label: String,
}

/// The reason why the editor did not do what was requested, or may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditorError {
    #[error("the editor refused: {0}")]
    Refused(String),
    /// No answer within this time. The editor may still do it.
    #[error("the editor did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The request could not be made.
    #[error("the editor cannot be asked: {0}")]
    Failed(String),
}

/// Stands in if there is no editor: all changes are made on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEditor;

impl EditorLink for NoEditor {}
