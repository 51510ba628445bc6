//! Requests to the client's editor, each with a timeout: edits and saving for tools (R-TOOL-3), API keys (R-SEC).
//!
//! Passes the client's answers on without judging them: only the document's text shows whether an edit was made.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client_info::ClientInfo;
use super::language_query::{self, to_editor_error, to_range};
use super::lsp::ApplyEditResult;
use crate::base::clock;
use crate::base::position::Position;
use crate::base::text::one_line;
use crate::protocol::table::method;
use crate::protocol::{
    Diagnostic, GetCredentialParams, GetCredentialResult, GetDiagnosticsParams, GetDiagnosticsResult,
    SaveDocumentsParams, SaveDocumentsResult, Severity,
};
use crate::store::StoreHandle;
use crate::tool::{
    self, DiagnosticsAnswer, DiagnosticsRequest, DocumentEdit, EditorAbilities, EditorDiagnostic,
    EditorError, EditorLink, LanguageAnswer, LanguageQuery,
};
use crate::transport::ClientRequests;

/// Time after which an unanswered request counts as failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests to the client's editor.
pub(super) struct ClientEditor {
    /// Facts that the client reported about itself.
    client: Arc<Mutex<ClientInfo>>,
    /// Flushed before each request: requests use a channel of their own and must not overtake earlier events.
    events: StoreHandle,
    requests: ClientRequests,
}

impl ClientEditor {
    /// Creates the link to the editor of the client with these abilities.
    pub(super) fn new(client: Arc<Mutex<ClientInfo>>, events: StoreHandle, requests: ClientRequests) -> Self {
        Self {
            client,
            events,
            requests,
        }
    }

    fn send_request<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> BoxFuture<'static, Result<T, EditorError>> {
        let (requests, events) = (self.requests.clone(), self.events.clone());
        let params = serde_json::to_value(params);
        Box::pin(async move {
            let malformed =
                |error: serde_json::Error| EditorError::Refused(one_line(&error.to_string(), 300));
            let params = params.map_err(malformed)?;
            let request = async {
                // A client joins the edits of a turn, so it must know the start of the turn first. The error of a
                // store that has ended is ignored: it passes no events on.
                let _ = events.flush_writes().await;
                requests.send(method, &params).wait().await
            };
            match clock::timeout(limit, request).await {
                Ok(Ok(answer)) => serde_json::from_value(answer).map_err(malformed),
                Ok(Err(refusal)) => Err(to_editor_error(&refusal)),
                Err(_) => Err(EditorError::Silent(limit)),
            }
        })
    }
}

impl EditorLink for ClientEditor {
    fn abilities(&self) -> EditorAbilities {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).editor
    }

    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        let request =
            self.send_request::<ApplyEditResult>("workspace/applyEdit", to_wire_edit(&edit), REQUEST_TIMEOUT);
        Box::pin(async move {
            let answer = request.await?;
            if answer.applied {
                Ok(())
            } else {
                Err(EditorError::Refused(answer.failure_reason.map_or_else(
                    || "it gave no reason".to_owned(),
                    |reason| one_line(&reason, 300),
                )))
            }
        })
    }

    fn save_document(&self, uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        let params = SaveDocumentsParams {
            uris: vec![uri.clone()],
        };
        let request =
            self.send_request::<SaveDocumentsResult>(method::SAVE_DOCUMENTS, params, REQUEST_TIMEOUT);
        Box::pin(async move {
            let answer = request.await?;
            let failed = answer.failed.into_iter().find(|failed| failed.uri == uri);
            Ok(match failed {
                Some(failed) => Some(one_line(&failed.reason, 300)),
                None if answer.saved.contains(&uri) => None,
                // Fail closed: a document counts as saved only if the client says so.
                None => Some("the editor did not report whether it saved the file".to_owned()),
            })
        })
    }

    fn request_diagnostics(
        &self,
        request: DiagnosticsRequest,
    ) -> BoxFuture<'static, Result<DiagnosticsAnswer, EditorError>> {
        let mut awaited = request.wait_for.into_iter();
        let wait_for = awaited.next();
        let max_wait = u32::try_from(request.max_wait.as_millis()).unwrap_or(u32::MAX);
        let answer = self.send_request::<GetDiagnosticsResult>(
            method::GET_DIAGNOSTICS,
            GetDiagnosticsParams {
                uri: request.uri,
                wait_ms: wait_for.is_some().then_some(max_wait),
                wait_for,
                also_wait_for: awaited.collect(),
            },
            REQUEST_TIMEOUT + request.max_wait,
        );
        Box::pin(async move {
            let answer = answer.await?;
            Ok(DiagnosticsAnswer {
                found: answer.diagnostics.into_iter().map(to_editor_diagnostic).collect(),
                unreported: answer.unreported,
            })
        })
    }

    fn query_language(
        &self,
        query: LanguageQuery,
    ) -> BoxFuture<'static, Result<LanguageAnswer, EditorError>> {
        Box::pin(language_query::send_query(self.requests.clone(), query))
    }

    fn request_credential(
        &self,
        provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
        // Its result is parsed here: an error that quotes what cannot be parsed could show a key.
        let request = self.send_request::<Value>(
            method::GET_CREDENTIAL,
            GetCredentialParams { provider },
            REQUEST_TIMEOUT,
        );
        Box::pin(async move {
            // An editor without a key may also answer `null`.
            match serde_json::from_value::<Option<GetCredentialResult>>(request.await?) {
                Ok(answer) => Ok(answer.and_then(|answer| answer.api_key).map(SecretString::from)),
                Err(_) => Err(EditorError::Failed("its answer is malformed".to_owned())),
            }
        })
    }
}

fn to_editor_diagnostic(one: Diagnostic) -> EditorDiagnostic {
    EditorDiagnostic {
        uri: one.uri,
        range: to_range(one.range),
        severity: match one.severity {
            Some(Severity::Error) | None => tool::DiagnosticSeverity::Error,
            Some(Severity::Warning) => tool::DiagnosticSeverity::Warning,
            Some(Severity::Information) => tool::DiagnosticSeverity::Information,
            Some(Severity::Hint) => tool::DiagnosticSeverity::Hint,
        },
        message: one.message,
        source: one.source,
    }
}

fn to_wire_edit(edit: &DocumentEdit) -> Value {
    let to_position = |at: Position| json!({"line": at.line, "character": at.character});
    let edits: Vec<Value> = edit
        .edits
        .iter()
        .map(|edit| {
            let range = json!({"start": to_position(edit.range.start), "end": to_position(edit.range.end)});
            json!({"range": range, "newText": edit.text})
        })
        .collect();
    json!({
        "label": edit.label,
        "edit": {
            "documentChanges": [{
                "textDocument": {"uri": edit.uri, "version": edit.version},
                "edits": edits,
            }],
        },
    })
}
