//! What a prompt points at: a place in a file, read when the prompt arrives.
//!
//! Both edges use it, so that a reference means the same in each. Knows no wire shapes.

use crate::base::{text, uri};
use crate::config::Redactor;
use crate::domain::{Reference, ReferenceKind};
use crate::workspace::load::load_file;
use crate::workspace::reference::follow_reference;
use crate::workspace::{Roots, WorkspaceShared};

/// Bytes of a file that a reference includes at most. The model can read the rest by itself.
const MAX_REFERENCE: usize = 64 << 10;

/// A place in a file that the user points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReference {
    pub kind: ReferenceKind,
    pub uri: String,
    /// The lines; `None` for the whole file.
    pub span: Option<TextSpan>,
    /// The client's text of a selection, or the message of a diagnostic. Without it, the text is read from the file.
    pub text: Option<String>,
}

/// Lines of a file, counted from 1, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSpan {
    pub first: u32,
    pub last: u32,
}

/// Adds the text of a reference. Reads files without an await, briefly, so that prompts keep their order.
///
/// # Errors
/// What is wrong with the reference, for its author.
pub fn resolve_reference(
    workspace: &WorkspaceShared,
    roots: &Roots,
    redactor: &Redactor,
    pending: PendingReference,
) -> Result<Reference, String> {
    let mut reference = read_reference(workspace, roots, redactor, pending)?;
    // Characters that only a model would read become visible escapes.
    reference.text = text::escape_hidden_characters(&reference.text).into_owned();
    Ok(reference)
}

fn read_reference(
    workspace: &WorkspaceShared,
    roots: &Roots,
    redactor: &Redactor,
    pending: PendingReference,
) -> Result<Reference, String> {
    let PendingReference {
        kind,
        uri,
        span,
        text,
    } = pending;
    let path = uri::path_of(&uri).map_err(|error| error.to_string())?;
    let lines = span.map(|span| (span.first, span.last));
    // Documents are known by their resolved paths: this path may be another way to the same file.
    let real = follow_reference(roots, &path);
    // Absolute here: the session knows its folder and makes the path relative.
    let display_path = real.as_deref().unwrap_or(&path).display().to_string();
    // With its text at hand, a reference need not lead to a readable file.
    if let Some(text) = text {
        return Ok(Reference {
            kind,
            path: display_path,
            lines,
            text,
        });
    }
    let real = real.map_err(|error| error.to_string())?;
    let loaded =
        load_file(workspace.overlay(), &real).map_err(|error| format!("{}: {error}", path.display()))?;
    let wanted = match lines {
        Some((from, to)) => loaded
            .file
            .text
            .lines()
            .skip(from.saturating_sub(1) as usize)
            .take((to + 1).saturating_sub(from) as usize)
            .collect::<Vec<_>>()
            .join("\n"),
        None => loaded.file.text,
    };
    // A known key in the file must reach no model and no store (I15).
    let wanted = redactor.redact_content(&wanted).unwrap_or(wanted);
    let mut excerpt = text::prefix_within(&wanted, MAX_REFERENCE).to_owned();
    if excerpt.len() < wanted.len() {
        excerpt.push_str("\n[… truncated; read the file for the rest …]");
    }
    Ok(Reference {
        kind,
        path: display_path,
        lines,
        text: excerpt,
    })
}
