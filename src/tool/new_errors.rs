//! Tells the model which errors an edit brought, from the editor's diagnostics (R-LANG).
//!
//! Compares what the editor reports before and after the edit. Only files that are open there are waited for: for
//! others, most language servers report nothing. Must not judge the edit; it is made either way.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::diagnostics::write_diagnostic;
use super::files;
use super::{DiagnosticSeverity, DiagnosticsRequest, EditorDiagnostic, ToolContext, ToolOutput};

/// Time for the editor to say what it knows before the edit.
const BEFORE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the language servers to report after the edit.
const AFTER_TIMEOUT: Duration = Duration::from_secs(2);
/// Further time for the answer itself.
const GRACE: Duration = Duration::from_millis(500);
/// Most errors that a result lists.
const MAX_LISTED: usize = 10;

/// The errors that the editor reported before an edit.
pub(super) struct ErrorBaseline {
    path: PathBuf,
    /// As the editor spells it.
    uri: String,
    /// How often each file had an error of each text. Lines do not count: an edit moves them.
    known: HashMap<(String, String), usize>,
}

/// Records the errors that the editor knows, if the resolved `path` is open there.
pub(super) async fn record_errors(cx: &ToolContext, path: &Path) -> Option<ErrorBaseline> {
    if !cx.reports_new_errors || !cx.editor.abilities().diagnostics {
        return None;
    }
    let (inner, looked_up) = (cx.clone(), path.to_owned());
    let open = files::run_blocking(cx, move |_| {
        Ok(inner.workspace.overlay().find_open_document(&looked_up))
    });
    let uri = open.await.ok()??.uri;
    let found = request_errors(cx, DiagnosticsRequest::default(), BEFORE_TIMEOUT).await?;
    let mut known = HashMap::new();
    for error in found {
        *known.entry((error.uri, error.message)).or_default() += 1;
    }
    Some(ErrorBaseline {
        path: path.to_owned(),
        uri,
        known,
    })
}

impl ErrorBaseline {
    /// Adds the errors to the result that were not there before, once the language servers have read the new text.
    pub(super) async fn add_new_errors(mut self, cx: &ToolContext, output: &mut ToolOutput) {
        let wait = DiagnosticsRequest {
            uri: None,
            wait_for: Some((self.uri.clone(), AFTER_TIMEOUT)),
        };
        let Some(found) = request_errors(cx, wait, AFTER_TIMEOUT + GRACE).await else {
            return;
        };
        let mut fresh: Vec<EditorDiagnostic> = Vec::new();
        for error in found {
            match self.known.get_mut(&(error.uri.clone(), error.message.clone())) {
                Some(count) if *count > 0 => *count -= 1,
                _ => fresh.push(error),
            }
        }
        fresh.sort_by(|a, b| {
            (a.uri != self.uri, &a.uri, a.range.start).cmp(&(b.uri != self.uri, &b.uri, b.range.start))
        });
        let mut list = String::new();
        let mut count = 0;
        for error in &fresh {
            let Ok(file) = cx.workspace.resolve_path(&cx.cwd, &error.uri) else {
                continue;
            };
            if file.absolute != self.path && (!file.inside || file.secret) {
                continue;
            }
            count += 1;
            if count <= MAX_LISTED {
                write_diagnostic(&mut list, &files::display_path(cx, &file.absolute), error);
            }
        }
        if count == 0 {
            return;
        }
        let word = if count == 1 { "error" } else { "errors" };
        let more = count.saturating_sub(MAX_LISTED);
        output.text.push_str(&format!(
            "\nThe editor reports {count} new {word}:\n{}",
            list.trim_end()
        ));
        if more > 0 {
            output.text.push_str(&format!("\n[{more} more]"));
        }
    }
}

/// Returns the errors that the editor reports; `None` if it does not answer in time or the turn is canceled.
async fn request_errors(
    cx: &ToolContext,
    request: DiagnosticsRequest,
    limit: Duration,
) -> Option<Vec<EditorDiagnostic>> {
    let answer = tokio::time::timeout(limit, cx.editor.request_diagnostics(request));
    let mut found = tokio::select! { biased;
        () = cx.cancel.cancelled() => return None,
        answer = answer => answer.ok()?.ok()?,
    };
    found.retain(|one| one.severity == DiagnosticSeverity::Error);
    Some(found)
}
