//! `find_references`: all uses of a symbol, by the editor's language servers (R-LANG).
//!
//! Must not search texts itself; that is what `grep` is for.

use schemars::JsonSchema;
use serde::Deserialize;

use super::language;
use super::locate_symbol::locate_symbol;
use super::{LanguageQuery, LanguageQueryKind, Tool, ToolContext, ToolError, ToolOutput, files};
use crate::domain::{Effect, EffectKind};

/// The `find_references` tool.
pub struct FindReferences;

/// The arguments of `find_references`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindReferencesInput {
    /// The symbol's name as it stands in the file, such as `total` or `Cart.total`.
    symbol: String,
    /// A file that declares or uses the symbol.
    path: String,
    /// The line in that file where the symbol is meant. Needed only if the file has several of this name.
    line: Option<u32>,
    /// What to find: all uses (`references`), the calls of a function (`incoming_calls`), or the functions that
    /// it calls (`outgoing_calls`). Default: references.
    kind: Option<ReferenceKind>,
}

/// What to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReferenceKind {
    /// All uses.
    #[default]
    References,
    /// Where a function is called.
    IncomingCalls,
    /// The functions that a function calls.
    OutgoingCalls,
}

impl Tool for FindReferences {
    type Input = FindReferencesInput;

    const NAME: &'static str = "find_references";

    const READS_WORKSPACE: bool = true;

    const DESCRIPTION: &'static str = "Finds all uses of a symbol, or the calls of or in a function, with the function or \
        type that each is in, through the editor's language servers. Unlike grep, it leaves out other symbols of the same name, comments, and strings.";

    fn call_title(&self, input: &FindReferencesInput) -> String {
        files::format_title("References of", &input.symbol)
    }

    fn predict_effect(&self, input: &FindReferencesInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let target = cx.resolve_path(&input.path)?;
        Ok(files::build_effect(EffectKind::Read, &[target]))
    }

    async fn run(&self, input: FindReferencesInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let target = language::open_target(&cx, &input.path).await?;
        let (at, _) = locate_symbol(&cx, &target, &input.symbol, input.line).await?;
        let limit = language::MAX_PLACES + 1;
        let (kind, noun) = match input.kind.unwrap_or_default() {
            ReferenceKind::References => (LanguageQueryKind::References, "reference"),
            ReferenceKind::IncomingCalls => (LanguageQueryKind::IncomingCalls, "call"),
            ReferenceKind::OutgoingCalls => (LanguageQueryKind::OutgoingCalls, "called function"),
        };
        let most = u32::try_from(limit).unwrap_or(u32::MAX);
        let query = LanguageQuery::new(kind, target.uri, Some(at), most);
        let found = language::query(&cx, query).await?.locations;
        let is_cut = found.len() >= limit;
        let (mut text, places, files) = language::list_locations(&cx, found).await?;
        text.push_str(&match (places, is_cut) {
            (0, _) => format!("The language servers report no {noun}s; try grep.\n"),
            (1, _) => format!("[1 {noun}]\n"),
            (_, true) => format!("[there are more than these {places} {noun}s; grep finds the rest]\n"),
            (_, false) if files == 1 => format!("[{places} {noun}s in 1 file]\n"),
            (_, false) => format!("[{places} {noun}s in {files} files]\n"),
        });
        Ok(ToolOutput::text(text))
    }
}
