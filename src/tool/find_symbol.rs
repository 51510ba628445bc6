//! `find_symbol`: where a name is declared, in a file or in the workspace, by the editor's language servers (R-LANG).
//!
//! Must not search texts itself; that is what `grep` is for.

use schemars::JsonSchema;
use serde::Deserialize;

use super::language::{self, Place};
use super::output::refuse_input;
use super::symbol_path::{match_path, path_of, split_path};
use super::{
    EditorSymbol, LanguageQuery, LanguageQueryKind, Tool, ToolContext, ToolError, ToolOutput, files,
};
use crate::domain::{Effect, EffectKind};

/// Most symbols of a workspace that are asked for: servers match vaguely, and the best need not come first.
const MAX_ASKED: u32 = 500;

/// The `find_symbol` tool.
pub struct FindSymbol;

/// The arguments of `find_symbol`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindSymbolInput {
    /// The symbol's name, or its beginning. Without it, all symbols of `path` are listed.
    name: Option<String>,
    /// The file to look in. Default: the whole workspace, which needs a name.
    path: Option<String>,
}

impl Tool for FindSymbol {
    type Input = FindSymbolInput;

    const NAME: &'static str = "find_symbol";

    const READS_WORKSPACE: bool = true;

    const DESCRIPTION: &'static str = "Finds where functions, types, and other symbols are declared, through the \
        editor's language servers: in the workspace by name, or in one file, which also lists its symbols. Better than \
        grep for declarations; use grep if it finds nothing, since the servers may not know every file.";

    fn call_title(&self, input: &FindSymbolInput) -> String {
        match (&input.name, &input.path) {
            (Some(name), _) => files::format_title("Find symbol", name),
            (None, Some(path)) => files::format_title("Symbols of", path),
            (None, None) => "Find symbol".to_owned(),
        }
    }

    fn predict_effect(&self, input: &FindSymbolInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let target = cx
            .workspace
            .resolve_path(&cx.cwd, input.path.as_deref().unwrap_or("."))?;
        Ok(files::build_effect(EffectKind::Read, &[target]))
    }

    async fn run(&self, input: FindSymbolInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let name = input
            .name
            .as_deref()
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let query = match (&input.path, name) {
            (Some(path), _) => language::outline_query(language::open_target(&cx, path).await?.uri),
            (None, Some(name)) => LanguageQuery {
                kind: LanguageQueryKind::WorkspaceSymbols,
                uri: None,
                position: None,
                // Few servers know qualified names.
                text: Some(split_path(name).pop().unwrap_or_else(|| name.to_owned())),
                limit: MAX_ASKED,
            },
            (None, None) => return refuse_input("give a name, a path, or both"),
        };
        let mut found = language::query(&cx, query).await?.symbols;
        if input.path.is_none() {
            // What was not asked for by its path must be a file that the model may read.
            found.retain(|symbol| {
                let file = cx.workspace.resolve_path(&cx.cwd, &symbol.location.uri);
                file.is_ok_and(|file| file.inside && !file.secret)
            });
        }
        if let Some(name) = name {
            keep_best(&mut found, name);
        } else {
            found.sort_by_key(|symbol| symbol.location.range.start);
        }
        list_symbols(&cx, found).await
    }
}

/// Keeps the symbols whose names equal, begin with, or contain `name`, in what it says: the best kind that there is, in
/// order. If the servers do not say what contains a symbol, it is kept if there is no better one.
fn keep_best(found: &mut Vec<EditorSymbol>, name: &str) {
    let lower = |path: &[String]| -> Vec<String> { path.iter().map(|word| word.to_lowercase()).collect() };
    let given = split_path(name);
    let mut wanted = lower(&given);
    let wanted_name = wanted.pop().unwrap_or_default();
    let rank = |symbol: &EditorSymbol| {
        let path = path_of(symbol, found);
        let lower_path = lower(&path);
        let own = lower_path.last().cloned().unwrap_or_default();
        let rank = match () {
            () if path.last() == given.last() => 0,
            () if own.starts_with(&wanted_name) => 1,
            () if own.contains(&wanted_name) || symbol.name.contains(name) => 2,
            () => 4,
        };
        let asked = [&wanted[..], &[own]].concat();
        match match_path(&lower_path, &asked) {
            None if rank == 0 && lower_path.len() == 1 => 3,
            None if !wanted.is_empty() => 4,
            _ => rank,
        }
    };
    let ranks: Vec<u8> = found.iter().map(rank).collect();
    let best = ranks.iter().copied().min().unwrap_or_default();
    let mut ranks = ranks.into_iter();
    found.retain(|_| ranks.next() == Some(best) && best < 4);
    found.sort_by_key(|one| (one.location.uri.clone(), one.location.range.start));
}

async fn list_symbols(cx: &ToolContext, found: Vec<EditorSymbol>) -> Result<ToolOutput, ToolError> {
    let total = found.len();
    let places = found.into_iter().take(language::MAX_PLACES).map(|symbol| {
        let mut at = symbol.location.clone();
        at.range = symbol.selection.unwrap_or(at.range);
        Place {
            at,
            note: Some(language::describe_symbol(&symbol)),
        }
    });
    let mut text = language::format_places(cx, places.collect()).await?;
    if total == 0 {
        text.push_str("The language servers know no such symbol; try grep.\n");
    } else if total > language::MAX_PLACES {
        text.push_str(&format!(
            "[only the first {} of {total} are shown: give the name, or more of it]\n",
            language::MAX_PLACES
        ));
    }
    Ok(ToolOutput::text(text))
}
