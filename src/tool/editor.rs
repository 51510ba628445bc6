//! The editor, as tools see it (R-TOOL-3). Implemented at the edge, over requests to the client.

use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::SecretString;

use crate::base::position::Range;
use crate::workspace::text_edits::TextEdit;

/// Does in the editor what only it can. Every answer comes within a bound of the implementation's own; dropping the
/// future is safe, though what was asked may still be done.
pub trait EditorLink: Send + Sync {
    /// What the client takes.
    fn abilities(&self) -> EditorAbilities;

    /// Asks for an edit of an open document. That it was applied is the editor's word alone: the document's text has
    /// to show it.
    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>>;

    /// Asks for a document to be saved; none when it was, else why not.
    fn save_document(&self, uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>>;

    /// Asks what its compilers and linters say of a document; of all that it knows where none is named.
    fn request_diagnostics(
        &self,
        _uri: Option<String>,
    ) -> BoxFuture<'static, Result<Vec<EditorDiagnostic>, EditorError>> {
        Box::pin(async { Err(EditorError::Failed("it does not tell diagnostics".to_owned())) })
    }

    /// Asks for the API key of a provider; none when the editor has none.
    fn request_credential(
        &self,
        provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>>;
}

/// What a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditorAbilities {
    /// Edits of documents by their version.
    pub apply: bool,
    /// Saving them.
    pub save: bool,
    /// It hands over API keys.
    pub credentials: bool,
    /// It tells diagnostics.
    pub diagnostics: bool,
}

/// What a compiler or a linter of the editor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorDiagnostic {
    /// The document, as the client writes it.
    pub uri: String,
    /// Where in it.
    pub range: Range,
    /// How grave it is.
    pub grade: DiagnosticSeverity,
    /// What it says.
    pub message: String,
    /// Who says it.
    pub source: Option<String>,
}

/// How grave a finding is, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagnosticSeverity {
    /// It is wrong.
    Error,
    /// It is doubtful.
    Warning,
    /// It is worth knowing.
    Information,
    /// It could be better.
    Hint,
}

impl DiagnosticSeverity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "note",
            Self::Hint => "hint",
        }
    }
}

/// An edit of an open document, applied whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentEdit {
    /// The document, as the client writes it.
    pub uri: String,
    /// The version that it is for; 0 is one too.
    pub version: i32,
    /// What to replace. They do not overlap, and all count in the text before.
    pub edits: Vec<TextEdit>,
    /// A line for people.
    pub label: String,
}

/// Why the editor did not do it, or may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditorError {
    /// It says no.
    #[error("the editor refused: {0}")]
    Refused(String),
    /// It says nothing. It may still do it.
    #[error("the editor did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It cannot be asked.
    #[error("the editor cannot be asked: {0}")]
    Failed(String),
}

/// No editor: what is changed is changed on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEditor;

impl EditorLink for NoEditor {
    fn abilities(&self) -> EditorAbilities {
        EditorAbilities::default()
    }

    fn apply(&self, _edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        Box::pin(async { Err(EditorError::Failed("there is none".to_owned())) })
    }

    fn save_document(&self, _uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        Box::pin(async { Err(EditorError::Failed("there is none".to_owned())) })
    }

    fn request_credential(
        &self,
        _provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
        Box::pin(async { Ok(None) })
    }
}
