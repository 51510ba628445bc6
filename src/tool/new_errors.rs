//! Tells the model which errors an edit brought, from the editor's diagnostics (R-LANG).
//!
//! Compares what the editor reports before and after the edit. The editor loads files that are not open there, because
//! most language servers report only about open ones. Must not judge the edit; it is made either way.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use super::diagnostics::write_diagnostic;
use super::files;
use super::{DiagnosticSeverity, DiagnosticsAnswer, DiagnosticsRequest, ToolContext, ToolOutput};
use crate::base::clock;
use crate::base::nofollow::{self, FileKind};
use crate::base::uri;
use crate::workspace::ResolvedPath;

/// Further time for the answer itself.
const GRACE: Duration = Duration::from_millis(500);
/// Most errors that a result lists.
const MAX_LISTED: usize = 10;
/// Most files that one edit lets the editor load.
const MAX_LOADED: usize = 20;

/// The errors that the editor reported before an edit.
pub(super) struct ErrorBaseline {
    documents: Vec<EditedDocument>,
    /// Time for the language servers to report after the edit, for all files together.
    wait: Duration,
    /// How often each file had an error of each text. Lines do not count: an edit moves them.
    known: HashMap<(String, String), usize>,
}

/// A file that the edit changes, as far as the editor can report about it.
struct EditedDocument {
    path: PathBuf,
    /// As the editor spells it.
    uri: String,
    /// Whether its errors before the edit are known only once the editor has loaded it.
    needs_loading: bool,
    /// Whether the language servers had not reported about it before the edit.
    is_unreported: bool,
}

/// Records the errors that the editor knows before these files change.
pub(super) async fn record_errors(cx: &ToolContext, targets: Vec<ResolvedPath>) -> Option<ErrorBaseline> {
    let wait = cx.new_errors_wait.filter(|_| cx.editor.abilities().diagnostics)?;
    let inner = cx.clone();
    let documents = files::run_blocking(cx, move |_| Ok(list_documents(&inner, targets)));
    let mut documents = documents.await.ok().filter(|all| !all.is_empty())?;
    let closed = documents.iter().filter(|document| document.needs_loading);
    let request = DiagnosticsRequest {
        uri: None,
        wait_for: closed.map(|document| document.uri.clone()).collect(),
        // The editor loads the files that are not open.
        max_wait: wait / 2,
    };
    let answer = request_errors(cx, request).await?;
    for document in &mut documents {
        document.is_unreported = answer.unreported.contains(&document.uri);
    }
    let mut known = HashMap::new();
    for error in answer.found {
        *known.entry((error.uri, error.message)).or_default() += 1;
    }
    Some(ErrorBaseline {
        documents,
        wait,
        known,
    })
}

/// Returns the files that are open, and of the others those that the editor may load.
fn list_documents(cx: &ToolContext, targets: Vec<ResolvedPath>) -> Vec<EditedDocument> {
    let (mut documents, mut closed) = (Vec::new(), 0);
    for target in targets {
        let path = target.absolute;
        let open = cx.workspace.overlay().find_open_document(&path);
        if open.is_none() {
            closed += 1;
            if !target.inside || target.secret || closed > MAX_LOADED {
                continue;
            }
        }
        documents.push(EditedDocument {
            needs_loading: open.is_none() && nofollow::kind(&path) == Some(FileKind::Regular),
            uri: open.map_or_else(|| uri::uri_of(&path), |open| open.uri),
            path,
            is_unreported: false,
        });
    }
    documents
}

impl ErrorBaseline {
    /// Adds the errors to the result that were not there before, once the language servers have read the new text.
    pub(super) async fn add_new_errors(mut self, cx: &ToolContext, output: &mut ToolOutput) {
        let request = DiagnosticsRequest {
            uri: None,
            wait_for: self
                .documents
                .iter()
                .map(|document| document.uri.clone())
                .collect(),
            max_wait: self.wait,
        };
        let Some(DiagnosticsAnswer { mut found, .. }) = request_errors(cx, request).await else {
            return;
        };
        found.retain(
            |error| match self.known.get_mut(&(error.uri.clone(), error.message.clone())) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            },
        );
        let mut listed = Vec::new();
        for error in found {
            let Ok(file) = cx.workspace.resolve_path(&cx.cwd, &error.uri) else {
                continue;
            };
            let edited = self.documents.iter().position(|one| one.path == file.absolute);
            if edited.is_some() || (file.inside && !file.secret) {
                listed.push((edited.unwrap_or(usize::MAX), file.absolute, error));
            }
        }
        listed.sort_by(|(edited, path, error), (other_edited, other_path, other)| {
            (edited, path, error.range.start).cmp(&(other_edited, other_path, other.range.start))
        });
        let mut list = String::new();
        for (_, path, error) in listed.iter().take(MAX_LISTED) {
            write_diagnostic(&mut list, &files::display_path(cx, path), error);
        }
        let count = listed.len();
        if count == 0 {
            return;
        }
        let may_be_old = |(edited, ..): &(usize, _, _)| {
            let document = self.documents.get(*edited);
            document.is_some_and(|document| document.is_unreported)
        };
        let word = if count == 1 { "error" } else { "errors" };
        let what = if listed.iter().any(may_be_old) {
            format!("{count} {word}, perhaps older than this edit")
        } else {
            format!("{count} new {word}")
        };
        output
            .text
            .push_str(&format!("\nThe editor reports {what}:\n{}", list.trim_end()));
        let more = count.saturating_sub(MAX_LISTED);
        if more > 0 {
            output.text.push_str(&format!("\n[{more} more]"));
        }
    }
}

/// Returns the errors that the editor reports; `None` if it does not answer in time or the turn is canceled.
async fn request_errors(cx: &ToolContext, request: DiagnosticsRequest) -> Option<DiagnosticsAnswer> {
    let limit = request.max_wait + GRACE;
    let answer = clock::timeout(limit, cx.editor.request_diagnostics(request));
    let mut answer = tokio::select! { biased;
        () = cx.cancel.cancelled() => return None,
        answer = answer => answer.ok()?.ok()?,
    };
    answer
        .found
        .retain(|one| one.severity == DiagnosticSeverity::Error);
    Some(answer)
}
