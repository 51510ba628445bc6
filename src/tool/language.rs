//! What the tools that ask language servers share: the questions, and lists of places.
//!
//! Models are bad at columns, so a symbol is addressed by its name, its file, and a line at most;
//! [`super::locate_symbol`] finds its position. Must not know the protocol; [`super::EditorLink`] asks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures::future::join_all;

use super::files;
use super::output::refuse_input;
use super::symbol_path::{is_callable, path_of};
use super::{
    EditorError, EditorLocation, EditorSymbol, LanguageAnswer, LanguageQuery, LanguageQueryKind, ToolContext,
    ToolError,
};
use crate::base::nofollow::{self, FileKind};
use crate::base::position::{Position, Range};
use crate::base::text::{one_line, prefix_within, strip_control_characters};
use crate::base::uri;
use crate::workspace::ResolvedPath;

/// Most places that a result lists.
pub(super) const MAX_PLACES: usize = 100;
/// Most symbols of a document that are asked for.
pub(super) const MAX_SYMBOLS: u32 = 5_000;
/// Most files whose symbols are asked for, to name what encloses a place.
const MAX_OUTLINED: usize = 10;
/// Longest line shown, in characters.
const MAX_LINE: usize = 200;
/// Longest signature and documentation of a symbol, in bytes.
const MAX_HOVER: usize = 1_500;

/// A file that a question is about.
pub(super) struct QueryTarget {
    pub(super) file: ResolvedPath,
    /// The URI of the file, as the editor spells it if the file is open.
    pub(super) uri: String,
    pub(super) text: String,
}

/// Asks the editor; a cancel ends the wait.
pub(super) async fn query(cx: &ToolContext, query: LanguageQuery) -> Result<LanguageAnswer, ToolError> {
    let answer = request_answer(cx, query).await?;
    answer.map_err(|error| ToolError::Reported(error.to_string()))
}

pub(super) async fn request_answer(
    cx: &ToolContext,
    query: LanguageQuery,
) -> Result<Result<LanguageAnswer, EditorError>, ToolError> {
    tokio::select! { biased;
        () = cx.cancel.cancelled() => Err(ToolError::Cancelled),
        answer = cx.editor.query_language(query) => Ok(answer),
    }
}

/// Builds the question for the symbols of a document.
pub(super) fn outline_query(uri: String) -> LanguageQuery {
    LanguageQuery::new(LanguageQueryKind::DocumentSymbols, uri, None, MAX_SYMBOLS)
}

/// Resolves the file `path` of a call, and reads its text.
pub(super) async fn open_target(cx: &ToolContext, path: &str) -> Result<QueryTarget, ToolError> {
    let (inner, path) = (cx.clone(), path.to_owned());
    files::run_blocking(cx, move |_| {
        let file = inner.resolve_path(&path)?;
        match nofollow::kind(&file.absolute) {
            Some(FileKind::Folder) => return refuse_input(format!("`{path}` is a folder; name a file")),
            Some(_) => {}
            None => {
                let suggestions = files::suggest_similar_paths(&inner, &file.absolute);
                return refuse_input(format!("`{path}` does not exist{suggestions}"));
            }
        }
        let open = inner.workspace.overlay().find_open_document(&file.absolute);
        Ok(QueryTarget {
            uri: open.map_or_else(|| uri::uri_of(&file.absolute), |open| open.uri),
            text: inner.workspace.load_file(&file.absolute)?.file.text,
            file,
        })
    })
    .await
}

/// A place to list, with what is said about it besides its line.
pub(super) struct Place {
    pub(super) at: EditorLocation,
    pub(super) note: Option<String>,
}

/// Lists places: `path:line: text`, with the symbol that encloses each. Returns how many there are in how many files.
pub(super) async fn list_locations(
    cx: &ToolContext,
    mut locations: Vec<EditorLocation>,
) -> Result<(String, usize, usize), ToolError> {
    locations.sort_by(|a, b| (&a.uri, a.range.start).cmp(&(&b.uri, b.range.start)));
    locations.dedup_by(|a, b| a.uri == b.uri && a.range.start == b.range.start);
    locations.truncate(MAX_PLACES);
    let mut uris: Vec<String> = locations.iter().map(|one| one.uri.clone()).collect();
    uris.dedup();
    let count = (locations.len(), uris.len());
    uris.retain(|uri| is_readable(cx, uri));
    uris.truncate(MAX_OUTLINED);
    let asked = uris
        .iter()
        .map(|uri| request_answer(cx, outline_query(uri.clone())));
    let mut outlines = BTreeMap::new();
    for (uri, outline) in uris.iter().zip(join_all(asked).await) {
        // Without an outline, what encloses a place is not said.
        outlines.insert(uri.as_str(), outline?.unwrap_or_default().symbols);
    }
    let places = locations.into_iter().map(|at| {
        let outline = outlines.get(at.uri.as_str());
        let enclosing = outline.and_then(|outline| Some((find_enclosing(outline, at.range)?, outline)));
        let note = enclosing.map(|(symbol, outline)| {
            let name = path_of(symbol, outline).join(".");
            format!("in {}", shorten_name(&name))
        });
        Place { at, note }
    });
    let text = format_places(cx, places.collect()).await?;
    Ok((text, count.0, count.1))
}

/// Adds the signature and documentation of the symbol at a position, if the model may read all files that define it.
pub(super) async fn add_hover(
    cx: &ToolContext,
    text: &mut String,
    (uri, at): (String, Position),
    definitions: &[EditorLocation],
) -> Result<(), ToolError> {
    if definitions.is_empty() || !definitions.iter().all(|one| is_readable(cx, &one.uri)) {
        return Ok(());
    }
    let query = LanguageQuery::new(LanguageQueryKind::Hover, uri, Some(at), 1);
    // It is only an addition, which not every client has.
    let hover = request_answer(cx, query).await?.unwrap_or_default().text;
    let hover = strip_control_characters(&hover);
    let hover = hover.trim();
    if !hover.is_empty() {
        let shown = prefix_within(hover, MAX_HOVER);
        let cut = if shown.len() < hover.len() { " […]" } else { "" };
        let _ = writeln!(text, "[signature and documentation]\n{shown}{cut}");
    }
    Ok(())
}

/// Returns whether the model may see lines of the file without asking.
pub(super) fn is_readable(cx: &ToolContext, uri: &str) -> bool {
    let resolved = cx.workspace.resolve_path(&cx.cwd, uri);
    resolved.is_ok_and(|file| file.inside && !file.secret)
}

/// Formats the places in their order. A file outside the workspace or with secrets is named, but not read.
pub(super) async fn format_places(cx: &ToolContext, places: Vec<Place>) -> Result<String, ToolError> {
    let inner = cx.clone();
    files::run_blocking(cx, move |_| {
        let mut texts: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut list = String::new();
        for Place { at, note } in places {
            let Ok(file) = inner.workspace.resolve_path(&inner.cwd, &at.uri) else {
                // Without a local path, the URI is all there is.
                let _ = writeln!(list, "{}", one_line(&strip_control_characters(&at.uri), MAX_LINE));
                continue;
            };
            let text = texts.entry(at.uri).or_insert_with(|| {
                let loaded = inner.workspace.load_file(&file.absolute);
                loaded
                    .ok()
                    .filter(|_| file.inside && !file.secret)
                    .map(|loaded| loaded.file.text)
            });
            let line = text
                .as_deref()
                .and_then(|text| text.lines().nth(at.range.start.line as usize));
            let line = line.map(|line| one_line(&strip_control_characters(line), MAX_LINE));
            let shown = line.map_or_else(String::new, |line| format!(": {line}"));
            let note = note.map_or_else(String::new, |note| format!("  ({note})"));
            let path = files::display_path(&inner, &file.absolute);
            let _ = writeln!(list, "{path}:{}{shown}{note}", at.range.start.line + 1);
        }
        Ok(list)
    })
    .await
}

/// Returns the innermost symbol round `place` that is not named there itself.
fn find_enclosing(outline: &[EditorSymbol], place: Range) -> Option<&EditorSymbol> {
    let size = |range: Range| (range.end.line - range.start.line, range.end.character);
    outline
        .iter()
        .filter(|symbol| {
            let range = symbol.location.range;
            let is_named_here = symbol.selection.unwrap_or(range).start == place.start;
            // A variable of one line does not tell where it is.
            let is_body = range.end.line > range.start.line || is_callable(symbol.kind);
            range.start <= place.start && place.end <= range.end && !is_named_here && is_body
        })
        .min_by_key(|symbol| size(symbol.location.range))
}

/// Describes a symbol by its kind and what contains it.
pub(super) fn describe_symbol(symbol: &EditorSymbol) -> String {
    const KINDS: &str = "file,module,namespace,package,class,method,property,field,constructor,enum,interface,function,\
        variable,constant,string,number,boolean,array,object,key,null,enum member,struct,event,operator,type parameter";
    let index = symbol
        .kind
        .checked_sub(1)
        .and_then(|index| usize::try_from(index).ok());
    let kind = index
        .and_then(|index| KINDS.split(',').nth(index))
        .unwrap_or("symbol");
    let container = symbol.container.as_deref();
    let container = container.map(|name| format!(" in {}", shorten_name(name)));
    format!(
        "{kind} {}{}",
        shorten_name(&symbol.name),
        container.unwrap_or_default()
    )
}

pub(super) fn shorten_name(name: &str) -> String {
    one_line(&strip_control_characters(name), 80)
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod tests;
