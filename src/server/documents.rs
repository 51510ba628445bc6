//! The editor's documents: kept in sync, and read where a prompt refers to them.
//!
//! Converts LSP's document notifications for the overlay, which owns the texts. Judges no paths.

use tower_lsp::jsonrpc::Result;
use tower_lsp::ls_types::{
    DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DidSaveTextDocumentParams,
};

use super::from_wire::{self, PendingReference, PromptPart};
use super::state::{ServerContext, invalid_param};
use crate::base::position::{DocumentChange, Position, Range};
use crate::base::{text, uri};
use crate::domain::{Block, Reference};
use crate::protocol::PromptContent;
use crate::workspace::load::load_file;
use crate::workspace::reference::follow_reference;

/// Bytes of a file that a reference includes at most. The model can read the rest by itself.
const MAX_REFERENCE: usize = 64 << 10;

pub(super) fn did_open(state: &ServerContext, params: DidOpenTextDocumentParams) {
    let document = params.text_document;
    state
        .workspace
        .overlay()
        .did_open(document.uri.as_str(), document.version, &document.text);
}

pub(super) fn did_change(state: &ServerContext, params: DidChangeTextDocumentParams) {
    let to_position = |at: tower_lsp::ls_types::Position| Position {
        line: at.line,
        character: at.character,
    };
    let changes: Vec<DocumentChange> = params
        .content_changes
        .into_iter()
        .map(|change| DocumentChange {
            range: change.range.map(|range| Range {
                start: to_position(range.start),
                end: to_position(range.end),
            }),
            text: change.text,
        })
        .collect();
    let document = params.text_document;
    state
        .workspace
        .overlay()
        .did_change(document.uri.as_str(), document.version, &changes);
}

pub(super) fn did_save(state: &ServerContext, params: DidSaveTextDocumentParams) {
    state
        .workspace
        .overlay()
        .did_save(params.text_document.uri.as_str(), params.text.as_deref());
}

pub(super) fn did_close(state: &ServerContext, params: DidCloseTextDocumentParams) {
    state
        .workspace
        .overlay()
        .did_close(params.text_document.uri.as_str());
}

/// Compares a document with its file, so that the text of a clean one need not be kept. Reads the disk.
pub(super) async fn compare_with_file(state: &ServerContext, uri: String) {
    let workspace = state.workspace.clone();
    let settled = tokio::task::spawn_blocking(move || workspace.overlay().reconcile_with_disk(&uri)).await;
    if let Err(error) = settled {
        tracing::warn!(%error, "a document was not compared with its file");
    }
}

/// Converts a prompt's content and adds the text of its references.
///
/// Reads files without an await, briefly, so that prompts keep their order.
pub(super) fn load_prompt_content(state: &ServerContext, prompt: PromptContent) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for piece in from_wire::parse_prompt(prompt)? {
        blocks.push(match piece {
            PromptPart::Block(block) => block,
            PromptPart::Reference(pending) => {
                let mut reference = resolve_reference(state, pending)?;
                // Characters that only a model would read become visible escapes.
                reference.text = text::escape_hidden_characters(&reference.text).into_owned();
                Block::Reference(reference)
            }
        });
    }
    Ok(blocks)
}

fn resolve_reference(state: &ServerContext, pending: PendingReference) -> Result<Reference> {
    let PendingReference {
        kind,
        uri,
        span,
        text,
    } = pending;
    let path = uri::path_of(&uri).map_err(|error| invalid_param("prompt", error.to_string()))?;
    let lines = span.map(|span| (span.first, span.last));
    // Documents are known by their resolved paths: this path may be another way to the same file.
    let real = follow_reference(&state.build_roots(), &path);
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
    let real = real.map_err(|error| invalid_param("prompt", error.to_string()))?;
    let loaded = load_file(state.workspace.overlay(), &real)
        .map_err(|error| invalid_param("prompt", format!("{}: {error}", path.display())))?;
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
    let redactor = state.sessions.redactor();
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
