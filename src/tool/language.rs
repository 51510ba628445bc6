//! What the tools that ask language servers share: finding a symbol's position by its name, and listing places.
//!
//! Models are bad at columns, so a symbol is addressed by its name, its file, and a line at most. Must not know the
//! protocol; [`super::EditorLink`] asks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures::future::join_all;

use super::files;
use super::output::{fail_with_message, refuse_input};
use super::{
    EditorError, EditorLocation, EditorSymbol, LanguageAnswer, LanguageQuery, LanguageQueryKind, ToolContext,
    ToolError,
};
use crate::base::nofollow::{self, FileKind};
use crate::base::position::{self, Position, Range};
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
    text: String,
}

/// Asks the editor; a cancel ends the wait.
pub(super) async fn query(cx: &ToolContext, query: LanguageQuery) -> Result<LanguageAnswer, ToolError> {
    let answer = request_answer(cx, query).await?;
    answer.map_err(|error| ToolError::Reported(error.to_string()))
}

async fn request_answer(
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
    LanguageQuery {
        kind: LanguageQueryKind::DocumentSymbols,
        uri: Some(uri),
        position: None,
        text: None,
        limit: MAX_SYMBOLS,
    }
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

/// Returns a position in the symbol of this name: on `line`, else at its declaration, else where it first occurs.
pub(super) async fn locate_symbol(
    cx: &ToolContext,
    target: &QueryTarget,
    symbol: &str,
    line: Option<u32>,
) -> Result<Position, ToolError> {
    let encoding = cx.workspace.overlay().position_encoding();
    let (container, name) = split_name(symbol);
    let lines = find_name(&target.text, name);
    if lines.is_empty() {
        return refuse_input(format!(
            "`{name}` does not occur in {}; find_symbol and grep tell where it does",
            target.file.display
        ));
    }
    let to_position = |(line, offset): (u32, usize)| Position {
        line,
        character: position::position_of(&target.text, offset, encoding).character,
    };
    if let Some(wanted) = line {
        let found = lines.iter().find(|(line, _)| line + 1 == wanted);
        return match found {
            Some(found) => Ok(to_position(*found)),
            None => refuse_input(format!(
                "`{name}` does not occur in line {wanted} of {}, but in {}",
                target.file.display,
                list_lines(lines.iter().map(|(line, _)| line + 1))
            )),
        };
    }
    let mut declared = match request_answer(cx, outline_query(target.uri.clone())).await? {
        Ok(outline) => outline.symbols,
        // The question that follows would wait as long.
        Err(error @ EditorError::Silent(_)) => return fail_with_message(error.to_string()),
        // Without an outline, the first occurrence is as good as any.
        Err(_) => Vec::new(),
    };
    declared.retain(|one| split_name(&one.name).1 == name);
    if let Some(container) = container {
        let is_inside = |one: &EditorSymbol| one.container.as_deref() == Some(container);
        if declared.iter().any(is_inside) {
            declared.retain(is_inside);
        }
    }
    let mut places: Vec<Position> = (declared.iter())
        .filter_map(|one| {
            let start = one.selection.unwrap_or(one.location.range).start;
            let named = lines.iter().find(|(line, _)| *line >= start.line)?;
            Some(if one.selection.is_some() {
                start
            } else {
                to_position(*named)
            })
        })
        .collect();
    places.sort_unstable();
    places.dedup_by_key(|at| at.line);
    match places[..] {
        [] => Ok(to_position(lines[0])),
        [at] => Ok(at),
        _ => refuse_input(format!(
            "{} declares `{name}` in {}; give `line`",
            target.file.display,
            list_lines(places.iter().map(|at| at.line + 1))
        )),
    }
}

/// Splits `Cart.total`, `Cart::total`, or `Cart#total()` into the container's and the symbol's name.
pub(super) fn split_name(symbol: &str) -> (Option<&str>, &str) {
    let symbol = symbol.trim();
    let symbol = symbol.split_once('(').map_or(symbol, |(name, _)| name);
    let mut parts = symbol.rsplit(['.', ':', '#']).filter(|part| !part.is_empty());
    let name = parts.next().unwrap_or(symbol);
    (parts.next(), name)
}

/// Finds the lines with `name` as a whole word: the line from 0, and the byte offset of the first occurrence in it.
fn find_name(text: &str, name: &str) -> Vec<(u32, usize)> {
    let is_word = |ch: char| ch.is_alphanumeric() || ch == '_' || ch == '$';
    let mut found = Vec::new();
    if name.is_empty() {
        return found;
    }
    let mut start = 0;
    for (number, line) in (0..).zip(text.split_inclusive('\n')) {
        let whole = line.match_indices(name).find(|(at, _)| {
            let after = line[at + name.len()..].chars().next();
            !line[..*at].chars().next_back().is_some_and(is_word) && !after.is_some_and(is_word)
        });
        found.extend(whole.map(|(at, _)| (number, start + at)));
        start += line.len();
    }
    found
}

fn list_lines(numbers: impl Iterator<Item = u32>) -> String {
    const MOST: usize = 10;
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    let more = if numbers.len() > MOST { ", …" } else { "" };
    format!("{word} {}{more}", numbers[..numbers.len().min(MOST)].join(", "))
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
        let enclosing = outlines
            .get(at.uri.as_str())
            .and_then(|outline| find_enclosing(outline, at.range));
        let note = enclosing.map(|symbol| format!("in {}", full_name(symbol)));
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
    let query = LanguageQuery {
        kind: LanguageQueryKind::Hover,
        uri: Some(uri),
        position: Some(at),
        text: None,
        limit: 1,
    };
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
fn is_readable(cx: &ToolContext, uri: &str) -> bool {
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

fn full_name(symbol: &EditorSymbol) -> String {
    let name = match &symbol.container {
        Some(container) => format!("{container}.{}", symbol.name),
        None => symbol.name.clone(),
    };
    shorten_name(&name)
}

fn is_callable(kind: u32) -> bool {
    // Method, constructor, function.
    [6, 9, 12].contains(&kind)
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

fn shorten_name(name: &str) -> String {
    one_line(&strip_control_characters(name), 80)
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod tests;
