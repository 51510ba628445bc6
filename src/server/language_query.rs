//! Sends `agent/languageQuery` to the client, with a time limit and a cancel (R-LANG).
//!
//! Converts between the wire and the types of tools. Must not know what a tool makes of an answer.

use std::time::Duration;

use crate::base::clock;
use crate::base::position::{self, Range};
use crate::base::text::one_line;
use crate::protocol::table::method;
use crate::protocol::{LanguageQueryKind as WireKind, LanguageQueryParams, LanguageQueryResult, Position};
use crate::tool::{
    DocumentEdits, EditorError, EditorLocation, EditorQuickFix, EditorSymbol, LanguageAnswer, LanguageQuery,
    LanguageQueryKind,
};
use crate::transport::ClientRequests;
use crate::workspace::text_edits::TextEdit;

/// Time after which an unanswered query counts as failed.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the client. Dropping the future cancels the request.
pub(super) async fn send_query(
    requests: ClientRequests,
    query: LanguageQuery,
) -> Result<LanguageAnswer, EditorError> {
    let malformed = |error: serde_json::Error| {
        EditorError::Failed(format!(
            "its answer is malformed: {}",
            one_line(&error.to_string(), 200)
        ))
    };
    let params = serde_json::to_value(to_wire_query(query)).map_err(malformed)?;
    let mut request = requests.send(method::LANGUAGE_QUERY, &params);
    let result = clock::timeout(QUERY_TIMEOUT, request.wait())
        .await
        .map_err(|_| EditorError::Silent(QUERY_TIMEOUT))?
        .map_err(|refusal| to_editor_error(&refusal))?;
    // An editor that found nothing may also answer `null`.
    let answer = serde_json::from_value::<Option<LanguageQueryResult>>(result).map_err(malformed)?;
    Ok(to_answer(answer.unwrap_or_default()))
}

fn to_wire_query(query: LanguageQuery) -> LanguageQueryParams {
    LanguageQueryParams {
        kind: match query.kind {
            LanguageQueryKind::Definition => WireKind::Definition,
            LanguageQueryKind::Implementation => WireKind::Implementation,
            LanguageQueryKind::TypeDefinition => WireKind::TypeDefinition,
            LanguageQueryKind::References => WireKind::References,
            LanguageQueryKind::IncomingCalls => WireKind::IncomingCalls,
            LanguageQueryKind::OutgoingCalls => WireKind::OutgoingCalls,
            LanguageQueryKind::Hover => WireKind::Hover,
            LanguageQueryKind::DocumentSymbols => WireKind::DocumentSymbols,
            LanguageQueryKind::WorkspaceSymbols => WireKind::WorkspaceSymbols,
            LanguageQueryKind::Rename => WireKind::Rename,
            LanguageQueryKind::QuickFixes => WireKind::QuickFixes,
            LanguageQueryKind::Format => WireKind::Format,
        },
        uri: query.uri,
        position: query.position.map(|at| Position {
            line: at.line,
            character: at.character,
        }),
        query: query.text,
        limit: query.limit,
    }
}

fn to_answer(mut result: LanguageQueryResult) -> LanguageAnswer {
    let symbols = result.symbols.into_iter().map(|symbol| EditorSymbol {
        name: symbol.name,
        kind: symbol.kind,
        location: EditorLocation {
            uri: symbol.uri,
            range: to_range(symbol.range),
        },
        selection: symbol.selection_range.map(to_range),
        container: symbol.container_name.filter(|name| !name.is_empty()),
    });
    let locations = result.locations.into_iter().map(|location| EditorLocation {
        uri: location.uri,
        range: to_range(location.range),
    });
    result.fixes.sort_by_key(|fix| !fix.is_preferred);
    let fixes = result.fixes.into_iter().map(|fix| EditorQuickFix {
        title: fix.title,
        edits: fix.edits.into_iter().map(to_edits).collect(),
    });
    LanguageAnswer {
        edits: result.edits.into_iter().map(to_edits).collect(),
        fixes: fixes.collect(),
        symbols: symbols.collect(),
        locations: locations.collect(),
        text: result.text.unwrap_or_default(),
    }
}

fn to_edits(document: crate::protocol::DocumentEdits) -> DocumentEdits {
    let edits = document.edits.into_iter().map(|edit| TextEdit {
        range: to_range(edit.range),
        text: edit.new_text,
    });
    DocumentEdits {
        uri: document.uri,
        edits: edits.collect(),
    }
}

/// Converts a range of the wire.
pub(super) fn to_range(range: crate::protocol::Range) -> Range {
    let to_position = |at: Position| position::Position {
        line: at.line,
        character: at.character,
    };
    Range {
        start: to_position(range.start),
        end: to_position(range.end),
    }
}

/// Converts the client's refusal.
pub(super) fn to_editor_error(refusal: &str) -> EditorError {
    EditorError::Refused(one_line(refusal, 300))
}
