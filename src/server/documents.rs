//! The editor's documents: kept in sync, and read where a prompt refers to them.
//!
//! Converts LSP's document notifications for the overlay, which owns the texts. Judges no paths.

use tower_lsp::jsonrpc::Result;

use super::from_wire::{self, PromptPart};
use super::language_query::to_range;
use super::lsp::{DidChangeParams, DidCloseParams, DidOpenParams, DidSaveParams, DocumentVersion};
use super::state::{ServerContext, invalid_param};
use crate::base::position::DocumentChange;
use crate::base::spawn::{run_blocking, spawn};
use crate::domain::Block;
use crate::protocol::PromptContent;
use crate::session::resolve_reference;

pub(super) fn did_open(state: &ServerContext, params: DidOpenParams) {
    let document = params.text_document;
    state
        .workspace
        .overlay()
        .did_open(&document.uri, document.version, &document.text);
}

pub(super) fn did_change(state: &ServerContext, params: DidChangeParams) {
    let changes: Vec<DocumentChange> = params
        .content_changes
        .into_iter()
        .map(|change| DocumentChange {
            range: change.range.map(to_range),
            text: change.text,
        })
        .collect();
    let DocumentVersion { uri, version } = params.text_document;
    if state.workspace.overlay().did_change(&uri, version, changes) {
        let workspace = state.workspace.clone();
        // Not part of the notification: too many that run at once would be dropped. A lookup does not rely on it either.
        spawn(run_blocking(move || {
            workspace.overlay().apply_waiting_changes(&uri)
        }))
        .detach();
    }
}

pub(super) fn did_save(state: &ServerContext, params: DidSaveParams) {
    state
        .workspace
        .overlay()
        .did_save(&params.text_document.uri, params.text.as_deref());
}

pub(super) fn did_close(state: &ServerContext, params: DidCloseParams) {
    state.workspace.overlay().did_close(&params.text_document.uri);
}

/// Compares a document with its file, so that the text of a clean one need not be kept. Reads the disk.
pub(super) async fn compare_with_file(state: &ServerContext, uri: String) {
    let workspace = state.workspace.clone();
    let settled = tokio::task::spawn_blocking(move || workspace.overlay().reconcile_with_disk(&uri)).await;
    if let Err(error) = settled {
        tracing::warn!(%error, "a document was not compared with its file");
    }
}

/// Converts a prompt's content and adds what its references lead to.
///
/// Reads files without an await, briefly, so that prompts keep their order.
pub(super) fn load_prompt_content(state: &ServerContext, prompt: PromptContent) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for piece in from_wire::parse_prompt(prompt)? {
        match piece {
            PromptPart::Block(block) => blocks.push(block),
            PromptPart::Reference(pending) => {
                let redactor = state.sessions.redactor();
                let resolved = resolve_reference(&state.workspace, &state.build_roots(), redactor, pending);
                blocks.extend(resolved.map_err(|problem| invalid_param("prompt", problem))?);
            }
        }
    }
    Ok(blocks)
}
