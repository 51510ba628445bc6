//! Finds the position of a symbol in a file by its name, and by its line if the name is not enough.
//!
//! Never settles for another symbol of the same name. The outline of the file tells what is declared there. For the rest,
//! the definitions tell which occurrences of the name are the same symbol. If that does not decide, the call is refused
//! with the symbols to choose from. See [`super::symbol_path`] for the forms of names.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use super::language::{QueryTarget, is_readable, outline_query, request_answer, shorten_name};
use super::output::{fail_with_message, refuse_input};
use super::symbol_path::{is_of_word, match_path, path_at, path_of, split_path};
use super::{
    EditorError, EditorLocation, EditorSymbol, LanguageAnswer, LanguageQuery, LanguageQueryKind, ToolContext,
    ToolError,
};
use crate::base::position::{self, Position};

/// Most occurrences of a name whose definitions are asked for.
const MAX_ASKED: usize = 30;
/// Most lines or symbols that a refusal names.
const MAX_LISTED: usize = 10;

/// Finds the symbol of this name: on `line`, else its declaration, else its uses if all are of the same symbol. Returns a
/// position in it, and its name with what contains it as far as that is known.
pub(super) async fn locate_symbol(
    cx: &ToolContext,
    target: &QueryTarget,
    symbol: &str,
    line: Option<u32>,
) -> Result<(Position, String), ToolError> {
    let wanted = split_path(symbol);
    let name = wanted.last().map_or(symbol, String::as_str).to_owned();
    let mut places = find_name(&target.text, &name);
    let file = &target.file.display;
    if places.is_empty() || name.is_empty() {
        return refuse_input(format!(
            "`{name}` does not occur in {file}; find_symbol and grep tell where it does"
        ));
    }
    if let Some(line) = line {
        let lines = list_lines(&places);
        places.retain(|place| place.line + 1 == line);
        if places.is_empty() {
            return refuse_input(format!(
                "`{name}` does not occur in line {line} of {file}, but in {lines}"
            ));
        }
    }
    // JavaScript's `#total` is not `total`. Rust's `r#type` is `type`.
    let is_private = symbol.starts_with('#') || symbol.contains(".#");
    let is_meant = |place: &Place<'_>| {
        let before = place.before.strip_suffix('#');
        before.is_some_and(|before| !before.ends_with(is_of_word)) == is_private
    };
    if places.iter().any(is_meant) {
        places.retain(is_meant);
    }
    let is_only = places.len() == 1 && wanted.len() == 1;
    let search = Search {
        cx,
        target,
        wanted,
        name,
    };
    if is_only && line.is_some() {
        return Ok(search.locate(&places[0]));
    }
    let outline = query(cx, outline_query(target.uri.clone())).await?.symbols;
    search.find_declared(&outline, &mut places);
    if let Some(best) = places.iter().filter_map(|place| place.fit).max() {
        places.retain(|place| place.fit == Some(best));
    }
    match &places[..] {
        [only] if is_only || only.fit.is_some() => Ok(search.locate(only)),
        // Several declarations may be of one symbol too: the getter and the setter of a property.
        _ => search.choose(outline, places).await,
    }
}

/// Where the name occurs in the file.
#[derive(Default)]
struct Place<'t> {
    line: u32,
    offset: usize,
    /// The text of the line before it.
    before: &'t str,
    /// The path of the symbol; empty if it is not known.
    path: Vec<String>,
    /// How well the path of the symbol that is declared here fits.
    fit: Option<usize>,
    definition: Option<EditorLocation>,
}

impl Place<'_> {
    /// Returns the name with its qualifier as it stands in the file, such as `self.total`.
    fn qualify(&self, name: &str) -> String {
        let is_of_path = |letter| is_of_word(letter) || ".:->?".contains(letter);
        let qualifier = &self.before[self.before.trim_end_matches(is_of_path).len()..];
        let is_joined = [".", "::", "->"].iter().any(|joint| qualifier.ends_with(joint));
        format!("{}{name}", if is_joined { qualifier } else { "" })
    }
}

struct Search<'a> {
    cx: &'a ToolContext,
    target: &'a QueryTarget,
    /// The path of the call, and its last word.
    wanted: Vec<String>,
    name: String,
}

impl Search<'_> {
    fn locate(&self, place: &Place<'_>) -> (Position, String) {
        let encoding = self.cx.workspace.overlay().position_encoding();
        let mut at = position::position_of(place.before, place.before.len(), encoding);
        at.line = place.line;
        let name = match &place.path[..] {
            [] => place.qualify(&self.name),
            path => path.join("."),
        };
        (at, shorten_name(&name))
    }

    /// Notes which of the places are declarations, and of what.
    fn find_declared(&self, outline: &[EditorSymbol], places: &mut [Place<'_>]) {
        let encoding = self.cx.workspace.overlay().position_encoding();
        for symbol in outline {
            if split_path(&symbol.name).last() != Some(&self.name) {
                continue;
            }
            let range = symbol.selection.unwrap_or(symbol.location.range);
            let [start, end] =
                [range.start, range.end].map(|at| position::offset_of(&self.target.text, at, encoding));
            let next = places.partition_point(|place| place.offset < start);
            if let Some(place) = places.get_mut(next).filter(|place| place.offset <= end) {
                let path = path_of(symbol, outline);
                let fit = match_path(&path, &self.wanted);
                if place.path.is_empty() || fit > place.fit {
                    (place.path, place.fit) = (path, fit);
                }
            }
        }
    }

    /// Returns the first of the places that fit, if their definitions say that they are one symbol.
    async fn choose(
        &self,
        outline: Vec<EditorSymbol>,
        mut places: Vec<Place<'_>>,
    ) -> Result<(Position, String), ToolError> {
        let (symbol, name, file) = (self.wanted.join("."), &self.name, &self.target.file.display);
        if places.len() > MAX_ASKED {
            return refuse_input(format!("`{name}` occurs too often in {file}; give `line`"));
        }
        let definitions = join_all(places.iter().map(|place| self.query_definition(place))).await;
        for (place, definition) in places.iter_mut().zip(definitions) {
            place.definition = definition?;
        }
        // In comments and strings, there is none.
        if places.iter().any(|place| place.definition.is_some()) {
            places.retain(|place| place.definition.is_some());
        }
        let mut outlines = BTreeMap::from([(self.target.uri.clone(), outline)]);
        for place in places.iter_mut().filter(|place| place.path.is_empty()) {
            let uri = place.definition.as_ref().map_or("", |at| &at.uri).to_owned();
            if self.wanted.len() > 1 && !outlines.contains_key(&uri) && is_readable(self.cx, &uri) {
                let outline = query(self.cx, outline_query(uri.clone())).await?.symbols;
                outlines.insert(uri.clone(), outline);
            }
            if let (Some(at), Some(outline)) = (&place.definition, outlines.get(&uri)) {
                // Of a field, the function that assigns it is no part of the path.
                place.path = path_at(outline, at, name, !place.qualify("").is_empty());
            }
        }
        let fits = |path: &[String]| match_path(path, &self.wanted).is_some();
        let (meant, others): (Vec<_>, Vec<_>) = (places.into_iter())
            .partition(|place| fits(&place.path) || fits(&split_path(&place.qualify(name))));
        let is_same =
            |pair: &[Place<'_>]| pair[0].definition.is_some() && pair[0].definition == pair[1].definition;
        if let Some(first) = meant.first().filter(|_| meant.windows(2).all(is_same)) {
            return Ok(self.locate(first));
        }
        let found = if meant.is_empty() {
            format!("{file} has no `{symbol}`, but {}", self.list_symbols(&others))
        } else {
            format!("`{symbol}` in {file} may be {}", self.list_symbols(&meant))
        };
        refuse_input(format!(
            "{found}; give one of these names, or `{name}` with `line`"
        ))
    }

    async fn query_definition(&self, place: &Place<'_>) -> Result<Option<EditorLocation>, ToolError> {
        let at = Some(self.locate(place).0);
        let question = LanguageQuery::new(LanguageQueryKind::Definition, self.target.uri.clone(), at, 10);
        let found = query(self.cx, question).await?.locations;
        let key = |one: &EditorLocation| (one.uri.clone(), one.range.start);
        Ok(found.into_iter().min_by_key(key))
    }

    /// Lists the symbols with a line of each: that of the declaration if it is in the file.
    fn list_symbols(&self, places: &[Place<'_>]) -> String {
        let describe = |place: &Place<'_>| {
            let here = place.definition.as_ref().filter(|at| at.uri == self.target.uri);
            let line = here.map_or(place.line, |at| at.range.start.line) + 1;
            format!("`{}` (line {line})", self.locate(place).1)
        };
        join_some(places.iter().map(describe).collect())
    }
}

/// Asks the editor. One that does not answer once would not answer the questions that follow either.
async fn query(cx: &ToolContext, query: LanguageQuery) -> Result<LanguageAnswer, ToolError> {
    match request_answer(cx, query).await? {
        Err(error @ EditorError::Silent(_)) => fail_with_message(error.to_string()),
        answer => Ok(answer.unwrap_or_default()),
    }
}

/// Finds `name` as a whole word. In a name with `-`, as of CSS, that is a letter too.
fn find_name<'t>(text: &'t str, name: &str) -> Vec<Place<'t>> {
    let is_word = |letter| is_of_word(letter) || letter == '-' && name.contains('-');
    let (mut found, mut start) = (Vec::new(), 0);
    for (number, line) in (0..).zip(text.split_inclusive('\n')) {
        for (at, _) in line.match_indices(name) {
            let before = &line[..at];
            if !before.ends_with(is_word) && !line[at + name.len()..].starts_with(is_word) {
                found.push(Place {
                    line: number,
                    offset: start + at,
                    before,
                    ..Place::default()
                });
            }
        }
        start += line.len();
    }
    found
}

fn list_lines(places: &[Place<'_>]) -> String {
    let lines: BTreeSet<u32> = places.iter().map(|place| place.line + 1).collect();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", join_some(lines.iter().map(u32::to_string).collect()))
}

fn join_some(mut list: Vec<String>) -> String {
    list.dedup();
    let more = if list.len() > MAX_LISTED { ", …" } else { "" };
    list.truncate(MAX_LISTED);
    format!("{}{more}", list.join(", "))
}

#[cfg(test)]
#[path = "locate_symbol_tests.rs"]
mod tests;
